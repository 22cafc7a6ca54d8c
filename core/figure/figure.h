// What a plot shows, in data units: one value that the window and the file writers draw.
#pragma once
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/figure/values.h"

namespace afterglow {

class CurvePyramid;  // core/figure/decimate.h

/// An interval in data units with `low < high`; drawing repairs others.
struct Range {
  double low = 0;
  double high = 1;
  bool operator==(const Range&) const = default;
};

enum class Scale {
  linear,
  log,    ///< decades; values <= 0 are marked at the lower edge
  symlog  ///< linear around 0, decades outside: asinh(v / threshold)
};

/// A tick that the figure sets at a fixed value, for example a category under a bar.
struct AxisTick {
  double at = 0;
  std::string label{};
};

struct Axis {
  std::string label{};  ///< "influence |∂y/∂x|"
  std::string unit{};   ///< "tokens"; shown as "label (tokens)", in CSV headers as "label [tokens]"
  Scale scale = Scale::linear;
  std::optional<Range> range{};   ///< fixed by the figure; otherwise fitted to the data
  bool integer_ticks = false;     ///< no tick between two integers (steps, tokens, iterations)
  double symlog_threshold = 0;    ///< where symlog turns from linear to decades; 0: chosen from the data
  std::vector<AxisTick> ticks{};  ///< when not empty: exactly these ticks
};

/// The meaning of a colour. A series has a palette index; the theme gives the colours of the other roles.
enum class Role { series, text, dim, faint, accent, warning, failure };

/// A colour by meaning, not by value: `Ink(2)` is the third series colour, `Ink(Role::dim)` quiet text.
struct Ink {
  Role role = Role::series;
  int index = 0;  ///< of the palette, used modulo its length; each index also has its own dash and marker
  constexpr Ink(int palette_index = 0) : index(palette_index) {}
  constexpr Ink(Role r) : role(r) {}
  bool operator==(const Ink&) const = default;
};

/// `automatic`: the dash (or marker) of the colour index.
enum class Dash { automatic, solid, dashed, dotted, dash_dot, long_dash, short_dash };
enum class Marker { automatic, none, circle, square, diamond, triangle_up, triangle_down, hexagon };

/// The points of a curve: two arrays of equal length (extra elements of the longer are ignored), or a pyramid that grew
/// as data arrived. x need not be sorted; when it is, drawing and reading use binary search.
struct Curve {
  Values x{};
  Values y{};
  std::shared_ptr<const CurvePyramid> pyramid{};  ///< when set, x and y are ignored
};

/// A curve. Non-finite values (and values <= 0 on a log axis) leave a gap and a small triangle at their x.
struct Line {
  std::string name{};  ///< label at the curve or in the legend; unique within a figure
  Curve curve{};
  Curve raw{};  ///< optional: the values before smoothing, drawn faint behind
  Ink ink{};
  Dash dash = Dash::automatic;
  double width = 2;  ///< in pixels at text size 12, scaled with the text
  Marker marker = Marker::none;
  bool is_quiet = false;     ///< belongs to another line, such as its bound: no label and no legend entry
  std::string end_value{};   ///< optional text after the name in a label at the curve: "0.998"
  bool is_outlined = false;  ///< only its edges are drawn; so for dots and bars
};

/// The mode that a dot stands for, by the number that names it.
struct DotMode {
  int number = -1;       ///< -1: the dot is no mode
  bool is_pair = false;  ///< of a Koopman MLP
};

/// One dot of a scatter plot.
struct ScatterPoint {
  double x = 0;
  double y = 0;
  double radius = 4;  ///< in pixels at text size 12; some figures show a weight by it
  Ink ink{};
  bool ring = false;    ///< drawn with a ring around it: selected
  std::string id{};     ///< stable name for hits and selection, for example "mode 3"
  std::string label{};  ///< optional text next to the dot
  double presence = 1;  ///< opacity from 0 to 1; below 1 for dots of earlier steps
  DotMode mode{};
};

/// Earlier positions of a dot, oldest first; older ones are fainter.
struct Trail {
  std::vector<double> x{};
  std::vector<double> y{};
  Ink ink{};
};

struct Scatter {
  std::string name{};
  std::vector<ScatterPoint> points{};
  std::vector<Trail> trails{};
  Marker marker = Marker::automatic;  ///< automatic: by the colour of each point
  bool is_outlined = false;
};

/// One bar, from 0 (or the lower edge of a log axis) to its value.
struct Bar {
  double x = 0;
  double value = 0;
  double before = std::numeric_limits<double>::quiet_NaN();  ///< drawn grey behind; NaN: missing
  Ink ink{};
};

struct Bars {
  std::string name{};
  std::vector<Bar> bars{};
  double width = 0;  ///< in x units; 0: four fifths of the smallest distance, at most 28 pixels
  bool is_outlined = false;
};

enum class ColourMap { sequential, diverging };

/// rows x cols values, row-major. Cell (r, c) covers [c - 1/2, c + 1/2] x [r - 1/2, r + 1/2] in data units, row 0 on
/// top, and always has a colour bar. A diverging map keeps 0 (or the middle of a fixed range) at its neutral colour.
struct HeatMap {
  std::string name{};
  int rows = 0;
  int cols = 0;
  Values cells{};  ///< rows * cols numbers; with fewer the map is drawn as empty
  ColourMap map = ColourMap::sequential;
  Axis value{};                           ///< label, unit, scale of the colour bar; a fixed range locks the colours
  std::vector<std::string> row_labels{};  ///< empty, or one for each row
  std::vector<std::string> col_labels{};  ///< empty, or one for each column
  bool shows_numbers = false;             ///< written into the cells where all of them fit
  int digits = 2;                         ///< significant digits of the largest number; the others get as many decimals
  bool nan_is_blank = false;              ///< NaN means "nothing here" (a causal mask): left empty instead of marked
  std::vector<bool> is_rough{};           ///< empty, or per cell: an estimate, which fills only the middle
};

using Series = std::variant<Line, Scatter, Bars, HeatMap>;

enum class Orientation { horizontal, vertical };

/// A line across the plot: a bound, a limit, a marked value.
struct ReferenceLine {
  Orientation orientation = Orientation::horizontal;
  double at = 0;
  std::string label{};
  Ink ink = Role::warning;
  Dash dash = Dash::dashed;
};

/// A circle in data units, for example the unit circle. Use with `Figure::equal_aspect`.
struct ReferenceCircle {
  double x = 0;
  double y = 0;
  double radius = 1;
  Ink ink = Role::dim;
  Dash dash = Dash::solid;
};

enum class Anchor { start, middle, end };

/// Text at a position in data units.
struct TextLabel {
  double x = 0;
  double y = 0;
  std::string text{};
  Ink ink = Role::dim;
  Anchor anchor = Anchor::start;
  bool is_centred = false;  ///< y is the middle of its height, otherwise its baseline
};

/// An event at x: "rate 3e−4 → 1e−3".
struct EventMark {
  double x = 0;
  std::string text{};
  Ink ink = Role::warning;
};

enum class LabelPlacement {
  automatic,  ///< at the curves where there is room, otherwise a legend
  at_curves,  ///< at the curves even where the plot gets narrower; a legend only where a label would not fit at all
  legend,
  none
};

/// A column of texts or of numbers.
struct TableColumn {
  std::string name{};
  std::variant<std::vector<double>, std::vector<std::string>> cells{};
};

/// One plot. A pure value: drawing it twice gives the same picture.
struct Figure {
  std::string id{};  ///< stem of file names: "loss"
  std::string title{};
  std::string subtitle{};  ///< what is shown, in quieter ink
  std::string subject{};   ///< what it is about, where that is less than the whole model: "layer 1 ska, head 0"
  std::string heading{};   ///< replaces the title in files: what, of what, when; empty: the title
  Axis x{};
  Axis y{};
  std::vector<Series> series{};  ///< drawn in this order
  std::vector<ReferenceLine> reference_lines{};
  std::vector<ReferenceCircle> reference_circles{};
  std::vector<TextLabel> text_labels{};
  std::vector<EventMark> events{};
  /// Columns of one length, for data that the series do not hold; CSV and JSON write them instead of the series.
  std::vector<TableColumn> table{};
  bool equal_aspect = false;  ///< one unit of x is as long as one unit of y
  LabelPlacement labels = LabelPlacement::automatic;
  std::string recipe{};      ///< JSON that rebuilds the state that made the figure; carried into every file
  std::string provenance{};  ///< one line: version, seed, step, checksum, device
};

/// The name of a series of any kind.
const std::string& series_name(const Series& series);

/// "label (unit)", or just the label when there is no unit.
std::string axis_title(const Axis& axis);

}  // namespace afterglow
