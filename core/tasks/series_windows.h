// Windows of a series of several channels: the data of a forecast task for training and evaluation.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace afterglow {

enum class SeriesPart : std::uint8_t { train, validation, test };

/// Shares of the rows for training, validation and test, in this order; 12, 4 and 4 for the ETT data.
struct SeriesSplit {
  std::int64_t train = 12, validation = 4, test = 4;
  std::int64_t all() const { return train + validation + test; }
};

/// The source of a series: which part of a file was read, and how the reader interpreted it.
struct SeriesSource {
  std::int64_t rows_in_file = 0;            ///< 0 for a series without a file
  std::vector<std::string> time_columns{};  ///< names of columns with times or an index, which are not channels
  std::vector<std::string> notes{};         ///< what the reader assumed, filled or left out, one phrase each
  bool is_in_order = false;                 ///< training takes its windows in the order of time
};

/// A series, standardised by mean and deviation of its training part, cut into windows of `length` input rows
/// and `horizon` rows that follow. The first rows are for training, the next for validation, the last for test; the
/// first inputs of the later parts come from the part before. Immutable.
class SeriesWindows {
 public:
  /// values [rows, names.size()], row-major; `times` has one text per row or is empty. Every part must hold a window.
  /// Throws Error(bad_input) for values so large that their standard deviation or a standardised value is not finite.
  SeriesWindows(std::vector<std::string> names, std::vector<std::string> times, std::vector<double> values,
                std::int64_t length, std::int64_t horizon, SeriesSplit split = {}, std::string unit = "h",
                SeriesSource source = {});

  std::int64_t length() const { return length_; }
  std::int64_t horizon() const { return horizon_; }
  std::int64_t channels() const { return static_cast<std::int64_t>(names_.size()); }
  /// Windows of a part; negative or 0 when it is too short for one.
  std::int64_t count(SeriesPart part) const;
  /// The window that training example `index` of the run with this seed takes: every window once an epoch.
  std::int64_t training_window(std::uint64_t seed, std::uint64_t index) const;
  /// Standardised values of a window: input [L,C], truth [P,C].
  void write(SeriesPart part, std::int64_t window, float* input, float* truth) const;
  /// A standardised value in the series' own unit.
  double own_unit(std::int64_t channel, double value) const { return value * deviation_[channel] + mean_[channel]; }
  const std::vector<std::string>& names() const { return names_; }
  /// Number of rows in use.
  std::int64_t rows() const { return rows_; }
  const SeriesSource& source() const { return source_; }
  /// "14400 of 69680 rows; 7 channels; 1 time column", then the notes of the source.
  std::string summary() const;
  /// What a row lasts: "h"; "row" where the file has no times.
  std::string unit() const { return times_.empty() ? "row" : unit_; }
  /// Time stamp of a row of a window, counted from its first input; empty without time stamps.
  std::string time(SeriesPart part, std::int64_t window, std::int64_t row) const;

 private:
  std::int64_t first_row(SeriesPart part) const;
  std::vector<std::string> names_, times_;
  SeriesSplit split_;
  std::string unit_;
  std::vector<float> values_;
  std::vector<double> mean_, deviation_;
  std::int64_t rows_, length_, horizon_;
  SeriesSource source_;
};

}  // namespace afterglow
