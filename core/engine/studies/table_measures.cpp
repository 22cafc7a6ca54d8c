// To add a measure, add a line to the list of measures.
#include "core/engine/studies/table_measures.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "core/engine/observation/run_numbers.h"
#include "core/engine/studies/recipe_run.h"
#include "core/engine/training/forecast_objective.h"
#include "core/engine/training/training_run.h"
#include "core/io/error.h"
#include "core/io/wording.h"
#include "core/tasks/task.h"

namespace afterglow {

namespace {

using nlohmann::json;

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

const Measure& find_measure(const std::string& name, const std::string& where) {
  std::vector<std::string> names;
  for (const Measure& measure : measures) {
    if (measure.name == name) return measure;
    names.emplace_back(measure.name);
  }
  throw Error(ExitCode::bad_input, where + ": there is no measure " + in_quotes(name) + which_there_are(name, names));
}

}  // namespace

std::function<std::vector<double>(TrainingRun& run)> measures_of(const std::vector<json>& metrics,
                                                                 const std::string& where) {
  std::vector<const Measure*> asked;
  for (const json& metric : metrics) asked.push_back(&find_measure(metric.at("measure"), where));
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

}  // namespace afterglow
