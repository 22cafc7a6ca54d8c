// What the metrics of a table measure of a trained run.
#pragma once
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace afterglow {

class TrainingRun;

/// Measures all metrics (assets/tables/README.md describes their fields) of a run that has been trained to its end, one
/// number each; NaN where there is no answer. What several of them need is measured once. Throws Error(bad_input) that
/// names `where` for a measure that does not exist.
std::function<std::vector<double>(TrainingRun& run)> measures_of(const std::vector<nlohmann::json>& metrics,
                                                                 const std::string& where);

}  // namespace afterglow
