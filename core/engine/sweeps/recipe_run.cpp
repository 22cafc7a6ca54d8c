// A run step by step, and its files in a folder.
#include "core/engine/sweeps/recipe_run.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "core/engine/training/saved/saved_run.h"
#include "core/io/checksum.h"
#include "core/io/claim.h"
#include "core/io/json.h"
#include "core/io/json_file.h"
#include "core/io/named.h"
#include "core/io/number_text.h"
#include "core/recipe/recipe.h"

namespace afterglow {
namespace {

constexpr std::size_t sketch_points = 64;
json numbers_json(const std::vector<double>& numbers) {
  json list = json::array();
  for (const double number : numbers) list.push_back(json_number(number));
  return list;
}

/// Reads what json_number wrote.
double number_of(const json& number) {
  if (number.is_string()) return parse_number(number.get<std::string>()).value_or(unknown);
  return number.is_number() ? number.get<double>() : unknown;
}

std::vector<double> numbers_of(const json& object, const char* key) {
  return mapped(object.value(key, json::array()), number_of);
}

std::vector<double> copied(const Values& values) {
  const std::span<const double> all = values.span();
  return {all.begin(), all.end()};
}

TrainingSketch sketch_of(const RunCurves& curves) {
  TrainingSketch sketch{{}, {}, copied(curves.held_out_step), copied(curves.held_out_accuracy)};
  const std::size_t steps = curves.loss.size(), points = std::min(steps, sketch_points);
  for (std::size_t i = 0, from = 0; i < points; ++i) {
    const std::size_t until = steps * (i + 1) / points;
    double sum = 0;
    for (std::size_t s = from; s < until; ++s) sum += curves.loss[s];
    sketch.step.push_back(static_cast<double>(curves.first_step) + static_cast<double>(until) - 1);
    sketch.loss.push_back(sum / static_cast<double>(until - from));
    from = until;
  }
  return sketch;
}

json to_json(const TrainingSketch& sketch) {
  return {{"step", numbers_json(sketch.step)},
          {"loss", numbers_json(sketch.loss)},
          {"held_out_step", numbers_json(sketch.held_out_step)},
          {"held_out_accuracy", numbers_json(sketch.held_out_accuracy)}};
}

TrainingSketch parse_sketch(const json& curve) {
  TrainingSketch sketch{numbers_of(curve, "step"), numbers_of(curve, "loss"), numbers_of(curve, "held_out_step"),
                        numbers_of(curve, "held_out_accuracy")};
  const bool is_whole =
      sketch.step.size() == sketch.loss.size() && sketch.held_out_step.size() == sketch.held_out_accuracy.size();
  return is_whole ? sketch : TrainingSketch();
}

json to_json(const RunSpectrum& spectrum) {
  std::vector<double> real, imaginary;
  for (const std::complex<double>& lambda : spectrum.eigenvalues) {
    real.push_back(lambda.real());
    imaginary.push_back(lambda.imag());
  }
  return {{"head", spectrum.head}, {"real", numbers_json(real)}, {"imaginary", numbers_json(imaginary)}};
}

RunSpectrum parse_spectrum(const json& file) {
  RunSpectrum spectrum{file.value("head", std::string()), {}};
  const std::vector<double> real = numbers_of(file, "real"), imaginary = numbers_of(file, "imaginary");
  if (real.size() != imaginary.size()) return {};
  for (std::size_t i = 0; i < real.size(); ++i) spectrum.eigenvalues.emplace_back(real[i], imaginary[i]);
  return spectrum;
}

std::string hash_of(std::string text, const Enough& enough) {
  if (std::isfinite(enough.accuracy)) text += json(enough.accuracy).dump();
  if (enough.evaluations > 1) text += "x" + std::to_string(enough.evaluations);
  return hex16(checksum(std::as_bytes(std::span(text))));
}

}  // namespace

Recipe training_of(Recipe recipe) {
  std::erase_if(recipe.commands, [](const TimedCommand& timed) { return !changes_training(timed.command); });
  recipe.shown_step = -1;
  recipe.inspected = {};
  return recipe;
}

std::string hash_of(const Recipe& recipe, const Inquiry& inquiry) {
  return hash_of(without_words(json::parse(carried_text(recipe))).dump(), inquiry.enough);
}

RecipeRun::RecipeRun(const Inquiry& inquiry, PlannedRun planned, Backend& backend, const std::optional<Snapshot>& begun)
    : inquiry_(&inquiry),
      planned_(std::move(planned)),
      run_(std::make_unique<TrainingRun>(SavedRun{planned_.recipe, begun}, backend, 0)) {}

RecipeRun::~RecipeRun() = default;

bool RecipeRun::train_step() { return !run_->finished() && !is_good_enough() && run_->train_step(); }

bool RecipeRun::is_good_enough() const {
  const std::int64_t every = run_->trainer().config().evaluate_every;
  const auto& [enough, evaluations] = inquiry_->enough;
  if (std::isinf(enough) || every == 0 || run_->step() % every != 0) return false;
  const RunCurves curves = run_->curves();
  const std::span<const double> all = curves.held_out_accuracy.span();
  const auto asked = static_cast<std::size_t>(evaluations);
  return all.size() >= asked &&
         std::ranges::all_of(all.last(asked), [least = enough](double accuracy) { return accuracy >= least; });
}

std::int64_t RecipeRun::step() const { return run_->step(); }

const std::string& RecipeRun::failure() const { return run_->failure(); }

std::vector<double> RecipeRun::losses_from(std::int64_t step) const {
  const RunCurves curves = run_->curves();
  const std::span<const double> all = curves.loss.span();
  const auto before = static_cast<std::size_t>(std::max<std::int64_t>(0, step - curves.first_step));
  const std::span<const double> rest = all.subspan(std::min(before, all.size()));
  return {rest.begin(), rest.end()};
}

RunResult RecipeRun::result() {
  const TrainingSketch sketch = sketch_of(run_->curves());
  if (failure().empty()) run_->go_to(run_->chosen_step());
  Trainer& trainer = run_->trainer();
  RunAnswer answer = inquiry_->measure(*run_);
  return {planned_.row,
          planned_.recipe.seed,
          trainer.parameters().count(),
          trainer.checksum(),
          std::move(answer.values),
          sketch,
          std::move(answer.spectrum)};
}

Snapshot RecipeRun::snapshot() const { return run_->snapshot(); }

std::optional<RunResult> ResultFolder::read(const PlannedRun& run) const {
  if (!std::filesystem::exists(result_file(run))) return std::nullopt;
  const json file = read_json(result_file(run));
  if (without_words(file.value("recipe", json())) != without_words(to_json(run.recipe))) return std::nullopt;
  RunResult result{
      run.row, run.recipe.seed, file.value("parameters", std::int64_t{0}), file.value("checksum", std::string()), {}};
  const json metrics = file.value("metrics", json::object());
  for (const RunMetric& metric : inquiry_->metrics) {
    if (!metrics.contains(metric.name)) return std::nullopt;
    result.values.push_back(number_of(metrics[metric.name]));
  }
  result.sketch = parse_sketch(file.value("curve", json::object()));
  result.spectrum = parse_spectrum(file.value("spectrum", json::object()));
  return result;
}

void ResultFolder::write(const PlannedRun& run, const RunResult& result) const {
  json metrics = json::object();
  for (std::size_t i = 0; i < inquiry_->metrics.size(); ++i)
    metrics[inquiry_->metrics[i].name] = json_number(result.values[i]);
  json file = {{"recipe", to_json(run.recipe)},
               {"parameters", result.parameters},
               {"checksum", result.checksum},
               {"metrics", metrics},
               {"curve", to_json(result.sketch)}};
  if (!result.spectrum.eigenvalues.empty()) file["spectrum"] = to_json(result.spectrum);
  if (!inquiry_->table.empty()) file["table"] = inquiry_->table;
  write_json(result_file(run), file);
  std::error_code ignored;  // once the result exists, no runner reads the snapshot
  std::filesystem::remove(snapshot_file(run), ignored);
}

std::optional<Snapshot> ResultFolder::begun(const PlannedRun& run) const {
  if (!std::filesystem::exists(snapshot_file(run))) return std::nullopt;
  try {
    Snapshot snapshot = read_snapshot(snapshot_file(run));
    Recipe recipe = snapshot.recipe;
    recipe.shown_step = run.recipe.shown_step;
    if (without_words(to_json(recipe)) == without_words(to_json(run.recipe))) return snapshot;
  } catch (const Error&) {
    // A snapshot only saves time: without it the run starts again.
  }
  return std::nullopt;
}

void ResultFolder::adopt(const PlannedRun& run) const {
  const std::string former = hash_of(carried_text(run.recipe), inquiry_->enough);
  for (const char* ending : {".json", ".safetensors"}) {
    std::error_code ignored;  // no such file, or another process has renamed it
    const std::filesystem::path file = path_ / (run.name + ending);
    if (!std::filesystem::exists(file)) std::filesystem::rename(path_ / (former + ending), file, ignored);
  }
}

void ResultFolder::tidy(const PlannedRun& run) const {
  if (!std::filesystem::exists(claim_file(run)) && !std::filesystem::exists(snapshot_file(run))) return;
  const std::optional<Claim> claim = Claim::take(claim_file(run));
  std::error_code ignored;
  if (claim) std::filesystem::remove(snapshot_file(run), ignored);
}

bool ResultFolder::knows(const PlannedRun& run) const {
  return std::filesystem::exists(result_file(run)) || std::filesystem::exists(claim_file(run)) ||
         std::filesystem::exists(snapshot_file(run));
}

void ResultFolder::forget(const PlannedRun& run) const {
  std::filesystem::remove(result_file(run));
  std::filesystem::remove(snapshot_file(run));
}

}  // namespace afterglow
