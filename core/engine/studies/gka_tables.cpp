// Ablations of Gated KalmaNet and its recall by width.
#include "core/engine/studies/gka_tables.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "core/engine/observation/run_numbers.h"
#include "core/engine/training/training_run.h"
#include "core/tasks/task.h"

namespace afterglow {

namespace {

constexpr double not_measured = std::numeric_limits<double>::quiet_NaN();

std::string of_mixer(const std::string& change) { return "model.blocks.0.mixer." + change; }

std::vector<std::string> without_gates() {
  return {of_mixer("use_forgetting_gate=false"), of_mixer("use_forgetting_gate_kk=false")};
}

/// What differs from the layer as it is: a 0.02, 30 iterations, gated, with the alpha connection.
struct Ablation {
  const char* name;
  std::vector<std::string> changes;
  const char* preset = "mqar-gka";
};

std::vector<Ablation> ablations() {
  return {{"Gated KalmaNet", {}},
          {"no gates", without_gates()},
          {"no α connection", {of_mixer("use_alpha_connection=false")}},
          {"a = 0.01", {of_mixer("ridge_strength=0.01")}},
          {"a = 0.05", {of_mixer("ridge_strength=0.05")}},
          {"a = 0.1", {of_mixer("ridge_strength=0.1")}},
          {"λ = 0.25", {of_mixer("fixed_lambda=0.25")}},
          {"3 iterations", {of_mixer("num_iter=3")}},
          {"10 iterations", {of_mixer("num_iter=10")}},
          {"sketch to 16 of 32", {of_mixer("sketch=16")}},
          {"sketch to 8 of 32", {of_mixer("sketch=8")}},
          {"hybrid with attention", {}, "mqar-gka-hybrid"}};
}

/// Accuracy with so many pairs in sequences of this length; not asked where the task is another.
double recall_at(int pairs, int length, std::int64_t examples, TrainingRun& run) {
  nlohmann::json task = run.recipe().task;
  if (task["kind"] != "mqar") return not_measured;
  task["bindings"] = pairs;
  task["length"] = length;
  return run.trainer().evaluate(examples, make_task(task).get());
}

double story_perplexity(std::int64_t examples, TrainingRun& run) {
  return run.recipe().task["kind"] == "stories" ? run.trainer().answers(examples).perplexity : not_measured;
}

}  // namespace

Table gka_ablation_table(bool is_small) {
  Table table;
  table.name = is_small ? "gka_ablation_small" : "gka_ablation";
  table.title = "What of Gated KalmaNet does what";
  table.about =
      "two blocks each, one thing changed, and a hybrid with one attention block of four; recall of 16 pairs in longer "
      "sequences than training's, and stories";
  table.x_label = "task";
  table.x_names = {"", "recall", "stories"};
  table.group_label = "length";
  table.group_unit = "tokens";
  const std::vector<int> lengths = is_small ? std::vector{32, 64} : std::vector{64, 128, 256, 512};
  const int pairs = is_small ? 4 : 16;
  const std::int64_t examples = is_small ? 16 : 256;
  for (const Ablation& ablation : ablations()) {
    for (const char* task : {"recall", "stories"}) {
      const bool is_recall = std::string_view(task) == "recall";
      TableRow row{ablation.name, is_recall ? 1.0 : 2.0, ablation.preset, ablation.changes};
      if (!is_recall) row.changes.emplace_back(R"(task={"kind":"stories","length":128})");
      if (is_small) {
        row.changes.emplace_back(is_recall ? R"(task={"kind":"mqar","bindings":[2,4],"length":32})"
                                           : R"(task={"kind":"stories","length":32})");
        for (const char* change : {"steps=20", "evaluate_every=20", "batch=8"}) row.changes.emplace_back(change);
      }
      table.rows.push_back(std::move(row));
    }
  }
  table.metrics = {{"accuracy", "", true}, {"steps to 90 %", "steps"}, {"training loss", "nats"}, {"perplexity", ""}};
  for (const int length : lengths)
    table.metrics.push_back({"accuracy at " + std::to_string(length) + " tokens", "", true,
                             "recall of " + std::to_string(pairs) + " pairs", static_cast<double>(length)});
  table.measure = [lengths, pairs, examples](TrainingRun& run) {
    std::vector<double> values{run.trainer().evaluate(examples), steps_to_ninety_percent(run.curves()),
                               mean_of_last(run.curves().loss, 100), story_perplexity(examples / 4, run)};
    for (const int length : lengths) values.push_back(recall_at(pairs, length, examples, run));
    return values;
  };
  table.seeds = is_small ? 1 : 3;
  if (!is_small) table.small = [] { return gka_ablation_table(true); };
  return table;
}

Table gka_figure3_table(bool is_small) {
  Table table;
  table.name = is_small ? "gka_figure3_small" : "gka_figure3";
  table.title = "Gated KalmaNet, figure 3a";
  table.about =
      "two blocks of one mixer; Gated KalmaNet without gates and α connection; the best of four learning rates";
  table.x_label = "model width";
  table.x_logarithmic = true;
  struct Series {
    const char *name, *preset;
    bool is_ours = false;
  };
  const int tokens = is_small ? 32 : 256;
  const std::vector<int> widths = is_small ? std::vector{16} : std::vector{16, 32, 64, 128};
  for (const Series& series : {Series{"softmax attention", "mqar-attention"},
                               {"Gated KalmaNet", "mqar-gka", true},
                               {"gated DeltaNet", "mqar-gated-deltanet"},
                               {"DeltaNet", "mqar-deltanet"},
                               {"GLA", "mqar-gla"},
                               {"Mamba-2", "mqar-mamba2"}}) {
    for (const int width : widths) {
      TableRow row{series.name, static_cast<double>(width), series.preset, {}};
      row.changes = {"model.d_model=" + std::to_string(width), "model.vocab=256", "task.vocab=256",
                     "task.length=" + std::to_string(tokens),
                     is_small ? "task.bindings=[2,4]" : "task.bindings=[16,32,64]"};
      if (series.is_ours) {
        row.changes.push_back(of_mixer("head_dim=" + std::to_string(width / 2)));
        row.changes.push_back(of_mixer("use_alpha_connection=false"));
        for (const std::string& change : without_gates()) row.changes.push_back(change);
      }
      if (is_small)
        for (const char* change : {"steps=10", "evaluate_every=10", "batch=4"}) row.changes.emplace_back(change);
      table.rows.push_back(std::move(row));
    }
  }
  const std::vector<int> pairs = is_small ? std::vector{4} : std::vector{16, 64};
  for (const int count : pairs) table.metrics.push_back({"accuracy at " + std::to_string(count) + " pairs", "", true});
  table.measure = [pairs, tokens](TrainingRun& run) {
    std::vector<double> values;
    for (const int count : pairs) values.push_back(recall_at(count, tokens, 256, run));
    return values;
  };
  table.variants = {"learning_rate=1e-4", "learning_rate=5e-4", "learning_rate=2e-3", "learning_rate=1e-2"};
  if (is_small) table.variants.erase(table.variants.begin(), table.variants.begin() + 2);  // short runs need fast rates
  table.is_of_best = true;
  table.seeds = 1;
  if (!is_small) table.small = [] { return gka_figure3_table(true); };
  return table;
}

}  // namespace afterglow
