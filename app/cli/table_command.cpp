// `afterglow table NAME`: trains the runs of a comparison that are not there yet, prints the table, and writes CSV and
// figures. Stopped at any time, it goes on where it was.
#include <nlohmann/json.hpp>

#include "app/cli/command_line.h"
#include "app/cli/interruption.h"
#include "core/engine/moment.h"
#include "core/engine/table.h"
#include "core/engine/training_run.h"
#include "core/figure/figure_files.h"
#include "core/figure/page_writer.h"
#include "core/io/error.h"
#include "core/io/json_file.h"
#include "views/figures/table_figures.h"

namespace afterglow {

namespace {

std::vector<TableCell> wanted_cells(const Table& table, const TableOptions& options) {
  std::vector<std::string> changes = options.assignments;
  if (!options.data.empty()) changes.push_back("task.path=" + std::filesystem::absolute(options.data).string());
  std::vector<TableCell> cells = cells_of(table, options.seeds > 0 ? options.seeds : table.seeds, changes);
  std::erase_if(cells, [&](const TableCell& cell) {
    return !options.only.empty() && cell.file.find(options.only) == std::string::npos;
  });
  if (cells.empty()) {
    throw Error(ExitCode::usage, "no run of table " + table.name + " has \"" + options.only +
                                     "\" in its name, such as " + cells_of(table, 1, {}).front().file);
  }
  return cells;
}

/// Trains one run to its end; false when interrupted.
template <class Progress>
bool train_to_end(TrainingRun& run, const Interruption& interruption, const Progress& progress) {
  while (!run.finished() && run.train_step()) {
    if (interruption.wanted()) return false;
    progress(static_cast<double>(run.step()) / static_cast<double>(run.trainer().config().steps));
  }
  return true;
}

std::vector<std::filesystem::path> write_files(const Table& table, const std::vector<TableResult>& results,
                                               const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files{folder / ("table_" + table.name + ".csv")};
  write_table_csv(files.front(), table, results);
  std::vector<FigureFormat> formats = {FigureFormat::svg};
  if (has_page_writer()) formats.insert(formats.end(), {FigureFormat::pdf, FigureFormat::png});
  WriteOptions write_options;
  write_options.overwrite = true;  // the folder is the table's own; its results say how they were made
  for (const Figure& figure : table_figures(table, results)) {
    const auto written =
        write_figure(figure, folder / (figure.id + ".svg"), formats, SizePreset::one_column, write_options);
    files.insert(files.end(), written.begin(), written.end());
  }
  return files;
}

nlohmann::json rows_of(const Table& table, const std::vector<TableResult>& results) {
  nlohmann::json rows = nlohmann::json::array();
  for (const TableResult& result : results) {
    nlohmann::json row{{"series", table.rows[result.row].series},
                       {"x", table.rows[result.row].x},
                       {"seed", result.seed},
                       {"parameters", result.parameters},
                       {"checksum", result.checksum}};
    for (std::size_t m = 0; m < table.metrics.size(); ++m) row[table.metrics[m].name] = json_number(result.values[m]);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

nlohmann::json table(const TableOptions& options, const CommonOptions& common, Output& output) {
  const Table& table = find_table(options.name);
  std::vector<TableCell> cells = wanted_cells(table, options);
  const std::filesystem::path folder = options.out.empty() ? std::filesystem::path("table_" + table.name) : options.out;
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed)
    throw Error(ExitCode::bad_input,
                folder.string() + ": cannot make this folder (" + failed.message() + "); choose another with --out");
  const std::unique_ptr<Backend> backend = make_backend(common.device, common.threads);
  output.message(table.title + ": " + table.about + " · " + std::to_string(cells.size()) + " runs · " +
                 backend->description());
  const Interruption interruption;
  std::vector<TableResult> results;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    TableCell& cell = cells[i];
    if (!common.precision.empty()) cell.recipe.precision = parse_precision(common.precision);
    std::optional<TableResult> result = common.force ? std::nullopt : read_result(folder, table, cell);
    if (!result) {
      TrainingRun run(cell.recipe, *backend, 0);
      const bool finished = train_to_end(run, interruption, [&](double share) {
        output.progress(table.name, (static_cast<double>(i) + share) / static_cast<double>(cells.size()),
                        [&] { return std::to_string(i + 1) + "/" + std::to_string(cells.size()) + "  " + cell.file; });
      });
      if (!finished)
        throw Error(ExitCode::interrupted, "interrupted in run " + std::to_string(i + 1) + " of " +
                                               std::to_string(cells.size()) + "; the same command goes on with it");
      result = measure(table, cell, run);
      write_result(folder, table, cell, *result);
      if (!run.failure().empty()) output.message(cell.file + ": " + run.failure());
    }
    results.push_back(*result);
  }
  output.end_progress();
  for (const std::string& line : text_of(table, results)) output.line(line);
  nlohmann::json files = nlohmann::json::array();
  for (const auto& file : write_files(table, results, folder)) {
    files.push_back(file.string());
    output.line("written  " + file.string());
  }
  return {{"table", table.name}, {"device", backend->name()}, {"runs", rows_of(table, results)}, {"files", files}};
}

}  // namespace afterglow
