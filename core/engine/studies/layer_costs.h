// Echo's table 1, measured: what attention, Mamba-2 and SKA cost over the length of the sequence.
#pragma once
#include <cstdint>
#include <vector>

#include "core/engine/observation/cost_view.h"
#include "core/engine/studies/solver_studies.h"

namespace afterglow {

struct CostPlan {
  std::int64_t width = 128;                                      ///< d; heads as in the transfer study
  std::vector<std::int64_t> tokens = {64, 128, 256, 512, 1024};  ///< ascending
  bool measures_passes = true, measures_steps = true;            ///< lists of what is not measured stay empty
};

/// The layers of the transfer study at their start values, SKA in chunk mode as language models train it (Echo 3.2.2).
/// Times are processor time: the shortest of five passes, the mean of the last 32 tokens. They depend on the machine;
/// bytes do not.
CostView layer_costs(const CostPlan& plan, const StudyProgress& progress);

}  // namespace afterglow
