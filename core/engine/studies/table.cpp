// Runs of a table, and the table as text and CSV.
#include "core/engine/studies/table.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/engine/training/training_run.h"
#include "core/io/csv.h"
#include "core/io/error.h"
#include "core/io/wording.h"

namespace afterglow {

namespace {

/// "Gated DeltaNet" as part of a file name: "gated_deltanet".
std::string file_word(const std::string& text) {
  std::string word;
  for (const char c : text)
    word += std::isalnum(static_cast<unsigned char>(c)) ? static_cast<char>(std::tolower(c)) : '_';
  return word;
}

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, std::abs(value) >= 1000 || value == std::floor(value) ? "%.0f" : "%.3f", value);
  return text;
}

std::string spread_text(const ResultSummary& summary, bool is_share) {
  if (summary.runs == 0) return "-";
  if (summary.runs == 1) return short_number(summary.mean);
  const std::string best = is_share ? " (best " + short_number(summary.best) + ")" : "";
  return short_number(summary.mean) + " ± " + short_number(summary.deviation) + best;
}

/// Characters as people see them: continuation bytes of UTF-8 do not count.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::vector<std::string> aligned(const std::vector<std::vector<std::string>>& lines) {
  std::vector<std::size_t> widths(lines.front().size(), 0);
  for (const auto& line : lines)
    for (std::size_t c = 0; c < line.size(); ++c) widths[c] = std::max(widths[c], width_of(line[c]));
  std::vector<std::string> result;
  for (const auto& line : lines) {
    std::string text;
    for (std::size_t c = 0; c < line.size(); ++c) {
      const std::string gap(widths[c] - width_of(line[c]), ' ');
      text += (c == 0 ? "" : "  ") + (c == 0 ? line[c] + gap : gap + line[c]);
    }
    result.push_back(text);
  }
  return result;
}

std::int64_t parameters_of(const std::vector<RunResult>& results, std::size_t row) {
  for (const RunResult& result : results) {
    if (result.row == row) return result.parameters;
  }
  return 0;
}

}  // namespace

const Table& find_table(const std::string& name) {
  std::vector<std::string> names;
  for (const Table& table : tables()) {
    if (table.name == name) return table;
    names.push_back(table.name);
  }
  std::string list;
  for (const std::string& known : names) list += (list.empty() ? "" : ", ") + known;
  throw Error(ExitCode::usage,
              "there is no table " + in_quotes(name) + did_you_mean(name, names) + "; there are " + list);
}

nlohmann::json recipe_of(const TableRow& row, const std::vector<std::string>& changes) {
  nlohmann::json json = nlohmann::json::parse(find_preset(row.preset).text);
  for (const std::vector<std::string>* part : {&row.changes, &changes})
    for (const std::string& change : *part) apply_assignment(json, change);
  return json;
}

std::vector<PlannedRun> runs_of(const Table& table, int seeds, const std::vector<std::string>& changes) {
  std::vector<PlannedRun> runs;
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const TableRow& of = table.rows[row];
    const nlohmann::json json = recipe_of(of, {});
    const std::vector<std::string> usual{""};
    for (const std::string& variant : table.variants.empty() ? usual : table.variants) {
      nlohmann::json own = json;
      if (!variant.empty()) apply_assignment(own, variant);
      for (const std::string& change : changes) apply_assignment(own, change);
      const Recipe recipe = parse_recipe(own, "table " + table.name + ", " + of.series);
      for (int i = 0; i < seeds; ++i) {
        PlannedRun run{row, recipe, ""};
        run.recipe.seed += static_cast<std::uint64_t>(i);
        run.name = file_word(of.series) + "_" + short_number(of.x) + (variant.empty() ? "" : "_" + file_word(variant)) +
                   "_seed" + std::to_string(run.recipe.seed);
        runs.push_back(std::move(run));
      }
    }
  }
  return runs;
}

Inquiry inquiry_of(const Table& table) {
  const auto measure = [ask = table.measure, count = table.metrics.size()](TrainingRun& run) {
    return run.failure().empty() ? ask(run) : std::vector<double>(count, unknown);
  };
  return {table.name, table.metrics, measure, table.enough};
}

namespace {

using Lines = std::vector<std::vector<std::string>>;

/// The metrics of one group; of the empty one those that stand alone.
std::vector<std::size_t> metrics_of(const Table& table, const std::string& group) {
  std::vector<std::size_t> members;
  for (std::size_t m = 0; m < table.metrics.size(); ++m) {
    if (table.metrics[m].group == group) members.push_back(m);
  }
  return members;
}

/// A line for each row that has runs, and for what is published.
Lines lines_of(const Table& table, const std::vector<RunResult>& results, const std::vector<std::size_t>& metrics) {
  Lines lines;
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const auto runs = std::count_if(results.begin(), results.end(), [&](const RunResult& r) { return r.row == row; });
    if (runs == 0) continue;
    const std::string place =
        table.x_names.empty() ? short_number(table.rows[row].x) : place_text(table, table.rows[row].x);
    lines.push_back({table.rows[row].series, place, std::to_string(parameters_of(results, row)), std::to_string(runs)});
    for (const std::size_t m : metrics)
      lines.back().push_back(spread_text(summary_of(results, row, m), table.metrics[m].is_share));
  }
  for (const PublishedSeries& published : table.published) {
    const bool is_of_all = published.x == 0 && table.x_names.empty();
    lines.push_back({published.series + (table.x_names.empty() ? " (published)" : ""),
                     is_of_all ? "mean" : place_text(table, published.x), "", ""});
    for (const std::size_t m : metrics)
      lines.back().push_back(std::isfinite(published.values[m]) ? short_number(published.values[m]) : "-");
  }
  return lines;
}

}  // namespace

std::vector<std::string> text_of(const Table& table, const std::vector<RunResult>& results) {
  std::vector<std::string> groups = groups_of(table), text;
  groups.insert(groups.begin(), "");
  for (const std::string& group : groups) {
    const std::vector<std::size_t> metrics = metrics_of(table, group);
    Lines lines = lines_of(table, results, metrics);
    std::vector<std::string> head{"", heading_of({table.x_label, table.x_unit}), "parameters", "runs"};
    for (const std::size_t m : metrics)
      head.push_back(group.empty() ? heading_of(table.metrics[m]) : short_number(table.metrics[m].at));
    lines.insert(lines.begin(), head);
    if (!group.empty()) text.insert(text.end(), {"", group + ", over the " + table.group_label});
    for (std::string& line : aligned(lines)) text.push_back(std::move(line));
  }
  return text;
}

void write_table_csv(const std::filesystem::path& path, const Table& table, const std::vector<RunResult>& results) {
  std::vector<std::string> series, checksums;
  std::vector<double> x, seeds, parameters;
  std::vector<std::vector<double>> values(table.metrics.size());
  for (const RunResult& result : results) {
    series.push_back(table.rows[result.row].series);
    x.push_back(table.rows[result.row].x);
    seeds.push_back(static_cast<double>(result.seed));
    parameters.push_back(static_cast<double>(result.parameters));
    checksums.push_back(result.checksum);
    for (std::size_t m = 0; m < values.size(); ++m) values[m].push_back(result.values[m]);
  }
  for (const PublishedSeries& published : table.published) {
    series.push_back(published.series + " (published)");
    x.push_back(published.x);
    seeds.push_back(unknown);
    parameters.push_back(unknown);
    checksums.emplace_back();
    for (std::size_t m = 0; m < values.size(); ++m) values[m].push_back(published.values[m]);
  }
  std::vector<CsvColumn> columns{
      {"series", series}, {heading_of({table.x_label, table.x_unit}), x}, {"seed", seeds}, {"parameters", parameters}};
  for (std::size_t m = 0; m < values.size(); ++m) columns.push_back({heading_of(table.metrics[m]), values[m]});
  columns.push_back({"checksum", checksums});
  write_csv(path, columns, Existing::replace_in_folder);
}

}  // namespace afterglow
