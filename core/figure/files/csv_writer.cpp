// Series become columns, then columns become rows.
#include "core/figure/files/csv_writer.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/figure/decimate.h"
#include "core/figure/layout.h"
#include "core/io/number_text.h"

namespace afterglow {
namespace {

struct Row {
  double x, y;
  double size = std::numeric_limits<double>::quiet_NaN();  ///< NaN: no size
  int mode = -1;                                           ///< number of the mode; -1: the row is about none
};

struct Column {
  std::string name;
  std::vector<Row> rows;
  bool is_function = true;  ///< one value for each x: may be a column of a wide table
};

std::string unit_suffix(const Axis& axis) { return axis.unit.empty() ? "" : " [" + axis.unit + "]"; }

std::string header(const Axis& axis, const char* fallback) {
  return (axis.label.empty() ? fallback : axis.label) + unit_suffix(axis);
}

class ColumnCollector {
 public:
  explicit ColumnCollector(const FigureView& view) : view_(view) {}

  void operator()(const Line& line) {
    add_curve(line.name, line.curve);
    add_curve(line.name.empty() ? "raw" : line.name + " (raw)", line.raw);
  }

  void operator()(const Bars& bars) {
    Column values{bars.name, {}, true}, before{bars.name.empty() ? "before" : bars.name + " (before)", {}, true};
    bool has_before = false;
    for (const Bar& bar : bars.bars) {
      add(values, {bar.x, bar.value});
      add(before, {bar.x, bar.before});
      has_before = has_before || !std::isnan(bar.before);
    }
    columns.push_back(std::move(values));
    if (has_before) columns.push_back(std::move(before));
  }

  void operator()(const Scatter& scatter) {
    Column dots{scatter.name, {}, false};
    for (const ScatterPoint& p : scatter.points) add(dots, {p.x, p.y, p.radius, p.mode.number});
    columns.push_back(std::move(dots));
    for (std::size_t t = 0; t < scatter.trails.size(); ++t) {
      const Trail& trail = scatter.trails[t];
      Column path{(scatter.name.empty() ? "" : scatter.name + " ") + "trail " + std::to_string(t + 1), {}, false};
      for (std::size_t i = 0; i < std::min(trail.x.size(), trail.y.size()); ++i) add(path, {trail.x[i], trail.y[i]});
      columns.push_back(std::move(path));
    }
  }

  void operator()(const HeatMap& map) {
    Column cells{map.name, {}, false};
    for (int i = 0; is_complete(map) && i < map.rows * map.cols; ++i) {
      const auto value = map.cells[static_cast<std::size_t>(i)];
      cells.rows.push_back({static_cast<double>(i % map.cols), static_cast<double>(i / map.cols), value});
    }
    columns.push_back(std::move(cells));
  }

  std::vector<Column> columns;

 private:
  void add_curve(const std::string& name, const Curve& curve) {
    const CurveView points(curve);
    if (points.size() == 0) return;
    Column column{name, {}, true};
    column.rows.reserve(points.size());
    for (std::size_t i = 0; i < points.size(); ++i) add(column, {points.x(i), points.y(i)});
    columns.push_back(std::move(column));
  }

  // A value that is not finite counts as inside where its x is visible.
  void add(Column& column, const Row& row) const {
    const auto is_outside = [](const std::optional<Range>& range, double v) {
      return range && (v < range->low || v > range->high);
    };
    if (is_outside(view_.x, row.x) || (is_outside(view_.y, row.y) && std::isfinite(row.y))) return;
    column.rows.push_back(row);
  }

  const FigureView& view_;
};

bool fits_wide(const std::vector<Column>& columns) {
  return std::ranges::all_of(columns, [](const Column& column) {
    double last = -std::numeric_limits<double>::infinity();
    return column.is_function && std::ranges::all_of(column.rows, [&](const Row& row) {
             const bool ascends = std::isfinite(row.x) && row.x > last;
             last = row.x;
             return ascends;
           });
  });
}

std::string wide_table(const Figure& figure, const std::vector<Column>& columns) {
  std::string out = csv_field(header(figure.x, "x"));
  for (const Column& column : columns)  // a single unnamed series is named after the y axis
    out += "," + csv_field(column.name.empty() ? header(figure.y, "y") : column.name + unit_suffix(figure.y));
  out += "\r\n";
  std::vector<std::size_t> next(columns.size(), 0);
  for (;;) {
    double x = std::numeric_limits<double>::infinity();
    for (std::size_t c = 0; c < columns.size(); ++c) {
      if (next[c] < columns[c].rows.size()) x = std::min(x, columns[c].rows[next[c]].x);
    }
    if (std::isinf(x)) return out;
    out += shortest(x);
    for (std::size_t c = 0; c < columns.size(); ++c) {
      out += ",";
      const bool has_value = next[c] < columns[c].rows.size() && columns[c].rows[next[c]].x == x;
      if (has_value) out += shortest(columns[c].rows[next[c]++].y);
    }
    out += "\r\n";
  }
}

std::string long_table(const Figure& figure, const std::vector<Column>& columns) {
  const bool has_modes = std::ranges::any_of(columns, [](const Column& column) {
    return std::ranges::any_of(column.rows, [](const Row& row) { return row.mode >= 0; });
  });
  std::string out = "series," + csv_field(header(figure.x, "x")) + "," + csv_field(header(figure.y, "y")) + ",size" +
                    (has_modes ? ",mode\r\n" : "\r\n");
  for (const Column& column : columns) {
    const std::string name = csv_field(column.name);
    for (const Row& row : column.rows)
      out += name + "," + shortest(row.x) + "," + shortest(row.y) + "," +
             (std::isnan(row.size) ? "" : shortest(row.size)) + (has_modes ? "," : "") +
             (row.mode >= 0 ? std::to_string(row.mode) : "") + "\r\n";
  }
  return out;
}

std::string matrix(const Figure& figure, const HeatMap& map) {
  const auto label = [](const std::vector<std::string>& labels, int i) {
    return static_cast<std::size_t>(i) < labels.size() ? labels[static_cast<std::size_t>(i)] : std::to_string(i);
  };
  std::string out = csv_field(header(figure.y, "row") + " \\ " + header(figure.x, "column"));
  const int rows = is_complete(map) ? map.rows : 0;
  for (int c = 0; rows > 0 && c < map.cols; ++c) out += "," + csv_field(label(map.col_labels, c));
  out += "\r\n";
  for (int r = 0; r < rows; ++r) {
    out += csv_field(label(map.row_labels, r));
    for (int c = 0; c < map.cols; ++c) out += "," + shortest(map.cells[static_cast<std::size_t>(r) * map.cols + c]);
    out += "\r\n";
  }
  return out;
}

std::string whole_table(const std::vector<TableColumn>& columns) {
  const auto size = [](const TableColumn& column) {
    return std::visit([](const auto& cells) { return cells.size(); }, column.cells);
  };
  const auto field = [](const TableColumn& column, std::size_t row) {
    const auto* numbers = std::get_if<std::vector<double>>(&column.cells);
    if (!numbers) return csv_field(std::get<std::vector<std::string>>(column.cells)[row]);
    return std::isnan((*numbers)[row]) ? std::string() : shortest((*numbers)[row]);
  };
  std::string out;
  const auto add_row = [&](const auto& text) {
    for (std::size_t c = 0; c < columns.size(); ++c) out += (c == 0 ? "" : ",") + text(columns[c]);
    out += "\r\n";
  };
  add_row([](const TableColumn& column) { return csv_field(column.name); });
  std::size_t rows = size(columns.front());
  for (const TableColumn& column : columns) rows = std::min(rows, size(column));
  for (std::size_t row = 0; row < rows; ++row) add_row([&](const TableColumn& column) { return field(column, row); });
  return out;
}

}  // namespace

std::string csv_text(const Figure& figure) { return csv_text_of_view(figure, {}); }

std::string csv_text_of_view(const Figure& figure, const FigureView& view) {
  if (!figure.table.empty()) return whole_table(figure.table);
  std::vector<const Series*> shown;
  for (const Series& series : figure.series) {
    if (is_shown(series, view)) shown.push_back(&series);
  }
  if (shown.size() == 1 && std::holds_alternative<HeatMap>(*shown.front()))
    return matrix(figure, std::get<HeatMap>(*shown.front()));
  ColumnCollector collector(view);
  for (const Series* series : shown) std::visit(std::ref(collector), *series);
  return fits_wide(collector.columns) ? wide_table(figure, collector.columns) : long_table(figure, collector.columns);
}

}  // namespace afterglow
