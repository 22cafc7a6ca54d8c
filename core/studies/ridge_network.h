// A small LLaMA with ridge regression as attention, to compare gradients of its solves (Gated KalmaNet, figure 1c and
// e).
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "core/analysis/solvers/gradient_check.h"
#include "core/autograd/tape.h"

namespace afterglow {

/// How the ridge layers solve and differentiate: x_t solves (H_t + strength |H_t|_F I) x = q_t, y_t = U_t x_t.
struct RidgeMethod {
  SolverKind solver = SolverKind::cholesky;
  GradientRoute route = GradientRoute::implicit;
  int iterations = 0;
  Arithmetic arithmetic = Arithmetic::fp64;
  double strength = 0.02;
};

struct RidgeNetworkSize {
  int layers = 5, tokens = 96, heads = 2, width = 16, vocabulary = 64;  ///< of one head; batch 1
};

/// Blocks of norm, ridge layer (unit queries and keys), norm and SwiGLU that predict the next random token. Everything
/// but the solves is in float64 on the CPU.
class RidgeNetwork {
 public:
  RidgeNetwork(const RidgeNetworkSize& size, std::uint64_t seed);
  double loss(const RidgeMethod& way);
  /// Gradient of the loss with respect to all weights, in the order of `parameters()`.
  std::vector<double> gradient(const RidgeMethod& way);
  ParameterStore& parameters() { return store_; }

 private:
  struct Block {
    const Parameter *norm, *q, *k, *v, *o, *mlp_norm, *gate, *up, *down;
  };
  Var forward(const RidgeMethod& way);
  RidgeNetworkSize size_;
  std::unique_ptr<Backend> backend_;
  ParameterStore store_;
  Arena arena_;
  Tape tape_;
  std::vector<Block> blocks_;
  const Parameter *embedding_ = nullptr, *head_ = nullptr;
  std::vector<std::int32_t> ids_;
};

}  // namespace afterglow
