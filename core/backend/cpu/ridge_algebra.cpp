// Sizes and the small matrix algebra of the SKA core on the CPU.
#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>

#include "core/backend/cpu/ridge.h"

namespace afterglow {
namespace ridge {

Sizes::Sizes(const RidgeConfig& config, const RidgeInputs& in)
    : RidgeSizes(in.sizes()),
      piece(tokens),
      groups(config.groups(tokens)),
      exclusive(config.mode == RidgeConfig::Mode::chunk),
      running_scale(config.mode == RidgeConfig::Mode::recurrent ||
                    (config.mode == RidgeConfig::Mode::chunk && config.norm == RidgeConfig::Norm::prefix)),
      masked(config.mode == RidgeConfig::Mode::masked),
      roles(config.roles),
      gamma(config.gamma) {
  if (config.mode == RidgeConfig::Mode::chunk) piece = config.chunk;
  if (config.mode == RidgeConfig::Mode::recurrent) piece = 1;
}

bool Sizes::contributes(const RidgeInputs& in, std::int64_t batch_head, std::int64_t g) const {
  if (exclusive) return g > 0;
  const std::uint8_t* selected = mask(in, batch_head);
  return !selected || std::any_of(selected, selected + tokens, [&](std::uint8_t one) { return counts(one); });
}

int factorise(Compact<double>& L, double ridge, Compact<double>& keep) {
  constexpr int gentle_tries = 10, max_tries = 60;
  keep = L;
  double added = ridge, step = 1e-4;
  for (int tries = 0;; ++tries) {
    L.diagonal().array() += added;
    Eigen::Ref<Matrix<double>> in_place(L);
    const Eigen::LLT<Eigen::Ref<Matrix<double>>> factor(in_place);
    if (factor.info() == Eigen::Success || tries == max_tries) {
      L.triangularView<Eigen::StrictlyUpper>().setZero();
      return tries;
    }
    if (tries >= gentle_tries) step *= 2.0;
    added += step;
    L = keep;
  }
}

void invert_lower(const Compact<double>& L, Compact<double>& inverse) {
  inverse.setIdentity();
  L.triangularView<Eigen::Lower>().solveInPlace(inverse);
}

double max_singular_value(const Eigen::Ref<const Matrix<double>>& A, int iterations, Vector& v, Vector& u) {
  v.setConstant(1.0 / std::sqrt(static_cast<double>(v.size())));
  for (int i = 0; i < iterations; ++i) {
    u.noalias() = A * v;
    v.noalias() = A.transpose() * u;
    const double length = v.norm();
    if (length == 0.0) return 0.0;
    v /= length;
  }
  u.noalias() = A * v;
  return u.norm();
}

}  // namespace ridge
}  // namespace afterglow
