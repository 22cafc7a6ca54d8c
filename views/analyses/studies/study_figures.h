// Studies that repeat the training: its parts frozen in turn, without one batch, with one change, over two settings;
// and one number over the kept steps. All are empty before the first run.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/analyses/studies/studies_view.h"
#include "views/figures/plot_functions.h"

namespace afterglow {

SubtitleOfPlot bisect_subtitle, blame_subtitle, microscope_subtitle, over_training_subtitle, phase_map_subtitle;

/// " Takes about 57 min.": so many steps of training at the present speed; empty while that is unknown.
std::string time_of_steps(const Observation& observation, double steps);

/// A bar for each part of the model, as long as the training needs without its learning.
FiguresOfPlot bisect_figures;
/// "held-out accuracy > 0.5 holds from step 212; while 1 ska is frozen, not by step 1,000."
std::string bisect_text(const BisectView& view);

/// The change of the end of the training without each batch, and the loss over the same steps.
FiguresOfPlot blame_figures;
/// The step of the dot "batch 118"; -1 for every other name.
std::int64_t batch_of_point(const std::string& id);
/// "step 118: without its batch the loss at step 220 is 0.41 instead of 0.38"; empty for a batch without a result.
std::string batch_text(const BlameView& view, std::int64_t step);

/// The distance between two trainings that differ in one thing: a line for each part of the model and one for all.
FiguresOfPlot microscope_figures;
/// The result in words: the distance, its growth, and its first place.
std::string microscope_text(const MicroscopeView& view);

/// The loss of the run and the number below it, over the same steps.
FiguresOfPlot over_training_figures;
/// "half life: 31.7 at step 200, 2.1 at step 0, largest 41 at step 180".
std::string over_training_text(const OverTrainingView& view);

/// A number over two settings as colours with a dot for each finished run, and training and results of the best run.
FiguresOfPlot phase_map_figures;
/// The row of the dot "run 37"; -1 for every other name.
std::int64_t run_of_point(const std::string& id);
/// The row of the finished run whose cell covers this place of the map; empty without one.
std::optional<std::size_t> run_at(const PhaseMapView& map, double x, double y);
/// The training of the run in this row, without curves while it is unfinished; and, if its model has one, the
/// eigenvalues of the head with the slowest mode after the last step.
std::vector<Figure> phase_run_figures(const PhaseMapView& map, std::size_t row);

}  // namespace afterglow
