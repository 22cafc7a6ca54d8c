// The list of task kinds, and functions for all tasks: examples, batches, grids.
#include "core/tasks/task.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <unordered_map>

#include "core/io/embedded_text.h"
#include "core/io/error.h"
#include "core/io/named.h"
#include "core/io/wording.h"
#include "core/random/random.h"
#include "core/tasks/fields.h"
#include "core/tasks/suite.h"

namespace afterglow {

/// The files of assets/tasks.
std::span<const EmbeddedText> task_texts();

namespace {

struct TaskKind {
  TaskInfo info;
  TaskMaker* make;
};

const std::map<std::string, TaskMaker*> makers{{"mqar", make_mqar},
                                               {"sysprompt", make_sysprompt},
                                               {"tooltrace", make_tooltrace},
                                               {"niah", make_niah},
                                               {"multihop", make_multihop},
                                               {"commonword", make_commonword},
                                               {"mixed", make_mixed},
                                               {"toolcall", make_toolcall},
                                               {"economy", make_economy},
                                               {"cot_recall", make_cot_recall},
                                               {"specific_recall", make_specific_recall},
                                               {"copy", make_copy},
                                               {"selective_copy", make_selective_copy},
                                               {"induction", make_induction},
                                               {"symbolsoup", make_symbolsoup},
                                               {"diffuse_mqar", make_diffuse_mqar},
                                               {"text", make_text},
                                               {"stories", make_stories},
                                               {"ids", make_ids},
                                               {"forecast", make_forecast}};

TaskParameter parameter_of(const nlohmann::json& fields) {
  static const std::map<std::string, TaskParameter::Type> types{
      {"integer", TaskParameter::Type::integer}, {"integers", TaskParameter::Type::integers},
      {"number", TaskParameter::Type::number},   {"choice", TaskParameter::Type::choice},
      {"text", TaskParameter::Type::text},       {"tasks", TaskParameter::Type::tasks}};
  return {fields.at("name"),
          fields.at("about"),
          types.at(fields.at("type")),
          fields.contains("default") ? fields["default"].dump() : "",
          fields.value("min", 0.0),
          fields.value("max", 0.0),
          fields.value("choices", std::vector<std::string>{})};
}

const std::vector<TaskKind>& kinds() {
  static const std::vector<TaskKind> all =
      mapped(nlohmann::json::parse(task_texts().front().json), [](const nlohmann::json& kind) {
        TaskInfo info{kind.at("kind"), kind.at("about"), mapped(kind.at("parameters"), parameter_of),
                      kind.value("says", "")};
        return TaskKind{info, makers.at(info.kind)};
      });
  return all;
}

const TaskKind& find_kind(const nlohmann::json& config) {
  const std::vector<std::string> names = names_of(task_kinds(), &TaskInfo::kind);
  const std::string advice = " Set 'kind' to one of " + joined(names, ", ") + ".";
  if (!config.is_object() || !config.contains("kind") || !config.at("kind").is_string())
    throw BadInput("A task's configuration must be an object with a text field 'kind'.", advice);
  const auto name = config.at("kind").get<std::string>();
  if (const auto* found = find_by(kinds(), name, [](const TaskKind& kind) { return kind.info.kind; })) return *found;
  const std::string guess = did_you_mean(name, names);
  throw BadInput("There is no task kind ", in_quotes(name), guess.empty() ? "." : guess, advice);
}

nlohmann::json as_object(const nlohmann::json& config) {
  return config.is_string() ? nlohmann::json{{"kind", config}} : config;
}

/// Marks what asks for each answer: the position of the answer, and what stands before it from the question mark on.
void mark_questions(const Task& task, Example& example) {
  std::size_t begin = 0;  // behind the question before
  for (std::size_t t = 0; t < example.targets.size(); ++t) {
    if (example.context[t] == 1) begin = t + 1;
    if (example.context[t] == 1 || example.targets[t] < 0) continue;
    std::size_t first = t;
    while (first > begin && task.token_role(example.tokens[first]) != TokenRole::query) --first;
    if (task.token_role(example.tokens[first]) != TokenRole::query) first = t;
    std::fill(example.context.begin() + static_cast<std::ptrdiff_t>(first),
              example.context.begin() + static_cast<std::ptrdiff_t>(t + 1), std::uint8_t{2});
    begin = t + 1;
  }
}

}  // namespace

std::string Task::said(std::initializer_list<std::pair<const char*, std::string>> values) const {
  std::string text = std::ranges::find(task_kinds(), name_, &TaskInfo::kind)->says;
  const auto fill = [&](const std::string& name, const std::string& value) {
    const std::size_t at = text.find("{" + name + "}");
    if (at != std::string::npos) text.replace(at, name.size() + 2, value);
  };
  for (const auto& [name, value] : values) fill(name, value);
  fill("length", std::to_string(length_));
  return text;
}

std::vector<int> Task::tokens_of(const std::string& text) const {
  std::unordered_map<std::string, int> token_of;
  for (int token = 0; token < vocab(); ++token) {
    token_of.emplace(token_label(token), token);
    token_of.emplace(token_number(token), token);
  }
  std::vector<int> tokens;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const auto found = token_of.find(word);
    if (found == token_of.end())
      throw BadInput("\"", word, "\" is no token of task ", name(), "; its tokens are #0 to #", vocab() - 1,
                     ", such as ", token_label(vocab() / 4), " and ", token_label(vocab() / 2));
    tokens.push_back(found->second);
  }
  return tokens;
}

Example Task::example(std::uint64_t seed, std::uint64_t index, Split split) const {
  const auto size = static_cast<std::size_t>(length_);
  Example out{
      std::vector<std::int32_t>(size, 0), std::vector<std::int32_t>(size, -1), std::vector<std::uint8_t>(size, 0), {}};
  Random random(seed, split == Split::train ? training_data_stream : held_out_data_stream, index);
  generate(random, index, split, out);
  mark_questions(*this, out);
  const auto answers = std::ranges::count_if(out.targets, [](std::int32_t target) { return target >= 0; });
  if (answers > max_answers()) {
    throw Error(ExitCode::failure, "task ", name_, " has an example with ", answers, " answers and says that ",
                max_answers(), " are the most");
  }
  return out;
}

const std::vector<TaskInfo>& task_kinds() {
  static const std::vector<TaskInfo> infos = mapped(kinds(), &TaskKind::info);
  return infos;
}

std::unique_ptr<Task> make_task(const nlohmann::json& config) {
  const nlohmann::json object = as_object(config);
  const TaskKind& kind = find_kind(object);
  return kind.make(Fields(kind.info, object));
}

void fill_batch(const Task& task, std::uint64_t seed, std::uint64_t first_index, int batch, std::int32_t* tokens,
                std::int32_t* targets, std::uint8_t* context, Split split) {
  const auto length = static_cast<std::size_t>(task.length());
  for (int row = 0; row < batch; ++row) {
    const Example example = task.example(seed, first_index + static_cast<std::uint64_t>(row), split);
    const std::size_t offset = static_cast<std::size_t>(row) * length;
    std::ranges::copy(example.tokens, tokens + offset);
    if (targets) std::ranges::copy(example.targets, targets + offset);
    if (context) std::ranges::copy(example.context, context + offset);
  }
}

std::vector<EvalCell> evaluation_grid(const nlohmann::json& config, const std::vector<int>& bindings,
                                      const std::vector<int>& lengths) {
  make_task(config);  // throws for a wrong configuration, which would otherwise give a grid of holes
  std::vector<EvalCell> cells;
  for (const int count : bindings)
    for (const int length : lengths) {
      EvalCell cell{count, length};
      try {
        make_task(evaluation_config(config, cell));
      } catch (const Error& error) {
        cell.problem = error.what();
      }
      cells.push_back(cell);
    }
  if (std::ranges::any_of(cells, &EvalCell::fits)) return cells;
  throw BadInput("No cell of the evaluation grid is possible. ",
                 cells.empty() ? "An evaluation grid needs at least one number of bindings and one length."
                               : cells.back().problem);
}

std::vector<nlohmann::json> askable_tasks(const nlohmann::json& config) {
  std::vector<nlohmann::json> found;
  bool speaks_suite = true;
  const auto add = [&](const nlohmann::json& task) {
    const TaskInfo& info = find_kind(task).info;
    const auto is_known = [&](const nlohmann::json& one) { return one.at("kind") == task.at("kind"); };
    if (takes(info, "bindings") && takes(info, "length") && std::ranges::none_of(found, is_known))
      found.push_back(task);
  };
  const auto is_of_suite = [](const nlohmann::json& task) {
    return dynamic_cast<const SuiteTask*>(make_task(task).get()) != nullptr;
  };
  const nlohmann::json own = as_object(config);
  const bool is_mixture = own.contains("tasks") && own.at("tasks").is_array();
  for (const nlohmann::json& part : is_mixture ? own.at("tasks") : nlohmann::json::array({own})) {
    const nlohmann::json task = as_object(part);
    speaks_suite = speaks_suite && is_of_suite(task);
    add(task);
  }
  for (const suite::TransferTask& task : suite::transfer_tasks) {
    if (speaks_suite) add(nlohmann::json::parse(task.config));
  }
  return found;
}

nlohmann::json evaluation_config(const nlohmann::json& config, const EvalCell& cell) {
  nlohmann::json result = as_object(config);
  const TaskInfo& info = find_kind(result).info;
  if (result.contains("tasks") && result.at("tasks").is_array()) {
    for (nlohmann::json& part : result.at("tasks")) part = evaluation_config(part, cell);
    return result;
  }
  if (takes(info, "bindings")) result["bindings"] = cell.bindings;
  if (takes(info, "length")) result["length"] = cell.length;
  return result;
}

}  // namespace afterglow
