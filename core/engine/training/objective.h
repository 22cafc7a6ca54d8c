// What a trainer trains: a model, its data and its loss. There are two kinds: a stack of layers that answers tokens,
// and a model that forecasts series. The trainer does the rest: memory, gradients, AdamW, captured steps, settings.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/autograd/tape.h"
#include "core/engine/observation/observation.h"
#include "core/engine/recipe/recipe.h"
#include "core/models/model.h"
#include "core/tasks/task.h"

namespace afterglow {

/// A part of the model whose gradient norm is shown: embedding, each branch, head.
struct ModelPart {
  std::string label, scope, kind, detail;
  int heads = 0;
  int branch = -1;  ///< index into Model::branches, -1 for embedding and head
  std::int64_t parameters = 0;
  std::int64_t offset = 0;  ///< of its slice in the flat buffers
};

/// What a run carries from step to step beside weights and moments: the history of a memory of training.
struct TrainingMemory {
  std::int64_t appended = 0;  ///< summaries that ever came
  std::vector<double> rows;   ///< the last of them, [rows, d]
};

class ForecastObjective;

/// How good the answers to held-out sequences were.
struct AnswerScore {
  double accuracy = 0;    ///< share of answers whose most likely token is right
  double among_five = 0;  ///< share whose right token is one of the five most likely
  double perplexity = 1;  ///< exp of the mean cross-entropy
};

/// How the recurrent form reads a sequence.
struct DecodeForm {
  /// The last so many tokens are read one by one, behind a prompt that is read at once (Echo 3.2.2); -1: all of them.
  std::int64_t decoded = -1;
  bool keeps_scale = false;  ///< `ska`'s m stays what the prompt left (Echo 3.2.1); else it runs on
};

class Objective {
 public:
  virtual ~Objective() = default;
  virtual const Task& task() const = 0;
  /// In the order of the parameters in the flat buffers; `store` has been allocated.
  virtual std::vector<ModelPart> parts(const ParameterStore& store) const = 0;
  virtual MeasureNames measures() const { return {}; }
  /// d of the summary of a step.
  virtual std::int64_t width() const = 0;
  /// What of the model may be changed live.
  virtual std::vector<Setting> settings() const { return {}; }
  /// False when there is no such setting. The value has been checked.
  virtual bool set(std::string_view /*key*/, double /*value*/) { return false; }

  // One training step, in this order. Buffers have a fixed shape until the batch changes.
  virtual void make_batch(Backend& backend, std::int64_t batch, DType dtype) = 0;
  /// Draws the examples first .. first + batch - 1 on the host; the ones that `load` takes next.
  virtual void draw(std::uint64_t seed, std::int64_t first) = 0;
  /// Puts another token into one sequence of the drawn examples; false where they hold no tokens.
  virtual bool change_token(std::int64_t /*sequence*/, std::int64_t /*at*/, std::int32_t /*to*/) { return false; }
  /// Moves the drawn examples into transfer buffers. True when the step has another form than the last one, so that a
  /// captured one no longer serves.
  virtual bool load(std::int64_t step) = 0;
  /// Appends what brings the loaded examples to the back end.
  virtual void add_inputs(std::vector<Transfer>& transfers) = 0;
  virtual Var loss(Tape& tape) = 0;
  /// Appends what brings to the host what the step reports beside its loss; what has to be computed for that is queued.
  virtual void add_results(Backend& backend, std::vector<Transfer>& transfers) = 0;
  /// After the step: how good the answers were (accuracy, or the explained share of the variance).
  virtual double quality() const = 0;
  /// The mean of what the model made of the batch, over all positions or those that are answered, [d].
  virtual void read_summary(std::span<double> summary) const = 0;
  /// A step with finite numbers is over: what it leaves behind beside the weights.
  virtual void keep() {}

  /// Over how many answers of the loaded examples the loss is the mean; 0: not known, and a batch is never cut.
  virtual std::int64_t loaded_answers() const { return 0; }
  /// Right answers among them, after the pass.
  virtual std::int64_t right_answers() const { return 0; }

  /// Called between the batches of every evaluation, which may be long: what it throws ends the evaluation.
  void set_evaluation_check(std::function<void()> check) { evaluation_check_ = std::move(check); }

  /// Quality on held-out examples, of another task where one is given and makes sense.
  virtual double evaluate(Tape& tape, std::uint64_t seed, std::int64_t examples, const Task* other) = 0;

  /// The same with the model read token by token in its recurrent form. Throws Error(bad_input) where it has none.
  virtual double evaluate_recurrent(Tape& tape, std::uint64_t seed, std::int64_t examples, const Task* other,
                                    const DecodeForm& form) = 0;

  /// The same with more of what the probabilities tell; as of no answers for a forecast.
  virtual AnswerScore answers(Tape& /*tape*/, std::uint64_t /*seed*/, std::int64_t /*examples*/,
                              const Task* /*other*/) {
    return {};
  }

  virtual TrainingMemory memory() const { return {}; }
  /// Of the state after `step`. Throws Error(bad_input) where the rows do not fit model and step.
  virtual void restore_memory(const TrainingMemory& /*memory*/, std::int64_t /*step*/) {}

  /// The stack of layers, where that is what is trained.
  virtual Model* model() { return nullptr; }
  /// The forecaster, where that is what is trained.
  virtual ForecastObjective* forecast() { return nullptr; }

 protected:
  void check_evaluation() const {
    if (evaluation_check_) evaluation_check_();
  }

 private:
  std::function<void()> evaluation_check_;
};

/// The kind that the recipe's task and model name; declares the parameters. Throws Error(bad_input) when they do not
/// fit.
std::unique_ptr<Objective> make_objective(const Recipe& recipe, ParameterStore& store);
/// Of the model that the recipe names, by sizes alone: nothing is allocated. Throws as make_objective.
std::int64_t parameter_count(const Recipe& recipe);
std::unique_ptr<Objective> make_token_objective(const Recipe& recipe, std::unique_ptr<Task> task,
                                                ParameterStore& store);

/// Number `i` of a pinned float32 or float64 array.
double number_of(const class PinnedArray& array, std::int64_t i);

}  // namespace afterglow
