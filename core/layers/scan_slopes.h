// Gradients with respect to the state of a layer with a selective scan, from the values that it hooked.
#pragma once
#include <cstdint>
#include <vector>

#include "core/layers/layer.h"

namespace afterglow {

/// The hooked values of one sequence and all heads, each [T, ..].
struct HookedScan {
  std::int64_t heads = 1, groups = 1;
  std::vector<double> decay;          ///< a [T,H]
  std::vector<double> C;              ///< [T,G,N]
  std::vector<double> readout_slope;  ///< [T,H,P]
  // Only for a scan with `lag`: [T,H], [T,H,P], [T,G,N].
  std::vector<double> lag{}, x{}, B{};
};
/// Gradients of `state` [H,P,N], and with `lag` also of `key` [H,N] and `value` [H,P].
std::vector<StateSlope> slopes_of_scan(const HookedScan& scan);

}  // namespace afterglow
