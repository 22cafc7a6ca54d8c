// Trains one model: steps of fixed shape from a recipe's settings, evaluation, exact saving and restoring of its state.
// It uses neither threads nor clocks: step n of a recipe is always the same.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/backend/parallel.h"
#include "core/backend/recorded_work.h"
#include "core/engine/training/objective.h"
#include "core/ranks/ranks.h"

namespace afterglow {

/// The measurements of one training step.
struct StepResult {
  std::int64_t step = 0;  ///< counts from 1
  double loss = 0, learning_rate = 0;
  double accuracy = 0;                          ///< Objective::quality: accuracy or explained variance
  double gradient_norm = 0;                     ///< global, before clipping
  std::span<const float> layer_gradient_norms;  ///< one for each entry of Trainer::parts(); valid until the next step
  std::span<const double> summary;  ///< [d]: mean over the batch of the head's input; valid until the next step
  bool finite = true;               ///< false: nothing was changed, and `Trainer::diagnose` finds the cause
};

/// Everything that a run needs to continue from a step: weights and both moments in the layout of the flat buffers, and
/// the memory of training.
struct TrainerState {
  std::int64_t step = 0;
  std::vector<std::byte> weights;
  std::vector<std::byte> first_moments, second_moments;  ///< empty before the first training step: all zero
  TrainingMemory memory;
  std::size_t bytes() const {
    return weights.size() + first_moments.size() + second_moments.size() + memory.rows.size() * sizeof(double);
  }
};

/// The settings that a trainer of the recipe would have, found from sizes alone. Throws the Errors of the trainer's
/// constructor except those about memory.
std::vector<Setting> settings_of(const Recipe& recipe);

/// Checksum, 16 hex digits, of all weights and of the training memory if there is one.
std::string checksum_of(const TrainerState& state);

/// For models with more weights, analyses run a part of their work, slow ones only on request, and nothing is kept for
/// hidden panels.
constexpr std::int64_t many_parameters = 60'000'000;

class Checkpoint;
class ShardSum;
struct GradientBucket;

class Trainer : Immovable {
 public:
  /// Builds the model and draws its start weights. `backend` must outlive the trainer. Throws Error for an impossible
  /// recipe. `check` receives the declared parameters before their memory is reserved and may throw; with it the
  /// weights are zero until a state is restored. `origin`: the recipe's folder of weights if it is open already.
  using CheckWeights = std::function<void(const ParameterStore&)>;
  Trainer(const Recipe& recipe, Backend& backend, DType dtype = DType::f32, const CheckWeights& check = {},
          const Checkpoint* origin = nullptr);
  /// A copy of `other` for analyses; `backend` is a second stream of `other`'s device. It holds weights only, which are
  /// zero until `follow`, and cannot train.
  Trainer(const Trainer& other, Backend& backend);
  ~Trainer();

  /// Draws the examples of the next step unless that has been done.
  void prepare_batch();
  /// Replaces a token in the first sequence of the next batch only; false if the data has no tokens.
  bool change_token(std::int64_t at, std::int32_t to);
  /// One training step: transfers, forward, backward, clipping, AdamW. The host draws the next examples while the
  /// device computes.
  StepResult step();
  /// From now on these processes, which must outlive the trainer, share each step: all make the same steps in the same
  /// order and reach the same states. Throws Error(usage) for a recipe whose batch is not split into parts.
  void join(Ranks& ranks);
  /// The two halves of `step`: queue the work, and wait for it. They allocate nothing after the third step.
  void begin_step();
  StepResult end_step();
  std::int64_t finished_steps() const { return step_; }
  const TrainingConfig& config() const { return recipe_.training; }
  /// Everything that can change during training: training settings, "layers.1.ska.K" and the like.
  std::vector<Setting> settings() const;
  double get(std::string_view key) const;
  /// Takes effect with the next step. Throws Error(bad_input) for an unknown key or a value outside its range.
  void set(std::string_view key, double value);
  /// Restores the recipe's values.
  void reset_settings();

  /// `check` runs between the batches of the evaluations below; an exception from it ends them.
  void set_evaluation_check(std::function<void()> check);
  /// Share of right answers on `examples` held-out sequences of a task (null: the run's own); for a forecast the
  /// explained share of the variance over that many validation windows.
  double evaluate(std::int64_t examples, const Task* task = nullptr);
  /// The same with the model read token by token in its recurrent form. `ska` in prefix mode gives other answers: its
  /// statistics hold only earlier tokens, but in the parallel form the question as well. Throws Error(bad_input) for a
  /// forecast.
  double evaluate_recurrent(std::int64_t examples, const Task* task = nullptr, const DecodeForm& form = {});
  /// The same with the five most likely answers and the perplexity; empty for a forecast.
  AnswerScore answers(std::int64_t examples, const Task* task = nullptr);
  /// Repeats the last step's forward pass and describes the first non-finite number.
  std::string diagnose();

  /// The present state. Reuses the memory of `into`, a state that is no longer needed.
  TrainerState save(TrainerState into = {}) const;
  /// Copies weights, memories, layer settings and step from the trainer that this one is a copy of, which must have no
  /// step in flight.
  void follow(const Trainer& other);
  TrainingMemory memory() const { return objective_->memory(); }
  void restore(const TrainerState& state);
  /// Checksum, 16 hex digits, of all weights and of the training memory if there is one.
  std::string checksum() const;

  /// The stack of layers; only if `forecast()` is null.
  Model& model() const;
  /// The forecaster that is trained; null in a run on tokens.
  ForecastObjective* forecast() const { return objective_->forecast(); }
  MeasureNames measures() const { return objective_->measures(); }
  /// Errors on the test part of the run's data set; over every window if `most` is 0. Only for a forecaster.
  struct ForecastScore score(std::int64_t most = 0);
  /// The tape that all analyses share between steps, one after the other, so that together they need the memory of the
  /// largest. The next analysis overwrites what one has left on it.
  Tape& evaluation_tape() { return *evaluation_tape_; }
  /// Frees the memory of that tape between two analyses.
  void release_analysis_memory() { evaluation_arena_->release(); }
  /// CPU threads for decompositions, at most eight; created on first use.
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
  /// The caller trains it no more, so that analyses read its model in place: loading another starts them again.
  void only_read() { is_only_read_ = true; }
  bool is_only_read() const { return is_only_read_; }
  bool is_large() const { return parameters_.count() > many_parameters; }

 private:
  struct Batch;    // transfers of every step
  struct Bare {};  // tag: without weights and batch
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
  std::int64_t drawn_for_ = -1;          // number of finished steps for which examples are drawn; -1: none
  std::vector<GradientBucket> buckets_;  // of a part of a batch; graphs record their events
  RecordedWork recorded_;
  std::vector<double> summary_;
  mutable std::vector<std::byte> checked_;  // a piece of the weights for a checksum
  std::unique_ptr<ShardSum> shared_;        // if a batch is split into parts
  double loss_ = 0, accuracy_ = 0;          // of the last step in parts
  std::vector<Transfer> transfers_;         // transfers that are sent together
  std::int64_t step_ = 0;
  bool has_moments_ = false;  // false: they are still zero
  bool is_only_read_ = false;
  bool is_known_to_fit_ = false;  // with the present batch
  std::vector<ModelPart> parts_;
  std::unique_ptr<Arena> evaluation_arena_;
  std::unique_ptr<Tape> evaluation_tape_;
  std::unique_ptr<ThreadPool> analysis_threads_;
};

/// Throws Error(bad_input) for a value outside its setting's range and for an unknown key.
void check_setting(std::span<const Setting> settings, std::string_view key, double value);

struct TrainingMemoryNeed {
  std::size_t reserved = 0;  ///< from the start: weights, examples
  std::size_t training = 0;  ///< from the first step on, in addition: gradients, moments
  std::size_t peak = 0;      ///< maximum, while the arena finds its size
};

/// Memory that training steps of the recipe need on `device` in addition to what is in use. Runs three steps on a
/// device that only counts.
TrainingMemoryNeed training_memory_need(const Recipe& recipe, Backend& device);

/// Whether the training certainly needs far less than a gigabyte, so that counting (as slow as its first steps) can be
/// skipped. `store` has declared parameters; `tokens` are those of a batch.
bool is_surely_small(const ParameterStore& store, std::int64_t tokens);

}  // namespace afterglow
