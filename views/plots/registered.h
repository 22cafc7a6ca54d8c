// The registration of all plots and panels: a family of plots has a line here, and one more if its panels draw or do
// more than the usual grid.
#pragma once
#include <array>
#include <vector>

namespace afterglow {

struct PlotFamily;    ///< families.h
struct PanelDrawing;  ///< panels/panel.h

PlotFamily training_plots(), accuracy_plots(), study_plots(), spectrum_plots(), sequence_plots(), causes_plots(),
    solver_plots(), influence_plots(), theory_plots(), spectral_memory_plots();
/// In the order in which the plots are listed.
inline constexpr std::array plot_families{training_plots, accuracy_plots,       study_plots,  spectrum_plots,
                                          sequence_plots, causes_plots,         solver_plots, influence_plots,
                                          theory_plots,   spectral_memory_plots};

std::vector<PanelDrawing> training_drawings(), accuracy_drawings(), study_drawings(), spectrum_drawings(),
    sequence_drawings(), causes_drawings(), solver_drawings(), influence_drawings(), theory_drawings(),
    memory_drawings();
inline constexpr std::array panel_drawings{training_drawings, accuracy_drawings, study_drawings,  spectrum_drawings,
                                           sequence_drawings, causes_drawings,   solver_drawings, influence_drawings,
                                           theory_drawings,   memory_drawings};

}  // namespace afterglow
