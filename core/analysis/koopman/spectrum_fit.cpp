// With x = L^-T v and p = u^H L^-1 of the eigenvectors u, v of A_w (u^H v = 1), d lambda = p (dM - lambda dG) x.
#include "core/analysis/koopman/spectrum_fit.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <array>
#include <cmath>

#include "core/analysis/koopman/mode_decomposition.h"
#include "core/analysis/linear_algebra/decompositions.h"
#include "core/io/named.h"

namespace afterglow {
namespace {

using Complex = std::complex<double>;

constexpr double smallest_scale = 1e-6;  ///< m is at least this
constexpr double longest_stride = 0.03;  ///< of an eigenvalue in one round
constexpr double close_enough = 1e-10;
constexpr int max_rounds = 400;
constexpr std::array dampings{1e-12, 1e-9, 1e-7, 1e-5, 1e-3};  ///< of the trace of J J^T, the next where one fails

/// Everything between the projection and A_w.
struct Statistics {
  RowMajor keys;  // [T, r], divided by m
  RowMajor L, A;
  double m = smallest_scale;
  Eigen::Index largest = -1;  // the token whose key gives m; -1: the lower limit does
  bool is_sound = false;
};

Statistics statistics_of(const KeyOperator& of, std::span<const double> projection) {
  Statistics found;
  const auto tokens = static_cast<Eigen::Index>(of.is_counted.size());
  const RowMajorView x(of.inputs.data(), tokens, of.width), W(projection.data(), of.rank, of.width);
  found.keys = x * W.transpose();
  for (Eigen::Index t = 0; t < tokens; ++t) {
    const double length = found.keys.row(t).norm();
    if (of.is_measured[static_cast<std::size_t>(t)] == 0 || !(length > found.m)) continue;
    found.m = length;
    found.largest = t;
  }
  found.keys /= found.m;
  RowMajor G = of.ridge * RowMajor::Identity(of.rank, of.rank), M = RowMajor::Zero(of.rank, of.rank);
  for (Eigen::Index t = 0; t < tokens; ++t) {
    if (of.is_counted[static_cast<std::size_t>(t)] == 0) continue;
    G += found.keys.row(t).transpose() * found.keys.row(t);
    if (t > 0 && of.is_counted[static_cast<std::size_t>(t - 1)] != 0)
      M += found.keys.row(t).transpose() * found.keys.row(t - 1);
  }
  const Eigen::LLT<RowMajor> factor(G);
  if (factor.info() != Eigen::Success || !G.allFinite()) return found;
  found.L = factor.matrixL();
  const auto lower = found.L.triangularView<Eigen::Lower>();
  const RowMajor half = lower.solve(M);
  found.A = lower.solve(half.transpose()).transpose();
  found.is_sound = found.A.allFinite();
  return found;
}

std::vector<ModeSensitivity> modes_of(const Statistics& statistics) {
  if (!statistics.is_sound) return {};
  const auto size = static_cast<std::size_t>(statistics.A.size());
  return mode_sensitivities(std::span(statistics.A.data(), size), static_cast<int>(statistics.A.rows()));
}

/// d lambda / d z_t for all tokens [T, r]; z_t is not yet divided by m.
Eigen::MatrixXcd key_gradient(const KeyOperator& of, const Statistics& s, const ModeSensitivity& mode) {
  const Eigen::Map<const Eigen::RowVectorXcd> u(mode.left.data(), of.rank);
  const Eigen::Map<const Eigen::VectorXcd> v(mode.right.data(), of.rank);
  const Eigen::MatrixXcd inverse_lower =
      s.L.triangularView<Eigen::Lower>().solve(RowMajor::Identity(of.rank, of.rank)).cast<Complex>();
  const Eigen::RowVectorXcd p = u * inverse_lower;
  const Eigen::VectorXcd x = inverse_lower.transpose() * v;
  const auto counted = [&](Eigen::Index t) {
    return t >= 0 && t < s.keys.rows() && of.is_counted[static_cast<std::size_t>(t)] != 0;
  };
  Eigen::MatrixXcd gradient = Eigen::MatrixXcd::Zero(s.keys.rows(), of.rank);
  for (Eigen::Index t = 0; t < s.keys.rows(); ++t) {
    if (!counted(t)) continue;
    const auto along_x = [&](Eigen::Index i) -> Complex { return (s.keys.row(i).cast<Complex>() * x)(0); };
    const auto along_p = [&](Eigen::Index i) -> Complex { return (p * s.keys.row(i).transpose().cast<Complex>())(0); };
    gradient.row(t) -= mode.value * (along_x(t) * p + along_p(t) * x.transpose());
    if (counted(t - 1)) gradient.row(t) += along_x(t - 1) * p;
    if (counted(t + 1)) gradient.row(t) += along_p(t + 1) * x.transpose();
  }
  gradient /= s.m;
  // G and M are divided by m^2 and the ridge is not: a larger m acts as a larger ridge.
  if (s.largest >= 0) {
    const Complex slope = -2.0 * mode.value * of.ridge * (p * x)(0) / s.m;
    gradient.row(s.largest) += slope * s.keys.row(s.largest).cast<Complex>();
  }
  return gradient;
}

std::vector<Eigen::MatrixXcd> projection_gradients(const KeyOperator& of, const Statistics& s,
                                                   const std::vector<ModeSensitivity>& modes) {
  const RowMajorView x(of.inputs.data(), s.keys.rows(), of.width);
  return mapped(modes, [&](const ModeSensitivity& mode) -> Eigen::MatrixXcd {
    return key_gradient(of, s, mode).transpose() * x.cast<Complex>();
  });
}

/// The real numbers that fix a spectrum: both parts of each eigenvalue above the real axis, and the real ones.
struct Condition {
  std::size_t mode;
  bool is_imaginary;
};
std::vector<Condition> conditions_of(std::span<const Complex> values) {
  std::vector<Condition> conditions;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i].imag() < 0) continue;
    conditions.push_back({i, false});
    if (values[i].imag() > 0) conditions.push_back({i, true});
  }
  return conditions;
}

double part_of(const Complex& value, bool is_imaginary) { return is_imaginary ? value.imag() : value.real(); }

/// Where the eigenvalues stand that belong to the targets, in their order.
struct Standing {
  Statistics statistics;
  std::vector<ModeSensitivity> modes;
  std::vector<Complex> values;
  double distance = INFINITY;

  Standing(const KeyOperator& of, std::span<const double> projection, std::span<const Complex> expected,
           std::span<const Complex> target)
      : statistics(statistics_of(of, projection)) {
    const std::vector<ModeSensitivity> found = modes_of(statistics);
    const std::vector<Complex> places = mapped(found, &ModeSensitivity::value);
    double furthest = 0;
    for (const int place : nearest_of_each(expected, places)) {
      if (place < 0) return;
      // A pair that has met on the real axis, or two real ones that have left it, would never part again.
      const bool was_real = target[values.size()].imag() == 0,
                 is_real = places[static_cast<std::size_t>(place)].imag() == 0;
      if (was_real != is_real) return;
      modes.push_back(found[static_cast<std::size_t>(place)]);
      values.push_back(modes.back().value);
      furthest = std::max(furthest, std::abs(values.back() - target[values.size() - 1]));
    }
    distance = furthest;
  }
};

/// The next places on the straight way of each eigenvalue to its target.
std::vector<Complex> next_places(const Standing& now, std::span<const Complex> target) {
  const double share = std::min(1.0, longest_stride / now.distance);
  std::vector<Complex> places;
  for (std::size_t i = 0; i < target.size(); ++i) places.push_back(now.values[i] + share * (target[i] - now.values[i]));
  return places;
}

/// The least change of the projection that takes the eigenvalues there, to first order: J^T (J J^T + damping)^-1
/// residual. Damping leaves nearly degenerate directions (two eigenvalues that meet) unchanged.
std::vector<double> least_change(const KeyOperator& of, const Standing& now, const std::vector<Condition>& conditions,
                                 const std::vector<Complex>& places, double damping) {
  const std::vector<Eigen::MatrixXcd> gradients = projection_gradients(of, now.statistics, now.modes);
  const auto rows = static_cast<Eigen::Index>(conditions.size());
  Eigen::MatrixXd J(rows, static_cast<Eigen::Index>(of.rank) * of.width);
  Eigen::VectorXd residual(rows);
  for (Eigen::Index row = 0; row < rows; ++row) {
    const auto [mode, is_imaginary] = conditions[static_cast<std::size_t>(row)];
    const Eigen::MatrixXcd& gradient = gradients[mode];
    for (Eigen::Index a = 0; a < of.rank; ++a) {
      for (Eigen::Index b = 0; b < of.width; ++b) J(row, a * of.width + b) = part_of(gradient(a, b), is_imaginary);
    }
    residual(row) = part_of(places[mode] - now.values[mode], is_imaginary);
  }
  Eigen::MatrixXd square = J * J.transpose();
  square.diagonal().array() += damping * square.trace();
  const Eigen::VectorXd change = J.transpose() * Eigen::LLT<Eigen::MatrixXd>(square).solve(residual);
  return {change.data(), change.data() + change.size()};
}

std::vector<double> plus(std::span<const double> a, double factor, const std::vector<double>& b) {
  std::vector<double> sum(a.begin(), a.end());
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += factor * b[i];
  return sum;
}

bool is_sound(const KeyOperator& of, std::span<const double> projection) {
  const std::size_t tokens = of.is_counted.size();
  return of.rank > 0 && of.width > 0 && of.is_measured.size() == tokens &&
         of.inputs.size() == tokens * static_cast<std::size_t>(of.width) &&
         projection.size() == static_cast<std::size_t>(of.rank) * static_cast<std::size_t>(of.width);
}

}  // namespace

std::vector<double> operator_of_keys(const KeyOperator& keys, std::span<const double> projection) {
  if (!is_sound(keys, projection)) return {};
  const Statistics found = statistics_of(keys, projection);
  if (!found.is_sound) return {};
  return {found.A.data(), found.A.data() + found.A.size()};
}

SpectrumFit fit_spectrum(const KeyOperator& keys, std::span<const double> projection, std::span<const Complex> target) {
  SpectrumFit fit{{projection.begin(), projection.end()}, INFINITY, 0};
  if (!is_sound(keys, projection)) return fit;
  const std::vector<Complex> start = mapped(modes_of(statistics_of(keys, projection)), &ModeSensitivity::value);
  if (start.size() != target.size() || start.empty()) return fit;
  const std::vector<Condition> conditions = conditions_of(start);
  Standing now(keys, projection, start, target);
  if (!std::isfinite(now.distance)) return fit;  // no way leads from a pair to a real one, or back
  while (now.distance > close_enough && fit.rounds < max_rounds) {
    const std::vector<Complex> places = next_places(now, target);
    bool is_nearer = false;
    for (const double damping : dampings) {
      const std::vector<double> change = least_change(keys, now, conditions, places, damping);
      for (double share = 1; share > 0.02 && !is_nearer; share /= 2) {
        const std::vector<double> tried = plus(fit.projection, share, change);
        Standing next(keys, tried, places, target);
        is_nearer = next.distance < now.distance;
        if (!is_nearer) continue;
        fit.projection = tried;
        now = std::move(next);
      }
      if (is_nearer) break;
    }
    ++fit.rounds;
    if (!is_nearer) break;
  }
  fit.distance = now.distance;
  return fit;
}

}  // namespace afterglow
