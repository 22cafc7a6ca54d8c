// Tasks: generators of training and evaluation sequences; every example is a pure function of (configuration, seed,
// index).
#pragma once
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/io/number_text.h"
#include "core/tasks/token_role.h"

namespace afterglow {

class Random;
class SeriesWindows;
class Tokenizer;

/// Which data an example belongs to. Each has its own random stream, so the two share no draw; `text`
/// also takes them from different parts of the file.
enum class Split : std::uint8_t { train, held_out };

/// One sequence. All vectors but `sources` have the task's length T.
struct Example {
  std::vector<std::int32_t> tokens;   ///< [T], each in 0 .. vocab - 1
  std::vector<std::int32_t> targets;  ///< [T], the target at this position, -1 where it does not count for the loss
  std::vector<std::uint8_t> context;  ///< [T], 1 where a position carries a fact, 2 where it belongs to a question
  std::vector<std::int32_t> sources;  ///< positions, ascending, that hold the evidence for the last target
};

/// A configured generator. Immutable, hence safe to use from any number of threads.
class Task {
 public:
  virtual ~Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  /// The kind, as in the configuration.
  const std::string& name() const { return name_; }
  /// Number of different tokens V.
  int vocab() const { return vocab_; }
  /// Tokens in every example, T.
  int length() const { return length_; }

  /// Example `index` of the run with this seed; the same at every call.
  Example example(std::uint64_t seed, std::uint64_t index, Split split = Split::train) const;

  /// No example has more targets than this.
  virtual int max_answers() const { return length_; }
  /// One sentence about this configuration.
  virtual std::string describe() const { return said({}); }
  /// A label of one to five characters, in UTF-8, e.g. "k3", "v9", "→"; "?!" for a number outside the vocabulary.
  virtual std::string token_label(int token) const = 0;
  /// The label of a token from a model, whose vocabulary may be larger than the task's: "#29088" for such a number.
  std::string answer_label(int token) const { return token < vocab_ ? token_label(token) : token_number(token); }
  /// By default a text's.
  virtual TokenRole token_role(int token) const {
    return token < 0 || token >= vocab_ ? TokenRole::blank : TokenRole::text;
  }
  /// The text of a token in generated text; for tasks whose tokens are not letters the label and a space.
  virtual std::string token_text(int token) const { return token_label(token) + " "; }
  /// The tokens of a text; for tasks whose tokens are not letters the text is labels, or numbers such as #17, separated
  /// by spaces. Throws Error (bad_input) that names a word that is not a token.
  virtual std::vector<int> tokens_of(const std::string& text) const;

  /// What makes tokens of any text, where the model came with it; else null.
  virtual const Tokenizer* tokenizer() const { return nullptr; }

  /// The windows of a task whose examples are numbers (series_windows.h); null for tasks of tokens.
  virtual const SeriesWindows* windows() const { return nullptr; }

  /// Writes one example with the given random numbers into `out`, which arrives with T blank tokens (0), targets -1,
  /// context 0 and no sources; `example` marks the questions. `turn` counts examples; a parameter given as a list takes
  /// its entries in turn.
  virtual void generate(Random& random, std::uint64_t turn, Split split, Example& out) const = 0;

 protected:
  /// The sentence that assets/tasks says of the kind, with the length and these values for the names in braces.
  std::string said(std::initializer_list<std::pair<const char*, std::string>> values) const;
  Task(std::string name, int vocab, int length) : name_(std::move(name)), vocab_(vocab), length_(length) {}

 private:
  std::string name_;
  int vocab_;
  int length_;
};

/// One parameter of a task kind: for help texts, controls and checks.
struct TaskParameter {
  enum class Type : std::uint8_t {
    integer,
    integers,  ///< a whole number, a list of them, or a range written "1..8"
    number,
    choice,
    text,
    tasks,  ///< a list of task configurations
  };
  std::string name;
  std::string description;
  Type type = Type::integer;
  std::string fallback;  ///< the default as JSON text; empty: required, or derived (see `description`)
  double minimum = 0;    ///< of numbers, inclusive
  double maximum = 0;
  std::vector<std::string> choices = {};  ///< of a choice
};

/// A kind of task, as lists show it.
struct TaskInfo {
  std::string kind;
  std::string description;
  std::vector<TaskParameter> parameters;
  std::string says = {};  ///< of one task (`Task::describe`)
};

/// All kinds, in the order in which they are shown.
const std::vector<TaskInfo>& task_kinds();

/// The task of a configuration such as {"kind": "sysprompt", "bindings": 4, "length": 64}, or just "sysprompt".
/// Throws Error (bad_input) that names the field, its allowed values and what to change: unknown kind or field, wrong
/// type, value out of range, or a length that is too short for the parts.
std::unique_ptr<Task> make_task(const nlohmann::json& config);

/// Examples first_index .. first_index + batch - 1, row-major [batch, T]. `targets` and `context` may be null.
void fill_batch(const Task& task, std::uint64_t seed, std::uint64_t first_index, int batch, std::int32_t* tokens,
                std::int32_t* targets, std::uint8_t* context, Split split = Split::train);

/// One cell of an accuracy grid.
struct EvalCell {
  int bindings = 1;
  int length = 64;
  std::string problem = {};  ///< why the bindings do not fit into the length (a hole); empty where they fit
  bool fits() const { return problem.empty(); }
};

/// The cells bindings x lengths, bindings outermost. Throws what make_task throws if the configuration itself is wrong
/// or if no cell fits at all.
std::vector<EvalCell> evaluation_grid(const nlohmann::json& config, const std::vector<int>& bindings,
                                      const std::vector<int>& lengths);
/// Tasks on which a model that learns this task can be tested with any number of bindings and any length: the parts of
/// a mixture, or the task itself, then the other tasks of the transfer suite where all of these use its tokens. Empty
/// for tasks without these numbers. All kinds are different.
std::vector<nlohmann::json> askable_tasks(const nlohmann::json& config);
/// The configuration of one cell: `config` with the cell's bindings and length, in every part of a mixture.
nlohmann::json evaluation_config(const nlohmann::json& config, const EvalCell& cell);

}  // namespace afterglow
