// Runs a trainer on a device that only counts.
#include "core/engine/training/memory_estimate.h"

#include "core/backend/measuring_backend.h"
#include "core/engine/training/trainer.h"

namespace afterglow {

TrainingMemoryNeed training_memory_need(const Recipe& recipe, Backend& device) {
  MeasuringBackend counter(device);
  Trainer trainer(recipe, counter, DType::f32, [](const ParameterStore&) {});
  const std::size_t reserved = counter.held_bytes();
  for (int i = 0; i < RecordedWork::runs_until_recorded; ++i) trainer.step();
  return {reserved, counter.peak_bytes()};
}

bool is_surely_small(const ParameterStore& store, std::int64_t tokens) {
  const auto tensors = static_cast<std::int64_t>(store.all().size());
  return store.count() < (std::int64_t{1} << 23) && tokens * tensors < (std::int64_t{1} << 19);
}

}  // namespace afterglow
