// `afterglow table NAME`: trains the runs of a comparison that are not there yet, prints the table, and writes CSV and
// figures. Stopped at any time, it goes on where it was.
#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/cli/command_line.h"
#include "app/cli/interruption.h"
#include "app/cli/start.h"
#include "core/engine/studies/table.h"
#include "core/engine/training/saved_run.h"
#include "core/engine/training/training_run.h"
#include "core/figure/files/figure_files.h"
#include "core/figure/files/page_writer.h"
#include "core/io/error.h"
#include "core/io/json_file.h"
#include "views/figures/table_figures.h"

namespace afterglow {

namespace {

std::vector<TableCell> wanted_cells(const Table& table, const TableOptions& options) {
  std::vector<std::string> changes = options.assignments;
  if (!options.data.empty()) {
    nlohmann::json task = nlohmann::json::parse(find_preset(table.rows.front().preset).text)["task"];
    take_data(task, options.data);
    for (const char* field : {"path", "hash"})
      changes.push_back("task." + std::string(field) + "=" + task[field].dump());
  }
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

/// Results are replaced as the table grows, so the folder must be new or the table's own: throws Error(bad_input) where
/// it holds anything that would be lost.
void require_own_folder(const Table& table, const std::vector<TableCell>& cells, const std::filesystem::path& folder) {
  bool is_own = std::filesystem::is_empty(folder);
  for (const TableCell& cell : cells) {
    const std::filesystem::path file = folder / cell.file;
    if (!std::filesystem::exists(file)) continue;
    if (!read_result(folder, table, cell))
      throw Error(ExitCode::bad_input, file.string() +
                                           " holds a run with other settings; choose another --out, or "
                                           "replace it with --force");
    is_own = true;
  }
  if (!is_own)
    throw Error(ExitCode::bad_input, folder.string() +
                                         " holds files, but none of these runs; choose a folder of its "
                                         "own with --out, or use this one with --force");
}

/// Trains the runs that have no result in the folder yet, several side by side: each thread has a back end of its own.
class TableTraining {
 public:
  TableTraining(const Table& table, std::vector<TableCell> cells, std::filesystem::path folder, Output& output)
      : table_(table), cells_(std::move(cells)), folder_(std::move(folder)), output_(output), results_(cells_.size()) {}

  void read_finished() {
    for (std::size_t i = 0; i < cells_.size(); ++i) results_[i] = read_result(folder_, table_, cells_[i]);
  }
  /// One thread for each back end. Throws what the first run that failed threw, and Error(interrupted).
  void train(const std::vector<std::unique_ptr<Backend>>& backends) {
    const auto missing = std::count(results_.begin(), results_.end(), std::nullopt);
    steps_left_ = 0;
    for (std::size_t i = 0; i < cells_.size(); ++i)
      if (!results_[i]) steps_left_ += cells_[i].recipe.training.steps;
    total_steps_ = steps_left_;
    std::vector<std::thread> threads;
    for (std::size_t i = 1; i < std::min<std::size_t>(backends.size(), static_cast<std::size_t>(missing)); ++i)
      threads.emplace_back([this, &backend = *backends[i]] { work(backend); });
    work(*backends.front());
    for (std::thread& thread : threads) thread.join();
    if (failure_) std::rethrow_exception(failure_);
    if (std::count(results_.begin(), results_.end(), std::nullopt) > 0)
      throw Error(ExitCode::interrupted,
                  "interrupted before all runs were trained; the same command goes on with those that are missing");
  }
  std::vector<TableResult> results() const {
    std::vector<TableResult> all;
    for (const std::optional<TableResult>& result : results_) all.push_back(*result);
    return all;
  }

 private:
  void work(Backend& backend) {
    try {
      for (std::size_t i = next_++; i < cells_.size() && !must_stop(); i = next_++)
        if (!results_[i]) train_cell(i, backend);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
      is_over_ = true;
    }
  }

  void train_cell(std::size_t index, Backend& backend) {
    const TableCell& cell = cells_[index];
    TrainingRun run(cell.recipe, backend, 0);
    while (!run.finished() && run.train_step()) {
      if (must_stop()) return;
      show_progress(cell.file);
    }
    steps_left_ -= cell.recipe.training.steps - run.step();
    run.go_to(run.chosen_step());
    results_[index] = measure(table_, cell, run);
    write_result(folder_, table_, cell, *results_[index]);
    if (run.failure().empty()) return;
    const std::lock_guard lock(mutex_);
    output_.message(cell.file + ": " + run.failure());
  }

  void show_progress(const std::string& file) {
    const double done = 1.0 - static_cast<double>(--steps_left_) / static_cast<double>(total_steps_);
    const std::unique_lock lock(mutex_, std::try_to_lock);  // another thread draws: this step need not be shown
    if (lock) output_.progress(table_.name, done, [&] { return file; });
  }

  bool must_stop() const { return is_over_ || interruption_.wanted(); }

  const Table& table_;
  std::vector<TableCell> cells_;
  std::filesystem::path folder_;
  Output& output_;
  std::vector<std::optional<TableResult>> results_;
  const Interruption interruption_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<std::int64_t> steps_left_ = 0;
  std::int64_t total_steps_ = 0;
  std::atomic<bool> is_over_ = false;
  std::mutex mutex_;
  std::exception_ptr failure_;
};

/// On the CPU the runs share the processors.
std::vector<std::unique_ptr<Backend>> make_backends(const CommonOptions& common, int jobs) {
  std::vector<std::unique_ptr<Backend>> all;
  all.push_back(make_backend(common.device, common.threads));
  int threads = common.threads;
  if (jobs > 1 && threads == 0 && all.front()->name() == "cpu") {
    threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / jobs);
    all.front() = make_backend("cpu", threads);
  }
  while (static_cast<int>(all.size()) < jobs) all.push_back(make_backend(all.front()->name(), threads));
  return all;
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
  make_folder(folder);
  if (!common.force) require_own_folder(table, cells, folder);
  const std::vector<std::unique_ptr<Backend>> backends =
      make_backends(common, std::min(options.jobs, static_cast<int>(cells.size())));
  output.message(table.title + ": " + table.about + " · " + std::to_string(cells.size()) + " runs · " +
                 backends.front()->description());
  if (!common.precision.empty()) {
    for (TableCell& cell : cells) cell.recipe.precision = parse_precision(common.precision);
  }
  TableTraining training(table, std::move(cells), folder, output);
  if (!common.force) training.read_finished();
  training.train(backends);
  const std::vector<TableResult> results = training.results();
  output.end_progress();
  for (const std::string& line : text_of(table, results)) output.line(line);
  nlohmann::json files = nlohmann::json::array();
  for (const auto& file : write_files(table, results, folder)) {
    files.push_back(file.string());
    output.line("written  " + file.string());
  }
  return {
      {"table", table.name}, {"device", backends.front()->name()}, {"runs", rows_of(table, results)}, {"files", files}};
}

}  // namespace afterglow
