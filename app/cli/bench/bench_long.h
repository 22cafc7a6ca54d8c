// `afterglow bench long` measures every mixer, forward and backward, on one sequence of 64 to 65,536 tokens of 256
// channels, until a pass takes too long or does not fit.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "app/cli/output.h"
#include "core/figure/figure.h"
#include "core/layers/layer_kind.h"

namespace afterglow {

/// The highest rates that a back end reaches on this machine, as measured.
struct MachineRates {
  double flops = 0;  ///< operations per second, in one large product of its precision
  double bytes = 0;  ///< bytes per second, read and written by a copy
};
MachineRates measure_rates(Backend& backend);

struct LongBounds {
  double seconds = 0.5;  ///< longest time of a pass
  int repeats = 15;      ///< number of passes, whose median counts; of long passes as many as fit into `seconds`
};

/// One row for each length: "tokens", "median_ms", "held_bytes" of the pass with its gradients, and "floor_ms": the
/// shortest time, at `rates`, of its counted operations (products of weights and products over pairs of tokens) and
/// bytes (each value written and read once). The last row of a layer that stops early says why: "stopped" is "time" or
/// "memory".
void bench_long(const LayerKind& kind, const LongBounds& bounds, const MachineRates& rates, Backend& backend,
                const Output& output, nlohmann::json& rows);

/// Time or memory on logarithmic axes, with one line for each mixer in the rows of `bench_long`.
enum class LongQuantity { time, memory };
Figure long_figure(const nlohmann::json& rows, LongQuantity quantity);

}  // namespace afterglow
