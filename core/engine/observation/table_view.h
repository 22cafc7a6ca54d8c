// A comparison as plain values for figures: what stands in its rows and columns, and what was measured of its runs.
#pragma once
#include <complex>
#include <cstdint>
#include <string>
#include <vector>

namespace afterglow {

struct RunMetric {
  std::string name, unit;  ///< "accuracy", ""
  bool is_share = false;   ///< between 0 and 1, which is then the figure's axis
  std::string group = {};  ///< numbers of one group are one figure, over
  double at = 0;           ///< the place of each; empty: a figure of its own, over the rows
};

/// "steps to 90 % [steps]", as in the head of a column.
std::string heading_of(const RunMetric& metric);

/// One recipe: a point of one curve in the figure.
struct TableRow {
  std::string series;                ///< "Gated DeltaNet"
  double x = 0;                      ///< where it stands on the table's axis
  std::string preset;                ///< the recipe to start from,
  std::vector<std::string> changes;  ///< and what is different, as with --set: "task.bindings=8"
};

/// What a paper reports of a series, one number for each metric; NaN where it reports none.
struct PublishedSeries {
  std::string series;
  std::vector<double> values;
  double x = 0;  ///< its place on the table's axis; a series of its own at 0 is one number for all places
};

struct TableView {
  std::string name, title, about;
  std::string x_label, x_unit;  ///< "pairs", ""
  bool x_logarithmic = false;
  std::vector<std::string> x_names = {};          ///< of the places 0, 1, 2, .. where they are no numbers
  std::string group_label = {}, group_unit = {};  ///< over what the groups of metrics stand
  std::vector<PublishedSeries> published = {};
  bool is_of_best = false;  ///< curves go through the best run of a row, where its runs differ in a setting
  std::vector<TableRow> rows;
  std::vector<RunMetric> metrics;
};

/// A training in few points, the last of them its end: each loss is the mean of the steps since the point before.
struct TrainingSketch {
  std::vector<double> step, loss;
  std::vector<double> held_out_step, held_out_accuracy;
};

/// Of the head whose slowest mode lasts longest: the eigenvalues of its operator as it acts on a token, in the order of
/// its modes.
struct RunSpectrum {
  std::string head;  ///< "1 ska · head 2"
  std::vector<std::complex<double>> eigenvalues;
};

/// What is known of a run that was trained to its end.
struct RunResult {
  std::size_t row = 0;
  std::uint64_t seed = 0;
  std::int64_t parameters = 0;
  std::string checksum;        ///< of the weights at the end
  std::vector<double> values;  ///< one for each metric
  TrainingSketch sketch = {};
  RunSpectrum spectrum = {};  ///< at the end, where the inquiry asks for it
};

/// Mean and standard deviation (n - 1; 0 for one number) of the finite values of a row; NaN when there are none.
struct ResultSummary {
  int runs = 0;  ///< with a finite value
  double mean = 0, deviation = 0;
  double best = 0;  ///< largest
};
/// "64", or the name that the place has.
std::string place_text(const TableView& table, double x);
/// The groups of the metrics, in their order.
std::vector<std::string> groups_of(const TableView& table);

ResultSummary summary_of(const std::vector<RunResult>& results, std::size_t row, std::size_t metric);

}  // namespace afterglow
