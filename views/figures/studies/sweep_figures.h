// The figures of a sweep: a number over one axis with its spread over seeds, or as colours over two axes; and the
// training of each recipe, mean and spread over its seeds.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "core/engine/observation/table_view.h"
#include "core/figure/figure.h"

namespace afterglow {

/// One for each number in `drawn`, an index into the metrics, and one of the training if there are few enough recipes
/// to distinguish their curves. Numbers over more than two axes are left out.
std::vector<Figure> sweep_figures(const SweepView& sweep, std::span<const std::size_t> drawn);

/// The figures of a table: one for each metric, a curve for each series through the means, a dot for each run; and the
/// training of the series, mean and spread over seeds, at each place of the axis.
std::vector<Figure> table_figures(const TableView& table, const std::vector<RunResult>& results);

/// One number over two axes, while the runs arrive: a missing run shows the nearest one to its lower left on a coarser
/// grid.
Figure phase_figure(const SweepView& sweep, std::size_t metric);

/// A field or number in words: "ridge ε, 1 ska" for "layers.1.ska.ridge", "condition number κ" for "kappa".
std::string words_of(std::string name);
/// "learning rate: 0.001; ridge ε, 1 ska: 0.01": the run in this row.
std::string place_name(const std::vector<SweepAxis>& axes, std::size_t row);

/// The dash of a curve whose colour is used for the second time (round 1) and so on: `first` in round 0, and another
/// one in each of the five rounds after it.
Dash dash_of_round(Dash first, int round);
/// Ink, dash and mark of the series with this number, from 0. The colours of the palette repeat from the seventh series
/// on, with another dash and mark, so that the first 36 all differ.
void tell_apart(int index, Line& line);
/// A curve in one colour between two thin ones, a standard deviation above and below it.
void add_with_spread(const Line& mean, std::span<const double> deviation, Figure& figure);
/// Adds the loss over the steps of training: the mean of the runs in this row, and their spread; `index` is the number
/// of the series in the figure.
void add_training(const std::vector<RunResult>& results, std::size_t row, const std::string& name, int index,
                  Figure& figure);
/// Axes of a figure to which trainings are added.
Figure training_figure(const std::string& id, const std::string& subtitle, const RunMetric& loss);

}  // namespace afterglow
