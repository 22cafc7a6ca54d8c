// Forecasts of held-out windows; Observation's pointer is null for every task other than `forecast`.
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
  std::vector<double> input;       ///< [L]
  std::vector<double> truth;       ///< [P]
  std::vector<double> prediction;  ///< [P]
  double mse = 0, mae = 0;         ///< of this window and channel, standardised
  /// [P] over ForecastView::runs; empty for a single run. The deviation (n - 1) is the spread over seeds, not the
  /// uncertainty of the forecast.
  std::vector<double> mean, deviation;
  std::vector<double> mse_of_runs;  ///< as long as ForecastView::runs
};

struct ForecastWindow {
  std::int64_t index = 0;   ///< of the window in the held-out part
  std::string first, last;  ///< time stamps of the first input and the last forecast row, as in the file
  double mse = 0, mae = 0;  ///< over all channels
  double mse_without_memory =
      std::numeric_limits<double>::quiet_NaN();  ///< with zeros for memory tokens; NaN: no usable memory
  std::vector<ForecastChannel> channels;
};

struct MemoryView;

struct ForecastView {
  std::int64_t step = 0;  ///< training step of the weights
  int input_length = 0, horizon = 0;
  std::string time_unit;                ///< "h" for hourly rows, "row" if the file does not say
  std::vector<ForecastWindow> windows;  ///< the inspected window first, then evenly spaced ones of the held-out part
  std::vector<std::string> runs;        ///< "seed 2019, step 1320", this run first; empty if there are no others
  std::shared_ptr<const MemoryView> memory;  ///< memory_view.h; null for a model without memory
};

}  // namespace afterglow
