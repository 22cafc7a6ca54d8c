// The tables there are. Another one is a function and a line in the list at the end.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/engine/observation/run_numbers.h"
#include "core/engine/studies/echo_tables.h"
#include "core/engine/studies/gka_tables.h"
#include "core/engine/studies/sessa_tables.h"
#include "core/engine/studies/table.h"
#include "core/engine/training/forecast_objective.h"
#include "core/engine/training/training_run.h"
#include "core/tasks/task.h"

namespace afterglow {

namespace {

/// Share of right answers when every sequence has so many pairs.
double accuracy_at(int pairs, TrainingRun& run) {
  nlohmann::json task = run.recipe().task;
  task["bindings"] = pairs;
  return run.trainer().evaluate(512, make_task(task).get());
}

/// GKA fig. 3a in miniature: how many pairs do two blocks of one kind remember, at which width?
Table mqar_table() {
  Table table;
  table.name = "mqar";
  table.title = "Multi-query associative recall";
  table.about = "two blocks of one mixer, trained on 4, 8 and 16 pairs in 64 tokens";
  table.x_label = "model width";
  table.x_logarithmic = true;
  struct Series {
    const char *name, *preset;
    bool names_head_width = false;  ///< the heads of the others follow the width by themselves
  };
  for (const Series& series : {Series{"attention", "mqar-attention"},
                               {"Gated KalmaNet", "mqar-gka", true},
                               {"gated DeltaNet", "mqar-gated-deltanet"},
                               {"DeltaNet", "mqar-deltanet"},
                               {"GLA", "mqar-gla"},
                               {"Mamba-2", "mqar-mamba2"}}) {
    for (const int width : {16, 32, 64}) {
      TableRow row{series.name, static_cast<double>(width), series.preset, {"model.d_model=" + std::to_string(width)}};
      if (series.names_head_width) row.changes.push_back("model.blocks.0.mixer.head_dim=" + std::to_string(width / 2));
      table.rows.push_back(std::move(row));
    }
  }
  for (const int pairs : {4, 8, 16})
    table.metrics.push_back({"accuracy at " + std::to_string(pairs) + " pairs", "", true});
  table.metrics.push_back({"steps to 90 %", "steps"});
  table.measure = [](TrainingRun& run) {
    return std::vector{accuracy_at(4, run), accuracy_at(8, run), accuracy_at(16, run),
                       steps_to_ninety_percent(run.curves())};
  };
  return table;
}

void take_forecast_errors(Table& table) {
  table.metrics = {{"MSE", ""}, {"MAE", ""}};
  table.measure = [](TrainingRun& run) {
    const ForecastScore score = run.trainer().score();
    return std::vector{score.mse, score.mae};
  };
}

/// Spectral Memory, tables 3 and 4: errors on the test windows at four horizons, beside the same model without memory
/// tokens, with modes that nothing adapts and tokens that see no history (appendix A.5), and DLinear. Give the data
/// with --data ETTh1.csv; the small one has the built-in series in its place, a narrow model and a short training.
Table etth1_table(bool is_small) {
  Table table;
  table.name = is_small ? "etth1_small" : "etth1";
  table.title = "Forecasts of ETTh1";
  table.about = "test errors of the standardised series, the epoch chosen by validation; --data ETTh1.csv";
  table.x_label = "horizon";
  table.x_unit = "h";
  struct Series {
    const char* name;
    std::vector<std::string> changes;
  };
  const std::vector<Series> all{{"spectral memory", {}},
                                {"without memory", {"model.memory_tokens=0"}},
                                {"modes alone", {"model.memory_projection=none"}},
                                {"learned tokens alone", {"model.memory_projection=free"}},
                                {"DLinear", {"model={\"kind\":\"dlinear\"}", "learning_rate=5e-4"}}};
  const std::vector<std::string> narrow{"model.d_model=16",     "model.d_ff=32",         "model.e_layers=1",
                                        "model.n_components=6", "model.memory_depth=40", "batch=8"};
  for (const Series& series : all) {
    for (const int horizon : is_small ? std::vector{24} : std::vector{96, 192, 336, 720}) {
      std::vector<std::string> changes = is_small ? narrow : std::vector<std::string>();
      changes.insert(changes.end(), series.changes.begin(), series.changes.end());
      changes.push_back("task.horizon=" + std::to_string(horizon));
      // Epochs are those of the file: 8640 rows of training, 96 of each window as input, batches of 32.
      const int epoch = is_small ? 8 : (8640 - 96 - horizon + 1) / 32;
      changes.push_back("steps=" + std::to_string(10 * epoch));
      changes.push_back("evaluate_every=" + std::to_string(epoch));
      table.rows.push_back({series.name, static_cast<double>(horizon), "etth1", changes});
    }
  }
  take_forecast_errors(table);
  table.seeds = is_small ? 1 : 3;
  if (is_small) return table;
  table.small = [] { return etth1_table(true); };
  // Table 4 by horizon, table 3 as means of the four horizons.
  const std::pair<double, double> ours[] = {{96, 0.393}, {192, 0.419}, {336, 0.452}, {720, 0.472}};
  for (const auto& [horizon, error] : ours) table.published.push_back({"spectral memory", {error, NAN}, horizon});
  const std::pair<const char*, double> others[] = {{"TimeXer", 0.437},  {"iTransformer", 0.454}, {"DLinear", 0.456},
                                                   {"TimesNet", 0.458}, {"PatchTST", 0.469},     {"Autoformer", 0.496}};
  for (const auto& [name, error] : others) table.published.push_back({name, {error, NAN}});
  return table;
}

/// What of the memory matters at horizon 96: components K, memory tokens M, rows of the history T, one changed at a
/// time.
Table etth1_memory_table() {
  Table table;
  table.name = "etth1_memory";
  table.title = "Spectral Memory: K, M and T";
  table.about = "test errors of ETTh1 at horizon 96, beside K 16, M 4, T 3000; --data ETTh1.csv";
  table.x_label = "value";
  table.x_logarithmic = true;
  struct Series {
    const char *name, *field;
    std::vector<int> values;
  };
  for (const Series& series : {Series{"components K", "n_components", {4, 8, 16, 32}},
                               {"memory tokens M", "memory_tokens", {1, 2, 4, 8}},
                               {"history T", "memory_depth", {100, 300, 1000, 3000}}}) {
    for (const int value : series.values)
      table.rows.push_back({series.name,
                            static_cast<double>(value),
                            "etth1",
                            {std::string("model.") + series.field + "=" + std::to_string(value)}});
  }
  take_forecast_errors(table);
  return table;
}

Table named(std::string name, Table table) {
  table.name = std::move(name);
  return table;
}

}  // namespace

const std::vector<Table>& tables() {
  static const std::vector<Table> all{
      mqar_table(),       named("sessa", sessa_table()), gka_ablation_table(),  gka_figure3_table(),
      etth1_table(false), etth1_memory_table(),          echo_transfer_table(), echo_recall_table(),
      echo_mqar_table(),  echo_in_task_table(),          echo_ablation_table(), echo_mlp_table(),
      echo_text_table()};
  return all;
}

}  // namespace afterglow
