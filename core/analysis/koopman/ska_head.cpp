// The operators of one SKA head from its statistics.
#include "core/analysis/koopman/ska_head.h"

#include <Eigen/Cholesky>
#include <algorithm>

#include "core/analysis/linear_algebra/decompositions.h"

namespace afterglow {
namespace {

bool is_sound(const SkaHead& head) {
  if (head.rank < 1 || head.value_width < 0 || head.power < 0) return false;
  const std::size_t r = head.rank, square = r * r;
  return head.G.size() == square && head.M.size() == square && head.C.size() == head.value_width * r;
}

}  // namespace

SkaOperators ska_operators(const SkaHead& head) {
  SkaOperators result;
  if (!is_sound(head)) return result;
  const int r = head.rank;
  const RowMajorView G(head.G.data(), r, r), M(head.M.data(), r, r), C(head.C.data(), head.value_width, r);
  const Eigen::LLT<RowMajor> factor(G + head.ridge * RowMajor::Identity(r, r));
  if (factor.info() != Eigen::Success) return result;
  const RowMajor L = factor.matrixL();
  const auto lower = L.triangularView<Eigen::Lower>();
  const RowMajor half = lower.solve(M), A_w = lower.solve(half.transpose()).transpose();
  RowMajor F = C, B = C;
  if (head.value_width > 0) {  // a solve without right-hand sides would take the address of nothing
    F = lower.solve(C.transpose()).transpose();
    B = lower.transpose().solve(F.transpose()).transpose();
  }
  if (!L.allFinite() || !A_w.allFinite() || !B.allFinite()) return result;

  result.A_w = stored(A_w);
  result.sigma = spectral_norm(result.A_w, r, r);
  result.scale = head.gamma / std::max(head.sigma > 0.0 ? head.sigma : result.sigma, 1.0);
  result.A = stored(result.scale * A_w);
  result.readout = stored(F);
  result.value_map = stored(B);
  result.L = stored(L);
  return result;
}

SkaReading ska_reading(const SkaHead& head, const SkaOperators& operators, std::span<const double> query) {
  const int r = head.rank;
  const RowMajorView A(operators.A.data(), r, r), F(operators.readout.data(), head.value_width, r),
      L(operators.L.data(), r, r);
  RowMajor filter = RowMajor::Identity(r, r);
  for (int k = 0; k < head.power; ++k) filter = A * filter;
  const Eigen::Map<const Eigen::VectorXd> q(query.data(), r);
  return {stored(filter), stored(head.eta * (F * (filter * L.triangularView<Eigen::Lower>().solve(q))))};
}

}  // namespace afterglow
