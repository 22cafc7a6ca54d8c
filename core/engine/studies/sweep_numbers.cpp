// What is measured of each run of a sweep.
#include <algorithm>
#include <cmath>

#include "core/engine/observation/mode_numbers.h"
#include "core/engine/probing/observer.h"
#include "core/engine/studies/sweep.h"
#include "core/engine/training/training_run.h"

namespace afterglow {

namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t held_out_examples = 256;
constexpr std::size_t last_steps = 20;
constexpr double diverged_from = 1.05;  // times the first loss

/// The larger one; what is unknown does not count.
double larger(double a, double b) { return std::isnan(a) ? b : std::max(a, b); }

/// Of the slowest mode of all heads in the first held-out sequence; of a model without Koopman heads that of what a
/// token leaves of its recurrent states.
double longest_half_life(const Spectra& spectra) {
  double longest = unknown;
  for (const HeadSpectrum& head : spectra.heads) {
    for (const std::complex<double>& lambda : head.eigenvalues)
      longest = larger(longest, mode_times(head.scale * lambda).half_life);
  }
  if (!spectra.heads.empty()) return longest;
  for (const StateSpectrum& state : spectra.states) {
    for (const std::complex<double>& lambda : state.eigenvalues)
      longest = larger(longest, mode_times(lambda).half_life);
  }
  return longest;
}

double largest_kappa(const Spectra& spectra) {
  double largest = unknown;
  for (const HeadSpectrum& head : spectra.heads) largest = larger(largest, head.kappa);
  return largest;
}

/// Whether training ended in numbers that are not finite, or with a loss clearly larger than that of its first step.
bool has_diverged(TrainingRun& run) {
  if (!run.failure().empty()) return true;
  const RunCurves curves = run.curves();
  return !curves.loss.empty() && !(mean_of_last_losses(run, last_steps) <= diverged_from * curves.loss[0]);
}

std::vector<double> measured(TrainingRun& run) {
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
  return {mean_of_last_losses(run, last_steps),
          accuracy,
          steps_to_ninety_percent(run),
          longest_half_life(spectra),
          largest_kappa(spectra),
          has_diverged(run) ? 1.0 : 0.0,
          static_cast<double>(run.step())};
}

}  // namespace

double steps_to_ninety_percent(TrainingRun& run) {
  const RunCurves curves = run.curves();
  for (std::size_t i = 0; i < curves.held_out_step.size(); ++i) {
    if (curves.held_out_accuracy[i] >= 0.9) return static_cast<double>(curves.held_out_step[i]);
  }
  return unknown;
}

double mean_of_last_losses(TrainingRun& run, std::size_t most) {
  const RunCurves curves = run.curves();
  const std::size_t count = std::min(most, curves.loss.size());
  double sum = 0;
  for (std::size_t i = curves.loss.size() - count; i < curves.loss.size(); ++i) sum += curves.loss[i];
  return sum / static_cast<double>(count);
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
          measured,
          enough};
}

}  // namespace afterglow
