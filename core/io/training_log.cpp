// Logs as tables and as JSON.
#include "core/io/training_log.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "core/io/csv.h"
#include "core/io/error.h"
#include "core/io/json.h"
#include "core/io/json_file.h"

namespace afterglow {
namespace {

using Record = std::map<std::string, double>;

constexpr JsonLimits limits{.bytes = std::size_t{256} << 20};

std::string lower_case(std::string_view view) {
  std::string text(view);
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// How well a name counts the steps of a training: 0 best, 9 not at all.
std::size_t rank_of(const std::string& name) {
  static constexpr std::array<std::string_view, 9> names{
      "step", "global_step", "steps", "_step", "iteration", "iter", "train/global_step", "trainer/global_step",
      "epoch"};
  return static_cast<std::size_t>(std::ranges::find(names, lower_case(name)) - names.begin());
}

bool is_not_finite(std::string_view text) {
  static const std::set<std::string> words{"nan", "inf", "-inf", "infinity", "-infinity"};
  return words.contains(lower_case(text));
}

/// The numbers of an object by their names, those of objects inside it as "train/loss".
void collect(const json& object, const std::string& prefix, Record& record) {
  for (const auto& [key, value] : object.items()) {
    const bool is_odd = value.contains("__float__") || (value.is_string() && is_not_finite(value.get<std::string>()));
    if (is_odd) record[prefix + key] = std::nan("");
    if (value.is_number()) record[prefix + key] = value.get<double>();
    if (value.is_object() && !is_odd) collect(value, prefix + key + "/", record);
  }
}

/// Adds records, each at its step. Throws Error(bad_input) if none can be added.
void add_records(const std::vector<Record>& records, const std::string& where, TrainingLog& log) {
  std::string by;
  for (const Record& record : records) {
    for (const auto& [name, value] : record) by = rank_of(name) < rank_of(by) ? name : by;
  }
  std::size_t unread = 0;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const auto step = records[i].find(by);
    const bool has_step = step != records[i].end() && std::isfinite(step->second);
    if (records[i].empty() || (!by.empty() && !has_step)) {
      ++unread;
      continue;
    }
    for (const auto& [name, value] : records[i]) {
      if (name != by) log.add(name, has_step ? step->second : static_cast<double>(i + 1), value);
    }
  }
  if (unread > 0 && unread == records.size()) throw BadInput(where, ": it holds no records of numbers");
  if (unread > 0)
    log.notes.push_back(where + ": " + std::to_string(unread) + " records without step or numbers are left out");
  if (!records.empty() && rank_of(by) >= 8)
    log.notes.push_back(where + ": it names no steps, so epochs or records are counted");
}

/// The values on the lines, null for one that cannot be read; an unfinished last line is left out.
json read_lines(const std::string& text, const std::string& where) {
  json list = json::array();
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    try {
      if (!trimmed(line).empty()) list.push_back(parse_json(line, where));
    } catch (const Error&) {
      if (!lines.eof()) list.push_back(nullptr);
    }
  }
  return list;
}

void read_json_log(const std::filesystem::path& path, TrainingLog& log) {
  const std::string text = with_json_numbers(read_file(path, limits.bytes));
  json list;
  try {
    list = parse_json(text, path.string(), limits);
  } catch (const Error&) {
    list = read_lines(text, path.string());
  }
  if (list.is_object() && list.contains("max_steps") && list["max_steps"].is_number())
    log.planned_steps = static_cast<std::int64_t>(std::clamp(list["max_steps"].get<double>(), 0.0, 9e15));
  if (list.is_object() && list.contains("log_history")) list = json(list["log_history"]);
  if (!list.is_array()) list = json::array({list});
  std::vector<Record> records(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i].is_object()) collect(list[i], "", records[i]);
  }
  add_records(records, path.string(), log);
}

/// A last row without its end is left out.
void read_csv_log(const std::filesystem::path& path, TrainingLog& log) {
  std::string text = read_file(path, limits.bytes);
  const std::size_t last = text.find_last_of('\n');
  const bool is_cut = last != std::string::npos && std::ranges::count(text.substr(last), ',') <
                                                       std::ranges::count(text.substr(0, text.find('\n')), ',');
  const CsvTable table = parse_csv(is_cut ? text.substr(0, last + 1) : text, path.string());
  std::vector<Record> records(table.rows());
  for (std::size_t i = 0; i < table.rows() * table.columns(); ++i) {
    const std::string_view cell = table.text(i / table.columns(), i % table.columns());
    const std::optional<double> number = is_not_finite(cell) ? std::nan("") : table.number_in(cell);
    if (number) records[i / table.columns()][table.names()[i % table.columns()]] = *number;
  }
  add_records(records, path.string(), log);
}

}  // namespace

void TrainingLog::add(const std::string& name, double step, double value) {
  static const std::string replaced =
      "a log goes back to earlier steps, as after a resumed training; what it says last counts";
  const auto found = std::ranges::find(curves, name, &LoggedCurve::name);
  LoggedCurve& curve = found == curves.end() ? curves.emplace_back(LoggedCurve{name, {}, {}}) : *found;
  const auto keep = std::ranges::lower_bound(curve.steps, step) - curve.steps.begin();
  const bool goes_back = !curve.steps.empty() && curve.steps.back() > step;
  if (goes_back && std::ranges::find(notes, replaced) == notes.end()) notes.push_back(replaced);
  curve.steps.resize(static_cast<std::size_t>(keep));
  curve.values.resize(static_cast<std::size_t>(keep));
  curve.steps.push_back(step);
  curve.values.push_back(value);
}

bool is_event_file(const std::filesystem::path& path) {
  return path.filename().string().find("tfevents") != std::string::npos;
}

bool is_log_name(const std::filesystem::path& path) {
  static const std::regex form(
      R"(.*tfevents.*|.*\.(csv|tsv|jsonl|ndjson)|.*(trainer_state|log|metric|scalar|history).*\.json)",
      std::regex::icase);
  return std::regex_match(path.filename().string(), form);
}

void read_log(const std::filesystem::path& path, TrainingLog& log) {
  const std::string ending = path.extension().string();
  if (is_event_file(path)) return read_event_file(path, log);
  ending == ".csv" || ending == ".tsv" ? read_csv_log(path, log) : read_json_log(path, log);
}

}  // namespace afterglow
