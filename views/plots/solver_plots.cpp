// Plots and cards of conditioning, solvers, gates and gradients of solves.
#include <array>

#include "core/figure/axis.h"
#include "views/figures/conditioning_figures.h"
#include "views/figures/solver_figures.h"
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
    FormulaCard{
        "solver_race",
        "Solver race",
        "|r_i| ≤ 2 ((√κ − 1)/(√κ + 1))^{i+1} |q|",
        "Five solvers of (H + λI) x = q. Dashed: what theory promises for any spectrum in [μ, L]. Chebyshev pays "
        "for bounds that are too wide; conjugate gradient needs none. In bf16 and tf32 operands of products are "
        "rounded and sums kept in fp32.",
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
        {"iterate i", "iterations", "relative difference", "relative error"}}};

}  // namespace

PlotFamily solver_plots() { return {solver_rows, solver_cards}; }

}  // namespace afterglow
