// Sums of what is kept, and the comparison.
#include "core/engine/soak.h"

#include <cmath>
#include <cstdio>

namespace afterglow {

namespace {

constexpr std::int64_t mebibyte = std::int64_t{1} << 20;
constexpr std::int64_t host_allowance = 16 * mebibyte, gpu_allowance = 64 * mebibyte;

std::size_t values_in(const RunCurves& curves) {
  std::size_t count = curves.held_out_step.size + curves.held_out_accuracy.size;
  for (const PublishedCurve* curve :
       {&curves.loss, &curves.accuracy, &curves.learning_rate, &curves.gradient_norm, &curves.tokens_per_second})
    count += curve->size;
  for (const NamedCurve& curve : curves.layer_gradient_norms) count += curve.values.size;
  return count;
}

}  // namespace

std::int64_t kept_bytes_of(const Observation& observation) {
  std::size_t values = 0;
  for (const RunCurves& run : observation.runs) values += values_in(run);
  return observation.history_bytes + static_cast<std::int64_t>(values * sizeof(double));
}

std::string memory_text(std::int64_t bytes, bool signs) {
  const double size = static_cast<double>(bytes) / static_cast<double>(mebibyte);
  const bool is_large = std::abs(size) >= 1024;
  char text[48];
  std::snprintf(text, sizeof text, signs ? "%+.1f %s" : "%.1f %s", is_large ? size / 1024 : size,
                is_large ? "GiB" : "MiB");
  return text;
}

SoakVerdict judge_soak(const std::vector<SoakSample>& samples) {
  if (samples.size() < 3) return {false, "too short: no two moments after the first minute to compare"};
  const SoakSample &first = samples[1], &last = samples.back();
  const std::int64_t host = (last.host_bytes - last.kept_bytes) - (first.host_bytes - first.kept_bytes);
  const std::int64_t device = last.device_bytes - first.device_bytes, gpu = last.gpu_bytes - first.gpu_bytes;
  const bool passed = host <= host_allowance && device <= 0 && gpu <= gpu_allowance && last.step > first.step;
  char span[64];
  std::snprintf(span, sizeof span, "%.0f s and %lld steps", last.seconds - first.seconds,
                static_cast<long long>(last.step - first.step));
  std::string text = std::string(passed ? "memory stayed" : "memory grew") + " over " + span + ": host " +
                     memory_text(host, true) + " beyond what is kept, back end " + memory_text(device, true);
  if (last.gpu_bytes > 0) text += ", whole GPU " + memory_text(gpu, true);
  if (last.step <= first.step) text = "training stopped at step " + std::to_string(last.step);
  return {passed, text};
}

}  // namespace afterglow
