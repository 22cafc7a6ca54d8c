// A forecaster trained on windows of a series by its mean squared error, optionally with a memory of training.
#pragma once
#include "core/engine/training/objective.h"
#include "core/engine/training/pinned_array.h"
#include "core/layers/forecaster.h"
#include "core/ops/ops.h"
#include "core/tasks/series_windows.h"

namespace afterglow {

/// Errors on the standardised series, as published.
struct ForecastScore {
  double mse = 0, mae = 0;
  double variance =
      0;  ///< mean squared deviation from the training part's mean, i.e. the error of forecasting that mean
  std::int64_t windows = 0;
};

/// Buffers for windows that are forecast without training, and the last forecast.
struct ForecastedWindows {
  ForecastedWindows(Backend& backend, std::int64_t count, const SeriesWindows& windows, DType dtype);
  PinnedArray input, prediction;      ///< [count, length, channels], [count, horizon, channels]
  std::vector<float> inputs, truths;  ///< input and truth, standardised
};

/// `count` evenly spaced numbers from 0 to total - 1, beginning with 0.
std::vector<std::int64_t> evenly_spaced(std::int64_t total, std::int64_t count);

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
  void load(std::int64_t step) override;
  void add_inputs(std::vector<Transfer>& transfers) override;
  Var loss(Tape& tape) override;
  void add_results(Backend& backend, std::vector<Transfer>& transfers) override;
  double quality() const override;
  void read_summary(std::span<double> summary) const override;
  double evaluate(Tape& tape, std::uint64_t seed, std::int64_t examples, const Task* other) override;
  double evaluate_recurrent(Tape& tape, std::uint64_t seed, std::int64_t examples, const Task* other,
                            const DecodeForm& form) override;

  /// Over at most `most` evenly spaced windows of a part, including the first; over all if there are fewer.
  ForecastScore score(Tape& tape, DType dtype, SeriesPart part, std::int64_t most);
  /// Forecasts the windows `which` of a part, at most as many as `windows` holds. If `capturing`, leaves the layers'
  /// captures on the tape.
  void predict(Tape& tape, ForecastedWindows& windows, SeriesPart part, std::span<const std::int64_t> which,
               bool capturing);
  const SeriesWindows& windows() const { return *windows_; }
  Forecaster& model() const { return *model_; }

 private:
  struct Batch;

  std::unique_ptr<Task> task_;
  const SeriesWindows* windows_;
  std::unique_ptr<Forecaster> model_;
  std::uint64_t seed_;
  std::unique_ptr<Batch> batch_;
  std::vector<float> inputs_, truths_;  // drawn ahead of time
  SquaredError last_;
  ForecastPass pass_;
};

}  // namespace afterglow
