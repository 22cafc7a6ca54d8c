// Comparisons as tables: recipes in the rows, metrics of the trained runs in the columns, several seeds each.
// assets/tables/README.md says how to add one. A row names a preset and its changes; one function measures all metrics
// of the trained run. `afterglow table <name>` trains what is missing, prints the table and writes CSV and figures.
// Metrics with a group form one figure, together with published results; groups whose abscissae are NaN are in the CSV
// only.
#pragma once
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "core/engine/observation/table_view.h"
#include "core/engine/sweeps/recipe_run.h"
#include "core/io/embedded_text.h"

namespace afterglow {

struct Table : TableView {
  /// Of a run that was trained to its end: one number for each metric; NaN without an answer ("never").
  std::function<std::vector<double>(TrainingRun& run)> measure;
  int seeds = 3;                            ///< runs of each row: the preset's seed and the following ones
  std::vector<std::string> variants = {};   ///< additional runs of each row, one with each change: "learning_rate=1e-3"
  std::vector<std::string> with_data = {};  ///< further changes of every recipe if --data gives a training file
  Enough enough = {};                       ///< when its runs end early
  /// For --set size=small, within two minutes on two cores, and size=large, nearer to the paper's sizes, hours on a
  /// GPU; empty if the table has no such size.
  std::function<Table()> small = {}, large = {};
};

/// The table that `json` describes, without its other sizes. Throws Error(bad_input) that names the table and the field
/// for a missing or unknown field, an undefined word, and an unknown measure.
Table read_table(const std::string& name, const nlohmann::json& json);

/// The files of assets/tables, whose README describes the fields.
std::span<const EmbeddedText> table_texts();

/// Every table.
const std::vector<Table>& tables();
/// Throws Error(usage) that lists the names.
const Table& find_table(std::string_view name);

/// The recipe of a row, before seeds and variants, as JSON; `changes` act after the row's own.
nlohmann::json recipe_of(const TableRow& row, const std::vector<std::string>& changes);

/// All runs, row by row; `changes` act on every recipe after the row's own.
std::vector<PlannedRun> runs_of(const Table& table, int seeds, const std::vector<std::string>& changes);

/// What is measured in each run; failed runs are not measured.
Inquiry inquiry_of(const Table& table);

/// "0.981 ± 0.004", of a share also "(best 0.985)"; "-" without a run.
std::string spread_text(const ResultSummary& summary, bool is_share);
/// Aligned text, a line a row: series, x, parameters, and each metric as "0.981 ± 0.004"; for shares also the best run,
/// because some layers either learn a task or do not.
std::vector<std::string> text_of(const Table& table, const std::vector<RunResult>& results);
/// One line for each run and each published result, for other programs; named abscissae are written by name.
void write_table_csv(const std::filesystem::path& path, const Table& table, const std::vector<RunResult>& results);

}  // namespace afterglow
