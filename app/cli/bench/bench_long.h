// What `afterglow bench long` measures: every mixer there and back on one sequence of 64 to 65,536 tokens, 256 channels
// wide, until a pass takes too long or does not fit.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "app/cli/output.h"
#include "core/figure/figure.h"
#include "core/layers/layer_kind.h"

namespace afterglow {

/// What a back end reaches here where nothing hinders it: measured, not looked up.
struct MachineRates {
  double flops = 0;  ///< a second, in one large product of its precision
  double bytes = 0;  ///< a second, read and written by a copy
};
MachineRates measure_rates(Backend& backend);

struct LongBounds {
  double seconds = 0.5;  ///< the longest pass
  int repeats = 15;      ///< passes, of which the median counts; of long ones as many as fit into `seconds`
};

/// A row for each length: "tokens", "median_ms", "held_bytes", of the pass with its gradients, and "floor_ms": the time
/// that its counted operations (the products of its weights and those over pairs of tokens) and bytes (each value of
/// the pass written and read once) take at best at `rates`. The last row of a layer that is stopped says why: "stopped"
/// is "time" or "memory".
void bench_long(const LayerKind& kind, const LongBounds& bounds, const MachineRates& rates, Backend& backend,
                const Output& output, nlohmann::json& rows);

/// Both axes logarithmic, a line for each mixer in the rows of `bench_long`: time, or memory.
enum class LongQuantity { time, memory };
Figure long_figure(const nlohmann::json& rows, LongQuantity quantity);

}  // namespace afterglow
