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

constexpr const char *built_in = "built-in", *all_columns = "all", *ett_split = "12,4,4";
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

/// "12,4,4": shares of the rows for training, validation and test.
SeriesSplit parse_split(const Fields& fields) {
  const std::string text = fields.text("split");
  std::int64_t parts[3] = {};
  std::size_t count = 0;
  for (const char c : text + ",") {
    if (c == ',' && count < 3 && parts[count] > 0) {
      ++count;
    } else if (count < 3 && c >= '0' && c <= '9' && parts[count] < 100000) {
      parts[count] = 10 * parts[count] + (c - '0');
    } else {
      fields.refuse("'split' is \"" + text + "\"; give three whole numbers above 0, as \"12,4,4\" or \"70,10,20\".");
    }
  }
  if (count < 3) fields.refuse("'split' is \"" + text + "\", with fewer than three parts; write \"12,4,4\".");
  return {parts[0], parts[1], parts[2]};
}

/// What of a file is used.
struct SeriesChoice {
  std::string column;  ///< a name, or all_columns
  std::int64_t every = 1, most = 0;
  std::int64_t length = 0, horizon = 0;
  SeriesSplit split;
  std::string unit;
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

/// The columns that are read: all but the times, or the one that is named.
std::vector<std::size_t> chosen_columns(const CsvTable& table, const std::string& path, const std::string& column,
                                        std::size_t first) {
  std::vector<std::size_t> columns;
  std::string names;
  for (std::size_t c = first; c < table.columns(); ++c) {
    if (column == all_columns || table.names()[c] == column) columns.push_back(c);
    names += (names.empty() ? "" : ", ") + table.names()[c];
  }
  if (columns.empty())
    throw Error(ExitCode::bad_input,
                path + ": there is no column \"" + column + "\"; choose one of " + names + ", or \"all\"");
  return columns;
}

SeriesWindows read_series(const CsvTable& table, const std::string& path, const SeriesChoice& choice) {
  if (table.columns() < 2)
    throw Error(ExitCode::bad_input, path + ": expected a column of times and at least one of numbers");
  if (table.rows() == 0)
    throw Error(ExitCode::bad_input, path + ": there is no row of numbers below the header; give a file with a series");
  const std::size_t first = table.looks_numeric(0) ? 0 : 1, step = static_cast<std::size_t>(choice.every);
  const std::size_t rows = std::min((table.rows() + step - 1) / step, static_cast<std::size_t>(choice.most));
  const std::vector<std::size_t> columns = chosen_columns(table, path, choice.column, first);
  std::vector<std::string> names, times;
  for (std::size_t row = 0; first > 0 && row < rows; ++row) times.emplace_back(table.text(row * step, 0));
  std::vector<double> values(rows * columns.size());
  for (std::size_t c = 0; c < columns.size(); ++c) {
    names.push_back(table.names()[columns[c]]);
    const std::vector<double> column = table.numbers(columns[c]);
    for (std::size_t row = 0; row < rows; ++row) {
      if (!std::isfinite(column[row * step]))
        throw Error(ExitCode::bad_input, path + ", line " + std::to_string(row * step + 2) + ", column " + names[c] +
                                             ": a forecast needs finite numbers; fill the gap or leave the column out");
      values[row * columns.size() + c] = column[row * step];
    }
  }
  return {names, std::move(times), std::move(values), choice.length, choice.horizon, choice.split, choice.unit};
}

std::unique_ptr<Task> make_forecast(const Fields& fields) {
  const std::int64_t length = fields.integer("length"), horizon = fields.integer("horizon");
  const std::string path = fields.text("path");
  const SeriesChoice choice{fields.text("column"), fields.integer("every"), fields.integer("rows"), length, horizon,
                            parse_split(fields),   fields.text("unit")};
  SeriesWindows windows = path == built_in ? built_in_series(length, horizon)
                                           : read_series(parse_csv(fields.file("path", csv_limit), path), path, choice);
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
                             std::int64_t length, std::int64_t horizon, SeriesSplit split, std::string unit)
    : names_(std::move(names)),
      times_(std::move(times)),
      split_(split),
      unit_(std::move(unit)),
      length_(length),
      horizon_(horizon) {
  const std::int64_t width = channels();
  rows_ = static_cast<std::int64_t>(values.size()) / width;
  const std::int64_t fitted = std::max<std::int64_t>(1, rows_ * split_.train / split_.all());
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
  const std::int64_t before = part == SeriesPart::validation ? split_.train : split_.train + split_.validation;
  return rows_ * before / split_.all() - length_;
}

std::int64_t SeriesWindows::count(SeriesPart part) const {
  const std::int64_t ends[] = {rows_ * split_.train / split_.all(),
                               rows_ * (split_.train + split_.validation) / split_.all(), rows_};
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
            {"rows", "most rows used", TaskParameter::Type::integer, std::to_string(hours_in_ett), 20, 1 << 26},
            {"split", "shares of the rows for training, validation and test, in this order; of a file",
             TaskParameter::Type::text, '"' + std::string(ett_split) + '"'},
            {"column", "the one column that is read and forecast; all: every one", TaskParameter::Type::text,
             '"' + std::string(all_columns) + '"'},
            {"every", "of so many rows of the file one is used", TaskParameter::Type::integer, "1", 1, 1 << 20},
            {"unit", "what a row used lasts, for axes", TaskParameter::Type::text, "\"h\""}}},
          make_forecast};
}

}  // namespace afterglow
