// Sums of what is kept, and the comparison.
#include "tests/support/soak.h"

#include <cstdio>

#include "core/io/number_text.h"

namespace afterglow {

namespace {

constexpr std::int64_t mebibyte = std::int64_t{1} << 20;
constexpr std::int64_t host_allowance = 16 * mebibyte, gpu_allowance = 64 * mebibyte;

std::size_t values_in(const RunCurves& curves) {
  std::size_t count = curves.held_out_step.size() + curves.held_out_accuracy.size();
  for (const Values* curve : {&curves.loss, &curves.accuracy, &curves.learning_rate, &curves.gradient_norm})
    count += curve->size();
  for (const NamedCurve& curve : curves.layer_gradient_norms) count += curve.values.size();
  return count;
}

std::string change_text(std::int64_t bytes) { return (bytes < 0 ? "" : "+") + bytes_text(bytes); }

}  // namespace

std::int64_t kept_bytes_of(const Observation& observation) {
  std::size_t values = 0;
  for (const RunCurves& run : observation.runs) values += values_in(run);
  return observation.history_bytes + static_cast<std::int64_t>(values * sizeof(double));
}

SoakVerdict judge_soak(const std::vector<SoakSample>& samples) {
  if (samples.size() < 3)
    return {false, "too short: no two samples to compare after every analysis has been made once; take more seconds"};
  const SoakSample &first = samples[1], &last = samples.back();
  const std::int64_t host = (last.host_bytes - last.kept_bytes) - (first.host_bytes - first.kept_bytes);
  const std::int64_t device = last.device_bytes - first.device_bytes, gpu = last.gpu_bytes - first.gpu_bytes;
  const bool passed = host <= host_allowance && device <= 0 && gpu <= gpu_allowance && last.step > first.step;
  char span[64];
  std::snprintf(span, sizeof span, "%.0f s and %lld steps", last.seconds - first.seconds,
                static_cast<long long>(last.step - first.step));
  std::string text = std::string(passed ? "memory stayed" : "memory grew") + " over " + span + ": host " +
                     change_text(host) + " beyond what is kept, back end " + change_text(device);
  if (last.gpu_bytes > 0) text += ", whole GPU " + change_text(gpu);
  if (last.step <= first.step) text = "training stopped at step " + std::to_string(last.step);
  return {passed, text};
}

}  // namespace afterglow
