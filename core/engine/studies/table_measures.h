// The measures of a table's metrics.
#pragma once
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace afterglow {

class TrainingRun;

/// Measures all metrics (assets/tables/README.md describes their fields) of a run that was trained to its end, one
/// number each; NaN without an answer. What several of them need is measured once. Throws Error(bad_input) that names
/// `where` for an unknown measure.
std::function<std::vector<double>(TrainingRun& run)> measures_of(const std::vector<nlohmann::json>& metrics,
                                                                 const std::string& where);

}  // namespace afterglow
