// Runs of a table, and the table as text and CSV.
#include "core/studies/table.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "core/engine/training/training_run.h"
#include "core/io/csv.h"
#include "core/io/error.h"
#include "core/io/named.h"
#include "core/io/terminal_text.h"

namespace afterglow {
namespace {

/// The letters beyond ASCII that have a name in file names.
constexpr std::pair<char32_t, std::string_view> letters[] = {
    {U'α', "alpha"}, {U'β', "beta"}, {U'γ', "gamma"}, {U'η', "eta"}, {U'λ', "lambda"}};

/// "Gated DeltaNet" as part of a file name: "gated_deltanet"; "η 2.5": "eta_2_5". Each other ASCII character becomes
/// "_", because finished results are found by these names; a run of other characters becomes one.
std::string file_word(std::string_view text) {
  std::string word;
  bool is_foreign = false;  // whether the last character had no name
  while (!text.empty()) {
    const char32_t letter = take_character(text);
    const auto* known = find_by(letters, letter, &std::pair<char32_t, std::string_view>::first);
    const bool was_foreign = std::exchange(is_foreign, letter >= 0x80 && known == nullptr);
    if (known != nullptr)
      word += known->second;
    else if (letter < 0x80 && std::isalnum(static_cast<int>(letter)))
      word += static_cast<char>(std::tolower(static_cast<int>(letter)));
    else if (!is_foreign || !was_foreign)
      word += '_';
  }
  return word;
}

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, std::abs(value) >= 1000 || value == std::floor(value) ? "%.0f" : "%.3f", value);
  return text;
}

/// Characters as displayed: continuation bytes of UTF-8 do not count.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
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

const Table& find_table(std::string_view name) {
  return entry_named(tables(), name, &Table::name, ExitCode::usage, "there is no table ");
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
    return RunAnswer{run.failure().empty() ? ask(run) : std::vector<double>(count, unknown)};
  };
  return {table.name, table.metrics, measure, table.enough};
}

namespace {

using Lines = std::vector<std::vector<std::string>>;

/// The metrics of one group; of the empty one those without a group.
std::vector<std::size_t> metrics_of(const Table& table, const std::string& group) {
  std::vector<std::size_t> members;
  for (std::size_t m = 0; m < table.metrics.size(); ++m) {
    if (table.metrics[m].group == group) members.push_back(m);
  }
  return members;
}

bool have_same_values(const PublishedSeries& a, const PublishedSeries& b) {
  return std::ranges::equal(a.values, b.values,
                            [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

/// The end of the entries that begin at `first` and differ in their abscissa alone.
std::size_t end_of_same(const Table& table, std::size_t first) {
  const std::vector<PublishedSeries>& all = table.published;
  std::size_t end = first + 1;
  while (table.x_names.empty() && end < all.size() && all[end].series == all[first].series &&
         have_same_values(all[end], all[first]))
    ++end;
  return end;
}

/// A line for each published result, or for several in a row that are equal but for their abscissa.
Lines lines_of_published(const Table& table, const std::vector<std::size_t>& metrics) {
  Lines lines;
  for (std::size_t i = 0; i < table.published.size();) {
    const PublishedSeries& published = table.published[i];
    const std::size_t end = end_of_same(table, i);
    const bool is_of_all = published.x == 0 && table.x_names.empty();
    std::string place = is_of_all ? "mean" : place_text(table, published.x);
    if (end > i + 1) place += " to " + place_text(table, table.published[end - 1].x);
    lines.push_back({published.series + (table.x_names.empty() ? " (published)" : ""), place, "", ""});
    for (const std::size_t m : metrics)
      lines.back().push_back(std::isfinite(published.values[m]) ? short_number(published.values[m]) : "-");
    i = end;
  }
  return lines;
}

/// A line for each row with runs, and for published results.
Lines lines_of(const Table& table, const std::vector<RunResult>& results, const std::vector<std::size_t>& metrics) {
  Lines lines;
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const auto runs = std::ranges::count(results, row, &RunResult::row);
    if (runs == 0) continue;
    const std::string place =
        table.x_names.empty() ? short_number(table.rows[row].x) : place_text(table, table.rows[row].x);
    lines.push_back({table.rows[row].series, place, std::to_string(parameters_of(results, row)), std::to_string(runs)});
    for (const std::size_t m : metrics)
      lines.back().push_back(spread_text(summary_of(results, row, m), table.metrics[m].is_share));
  }
  for (std::vector<std::string>& line : lines_of_published(table, metrics)) lines.push_back(std::move(line));
  return lines;
}

}  // namespace

std::string spread_text(const ResultSummary& summary, bool is_share) {
  if (summary.runs == 0) return "-";
  if (summary.runs == 1) return short_number(summary.mean);
  const std::string best = is_share ? " (best " + short_number(summary.best) + ")" : "";
  return short_number(summary.mean) + " ± " + short_number(summary.deviation) + best;
}

std::vector<std::string> text_of(const Table& table, const std::vector<RunResult>& results) {
  std::vector<std::string> groups = groups_of(table), text;
  groups.insert(groups.begin(), "");
  for (const std::string& group : groups) {
    const std::vector<std::size_t> metrics = metrics_of(table, group);
    if (!group.empty() && std::isnan(table.metrics[metrics.front()].at)) continue;  // in the file only
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

namespace {

/// The named abscissae by name, because their numbers carry no meaning.
CsvColumn place_column(const Table& table, const std::vector<double>& places) {
  const std::string heading = heading_of({table.x_label, table.x_unit});
  if (table.x_names.empty()) return {heading, places};
  return {heading, mapped(places, [&](double place) { return place_text(table, place); })};
}

}  // namespace

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
      {"series", series}, place_column(table, x), {"seed", seeds}, {"parameters", parameters}};
  for (std::size_t m = 0; m < values.size(); ++m) columns.push_back({heading_of(table.metrics[m]), values[m]});
  columns.push_back({"checksum", checksums});
  write_csv(path, columns, Existing::replace_in_folder);
}

}  // namespace afterglow
