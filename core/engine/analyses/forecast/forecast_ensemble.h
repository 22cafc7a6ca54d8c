// Runs with other seeds, loaded from snapshots and compared with a forecasting run on the same windows. They show how
// much forecasts depend on the seed, not how certain a forecast is.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/engine/analyses/forecast/forecast_view.h"
#include "core/engine/training/training_run.h"

namespace afterglow {

class ForecastEnsemble {
 public:
  /// Adds the run of a snapshot; a file that was added before is ignored. Throws Error(bad_input) with the file's name
  /// if it is no snapshot or its run forecasts other windows than `of`.
  void add(const std::string& path, const Recipe& of, Backend& backend);
  const std::vector<std::string>& paths() const { return paths_; }
  /// Adds the forecasts of these runs on the windows of `view`: ForecastView::runs, and mean and deviation of each
  /// channel. Changes nothing if there are no runs.
  void compare(ForecastView& view, const Trainer& own, std::int64_t inspected);

 private:
  std::vector<std::string> paths_;
  std::vector<std::unique_ptr<TrainingRun>> runs_;
};

/// Forecasts of the validation part: window `inspected`, counted from 0 and modulo their number, then evenly spaced
/// ones. Only for a trainer whose `forecast()` is not null.
std::shared_ptr<const ForecastView> view_forecast(Trainer& trainer, std::int64_t inspected);

}  // namespace afterglow
