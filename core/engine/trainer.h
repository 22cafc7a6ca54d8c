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

#include "core/engine/observation.h"
#include "core/engine/recipe.h"
#include "core/models/model.h"
#include "core/tasks/task.h"

namespace afterglow {

/// What one training step measured.
struct StepResult {
  std::int64_t step = 0;  ///< counts from 1
  double loss = 0, accuracy = 0, learning_rate = 0;
  double gradient_norm = 0;                     ///< global, before clipping
  std::span<const float> layer_gradient_norms;  ///< one for each entry of Trainer::parts(); valid until the next step
  std::span<const double> summary;              ///< [d]: mean over the batch of what the head reads; valid as long
  bool finite = true;  ///< false: nothing was changed, and `Trainer::diagnose` finds the culprit
};

/// A part of the model whose gradient norm is shown: embedding, each branch, head.
struct ModelPart {
  std::string label, scope, kind, detail;
  int heads = 0;
  int branch = -1;  ///< index into Model::branches, -1 for embedding and head
  std::int64_t parameters = 0;
  std::int64_t offset = 0;  ///< of its slice in the flat buffers
};

/// Everything that a run needs to go on from a step: weights and both moments, as they lie in the flat buffers.
struct TrainerState {
  std::int64_t step = 0;
  std::vector<std::byte> weights, first_moments, second_moments;
  std::size_t bytes() const { return weights.size() + first_moments.size() + second_moments.size(); }
};

class Trainer {
 public:
  /// Builds the model and its start weights. `backend` must outlive the trainer. Throws Error for an impossible recipe.
  /// `check` sees the declared parameters before any memory is reserved for them and may refuse.
  Trainer(const Recipe& recipe, Backend& backend, DType dtype = DType::f32,
          const std::function<void(const ParameterStore&)>& check = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Draws the examples of the next step, unless they are there already.
  void prepare_batch();
  /// One training step: transfers, forward, backward, clipping, AdamW. The examples of the next one are drawn while the
  /// device computes.
  StepResult step();
  /// Its two halves: queues the work, and waits for it. They allocate nothing after the third step.
  void begin_step();
  StepResult end_step();
  std::int64_t finished_steps() const { return step_; }
  const TrainingConfig& config() const { return config_; }
  /// Everything that may be changed live: training settings, and "layers.1.ska.K" and the like.
  std::vector<Setting> settings() const;
  double get(std::string_view key) const;
  /// Takes effect with the next step. Throws Error(bad_input) for an unknown key or a value outside its range.
  void set(std::string_view key, double value);
  /// Back to the recipe's own values.
  void reset_settings();

  /// Share of right answers on `examples` held-out sequences of a task (the run's own when none is given).
  double evaluate(std::int64_t examples, const Task* task = nullptr);
  /// Repeats the last step's forward pass and looks at every result: what was the first non-finite number?
  std::string diagnose();

  TrainerState save() const;
  void restore(const TrainerState& state);
  /// 16 hex digits over all weights.
  std::string checksum() const;

  Model& model() { return *model_; }
  const Model& model() const { return *model_; }
  ParameterStore& parameters() { return parameters_; }
  const ParameterStore& parameters() const { return parameters_; }
  const Task& task() const { return *task_; }
  Backend& backend() const { return *backend_; }
  DType dtype() const { return dtype_; }
  std::uint64_t seed() const { return seed_; }
  const std::vector<ModelPart>& parts() const { return parts_; }
  std::size_t arena_bytes() const { return arena_.capacity(); }

 private:
  struct Examples;
  struct Batch;  // tokens, targets and mask of fixed shape, on both sides
  void build_parts();
  void make_batch();
  void run_step();
  void download_summary(const Tensor& loss, const Tensor& correct, const Tensor& counted);
  Var forward_loss(Tensor* correct, Tensor* counted);

  Backend* backend_;
  DType dtype_;
  std::uint64_t seed_;
  TrainingConfig config_;
  std::vector<Setting> initial_settings_;
  std::unique_ptr<Task> task_;
  ParameterStore parameters_;
  std::unique_ptr<Model> model_;
  Arena arena_;
  Tape tape_;
  std::unique_ptr<Batch> batch_;
  std::unique_ptr<Examples> examples_;
  std::unique_ptr<Program> program_;
  std::vector<double> summary_;
  int plain_steps_ = 0;  // steps run with the current shapes before capturing
  std::int64_t step_ = 0;
  std::vector<ModelPart> parts_;
  std::unique_ptr<Arena> evaluation_arena_;
  std::unique_ptr<Tape> evaluation_tape_;
};

}  // namespace afterglow
