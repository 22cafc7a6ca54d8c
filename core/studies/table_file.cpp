// A table file holds templates of rows and metrics, which lists of words fill.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <vector>

#include "core/engine/observation/run_numbers.h"
#include "core/engine/sweeps/recipe_run.h"
#include "core/engine/training/forecast_objective.h"
#include "core/engine/training/training_run.h"
#include "core/io/error.h"
#include "core/io/json.h"
#include "core/io/json_file.h"
#include "core/io/named.h"
#include "core/studies/table.h"
#include "core/tasks/task.h"

namespace afterglow {
namespace {

/// One metric of one run.
class Question {
 public:
  using Answers = std::map<std::string, std::vector<double>>;

  /// `answers` caches measurements of the run.
  Question(const json& metric, TrainingRun& of, Answers& answers)
      : run(of), metric_(metric), examples_(metric.at("examples")), answers_(answers) {}

  /// Whether the metric applies to the run's task.
  bool applies() const { return !metric_.contains("only") || run.recipe().task["kind"] == metric_["only"]; }

  double accuracy() { return metric_.contains("grid") ? mean_of_cells() : accuracy_on(requested_task()); }

  /// Accuracy, share among the five most likely, perplexity.
  AnswerScore answers() {
    const json task = requested_task();
    const std::vector<double>& found = once("answers", task, [&] {
      const AnswerScore score = run.trainer().answers(examples_, made(task).get());
      return std::vector{score.accuracy, score.among_five, score.perplexity};
    });
    return {found[0], found[1], found[2]};
  }

  ForecastScore forecast() {
    const std::vector<double>& found = once("forecast", {}, [&] {
      const ForecastScore score = run.trainer().score();
      return std::vector{score.mse, score.mae};
    });
    return {found[0], found[1]};
  }

  TrainingRun& run;

 private:
  template <class Measure>
  const std::vector<double>& once(const char* what, const json& task, const Measure& measure) {
    const auto [entry, is_new] = answers_.try_emplace(what + std::to_string(examples_) + task.dump());
    if (is_new) entry->second = measure();
    return entry->second;
  }

  /// The run's task with the metric's changes; null for the run's own.
  json requested_task() const {
    if (!metric_.contains("task")) return {};
    json task = run.recipe().task;
    // A lag beyond those of training needs sequences longer by the difference.
    if (metric_["task"].contains("lag")) {
      const auto room = metric_["task"]["lag"].get<std::int64_t>() - task["lag"].back().get<std::int64_t>();
      task["length"] = task["length"].get<std::int64_t>() + std::max<std::int64_t>(0, room);
    }
    task.update(metric_["task"]);
    return task;
  }

  static std::unique_ptr<Task> made(const json& task) { return task.is_null() ? nullptr : make_task(task); }

  double accuracy_on(const json& task) {
    return once("accuracy", task, [&] { return std::vector{run.trainer().evaluate(examples_, made(task).get())}; })[0];
  }

  /// Over the cells of a grid that fit, or of one cell; NaN if none fits.
  double mean_of_cells() {
    const json& grid = metric_["grid"];
    double sum = 0, count = 0;
    for (const EvalCell& cell : evaluation_grid(grid.at("task"), grid.at("bindings"), grid.at("lengths"))) {
      const bool is_asked = !grid.contains("cell") || grid["cell"] == json{cell.bindings, cell.length};
      if (!is_asked || !cell.fits()) continue;
      sum += accuracy_on(evaluation_config(grid["task"], cell));
      ++count;
    }
    return sum / count;
  }

  const json& metric_;
  std::int64_t examples_;
  Answers& answers_;
};

/// The best of the held-out evaluations and the one at the end.
double best_accuracy(Question& question) {
  double best = question.accuracy();
  const RunCurves curves = question.run.curves();
  for (const double accuracy : curves.held_out_accuracy.span()) best = std::max(best, accuracy);
  return best;
}

struct Measure {
  const char* name;
  double (*of)(Question&);
};
constexpr Measure measures[] = {
    {"accuracy", [](Question& question) { return question.accuracy(); }},
    {"best accuracy", best_accuracy},
    {"steps to 90 %", [](Question& question) { return steps_to_ninety_percent(question.run.curves()); }},
    {"trained steps", [](Question& question) { return static_cast<double>(question.run.step()); }},
    {"training loss", [](Question& question) { return mean_of_last(question.run.curves().loss, 100); }},
    {"held-out loss", [](Question& question) { return std::log(question.answers().perplexity); }},
    {"perplexity", [](Question& question) { return question.answers().perplexity; }},
    {"top-1", [](Question& question) { return question.answers().accuracy; }},
    {"top-5", [](Question& question) { return question.answers().among_five; }},
    {"MSE", [](Question& question) { return question.forecast().mse; }},
    {"MAE", [](Question& question) { return question.forecast().mae; }}};

/// Measures all metrics (assets/tables/README.md describes their fields) of a run that was trained to its end, one
/// number each; NaN without an answer. What several of them need is measured once. Throws Error(bad_input) that names
/// `where` for an unknown measure.
std::function<std::vector<double>(TrainingRun& run)> measures_of(const std::vector<json>& metrics,
                                                                 const std::string& where) {
  std::vector<const Measure*> asked;
  for (const json& metric : metrics)
    asked.push_back(&entry_named(measures, metric.at("measure").get<std::string>(), &Measure::name, ExitCode::bad_input,
                                 where + ": there is no measure "));
  return [metrics, asked](TrainingRun& run) {
    Question::Answers answers;
    std::vector<double> values;
    for (std::size_t m = 0; m < metrics.size(); ++m) {
      Question question(metrics[m], run, answers);
      values.push_back(question.applies() ? asked[m]->of(question) : unknown);
    }
    return values;
  };
}

json filled(const json& value, const json& words);

/// The value of "{word}", or the sum of "{word+word}".
json value_of(const std::string& expression, const json& words) {
  if (const std::size_t plus = expression.find('+'); plus != std::string::npos)
    return value_of(expression.substr(0, plus), words).get<std::int64_t>() +
           value_of(expression.substr(plus + 1), words).get<std::int64_t>();
  return filled(words.at(expression), words);
}

std::string plain_text(const json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

/// A text that is one "{word}" becomes the word's value, of whatever type; inside a longer text words become text.
json filled_text(const std::string& text, const json& words) {
  std::string result;
  std::size_t at = 0;
  for (std::size_t open; (open = text.find('{', at)) != std::string::npos;) {
    const std::size_t close = text.find('}', open);
    const json value = value_of(text.substr(open + 1, close - open - 1), words);
    if (open == 0 && close + 1 == text.size()) return value;
    result += text.substr(at, open - at) + plain_text(value);
    at = close + 1;
  }
  return result + text.substr(at);
}

json filled(const json& value, const json& words) {
  if (value.is_string()) return filled_text(value, words);
  json result = value;
  if (value.is_structured())
    for (json& part : result) part = filled(part, words);
  return result;
}

/// All entries that the templates in `field` generate, one for every combination of the lists' entries; the last list
/// varies fastest.
std::vector<json> expanded(const json& table, const char* field, const json& words) {
  std::vector<json> all;
  for (json entry : table.value(field, json::array())) {
    std::vector<json> combinations{words};
    for (const json& list : entry.value("for", json::array())) {
      std::vector<json> longer;
      for (const json& known : combinations) {
        for (const json& more : table.at("lists").at(list.get<std::string>())) longer.emplace_back(known).update(more);
      }
      combinations = std::move(longer);
    }
    entry.erase("for");
    for (const json& combination : combinations) all.push_back(filled(entry, combination));
  }
  return all;
}

/// Objects {"field": value}, one or several in order, as assignments "field=value".
std::vector<std::string> changes_of(const json& set) {
  std::vector<std::string> changes;
  for (const json& part : set.is_array() ? set : json::array({set})) {
    for (const auto& [field, value] : part.items()) changes.push_back(field + "=" + plain_text(value));
  }
  return changes;
}

RunMetric read_metric(const json& metric, const std::string& where) {
  refuse_unknown_keys(metric, {"name", "unit", "share", "group", "at", "measure", "examples", "only", "task", "grid"},
                      where);
  const json at = metric.value("at", json(0));
  return {metric.at("name"), metric.value("unit", ""), metric.value("share", false), metric.value("group", ""),
          at.is_null() ? unknown : at.get<double>()};
}

PublishedSeries read_published(const json& series, const std::vector<RunMetric>& metrics, const std::string& where) {
  refuse_unknown_keys(series, {"series", "x", "values"}, where);
  json values = series.at("values");
  PublishedSeries published{series.at("series"), {}, series.value("x", 0.0)};
  for (const RunMetric& metric : metrics) {
    published.values.push_back(values.value(metric.name, unknown));
    values.erase(metric.name);
  }
  refuse_unknown_keys(values, {}, where);
  return published;
}

Table read(const std::string& name, const json& file, const std::string& where) {
  refuse_unknown_keys(file,
                      {"title", "about", "paper", "x", "group", "seeds", "variants", "with_data", "enough",
                       "is_of_best", "words", "lists", "rows", "metrics", "published"},
                      where);
  const json words = file.value("words", json::object()), axis = file.at("x");
  const json group = file.value("group", json::object()), enough = file.value("enough", json::object());
  refuse_unknown_keys(axis, {"label", "unit", "logarithmic", "names"}, where + ", x");
  Table table;
  table.name = name;
  table.title = file.at("title");
  table.about = filled(file.at("about"), words);
  table.x_label = axis.at("label");
  table.x_unit = axis.value("unit", "");
  table.x_logarithmic = axis.value("logarithmic", false);
  table.x_names = axis.value("names", std::vector<std::string>());
  table.group_label = group.value("label", "");
  table.group_unit = group.value("unit", "");
  table.is_of_best = file.value("is_of_best", false);
  table.seeds = file.value("seeds", table.seeds);
  table.variants = file.value("variants", std::vector<std::string>());
  table.with_data = changes_of(filled(file.value("with_data", json::object()), words));
  table.enough = {enough.value("accuracy", table.enough.accuracy), enough.value("evaluations", 1)};
  for (const json& row : expanded(file, "rows", words)) {
    refuse_unknown_keys(row, {"series", "x", "preset", "set"}, where + ", rows");
    table.rows.push_back({row.at("series"), row.at("x"), row.at("preset"), changes_of(row.at("set"))});
  }
  std::vector<json> metrics = expanded(file, "metrics", words);
  for (json& metric : metrics) {
    table.metrics.push_back(read_metric(metric, where + ", metrics"));
    if (!metric.contains("examples")) metric["examples"] = words.value("examples", 0);
  }
  for (const json& series : expanded(file, "published", words))
    table.published.push_back(read_published(series, table.metrics, where + ", published"));
  table.measure = measures_of(metrics, where);
  return table;
}

/// The table with its other sizes, each of which is a patch of the file.
Table read_sizes(const EmbeddedText& text) {
  json file = parse_json(text.json, text.name);
  const json usual = [&] {
    json rest = file;
    rest.erase("small");
    rest.erase("large");
    return rest;
  }();
  Table table = read_table(text.name, usual);
  for (const auto& [size, make] : {std::pair{"small", &table.small}, {"large", &table.large}}) {
    if (!file.contains(size)) continue;
    json other = usual;
    other.merge_patch(file[size]);
    *make = [name = table.name + "_" + size, other] { return read_table(name, other); };
  }
  return table;
}

}  // namespace

const std::vector<Table>& tables() {
  static const std::vector<Table> all = mapped(table_texts(), read_sizes);
  return all;
}

Table read_table(const std::string& name, const json& file) {
  const std::string where = "table " + name;
  try {
    return read(name, file, where);
  } catch (const json::exception& error) {
    throw BadInput(where, ": ", error.what());
  }
}

}  // namespace afterglow
