// Figures of training: accuracy, loss, gradient norms, learning rate; several runs in one plot.
#pragma once
#include <vector>

#include "views/figures/plot_functions.h"

namespace afterglow {

/// The changes of the present run, also later ones, and the notes on steps; all at one step are one mark.
std::vector<Mark> marks_by_step(const Observation& observation);
SubtitleOfPlot training_subtitle;
FiguresOfPlot training_figures;

/// Of a run in a folder, from its logs: all losses in one figure, as accuracies, norms of gradients and learning rates.
std::vector<Figure> log_figures(const Observation& observation);

}  // namespace afterglow
