// Figures of the inspected sequence: the model's answer at a token, and the tokens that contribute, with and without
// interventions.
#pragma once
#include <complex>
#include <optional>
#include <string>

#include "core/engine/analyses/inspected/inspected_view.h"
#include "core/recipe/interventions.h"
#include "views/figures/plot_functions.h"

namespace afterglow {

SubtitleOfPlot inspected_subtitle;
/// Probabilities of the most probable next tokens, and the weights of the earlier tokens; grey is the model without
/// interventions.
FiguresOfPlot inspection_figures;

/// The head with the present interventions; nullptr if its layer is unchanged.
const InspectedHead* inspected_head(const Observation& observation, const HeadSpectrum& head);
/// The Koopman MLP with the present interventions; nullptr if it is unchanged.
const InspectedMlp* inspected_mlp(const Observation& observation, const MlpSpectrum& mlp);
/// The selected Koopman MLP, with its interventions if there are any; nullptr without one.
const MlpSpectrum* seen_mlp(const Observation& observation, const Selection& selection);
/// The selected head, with its interventions if there are any; nullptr without a spectrum.
const HeadSpectrum* seen_head(const Observation& observation, const Selection& selection);
/// A mode that can be moved or switched off: its name in commands, and its present value.
struct MeantMode {
  ModeName name;  ///< as the present intervention names it, if there is one
  std::complex<double> value;
  bool is_off = false;
};
/// The mode of `selection.mode`, of the selected Koopman MLP or else of the selected head.
std::optional<MeantMode> meant_mode(const Observation& observation, const Selection& selection);
/// Upper end of an axis of probabilities: 1, or the power of ten above the largest if all are below 0.1, as with a
/// large vocabulary.
double probability_limit(const Bars& bars);
double probability_limit(double largest);
/// Bars of probabilities at 0, 1, 2 ..., with room around them and above.
void add_answers(Figure& figure, Bars bars);
/// Place of the token whose answer is shown: the selected one, else the last with a target, else the last; -1 without a
/// sequence.
int asked_token(const Observation& observation, const Selection& selection);
/// "v3", or "#7" for a token without a label.
std::string inspected_label(const InspectedView& inspected, int token);
/// "98 % → 61 %", before and with the interventions, each as `text` writes it. Until those are measured "…" stands in
/// place of the second number, or behind that of the interventions before.
std::string accuracy_change(const InspectedView& inspected, std::string (*text)(double share));
/// "accuracy 0.984 → 0.61", with one number while nothing is changed; empty without a sequence.
std::string accuracy_change(const Observation& observation);

SubtitleOfPlot stepper_subtitle;
FiguresOfPlot stepper_figures;

/// The computation of one head for one token, a picture for each step, in order.
SubtitleOfPlot inside_subtitle;
FiguresOfPlot inside_figures;

/// Eigenvalues of one head's operator after each token: the plane at the chosen token with trails, and every modulus
/// over the tokens.
SubtitleOfPlot token_spectrum_subtitle;
FiguresOfPlot token_spectrum_figures;

/// The head of the weights to show, clamped to the existing ones; -1 without heads.
int selected_weights_head(const Observation& observation, const Selection& selection);

SubtitleOfPlot token_weights_subtitle;
FiguresOfPlot token_weights_figures;

}  // namespace afterglow
