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
             .about = "How close the Gram matrix is to the limit of what each precision can solve.",
             .analyses = Analysis::inspected | Analysis::spectra | Analysis::trace | Analysis::solvers,
             .subtitle = conditioning_subtitle,
             .prepare = conditioning_figures,
             .needs = LayerTrait::ridge_systems,
             .smallest = {280, 210},
             .follows_inspected = true},
    PlotKind{.id = "solver_race",
             .title = "Solver race",
             .about = "Residuals of five solvers in four precisions, compared with theory.",
             .analyses = set_of(Analysis::solvers),
             .subtitle = solver_race_subtitle,
             .prepare = solver_race_figures,
             .needs = LayerTrait::ridge_systems,
             .smallest = {240, 150}},
    PlotKind{.id = "gate",
             .title = "Gate",
             .about = "How many tokens back each head's memory reaches, token by token.",
             .analyses = set_of(Analysis::solvers),
             .subtitle = gate_subtitle,
             .prepare = gate_figures,
             .needs = LayerTrait::gate,
             .smallest = {250, 150}},
    PlotKind{.id = "gradient_check",
             .title = "Gradient check",
             .about = "Implicit and unrolled gradients of a solver, compared with the exact gradient.",
             .analyses = set_of(Analysis::solvers),
             .subtitle = gradient_check_subtitle,
             .prepare = gradient_check_figures,
             .needs = LayerTrait::ridge_systems,
             .smallest = {250, 150}},
    PlotKind{.id = "kalman_filter",
             .title = "Kalman filter",
             .about = "How the exact Kalman filter, delta rules and Gated KalmaNet write the layer's key-value pairs.",
             .analyses = set_of(Analysis::solvers),
             .subtitle = kalman_subtitle,
             .prepare = kalman_figures,
             .needs = LayerTrait::pairs,
             .smallest = {250, 150}},
};

constexpr CardNumbers solver_numbers[] = {{"conditioning", kappa_numbers},
                                          {"lambda_min", kappa_numbers},
                                          {"conditioning_shrinkage", shrinkage_numbers},
                                          {"conditioning_size", gram_size_numbers},
                                          {"solver_race", race_numbers},
                                          {"solver_spectrum", race_numbers},
                                          {"solver_floor", race_numbers}};

}  // namespace

PlotFamily solver_plots() { return {solver_rows, solver_numbers}; }

}  // namespace afterglow
