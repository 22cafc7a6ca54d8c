// The metrics of each run of a sweep.

#include "core/engine/inspection/observer.h"
#include "core/engine/observation/run_numbers.h"
#include "core/engine/studies/sweep.h"
#include "core/engine/training/training_run.h"

namespace afterglow {

namespace {

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
