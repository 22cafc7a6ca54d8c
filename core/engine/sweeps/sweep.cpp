// Axes, the runs of their grid, and the file of all results.
#include "core/engine/sweeps/sweep.h"

#include <algorithm>
#include <cmath>

#include "core/engine/inspection/observer.h"
#include "core/engine/observation/run_numbers.h"
#include "core/engine/training/objective.h"
#include "core/engine/training/trainer.h"
#include "core/engine/training/training_run.h"
#include "core/io/csv.h"
#include "core/io/error.h"
#include "core/io/json.h"
#include "core/io/named.h"
#include "core/io/number_text.h"
#include "core/io/wording.h"

namespace afterglow {
namespace {

constexpr std::size_t max_values = 4096;  // of one axis
constexpr std::size_t max_runs = 1 << 20;
constexpr const char* how_to_write =
    "; an axis is FIELD=a,b,c, FIELD=lin:FIRST:LAST:COUNT or FIELD=log:FIRST:LAST:COUNT";

/// Splits at separators outside of brackets and quotes.
std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  int depth = 0;
  bool is_quoted = false;
  for (const char c : text) {
    if (c == '"') is_quoted = !is_quoted;
    if (!is_quoted) depth += (c == '[' || c == '{') - (c == ']' || c == '}');
    if (c == separator && depth == 0 && !is_quoted) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

/// Six digits are enough for a value on an axis, and easier to read than seventeen.
std::string place_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return shortest(*parse_number(text));
}

std::vector<std::string> spread(const std::string& spec, bool is_logarithmic, const std::string& where) {
  const std::vector<std::string> parts = split(spec, ':');
  std::vector<double> numbers;
  for (std::size_t i = 1; i < parts.size(); ++i) numbers.push_back(parse_number(parts[i]).value_or(NAN));
  if (numbers.size() != 3 || std::ranges::any_of(numbers, [](double number) { return !std::isfinite(number); }))
    throw UsageError(where, ": expected first, last and count after ", parts[0], how_to_write);
  const double first = numbers[0], last = numbers[1], count = numbers[2];
  if (!(count >= 1 && count <= static_cast<double>(max_values)) || count != std::floor(count))
    throw UsageError(where, ": the count is a whole number from 1 to ", max_values);
  if (is_logarithmic && !(first > 0 && last > 0))
    throw UsageError(where, ": a logarithmic axis has positive ends; write lin: for others");
  std::vector<std::string> values;
  for (int i = 0; i < static_cast<int>(count); ++i) {
    const double share = count > 1 ? i / (count - 1) : 0;
    values.push_back(
        place_text(is_logarithmic ? first * std::pow(last / first, share) : first + share * (last - first)));
  }
  return values;
}

/// "model.blocks.0.mixer.d_state" and so on: every value in the recipe that is no list or object.
void add_fields(const json& part, const std::string& path, std::vector<std::string>& fields) {
  if (!part.is_structured()) {
    fields.push_back(path);
    return;
  }
  std::size_t index = 0;
  for (const auto& [key, value] : part.items()) {
    add_fields(value, path + "." + (part.is_array() ? std::to_string(index) : key), fields);
    ++index;
  }
}

std::vector<std::string> fields_of(const Recipe& recipe, const std::vector<Setting>& settings) {
  std::vector<std::string> fields = names_of(settings, &Setting::key);
  fields.emplace_back(seed_field);
  for (const auto& [key, value] : recipe.task.items()) fields.push_back(key);  // "task." may be omitted
  add_fields(recipe.task, "task", fields);
  add_fields(recipe.model, "model", fields);
  return fields;
}

void check_recipe(const Recipe& recipe) {
  ParameterStore declared;
  make_objective(recipe, declared);
}

/// A field that the recipe omits may still exist with a default: the part that reads it decides.
void check_axis(const Recipe& recipe, const SweepAxis& axis, const std::vector<Setting>& settings) {
  const std::vector<std::string> fields = fields_of(recipe, settings);
  const bool is_known = std::ranges::find(fields, axis.field) != fields.end();
  for (const std::string& value : axis.values) {
    const std::string where = "--axis " + axis.field;
    try {
      const Recipe changed = changed_recipe(recipe, {axis.field + "=" + value}, "recipe");
      if (is_layer_setting(axis.field)) check_setting(settings, axis.field, parse_number(value).value_or(NAN));
      if (!find_setting(axis.field)) check_recipe(changed);
    } catch (const Error& error) {
      if (is_known) throw UsageError(where, ", value ", in_quotes(value), ": ", error.what());
      throw UsageError(where, ": the recipe has no such field", which_there_are(axis.field, fields));
    }
  }
}

std::vector<std::string> assignments_at(const std::vector<SweepAxis>& axes, std::size_t row) {
  const std::vector<std::size_t> place = place_of(axes, row);
  std::vector<std::string> assignments;
  for (std::size_t i = 0; i < axes.size(); ++i) assignments.push_back(axes[i].field + "=" + axes[i].values[place[i]]);
  return assignments;
}

}  // namespace

SweepAxis parse_axis(const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::string where = "--axis " + text;
  if (equals == std::string::npos || equals == 0) throw UsageError(where, ": no field", how_to_write);
  SweepAxis axis{text.substr(0, equals), {}};
  const std::string spec = text.substr(equals + 1);
  axis.is_logarithmic = spec.starts_with("log:");
  if (axis.is_logarithmic || spec.starts_with("lin:")) {
    axis.values = spread(spec, axis.is_logarithmic, where);
  } else {
    axis.values = split(spec, ',');
  }
  for (auto value = axis.values.begin(); value != axis.values.end(); ++value) {
    if (value->empty()) throw UsageError(where, ": a value is missing", how_to_write);
    if (std::find(axis.values.begin(), value, *value) != value)
      throw UsageError(where, ": the value ", *value, " is given twice");
  }
  return axis;
}

SweepAxis seed_axis(const Recipe& recipe, int seeds) {
  SweepAxis axis{seed_field, {}};
  for (int i = 0; i < seeds; ++i) axis.values.push_back(std::to_string(recipe.seed + static_cast<std::uint64_t>(i)));
  return axis;
}

std::vector<PlannedRun> runs_of(const Recipe& recipe, const std::vector<SweepAxis>& axes, const Inquiry& inquiry) {
  std::vector<std::string> fields;
  std::size_t count = 1;
  for (const SweepAxis& axis : axes) {
    if (std::ranges::find(fields, axis.field) != fields.end())
      throw UsageError("--axis ", axis.field, ": this field is an axis already");
    fields.push_back(axis.field);
    count *= axis.values.size();
    if (count > max_runs) throw UsageError("the axes give more than ", max_runs, " runs; take fewer values");
  }
  const std::vector<Setting> settings = settings_of(recipe);
  for (const SweepAxis& axis : axes) check_axis(recipe, axis, settings);
  const bool builds_models = !std::ranges::all_of(
      fields, [](const std::string& field) { return find_setting(field) || is_layer_setting(field); });
  std::vector<PlannedRun> runs;
  for (std::size_t row = 0; row < count; ++row) {
    const std::vector<std::string> assignments = assignments_at(axes, row);
    PlannedRun run{row, changed_recipe(recipe, assignments, "recipe"), ""};
    if (builds_models) check_recipe(run.recipe);
    run.name = hash_of(run.recipe, inquiry);
    runs.push_back(std::move(run));
  }
  return runs;
}

std::size_t find_metric(const std::vector<RunMetric>& metrics, const std::string& name) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    if (!name.empty() && metrics[i].name.starts_with(name)) return i;
    names.push_back(metrics[i].name);
  }
  throw UsageError("no number ", in_quotes(name), " is measured", which_there_are(name, names));
}

void write_sweep_csv(const std::filesystem::path& path, const SweepView& sweep, const std::vector<PlannedRun>& runs) {
  std::vector<std::vector<std::string>> places(sweep.axes.size());
  std::vector<std::vector<double>> values(sweep.metrics.size());
  std::vector<std::string> names, checksums;
  for (const RunResult& result : sweep.results) {
    const std::vector<std::size_t> place = place_of(sweep.axes, result.row);
    for (std::size_t i = 0; i < place.size(); ++i) places[i].push_back(sweep.axes[i].values[place[i]]);
    for (std::size_t i = 0; i < values.size(); ++i) values[i].push_back(result.values[i]);
    names.push_back(runs[result.row].name);
    checksums.push_back(result.checksum);
  }
  std::vector<CsvColumn> columns;
  for (std::size_t i = 0; i < places.size(); ++i) columns.push_back({sweep.axes[i].field, places[i]});
  for (std::size_t i = 0; i < values.size(); ++i) columns.push_back({heading_of(sweep.metrics[i]), values[i]});
  columns.push_back({"checksum", checksums});
  columns.push_back({"run", names});
  write_csv(path, columns, Existing::replace_in_folder);
}

namespace {

double number_at(const std::vector<const RunResult*>& finished, std::size_t place, std::size_t metric) {
  const double value = finished[place]->values[metric];
  return std::isfinite(value) ? value : 0;
}

constexpr std::int64_t held_out_examples = 256;

RunSpectrum spectrum_of(SlowestHead slowest, const Trainer& trainer) {
  if (slowest.layer < 0) return {};
  const std::string& layer = trainer.parts()[static_cast<std::size_t>(slowest.layer)].label;
  return {layer + " · head " + std::to_string(slowest.head), std::move(slowest.eigenvalues)};
}

RunAnswer answer_at_end(TrainingRun& run) {
  const RunCurves curves = run.curves();
  Spectra spectra;
  double accuracy = unknown;
  if (run.failure().empty()) {
    accuracy = run.trainer().evaluate(held_out_examples);
    if (run.trainer().forecast() == nullptr) {
      Observer observer(run.trainer());
      observer.choose(0);
      spectra = *observer.spectra(nullptr);
    }
  }
  SlowestHead slowest = slowest_head(spectra);
  return {{mean_of_last(curves.loss, loss_steps), accuracy, steps_to_ninety_percent(curves), slowest.half_life,
           largest_kappa(spectra), !run.failure().empty() || has_diverged(curves) ? 1.0 : 0.0,
           static_cast<double>(run.step())},
          spectrum_of(std::move(slowest), run.trainer())};
}

}  // namespace

std::size_t next_place(const SweepView& sweep, std::size_t metric) {
  const std::size_t columns = sweep.axes[0].values.size(), rows = sweep.axes[1].values.size();
  std::vector<const RunResult*> finished(columns * rows, nullptr);
  for (const RunResult& result : sweep.results) finished[result.row] = &result;
  std::size_t stride = 1;
  while (2 * stride < std::max(columns, rows)) stride *= 2;
  for (; stride > 0; stride /= 2) {
    std::size_t best = columns * rows;
    double most = -1;
    for (std::size_t column = 0; column < columns; column += stride) {
      for (std::size_t row = 0; row < rows; row += stride) {
        if (finished[column * rows + row] != nullptr) continue;
        double low = INFINITY, high = -INFINITY;
        for (const std::size_t c : {column - std::min(stride, column), column, column + stride}) {
          for (const std::size_t r : {row - std::min(stride, row), row, row + stride}) {
            if (c >= columns || r >= rows || finished[c * rows + r] == nullptr) continue;
            low = std::min(low, number_at(finished, c * rows + r, metric));
            high = std::max(high, number_at(finished, c * rows + r, metric));
          }
        }
        const double difference = std::max(0.0, high - low);
        if (difference <= most) continue;
        most = difference;
        best = column * rows + row;
      }
    }
    if (best < columns * rows) return best;
  }
  return columns * rows;
}

Inquiry sweep_inquiry(const MeasureNames& names, double enough) {
  std::string quality = names.quality;
  return {"",
          {{"loss", names.loss_unit},
           {quality, "", quality == "accuracy"},
           {"steps to 90 %", "steps"},
           {"half-life", "tokens"},
           {"kappa", ""},
           {"diverged", "", true},
           {"trained", "steps"}},
          answer_at_end,
          {enough}};
}

}  // namespace afterglow
