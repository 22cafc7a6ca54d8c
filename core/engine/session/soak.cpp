// Sums of what is kept, and the comparison.
#include "core/engine/session/soak.h"

#include <algorithm>
#include <cstdio>

#include "core/engine/analyses/inspected/inspected_view.h"
#include "core/io/error.h"
#include "core/io/number_text.h"

namespace afterglow {

namespace {

constexpr std::int64_t mebibyte = std::int64_t{1} << 20;
constexpr std::int64_t first_trained_steps = 20;  // before the tour: the first three steps still allocate
constexpr std::int64_t host_allowance = 16 * mebibyte, gpu_allowance = 64 * mebibyte;

std::size_t values_in(const RunCurves& curves) {
  std::size_t count = curves.held_out_step.size() + curves.held_out_accuracy.size();
  for (const Values* curve : {&curves.loss, &curves.accuracy, &curves.learning_rate, &curves.gradient_norm})
    count += curve->size();
  for (const NamedCurve& curve : curves.layer_gradient_norms) count += curve.values.size();
  return count;
}

/// Every analysis is current and training rests.
bool is_seen(const Observation& now) { return !now.running && (now.current & all_analyses) == all_analyses; }

/// The run has trained and, if the recipe evaluates, evaluated.
bool is_warm(const Observation& now) {
  const bool evaluates = std::any_of(now.settings.begin(), now.settings.end(), [](const Setting& setting) {
    return setting.key == "evaluate_every" && setting.value > 0;
  });
  return now.step >= first_trained_steps && (!evaluates || !now.runs.back().held_out_step.empty());
}

bool has_heads_to_edit(const Observation& now) {
  return std::any_of(now.model.layers.begin(), now.model.layers.end(),
                     [](const LayerSummary& layer) { return shows(layer.kind, LayerTrait::koopman_heads); });
}

}  // namespace

void require_training(const Observation& now) {
  for (const Event& event : now.events) {
    if (event.severity == Severity::failure)
      throw Error(now.stopped_non_finite ? ExitCode::non_finite : ExitCode::failure, "step ", event.step, ": ",
                  event.text);
  }
}

bool SoakTour::advance(Session& session, const Observation& now) {
  const bool is_edited = now.inspected && !now.inspected->setup.interventions.empty();
  switch (next_) {
    case Stop::train:
      if (!is_warm(now)) return false;
      session.send({"pause", "{}"});
      next_ = Stop::analyse;
      return false;
    case Stop::analyse:
      if (!is_seen(now)) return false;
      if (has_heads_to_edit(now)) session.send({"head_off", R"({"head": 0})"});
      next_ = has_heads_to_edit(now) ? Stop::edit : Stop::restore;
      return false;
    case Stop::edit:
      if (!is_edited || !is_seen(now)) return false;
      session.send({"clear_overrides", "{}"});
      next_ = Stop::restore;
      return false;
    case Stop::restore:
      if (is_edited || !is_seen(now)) return false;
      session.send({"run", "{}"});
      next_ = Stop::home;
      return true;
    case Stop::home:
      return true;
  }
  return true;
}

std::int64_t kept_bytes_of(const Observation& observation) {
  std::size_t values = 0;
  for (const RunCurves& run : observation.runs) values += values_in(run);
  return observation.history_bytes + static_cast<std::int64_t>(values * sizeof(double));
}

namespace {

std::string change_text(std::int64_t bytes) { return (bytes < 0 ? "" : "+") + bytes_text(bytes); }

}  // namespace

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
