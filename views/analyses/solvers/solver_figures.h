// Figures of the solvers: the race with its spectrum, gates, gradients by iteration count.
#pragma once
#include <string>
#include <vector>

#include "core/engine/analyses/solvers/solver_view.h"
#include "core/figure/figure.h"
#include "views/figures/plot_functions.h"

namespace afterglow {

/// The selected arithmetic, else that of the run.
Arithmetic selected_arithmetic(const Observation& observation, const Selection& selection);
/// The systems to show: the user's own, else every one of the layer, else that of the selected head at the raced token
/// nearest to the selected one.
std::vector<const RacedProblem*> selected_problems(const Observation& observation, const Selection& selection);

/// Advice if κ = largest/smallest comes near the limit of the arithmetic; else empty. `ridge` is the number that the
/// diagonal contains already, or 0.
std::string precision_advice(Arithmetic arithmetic, double smallest, double largest, double ridge);
/// The same for the worst of the selected problems.
std::string solver_advice(const Observation& observation, const Selection& selection);

SubtitleOfPlot solver_race_subtitle;
/// Residuals over iterations, the eigenvalues, the floor of every solver in every arithmetic, the weight schedule.
FiguresOfPlot solver_race_figures;

SubtitleOfPlot half_lives_subtitle;
/// Layers x heads, the layer next to the input on top.
FiguresOfPlot half_lives_figures;

SubtitleOfPlot gate_subtitle, gradient_check_subtitle;
FiguresOfPlot gate_figures, gradient_check_figures;

SubtitleOfPlot conditioning_subtitle;
/// Advice about the worst κ of the panel; empty while the precision in use is sufficient.
std::string conditioning_advice(const Observation& observation, const Selection& selection);
/// The shares of the first and the last direction of the chosen head's keys that remain after the ridge, and of all
/// together (Echo, proposition A.2); empty without a trace of an SKA layer.
std::string shrinkage_numbers(const Observation& observation, const Selection& selection);
/// tr G, |G|_F and λ_max of the chosen head after the chosen token (Echo, proposition E.1); empty as above.
std::string gram_size_numbers(const Observation& observation, const Selection& selection);
/// For a traced SKA layer also the shrinkage of each direction by the ridge (A.2) and the size of G (E.1).
FiguresOfPlot conditioning_figures;

struct HeadFilters;

/// The filters of the selected head, or of the nearest one with filters; nullptr without any.
const HeadFilters* selected_filters(const Observation& observation, const Selection& selection);

SubtitleOfPlot kalman_subtitle;
/// The share of a pair that each filter writes, the rest of it at the end, the angle between gain and key, Σ_t, and the
/// drift of the recursion in the selected arithmetic.
FiguresOfPlot kalman_figures;

/// The lower end of the logarithmic axes of the solvers.
constexpr double floor_of_axis = 1e-17;  ///< residuals of exact answers

/// The values, with smaller ones at that end.
std::vector<double> lifted(std::vector<double> values);
/// The place of the selected arithmetic among all.
std::size_t index_of(Arithmetic arithmetic);

/// One colour for each solver, the same in every figure.
inline Ink solver_ink(SolverKind kind) {
  constexpr int inks[] = {0, 5, 2, 1, 4};  // in the order of SolverKind
  return inks[static_cast<std::size_t>(kind)];
}

}  // namespace afterglow
