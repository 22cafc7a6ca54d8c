// What a trainer trains: model, data and loss. There are two kinds: a stack of layers that answers tokens, and a model
// that forecasts series. The trainer provides memory, gradients, AdamW, captured steps and settings.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/autograd/tape.h"
#include "core/engine/observation/observation.h"
#include "core/models/model.h"
#include "core/recipe/recipe.h"
#include "core/tasks/task.h"

namespace afterglow {

/// A part of the model whose gradient norm is shown: embedding, each branch, head.
struct ModelPart {
  std::string label, scope, kind, detail;
  int heads = 0;
  int branch = -1;  ///< index into Model::branches; -1 for embedding and head
  std::int64_t parameters = 0;
  std::int64_t offset = 0;  ///< of its slice in the flat buffers
};

/// What a run carries from step to step in addition to weights and moments: the history of a memory of training.
struct TrainingMemory {
  std::int64_t appended = 0;  ///< number of summaries so far
  std::vector<double> rows;   ///< the last of them, [rows, d]
};

class ForecastObjective;

/// Right answers among those that were asked for.
struct AnswerCount {
  std::int64_t right = 0, asked = 0;
  void add(Backend& backend, const CrossEntropy& result);
  double share() const { return asked > 0 ? static_cast<double>(right) / static_cast<double>(asked) : 0.0; }
};

/// Quality of the answers to held-out sequences.
struct AnswerScore {
  double accuracy = 0;    ///< share of answers whose most likely token is right
  double among_five = 0;  ///< share of answers whose right token is among the five most likely
  double perplexity = 1;  ///< exp of the mean cross-entropy
};

/// How the recurrent form reads a sequence.
struct DecodeForm {
  /// The last `decoded` tokens are read one by one after a prompt that is read at once (Echo 3.2.2); -1: all of them.
  std::int64_t decoded = -1;
  bool keeps_scale = false;  ///< `ska` keeps its scale m from the prompt (Echo 3.2.1); otherwise m is updated
};

class Objective {
 public:
  virtual ~Objective() = default;
  virtual const Task& task() const = 0;
  /// In the order of the parameters in the flat buffers; `store` has been allocated.
  virtual std::vector<ModelPart> parts(const ParameterStore& store) const = 0;
  virtual MeasureNames measures() const { return {}; }
  /// Width d of the summary of a step.
  virtual std::int64_t width() const = 0;
  /// The model's settings that can change during training: those of a memory of training, "memory.tau" and so on.
  virtual std::vector<Setting> settings() const;
  /// False if there is no such setting. The caller has checked the value.
  virtual bool set(std::string_view key, double value);

  // One training step calls these in this order. Buffers have a fixed shape until the batch changes.
  virtual void make_batch(Backend& backend, std::int64_t batch, DType dtype) = 0;
  /// Draws examples first .. first + batch - 1 on the host; `load` takes them next.
  virtual void draw(std::uint64_t seed, std::int64_t first) = 0;
  /// Replaces a token in one sequence of the drawn examples; false if they hold no tokens.
  virtual bool change_token(std::int64_t /*sequence*/, std::int64_t /*at*/, std::int32_t /*to*/) { return false; }
  /// Moves the drawn examples into transfer buffers.
  virtual void load(std::int64_t step) = 0;
  /// Appends the transfers that bring the loaded examples to the device.
  virtual void add_inputs(std::vector<Transfer>& transfers) = 0;
  virtual Var loss(Tape& tape) = 0;
  /// Appends the transfers that bring the step's results other than its loss to the host, and queues the work that
  /// computes them.
  virtual void add_results(Backend& backend, std::vector<Transfer>& transfers) = 0;
  /// After the step: accuracy, or explained share of the variance.
  virtual double quality() const = 0;
  /// The mean over the batch of the last hidden state, at all positions or at those that are answered, [d].
  virtual void read_summary(std::span<double> summary) const = 0;
  /// Called after a step with finite numbers and its summary [d]: a memory of training grows by a row and is decomposed
  /// at once, so that an analysis and the next step read the same modes.
  void keep(Backend& backend, DType dtype, std::span<const double> summary);
  /// Whether the memory's tokens have become usable or unusable since the last call: the next step differs in form from
  /// the last one, so that a captured graph is no longer valid.
  bool take_change() { return std::exchange(has_changed_, false); }

  /// The number of answers in the loaded examples over which the loss is averaged; 0: unknown, and a batch cannot be
  /// split.
  virtual std::int64_t loaded_answers() const { return 0; }
  /// Right answers among them, after the pass.
  virtual std::int64_t right_answers() const { return 0; }

  /// `check` runs between the batches of every evaluation, which may be long; an exception from it ends the evaluation.
  void set_evaluation_check(std::function<void()> check) { evaluation_check_ = std::move(check); }

  /// Quality on held-out examples, of another task if one is given and the objective supports that.
  virtual double evaluate(Tape& tape, std::uint64_t seed, std::int64_t examples, const Task* other) = 0;

  /// The same with the model read token by token in its recurrent form. Throws Error(bad_input) if it has none.
  virtual double evaluate_recurrent(Tape& tape, std::uint64_t seed, std::int64_t examples, const Task* other,
                                    const DecodeForm& form) = 0;

  /// The same with the five most likely tokens and the perplexity; empty for a forecast.
  virtual AnswerScore answers(Tape& /*tape*/, std::uint64_t /*seed*/, std::int64_t /*examples*/,
                              const Task* /*other*/) {
    return {};
  }

  /// Saved with the weights; empty without a memory of training.
  TrainingMemory memory() const;
  /// `memory` belongs to the state after `step`. Throws Error(bad_input) if its rows do not fit model and step.
  void restore_memory(Backend& backend, DType dtype, const TrainingMemory& memory, std::int64_t step);

  /// The stack of layers; null for a forecaster.
  virtual Model* model() { return nullptr; }
  /// The forecaster; null for a stack of layers.
  virtual ForecastObjective* forecast() { return nullptr; }

 protected:
  void check_evaluation() const {
    if (evaluation_check_) evaluation_check_();
  }
  SpectralMemory* memory_ = nullptr;  ///< of the model; null: it has none

 private:
  bool has_changed_ = false;
  std::function<void()> evaluation_check_;
};

/// The kind that the recipe's task and model name; declares the parameters. Throws Error(bad_input) if they do not fit
/// together.
std::unique_ptr<Objective> make_objective(const Recipe& recipe, ParameterStore& store);
/// Computed from sizes alone, without allocation. Throws as make_objective.
std::int64_t parameter_count(const Recipe& recipe);
std::unique_ptr<Objective> make_token_objective(const Recipe& recipe, std::unique_ptr<Task> task,
                                                ParameterStore& store);

/// Number `i` of a pinned float32 or float64 array.
double number_of(const class PinnedArray& array, std::int64_t i);

}  // namespace afterglow
