// Figures of the Koopman spectrum: eigenvalues in the complex plane with trails or forces, and the readout of one mode.
#pragma once
#include <string>
#include <vector>

#include "core/engine/analyses/forces/forces_view.h"
#include "views/figures/plot_functions.h"

namespace afterglow {

SubtitleOfPlot spectrum_subtitle;
/// The selected head (or all heads of its layer) and the Koopman MLP; the MLP comes first if it is selected.
FiguresOfPlot spectrum_figures;

/// One line of the readout next to the plane.
struct ReadoutRow {
  std::string label;
  std::string value;
  std::string card;  ///< formula card of the quantity, see views/plots/formula_card.h
};
/// Modulus, angle, half-life ln(1/2)/ln|λ| and period 2π/angle in tokens, energy, and the gain at K. The first row
/// names the mode. For a selected Koopman MLP the pair's modulus and angle. Empty without a spectrum.
std::vector<ReadoutRow> mode_readout(const Observation& observation, const Selection& selection);

/// An empty complex plane with the unit circle, wide enough for eigenvalues of modulus `reach`.
Figure eigenvalue_plane(std::string id, std::string title, double reach);

/// The factor on the eigenvalues of A_w according to the selection: 1, or scale for the eigenvalues of A.
double shown_scale(const HeadSpectrum& head, const Selection& selection);

SubtitleOfPlot power_filter_subtitle;
/// The gains as curves with the modes on them, and as a table: a row for each mode, a column for each power of Echo's
/// table D.1 and the displayed one.
FiguresOfPlot power_filter_figures;

SubtitleOfPlot forces_subtitle;
/// Where the loss pulls each eigenvalue and where the optimiser moves it: of the selected head, or all of its layer.
FiguresOfPlot forces_figures;
/// The forces on the selected head, or on the first one; nullptr without any.
const HeadForces* selected_forces(const Observation& observation, const Selection& selection);
/// "mode 3 at 0.91 + 0.2i: the loss pulls it by 1.2e-4 outwards, the step moves it .."; empty for an unknown mode.
std::string force_text(const HeadForces& forces, int number);

/// Of layers without a Koopman operator: the factors of one token, and the growth of the state.
SubtitleOfPlot state_spectrum_subtitle, state_growth_subtitle;
FiguresOfPlot state_spectrum_figures, state_growth_figures;

}  // namespace afterglow
