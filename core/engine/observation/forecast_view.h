// Forecasts of probe windows. Only for the task `forecast`; the pointer in Observation is null for every other task.
#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace afterglow {

/// One channel of one window. Values are in the series' own units; errors are those of the standardised series, as
/// published.
struct ForecastChannel {
  std::string name;                ///< "HUFL", "OT", "daily + weekly"
  std::vector<double> input;       ///< [L] what the model sees
  std::vector<double> truth;       ///< [P] what came then
  std::vector<double> prediction;  ///< [P]
  double mse = 0, mae = 0;         ///< of this window and channel, standardised
  /// [P] over the runs of ForecastView::runs; empty while there is only one. The deviation (n - 1) says how far seeds
  /// lie apart, not how far the truth may lie from them.
  std::vector<double> mean, deviation;
  std::vector<double> mse_of_runs;  ///< as long as ForecastView::runs
};

struct ForecastWindow {
  std::int64_t index = 0;   ///< of the window in the held-out part
  std::string first, last;  ///< time stamps of the first input and the last forecast row, as in the file
  double mse = 0, mae = 0;  ///< over all channels
  double mse_without_memory = std::numeric_limits<double>::quiet_NaN();  ///< memory tokens as zeros; NaN: none usable
  std::vector<ForecastChannel> channels;
};

struct MemoryView;

struct ForecastView {
  std::int64_t step = 0;  ///< training step of the weights
  int input_length = 0, horizon = 0;
  std::string time_unit;                ///< "h" for hourly rows, "row" where the file does not tell
  std::vector<ForecastWindow> windows;  ///< the probe window first, then evenly spaced ones of the held-out part
  std::vector<std::string> runs;        ///< "seed 2019, step 1320": this one first; empty while there are no others
  std::shared_ptr<const MemoryView> memory;  ///< memory_view.h; null for a model without
};

}  // namespace afterglow
