// `afterglow generate MODEL`: lets a model continue a beginning.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "app/cli/interruption.h"
#include "app/cli/start.h"
#include "core/engine/inspection/generation.h"
#include "core/tasks/token_ids.h"
#include "core/tasks/token_labels.h"
#include "core/text/tokenizer.h"

namespace afterglow {
namespace {

/// The first held-out sequence up to its first question, so that a model of recall writes its answer.
std::vector<int> held_out_beginning(const TrainingRun& run) {
  const Task& task = run.trainer().task();
  const Example example = task.example(run.recipe().seed, 0, Split::held_out);
  std::vector<int> beginning;
  // The model adds memory tokens of training itself.
  for (auto t = static_cast<std::size_t>(run.trainer().model().places()); t < example.tokens.size(); ++t) {
    beginning.push_back(example.tokens[t]);
    if (example.targets[t] >= 0) break;
  }
  return beginning;
}

std::vector<int> beginning_of(const GenerateOptions& options, const TrainingRun& run) {
  const Task& task = run.trainer().task();
  if (const std::optional<std::string> text = options.text.read()) return tokens_of_prompt(task, *text);
  if (!options.prompt.empty()) return task.tokens_of(options.prompt);
  if (options.tokens.empty()) return held_out_beginning(run);
  const TokenIds ids = read_token_ids(options.tokens, run.trainer().model().vocab());
  if (ids.sequences > 1)
    throw BadInput(options.tokens, " holds ", ids.sequences,
                   " sequences; give a file with only the sequence to begin with");
  return ids.tokens();
}

std::string text_of(const Task& task, const std::vector<int>& tokens) {
  std::string text;
  try {
    if (task.tokenizer() != nullptr) return task.tokenizer()->decode(tokens);
  } catch (const Error&) {  // its decoder is not supported, which its single tokens need not
  }
  for (const int token : tokens) text += task.token_text(token);
  return text;
}

}  // namespace

nlohmann::json generate(const GenerateOptions& options, const CommonOptions& common, Output& output) {
  const Interruption noticed;
  const SavedRun saved =
      open_with_weights(options.model, options.step, "generate needs trained weights", common, output, Use::only_run);
  const std::unique_ptr<Backend> backend = chosen_backend(saved, common, output);
  TrainingRun run(saved, *backend);
  const std::vector<int> beginning = beginning_of(options, run);
  const Task& task = run.trainer().task();
  if (const Precision precision = backend->precision(); precision != Precision::fp32)
    output.note("single tokens are multiplied with ", stored_type(run), " weights in float32; ", name_of(precision),
                " is used for a beginning that is read at once (--prefill)");
  std::vector<int> all = beginning;
  nlohmann::json tokens = nlohmann::json::array();
  const GenerationOptions how{options.count, options.temperature, options.top,        options.top_p,
                              options.seed,  options.prefills,    options.keeps_scale};
  generate(run.trainer(), beginning, how, [&](int token) {
    Interruption::check("after " + std::to_string(tokens.size()) + " tokens");
    tokens.push_back(token);
    all.push_back(token);
    return true;
  });
  const auto nameless = std::ranges::count_if(
      all, [&](int token) { return task.token_text(token) == "<#" + std::to_string(token) + ">"; });
  if (task.tokenizer() != nullptr && nameless > 0)
    output.note(nameless, " tokens are left out of the text: tokenizer.json does not have them");
  const std::string begun = text_of(task, beginning), whole = text_of(task, all);
  // A character may begin in one part and end in the other.
  const std::string written = whole.starts_with(begun) ? whole.substr(begun.size()) : text_of(task, tokens);
  std::istringstream lines(whole);
  for (std::string line; std::getline(lines, line);) output.line(line);
  return {{"model", options.model},
          {"step", run.step()},
          {"beginning", beginning},
          {"tokens", tokens},
          {"begun", begun},
          {"text", written},
          {"draw", options.seed},
          {"temperature", options.temperature},
          {"device", backend->name()},
          {"weights", stored_type(run)}};
}

}  // namespace afterglow
