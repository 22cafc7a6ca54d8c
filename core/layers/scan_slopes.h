// From what a layer with a selective scan noted to the slopes of its state, head by head.
#pragma once
#include <cstdint>
#include <vector>

#include "core/layers/layer.h"

namespace afterglow {

/// One sequence through a scan of several heads; all of it [T, ..] as noted.
struct NotedScan {
  std::int64_t heads = 1, groups = 1;
  std::vector<double> decay;          ///< a [T,H]
  std::vector<double> C;              ///< [T,G,N]
  std::vector<double> readout_slope;  ///< [T,H,P]
  // Of a scan with `lag` alone: [T,H], [T,H,P], [T,G,N].
  std::vector<double> lag{}, x{}, B{};
};
/// Of `state` [H,P,N], and with `lag` of `key` [H,N] and `value` [H,P].
std::vector<StateSlope> slopes_of_scan(const NotedScan& scan);

}  // namespace afterglow
