// The work that benchmarks of layers run, forward and backward on fixed numbers: one layer, the core of Gated KalmaNet,
// an output head with its loss.
#pragma once
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "app/cli/output.h"
#include "core/backend/chebyshev.h"
#include "core/engine/training/pinned_array.h"
#include "core/figure/figure.h"
#include "core/layers/layer_kind.h"
#include "core/ops/ops.h"

namespace afterglow {

/// Returns when the back end has done all work.
double seconds_of(const std::function<void()>& work, Backend& backend);

/// The row of a benchmark with these `times` in milliseconds, which are sorted here.
nlohmann::json row_of(const std::string& name, const Backend& backend, std::vector<double>& times, double flops = 0,
                      double bytes = 0);

/// One layer with its own weights, input and memory.
class LayerPass {
 public:
  LayerPass(const LayerKind& kind, const nlohmann::json& config, std::int64_t batch, std::int64_t tokens,
            Backend& backend);
  void run();
  /// As a graph, with all memory reserved before.
  std::unique_ptr<DeviceGraph> recorded();
  /// Bytes of everything except weights, input and the gradient that starts the backward pass.
  std::size_t held_bytes() const { return arena_.capacity(); }
  std::size_t used_bytes() const { return arena_.used(); }
  /// Numbers in the layer's matrices.
  double weights() const;
  /// Operations of the products with the weights and of their gradients, counted.
  double flops() const { return 6.0 * static_cast<double>(x_.device().shape.rows()) * weights(); }

 private:
  ParameterStore store_;
  std::unique_ptr<Layer> layer_;
  PinnedArray x_, dy_;
  Arena arena_;
  Tape tape_;
};

/// `afterglow bench gka` measures the core of Gated KalmaNet alone.
struct GkaCase {
  const char* name;
  std::int64_t batch, tokens, heads, width;
  bool large;  ///< takes minutes on a CPU
};

inline constexpr GkaCase gka_cases[] = {{"gka core B16 T128 H4 D32 r30", 16, 128, 4, 32, false},
                                        {"gka core B4 T2048 H8 D128 r30", 4, 2048, 8, 128, true},
                                        {"gka core B4 T8192 H8 D128 r30", 4, 8192, 8, 128, true}};

/// A forward and a backward pass as a graph.
class RecordedPass {
 public:
  void run() { graph_->run(); }
  /// Bytes that a pass holds in addition to its inputs and their gradients.
  std::size_t held_bytes() const { return arena_.capacity(); }

 protected:
  explicit RecordedPass(Backend& backend) : arena_(backend), tape_(backend, arena_) {}
  void record(const std::function<void()>& pass);

  Arena arena_;
  Tape tape_;

 private:
  std::unique_ptr<DeviceGraph> graph_;
};

class GkaBench : public RecordedPass {
 public:
  GkaBench(const GkaCase& sizes, Backend& backend);
  /// Operations of both Chebyshev iterations: H_t xi for every token, chunk by chunk.
  double flops() const;
  /// Bytes of inputs, results and their gradients, once each, and of the states around the chunks, written and read
  /// once.
  double bytes() const;

 private:
  std::int64_t rows() const { return sizes_.batch * sizes_.tokens * sizes_.heads; }

  GkaCase sizes_;
  ChebyshevConfig config_;
  PinnedArray q_, k_, v_, g_, alpha_, dy_;
};

/// `afterglow bench head` measures an output head over a large vocabulary and its loss.
struct HeadCase {
  const char* name;
  std::int64_t batch, tokens, width, vocabulary;
  bool in_chunks;  ///< false: all logits at once
  bool large;      ///< takes half a minute on a CPU
};

inline constexpr HeadCase head_cases[] = {
    {"head B4 T256 d448 V32000", 4, 256, 448, 32000, true, false},
    {"head B4 T256 d448 V32000, whole logits", 4, 256, 448, 32000, false, false},
    {"head B8 T2048 d448 V32000", 8, 2048, 448, 32000, true, true},
    {"head B8 T2048 d448 V32000, whole logits", 8, 2048, 448, 32000, false, true}};

class HeadBench : public RecordedPass {
 public:
  HeadBench(const HeadCase& sizes, Backend& backend);
  /// Operations of the three products.
  double flops() const;

 private:
  HeadCase sizes_;
  PinnedArray hidden_, weight_, targets_, one_;
};

// `afterglow bench long` measures every mixer, forward and backward, on one sequence of 64 to 65,536 tokens of 256
// channels, until a pass takes too long or does not fit.

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
