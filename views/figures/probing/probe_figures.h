// Figures of the probe: what the model answers at a token, and which tokens speak for it, with and without
// interventions.
#pragma once
#include <complex>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/observation/probe_view.h"
#include "core/figure/figure.h"
#include "views/figures/selection.h"
#include "views/figures/training/curve_store.h"

namespace afterglow {

std::string probe_subtitle(const Observation& observation, const Selection& selection);
/// Probabilities of the likeliest next tokens, and the weights of the tokens read; grey is the model without
/// interventions.
std::vector<Figure> probe_figures(const Observation& observation, const Selection& selection, CurveStore& curves);

/// The head as the probe's interventions make it; nullptr where its layer is not changed.
const ProbedHead* probed_head(const Observation& observation, const HeadSpectrum& head);
/// The Koopman MLP as the probe's interventions make it; nullptr where it is not changed.
const ProbedMlp* probed_mlp(const Observation& observation, const MlpSpectrum& mlp);
/// The selected Koopman MLP, with interventions where there are any; nullptr without one.
const MlpSpectrum* seen_mlp(const Observation& observation, const Selection& selection);
/// The selected head, with interventions where there are any; nullptr without a spectrum.
const HeadSpectrum* seen_head(const Observation& observation, const Selection& selection);
/// A mode that can be moved or switched off: as commands name it, and as the probe makes it now.
struct MeantMode {
  int layer = 0, head = 0;
  const char* key = "number";  ///< or "mode", where the intervention in force names it by its place
  int mode = 0;                ///< what the command has under this key
  std::complex<double> value;
  bool is_off = false;
};
/// The one that `selection.mode` names, of the selected Koopman MLP or else of the selected head.
std::optional<MeantMode> meant_mode(const Observation& observation, const Selection& selection);
/// Upper end of an axis of probabilities: 1, or the power of ten above the largest where all are below 0.1, as they are
/// over a large vocabulary.
double probability_limit(const Bars& bars);
double probability_limit(double largest);
/// Bars of probabilities at 0, 1, 2 ..., with room around them and above.
void add_answers(Figure& figure, Bars bars);
/// Place of the token that is asked: the selected one, else the last with a target, else the last; -1 without a probe.
int asked_token(const Observation& observation, const Selection& selection);
/// "v3", or "#7" for a token without a label.
std::string probe_label(const ProbeView& probe, int token);
/// "accuracy 0.984 → 0.610", with one number while nothing is changed; empty without a probe.
std::string accuracy_change(const Observation& observation);

}  // namespace afterglow
