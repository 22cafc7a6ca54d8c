// Reads a setup with a trainer's task and model.
#include "core/engine/training/inspected_example.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/io/error.h"
#include "core/layers/host_values.h"
#include "core/layers/layer_kind.h"
#include "core/tasks/prefixed_task.h"

namespace afterglow {
namespace {

/// With the model's prefix tokens, as the run's own task has them.
std::unique_ptr<Task> other_task(const InspectionSetup& setup, const Task& own, std::int64_t vocab) {
  if (setup.task.empty()) return nullptr;
  std::unique_ptr<Task> task = make_task(nlohmann::json::parse(setup.task));
  if (task->windows() != nullptr || task->vocab() > vocab)
    throw BadInput("probe.task: ", task->name(), " has ", task->vocab(), " tokens and the model ", vocab,
                   "; choose a task in the model's language");
  if (task->length() > max_inspected_tokens)
    throw BadInput("probe.task: ", task->length(), " tokens are too many to read one by one; give a length of ",
                   max_inspected_tokens, " or less");
  const auto* prefixed = dynamic_cast<const PrefixedTask*>(&own);
  return std::make_unique<PrefixedTask>(std::move(task), prefixed ? prefixed->places() : 0);
}

}  // namespace

Example inspected_example(const InspectionSetup& setup, const Trainer& trainer) {
  const std::int64_t vocab = trainer.model().vocab();
  const std::unique_ptr<Task> other = other_task(setup, trainer.task(), vocab);
  Example example = (other ? *other : trainer.task()).example(trainer.seed(), setup.index, Split::held_out);
  if (setup.tokens.empty()) return example;
  if (setup.tokens.size() != example.tokens.size())
    throw BadInput("an inspected sequence of this task has ", example.tokens.size(), " tokens, not ",
                   setup.tokens.size());
  for (const int token : setup.tokens) {
    if (token < 0 || token >= vocab) throw BadInput("token ", token, " is outside the vocabulary of ", vocab);
  }
  example.tokens.assign(setup.tokens.begin(), setup.tokens.end());
  if (other && other->name() == "ids") {  // a text: each token is answered with the next one
    example.targets.assign(example.tokens.begin() + 1, example.tokens.end());
    example.targets.push_back(-1);
    std::ranges::fill(example.context, 1);
  }
  return example;
}

UploadedExample uploaded(Tape& tape, const Example& example) {
  const Shape shape{1, static_cast<std::int64_t>(example.tokens.size())};
  return {uploaded(tape, shape, DType::i32, example.tokens.data()),
          uploaded(tape, shape, DType::u8, example.context.data())};
}

Tensor uploaded(Tape& tape, const Shape& shape, DType dtype, const void* values) {
  const Tensor tensor = tape.scratch(shape, dtype);
  tape.backend().upload(tensor, values);
  return tensor;
}

Tensor repeated(Tape& tape, std::int64_t rows, std::int64_t width, DType dtype, std::span<const double> x) {
  const auto length = static_cast<std::int64_t>(x.size()) / width;
  const Tensor one = to_device(tape, {length, width}, dtype, x);
  const Tensor all = tape.scratch({rows, length, width}, dtype);
  for (std::int64_t row = 0; row < rows; ++row) tape.backend().copy(all.at(row), one);
  return all;
}

Tensor repeated(Tape& tape, std::int64_t rows, std::span<const std::uint8_t> context) {
  std::vector<std::uint8_t> all;
  for (std::int64_t row = 0; row < rows; ++row) all.insert(all.end(), context.begin(), context.end());
  return uploaded(tape, {rows, static_cast<std::int64_t>(context.size())}, DType::u8, all.data());
}

std::vector<TokenView> token_views(const Example& example, const Task& task) {
  std::vector<TokenView> tokens;
  for (std::size_t t = 0; t < example.tokens.size(); ++t) {
    const int token = example.tokens[t];
    tokens.push_back({token, task.token_label(token), task.token_role(token), example.targets[t]});
  }
  return tokens;
}

std::string name_of_task(const InspectionSetup& setup) {
  if (setup.task.empty()) return "";
  const nlohmann::json task = nlohmann::json::parse(setup.task);
  if (task.is_string()) return task.get<std::string>();
  std::string name = task.at("kind").get<std::string>();
  if (name == "ids") name = "text";
  for (const auto& [field, unit] : {std::pair("bindings", " bindings"), std::pair("length", " tokens")}) {
    if (task.contains(field)) name += ", " + task.at(field).dump() + unit;
  }
  return name;
}

std::vector<InterventionTarget> intervention_targets(const Trainer& trainer) {
  std::vector<InterventionTarget> targets;
  const auto& parts = trainer.parts();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const LayerReaders& readers = readers_of(parts[i].kind);
    if (!readers.edit && parts[i].heads < 2) continue;
    const bool is_learned = readers.spectrum != nullptr;
    const Layer& layer = trainer.layer_of(parts[i]);
    targets.push_back({static_cast<int>(i), parts[i].label, parts[i].scope,
                       is_learned ? 1 : static_cast<int>(layer.heads()),
                       readers.edit ? static_cast<int>(readers.modes(layer)) : 0, is_learned});
  }
  return targets;
}

}  // namespace afterglow
