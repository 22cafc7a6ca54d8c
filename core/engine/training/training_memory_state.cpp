// Updates, saves and restores the memory of training.
#include "core/engine/training/training_memory_state.h"

#include <algorithm>
#include <utility>

#include "core/io/error.h"

namespace afterglow {

namespace {

constexpr std::string_view scope = "memory.";

}  // namespace

void TrainingMemoryState::keep(Backend& backend, DType dtype, std::span<const double> summary) {
  if (memory_ == nullptr) return;
  memory_->append(summary);
  if (memory_->refresh(backend, dtype)) has_changed_ = true;
}

bool TrainingMemoryState::take_change() { return std::exchange(has_changed_, false); }

TrainingMemory TrainingMemoryState::state() const {
  if (memory_ == nullptr) return {};
  return {memory_->history().appended(), memory_->history().values()};
}

std::vector<Setting> TrainingMemoryState::settings() const {
  std::vector<Setting> all;
  if (memory_ == nullptr) return all;
  for (const LayerSetting& own : memory_->settings()) {
    all.push_back({std::string(scope) + own.key, "memory " + own.label, "", own.meaning, own.value, own.minimum,
                   own.maximum, 0, own.logarithmic, own.integer});
  }
  return all;
}

bool TrainingMemoryState::set(std::string_view key, double value) {
  if (memory_ == nullptr || !key.starts_with(scope)) return false;
  memory_->set(key.substr(scope.size()), value);
  return true;
}

void TrainingMemoryState::restore(Backend& backend, DType dtype, const TrainingMemory& memory, std::int64_t step) {
  if (memory_ == nullptr) return;
  const SpectralMemoryConfig& config = memory_->config();
  const std::int64_t wanted = std::min(step, config.depth) * config.width;
  if (memory.appended != step || static_cast<std::int64_t>(memory.rows.size()) != wanted) {
    throw Error(ExitCode::bad_input, "the memory of training holds " + std::to_string(memory.rows.size()) +
                                         " numbers of " + std::to_string(memory.appended) + " steps, but after " +
                                         std::to_string(step) + " steps it has " + std::to_string(wanted) +
                                         "; the file was changed by hand or is damaged");
  }
  memory_->assign(memory.rows, memory.appended);
  if (memory_->refresh(backend, dtype)) has_changed_ = true;
}

}  // namespace afterglow
