// Takes heads apart and puts their slopes together again.
#include "core/layers/scan_slopes.h"

#include "core/analysis/state_slopes.h"

namespace afterglow {

std::vector<StateSlope> slopes_of_scan(const NotedScan& scan) {
  const auto heads = static_cast<std::size_t>(scan.heads), groups = static_cast<std::size_t>(scan.groups),
             tokens = scan.decay.size() / heads;
  StateSlope state{"state", {}}, key{"key", {}}, value{"value", {}};
  for (std::size_t h = 0; h < heads; ++h) {
    const std::size_t group = h / (heads / groups);
    ScanHead head;
    head.decay = part_of_rows(scan.decay, tokens, h, heads);
    head.C = part_of_rows(scan.C, tokens, group, groups);
    head.readout_slope = part_of_rows(scan.readout_slope, tokens, h, heads);
    head.lag = part_of_rows(scan.lag, tokens, h, heads);
    head.x = part_of_rows(scan.x, tokens, h, heads);
    head.B = part_of_rows(scan.B, tokens, group, groups);
    head.width = head.readout_slope.size() / tokens;
    head.states = head.C.size() / tokens;
    const ScanSlopes slopes = scan_slopes(head);
    put_part_of_rows(state.values, slopes.state, tokens, h, heads);
    if (scan.lag.empty()) continue;
    put_part_of_rows(key.values, slopes.key, tokens, h, heads);
    put_part_of_rows(value.values, slopes.value, tokens, h, heads);
  }
  if (scan.lag.empty()) return {state};
  return {state, key, value};
}

}  // namespace afterglow
