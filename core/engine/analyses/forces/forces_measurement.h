// Eigenvalue forces: where the loss pulls each eigenvalue of the Koopman operators, and where the optimiser moves it.
// The operator of the inspected sequence is a function A(w) of the weights; a direction d in them changes it by
//   dA = (A(w + h d) - A(w - h d)) / 2h,  and an eigenvalue by  delta lambda = u^H dA v / (u^H v).
// A is evaluated in float64 on the processor, whatever the run's back end.
#pragma once
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "core/engine/analyses/forces/forces_view.h"
#include "core/engine/training/saved/model_copy.h"
#include "core/engine/training/training_run.h"
#include "core/recipe/inspection_setup.h"

namespace afterglow {

/// The operator A_w [rank*rank] of one head after a whole sequence.
struct HeadOperator {
  int layer = 0, head = 0, rank = 0;
  std::vector<double> A;
};

class ForcesMeasurement {
 public:
  /// `model` is the recipe's; the trainer must outlive the measurement. Throws Error(bad_input) for a model that is too
  /// large.
  ForcesMeasurement(const nlohmann::json& model, Trainer& trainer);

  /// Rehearses the next step of the run that owns the trainer. Throws Error(non_finite) if the step cannot be made.
  void begin(TrainingRun& run, const Example& inspected);
  /// Finds the directions, or evaluates the operators once more. False if no evaluation is left. Calls `meanwhile`, if
  /// given, between pieces that do not read the run; it must return quickly.
  bool advance(const std::function<void()>& meanwhile = {});
  /// Finished share of the work, 0 to 1.
  double share_done() const { return working_ ? 0 : 1; }
  bool working() const { return working_; }
  std::int64_t step() const { return copy_.step(); }
  std::shared_ptr<const ForcesView> newest() const { return view_; }

  /// The operators of all heads for these weights.
  std::vector<HeadOperator> operators_at(const std::vector<double>& weights);

 private:
  /// The weights at which the operators are evaluated, in this order.
  enum class Place { here, down_ahead, down_behind, step_ahead, step_behind, after, count };
  void find_directions();
  std::vector<double> weights_of(Place place) const;
  void fill();
  void set_yield(const std::function<void()>& work);

  std::unique_ptr<Backend> backend_;
  Arena arena_;
  Tape tape_;
  ModelCopy copy_;
  Example inspected_;
  RehearsedStep next_;  // its numbers until they are converted to float64
  std::vector<double> weights_, after_;
  InspectionSetup surgery_;  // the run's last surgery
  std::shared_ptr<const Spectra> numbered_;
  std::vector<double> down_, ahead_;  // directions in the weights, equally long; empty: not found yet
  double gradient_norm_ = 0, weight_change_ = 0;
  double scale_ = 1;                                  // h
  std::vector<std::vector<HeadOperator>> operators_;  // by Place
  std::function<void()> meanwhile_;                   // set while `advance` runs
  bool working_ = false;
  std::shared_ptr<const ForcesView> view_;
};

}  // namespace afterglow
