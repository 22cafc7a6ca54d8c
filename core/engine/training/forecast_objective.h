// A forecaster trained on windows of a series by its mean squared error, with the memory of training that it may keep.
#pragma once
#include "core/engine/observation/forecast_view.h"
#include "core/engine/observation/memory_view.h"
#include "core/engine/training/training_memory_state.h"
#include "core/layers/forecaster.h"
#include "core/ops/ops.h"
#include "core/tasks/series_windows.h"

namespace afterglow {

/// Errors of the standardised series, as published.
struct ForecastScore {
  double mse = 0, mae = 0;
  double variance = 0;  ///< mean square of the truth about the training part's mean: the error of forecasting that mean
  std::int64_t windows = 0;
};

class ForecastObjective final : public Objective {
 public:
  ForecastObjective(const Recipe& recipe, std::unique_ptr<Task> task, ParameterStore& store);
  ~ForecastObjective() override;

  const Task& task() const override { return *task_; }
  ForecastObjective* forecast() override { return this; }
  std::vector<ModelPart> parts(const ParameterStore& store) const override;
  MeasureNames measures() const override { return {"mean squared error", "", "explained variance"}; }
  std::int64_t width() const override { return model_->width(); }
  void make_batch(Backend& backend, std::int64_t batch, DType dtype) override;
  void draw(std::uint64_t seed, std::int64_t first) override;
  bool load(std::int64_t step) override;
  void queue_uploads() override;
  Var loss(Tape& tape) override;
  void queue_results(Backend& backend) override;
  double quality() const override;
  void read_summary(std::span<double> summary) const override;
  void keep() override;
  double evaluate(Tape& tape, std::uint64_t seed, std::int64_t examples, const Task* other) override;
  TrainingMemory memory() const override { return keeper_.state(); }
  void restore_memory(const TrainingMemory& memory, std::int64_t step) override;

  /// Over at most `most` windows of a part, evenly spaced, the first one included; with more than there are over all.
  ForecastScore score(Tape& tape, DType dtype, SeriesPart part, std::int64_t most);
  /// Forecasts of the validation part: window `probe`, then evenly spaced ones.
  std::shared_ptr<const ForecastView> view(Tape& tape, DType dtype, std::int64_t step, std::int64_t probe);

 private:
  struct Batch;
  struct Windows;
  void predict(Tape& tape, Windows& windows, SeriesPart part, std::span<const std::int64_t> which, bool probing);
  void add_attention(Tape& tape, MemoryView& view) const;
  void add_errors_without_memory(Tape& tape, Windows& windows, std::span<const std::int64_t> places,
                                 ForecastView& view);

  std::unique_ptr<Task> task_;
  const SeriesWindows* windows_;
  std::unique_ptr<Forecaster> model_;
  TrainingMemoryState keeper_;
  std::uint64_t seed_;
  std::unique_ptr<Batch> batch_;
  std::vector<float> inputs_, truths_;  // drawn ahead of time
  SquaredError last_;
  ForecastPass pass_;
};

}  // namespace afterglow
