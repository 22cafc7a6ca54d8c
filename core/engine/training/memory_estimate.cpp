// A trainer on a device that only counts.
#include "core/engine/training/memory_estimate.h"

#include "core/backend/measuring_backend.h"
#include "core/engine/training/trainer.h"

namespace afterglow {

namespace {

constexpr int steps_until_all_is_reserved = 3;  // the third is recorded

/// Such a training holds far less than a gigabyte; counting takes about as long as its first steps.
bool is_surely_small(const ParameterStore& store, std::int64_t tokens) {
  const auto tensors = static_cast<std::int64_t>(store.all().size());
  return store.count() < (std::int64_t{1} << 23) && tokens * tensors < (std::int64_t{1} << 19);
}

}  // namespace

std::size_t training_bytes(const Recipe& recipe, Backend& device) {
  MeasuringBackend counter(device);
  {
    Trainer trainer(recipe, counter, DType::f32, [](const ParameterStore&) {});
    for (int i = 0; i < steps_until_all_is_reserved; ++i) trainer.step();
  }
  return counter.peak_bytes();
}

void require_training_memory(const Recipe& recipe, const ParameterStore& store, std::int64_t tokens, Backend& device) {
  if (!is_surely_small(store, tokens)) device.require_free([&] { return training_bytes(recipe, device); });
}

}  // namespace afterglow
