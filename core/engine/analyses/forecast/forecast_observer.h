// What panels show of a forecaster: windows of its series with input, truth and prediction, and which tokens read its
// memory.
#pragma once
#include <cstdint>
#include <memory>

namespace afterglow {

struct ForecastView;
class Trainer;

/// Forecasts of the validation part: window `inspected`, counted from 0 and modulo their number, then evenly spaced
/// ones. Only for a trainer whose `forecast()` is not null.
std::shared_ptr<const ForecastView> view_forecast(Trainer& trainer, std::int64_t inspected);

}  // namespace afterglow
