// Captures of Sessa's feedback branch.
#include "core/layers/sessa_captures.h"

#include <vector>

#include "core/analysis/attention/softmax.h"
#include "core/layers/host_values.h"

namespace afterglow {

namespace {

/// Softmax over the strict past of a matrix of scores [T,T], in place; the rest is zero.
void strict_softmax(double* scores, std::int64_t length) {
  for (std::int64_t t = 0; t < length; ++t) {
    double* row = scores + t * length;
    softmax_in_place(std::span(row, static_cast<std::size_t>(t)));
    for (std::int64_t j = t; j < length; ++j) row[j] = 0.0;
  }
}

/// (I - diag(gamma) alpha)^-1 by rows: row t is the unit row plus gamma_t alpha_t times the rows above.
void solve_jacobian(const double* alpha, const double* gamma, std::int64_t length, double* inverse) {
  for (std::int64_t t = 0; t < length; ++t) {
    double* row = inverse + t * length;
    for (std::int64_t j = 0; j < t; ++j) {
      const double weight = gamma[t] * alpha[t * length + j];
      for (std::int64_t i = 0; i <= j; ++i) row[i] += weight * inverse[j * length + i];
    }
    row[t] = 1.0;
  }
}

}  // namespace

void capture_feedback(Tape& tape, const Tensor& q, const Tensor& k, const Tensor& gamma, double scale) {
  const std::int64_t batch = q.shape[0], length = q.shape[1];
  const Tensor scores = tape.scratch({batch, length, length}, q.dtype);
  const Tensor queries = gathered(tape, q), keys = gathered(tape, k);
  for (std::int64_t b = 0; b < batch; ++b)
    tape.backend().gemm(false, true, scale, queries.at(b), keys.at(b), 0.0, scores.at(b));
  std::vector<double> alpha = to_host(tape.backend(), scores);
  for (std::int64_t b = 0; b < batch; ++b) strict_softmax(alpha.data() + b * length * length, length);
  tape.capture("alpha_fb", to_device(tape, scores.shape, q.dtype, alpha));
  tape.capture("gamma", gamma);
  if (length > longest_captured_jacobian) return;
  const std::vector<double> gains = to_host(tape.backend(), gamma);
  std::vector<double> inverse(alpha.size(), 0.0);
  for (std::int64_t b = 0; b < batch; ++b)
    solve_jacobian(alpha.data() + b * length * length, gains.data() + b * length, length,
                   inverse.data() + b * length * length);
  tape.capture("solve_jacobian", to_device(tape, scores.shape, q.dtype, inverse));
}

}  // namespace afterglow
