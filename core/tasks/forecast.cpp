// The task `forecast`: windows of a CSV file in the ETT form, or of a built-in series with several seasons.
#include <cmath>
#include <filesystem>
#include <numbers>
#include <numeric>

#include "core/io/csv.h"
#include "core/io/error.h"
#include "core/random/random.h"
#include "core/tasks/kinds.h"
#include "core/tasks/series_windows.h"

namespace afterglow {

namespace {

constexpr std::int64_t parts_in_all = 20, train_parts = 12, validation_parts = 4;
constexpr const char* built_in = "built-in";
constexpr std::int64_t hours_in_ett = 20 * 30 * 24;

class Forecast final : public Task {
 public:
  Forecast(std::string source, SeriesWindows windows)
      : Task("forecast", 1, static_cast<int>(windows.length())),
        source_(std::move(source)),
        windows_(std::move(windows)) {}

  std::string describe() const override {
    return "forecast " + source_ + " · " + std::to_string(windows_.channels()) + " channels · " +
           std::to_string(windows_.length()) + " rows in · " + std::to_string(windows_.horizon()) + " ahead";
  }
  std::string token_label(int token) const override { return token == 0 ? "·" : "?!"; }
  TokenRole token_role(int) const override { return TokenRole::blank; }
  const SeriesWindows* windows() const override { return &windows_; }
  /// Examples are windows of numbers, not tokens.
  void generate(Random&, std::uint64_t, Split, Example&) const override {}

 private:
  std::string source_;
  SeriesWindows windows_;
};

/// Two seasons of each channel that beat against each other, a slow drift, and noise; long enough for the horizon.
SeriesWindows built_in_series(std::int64_t length, std::int64_t horizon) {
  constexpr int channels = 3;
  const std::int64_t rows = std::max<std::int64_t>(2400, 6 * horizon);
  const double periods[channels][2] = {{24, 168}, {24, 56}, {12, 100}};
  std::vector<double> values;
  Random random(7, task_design_stream, 0);
  double walk[channels] = {};
  for (std::int64_t t = 0; t < rows; ++t) {
    for (int c = 0; c < channels; ++c) {
      walk[c] = 0.99 * walk[c] + 0.05 * random.normal();
      const double day = std::sin(2 * std::numbers::pi * static_cast<double>(t) / periods[c][0]);
      const double week = std::cos(2 * std::numbers::pi * static_cast<double>(t) / periods[c][1]);
      values.push_back(10.0 * (c + 1) + (1.0 + 0.5 * week) * day + 0.8 * week + walk[c] + 0.1 * random.normal());
    }
  }
  return {{"day, week", "day, beat", "half day"}, {}, std::move(values), length, horizon};
}

SeriesWindows read_series(const CsvTable& table, const std::string& path, std::int64_t most, std::int64_t length,
                          std::int64_t horizon) {
  if (table.columns() < 2)
    throw Error(ExitCode::bad_input, path + ": expected a column of times and at least one of numbers");
  if (table.rows() == 0)
    throw Error(ExitCode::bad_input, path + ": there is no row of numbers below the header; give a file with a series");
  const std::size_t first = table.looks_numeric(0) ? 0 : 1;
  const std::size_t rows = std::min(table.rows(), static_cast<std::size_t>(most));
  const std::vector<std::string> names(table.names().begin() + static_cast<std::ptrdiff_t>(first), table.names().end());
  std::vector<std::string> times;
  for (std::size_t row = 0; first > 0 && row < rows; ++row) times.emplace_back(table.text(row, 0));
  std::vector<double> values(rows * names.size());
  for (std::size_t c = 0; c < names.size(); ++c) {
    const std::vector<double> column = table.numbers(first + c);
    for (std::size_t row = 0; row < rows; ++row) {
      if (!std::isfinite(column[row]))
        throw Error(ExitCode::bad_input, path + ", line " + std::to_string(row + 2) + ", column " + names[c] +
                                             ": a forecast needs finite numbers; fill the gap or leave the column out");
      values[row * names.size() + c] = column[row];
    }
  }
  return {names, std::move(times), std::move(values), length, horizon};
}

std::unique_ptr<Task> make_forecast(const Fields& fields) {
  const std::int64_t length = fields.integer("length"), horizon = fields.integer("horizon");
  const std::int64_t most = fields.integer("rows");
  const std::string path = fields.text("path");
  SeriesWindows windows =
      path == built_in ? built_in_series(length, horizon)
                       : read_series(parse_csv(fields.file("path", csv_limit), path), path, most, length, horizon);
  for (const SeriesPart part : {SeriesPart::train, SeriesPart::validation, SeriesPart::test}) {
    if (windows.count(part) < 1)
      fields.refuse("the series is too short for " + std::to_string(length) + " rows in and " +
                    std::to_string(horizon) + " ahead. Make 'length' or 'horizon' smaller.");
  }
  const std::string source = path == built_in ? "a built-in series" : std::filesystem::path(path).filename().string();
  return std::make_unique<Forecast>(source, std::move(windows));
}

}  // namespace

SeriesWindows::SeriesWindows(std::vector<std::string> names, std::vector<std::string> times, std::vector<double> values,
                             std::int64_t length, std::int64_t horizon)
    : names_(std::move(names)), times_(std::move(times)), length_(length), horizon_(horizon) {
  const std::int64_t width = channels();
  rows_ = static_cast<std::int64_t>(values.size()) / width;
  const std::int64_t fitted = std::max<std::int64_t>(1, rows_ * train_parts / parts_in_all);
  for (std::int64_t c = 0; c < width; ++c) {
    double mean = 0, squares = 0;
    for (std::int64_t t = 0; t < fitted; ++t) mean += values[t * width + c] / static_cast<double>(fitted);
    for (std::int64_t t = 0; t < fitted; ++t) squares += std::pow(values[t * width + c] - mean, 2);
    const double deviation = std::sqrt(squares / static_cast<double>(fitted));
    mean_.push_back(mean);
    deviation_.push_back(deviation > 0 ? deviation : 1.0);  // a constant channel stays as it is
  }
  values_.resize(values.size());
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(values.size()); ++i)
    values_[i] = static_cast<float>((values[i] - mean_[i % width]) / deviation_[i % width]);
}

std::int64_t SeriesWindows::first_row(SeriesPart part) const {
  if (part == SeriesPart::train) return 0;
  const std::int64_t before = part == SeriesPart::validation ? train_parts : train_parts + validation_parts;
  return rows_ * before / parts_in_all - length_;
}

std::int64_t SeriesWindows::count(SeriesPart part) const {
  const std::int64_t ends[] = {rows_ * train_parts / parts_in_all,
                               rows_ * (train_parts + validation_parts) / parts_in_all, rows_};
  if (first_row(part) < 0) return 0;
  return ends[static_cast<int>(part)] - first_row(part) - length_ - horizon_ + 1;
}

// An affine permutation of the windows, another one in every epoch; a batch is spread over the whole part.
std::int64_t SeriesWindows::training_window(std::uint64_t seed, std::uint64_t index) const {
  const auto windows = static_cast<std::uint64_t>(count(SeriesPart::train));
  Random random(seed, training_data_stream, index / windows);
  std::uint64_t factor = 1;
  do {
    factor = 1 + random.uniform_int(windows);
  } while (std::gcd(factor, windows) != 1);
  const std::uint64_t shift = random.uniform_int(windows);
  return static_cast<std::int64_t>((factor * (index % windows) + shift) % windows);
}

void SeriesWindows::write(SeriesPart part, std::int64_t window, float* input, float* truth) const {
  const std::int64_t begin = (first_row(part) + window) * channels();
  const std::int64_t middle = begin + length_ * channels(), end = middle + horizon_ * channels();
  std::copy(values_.begin() + begin, values_.begin() + middle, input);
  std::copy(values_.begin() + middle, values_.begin() + end, truth);
}

std::string SeriesWindows::time(SeriesPart part, std::int64_t window, std::int64_t row) const {
  return times_.empty() ? "" : times_[static_cast<std::size_t>(first_row(part) + window + row)];
}

TaskKind forecast_kind() {
  return {{"forecast",
           "windows of a series: say how every channel goes on",
           {{"path",
             "a CSV file in the ETT form (header, a column of times, columns of numbers); built-in: a "
             "series with several seasons",
             TaskParameter::Type::text, "\"built-in\""},
            {"length", "rows that the model sees", TaskParameter::Type::integer, "96", 2, 65536},
            {"horizon", "rows that it forecasts", TaskParameter::Type::integer, "96", 1, 65536},
            {"rows", "most rows used, 12 of 20 for training, 4 for validation, 4 for the test",
             TaskParameter::Type::integer, std::to_string(hours_in_ett), 20, 1 << 26}}},
          make_forecast};
}

}  // namespace afterglow
