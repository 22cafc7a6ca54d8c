// A comparison as plain values for figures: what stands in its rows and columns, and what was measured of its runs.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace afterglow {

struct TableMetric {
  std::string name, unit;  ///< "accuracy", ""
  bool is_share = false;   ///< between 0 and 1, which is then the figure's axis
};

/// One recipe: a point of one curve in the figure.
struct TableRow {
  std::string series;                ///< "Gated DeltaNet"
  std::string kind;                  ///< the layer that it stands for, which is its colour
  double x = 0;                      ///< where it stands on the table's axis
  std::string preset;                ///< the recipe to start from,
  std::vector<std::string> changes;  ///< and what is different, as with --set: "task.bindings=8"
};

struct TableView {
  std::string name, title, about;
  std::string x_label, x_unit;  ///< "pairs", ""
  bool x_logarithmic = false;
  std::vector<TableRow> rows;
  std::vector<TableMetric> metrics;
};

struct TableResult {
  std::size_t row = 0;
  std::uint64_t seed = 0;
  std::int64_t parameters = 0;
  std::string checksum;        ///< of the weights at the end
  std::vector<double> values;  ///< one for each metric
};

/// Mean and standard deviation (n - 1; 0 for one number) of the finite values of a row; NaN when there are none.
struct TableSummary {
  int runs = 0;  ///< with a finite value
  double mean = 0, deviation = 0;
  double best = 0;  ///< largest
};
TableSummary summary_of(const std::vector<TableResult>& results, std::size_t row, std::size_t metric);

}  // namespace afterglow
