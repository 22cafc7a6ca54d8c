// Readings of the pointer and the two measuring cursors as text: the numbers are those of the data.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/figure/readout.h"
#include "views/plot_state.h"

namespace afterglow {

struct ReadingLine {
  std::string name;
  std::string value;
  Ink ink = Role::dim;
  bool is_heading = false;
};

/// The abscissa, then the value of every visible curve there, at most sixteen: those nearest to `y` if the pointer
/// gives one, else the first. Empty if there is no curve.
std::vector<ReadingLine> values_at(const Figure& figure, const FigureView& view, double x,
                                   std::optional<double> y = std::nullopt);

/// The cell of the first heat map at a place in data units, with the names of its row and column; empty outside of the
/// map.
std::vector<ReadingLine> cell_at(const Figure& figure, double x, double y);

std::vector<ReadingLine> point_lines(const Figure& figure, const DrawnPoint& point);

/// Readings of several plots as one list: the first plot's, then additional ones of others, while they fit. A plot of
/// one curve takes one line.
struct PlotReading {
  std::string title;
  std::vector<ReadingLine> lines;
};
std::vector<ReadingLine> joined_readings(const PlotReading& first, const std::vector<PlotReading>& others);

/// The change of a curve between the cursors.
struct Measurement {
  std::string name;
  Ink ink = Role::dim;
  double at_a = 0, at_b = 0;
  double difference = 0, ratio = 0;  ///< B - A and B / A
  double slope = 0;  ///< least squares of all points between, in the units of the axes as shown (decades on log axes)
  double error = 0;  ///< half the 95 % interval of the slope, for independent residuals; infinite for two points
  std::string law;   ///< in words: "slope 0.02", "power law, exponent −0.98 ± 0.02", "half-life 41 ± 3 tokens"
};
/// One for every visible line that is not quiet. Needs both cursors; ignores points that the scales cannot show.
std::vector<Measurement> measure(const Figure& figure, const FigureView& view);

/// The place where a box of this size hides least of the plot: names and curves. Below the tags of the cursors.
Rect free_place(const Figure& figure, const FigureGeometry& geometry, Point size, double air);

/// The places of the cursors and their distance, then a line for each of the first measurements.
std::vector<ReadingLine> measurement_lines(const Figure& figure, const FigureView& view);

}  // namespace afterglow
