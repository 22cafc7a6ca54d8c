// `afterglow eval`: accuracy of a snapshot on held-out sequences, as a number or as a grid over bindings and lengths.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/cli/start.h"
#include "core/engine/training/saved_run.h"
#include "core/io/csv.h"
#include "core/io/error.h"
#include "core/io/json_file.h"

namespace afterglow {

namespace {

nlohmann::json task_of(const EvalOptions& options, const Recipe& recipe) {
  if (options.task.empty()) return recipe.task;
  if (options.task.front() == '{') return parse_json(options.task, "--task");
  return {{"kind", options.task}};
}

}  // namespace

nlohmann::json evaluate(const EvalOptions& options, const CommonOptions& common, Output& output) {
  const SavedRun moment = open_saved_run(options.snapshot);
  if (!moment.snapshot)
    throw Error(ExitCode::bad_input, options.snapshot + ": eval needs trained weights; give a snapshot (.safetensors)");
  const std::unique_ptr<Backend> backend = make_backend(common.device, common.threads);
  const std::unique_ptr<TrainingRun> run = make_run(moment, *backend);
  const nlohmann::json config = task_of(options, moment.snapshot->recipe);
  nlohmann::json cells = nlohmann::json::array();
  std::vector<double> bindings, lengths, accuracies;
  const auto measure = [&](const nlohmann::json& task_config, int n, int length) {
    const std::unique_ptr<Task> task = make_task(task_config);
    if (task->vocab() > run->trainer().model().vocab()) {
      throw Error(ExitCode::bad_input, "task " + task->name() + " uses " + std::to_string(task->vocab()) +
                                           " tokens, the model knows " +
                                           std::to_string(run->trainer().model().vocab()));
    }
    const double accuracy = run->trainer().evaluate(options.examples, task.get());
    cells.push_back({{"task", task->name()}, {"bindings", n}, {"length", length}, {"accuracy", accuracy}});
    bindings.push_back(n);
    lengths.push_back(length);
    accuracies.push_back(accuracy);
    char text[120];
    std::snprintf(text, sizeof text, "%-12s bindings %3d  length %5d  accuracy %.4f", task->name().c_str(), n, length,
                  accuracy);
    output.line(text);
  };
  if (options.bindings.empty() && options.lengths.empty()) {
    const std::unique_ptr<Task> task = make_task(config);
    measure(config, 0, task->length());
  } else {
    const std::vector<int> counts = options.bindings.empty() ? std::vector<int>{1, 2, 4, 8} : options.bindings;
    const std::vector<int> spans = options.lengths.empty() ? std::vector<int>{64, 128, 256, 512} : options.lengths;
    for (const EvalCell& cell : evaluation_grid(config, counts, spans)) {
      if (cell.fits) measure(evaluation_config(config, cell), cell.bindings, cell.length);
    }
  }
  if (!options.csv.empty()) {
    const auto path = output_path(options.csv, common.force);
    write_csv(path, {{"bindings", bindings}, {"length [tokens]", lengths}, {"accuracy", accuracies}});
    output.line("written  " + path.string());
  }
  return {{"snapshot", options.snapshot},
          {"step", moment.snapshot->step},
          {"examples", options.examples},
          {"device", backend->name()},
          {"cells", cells}};
}

}  // namespace afterglow
