// The one table of formula cards, and how a card is drawn.
#include "views/formula_cards.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <numbers>

#include "core/engine/observation/depth_view.h"
#include "core/engine/observation/forecast_view.h"
#include "core/engine/observation/memory_view.h"
#include "core/engine/observation/theory_view.h"
#include "core/engine/observation/trajectory_view.h"
#include "core/figure/axis.h"
#include "core/io/number_text.h"
#include "views/figures/probe_figures.h"
#include "views/figures/semantic_colours.h"
#include "views/figures/solver_figures.h"
#include "views/widgets.h"

namespace afterglow {

namespace {

constexpr double rest_before_card = 0.4;  ///< seconds

std::string mode_numbers(const Observation& o, const Selection& s,
                         std::string (*write)(std::complex<double>, const HeadSpectrum&)) {
  const HeadSpectrum* head = selected_head(o, s);
  const int mode = head ? selected_mode(*head, s) : -1;
  return mode < 0 ? "" : write(head->eigenvalues[static_cast<std::size_t>(mode)], *head);
}

std::string modulus_numbers(const Observation& o, const Selection& s) {
  return mode_numbers(o, s, [](std::complex<double> l, const HeadSpectrum&) {
    return "|λ| = √(" + number_text(l.real(), 3) + "² + " + number_text(l.imag(), 3) +
           "²) = " + number_text(std::abs(l), 4);
  });
}

std::string half_life_numbers(const Observation& o, const Selection& s) {
  return mode_numbers(o, s, [](std::complex<double> l, const HeadSpectrum&) {
    return "ln ½ / ln " + number_text(std::abs(l), 4) + " = " + number_text(std::log(0.5) / std::log(std::abs(l)), 4) +
           " tokens";
  });
}

std::string period_numbers(const Observation& o, const Selection& s) {
  return mode_numbers(o, s, [](std::complex<double> l, const HeadSpectrum&) {
    const double angle = std::abs(std::arg(l));
    return angle > 0
               ? "2π / " + number_text(angle, 4) + " = " + number_text(2 * std::numbers::pi / angle, 4) + " tokens"
               : std::string("real: no period");
  });
}

std::string gain_numbers(const Observation& o, const Selection& s) {
  const HeadSpectrum* head = selected_head(o, s);
  const int mode = head ? selected_mode(*head, s) : -1;
  if (mode < 0) return "";
  const int power = s.power >= 0 ? s.power : head->power;
  const double modulus = std::abs(head->scale * head->eigenvalues[static_cast<std::size_t>(mode)]);
  return number_text(modulus, 4) + " to the power " + std::to_string(power) + " = " +
         number_text(std::pow(modulus, power), 4);
}

std::string gamma_numbers(const Observation& o, const Selection& s) {
  const HeadSpectrum* head = selected_head(o, s);
  return head ? "A = " + number_text(head->gamma, 3) + " / max(" + number_text(head->sigma, 3) +
                    ", 1) · A_w = " + number_text(head->scale, 3) + " A_w"
              : "";
}

std::string kappa_numbers(const Observation& o, const Selection& s) {
  const HeadSpectrum* head = selected_head(o, s);
  return head ? "κ = " + number_text(head->kappa, 3) + ", λ_min = " + number_text(head->lambda_min, 3) +
                    ", ε = " + number_text(head->ridge, 3)
              : "";
}

std::string race_numbers(const Observation& o, const Selection& s) {
  double kappa = 0;
  for (const RacedProblem* problem : selected_problems(o, s)) kappa = std::max(kappa, problem->kappa());
  return kappa > 0
             ? "κ = " + number_text(kappa, 3) + ", 1/u = " + number_text(inverse_unit(selected_arithmetic(o, s)), 3)
             : "";
}

std::string loss_numbers(const Observation& o, const Selection&) {
  if (o.runs.empty() || o.runs.back().loss.empty()) return "";
  return "now " + number_text(o.runs.back().loss.back(), 4) + " nats";
}

std::string accuracy_numbers(const Observation& o, const Selection&) {
  if (o.runs.empty() || o.runs.back().accuracy.empty()) return "";
  return "now " + number_text(o.runs.back().accuracy.back(), 4);
}

const TheoryView* theory_of(const Observation& o) { return o.theory.get(); }

std::string vector_numbers(const Observation& o, const Selection&) {
  const TheoryView* t = theory_of(o);
  return t ? "κ(V) = " + number_text(t->eigenvector_condition, 3) + ", κ = " + number_text(t->kappa, 3) : "";
}

std::string depth_numbers(const Observation& o, const Selection&) {
  const DepthView* depth = o.depth.get();
  if (!depth || depth->gradient.empty() || depth->residual_bound.empty()) return "";
  return "|g_0| = " + number_text(depth->gradient.front(), 3) + " ≤ " + number_text(depth->residual_bound.front(), 3) +
         ",  |g_m| = " + number_text(depth->gradient.back(), 3);
}

std::string memory_numbers(const Observation& o, const Selection&) {
  const TheoryView* t = theory_of(o);
  return t ? bytes_text(static_cast<std::int64_t>(t->state_bytes)) + " against " + number_text(t->cache_bytes, 4) +
                 " B a token: equal after " + number_text(t->crossing, 4)
           : "";
}

std::string probe_numbers(const Observation& o, const Selection&) { return accuracy_change(o); }

std::string trajectory_numbers(const Observation& o, const Selection&) {
  if (!o.trajectory || o.trajectory->explained.empty()) return "";
  const std::vector<double>& explained = o.trajectory->explained;
  const std::size_t last = std::min<std::size_t>(explained.size(), 3);
  return number_text(100 * explained[last - 1], 3) + " % of the variance in " + std::to_string(last) +
         (last == 1 ? " mode" : " modes");
}

std::string forecast_numbers(const Observation& o, const Selection&) {
  if (!o.forecast || o.forecast->windows.empty()) return "";
  const ForecastWindow& window = o.forecast->windows.front();
  return "MSE " + number_text(window.mse, 4) + ", MAE " + number_text(window.mae, 4);
}

std::string memory_token_numbers(const Observation& o, const Selection&) {
  if (!o.memory) return "";
  return "M = " + std::to_string(o.memory->tokens) + ", " + grouped_number(o.memory->history_rows) + " rows of history";
}

constexpr std::array cards{
    FormulaCard{
        "training", "Training", "L = −mean log p(target)",
        "Loss and accuracy are taken at the answers only; a forecast has its mean squared error and the variance "
        "that it explains. Curves are smoothed with bias correction, raw values stay behind.",
        "Echo, section 4", loss_numbers},
    FormulaCard{
        "training_accuracy", "Accuracy", "share of answers whose most probable token is right",
        "The thin curve is each step's batch, the thick one its average, the diamonds are sequences never trained on. "
        "Of a forecast: 1 − MSE over the mean square of the truth.",
        "Echo, section 4", accuracy_numbers},
    FormulaCard{"training_loss", "Loss", "L = −mean log p(target)",
                "Cross-entropy of the answers; of a forecast the mean squared error.", "Echo, section 4", loss_numbers},
    FormulaCard{"training_gradient_norm", "Gradient norm", "|∂L/∂θ| of each layer",
                "Before clipping; the white line is the whole model.", "Echo, appendix J", nullptr},
    FormulaCard{"training_learning_rate", "Learning rate", "warm-up, then cosine",
                "Step size of AdamW as it was used in each step.", "Echo, section 4", nullptr},
    FormulaCard{"spectrum", "Koopman spectrum", "A_w = L⁻¹ M L⁻ᵀ,  G + εI = L Lᵀ",
                "Each dot is one mode of the layer's memory: nearer the circle, longer it lasts. γ alone lifts modes: "
                "for keys as they come σ(A_w) < 1, so dividing by max(σ, 1) changes nothing.",
                "Echo, section 3.2.3 and proposition A.3", gamma_numbers},
    FormulaCard{
        "mode", "Mode", "A_w v = λ v",
        "A direction of the memory that keeps its shape from token to token. Conjugate pairs are one rotating mode.",
        "Echo, section 3.2.3", modulus_numbers},
    FormulaCard{"modulus", "Modulus", "|λ| = √(Re² λ + Im² λ)", "What is left of the mode after one token.",
                "Echo, section 3.2.3", modulus_numbers},
    FormulaCard{"angle", "Angle", "φ = |arg λ|", "How far the mode turns with each token, in radians.",
                "Echo, section 3.2.3", nullptr},
    FormulaCard{"half_life", "Half-life", "ln ½ / ln |λ|", "Tokens until half of the mode is gone.",
                "Echo, section 3.2.3", half_life_numbers},
    FormulaCard{"period", "Period", "2π / φ", "Tokens for one full turn of the mode.", "Echo, section 3.2.3",
                period_numbers},
    FormulaCard{"energy", "Query energy", "e_i = |⟨w_i, L⁻¹ q⟩|² / Σ", "Share of the query that lies in this mode.",
                "Echo, appendix D", nullptr},
    FormulaCard{"gain", "Gain of the filter", "|γ λ|^K",
                "What the power filter leaves of the mode's amplitude (the numbers of Echo's appendix D); of its "
                "energy it leaves the square.",
                "Echo, appendix D.1", gain_numbers},
    FormulaCard{"gamma", "Lift γ", "γ = 1 + ½ sigmoid(γ_raw)",
                "Learned factor between 1 and 1.5 on all eigenvalues. It alone lifts modes.", "Echo, section 3.2.3",
                gamma_numbers},
    FormulaCard{"sigma", "Largest singular value", "σ(A_w), six power iterations",
                "Below 1 whenever G and M come from the same keys (Cauchy-Schwarz).", "Echo, section 3.2.3",
                gamma_numbers},
    FormulaCard{"power_filter", "Power filter", "y = B_v L A^K L⁻¹ q",
                "Raising the operator to the power K silences small modes and keeps those near the circle. Bars: the "
                "query's energy before (grey) and after.",
                "Echo, appendix D.1", gain_numbers},
    FormulaCard{
        "stepper", "Recurrent state", "G = Σ z zᵀ,  M = Σ z₊ zᵀ,  C = Σ v zᵀ",
        "All that the layer keeps of the sequence: 2 r² + P r + r + 1 numbers for each head, however long it gets.",
        "Echo, eqs. 4 to 6 and section 3.5", nullptr},
    FormulaCard{"conditioning", "Conditioning", "κ(G + εI) = λ_max / λ_min",
                "Beyond 1/u of a precision a solution has no correct digit left: 2⁸ for bf16, 2¹¹ for tf32, 2²⁴ for "
                "fp32. A larger ridge lowers κ; λ_t = a |H_t| keeps it under (a + 1)/a.",
                "Echo, appendix C", kappa_numbers},
    FormulaCard{
        "solver_race", "Solver race", "|r_i| ≤ 2 ((√κ − 1)/(√κ + 1))^{i+1} |q|",
        "Five solvers of (H + λI) x = q. Dashed: what theory promises for any spectrum in [μ, L]. Chebyshev pays "
        "for bounds that are too wide; conjugate gradient needs none. In bf16 and tf32 operands of products are "
        "rounded and sums kept in fp32.",
        "Gated KalmaNet, algorithm 1 and section 4.2.3", race_numbers},
    FormulaCard{"solver_omega", "Chebyshev weights", "ω_i = 4/(4 − ρ² ω_{i−1}),  ω_0 = 2",
                "They fall to ω* from above (lemma 3), at least as fast as lemma 4 says.",
                "Gated KalmaNet, lemmas 3 and 4", nullptr},
    FormulaCard{"gate", "Memory horizon", "min l: e^{g_t + … + g_{t−l+1}} < 1/e",
                "How many tokens back a head's memory reaches: where the product of the decays falls under 1/e or 1 %. "
                "Where each channel has a decay of its own, that of the head is their geometric mean.",
                "Gated KalmaNet, section 4.1", nullptr},
    FormulaCard{
        "gradient_check", "Gradient check", "∂q = (H + λI)⁻¹ ∂x,  ∂H = −∂q xᵀ − a (xᵀ∂q) H/|H|",
        "Implicit: the same iteration solves for the gradient. Unrolled: the derivative of the iteration itself. "
        "For q Chebyshev gives the same by both (lemma 2), for H only when it has converged.",
        "Gated KalmaNet, section 4.2.2 and appendix C", nullptr},
    FormulaCard{
        "influence", "Influence tail", "|∂y_t/∂x_τ|₂ over the lag t − τ",
        "How much an output still depends on an old token. A straight line on log-log axes is a power law, a "
        "straight line on semi-log axes an exponential. ± is half the 95 % interval; two laws stand where the tail "
        "does not tell them apart (Akaike's criterion). Dashed: theory with this layer's own numbers. Long dashes: "
        "the envelope l^−β, β = 1 − γ c₂, where γ c₂ < 1. A click on a layer leaves its theory alone.",
        "Sessa, definition 3, theorems 8 and 12", nullptr},
    FormulaCard{
        "influence_blocks", "End to end", "|∂y_t/∂x_τ|₂",
        "Spectral norm of a Jacobian block by reverse passes: exact with a cotangent for every channel, else "
        "between √(tr A²/tr A) and (tr A²)^¼ for A = J Jᵀ; the dotted lines are these bounds, wider by what the "
        "sampling of so few cotangents may be off (95 %).",
        "Sessa, section 4.2.2", nullptr},
    FormulaCard{
        "influence_fixed", "Routing held fixed", "|w_tτ|: α_tτ, C_t Π a B_τ, ((I − B)⁻¹ α)_tτ",
        "The same with the routing frozen: attention weights, the impulse of a state, the feedback's solve, with the "
        "branch in front of it and alone: (I − B)⁻¹.",
        "Sessa, section 4.2.1", nullptr},
    FormulaCard{"race", "Memory race", "lag at which influence falls to 1 %",
                "Every layer gets the same noise of the run's seed. Who remembers longest stands first, with the bytes "
                "of state and the milliseconds a token that it costs.",
                "Sessa, section 4.2; Echo, section 3.5", nullptr},
    FormulaCard{"race_tails", "All tails", "|∂y_t/∂x_τ| / |∂y_τ+1/∂x_τ|", "Each divided by its own value at lag 1.",
                "Sessa, definition 3", nullptr},
    FormulaCard{
        "race_recall", "Recall of the planted token", "nearest mean among four, leaving one context out",
        "One of four tokens, a cue and a value of its own, is planted among white noise; later the cue stands there "
        "again. A decoder that has learned from other noise says from the answer which one it was: 1 is perfect "
        "recall, "
        "a quarter is guessing.",
        "this program's own measure", nullptr},
    FormulaCard{
        "race_cost", "Price of memory", "bytes of state, ms per token",
        "Of one sequence as long as the race, in float32; the time is the median of single recurrent steps at its end.",
        "Echo, section 3.5", nullptr},
    FormulaCard{"routing", "Routing", "s = (I − B)⁻¹ f,  B_tj = γ_t α_tj",
                "What the layer reads at each token, and for a feedback over how many hops.",
                "Sessa, eqs. 4, 5, 17 to 20", nullptr},
    FormulaCard{"routing_weights", "Weights", "y_t = Σ_τ w_tτ v_τ", "Equivalent attention of one head.",
                "Sessa, eq. 26", nullptr},
    FormulaCard{"routing_feedback", "Feedback weights", "α_tj = softmax over j < t of q_t·k_j / √D",
                "One head over the full width, without any position code.", "Sessa, eq. 17", nullptr},
    FormulaCard{"routing_resolvent", "Resolvent", "(I − B)⁻¹ = Σ_k B^k",
                "What a unit at τ becomes at t over paths of any number of hops.", "Sessa, eq. 27", nullptr},
    FormulaCard{"routing_hops", "Hops", "(B^k 1)_T",
                "Mass that reaches the last token over exactly k hops; all bars add "
                "to the position code's last value.",
                "Sessa, eq. 5", nullptr},
    FormulaCard{
        "routing_hop_profiles", "Hops over the lag", "(B^k)_t0, Σ_k B^k = (I − B)⁻¹",
        "What an impulse at token 0 brings to token t over exactly k hops, and over all of them together: the longer "
        "paths are what makes the tail a power law.",
        "Sessa, eq. 5 and section 4.2.1", nullptr},
    FormulaCard{"routing_gain", "Feedback gain", "γ_t = γ_max tanh(γ_b + γ_c·u_t)",
                "How much of the past returns. The tail is lag^−(1 − γ) for uniform routing.", "Sessa, eq. 18",
                nullptr},
    FormulaCard{"routing_decay", "What the state keeps", "a_t = exp(−A Δ_t)",
                "Geometric mean over the heads. A mean rate above 0 is failed freeze time: an exponential tail.",
                "Sessa, proposition 5", nullptr},
    FormulaCard{"routing_effective", "Tokens really read", "exp(−Σ α log α)",
                "As many as there are for a diffuse routing, 1 for a sharp one.", "Sessa, definition 4", nullptr},
    FormulaCard{"routing_spread", "Logit spread", "max − min of the logits of a row",
                "Bounded in the diffuse regime: then weights are within a factor of 1/t.", "Sessa, definition 4",
                nullptr},
    FormulaCard{"position_code", "Position code", "(I − B) s = 1",
                "The answer of the feedback to a constant signal rises from token to token: an absolute position, "
                "without any position code. Dashed: 1 + γ/(1−γ) (1 − Γ(t+γ)/(Γ(γ)Γ(t+1))).",
                "Sessa, corollary I.8", nullptr},
    FormulaCard{"deep_profiles", "Deep profiles", "lag^(k(1 − β) − 1)",
                "Transport of an impulse through k blocks of uniform routing with gain 1 − β and profile (t+1)^(1−β): "
                "one block forgets, two keep, three amplify.",
                "Sessa, theorem 12", nullptr},
    FormulaCard{"deep_exponents", "Deep exponents", "k(1 − β) − 1",
                "Fitted to the Jacobian of k stacked feedback solves from lag 128 to 1,023, by reverse passes. Short "
                "stacks still bend there: the fit of the recursion beyond lag 10,000 agrees within 0.01. Negative: "
                "decaying, 0: frozen, positive: increasing.",
                "Sessa, theorem 12 and corollary 4.8", nullptr},
    FormulaCard{"token_weights", "Token weights", "y_t = η Σ_s w_ts v_s,  w_ts = z_sᵀ (G+εI)⁻¹ Φ_K q_t",
                "With what weight the value of token s enters the answer at token t. Softmax weights are shares; those "
                "of SKA, linear attention (scale · q·k) and Mamba-2 (C·B, faded) may be negative.",
                "Echo, eq. 13 and proposition I.8", nullptr},
    FormulaCard{"probe", "Probe", "y = (η/m) C L⁻ᵀ W L⁻¹ q,  W = A^K or what overrides make of it",
                "The model answers one sequence, and a batch of held-out ones for the accuracy. Overrides act on this "
                "look alone: training goes on unchanged. Grey is the model without them.",
                "Echo, eq. 7", probe_numbers},
    FormulaCard{"probe_answer", "Answer", "p = softmax(logits)",
                "The most probable next tokens after the asked one; green is the right one.", "Echo, section 4",
                probe_numbers},
    FormulaCard{"probe_sources", "Token read", "w_ts = z_sᵀ (G+εI)⁻¹ Φ_K q_t",
                "With what weight the value of each token enters what the head answers at the asked token.",
                "Echo, eq. 13 and proposition I.8", nullptr},
    FormulaCard{"perturbation", "Perturbation", "|Â − A| ≤ |E_M|/σ + |A| κ |E_G|/σ",
                "Noise is added to G and M; solid is the worst of three draws, dashed what the theorems allow.",
                "Echo, theorems C.1 and C.3", vector_numbers},
    FormulaCard{
        "perturbation_operator", "Change of the operator", "|Â − A|,  A = M (G+εI)⁻¹",
        "σ is the smallest singular value of the noisy G + εI. The proof of C.1 loses a factor κ; without it the "
        "dotted line holds.",
        "Echo, theorem C.1", nullptr},
    FormulaCard{
        "perturbation_eigenvalues", "Change of the eigenvalues", "|λ′ − λ| ≤ κ(V) |Â − A|",
        "How far the farthest eigenvalue moves. κ(V) is the condition number of the eigenvectors: 1 for a normal "
        "operator.",
        "Echo, theorem C.3 and corollary C.4", vector_numbers},
    FormulaCard{
        "filter_theory", "Filter, in theory", "|A^K| ≤ γ^K",
        "The normalised operator never grows a vector; γ alone lifts. The filter pays with ridge loss and helps "
        "where transient modes spoil the answer.",
        "Echo, propositions D.2, D.3, I.10 and theorem I.11", gamma_numbers},
    FormulaCard{"filter_norms", "Norm of the powers", "|A^K| = γ^K |Â^K|", "The largest factor on any whitened query.",
                "Echo, propositions D.2 and D.3", gamma_numbers},
    FormulaCard{
        "filter_excess_risk", "Excess risk", "|B* (Φ_K − I) (G+εI)^½|² = |F (A^K − I)|²",
        "How much the loss of ridge regression grows when its answer is filtered. At the dashed line the filter has "
        "undone the regression.",
        "Echo, proposition I.10", nullptr},
    FormulaCard{
        "filter_helps", "When K > 0 helps", "|y/η − F q_pers|",
        "Distance of the answer from what the modes near 1 alone would say; below the value at K = 0 the filter "
        "helps.",
        "Echo, theorem I.11 and corollary I.12", nullptr},
    FormulaCard{"linear_gap", "Linear attention's gap", "min_a |C q − a C (G+εI)⁻¹ q| ≤ |C| (κ − 1)/(κ + 1) |q|",
                "How far linear attention is from ridge retrieval, up to one positive factor.", "Echo, theorem I.6",
                kappa_numbers},
    FormulaCard{"query_jacobian", "Query Jacobian", "∂y/∂q = η B_v L A^K L⁻¹",
                "The statistics are held fixed, so the map is linear: the same for every query.",
                "Echo, propositions J.4 to J.6", nullptr},
    FormulaCard{"gradient_depth", "Gradient by depth", "g_l = g_{l+1} + J_lᵀ g_{l+1},  |g_l| ≤ |g_m| Π (1 + |J_j|)",
                "How the gradient of the probe sequence's loss grows or fades on its way down. Theorem J.9 follows the "
                "branches alone; a residual model passes its gradient beside them, too, so its bound has 1 + |J|.",
                "Echo, propositions J.7, J.8 and theorem J.9", depth_numbers},
    FormulaCard{
        "branch_norms", "Branch norms", "|J_l| = max |J_lᵀ u|,  |u| = 1",
        "The most that a branch, without its residual, can lengthen a gradient; found by a power iteration that "
        "starts at the gradient itself.",
        "Echo, theorem J.9", nullptr},
    FormulaCard{
        "memory", "Memory", "2 r² + P r + r + 1 numbers a head, against (r + P) T",
        "The state stays as it is however long the sequence gets; a cache keeps a key and a value of each token.",
        "Echo, section 3.5 and proposition I.14", memory_numbers, "bytes"},
    FormulaCard{"trajectory", "Trajectory", "Hc = H − mean,  path_k = √(T λ_k) φ_k",
                "Every recorded step leaves one vector, a row of H: what the model made of that batch. Seen along the "
                "directions in which training moved most, it is a path. A click on it goes back to that step.",
                "Spectral Memory, section 3.3", trajectory_numbers},
    FormulaCard{"trajectory_12", "Modes 1 and 2", "path_k = √(T λ_k) φ_k",
                "Coordinates of the recorded vectors along the two strongest directions. % is the share of the "
                "variance that lies along an axis.",
                "Spectral Memory, section 3.3", trajectory_numbers},
    FormulaCard{"trajectory_13", "Modes 1 and 3", "path_k = √(T λ_k) φ_k",
                "The same path, seen along the first and the third direction.", "Spectral Memory, section 3.3",
                trajectory_numbers},
    FormulaCard{"kl_spectrum", "K-L spectrum", "C = Hc Hcᵀ/T,  C φ_k = λ_k φ_k",
                "Strategy A takes the covariance between steps as it is measured; B a kernel that only knows how far "
                "apart two steps are. No choice of k modes rebuilds the path better than A.",
                "Spectral Memory, section 3.3", trajectory_numbers},
    FormulaCard{"kl_eigenvalues", "Eigenvalues", "C φ_k = λ_k φ_k",
                "Each divided by the largest one: those of B belong to its kernel, not to the path.",
                "Spectral Memory, section 3.3", nullptr},
    FormulaCard{"kl_explained", "Explained variance", "1 − |Hc − P_k Hc|² / |Hc|²",
                "Share of the path's variance that its first k modes keep; for A that is Σ λ_k of them over Σ λ.",
                "Spectral Memory, section 3.3", trajectory_numbers},
    FormulaCard{"kl_error", "Reconstruction error", "|Hc − P_k Hc| / |Hc|",
                "What is lost when the path is rebuilt from its first k modes, in Frobenius norms.",
                "Spectral Memory, section 3.3", nullptr},
    FormulaCard{"temporal_modes", "Temporal modes", "C φ_k = λ_k φ_k,  |φ_k| = 1",
                "When training moved along a mode: flat where it rests, steep where it learns. The sign of a mode is "
                "free.",
                "Spectral Memory, section 3.3", nullptr},
    FormulaCard{"modes_kept", "Modes", "k = 1 .. K", "How many modes are kept, strongest first.",
                "Spectral Memory, section 3.3", nullptr},
    FormulaCard{"forecast", "Forecast", "L = mean (prediction − truth)²",
                "The model sees the input and tells the next values of every channel at once. Errors are those of the "
                "standardised series, values are in its own units.",
                "Spectral Memory, section 4.1", forecast_numbers},
    FormulaCard{"forecast_errors", "Error of every window", "MSE = mean (prediction − truth)²",
                "Of the standardised series, for each channel and window.", "Spectral Memory, section 4.1",
                forecast_numbers},
    FormulaCard{"forecast_time", "Time", "0 is the last input", "Left of 0 is seen, right of 0 is forecast.",
                "Spectral Memory, section 4.1", nullptr},
    FormulaCard{"memory_tokens", "Memory tokens", "Z = LayerNorm(W_2 gelu(W_1 vec(√λ_k φ_kᵀ Hc)))",
                "The history of training, decomposed, becomes a few tokens in front of the input. They read the series "
                "and are read by it like any other token.",
                "Spectral Memory, sections 3.4 and 3.5", memory_token_numbers},
    FormulaCard{"memory_reads", "What memory reads", "softmax(q_m · k_t / √d)",
                "Weight that a memory token gives to each input position, mean over heads.",
                "Spectral Memory, section 3.5", memory_token_numbers},
    FormulaCard{"memory_is_read", "Who reads memory", "softmax(q_t · k_m / √d)",
                "Weight that each input position gives to a memory token, mean over heads; dotted is 1/(M + L).",
                "Spectral Memory, section 3.5", memory_token_numbers},
    FormulaCard{
        "memory_off", "Without memory", "MSE(tokens = 0) / MSE − 1",
        "What the memory is worth: the same windows with zeros for its tokens, as the model sees them before the "
        "history is long enough.",
        "Spectral Memory, section 3.5", memory_token_numbers},
    FormulaCard{"memory_buffer", "What the buffer holds", "λ_k / Σ λ",
                "The buffer keeps a summary of each batch that was trained on; its strongest modes feed the tokens.",
                "Spectral Memory, sections 3.2 and 3.3", nullptr},
    FormulaCard{"step", "Training step", "n = 1, 2, ..", "One batch, one update of the weights.", "AdamW", nullptr,
                "steps"},
    FormulaCard{"token", "Token", "t = 0 .. T − 1", "Place in the sequence.", "Echo, section 3.2", nullptr, "tokens"},
    FormulaCard{"eigenvalue", "Eigenvalue", "λ = Re λ + i Im λ",
                "The complex plane: modulus is how long, angle how fast.", "Echo, section 3.2.3", modulus_numbers},
    FormulaCard{"next_token", "Next token", "argmax p", "What may follow, likeliest first.", "Echo, section 4",
                nullptr},
    FormulaCard{"probability", "Probability", "p = softmax(logits)", "Of each token to come next.", "Echo, section 4",
                nullptr},
    FormulaCard{"lambda_min", "Smallest eigenvalue", "λ_min(G + εI)", "Never below the ridge ε.", "Echo, appendix C",
                kappa_numbers},
    FormulaCard{"power", "Power K", "A^K", "How often the operator acts on a query.", "Echo, eq. 7", gain_numbers},
    FormulaCard{"noise", "Relative noise", "|E_G|/|G| = |E_M|/|M|", "Seeded Gaussian directions, scaled.",
                "Echo, appendix C", nullptr},
    FormulaCard{"matrix_entry", "Entry of the state", "G, M: r × r, C: P × r",
                "Rows and columns count the coordinates of keys (r) and values (P).", "Echo, eqs. 4 to 6", nullptr},
    FormulaCard{"singular_value", "Singular values", "σ_1 ≥ σ_2 ≥ ..",
                "Directions of the query by how much they count.", "Echo, appendix J", nullptr},
};

/// What the labels of axes stand for, where the figure's own card does not say it.
struct AxisCard {
  std::string_view label, card;
};
constexpr std::array axis_cards{AxisCard{"step", "step"},
                                AxisCard{"token", "token"},
                                AxisCard{"tokens", "token"},
                                AxisCard{"source token", "token"},
                                AxisCard{"query token", "token"},
                                AxisCard{"token read", "token"},
                                AxisCard{"Re λ", "eigenvalue"},
                                AxisCard{"Im λ", "eigenvalue"},
                                AxisCard{"next token", "next_token"},
                                AxisCard{"probability", "probability"},
                                AxisCard{"modulus |λ| of A = γ A_w", "modulus"},
                                AxisCard{"gain |λ|^K", "gain"},
                                AxisCard{"weight", "token_weights"},
                                AxisCard{"column", "matrix_entry"},
                                AxisCard{"row", "matrix_entry"},
                                AxisCard{"key", "matrix_entry"},
                                AxisCard{"next key", "matrix_entry"},
                                AxisCard{"key dimension", "matrix_entry"},
                                AxisCard{"value dimension", "matrix_entry"},
                                AxisCard{"κ(G + εI)", "conditioning"},
                                AxisCard{"λ_min(G + εI)", "lambda_min"},
                                AxisCard{"σ(A_w)", "sigma"},
                                AxisCard{"power K", "power"},
                                AxisCard{"relative noise in G and M", "noise"},
                                AxisCard{"singular value", "singular_value"},
                                AxisCard{"eigenvalue", "solver_race"},
                                AxisCard{"λ_i(H + λI)", "solver_race"},
                                AxisCard{"precision", "solver_race"},
                                AxisCard{"solver", "solver_race"},
                                AxisCard{"log₁₀ |r| / |q|", "solver_race"},
                                AxisCard{"gate e^g", "gate"},
                                AxisCard{"reach back", "gate"},
                                AxisCard{"lag", "influence"},
                                AxisCard{"share of lag 1", "race_tails"},
                                AxisCard{"exponent", "deep_exponents"},
                                AxisCard{"blocks k", "deep_exponents"},
                                AxisCard{"right answers", "race_recall"},
                                AxisCard{"iterate i", "gradient_check"},
                                AxisCard{"iterations", "gradient_check"},
                                AxisCard{"relative difference", "gradient_check"},
                                AxisCard{"relative error", "gradient_check"},
                                AxisCard{"κ(H_t + λI)", "conditioning"},
                                AxisCard{"κ(H_t + λ_t I)", "conditioning"},
                                AxisCard{"λ_t", "conditioning"},
                                AxisCard{"modes k", "modes_kept"},
                                AxisCard{"mode φ_k", "temporal_modes"},
                                AxisCard{"time after the last input", "forecast_time"},
                                AxisCard{"value", "forecast"},
                                AxisCard{"MSE, standardised", "forecast_errors"},
                                AxisCard{"input position", "forecast_time"},
                                AxisCard{"memory token", "memory_tokens"},
                                AxisCard{"softmax weight", "memory_tokens"}};

/// Returns the card's box; room for a button below the text where it is pinned.
Rect draw_card(const Frame& frame, const FormulaCard& card, const Rect& area, bool is_pinned = false) {
  FigureCanvas canvas(*ImGui::GetForegroundDrawList(), *frame.look.fonts);
  const Theme& theme = *frame.look.theme;
  struct Text {
    std::string text;
    double size;
    FontFace face;
    Color color;
    double height;
  };
  const double width = frame.px(336), padding = frame.px(14);
  std::vector<Text> lines{{std::string(card.name), title_size, FontFace::semibold, theme.text, 22}};
  lines.push_back({std::string(card.formula), body_size, FontFace::mono, theme.accent, 24});
  const std::string numbers = card.numbers ? card.numbers(frame.seen(), frame.state.selection) : "";
  if (!numbers.empty()) lines.push_back({numbers, small_size, FontFace::mono, theme.text, 21});
  for (const std::string& line :
       wrapped_text(canvas, card.meaning, width - 2 * padding, frame.px(small_size), FontFace::regular, 6)) {
    lines.push_back({line, small_size, FontFace::regular, theme.dim, 17});
  }
  if (!card.unit.empty())
    lines.push_back({"in " + std::string(card.unit), small_size, FontFace::regular, theme.dim, 17});
  lines.push_back({std::string(card.source), tiny_size, FontFace::regular, theme.faint, 20});
  double height = frame.px(is_pinned ? 46 : 20);
  for (const Text& line : lines) height += frame.px(line.height);
  const Rect bounds = window_bounds();
  const double x = std::min(area.x, bounds.right() - width - frame.px(8));
  const double below = area.bottom() + frame.px(8);
  const double y = below + height < bounds.bottom() ? below : std::max(bounds.y, area.y - frame.px(8) - height);
  const Rect box{x, y, width, height};
  canvas.fill_rect({box.x - frame.px(2), box.y, box.width + frame.px(4), box.height + frame.px(4)}, frame.px(9),
                   faded({0, 0, 0, 255}, theme.is_dark ? 0.4 : 0.08));
  canvas.fill_rect(box, frame.px(8), mixed(theme.raised, theme.panel, 0.25));
  canvas.stroke_rect(box, frame.px(8), {theme.hairline, std::max(1.0, frame.px(1)), Dash::solid});
  double top = box.y + frame.px(10);
  for (const Text& line : lines) {
    row_text(frame.look, canvas, {box.x + padding, top, width - 2 * padding, frame.px(line.height)}, line.text,
             {line.size, line.face, line.color, Anchor::start});
    top += frame.px(line.height);
  }
  return box;
}

}  // namespace

std::span<const FormulaCard> formula_cards() { return cards; }

const FormulaCard* find_card(std::string_view id) {
  for (const FormulaCard& card : cards) {
    if (card.id == id) return &card;
  }
  return nullptr;
}

const FormulaCard* card_of_axis(const Figure& figure, std::string_view label) {
  for (const AxisCard& axis : axis_cards) {
    if (axis.label == label) return find_card(axis.card);
  }
  return find_card(figure.id);
}

std::string latex_of(std::string_view formula) {
  struct Sign {
    std::string_view text, latex;
  };
  static constexpr std::array signs{Sign{"⁻¹", "^{-1}"},     Sign{"⁻ᵀ", "^{-\\top}"},
                                    Sign{"ᵀ", "^{\\top}"},   Sign{"²", "^{2}"},
                                    Sign{"^½", "^{1/2}"},    Sign{"½", "\\tfrac{1}{2}"},
                                    Sign{"Σ", "\\sum "},     Sign{"√", "\\sqrt "},
                                    Sign{"∂", "\\partial "}, Sign{"α", "\\alpha "},
                                    Sign{"β", "\\beta "},    Sign{"γ", "\\gamma "},
                                    Sign{"Δ", "\\Delta "},   Sign{"τ", "\\tau "},
                                    Sign{"ρ", "\\rho "},     Sign{"ω", "\\omega "},
                                    Sign{"Π", "\\prod "},    Sign{"…", "\\dots "},
                                    Sign{"₂", "_{2}"},       Sign{"ε", "\\varepsilon "},
                                    Sign{"η", "\\eta "},     Sign{"′", "'"},
                                    Sign{"λ", "\\lambda "},  Sign{"κ", "\\kappa "},
                                    Sign{"σ", "\\sigma "},   Sign{"φ", "\\varphi "},
                                    Sign{"π", "\\pi "},      Sign{"Φ", "\\Phi "},
                                    Sign{"θ", "\\theta "},   Sign{"Â", "\\hat{A}"},
                                    Sign{"·", "\\cdot "},    Sign{"−", "-"},
                                    Sign{"≤", "\\le "},      Sign{"≥", "\\ge "},
                                    Sign{"×", "\\times "},   Sign{"⟨", "\\langle "},
                                    Sign{"⟩", "\\rangle "},  Sign{"₊", "_{+}"}};
  std::string latex;
  while (!formula.empty()) {
    const auto sign =
        std::find_if(signs.begin(), signs.end(), [&](const Sign& s) { return formula.starts_with(s.text); });
    if (sign != signs.end()) {
      latex += sign->latex;
      formula.remove_prefix(sign->text.size());
    } else if (formula.size() > 1 && (formula[0] == '_' || formula[0] == '^') &&
               std::isalnum(static_cast<unsigned char>(formula[1]))) {
      // Everything of a word stands below or above.
      std::size_t end = 1;
      while (end < formula.size() && std::isalnum(static_cast<unsigned char>(formula[end]))) ++end;
      latex += std::string(1, formula[0]) + "{" + std::string(formula.substr(1, end - 1)) + "}";
      formula.remove_prefix(end);
    } else {
      latex += formula[0];
      formula.remove_prefix(1);
    }
  }
  return latex;
}

void draw_pinned_card(Frame& frame) {
  const FormulaCard* card = find_card(frame.state.card.pinned);
  if (!card) return;
  const Rect box = draw_card(frame, *card, frame.state.card.beside, true);
  const Rect all = window_bounds();
  ImGui::SetNextWindowPos({static_cast<float>(box.x), static_cast<float>(box.bottom() - frame.px(34))});
  ImGui::SetNextWindowSize({static_cast<float>(box.width), static_cast<float>(frame.px(32))});
  ImGui::Begin("card", nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings |
                   ImGuiWindowFlags_NoBackground | ImGuiWindowFlags_NoNav);
  const Rect row{box.x, box.bottom() - frame.px(32), std::min(box.width, all.width), frame.px(26)};
  FigureCanvas over(*ImGui::GetForegroundDrawList(), *frame.look.fonts);
  const double width = button_width(frame, "Copy formula", Icon::none);
  const Rect area{row.right() - width - frame.px(10), row.y, width, row.height};
  const Press press = press_area("copy", area);
  over.fill_rect(area, frame.px(5), press.hovered ? frame.look.theme->hairline : frame.look.theme->raised);
  row_text(frame.look, over, area, "Copy formula",
           {small_size, FontFace::regular, frame.look.theme->text, Anchor::middle});
  if (press.clicked) frame.commands.send("copy", {{"what", std::string("formula")}, {"card", frame.state.card.pinned}});
  ImGui::End();
}

void card_target(Frame& frame, std::string_view id, const Rect& area) {
  CardState& state = frame.state.card;
  if (!area.contains(mouse_place()) || ImGui::IsMouseDown(0)) {
    if (state.card == id) state.card.clear();
    return;
  }
  if (state.card != id) {
    state.card = id;
    state.since = frame.time;
  }
  if (state.pinned.empty()) state.beside = area;
  const FormulaCard* card = find_card(id);
  if (!card) return;
  if (frame.time - state.since < rest_before_card) {
    ask_frame(frame.state, state.since + rest_before_card + 0.01);
  } else if (state.pinned.empty()) {
    draw_card(frame, *card, area);
  }
}

}  // namespace afterglow
