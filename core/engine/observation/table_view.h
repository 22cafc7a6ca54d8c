// A comparison as plain values for figures: its rows and columns, and the measurements of its runs.
#pragma once
#include <complex>
#include <cstdint>
#include <string>
#include <vector>

namespace afterglow {

struct RunMetric {
  std::string name, unit;  ///< "accuracy", ""
  bool is_share = false;   ///< between 0 and 1; the figure's axis then has this range
  std::string group = {};  ///< metrics of one group form one figure over `at`
  double at = 0;           ///< abscissa of the metric in its group; an empty group: a figure over the rows
};

/// "steps to 90 % [steps]", for the head of a column.
std::string heading_of(const RunMetric& metric);

/// One recipe: a point of one curve in the figure.
struct TableRow {
  std::string series;                ///< "Gated DeltaNet"
  double x = 0;                      ///< abscissa in the figure
  std::string preset;                ///< the recipe to start from
  std::vector<std::string> changes;  ///< and its changes, as with --set: "task.bindings=8"
};

/// Results of a series in a paper, one number for each metric; NaN if it reports none.
struct PublishedSeries {
  std::string series;
  std::vector<double> values;
  double x = 0;  ///< its abscissa; a series with only x = 0 is one number for all
};

struct TableView {
  std::string name, title, about;
  std::string x_label, x_unit;  ///< "pairs", ""
  bool x_logarithmic = false;
  std::vector<std::string> x_names = {};          ///< names of the abscissae 0, 1, 2, .. if they are not numbers
  std::string group_label = {}, group_unit = {};  ///< abscissa of the groups of metrics
  std::vector<PublishedSeries> published = {};
  bool is_of_best = false;  ///< curves go through the best run of a row whose runs differ in a setting
  std::vector<TableRow> rows;
  std::vector<RunMetric> metrics;
};

/// A training in few points, the last of them its end: each loss is the mean over the steps since the previous point.
struct TrainingSketch {
  std::vector<double> step, loss;
  std::vector<double> held_out_step, held_out_accuracy;
};

/// Of the head with the longest-lived slowest mode: the eigenvalues of its operator as they act on a token, by mode
/// number.
struct RunSpectrum {
  std::string head;  ///< "1 ska · head 2"
  std::vector<std::complex<double>> eigenvalues;
};

/// The results of a run that was trained to its end.
struct RunResult {
  std::size_t row = 0;
  std::uint64_t seed = 0;
  std::int64_t parameters = 0;
  std::string checksum;        ///< of the weights at the end
  std::vector<double> values;  ///< one for each metric
  TrainingSketch sketch = {};
  RunSpectrum spectrum = {};  ///< at the end, if requested
};

/// Mean and standard deviation (n - 1; 0 for one number) of the finite values of a row; NaN without any.
struct ResultSummary {
  int runs = 0;  ///< with a finite value
  double mean = 0, deviation = 0;
  double best = 0;  ///< largest
};
/// "64", or the abscissa's name.
std::string place_text(const TableView& table, double x);
/// The groups of the metrics, in their order.
std::vector<std::string> groups_of(const TableView& table);

ResultSummary summary_of(const std::vector<RunResult>& results, std::size_t row, std::size_t metric);

/// One field of the recipe and the values that it takes.
struct SweepAxis {
  std::string field;                ///< "learning_rate", "layers.1.ska.ridge"
  std::vector<std::string> values;  ///< as after the equals sign of an assignment: "0.001", "mamba2"
  bool is_logarithmic = false;
};

/// An axis of repetitions: figures show their mean and spread.
constexpr const char* seed_field = "seed";

struct SweepView {
  std::string name;             ///< of the recipe: "tiny"
  std::vector<SweepAxis> axes;  ///< the last one varies fastest
  std::vector<RunMetric> metrics;
  std::vector<RunResult> results;  ///< of finished runs; `row` is the index in the grid
  std::string recipe;              ///< JSON of the varied recipe, for files
};

std::size_t size_of(const std::vector<SweepAxis>& axes);
/// The index on each axis of the run in this row.
std::vector<std::size_t> place_of(const std::vector<SweepAxis>& axes, std::size_t row);

/// The axes without that of the seeds.
std::vector<SweepAxis> shown_axes(const SweepView& sweep);
/// The same results with `row` counted without seeds, so that `summary_of` averages over the seeds.
std::vector<RunResult> by_shown_place(const SweepView& sweep);

}  // namespace afterglow
