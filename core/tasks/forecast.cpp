// The task `forecast`: windows of a CSV file, or of a built-in series with several seasons.
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <numbers>
#include <numeric>
#include <sstream>

#include "core/io/csv.h"
#include "core/io/error.h"
#include "core/io/wording.h"
#include "core/random/random.h"
#include "core/tasks/fields.h"
#include "core/tasks/series_windows.h"

namespace afterglow {
namespace {

constexpr const char *built_in = "built-in", *drifting = "drifting", *all_columns = "all";

class Forecast final : public Task {
 public:
  Forecast(std::string source, SeriesWindows windows)
      : Task("forecast", 1, static_cast<int>(windows.length())),
        source_(std::move(source)),
        windows_(std::move(windows)) {}

  std::string describe() const override {
    return "Forecast of " + source_ + " · " + windows_.summary() + " · reads " + std::to_string(windows_.length()) +
           " rows, predicts " + std::to_string(windows_.horizon());
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
      fields.refuse("'split' is \"", text, "\"; give three whole numbers above 0, as \"12,4,4\" or \"70,10,20\".");
    }
  }
  if (count < 3) fields.refuse("'split' is \"", text, "\", with fewer than three parts; write \"12,4,4\".");
  return {parts[0], parts[1], parts[2]};
}

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

/// A slow clock announces a bump, whose sign turns after every eighth: a window that ends before the bump holds
/// no sign of it, and only the rows before the window tell it. Behind the training part the last sign stays.
SeriesWindows drifting_series(std::int64_t length, std::int64_t horizon) {
  constexpr std::int64_t rows = 24000, period = 48, regime = 8 * period;
  constexpr double width = 3, height = 4;  // of a bump, in rows and in amplitudes of the clock
  std::vector<double> values;
  Random random(7, task_design_stream, 1);
  double sign = 1;
  for (std::int64_t t = 0; t < rows; ++t) {
    if (t % regime == 0 && t < rows * SeriesSplit().train / SeriesSplit().all()) sign = -sign;
    const double place = static_cast<double>(t % period - period / 2), clock = 2 * std::numbers::pi * place / period;
    values.push_back(std::cos(clock) + sign * height * std::exp(-0.5 * std::pow(place / width, 2)) +
                     0.1 * random.normal());
  }
  return {{"bumps"}, {}, std::move(values), length, horizon, {}, "row", {.is_in_order = true}};
}

/// A column holds times where its texts have the form of dates, its name is "timestamp", "year" .., or its numbers rise
/// by equal steps like an index. Missing values get the value before. Other columns of words are left out; the series'
/// `source` reports all of this.
enum class ColumnKind : std::uint8_t { channel, time, index, words };

bool names_a_time(const std::string& name) {
  constexpr std::array<std::string_view, 22> names{"date",      "time",     "datetime",  "timestamp", "ts",   "ds",
                                                   "epoch",     "unixtime", "localtime", "utctime",   "day",  "weekday",
                                                   "month",     "year",     "hour",      "minute",    "week", "quarter",
                                                   "yearmonth", "yyyymmdd", "datum",     "zeit"};
  std::string letters;
  for (const char c : name.substr(0, name.find_first_of("([")))
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) letters += static_cast<char>(std::tolower(c));
  return std::ranges::find(names, letters) != names.end();
}

/// Whether the numbers rise or fall from row to row, by the same step in nine tenths of the rows.
bool rises_evenly(const std::vector<double>& values) {
  if (values.size() < 3) return false;
  std::vector<double> steps(values.size() - 1);
  for (std::size_t i = 0; i < steps.size(); ++i) steps[i] = values[i + 1] - values[i];
  if (std::ranges::any_of(steps, [&](double step) { return !(step * steps[0] > 0); })) return false;
  std::ranges::nth_element(steps, steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2));
  const double usual = steps[steps.size() / 2];
  const auto is_usual = [&](double step) { return std::abs(step - usual) <= 1e-3 * std::abs(usual); };
  return 10 * static_cast<std::size_t>(std::ranges::count_if(steps, is_usual)) >= 9 * steps.size();
}

/// The kind of most of a column's first cells, so that a mistake among numbers does not make it a column of words.
ColumnKind kind_of(const CsvTable& table, std::size_t column) {
  constexpr std::size_t enough = 100;
  const std::string& name = table.names()[column];
  std::size_t times = 0, words = 0, seen = 0;
  for (std::size_t row = 0; row < table.rows() && seen < enough; ++row) {
    const std::string_view cell = table.text(row, column);
    if (is_gap(cell)) continue;
    ++seen;
    const auto digits = std::ranges::count_if(cell, [](char c) { return c >= '0' && c <= '9'; });
    if (looks_like_time(cell)) {
      ++times;
    } else if (!table.number_in(cell)) {
      words += 2 * static_cast<std::size_t>(digits) < cell.size();
    }
  }
  if (2 * times > seen || names_a_time(name)) return ColumnKind::time;
  if (2 * words >= seen) return ColumnKind::words;
  const bool is_unnamed = name.empty() || name.starts_with("Unnamed:");
  return is_unnamed || rises_evenly(table.numbers(column)) ? ColumnKind::index : ColumnKind::channel;
}

/// Fills every gap with the value before, those at the beginning with the first value; returns the number of gaps.
std::size_t fill_gaps(std::vector<double>& values) {
  const auto is_number = [](double value) { return !std::isnan(value); };
  const auto first = std::ranges::find_if(values, is_number);
  double last = first == values.end() ? NAN : *first;
  std::size_t gaps = 0;
  for (double& value : values) {
    if (is_number(value)) last = value;
    gaps += !is_number(value);
    value = last;
  }
  return gaps;
}

/// The columns that `text` lists; empty for all columns.
std::vector<std::size_t> chosen_columns(const CsvTable& table, const std::string& text) {
  if (text == all_columns) return {};
  if (std::ranges::find(table.names(), text) != table.names().end()) return {table.column(text)};
  std::vector<std::size_t> columns;
  std::istringstream list(text);
  for (std::string name; std::getline(list, name, ',');) columns.push_back(table.column(trimmed(name)));
  return columns;
}

SeriesWindows read_series(const CsvTable& table, const std::string& path, const Fields& fields,
                          const SeriesSplit& split) {
  if (table.rows() == 0)
    throw BadInput(path, ": there is no row of numbers below the header; give a file with a series");
  SeriesSource source{static_cast<std::int64_t>(table.rows()), {}, table.notes()};
  const std::vector<std::size_t> chosen = chosen_columns(table, fields.text("column"));
  std::vector<std::size_t> channels = chosen, labels;
  for (std::size_t c = 0; c < table.columns(); ++c) {
    if (std::ranges::find(chosen, c) != chosen.end()) continue;
    const ColumnKind kind = kind_of(table, c);
    const bool is_time = kind == ColumnKind::time || kind == ColumnKind::index;
    if (is_time) source.time_columns.push_back(table.names()[c]);
    if (kind == ColumnKind::time) labels.push_back(c);
    if (kind == ColumnKind::channel && chosen.empty()) channels.push_back(c);
    if (kind == ColumnKind::words && chosen.empty())
      source.notes.push_back("column " + in_quotes(table.names()[c]) + " holds no numbers and is left out");
  }
  if (channels.empty())
    throw Error(
        ExitCode::bad_input, path,
        ": no column of numbers is left but times and indices; name the one to forecast with --set task.column=NAME");
  const auto step = static_cast<std::size_t>(fields.integer("every"));
  const std::size_t all = (table.rows() + step - 1) / step;
  const std::size_t rows = std::min(all, static_cast<std::size_t>(fields.integer("rows")));
  std::vector<std::string> names, times;
  for (std::size_t row = 0; !labels.empty() && row < rows; ++row) {
    std::string& time = times.emplace_back();
    for (const std::size_t c : labels) time += (time.empty() ? "" : " ") + std::string(table.text(row * step, c));
  }
  std::vector<double> values(rows * channels.size());
  std::size_t gaps = 0;
  for (std::size_t c = 0; c < channels.size(); ++c) {
    names.push_back(table.names()[channels[c]]);
    std::vector<double> column = table.numbers(channels[c]);
    column.resize((rows - 1) * step + 1);
    gaps += fill_gaps(column);
    for (std::size_t row = 0; row < rows; ++row) {
      const double value = values[row * channels.size() + c] = column[row * step];
      if (!std::isfinite(value))
        throw BadInput(path, ", line ", table.line(row * step), ", column ", names[c],
                       ": a forecast needs finite numbers; correct it or leave it empty");
    }
  }
  if (gaps > 0)
    source.notes.push_back("missing values that take the value before, or the first one: " + std::to_string(gaps));
  if (rows < all) source.notes.push_back("--set task.rows=" + std::to_string(all) + " reads more");
  return {names, std::move(times),    std::move(values), fields.integer("length"), fields.integer("horizon"),
          split, fields.text("unit"), std::move(source)};
}

}  // namespace

std::unique_ptr<Task> make_forecast(const Fields& fields) {
  const std::int64_t length = fields.integer("length"), horizon = fields.integer("horizon");
  const std::string path = fields.text("path");
  const SeriesSplit split = parse_split(fields);
  for (const char* name : {"every", "rows"}) fields.integer(name);  // checked without a file, too
  const bool is_file = path != built_in && path != drifting;
  SeriesWindows windows = path == built_in ? built_in_series(length, horizon)
                          : path == drifting
                              ? drifting_series(length, horizon)
                              : read_series(parse_csv(fields.file("path", csv_limit), path), path, fields, split);
  for (const SeriesPart part : {SeriesPart::train, SeriesPart::validation, SeriesPart::test}) {
    if (windows.count(part) < 1)
      fields.refuse("the series is too short for ", length, " rows in and ", horizon,
                    " ahead. Make 'length' or 'horizon' smaller.");
  }
  const std::string source = is_file ? std::filesystem::path(path).filename().string() : "a built-in series";
  return std::make_unique<Forecast>(source, std::move(windows));
}

SeriesWindows::SeriesWindows(std::vector<std::string> names, std::vector<std::string> times, std::vector<double> values,
                             std::int64_t length, std::int64_t horizon, SeriesSplit split, std::string unit,
                             SeriesSource source)
    : names_(std::move(names)),
      times_(std::move(times)),
      split_(split),
      unit_(std::move(unit)),
      length_(length),
      horizon_(horizon),
      source_(std::move(source)) {
  const std::int64_t width = channels();
  rows_ = static_cast<std::int64_t>(values.size()) / width;
  const std::int64_t fitted = std::max<std::int64_t>(1, rows_ * split_.train / split_.all());
  for (std::int64_t c = 0; c < width; ++c) {
    double mean = 0, squares = 0;
    for (std::int64_t t = 0; t < fitted; ++t) mean += values[t * width + c] / static_cast<double>(fitted);
    for (std::int64_t t = 0; t < fitted; ++t) squares += std::pow(values[t * width + c] - mean, 2);
    const double deviation = std::sqrt(squares / static_cast<double>(fitted));
    mean_.push_back(mean);
    deviation_.push_back(deviation > 0 ? deviation : 1.0);  // a constant channel is not scaled
  }
  values_.resize(values.size());
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(values.size()); ++i) {
    values_[i] = static_cast<float>((values[i] - mean_[i % width]) / deviation_[i % width]);
    if (!std::isfinite(values_[i]) || !std::isfinite(deviation_[i % width]))
      throw BadInput("channel ", in_quotes(names_[i % width]), " of the series has values such as ",
                     shortest(values[i]), ", too large to be standardised; give it another unit");
  }
}

std::string SeriesWindows::summary() const {
  const auto counted = [](std::size_t count, const char* what) {
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
  };
  std::string text;
  if (source_.rows_in_file > 0)
    text = std::to_string(rows_) + " of " + std::to_string(source_.rows_in_file) + " rows; ";
  text += counted(names_.size(), "channel");
  if (source_.rows_in_file > 0) text += "; " + counted(source_.time_columns.size(), "time column");
  for (const std::string& note : source_.notes) text += "; " + note;
  return text;
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

// Another affine permutation of the windows in every epoch, which spreads a batch over the whole part. A series in
// order is read along, so that a history of batches is one of the series.
std::int64_t SeriesWindows::training_window(std::uint64_t seed, std::uint64_t index) const {
  const auto windows = static_cast<std::uint64_t>(count(SeriesPart::train));
  if (source_.is_in_order) return static_cast<std::int64_t>(index % windows);
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

}  // namespace afterglow
