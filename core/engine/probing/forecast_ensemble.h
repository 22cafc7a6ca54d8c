// Runs of other seeds beside a forecasting run: trained elsewhere, loaded from their snapshots, never trained on here.
// They answer the same windows, so that what is shown is how far seeds lie apart, not how sure a forecast is.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/engine/observation/forecast_view.h"
#include "core/engine/training/training_run.h"

namespace afterglow {

class ForecastEnsemble {
 public:
  /// Adds the run of a snapshot; a file that is there already changes nothing. Throws Error(bad_input) that names the
  /// file when it is no snapshot, or its run does not forecast the same windows as `of`.
  void add(const std::string& path, const Recipe& of, Backend& backend);
  const std::vector<std::string>& paths() const { return paths_; }
  /// Adds to the forecasts of `own` those of the others on the same windows: ForecastView::runs, and mean and deviation
  /// of each channel. Changes nothing while there are no others.
  void compare(ForecastView& view, const Trainer& own, std::int64_t probe);

 private:
  std::vector<std::string> paths_;
  std::vector<std::unique_ptr<TrainingRun>> runs_;
};

}  // namespace afterglow
