// The tables there are. Another one is a function and a line in the list at the end.
#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/engine/observation/run_numbers.h"
#include "core/engine/studies/echo_tables.h"
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

/// Accuracy with the noise before the queries `times` as long as the longest in training; NaN for other tasks.
double accuracy_at_longer_lags(int times, TrainingRun& run) {
  nlohmann::json task = run.recipe().task;
  if (task["kind"] != "diffuse_mqar") return std::numeric_limits<double>::quiet_NaN();
  const auto longest = task["lag"].back().get<std::int64_t>();
  task["length"] = task["length"].get<std::int64_t>() + (times - 1) * longest;
  task["lag"] = times * longest;
  return run.trainer().evaluate(256, make_task(task).get());
}

/// Sessa section 5 in miniature: long contexts with noise, lags beyond training's, and a short context.
Table sessa_table() {
  Table table;
  table.name = "sessa";
  table.title = "Sessa, its ablation, Transformer and Mamba-2";
  table.about =
      "two blocks each, the same steps, matched parameters; the ablation once as it is, with fewer, and once wider";
  table.x_label = "task (1 symbol soup, 2 diffuse recall, 3 stories)";
  struct Series {
    const char *name, *preset;
  };
  const char* const tasks[] = {
      R"(task={"kind":"symbolsoup","part":32,"length":160})",
      R"(task={"kind":"diffuse_mqar","bindings":[1,2,4],"key_length":2,"lag":[16,32,64],"length":90})",
      R"(task={"kind":"stories","length":128})"};
  for (const Series& series : {Series{"Sessa", "sessa-mqar"},
                               {"Sessa without feedback", "sessa-mqar-ablated"},
                               {"without feedback, wider", "sessa-mqar-ablated-wide"},
                               {"Transformer", "sessa-mqar-transformer"},
                               {"Mamba-2", "sessa-mqar-mamba2"}}) {
    double place = 0;
    for (const char* task : tasks) table.rows.push_back({series.name, ++place, series.preset, {task}});
  }
  table.metrics = {
      {"accuracy", ""}, {"accuracy at 2 x lag", ""}, {"accuracy at 4 x lag", ""}, {"training loss", "nats"}};
  table.measure = [](TrainingRun& run) {
    return std::vector{run.trainer().evaluate(512), accuracy_at_longer_lags(2, run), accuracy_at_longer_lags(4, run),
                       mean_of_last(run.curves().loss, 100)};
  };
  return table;
}

/// Spectral Memory, tables 3 and 4: errors on the test windows at four horizons, beside the same model without memory
/// tokens and DLinear. Give the data with --data ETTh1.csv.
Table etth1_table() {
  Table table;
  table.name = "etth1";
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
                                {"DLinear", {"model={\"kind\":\"dlinear\"}", "learning_rate=5e-4"}}};
  for (const Series& series : all) {
    for (const int horizon : {96, 192, 336, 720}) {
      std::vector<std::string> changes = series.changes;
      changes.push_back("task.horizon=" + std::to_string(horizon));
      // Epochs are those of the file: 8640 rows of training, 96 of each window as input, batches of 32.
      const int epoch = (8640 - 96 - horizon + 1) / 32;
      changes.push_back("steps=" + std::to_string(10 * epoch));
      changes.push_back("evaluate_every=" + std::to_string(epoch));
      table.rows.push_back({series.name, static_cast<double>(horizon), "etth1", changes});
    }
  }
  table.metrics = {{"MSE", ""}, {"MAE", ""}};
  table.measure = [](TrainingRun& run) {
    const ForecastScore score = run.trainer().score();
    return std::vector{score.mse, score.mae};
  };
  return table;
}

}  // namespace

const std::vector<Table>& tables() {
  static const std::vector<Table> all{mqar_table(),          sessa_table(),       etth1_table(),
                                      echo_transfer_table(), echo_recall_table(), echo_mqar_table()};
  return all;
}

}  // namespace afterglow
