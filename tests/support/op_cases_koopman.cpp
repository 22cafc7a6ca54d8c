// Cases of the Koopman MLP's core.
#include <cmath>

#include "core/ops/ops.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {

namespace {

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

OpCase koopman(std::int64_t rows, std::int64_t pairs, bool gated) {
  OpCase c;
  c.name = std::string("koopman_modes_") + (gated ? "gated_" : "") + std::to_string(rows) + "x" + std::to_string(pairs);
  c.inputs = {{"lifted", {rows, 2 * pairs}, -4, 4}, {"gamma", {pairs}, -1.1, 1.1}, {"omega", {pairs}, -1.1, 1.1}};
  if (gated) c.inputs.push_back({"gate", {rows, 2 * pairs}, -3, 3});
  c.run = [gated](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    return koopman_modes(t, in[0], in[1], in[2], gated ? in[3] : Var{});
  };
  c.naive = [rows, pairs, gated](std::span<const Values> in, std::span<const Values>) {
    Values z;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t i = 0; i < pairs; ++i) {
        const std::int64_t at = (row * pairs + i) * 2;
        const double u0 = in[0][at] * sigmoid(in[0][at]), u1 = in[0][at + 1] * sigmoid(in[0][at + 1]);
        const double modulus = std::max(1.0, std::hypot(in[1][i], in[2][i]));
        const double g = in[1][i] / modulus, w = in[2][i] / modulus;
        z.push_back((g * u0 + w * u1) * (gated ? sigmoid(in[3][at]) : 1.0));
        z.push_back((-w * u0 + g * u1) * (gated ? sigmoid(in[3][at + 1]) : 1.0));
      }
    }
    return z;
  };
  c.tolerance = 3e-6;
  c.reason = "exponentials to a few units in the last place, and sums over rows of either sign";
  return c;
}

}  // namespace

void add_koopman_cases(std::vector<OpCase>& cases) {
  for (const bool gated : {false, true}) {
    cases.push_back(koopman(1, 1, gated));
    cases.push_back(koopman(37, 33, gated));
    cases.push_back(koopman(101, 16, gated));
  }
}

}  // namespace afterglow::testing
