// Plots and cards of conditioning, solvers, gates and gradients of solves.
#include <array>

#include "core/figure/axis.h"
#include "views/figures/koopman/conditioning_figures.h"
#include "views/figures/solvers/kalman_figures.h"
#include "views/figures/solvers/solver_figures.h"
#include "views/plots/families.h"
#include "views/plots/shared_numbers.h"

namespace afterglow {

namespace {

std::string race_numbers(const Observation& o, const Selection& s) {
  double kappa = 0;
  for (const RacedProblem* problem : selected_problems(o, s)) kappa = std::max(kappa, problem->kappa());
  return kappa > 0
             ? "κ = " + number_text(kappa, 3) + ", 1/u = " + number_text(inverse_unit(selected_arithmetic(o, s)), 3)
             : "";
}

constexpr std::array solver_rows{
    PlotKind{.id = "conditioning",
             .title = "Conditioning",
             .about = "How close the Gram matrix comes to what each precision can solve.",
             .analyses = Analysis::probe | Analysis::spectra | Analysis::trace | Analysis::solvers,
             .subtitle = conditioning_subtitle,
             .prepare = conditioning_figures,
             .needs = LayerTrait::ridge_systems,
             .smallest = {280, 210}},
    PlotKind{.id = "solver_race",
             .title = "Solver race",
             .about = "Residuals of five solvers in four arithmetics, beside what theory promises.",
             .analyses = set_of(Analysis::solvers),
             .subtitle = solver_race_subtitle,
             .prepare = solver_race_figures,
             .needs = LayerTrait::ridge_systems,
             .smallest = {240, 150}},
    PlotKind{.id = "gate",
             .title = "Gate",
             .about = "How far back each head's memory reaches, token by token.",
             .analyses = set_of(Analysis::solvers),
             .subtitle = gate_subtitle,
             .prepare = gate_figures,
             .needs = LayerTrait::gate,
             .smallest = {250, 150}},
    PlotKind{.id = "gradient_check",
             .title = "Gradient check",
             .about = "Implicit and unrolled gradients of a solve against the exact one.",
             .analyses = set_of(Analysis::solvers),
             .subtitle = gradient_check_subtitle,
             .prepare = gradient_check_figures,
             .needs = LayerTrait::ridge_systems,
             .smallest = {250, 150}},
    PlotKind{.id = "kalman_filter",
             .title = "Kalman filter",
             .about = "The layer's pairs as the exact Kalman filter, delta rules and Gated KalmaNet write them.",
             .analyses = set_of(Analysis::solvers),
             .subtitle = kalman_subtitle,
             .prepare = kalman_figures,
             .needs = LayerTrait::pairs,
             .smallest = {250, 150}},
};

constexpr std::array solver_cards{
    FormulaCard{"conditioning",
                "Conditioning",
                "κ(G + εI) = λ_max / λ_min",
                "Beyond 1/u of a precision a solution has no correct digit left: 2⁸ for bf16, 2¹¹ for tf32, 2²⁴ for "
                "fp32. A larger ridge lowers κ; λ_t = a |H_t| keeps it under (a + 1)/a.",
                "Echo, appendix C",
                kappa_numbers,
                {"κ(G + εI)", "κ(H_t + λI)", "κ(H_t + λ_t I)", "λ_t"}},
    FormulaCard{"lambda_min",
                "Smallest eigenvalue",
                "λ_min(G + εI)",
                "Never below the ridge ε.",
                "Echo, appendix C",
                kappa_numbers,
                {"λ_min(G + εI)"}},
    FormulaCard{"conditioning_shrinkage",
                "Ridge shrinkage",
                "{σ_j}/{σ_j + ε}",
                "What the ridge leaves of the operator along each eigenvector of G, the direction with the most keys "
                "first: almost all where σ_j is far above ε, half at σ_j = ε, nothing where no key lies. Their sum "
                "counts the directions that the regression still uses.",
                "Echo, proposition A.2",
                shrinkage_numbers,
                {"σ_j/(σ_j + ε)", "kept by the ridge"}},
    FormulaCard{"conditioning_size",
                "Size of G",
                "λ_max(G) ≤ |G|_F ≤ tr G ≤ T",
                "Each of the T keys so far is divided by the longest of them, so that it adds at most 1 to the trace. "
                "How far below T the curves stay tells how much shorter most keys are; how far λ_max stays below "
                "tr G, over how many directions they spread. Where the scale m is kept, later keys may be longer, and "
                "the bound ends.",
                "Echo, proposition E.1, eq. 51",
                gram_size_numbers,
                {"size of G", "tr G", "|G|_F", "λ_max(G)"}},
    FormulaCard{
        "solver_race",
        "Solver race",
        "|r_i| ≤ 2 ((√κ − 1)/(√κ + 1))^{i+1} |q|",
        "Five solvers of (H + λI) x = q. Dashed: what theory promises for any spectrum in [μ, L]. Chebyshev pays "
        "for bounds that are too wide; conjugate gradient needs none. In bf16 and tf32 operands of products are "
        "rounded; sums and vectors stay in fp32, or it would be worse.",
        "Gated KalmaNet, algorithm 1 and section 4.2.3",
        race_numbers,
        {"eigenvalue", "λ_i(H + λI)", "precision", "solver", "log₁₀ |r| / |q|"}},
    FormulaCard{"solver_spectrum", "Spectrum of the system", "κ = {L}/{μ}",
                "Eigenvalues of the matrix that is solved, from the largest L to the smallest μ: the closer together, "
                "the fewer iterations.",
                "Gated KalmaNet, section 4.2", race_numbers},
    FormulaCard{"solver_floor", "Final residual", "log_{10} {|r|}/{|q|}",
                "What each solver is left with after the last iteration, by the precision of its arithmetic: the best "
                "that a precision allows, or how far the solver still is.",
                "Gated KalmaNet, section 4.2.3", race_numbers},
    FormulaCard{"solver_omega", "Chebyshev weights", "ω_i = 4/(4 − ρ² ω_{i−1}),  ω_0 = 2",
                "They fall to ω* from above (lemma 3), at least as fast as lemma 4 says.",
                "Gated KalmaNet, lemmas 3 and 4", nullptr},
    FormulaCard{"gate",
                "Memory horizon",
                "min l: e^{g_t + … + g_{t−l+1}} < 1/e",
                "How many tokens back a head's memory reaches: where the product of the decays falls under 1/e or 1 %. "
                "Where each channel has a decay of its own, that of the head is their geometric mean.",
                "Gated KalmaNet, section 4.1",
                nullptr,
                {"gate e^g", "reach back"}},
    FormulaCard{
        "gradient_check",
        "Gradient check",
        "∂q = (H + λI)⁻¹ ∂x,  ∂H = −∂q xᵀ − a (xᵀ∂q) H/|H|",
        "Implicit: the same iteration solves for the gradient. Unrolled: the derivative of the iteration itself. "
        "For q Chebyshev gives the same by both (lemma 2), for H only when it has converged.",
        "Gated KalmaNet, section 4.2.2 and appendix C",
        nullptr,
        {"iterate i", "iterations", "relative difference", "relative error"}},
    FormulaCard{"kalman_filter",
                "Kalman filter",
                "S_t = A_t S_{t−1} + G_t (v_t − k_tᵀ A_t S_{t−1})ᵀ",
                "One head's keys and values, written by six filters. Exact: Kalman (a state that stands still, "
                "Σ_0 = I/λ) and Kalman, fading (the head's own decays, process noise I). Gated KalmaNet solves the "
                "ridge system of fading keys. DeltaNet, gated DeltaNet and KDA hold Σ_t = I. r_t follows from β_t; it "
                "is 1 for Gated KalmaNet, whose keys carry β. KDA is shown where channels fade apart.",
                "Gated KalmaNet, section 6, eqs. 12 to 20",
                nullptr,
                {"age"}},
    FormulaCard{"kalman_written",
                "Share written",
                "k_tᵀ G_t = 1 − {error of v_t after}/{error before}",
                "How much of the innovation v_t − Sᵀk_t the key answers with at once. Kalman's falls as Σ_t shrinks "
                "along keys that were seen; a delta rule's follows β_t alone, whatever was seen.",
                "Gated KalmaNet, eqs. 13, 17, 19",
                nullptr,
                {"k_t · G_t"}},
    FormulaCard{"kalman_recall",
                "Recall at the end",
                "|v_s − S_Tᵀ k_s| / |v_s|",
                "What is left of each pair after the last token, by its age. Small is good only where pairs should be "
                "kept: a filter that fades is right to forget, and keys that are alike with different values leave an "
                "error in every filter.",
                "Gated KalmaNet, section 3.1",
                nullptr,
                {"error |v − Sᵀk| / |v|"}},
    FormulaCard{"kalman_alignment",
                "Direction of the gain",
                "cos(G_t, k_t)",
                "1 writes along the key. The exact gain Σ k turns away from directions that are known already, so "
                "that older pairs are disturbed less; with Σ = I it cannot.",
                "Gated KalmaNet, section 6.4",
                nullptr,
                {"cos(G_t, k_t)"}},
    FormulaCard{"kalman_sigma",
                "Uncertainty Σ_t",
                "Σ_t = (I − G_t k_tᵀ)(A_t Σ_{t−1} A_tᵀ + Q_t)",
                "It starts at I/λ and shrinks along keys that are seen, never grows where nothing fades. With decay "
                "and process noise it settles. The delta rules hold it at I (dotted). It belongs to the model of "
                "eq. 15, not to the true error: that is Recall at the end.",
                "Gated KalmaNet, eq. 14",
                nullptr,
                {"λ(Σ_t)"}},
    FormulaCard{"kalman_noise",
                "Process noise",
                "s_t = A_t s_{t−1} + w_t,  w_t ~ N(0, q I)",
                "The exact filter with A_t = I and with the head's own decays as A_t, for process noise from almost "
                "none to ten times what eqs. 18 and 20 put in. Noise tells the filter that its past is worth little: "
                "all pairs are lost but the last. At the left end A_t alone forgets.",
                "Gated KalmaNet, eqs. 12 to 15",
                nullptr,
                {"Q_t = q I"}},
    FormulaCard{
        "kalman_drift",
        "Recursion against solve",
        "Φ_t = Φ_{t−1} − {Φ_{t−1} k kᵀ Φ_{t−1}}/{r_t + kᵀ Φ_{t−1} k}",
        "Two ways to x = (H_t + λI)⁻¹ q_t in the same arithmetic, without decay, against Cholesky in fp64. "
        "The recursion keeps the errors of its worst token; the solve begins anew, so that its error follows "
        "the present κ. With a large λ both stay near the rounding unit: the recursion drifts where λ is small.",
        "Gated KalmaNet, section 3.2",
        nullptr,
        {"error |Δx| / |x|"}}};

}  // namespace

PlotFamily solver_plots() { return {solver_rows, solver_cards}; }

}  // namespace afterglow
