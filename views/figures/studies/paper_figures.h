// Figures of Gated KalmaNet, reproduced from studies of solvers and from the training of two presets, one of Spectral
// Memory's equations, and Echo's table 1 as measured.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/engine/analyses/costs/cost_view.h"
#include "core/engine/observation/study_view.h"
#include "views/figures/plot_functions.h"

namespace afterglow {

/// Figure 1a: the largest residual of each solver, by iteration.
Figure forward_figure(const StudyView& study);
/// Figure 1b to 1e, `letter` 'b' to 'e': gradients of one solver, implicit and unrolled (dashed), against exact ones.
Figure backward_figure(char letter, const StudyView& study);
/// Figure 8: residuals of Chebyshev, one curve for each strength of the ridge.
Figure strength_figure(const StudyView& study);
/// The second part, with letter b: true residual and recall error over the strength (appendix G in numbers).
Figure strength_price_figure(const StudyView& study);
/// Recall error of Gated KalmaNet, DeltaNet and the optimum over the pairs that a state holds.
Figure capacity_figure(const StudyView& study);
/// Figure 5: the divisor of a reversed iteration, over the condition number.
Figure divisor_figure(const StudyView& study);
/// Echo's propositions C.5 (number 0) and J.1.
Figure limits_figure(std::size_t number, const std::vector<StudyCurve>& curves);
/// Spectral Memory, eqs. 27 to 30: the strongest eigenvalues of strategy B's kernel over the rows of the history.
Figure kl_limit_figure(const std::vector<KlLimit>& modes, double tau);
/// Figure 6: training loss (number 0) or gradient norm (1) of the runs with adaptive and with constant regularisation,
/// in this order.
Figure regularisation_figure(std::size_t number, std::span<const RunCurves> runs, std::uint64_t seed);

/// Echo's table 1 over the length, each layer a curve: time of a training pass (0) and of one more token (1), the state
/// that decoding carries (2), memory of a training pass (3). Dashed: the power of T in the table, through the last
/// point; the table has none for the last one.
Figure cost_figure(std::size_t number, const CostView& costs);
/// The four of them, as the window measures them.
SubtitleOfPlot costs_subtitle;
FiguresOfPlot costs_figures;

}  // namespace afterglow
