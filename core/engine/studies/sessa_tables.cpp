// Sessa section 5, in miniature and nearer to its size.
#include "core/engine/studies/sessa_tables.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "core/engine/observation/run_numbers.h"
#include "core/engine/training/training_run.h"
#include "core/tasks/task.h"

namespace afterglow {

namespace {

constexpr double not_asked = std::numeric_limits<double>::quiet_NaN();

/// The tasks of one size: places 1, 2 and 3 of the table's axis.
struct SessaSize {
  const char *soup, *recall, *stories;
  std::vector<std::string> changes;  ///< of every row
  std::vector<int> lags;             ///< at which recall is asked
  int examples = 512;
};

SessaSize sizes_of(TableSize size) {
  if (size == TableSize::small)
    return {R"({"kind":"symbolsoup","part":8,"length":48})",
            R"({"kind":"diffuse_mqar","bindings":1,"key_length":2,"lag":[8,16],"length":32})",
            R"({"kind":"stories","length":32})",
            {"steps=30", "evaluate_every=30", "batch=8"},
            {8, 16, 32},
            32};
  if (size == TableSize::large)
    return {R"({"kind":"symbolsoup","part":128,"length":640})",
            R"({"kind":"diffuse_mqar","bindings":[4,8,16],"key_length":2,"lag":[64,128,256],"length":400})",
            R"({"kind":"stories","length":256})",
            {"model.blocks.0.repeat=4", "steps=20000", "evaluate_every=500", "learning_rate=1e-3"},
            {64, 128, 256, 512, 1024},
            512};
  return {R"({"kind":"symbolsoup","part":32,"length":160})",
          R"({"kind":"diffuse_mqar","bindings":[1,2,4],"key_length":2,"lag":[16,32,64],"length":90})",
          R"({"kind":"stories","length":128})",
          {},
          {16, 32, 64, 128, 256},
          512};
}

/// Accuracy when every sequence has so much noise before its queries; the longest sequences make room for more.
double accuracy_at_lag(int lag, std::int64_t examples, TrainingRun& run) {
  nlohmann::json task = run.recipe().task;
  if (task["kind"] != "diffuse_mqar") return not_asked;
  const auto longest = task["lag"].back().get<std::int64_t>();
  task["length"] = task["length"].get<std::int64_t>() + std::max<std::int64_t>(0, lag - longest);
  task["lag"] = lag;
  return run.trainer().evaluate(examples, make_task(task).get());
}

/// Perplexity and the share among the five most likely: of stories, whose every letter is asked.
std::vector<double> story_numbers(std::int64_t examples, TrainingRun& run) {
  if (run.recipe().task["kind"] != "stories") return {not_asked, not_asked, not_asked};
  const AnswerScore score = run.trainer().answers(examples);
  return {score.perplexity, score.accuracy, score.among_five};
}

}  // namespace

Table sessa_table(TableSize size) {
  const SessaSize of = sizes_of(size);
  Table table;
  table.name = size == TableSize::small ? "sessa_small" : size == TableSize::large ? "sessa_large" : "";
  table.title = "Sessa, its ablation, Transformer and Mamba-2";
  table.about =
      "the same steps, matched parameters; the ablation once as it is, with fewer, and once wider; recall over the "
      "lag, stories with perplexity";
  table.x_label = "task";
  table.x_names = {"", "symbol soup", "diffuse recall", "stories"};
  table.group_label = "lag";
  table.group_unit = "tokens";
  struct Series {
    const char *name, *preset;
    std::vector<const char*> large;  ///< changes that keep the parameters matched
  };
  for (const Series& series :
       {Series{"Sessa", "sessa-mqar", {"model.d_model=128"}},
        {"Sessa without feedback", "sessa-mqar-ablated", {"model.d_model=128"}},
        {"without feedback, wider", "sessa-mqar-ablated-wide", {"model.d_model=144"}},
        {"Transformer", "sessa-mqar-transformer", {"model.d_model=128", "model.blocks.0.mlp.d_ff=216"}},
        {"Mamba-2", "sessa-mqar-mamba2", {"model.d_model=128", "model.blocks.0.mlp.d_ff=113"}}}) {
    double place = 0;
    for (const char* task : {of.soup, of.recall, of.stories}) {
      std::vector<std::string> changes{"task=" + std::string(task)};
      changes.insert(changes.end(), of.changes.begin(), of.changes.end());
      if (size == TableSize::large) changes.insert(changes.end(), series.large.begin(), series.large.end());
      table.rows.push_back({series.name, ++place, series.preset, changes});
    }
  }
  table.metrics = {
      {"accuracy", "", true}, {"training loss", "nats"}, {"perplexity", ""}, {"top-1", "", true}, {"top-5", "", true}};
  for (const int lag : of.lags)
    table.metrics.push_back(
        {"accuracy at lag " + std::to_string(lag), "", true, "diffuse recall", static_cast<double>(lag)});
  table.measure = [of](TrainingRun& run) {
    std::vector<double> values{run.trainer().evaluate(of.examples), mean_of_last(run.curves().loss, 100)};
    for (const double number : story_numbers(of.examples / 4, run)) values.push_back(number);
    for (const int lag : of.lags) values.push_back(accuracy_at_lag(lag, of.examples / 2, run));
    return values;
  };
  table.seeds = size == TableSize::small ? 1 : 3;
  if (size == TableSize::usual) {
    table.small = [] { return sessa_table(TableSize::small); };
    table.large = [] { return sessa_table(TableSize::large); };
  }
  return table;
}

}  // namespace afterglow
