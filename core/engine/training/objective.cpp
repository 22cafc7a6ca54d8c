// The memory of training that both kinds of objectives may have, and the choice of the kind.
#include "core/engine/training/objective.h"

#include <algorithm>

#include "core/engine/training/forecast_objective.h"
#include "core/engine/training/pinned_array.h"
#include "core/io/error.h"
#include "core/layers/spectral_memory.h"

namespace afterglow {
namespace {

constexpr std::string_view scope = "memory.";

}  // namespace

void Objective::keep(Backend& backend, DType dtype, std::span<const double> summary) {
  if (memory_ == nullptr) return;
  memory_->append(summary);
  if (memory_->refresh(backend, dtype)) has_changed_ = true;
}

TrainingMemory Objective::memory() const {
  if (memory_ == nullptr) return {};
  return {memory_->history().appended(), memory_->history().values()};
}

std::vector<Setting> Objective::settings() const {
  std::vector<Setting> all;
  if (memory_ == nullptr) return all;
  for (const LayerSetting& own : memory_->settings())
    all.push_back({std::string(scope) + own.key, "memory " + own.label, "", own.meaning, own.field.value, own.minimum,
                   own.maximum, 0, own.logarithmic, own.field.integer});
  return all;
}

bool Objective::set(std::string_view key, double value) {
  if (memory_ == nullptr || !key.starts_with(scope)) return false;
  memory_->set(key.substr(scope.size()), value);
  return true;
}

void Objective::restore_memory(Backend& backend, DType dtype, const TrainingMemory& memory, std::int64_t step) {
  if (memory_ == nullptr) return;
  const SpectralMemoryConfig& config = memory_->config();
  const std::int64_t appended = memory_->appended_after(step), wanted = std::min(appended, config.depth) * config.width;
  if (memory.appended != appended || static_cast<std::int64_t>(memory.rows.size()) != wanted)
    throw BadInput("the memory of training holds ", memory.rows.size(), " numbers of ", memory.appended,
                   " steps, but after ", step, " steps it has ", wanted,
                   "; the file was changed by hand or is damaged");
  memory_->assign(memory.rows, memory.appended);
  if (memory_->refresh(backend, dtype)) has_changed_ = true;
}

std::unique_ptr<Objective> make_objective(const Recipe& recipe, ParameterStore& store) {
  std::unique_ptr<Task> task = make_task(recipe.task);
  const bool of_numbers = task->windows() != nullptr;
  if (of_numbers != is_forecaster(recipe.model))
    throw Error(
        ExitCode::bad_input,
        of_numbers
            ? "the task forecast needs a model that forecasts; set model.kind to spectral_memory or dlinear"
            : "this model forecasts series, but the task " + task->name() + " has tokens; take the task forecast");
  if (of_numbers && recipe.recompute > 0)
    throw BadInput("recompute: not available for a model that forecasts; leave the field out");
  if (of_numbers) return std::make_unique<ForecastObjective>(recipe, std::move(task), store);
  return make_token_objective(recipe, std::move(task), store);
}

std::int64_t parameter_count(const Recipe& recipe) {
  ParameterStore declared;
  make_objective(recipe, declared);
  return declared.count();
}

void AnswerCount::add(Backend& backend, const CrossEntropy& result) {
  std::int32_t correct = 0, counted = 0;
  backend.download(&correct, result.correct);
  backend.download(&counted, result.counted);
  right += correct;
  asked += counted;
}

double number_of(const PinnedArray& array, std::int64_t i) {
  return array.device().dtype == DType::f64 ? array.host<double>()[i] : array.host<float>()[i];
}

}  // namespace afterglow
