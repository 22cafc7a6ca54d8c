// A copy of a trainer's model with its weights and settings at one step, so that an analysis can work piece by piece
// while training goes on.
#pragma once
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>

#include "core/engine/training/trainer.h"
#include "core/models/model.h"

namespace afterglow {

class ModelCopy {
 public:
  /// `model` is the recipe's; the trainer must outlive the copy. That of a trainer which is only read is not copied.
  ModelCopy(const nlohmann::json& model, Trainer& trainer);
  /// On another back end, which must outlive the copy, or in another precision.
  ModelCopy(const nlohmann::json& model, Trainer& trainer, Backend& backend, DType dtype);

  /// Copies the present weights, memories and settings.
  void take();
  /// The same without the weights; `put` sets those.
  void follow();
  /// Sets other weights, in the layout of the flat buffer. Calls `meanwhile`, if given, after each parameter.
  void put(std::span<const double> weights, const std::function<void()>& meanwhile = {});
  /// Step of the weights; -1 before the first `take`.
  std::int64_t step() const { return step_; }
  Model& model() { return own_ ? *own_ : trainer_->model(); }
  const Model& model() const { return own_ ? *own_ : trainer_->model(); }
  Trainer& trainer() const { return *trainer_; }

 private:
  void take_weights();

  Trainer* trainer_;
  ParameterStore store_;
  std::unique_ptr<Model> own_;  // null: the trainer's
  std::int64_t step_ = -1;
};

/// A measurement on such a copy, whose view grows.
template <class View>
class CopyMeasurement {
 public:
  /// `model` is the recipe's; the trainer must outlive the measurement.
  CopyMeasurement(const nlohmann::json& model, Trainer& trainer)
      : copy_(model, trainer), tape_(trainer.evaluation_tape()) {}
  /// Step of the present or last measurement's weights; -1 before the first.
  std::int64_t step() const { return copy_.step(); }
  std::shared_ptr<const View> newest() const { return view_; }
  bool working() const { return done_ < planned_; }
  /// Finished share of the work, 0 to 1.
  double share_done() const { return planned_ > 0 ? static_cast<double>(done_) / static_cast<double>(planned_) : 1; }

 protected:
  /// A measurement of so many pieces begins; `done_` counts the finished ones.
  void begin_work(std::size_t pieces) {
    done_ = 0;
    planned_ = pieces;
  }
  void publish() { view_ = std::make_shared<const View>(now_); }

  ModelCopy copy_;
  Tape& tape_;
  View now_;
  std::size_t done_ = 0, planned_ = 0;  // pieces

 private:
  std::shared_ptr<const View> view_;
};

}  // namespace afterglow
