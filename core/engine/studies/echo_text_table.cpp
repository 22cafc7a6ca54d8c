// Echo, section 3.4: Mamba-2, with SKA, and Echo, on text.
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/engine/recipe/recipe.h"
#include "core/engine/studies/echo_tables.h"
#include "core/engine/training/training_run.h"
#include "core/tasks/task.h"

namespace afterglow {

namespace {

using nlohmann::json;

/// One width of the study: Echo's stack, which the other variants change.
struct TextSize {
  const char *name, *about, *preset;
  std::vector<const char*> changes;  ///< of every row
  int inner;                         ///< width of the MLPs
  int length;                        ///< of a sequence in training
  std::int64_t examples;
};

/// Eight blocks of width 256, the first and the last of them Mamba-2.
constexpr const char* middle_model = R"(model={"d_model": 256, "vocab": 256, "blocks": [
  {"mixer": {"kind": "mamba2", "d_state": 64, "expand": 2, "headdim": 64}, "repeat": 2},
  {"mixer": {"kind": "ska", "H": 4, "r": 32, "P": 64, "K": 2, "mode": "chunk", "chunk": 64}},
  {"mixer": {"kind": "mamba2", "d_state": 64, "expand": 2, "headdim": 64}, "repeat": 2},
  {"mixer": {"kind": "ska", "H": 4, "r": 32, "P": 64, "K": 2, "mode": "chunk", "chunk": 64}},
  {"mixer": {"kind": "mamba2", "d_state": 64, "expand": 2, "headdim": 64}, "repeat": 2}]})";

TextSize text_size(TableSize size) {
  if (size == TableSize::small)
    return {"echo_text_small", "two blocks of width 32", "tiny-echo", {"steps=400"}, 64, 64, 64};
  if (size == TableSize::large)
    return {"echo_text_large",
            "the 16 blocks of Echo-50M",
            "echo-50m",
            {"batch=16", "steps=10000", "evaluate_every=500", "evaluate_examples=16"},
            1216,
            1024,
            64};
  return {
      "echo_text", "eight blocks of width 256",
      "tiny-echo", {middle_model, "batch=32", "steps=2000", "learning_rate=1e-3", "warmup=100", "evaluate_every=100"},
      704,         256,
      256};
}

/// A variant of the stack in `blocks`: every MLP replaced, and without SKA its layers by Mamba-2.
std::vector<std::string> variant_changes(const json& blocks, const json& mlp, bool has_ska) {
  std::vector<std::string> changes;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::string block = "model.blocks." + std::to_string(i) + ".";
    changes.push_back(block + "mlp=" + mlp.dump());
    if (blocks[i]["mixer"]["kind"] == blocks[0]["mixer"]["kind"]) continue;  // the first block is always Mamba-2
    // The scale of a whole sequence would tell of the letters that are asked.
    changes.push_back(has_ska ? block + "mixer.norm_scope=prefix" : block + "mixer=" + blocks[0]["mixer"].dump());
  }
  return changes;
}

}  // namespace

Table echo_text_table(TableSize size) {
  const TextSize of = text_size(size);
  const std::vector<int> lengths{of.length, 2 * of.length, 4 * of.length};
  Table table;
  table.name = of.name;
  table.title = "Echo's variants on text";
  table.about =
      std::string(of.about) +
      "; the next letter of small stories, or of a text (--data TEXT.txt) by its bytes; nothing that is published is "
      "of the same text";
  table.x_label = "text";
  table.x_names = {"next letter"};
  table.group_label = "length";
  table.group_unit = "tokens";
  table.with_data = {"model.vocab=" + std::to_string(size == TableSize::large ? 32000 : 256), "task.kind=text",
                     "task.letters=bytes"};
  struct Variant {
    const char *name, *mlp, *width;
    bool has_ska = true;
    int numerator = 1, denominator = 1;  ///< of the inner width; a Koopman MLP has two matrices, SwiGLU three
  };
  for (const Variant& variant : {Variant{"Mamba-2, SwiGLU", R"({"kind": "swiglu"})", "d_ff", false},
                                 {"Mamba-2 + SKA, SwiGLU", R"({"kind": "swiglu"})", "d_ff"},
                                 {"Echo", R"({"kind": "koopman_mlp"})", "dk"},
                                 {"Echo, MLPs as large as SwiGLU", R"({"kind": "koopman_mlp"})", "dk", true, 3, 2}}) {
    std::vector<std::string> changes(of.changes.begin(), of.changes.end());
    changes.push_back("task=" + json{{"kind", "stories"}, {"length", of.length}}.dump());
    json recipe = json::parse(find_preset(of.preset).text);
    for (const std::string& change : changes) apply_assignment(recipe, change);
    json mlp = json::parse(variant.mlp);
    mlp[variant.width] = of.inner * variant.numerator / variant.denominator;
    for (std::string& change : variant_changes(recipe["model"]["blocks"], mlp, variant.has_ska))
      changes.push_back(std::move(change));
    table.rows.push_back({variant.name, 0.0, of.preset, std::move(changes)});
  }
  table.metrics = {{"held-out loss", "nats"}, {"perplexity", ""}, {"top-1", "", true}, {"top-5", "", true}};
  for (const int length : lengths)
    table.metrics.push_back(
        {"perplexity at " + std::to_string(length) + " tokens", "", false, "perplexity", static_cast<double>(length)});
  table.measure = [lengths, examples = of.examples](TrainingRun& run) {
    const AnswerScore score = run.trainer().answers(examples);
    std::vector<double> values{std::log(score.perplexity), score.perplexity, score.accuracy, score.among_five};
    for (const int length : lengths) {
      json task = run.recipe().task;
      task["length"] = length;
      values.push_back(run.trainer().answers(examples, make_task(task).get()).perplexity);
    }
    return values;
  };
  table.seeds = size == TableSize::usual ? 3 : 1;
  if (size == TableSize::usual) {
    table.small = [] { return echo_text_table(TableSize::small); };
    table.large = [] { return echo_text_table(TableSize::large); };
  }
  return table;
}

}  // namespace afterglow
