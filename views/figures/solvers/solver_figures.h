// Figures of the solver laboratory: the race of the solvers with its spectrum, gates, gradients by iteration count.
#pragma once
#include <string>
#include <vector>

#include "core/engine/observation/solver_view.h"
#include "core/figure/figure.h"
#include "views/figures/selection.h"
#include "views/figures/training/curve_store.h"

namespace afterglow {

/// The arithmetic that is meant: the selected one, else that of the run.
Arithmetic selected_arithmetic(const Observation& observation, const Selection& selection);
/// Systems that are meant: the user's own, else every one of the layer, else that of the selected head at the raced
/// token nearest to the selected one.
std::vector<const RacedProblem*> selected_problems(const Observation& observation, const Selection& selection);

/// What to do where κ = largest/smallest comes near what the arithmetic can solve; empty while it does not. `ridge` is
/// what the diagonal bears already, 0 for none.
std::string precision_advice(Arithmetic arithmetic, double smallest, double largest, double ridge);
/// The same for the worst of the selected problems.
std::string solver_advice(const Observation& observation, const Selection& selection);

std::string solver_race_subtitle(const Observation& observation, const Selection& selection);
/// Residuals against iterations, the eigenvalues, what every solver reaches in every arithmetic, the weight schedule.
std::vector<Figure> solver_race_figures(const Observation& observation, const Selection& selection, CurveStore& curves);

std::string gate_subtitle(const Observation& observation, const Selection& selection);
std::vector<Figure> gate_figures(const Observation& observation, const Selection& selection, CurveStore& curves);

std::string gradient_check_subtitle(const Observation& observation, const Selection& selection);
std::vector<Figure> gradient_check_figures(const Observation& observation, const Selection& selection,
                                           CurveStore& curves);

}  // namespace afterglow
