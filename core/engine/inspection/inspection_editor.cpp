// Turns commands into setups.
#include "core/engine/inspection/inspection_editor.h"

#include <nlohmann/json.hpp>

#include "core/engine/inspection/intervention_runner.h"
#include "core/engine/inspection/sequence_pair.h"
#include "core/io/error.h"
#include "core/io/json_file.h"
#include "core/recipe/recipe.h"
#include "core/tasks/token_ids.h"
#include "core/tasks/token_labels.h"

namespace afterglow {

namespace {

/// Weights painted on tokens that the sequence does not have.
void refuse_tokens_behind(int length, const Interventions& interventions) {
  for (const auto& [index, layer] : interventions.layers) {
    const auto last = layer.weights.tokens.lower_bound(length);
    if (last != layer.weights.tokens.end())
      throw BadInput("mask: the inspected sequence has no token ", last->first, ", but ", length,
                     R"( tokens; {"tokens": )", last->first, R"(, "to": null} removes its weight)");
  }
}

}  // namespace

InspectionEditor::InspectionEditor(const nlohmann::json& inspected, const Task& task, InterventionRunner* inspector)
    : task_(&task),
      inspector_(inspector),
      now_(parse_inspection_setup(
          inspected, inspector != nullptr ? inspector->intervention_targets() : std::vector<InterventionTarget>{})) {}

InspectionSetup InspectionEditor::chosen(const nlohmann::json& value) const {
  refuse_unknown_keys(value, {"index", "task"}, "probe");
  InspectionSetup setup = now();
  setup.index = static_cast<std::uint64_t>(get_integer(value, "index", 0, 0, largest_seed, "probe"));
  if (value.contains("task")) setup.task = value["task"].is_null() ? "" : value["task"].dump();
  setup.tokens.clear();
  setup.pair = {.measure = setup.pair.measure, .heads = setup.pair.heads};
  return checked(std::move(setup));
}

InspectionSetup InspectionEditor::changed(const Command& command, const Spectra* numbered) const {
  if (inspector_ == nullptr)
    throw BadInput(command.name, ": a forecast has no tokens to change; choose another window");
  InspectionSetup setup = now();
  if (command.name == "probe_sequence") {
    setup = with_tokens(command.value, numbered);
  } else if (command.name == "pair") {
    setup = with_pair(command.value);
  } else if (command.name == "transplant") {
    setup.transplant = read_fields_among({"live"}, command.value, setup.transplant);
  } else if (command.name == "freeze_scale") {
    refuse_unknown_keys(command.value, {"behind"}, command.name);
    const auto last = static_cast<std::int64_t>(inspector_->sequence_of(setup).tokens.size()) - 1;
    setup.scale_kept_behind = static_cast<int>(get_integer(command.value, "behind", -1, -1, last, command.name));
  } else {
    apply_intervention(setup.interventions, command, inspector_->intervention_targets());
    if (command.name == "mask")
      refuse_tokens_behind(static_cast<int>(inspector_->sequence_of(setup).tokens.size()), setup.interventions);
  }
  return checked(std::move(setup));
}

InspectionSetup InspectionEditor::with_tokens(const nlohmann::json& value, const Spectra* numbered) const {
  const std::string where = "probe_sequence";
  InspectionSetup setup = now();
  if (value.contains("tokens")) {
    setup.tokens = parse_inspection_setup({{"tokens", value["tokens"]}}, {}).tokens;
    return setup;
  }
  if (value.contains("text"))
    return with_sequence(tokens_of_prompt(*task_, get_string(value, "text", std::nullopt, where)));
  if (value.contains("write")) {
    const std::int64_t count = get_integer(value, "write", std::nullopt, 1, max_inspected_tokens, where);
    if (setup.interventions.empty()) return with_sequence(inspector_->continued(setup, static_cast<int>(count)));
    for (std::int64_t i = 0; i < count; ++i) setup = with_sequence(inspector_->with_next_token(setup, numbered));
    return setup;
  }
  const Example present = inspector_->sequence_of(setup);
  const auto last = static_cast<std::int64_t>(present.tokens.size()) - 1;
  refuse_unknown_keys(value, {"at", "token", "label"}, where);
  const std::int64_t at = get_integer(value, "at", std::nullopt, 0, last, where);
  setup.tokens.assign(present.tokens.begin(), present.tokens.end());
  setup.tokens[static_cast<std::size_t>(at)] = token_of(value);
  return setup;
}

/// Another sequence of any length.
InspectionSetup InspectionEditor::with_sequence(const std::vector<int>& tokens) const {
  InspectionSetup setup = now();
  setup.task = nlohmann::json{{"kind", "ids"}, {"vocab", task_->vocab()}, {"length", tokens.size()}}.dump();
  setup.tokens = tokens;
  setup.pair = {.measure = setup.pair.measure, .heads = setup.pair.heads};
  setup.scale_kept_behind = -1;
  return setup;
}

InspectionSetup InspectionEditor::with_pair(nlohmann::json choices) const {
  InspectionSetup setup = now();
  if (get_bool(choices, "next", false, "pair")) {
    setup.pair = {.choice = setup.pair.choice + 1, .measure = setup.pair.measure, .heads = setup.pair.heads};
    return setup;
  }
  choices.erase("next");
  if (choices.contains("path")) return with_file(std::move(choices));
  if (choices.contains("at")) {
    SequencePair present = pair_of(setup, inspector_->sequence_of(setup), *task_);
    const auto last = static_cast<std::int64_t>(present.corrupted.tokens.size()) - 1;
    refuse_unknown_keys(choices, {"at", "token", "label"}, "pair");
    const auto at = static_cast<std::size_t>(get_integer(choices, "at", std::nullopt, 0, last, "pair"));
    present.corrupted.tokens[at] = token_of(choices);
    setup.pair.tokens.assign(present.corrupted.tokens.begin(), present.corrupted.tokens.end());
    return setup;
  }
  setup.pair = parse_pair(choices, setup.pair);
  return setup;
}

/// Reads the two sequences of a file, clean and corrupted; the setup then holds their tokens.
InspectionSetup InspectionEditor::with_file(nlohmann::json choices) const {
  const std::string path = get_string(choices, "path", std::nullopt, "pair");
  choices.erase("path");
  const TokenIds ids = read_token_ids(path, task_->vocab());
  InspectionSetup setup = now();
  const auto length = static_cast<std::int64_t>(inspector_->sequence_of(setup).tokens.size());
  if (ids.sequences != 2 || ids.length != length || ids.padding() > 0)
    throw BadInput(path, " holds ", ids.sequences, " sequence(s) of ", ids.length, " tokens; a pair has two of ",
                   length, ": the clean sequence, then the corrupted one");
  setup.tokens.assign(ids.values.begin(), ids.values.begin() + length);
  setup.pair.tokens.assign(ids.values.begin() + length, ids.values.end());
  if (setup.tokens == setup.pair.tokens)
    throw BadInput(path, ": both sequences are the same; change a token of the second one");
  setup.pair.asked = last_bound_token(setup.tokens, *task_);
  setup.pair = parse_pair(choices, setup.pair);
  return setup;
}

/// By number, or by its label.
int InspectionEditor::token_of(const nlohmann::json& value) const {
  if (!value.contains("label"))
    return static_cast<int>(get_integer(value, "token", std::nullopt, 0, task_->vocab() - 1, "probe_sequence"));
  const std::string label = get_string(value, "label", std::nullopt, "probe_sequence");
  for (int token = 0; token < task_->vocab(); ++token) {
    if (task_->token_label(token) == label) return token;
  }
  throw BadInput("this task has no token \"", label, "\"; write a token as the window labels it, \"",
                 task_->token_label(inspector_->sequence_of(now()).tokens.front()), "\" for example");
}

InspectionSetup InspectionEditor::checked(InspectionSetup setup) const {
  if (inspector_ == nullptr && !setup.task.empty())
    throw BadInput("probe: a forecast can be inspected only on windows of its own series");
  if (inspector_ != nullptr) pair_of(setup, inspector_->sequence_of(setup), *task_);  // throws for an invalid pair
  return setup;
}

}  // namespace afterglow
