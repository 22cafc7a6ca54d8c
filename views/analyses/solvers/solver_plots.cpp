// Plots and cards of conditioning, solvers, gates and gradients of solves.
#include "core/figure/axis.h"
#include "views/analyses/solvers/solver_figures.h"
#include "views/plots/families.h"

namespace afterglow {

namespace {

std::string race_numbers(const Observation& o, const Selection& s) {
  double kappa = 0;
  for (const RacedProblem* problem : selected_problems(o, s)) kappa = std::max(kappa, problem->kappa());
  return kappa > 0
             ? "κ = " + number_text(kappa, 3) + ", 1/u = " + number_text(inverse_unit(selected_arithmetic(o, s)), 3)
             : "";
}

constexpr PlotRow solver_rows[] = {
    {"conditioning", Analysis::inspected | Analysis::spectra | Analysis::trace | Analysis::solvers,
     LayerTrait::ridge_systems, conditioning_subtitle, conditioning_figures},
    {"solver_race", set_of(Analysis::solvers), LayerTrait::ridge_systems, solver_race_subtitle, solver_race_figures},
    {"gate", set_of(Analysis::solvers), LayerTrait::gate, gate_subtitle, gate_figures},
    {"half_lives", set_of(Analysis::solvers), LayerTrait::gate, half_lives_subtitle, half_lives_figures},
    {"gradient_check", set_of(Analysis::solvers), LayerTrait::ridge_systems, gradient_check_subtitle,
     gradient_check_figures},
    {"kalman_filter", set_of(Analysis::solvers), LayerTrait::pairs, kalman_subtitle, kalman_figures},
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
