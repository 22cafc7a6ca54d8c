// Trains one model: fixed-shape steps from a recipe's settings, evaluation, and exact saving and restoring of its
// state. It knows no thread and no clock: step n of a recipe is the same whatever happens around it.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/backend/parallel.h"
#include "core/backend/recorded_work.h"
#include "core/engine/training/objective.h"
#include "core/engine/training/ranks/ranks.h"

namespace afterglow {

/// What one training step measured.
struct StepResult {
  std::int64_t step = 0;  ///< counts from 1
  double loss = 0, learning_rate = 0;
  double accuracy = 0;                          ///< Objective::quality: right answers, or explained variance
  double gradient_norm = 0;                     ///< global, before clipping
  std::span<const float> layer_gradient_norms;  ///< one for each entry of Trainer::parts(); valid until the next step
  std::span<const double> summary;              ///< [d]: mean over the batch of what the head reads; valid as long
  bool finite = true;  ///< false: nothing was changed, and `Trainer::diagnose` finds the culprit
};

/// Everything that a run needs to go on from a step: weights and both moments, as they lie in the flat buffers, and the
/// memory of training.
struct TrainerState {
  std::int64_t step = 0;
  std::vector<std::byte> weights;
  std::vector<std::byte> first_moments, second_moments;  ///< empty before the first training step: all zero
  TrainingMemory memory;
  std::size_t bytes() const {
    return weights.size() + first_moments.size() + second_moments.size() + memory.rows.size() * sizeof(double);
  }
};

/// What a trainer of the recipe lets change, found by sizes alone: no weight is allocated or drawn. Throws Error for
/// what the trainer would refuse, memory apart.
std::vector<Setting> settings_of(const Recipe& recipe);

/// 16 hex digits over all weights, and the memory of training where there is one.
std::string checksum_of(const TrainerState& state);

/// A model with more weights is looked at with care: each look takes a part of what a smaller one is asked, what takes
/// longer waits to be asked for, and nothing is held for a panel that is not shown.
constexpr std::int64_t many_parameters = 60'000'000;

class ShardSum;
struct GradientBucket;

class Trainer {
 public:
  /// Builds the model and its start weights. `backend` must outlive the trainer. Throws Error for an impossible recipe.
  /// `check` sees the declared parameters before any memory is reserved for them and may refuse; with it the weights
  /// are zero until a state is restored.
  Trainer(const Recipe& recipe, Backend& backend, DType dtype = DType::f32,
          const std::function<void(const ParameterStore&)>& check = {});
  /// One that is looked at in the place of `other`, beside it: `backend` is `other.backend().beside()`. It has room for
  /// weights alone, which are zero until `follow`, and cannot train.
  Trainer(const Trainer& other, Backend& backend);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Draws the examples of the next step, unless they are there already.
  void prepare_batch();
  /// Puts another token into the first sequence of the next batch alone; false where the data has no tokens.
  bool change_token(std::int64_t at, std::int32_t to);
  /// One training step: transfers, forward, backward, clipping, AdamW. The examples of the next one are drawn while the
  /// device computes.
  StepResult step();
  /// From now on these processes, which must outlive the trainer, share each step: all make the same steps in the same
  /// order, and have the same state after each. Throws Error(usage) for a recipe whose batch is not cut into parts.
  void join(Ranks& ranks);
  /// Its two halves: queues the work, and waits for it. They allocate nothing after the third step.
  void begin_step();
  StepResult end_step();
  std::int64_t finished_steps() const { return step_; }
  const TrainingConfig& config() const { return recipe_.training; }
  /// Everything that may be changed live: training settings, and "layers.1.ska.K" and the like.
  std::vector<Setting> settings() const;
  double get(std::string_view key) const;
  /// Takes effect with the next step. Throws Error(bad_input) for an unknown key or a value outside its range.
  void set(std::string_view key, double value);
  /// Back to the recipe's own values.
  void reset_settings();

  /// Called between the batches of the evaluations below; what it throws ends them.
  void set_evaluation_check(std::function<void()> check);
  /// Share of right answers on `examples` held-out sequences of a task (the run's own when none is given); of a
  /// forecast the explained share of the variance of that many validation windows.
  double evaluate(std::int64_t examples, const Task* task = nullptr);
  /// The same with the model read token by token, each layer's state carried on. Of `ska` in prefix mode other answers
  /// are to be expected: its statistics then hold only what has come, in the whole sequence the question as well.
  /// Throws Error(bad_input) for a forecast.
  double evaluate_recurrent(std::int64_t examples, const Task* task = nullptr, const DecodeForm& form = {});
  /// The same with the five most likely answers and the perplexity; of a forecast nothing.
  AnswerScore answers(std::int64_t examples, const Task* task = nullptr);
  /// Repeats the last step's forward pass and looks at every result: what was the first non-finite number?
  std::string diagnose();

  /// The present state, in the memory of `into`, which is one that is no longer needed.
  TrainerState save(TrainerState into = {}) const;
  /// Takes the weights, memories, settings of layers and the step of the trainer that this one is looked at for, which
  /// must have no step under way.
  void follow(const Trainer& other);
  TrainingMemory memory() const { return objective_->memory(); }
  void restore(const TrainerState& state);
  /// 16 hex digits over all weights, and the memory of training where there is one.
  std::string checksum() const;

  /// The stack of layers; only where `forecast()` is null.
  Model& model() const;
  /// The forecaster that is trained; null in a run on tokens.
  ForecastObjective* forecast() const { return objective_->forecast(); }
  MeasureNames measures() const { return objective_->measures(); }
  /// Test errors of the run's own data set; every window where `most` is 0. Only of a forecaster.
  struct ForecastScore score(std::int64_t most = 0);
  /// The tape of all analyses between steps, one after the other, so that together they hold as much memory as the
  /// largest needs. What one analysis has left on it is gone when the next one begins.
  Tape& evaluation_tape() { return *evaluation_tape_; }
  /// Gives back the memory of that tape, between two looks.
  void release_analysis_memory() { evaluation_arena_->release(); }
  /// The processor's threads for what they decompose, at most eight, made when they are first asked for.
  ThreadPool& analysis_threads();
  ParameterStore& parameters() { return parameters_; }
  const ParameterStore& parameters() const { return parameters_; }
  const Task& task() const { return objective_->task(); }
  Backend& backend() const { return *backend_; }
  DType dtype() const { return dtype_; }
  std::uint64_t seed() const { return recipe_.seed; }
  const std::vector<ModelPart>& parts() const { return parts_; }
  /// The layer of a part that is a branch of the model.
  const Layer& layer_of(const ModelPart& part) const {
    return *model().branches()[static_cast<std::size_t>(part.branch)].layer;
  }
  std::size_t arena_bytes() const { return arena_.capacity(); }
  bool is_large() const { return parameters_.count() > many_parameters; }

 private:
  struct Batch;    // what every step transfers, whatever it trains
  struct Bare {};  // without weights and batch
  Trainer(const Recipe& recipe, Backend& backend, DType dtype, Bare bare);
  void make_batch();
  void require_memory();
  void run_step();
  void run_part();
  Var run_forward();
  void queue_update();
  void run_program(void (Trainer::*work)());
  void run_shards();
  std::vector<double> numbers_of_part(double answers);
  void finish_gradient(double answers);
  std::string diagnose_pass();
  StepResult measured(double loss, double accuracy);

  Backend* backend_;
  DType dtype_;
  Recipe recipe_;  // with the present training settings
  std::vector<Setting> initial_settings_;
  ParameterStore parameters_;
  std::unique_ptr<Objective> objective_;
  Arena arena_;
  Tape tape_;
  std::unique_ptr<Batch> batch_;
  std::int64_t drawn_for_ = -1;          // finished steps when the drawn examples are used; -1: nothing drawn
  std::vector<GradientBucket> buckets_;  // of a part of a batch; graphs record their events
  RecordedWork recorded_;
  std::vector<double> summary_;
  mutable std::vector<std::byte> checked_;  // weights on their way to a checksum, piece by piece
  std::unique_ptr<ShardSum> shared_;        // where a batch is cut into parts
  double loss_ = 0, accuracy_ = 0;          // of the last step in parts
  std::vector<Transfer> transfers_;         // what goes together, while it is gathered
  std::int64_t step_ = 0;
  bool has_moments_ = false;      // false: they are still zero
  bool is_known_to_fit_ = false;  // with the present batch
  std::vector<ModelPart> parts_;
  std::unique_ptr<Arena> evaluation_arena_;
  std::unique_ptr<Tape> evaluation_tape_;
  std::unique_ptr<ThreadPool> analysis_threads_;
};

}  // namespace afterglow
