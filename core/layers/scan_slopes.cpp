// Computes the gradients of each head and joins them.
#include "core/layers/scan_slopes.h"

#include "core/analysis/influence/state_slopes.h"

namespace afterglow {

std::vector<StateSlope> slopes_of_scan(const HookedScan& scan) {
  const auto heads = static_cast<std::size_t>(scan.heads), groups = static_cast<std::size_t>(scan.groups),
             tokens = scan.decay.size() / heads;
  std::vector<StateSlope> all{{"state", {}}};
  if (!scan.lag.empty()) all.insert(all.end(), {{"key", {}}, {"value", {}}});
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
    const std::vector<double>* parts[] = {&slopes.state, &slopes.key, &slopes.value};
    for (std::size_t i = 0; i < all.size(); ++i) put_part_of_rows(all[i].values, *parts[i], tokens, h, heads);
  }
  return all;
}

}  // namespace afterglow
