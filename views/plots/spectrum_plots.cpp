// Plots and cards of the Koopman spectrum, its modes and the power filter.
#include <array>
#include <cmath>
#include <complex>

#include "core/engine/observation/mode_numbers.h"
#include "core/figure/axis.h"
#include "views/figures/influence/state_figures.h"
#include "views/figures/koopman/forces_figures.h"
#include "views/figures/koopman/power_filter_figures.h"
#include "views/figures/koopman/spectrum_figures.h"
#include "views/plots/families.h"
#include "views/plots/followed_number.h"
#include "views/plots/shared_numbers.h"

namespace afterglow {

namespace {

/// The text of the selected mode; empty where there is none.
std::string of_selected_mode(const Observation& o, const Selection& s,
                             std::string (*write)(const std::complex<double>& lambda, const ModeTimes& times)) {
  const bool is_pair = mlp_is_selected(o, s);
  const HeadSpectrum* head = is_pair ? nullptr : selected_head(o, s);
  const int mode = is_pair ? selected_pair(*selected_mlp(o, s), s) : head ? selected_mode(*head, s) : -1;
  if (mode < 0) return "";
  const std::complex<double> lambda =
      (is_pair ? selected_mlp(o, s)->eigenvalues : head->eigenvalues)[static_cast<std::size_t>(mode)];
  return write(lambda, mode_times(lambda));
}

std::string modulus_numbers(const Observation& o, const Selection& s) {
  return of_selected_mode(o, s, [](const std::complex<double>& lambda, const ModeTimes& times) {
    return "|λ| = √(" + number_text(lambda.real(), 3) + "² + " + number_text(lambda.imag(), 3) +
           "²) = " + number_text(times.modulus, 4);
  });
}

std::string half_life_numbers(const Observation& o, const Selection& s) {
  return of_selected_mode(o, s, [](const std::complex<double>&, const ModeTimes& times) {
    if (std::isinf(times.half_life)) return "|λ| = " + number_text(times.modulus, 4) + ": it does not fade";
    return "ln ½ / ln " + number_text(times.modulus, 4) + " = " + number_text(times.half_life, 4) + " tokens";
  });
}

std::string period_numbers(const Observation& o, const Selection& s) {
  return of_selected_mode(o, s, [](const std::complex<double>&, const ModeTimes& times) {
    if (std::isinf(times.period)) return std::string("real: no period");
    return "2π / " + number_text(times.angle, 4) + " = " + number_text(times.period, 4) + " tokens";
  });
}

std::string gain_numbers(const Observation& o, const Selection& s) {
  const HeadSpectrum* head = selected_head(o, s);
  const int mode = head ? selected_mode(*head, s) : -1;
  if (mode < 0) return "";
  const auto i = static_cast<std::size_t>(mode);
  const int power = s.power >= 0 ? s.power : head->power;
  return number_text(mode_times(head->scale * head->eigenvalues[i]).modulus, 4) + " to the power " +
         std::to_string(power) + " = " + number_text(mode_gain(*head, i, power), 4);
}

std::string forces_numbers(const Observation& o, const Selection& s) {
  const HeadForces* forces = selected_forces(o, s);
  if (!forces || forces->modes.empty()) return "";
  const int chosen = s.mode >= 0 ? s.mode : identity_of_force(o, *forces, 0);
  return force_text(o, *forces, chosen);
}

constexpr std::array spectrum_rows{
    PlotKind{.id = "spectrum",
             .title = "Koopman spectrum",
             .about = "Eigenvalues of the layer's memory in the complex plane, with trails.",
             .analyses = set_of(Analysis::spectra),
             .subtitle = spectrum_subtitle,
             .prepare = spectrum_figures,
             .needs = LayerTrait::koopman_heads | LayerTrait::koopman_modes,
             .smallest = {150, 150},
             .moves_points = true,
             .followed = followed_mode},
    PlotKind{.id = "forces",
             .title = "Eigenvalue forces",
             .about = "Where the loss pulls each eigenvalue of the memory, and where the optimiser moves it next.",
             .analyses = Analysis::forces | Analysis::spectra,
             .subtitle = forces_subtitle,
             .prepare = forces_figures,
             .needs = LayerTrait::koopman_heads,
             .smallest = {200, 200}},
    PlotKind{.id = "power_filter",
             .title = "Power filter",
             .about = "What raising the operator to the power K leaves of each mode.",
             .analyses = set_of(Analysis::spectra),
             .subtitle = power_filter_subtitle,
             .prepare = power_filter_figures,
             .needs = LayerTrait::koopman_heads},
    PlotKind{.id = "state_spectrum",
             .title = "State spectrum",
             .about = "Eigenvalues of what a token leaves of a recurrent state, in the complex plane.",
             .analyses = set_of(Analysis::spectra),
             .subtitle = state_spectrum_subtitle,
             .prepare = state_spectrum_figures,
             .needs = LayerTrait::state_modes,
             .smallest = {150, 150}},
    PlotKind{.id = "state_growth",
             .title = "State growth",
             .about = "How large a recurrent state grows, and how many directions it fills, token by token.",
             .analyses = set_of(Analysis::trace),
             .subtitle = state_growth_subtitle,
             .prepare = state_growth_figures,
             .needs = LayerTrait::state_modes,
             .smallest = {240, 150},
             .moves_tokens = true},
};

constexpr std::array spectrum_cards{
    FormulaCard{"spectrum", "Koopman spectrum", "A_w = L⁻¹ M L⁻ᵀ,  G + εI = L Lᵀ",
                "Each dot is one mode of the layer's memory: nearer the circle, longer it lasts. Only γ amplifies "
                "modes: for keys of one sequence σ(A_w) < 1, so dividing by max(σ, 1) has no effect.",
                "Echo, section 3.2.3 and proposition A.3", gamma_numbers},
    FormulaCard{
        "forces",
        "Eigenvalue forces",
        "Δλ = u* ΔA v / (u* v)",
        "A small step in the weights changes A_w of the probe sequence by ΔA, and λ by Δλ, to first order. Dashed: "
        "straight down the gradient of the next batch's loss. Solid: AdamW's step, with moments, clipping, rate "
        "and decay; both are equally long in the weights. Diamond: where that step truly takes λ. Ring: how far "
        "a change of A_w by 1 % of its norm may take it, 1/|u* v|. One batch is one opinion; where two "
        "eigenvalues come together the first order says nothing, and there is no arrow.",
        "first-order perturbation; Wilkinson 1965",
        forces_numbers,
        {"where the loss pulls it", "where AdamW moves it", "after the step", "where surgery put it"}},
    FormulaCard{
        "mode", "Mode", "A_w v = λ v",
        "A direction of the memory that keeps its shape from token to token. Conjugate pairs are one rotating mode.",
        "Echo, section 3.2.3", modulus_numbers},
    FormulaCard{"eigenvalue",
                "Eigenvalue",
                "λ = Re λ + i Im λ",
                "The complex plane: modulus is how long, angle how fast.",
                "Echo, section 3.2.3",
                modulus_numbers,
                {"Re λ", "Im λ"}},
    FormulaCard{"modulus",
                "Modulus",
                "|λ| = √(Re² λ + Im² λ)",
                "What is left of the mode after one token.",
                "Echo, section 3.2.3",
                modulus_numbers,
                {"modulus |λ| of A = γ A_w"}},
    FormulaCard{"angle", "Angle", "φ = |arg λ|", "How far the mode turns with each token, in radians.",
                "Echo, section 3.2.3", nullptr},
    FormulaCard{"half_life",
                "Half-life",
                "ln ½ / ln |λ|",
                "Tokens until half of the mode is gone.",
                "Echo, section 3.2.3",
                half_life_numbers,
                {"half-life"},
                "tokens"},
    FormulaCard{"period", "Period", "2π / φ", "Tokens for one full turn of the mode.", "Echo, section 3.2.3",
                period_numbers},
    FormulaCard{"energy", "Query energy", "e_i = |⟨w_i, L⁻¹ q⟩|² / Σ", "Share of the query that lies in this mode.",
                "Echo, appendix D", nullptr},
    FormulaCard{"gain",
                "Gain of the filter",
                "|γ λ|^K",
                "What the power filter leaves of the mode's amplitude (the numbers of Echo's appendix D); of its "
                "energy it leaves the square.",
                "Echo, appendix D.1",
                gain_numbers,
                {"gain |λ|^K"}},
    FormulaCard{"gamma", "Gain γ (eigenvalue scale)", "γ = 1 + ½ sigmoid(γ_raw)",
                "Learned factor between 1 and 1.5 on all eigenvalues. Only it amplifies modes.", "Echo, section 3.2.3",
                gamma_numbers},
    FormulaCard{"sigma",
                "Largest singular value",
                "σ(A_w), six power iterations",
                "Below 1 whenever G and M come from the same keys (Cauchy-Schwarz).",
                "Echo, section 3.2.3",
                gamma_numbers,
                {"σ(A_w)"}},
    FormulaCard{"power_filter", "Power filter", "y = B_v L A^K L⁻¹ q",
                "Raising the operator to the power K silences small modes and keeps those near the circle. Bars: the "
                "query's energy before (grey) and after.",
                "Echo, appendix D.1", gain_numbers},
    FormulaCard{
        "power_filter_table", "Suppression table", "|λ|^K,  K = 1, 2, 4",
        "Echo's table D.1 for this operator: a row for each mode of A = γ A_w, a column for each power. From one "
        "column to the next modes near 1 hardly change, small ones vanish: that separates lasting modes from "
        "passing ones. Factors of the amplitude; of the energy the square is left.",
        "Echo, proposition D.1 and its tables", gain_numbers},
    FormulaCard{"power",
                "Power K",
                "A^K",
                "How often the operator acts on a query.",
                "Echo, eq. 7",
                gain_numbers,
                {"power K"}}};

}  // namespace

PlotFamily spectrum_plots() { return {spectrum_rows, spectrum_cards}; }

}  // namespace afterglow
