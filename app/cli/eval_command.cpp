// `afterglow eval`: accuracy of a snapshot on held-out sequences, as a number or as a grid over bindings and lengths.
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/cli/interruption.h"
#include "app/cli/start.h"
#include "core/io/csv.h"
#include "core/io/json_file.h"
#include "core/io/named.h"

namespace afterglow {
namespace {

nlohmann::json task_of(const EvalOptions& options, const Recipe& recipe) {
  if (options.task.empty()) return recipe.task;
  if (options.task.front() == '{') return of_words([&] { return parse_json(options.task, "--task"); });
  return {{"kind", options.task}};
}

/// Reports an error of --task as wrong usage.
std::unique_ptr<Task> asked_task(const EvalOptions& options, const nlohmann::json& config) {
  return options.task.empty() ? make_task(config) : of_words([&] { return make_task(config); });
}

/// The number of bindings of a task, or the list or range that it draws them from; null for a task without bindings.
nlohmann::json bindings_of(const nlohmann::json& config) {
  const std::string kind = config.is_object() ? config.value("kind", std::string()) : config.get<std::string>();
  const TaskInfo* info = find_by(task_kinds(), kind, &TaskInfo::kind);
  const TaskParameter* parameter = info ? find_by(info->parameters, "bindings", &TaskParameter::name) : nullptr;
  if (!parameter) return nullptr;
  if (config.is_object() && config.contains("bindings")) return config["bindings"];
  return parameter->fallback.empty() ? nlohmann::json() : nlohmann::json::parse(parameter->fallback);
}

std::string bindings_text(const nlohmann::json& bindings, bool as_trained) {
  if (bindings.is_null()) return "";
  return "bindings " + (bindings.is_string() ? bindings.get<std::string>() : bindings.dump()) +
         (as_trained ? " (as trained)" : "");
}

std::string form_of(const EvalOptions& options) {
  if (options.decoded >= 0)
    return options.keeps_scale ? "prompt, then recurrent with its scale" : "prompt, then recurrent";
  return options.is_recurrent ? "recurrent" : "whole";
}

/// Cells of the grid for which the task has no sequence.
void say_left_out(const nlohmann::json& cells, Output& output) {
  if (cells.empty()) return;
  const nlohmann::json& first = cells.front();
  output.note("left out because they do not fit: ", cells.size(), " of the grid, the first with bindings ",
              first["bindings"].dump(), " and length ", first["length"].dump(), ": ", first["why"].get<std::string>());
}

}  // namespace

nlohmann::json evaluate(const EvalOptions& options, const CommonOptions& common, Output& output) {
  const Interruption noticed;
  if (!options.csv.empty()) require_writable(options.csv);
  const SavedRun moment =
      open_with_weights(options.snapshot, options.step, "eval needs trained weights", common, output, Use::only_run);
  const std::unique_ptr<Backend> backend = chosen_backend(moment, common, output);
  TrainingRun run(moment, *backend);
  nlohmann::json config = task_of(options, run.recipe());
  if (!options.text_file.empty()) take_text(config, options.text_file);
  nlohmann::json cells = nlohmann::json::array(), left_out = nlohmann::json::array();
  const bool goes_by_token = options.is_recurrent || options.decoded >= 0;
  std::vector<double> bindings, lengths, accuracies, at_once, perplexities, among_five;
  run.trainer().set_evaluation_check(
      [&] { Interruption::check("after " + std::to_string(cells.size()) + " numbers"); });
  const auto measure = [&](const nlohmann::json& task_config, const nlohmann::json& n, int length, bool as_trained) {
    const std::unique_ptr<Task> task = asked_task(options, task_config);
    if (task->vocab() > run.trainer().model().vocab())
      throw UsageError("task ", task->name(), " uses ", task->vocab(), " tokens, the model only ",
                       run.trainer().model().vocab());
    Trainer& trainer = run.trainer();
    const DecodeForm form{options.decoded, options.keeps_scale};
    const double whole = trainer.evaluate(options.examples, task.get()),
                 accuracy = goes_by_token ? trainer.evaluate_recurrent(options.examples, task.get(), form) : whole;
    nlohmann::json cell{{"task", task->name()}, {"length", length}, {"accuracy", accuracy}};
    if (!n.is_null()) cell["bindings"] = n;
    char more[80] = "";
    if (goes_by_token) {
      cell["accuracy_at_once"] = whole;
      at_once.push_back(whole);
      std::snprintf(more, sizeof more, "  at once %.4f", whole);
    }
    if (options.has_perplexity) {
      const AnswerScore score = trainer.answers(options.examples, task.get());
      cell["perplexity"] = score.perplexity;
      cell["among_five"] = score.among_five;
      std::snprintf(more, sizeof more, "  perplexity %.4f  among five %.4f", score.perplexity, score.among_five);
      perplexities.push_back(score.perplexity);
      among_five.push_back(score.among_five);
    }
    cells.push_back(std::move(cell));
    bindings.push_back(n.is_number() ? n.get<double>() : NAN);
    lengths.push_back(length);
    accuracies.push_back(accuracy);
    output.print("%-12s %-12s  length %5d  accuracy %.4f%s", std::string(task->name()).c_str(),
                 bindings_text(n, as_trained).c_str(), length, accuracy, more);
  };
  if (options.bindings.empty() && options.lengths.empty()) {
    const std::unique_ptr<Task> task = asked_task(options, config);
    measure(config, bindings_of(config), task->length(), true);
  } else {
    const bool has_bindings = evaluation_config(config, {1, 64}) != evaluation_config(config, {2, 64});
    if (!has_bindings && !options.bindings.empty()) throw UsageError("this task has no bindings; leave out --bindings");
    const std::vector<int> few = has_bindings ? std::vector{1, 2, 4, 8} : std::vector{1},
                           counts = options.bindings.empty() ? few : options.bindings;
    const std::vector<int> spans = options.lengths.empty() ? std::vector<int>{64, 128, 256, 512} : options.lengths;
    for (const EvalCell& cell : evaluation_grid(config, counts, spans)) {
      if (cell.fits()) {
        measure(evaluation_config(config, cell), has_bindings ? nlohmann::json(cell.bindings) : nlohmann::json(),
                cell.length, false);
      } else {
        left_out.push_back({{"bindings", cell.bindings}, {"length", cell.length}, {"why", cell.problem}});
      }
    }
    say_left_out(left_out, output);
  }
  if (!options.csv.empty()) {
    std::vector<CsvColumn> columns{{"bindings", bindings}, {"length [tokens]", lengths}, {"accuracy", accuracies}};
    if (goes_by_token) columns.push_back({"accuracy at once", at_once});
    if (options.has_perplexity) {
      columns.push_back({"perplexity", perplexities});
      columns.push_back({"among five", among_five});
    }
    output.wrote(write_csv(options.csv, columns, existing_files(common)));
  }
  return {{"snapshot", options.snapshot}, {"step", run.step()},
          {"examples", options.examples}, {"form", form_of(options)},
          {"device", backend->name()},    {"weights", stored_type(run)},
          {"left_out", left_out},         {"cells", cells}};
}

}  // namespace afterglow
