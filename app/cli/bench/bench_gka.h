// `afterglow bench gka` measures the core of Gated KalmaNet alone, forward and backward, and the matrix products in it.
#pragma once
#include <memory>

#include "core/backend/chebyshev.h"
#include "core/engine/training/pinned_array.h"
#include "core/ops/ops.h"

namespace afterglow {

struct GkaCase {
  const char* name;
  std::int64_t batch, tokens, heads, width;
  bool large;  ///< takes minutes on a CPU
};

inline constexpr GkaCase gka_cases[] = {{"gka core B16 T128 H4 D32 r30", 16, 128, 4, 32, false},
                                        {"gka core B4 T2048 H8 D128 r30", 4, 2048, 8, 128, true},
                                        {"gka core B4 T8192 H8 D128 r30", 4, 8192, 8, 128, true}};

class GkaBench {
 public:
  GkaBench(const GkaCase& sizes, Backend& backend);
  /// One forward and one backward pass.
  void run() { graph_->run(); }
  /// The same number of multiplications in plain products of the same widths.
  void run_products();
  /// Operations of both Chebyshev iterations: H_t xi for every token, chunk by chunk.
  double flops() const;
  /// Bytes of inputs, results and their gradients, once each, and of the states around the chunks, written and read
  /// once.
  double bytes() const;

 private:
  std::int64_t rows() const { return sizes_.batch * sizes_.tokens * sizes_.heads; }
  void fill(PinnedArray& array, std::uint64_t seed, bool unit_rows);

  GkaCase sizes_;
  ChebyshevConfig config_;
  Backend* backend_;
  PinnedArray q_, k_, v_, g_, alpha_, dy_;
  Arena arena_;
  Tape tape_;
  std::unique_ptr<DeviceGraph> graph_;
};

}  // namespace afterglow
