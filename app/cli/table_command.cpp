// `afterglow table NAME`: trains the missing runs of a comparison, prints the table, and writes CSV and figures. It
// continues where it was stopped.
#include <nlohmann/json.hpp>

#include "app/cli/start.h"
#include "app/cli/study_run.h"
#include "core/io/json_file.h"
#include "core/studies/table.h"
#include "views/figures/studies/sweep_figures.h"

namespace afterglow {
namespace {

std::vector<PlannedRun> planned_runs(const Table& table, const TableOptions& options, const CommonOptions& common) {
  std::vector<std::string> changes = options.assignments;
  if (!options.data.empty()) {
    changes.insert(changes.begin(), table.with_data.begin(), table.with_data.end());
    nlohmann::json task = recipe_of(table.rows.front(), changes)["task"];
    take_data(task, options.data);
    for (const char* field : {"path", "hash"})
      changes.push_back("task." + std::string(field) + "=" + task[field].dump());
  }
  const int seeds = options.seeds > 0 ? options.seeds : table.seeds;
  std::vector<PlannedRun> runs = of_words([&] { return runs_of(table, seeds, changes); });
  if (!options.assignments.empty()) require_sound(runs.front().recipe, runs_of(table, seeds, {}).front().recipe);
  for (PlannedRun& run : runs) {
    if (!common.precision.empty()) run.recipe.precision = parse_precision(common.precision);
  }
  return runs;
}

nlohmann::json rows_of(const Table& table, const std::vector<RunResult>& results) {
  nlohmann::json rows = nlohmann::json::array();
  for (const RunResult& result : results) {
    const TableRow& of = table.rows[result.row];
    const nlohmann::json place = table.x_names.empty() ? nlohmann::json(of.x) : nlohmann::json(place_text(table, of.x));
    nlohmann::json row{{"series", of.series},
                       {"x", place},
                       {"seed", result.seed},
                       {"parameters", result.parameters},
                       {"checksum", result.checksum}};
    for (std::size_t m = 0; m < table.metrics.size(); ++m) row[table.metrics[m].name] = json_number(result.values[m]);
    rows.push_back(std::move(row));
  }
  return rows;
}

/// The table in the size of --set size=small, size=large or size=full, which is not a field of a recipe. Throws
/// Error(usage) for a table without this size.
Table sized_table(TableOptions& options) {
  const Table& named = find_table(options.name);
  std::erase(options.assignments, "size=full");
  for (const auto& [size, make] : {std::pair{"size=small", named.small}, {"size=large", named.large}}) {
    if (std::erase(options.assignments, size) == 0) continue;
    if (!make) throw UsageError("table ", named.name, " does not exist in this size; leave ", size, " out");
    return make();
  }
  return named;
}

}  // namespace

nlohmann::json table(const TableOptions& asked, const CommonOptions& common, Output& output) {
  TableOptions options = asked;
  const Table table = sized_table(options);
  StudyRun study(table.name, inquiry_of(table), planned_runs(table, options, common), options, common, output);
  if (study.list()) return nlohmann::json::object();
  const std::filesystem::path folder = options.out.empty() ? std::filesystem::path("table_" + table.name) : options.out;
  output.message(table.title, ": ", table.about);
  study.train(folder);
  for (const std::string& line : text_of(table, study.results())) output.line(line);
  std::vector<RunResult> last;
  const nlohmann::json files = study.write_files([&](const std::vector<RunResult>& results) {
    last = results;
    std::vector<std::filesystem::path> written{folder / ("table_" + table.name + ".csv")};
    write_table_csv(written.front(), table, results);
    write_study_figures(table_figures(table, results), folder, written);
    return written;
  });
  return {{"table", table.name}, {"device", study.device()}, {"runs", rows_of(table, last)}, {"files", files}};
}

}  // namespace afterglow
