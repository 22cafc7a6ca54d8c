// Echo, sections 4.1 and 5.2: models trained on the very task that they are asked.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/engine/observation/run_numbers.h"
#include "core/engine/studies/echo_tables.h"
#include "core/engine/training/training_run.h"
#include "core/tasks/task.h"

namespace afterglow {

namespace {

using nlohmann::json;

constexpr int asked_examples = 512;

/// Accuracy at the end, the best on the way, and how soon the task was learned.
std::vector<RunMetric> recall_metrics() {
  return {{"accuracy", "", true}, {"best accuracy", "", true}, {"steps to 90 %", "steps"}};
}

std::vector<double> recall_of(TrainingRun& run, std::int64_t examples = asked_examples) {
  const double last = run.trainer().evaluate(examples);
  double best = last;
  const RunCurves curves = run.curves();
  for (const double accuracy : curves.held_out_accuracy.span()) best = std::max(best, accuracy);
  return {last, best, steps_to_ninety_percent(curves)};
}

/// One of appendix G.4.
struct Experiment {
  const char *name, *task;
  int layers = 3, heads = 3;  ///< table 5
  std::int64_t steps = 2500;
};
constexpr Experiment experiments[] = {
    {"tool calls", R"({"kind": "toolcall"})"},
    {"tool calls, hard", R"({"kind": "toolcall", "difficulty": "hard"})"},
    {"economy", R"({"kind": "economy"})"},
    {"economy, hard", R"({"kind": "economy", "difficulty": "hard"})"},
    {"reasoning", R"({"kind": "cot_recall"})", 4, 4, 6000},
    {"reasoning, hard", R"({"kind": "cot_recall", "difficulty": "hard"})", 4, 4, 6000},
    {"recall", R"({"kind": "specific_recall"})", 4, 4, 6000},
    {"recall, hard", R"({"kind": "specific_recall", "difficulty": "hard"})", 4, 4, 6000}};
constexpr Experiment small_experiments[] = {
    {"tool calls", R"({"kind": "toolcall", "bindings": "2..4", "length": 32})", 3, 3, 30},
    {"specific recall", R"({"kind": "specific_recall", "bindings": 2, "gap": "4..8", "length": 32})", 4, 4, 30}};

/// What stands in the last two layers (appendix G.2), as a preset has it: the second of its blocks, or its only one.
struct Mixer {
  const char *series, *preset;
  std::vector<std::string> changes = {};  ///< of its fields
  bool is_hybrid = true;                  ///< below them are Mamba-2 layers
};
const std::vector<Mixer>& mixers() {
  static const std::vector<Mixer> all{{"SKA, action mask", "ssm-ska", {"mode=masked"}},
                                      {"SKA, action mask, η 2.5", "ssm-ska", {"mode=masked", "eta=2.5"}},
                                      {"SKA, action mask, K 1", "ssm-ska", {"mode=masked", "K=1"}},
                                      {"SKA, every token", "ssm-ska"},
                                      {"SKA, every token, η 2.5", "ssm-ska", {"eta=2.5"}},
                                      {"SKA, every token, K 1", "ssm-ska", {"K=1"}},
                                      {"Mamba-2", "ssm", {}, false},
                                      {"Mamba-3", "ssm3", {}, false},
                                      {"softmax attention", "ssm-attn"}};
  return all;
}

/// Width 96, SwiGLU of 256 (table 5); r 24, K 2 and the state of 16 are the presets' own.
std::vector<std::string> model_changes(const Mixer& mixer, const Experiment& experiment) {
  constexpr int width = 96, mlp_width = 256, last_layers = 2;
  const auto block = [](int number, const std::string& change) {
    return "model.blocks." + std::to_string(number) + "." + change;
  };
  const std::string heads = std::to_string(experiment.heads), mlp = "mlp.d_ff=" + std::to_string(mlp_width);
  std::vector<std::string> changes{"model.d_model=" + std::to_string(width), block(0, mlp)};
  if (!mixer.is_hybrid) {
    changes.push_back(block(0, "repeat=" + std::to_string(experiment.layers)));
    return changes;
  }
  changes.push_back(block(0, "repeat=" + std::to_string(experiment.layers - last_layers)));
  changes.push_back(block(1, mlp));
  const bool is_attention = std::string_view(mixer.preset) == "ssm-attn";
  changes.push_back(block(1, (is_attention ? "mixer.n_heads=" : "mixer.H=") + heads));
  if (!is_attention) changes.push_back(block(1, "mixer.P=" + std::to_string(width / experiment.heads)));
  for (const std::string& change : mixer.changes) changes.push_back(block(1, "mixer." + change));
  return changes;
}

/// The paper's training (table 6) of one model on one experiment.
std::vector<std::string> recall_changes(const Mixer& mixer, const Experiment& experiment) {
  std::vector<std::string> changes = model_changes(mixer, experiment);
  for (const std::string& change : {std::string("task=") + experiment.task, "steps=" + std::to_string(experiment.steps),
                                    "evaluate_every=" + std::to_string(experiment.steps / 10)})
    changes.push_back(change);
  return changes;
}

}  // namespace

Table echo_recall_table(bool is_small) {
  const std::span<const Experiment> all = is_small ? std::span<const Experiment>(small_experiments) : experiments;
  Table table;
  table.name = is_small ? "echo_recall_small" : "echo_recall";
  table.title = "Echo's recall tasks";
  table.about =
      "layers of width 96, each task trained by itself; the last two layers are of the series' kind; reasoning is "
      "recall behind a chain of thought";
  table.x_label = "task";
  for (const Experiment& experiment : all) table.x_names.emplace_back(experiment.name);
  for (const Mixer& mixer : mixers()) {
    for (std::size_t place = 0; place < all.size(); ++place)
      table.rows.push_back({mixer.series, static_cast<double>(place), mixer.preset, recall_changes(mixer, all[place])});
  }
  table.metrics = recall_metrics();
  table.measure = [](TrainingRun& run) { return recall_of(run); };
  table.seeds = is_small ? 1 : 3;
  if (!is_small) table.small = [] { return echo_recall_table(true); };
  return table;
}

namespace {

/// One size of section 5.2's grid (its setup: section 4.2).
struct MqarSize {
  const char *name, *about;
  int steps;  ///< at most
  std::vector<int> pairs, gaps;
  const char* presets[3];            ///< of Mamba-2, Mamba-2 + attention and Mamba-2 + SKA
  std::vector<const char*> changes;  ///< of every row
  int most_tokens, fewest;           ///< of the gaps of a step, and sequences
};

MqarSize mqar_size(TableSize size) {
  constexpr int most_steps = 2500;
  const std::vector<int> pairs{4, 8, 16, 32}, gaps{64, 128, 256, 512, 1024, 2048, 4096};
  if (size == TableSize::small)
    return {"echo_mqar_small",
            "a million weights",
            20,
            {2},
            {16, 32},
            {"ssm", "ssm-attn", "ssm-ska"},
            {"warmup=5", "evaluate_every=10", "evaluate_examples=8"},
            64,
            2};
  if (size == TableSize::large)
    return {"echo_mqar_large",
            "fifty million weights, with SKA Echo-50M",
            most_steps,
            pairs,
            gaps,
            {"mamba2-50m", "mamba2-attn-50m", "echo-50m"},
            {"task.vocab=8192", "evaluate_every=100", "evaluate_examples=32"},
            16384,
            4};
  return {"echo_mqar",
          "a million weights",
          most_steps,
          pairs,
          gaps,
          {"ssm", "ssm-attn", "ssm-ska"},
          {"learning_rate=1e-3", "evaluate_every=100"},
          65536,
          16};
}

constexpr const char* mqar_models[] = {"Mamba-2", "Mamba-2 + attention", "Mamba-2 + SKA"};
constexpr std::size_t attention_model = 1;  // among these

std::string mqar_series(std::size_t model, int pairs) {
  return std::string(mqar_models[model]) + ", " + std::to_string(pairs) + " pairs";
}

std::string about_mqar(const MqarSize& size, bool has_published) {
  std::string about = std::string(size.about) + "; each cell trained by itself, until it holds 0.99 twice, for " +
                      std::to_string(size.steps) + " steps at most";
  if (has_published) about += "; published: 50 M, without a number for attention with 4 pairs at the largest gap";
  return about;
}

/// Section 5.2 says of its 50 M models in words what each holds in every cell, so that one number stands at every gap.
/// The cell that it excepts has none.
void add_published_mqar(Table& table, const MqarSize& size) {
  constexpr double published[] = {0.03, 1, 1};
  for (std::size_t model = 0; model < std::size(mqar_models); ++model) {
    for (const int pairs : size.pairs) {
      for (const int gap : size.gaps) {
        if (model == attention_model && pairs == size.pairs.front() && gap == size.gaps.back()) continue;
        std::vector<double> values(table.metrics.size(), unknown);
        values.front() = published[model];
        table.published.push_back({mqar_series(model, pairs), values, static_cast<double>(gap)});
      }
    }
  }
}

}  // namespace

Table echo_mqar_table(TableSize size) {
  constexpr int most_sequences = 64;
  const MqarSize of = mqar_size(size);
  Table table;
  table.name = of.name;
  table.title = "Echo's associative recall";
  table.about = about_mqar(of, size != TableSize::small);
  table.x_label = "gap";
  table.x_unit = "tokens";
  table.x_logarithmic = true;
  for (std::size_t model = 0; model < std::size(mqar_models); ++model) {
    for (const int count : of.pairs) {
      for (const int gap : of.gaps) {
        const json task{{"kind", "mqar"}, {"bindings", count}, {"length", 4 * count + gap}, {"power", 1}};
        const int batch = std::clamp(of.most_tokens / gap, of.fewest, most_sequences);
        std::vector<std::string> changes{"task=" + task.dump(), "batch=" + std::to_string(batch),
                                         "steps=" + std::to_string(of.steps)};
        changes.insert(changes.end(), of.changes.begin(), of.changes.end());
        table.rows.push_back({mqar_series(model, count), static_cast<double>(gap), of.presets[model], changes});
      }
    }
  }
  table.metrics = recall_metrics();
  table.metrics.push_back({"trained", "steps"});
  if (size != TableSize::small) add_published_mqar(table, of);
  const std::int64_t examples = size == TableSize::usual ? asked_examples : 64;
  table.measure = [examples](TrainingRun& run) {
    std::vector<double> values = recall_of(run, examples);
    values.push_back(static_cast<double>(run.step()));
    return values;
  };
  table.enough = {0.99, 2};
  table.seeds = 1;
  if (size == TableSize::usual) {
    table.small = [] { return echo_mqar_table(TableSize::small); };
    table.large = [] { return echo_mqar_table(TableSize::large); };
  }
  return table;
}

Table echo_in_task_table(bool is_small) {
  struct Series {
    const char *name, *preset;
  };
  struct Asked {
    const char *name, *task;
  };
  const std::vector<Asked> tasks{{"multihop", R"({"kind":"multihop","bindings":[1,2,3,4],"length":64})"},
                                 {"commonword", R"({"kind":"commonword","bindings":[2,3,4],"length":64})"},
                                 {"mqar", R"({"kind":"mqar","tokens":"suite","bindings":[1,2,4,8],"length":64})"}};
  Table table;
  table.name = is_small ? "echo_in_task_small" : "echo_in_task";
  table.title = "Echo's three other tasks, each trained";
  table.about =
      "what the models of the transfer study answer when they are trained on the task itself: 64 tokens, batch 64, "
      "rate "
      "1e-3, 2,500 steps; asked also at four times the length";
  table.x_label = "task";
  for (const Asked& task : tasks) table.x_names.emplace_back(task.name);
  for (const Series& series : {Series{"SSM", "ssm"}, {"SSM + attention", "ssm-attn"}, {"SSM + SKA", "ssm-ska"}}) {
    for (std::size_t place = 0; place < tasks.size(); ++place) {
      TableRow row{series.name, static_cast<double>(place), series.preset, {std::string("task=") + tasks[place].task}};
      for (const char* change : is_small
                                    ? std::vector{"steps=20", "batch=4", "warmup=5", "evaluate_every=10"}
                                    : std::vector{"steps=2500", "batch=64", "learning_rate=1e-3", "evaluate_every=100"})
        row.changes.emplace_back(change);
      table.rows.push_back(std::move(row));
    }
  }
  table.metrics = recall_metrics();
  table.metrics.push_back({"accuracy at 256 tokens", "", true});
  const std::int64_t examples = is_small ? 32 : asked_examples;
  table.measure = [examples](TrainingRun& run) {
    std::vector<double> values = recall_of(run, examples);
    json longer = run.recipe().task;
    longer["length"] = 256;
    values.push_back(run.trainer().evaluate(examples, make_task(longer).get()));
    return values;
  };
  table.seeds = is_small ? 1 : 3;
  if (!is_small) table.small = [] { return echo_in_task_table(true); };
  return table;
}

Table echo_ablation_table(bool is_small) {
  struct Ablation {
    const char* name;
    std::vector<const char*> changes;  ///< of the block with the SKA layer
  };
  const std::vector<Ablation> ablations{{"SKA", {}},
                                        {"K = 0", {"mixer.K=0"}},
                                        {"K = 1", {"mixer.K=1"}},
                                        {"K = 4", {"mixer.K=4"}},
                                        {"each token normed", {"mixer.norm_scope=token"}},
                                        {"sigmoid gate", {"mixer.gate=sigmoid"}},
                                        {"η 1", {"mixer.eta=1"}},
                                        {"η 2.5", {"mixer.eta=2.5"}},
                                        {"Koopman MLP", {R"(mlp={"kind":"koopman_mlp","dk":128})"}}};
  const std::vector<int> lengths = is_small ? std::vector{64, 128} : std::vector{64, 128, 256, 512, 1024};
  Table table;
  table.name = is_small ? "echo_ablation_small" : "echo_ablation";
  table.title = "What of SKA does what";
  table.about =
      "one thing changed in the second block of tiny, 2,500 steps on 4 bindings in 64 tokens, asked in longer "
      "sequences "
      "(Echo, sections 3.3 and 6.1, appendix E)";
  table.x_label = "model";
  table.x_names = {"tiny"};
  table.group_label = "length";
  table.group_unit = "tokens";
  for (const Ablation& ablation : ablations) {
    TableRow row{ablation.name, 0.0, "tiny", {}};
    for (const char* change : ablation.changes) row.changes.push_back(std::string("model.blocks.1.") + change);
    for (const char* change : is_small ? std::vector{"steps=20", "batch=4", "warmup=5"} : std::vector{"steps=2500"})
      row.changes.emplace_back(change);
    table.rows.push_back(std::move(row));
  }
  table.metrics = recall_metrics();
  for (const int length : lengths)
    table.metrics.push_back({"accuracy at " + std::to_string(length) + " tokens", "", true, "recall of 4 bindings",
                             static_cast<double>(length)});
  const std::int64_t examples = is_small ? 32 : asked_examples;
  table.measure = [lengths, examples](TrainingRun& run) {
    std::vector<double> values = recall_of(run, examples);
    for (const int length : lengths) {
      json task = run.recipe().task;
      task["length"] = length;
      values.push_back(run.trainer().evaluate(examples, make_task(task).get()));
    }
    return values;
  };
  table.seeds = is_small ? 1 : 3;
  if (!is_small) table.small = [] { return echo_ablation_table(true); };
  return table;
}

Table echo_mlp_table(bool is_small) {
  // Widths in shares of SwiGLU's, which has three matrices; an ungated Koopman MLP has two, a gated one three.
  struct Mlp {
    const char *name, *config, *width;
    int numerator = 1, denominator = 1;
  };
  struct Asked {
    const char *name, *preset;
    int width;  ///< SwiGLU's
    std::vector<std::string> changes;
  };
  const std::vector<Asked> small_tasks{{"recall", "small-prompt", 64, {}}, {"stories", "tiny-echo", 64, {"steps=400"}}};
  const std::vector<Asked> full_tasks{
      {"recall", "tiny", 128, {"steps=2500"}},
      {"stories",
       "tiny-echo",
       128,
       {"steps=2500", "model.d_model=64", "model.blocks.1.mixer.P=32", "task.length=128", "evaluate_every=50"}}};
  Table table;
  table.name = is_small ? "echo_mlp_small" : "echo_mlp";
  table.title = "SwiGLU and the Koopman MLP";
  table.about =
      "one model with the one or the other behind every mixer, all else alike: as many weights, the paper's third "
      "fewer, and gated (Echo, section 3.3)";
  table.x_label = "task";
  const std::vector<Asked>& tasks = is_small ? small_tasks : full_tasks;
  for (const Asked& task : tasks) table.x_names.emplace_back(task.name);
  for (const Mlp& mlp : {Mlp{"SwiGLU", R"({"kind": "swiglu"})", "d_ff"},
                         {"Koopman MLP", R"({"kind": "koopman_mlp"})", "dk", 3, 2},
                         {"Koopman MLP, a third fewer", R"({"kind": "koopman_mlp"})", "dk"},
                         {"Koopman MLP, gated", R"({"kind": "koopman_mlp", "gated": true})", "dk"}}) {
    for (std::size_t place = 0; place < tasks.size(); ++place) {
      json layer = json::parse(mlp.config);
      layer[mlp.width] = tasks[place].width * mlp.numerator / mlp.denominator;
      TableRow row{mlp.name, static_cast<double>(place), tasks[place].preset, tasks[place].changes};
      for (const char* block : {"0", "1"})
        row.changes.push_back(std::string("model.blocks.") + block + ".mlp=" + layer.dump());
      table.rows.push_back(std::move(row));
    }
  }
  table.metrics = recall_metrics();
  table.metrics.push_back({"perplexity", ""});
  table.measure = [](TrainingRun& run) {
    std::vector<double> values = recall_of(run);
    values.push_back(run.trainer().answers(asked_examples).perplexity);
    return values;
  };
  if (!is_small) table.small = [] { return echo_mlp_table(true); };
  return table;
}

}  // namespace afterglow
