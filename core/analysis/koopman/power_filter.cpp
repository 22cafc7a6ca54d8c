// The power filter on a live spectrum.
#include "core/analysis/koopman/power_filter.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/analysis/linear_algebra/decompositions.h"

namespace afterglow {
namespace {

using Complex = std::complex<double>;

bool all_finite(std::span<const Complex> values) {
  return std::ranges::all_of(
      values, [](const Complex& value) { return std::isfinite(value.real()) && std::isfinite(value.imag()); });
}

struct Modes {
  Eigen::VectorXcd values, coefficients;
  Eigen::MatrixXcd vectors;
  double condition = INFINITY;
};

/// Eigenvectors of A and the query's coefficients; the condition is infinite when there is no full set.
Modes modes_of(const RowMajor& A, const Eigen::VectorXd& query) {
  Modes modes;
  Eigenpairs pairs = eigenpairs(A);
  if (pairs.values.size() == 0) return modes;
  modes.values = std::move(pairs.values);
  modes.vectors = std::move(pairs.vectors);
  const Eigen::VectorXd singular = singular_values_of(modes.vectors);
  const double least = singular[singular.size() - 1];
  if (!(least > std::numeric_limits<double>::epsilon() * singular[0])) return modes;
  modes.condition = singular[0] / least;
  modes.coefficients = solve(modes.vectors, query.cast<Complex>());
  return modes;
}

/// Splits the modes and returns the persistent part of the query.
Eigen::VectorXd split(const Modes& modes, double distance, PersistentRegime& result) {
  Eigen::VectorXcd kept = modes.coefficients;
  for (Eigen::Index i = 0; i < modes.values.size(); ++i) {
    const double from_one = std::abs(1.0 - modes.values[i]);
    if (from_one <= distance) {
      ++result.persistent;
      result.delta = std::max(result.delta, from_one);
    } else {
      ++result.transient;
      result.rho = std::max(result.rho, std::abs(modes.values[i]));
      kept[i] = 0.0;
    }
  }
  return (modes.vectors * kept).real();
}

void fill_bounds(double norm_F, int power, PersistentRegime& result) {
  const double drift = std::expm1(power * std::log1p(result.delta));
  const Complex slowest = result.rho;
  const double fading = power_gains({&slowest, 1}, power).front() * result.transient_norm;
  const double inside = drift * result.persistent_norm + fading;
  result.bound = power == 0 ? norm_F * result.transient_norm : norm_F * result.eigenvector_condition * inside;
  result.bound_without_filter = norm_F * result.transient_norm;
  result.applies = result.rho < 1.0;
  result.helps_by_bound = result.applies && result.bound < result.bound_without_filter;
  result.helps = result.error < result.error_without_filter;
}

}  // namespace

std::vector<double> power_gains(std::span<const Complex> eigenvalues, int power) {
  std::vector<double> gains;
  if (power < 0) return gains;
  for (const Complex& value : eigenvalues) gains.push_back(std::pow(std::abs(value), power));
  return gains;
}

std::optional<Contractivity> contractivity(const SkaHead& head, int max_power) {
  const SkaOperators operators = ska_operators(head);
  if (operators.empty() || max_power < 0) return std::nullopt;
  Contractivity result;
  result.sigma = operators.sigma;
  result.normaliser = std::max(head.sigma > 0.0 ? head.sigma : operators.sigma, 1.0);
  result.normalised_norm = result.sigma / result.normaliser;
  result.contractive = result.normalised_norm <= 1.0 + 1e-12;
  const RowMajor A = RowMajorView(operators.A_w.data(), head.rank, head.rank) / result.normaliser;
  RowMajor power = RowMajor::Identity(head.rank, head.rank);
  for (int K = 0; K <= max_power; ++K) {
    const double restoring = std::pow(head.gamma, K);
    result.norms.push_back(spectral_norm(power));
    result.restored.push_back(restoring * result.norms.back());
    result.paper_bounds.push_back(restoring);
    result.bounds.push_back(std::pow(head.gamma * result.normalised_norm, K));
    power = A * power;
  }
  return result;
}

std::optional<ExcessRisk> excess_risk(const SkaHead& head, int max_power) {
  const SkaOperators operators = ska_operators(head);
  if (operators.empty() || max_power < 0) return std::nullopt;
  const RowMajorView F(operators.readout.data(), head.value_width, head.rank),
      A(operators.A.data(), head.rank, head.rank);
  ExcessRisk result;
  result.explained = F.squaredNorm();
  RowMajor filtered_F = F;
  for (int K = 0; K <= max_power; ++K) {
    result.excess.push_back((filtered_F - F).squaredNorm());
    result.with_gain.push_back((head.eta * filtered_F - F).squaredNorm());
    filtered_F = filtered_F * A;
  }
  return result;
}

std::optional<PersistentRegime> persistent_regime(const SkaHead& head, std::span<const double> query, double distance) {
  const SkaOperators operators = ska_operators(head);
  if (operators.empty() || query.size() != static_cast<std::size_t>(head.rank)) return std::nullopt;
  if (!all_finite(query) || std::isnan(distance)) return std::nullopt;
  const int r = head.rank;
  const RowMajorView L(operators.L.data(), r, r), A(operators.A.data(), r, r);
  const RowMajor F = RowMajorView(operators.readout.data(), head.value_width, r);
  const Eigen::VectorXd whitened =
      L.triangularView<Eigen::Lower>().solve(Eigen::Map<const Eigen::VectorXd>(query.data(), r));
  const Modes modes = modes_of(A, whitened);
  if (!std::isfinite(modes.condition) || !modes.coefficients.allFinite()) return std::nullopt;

  PersistentRegime result;
  result.eigenvector_condition = modes.condition;
  const Eigen::VectorXd persistent = split(modes, distance, result);
  Eigen::VectorXd answer = whitened;
  for (int k = 0; k < head.power; ++k) answer = A * answer;
  result.persistent_norm = persistent.norm();
  result.transient_norm = (whitened - persistent).norm();
  result.error = (F * (answer - persistent)).norm();
  result.error_without_filter = (F * (whitened - persistent)).norm();
  fill_bounds(spectral_norm(F), head.power, result);
  return result;
}

double widest_gap(std::span<const Complex> eigenvalues) {
  std::vector<Complex> values(eigenvalues.begin(), eigenvalues.end());
  const auto from_one = [](const Complex& value) { return std::abs(1.0 - value); };
  if (!all_finite(eigenvalues)) return INFINITY;
  std::ranges::sort(values, [&](const Complex& a, const Complex& b) { return from_one(a) < from_one(b); });
  double widest = 0.0, distance = INFINITY, max_modulus = 0.0;
  for (std::size_t i = values.size(); i-- > 1;) {
    max_modulus = std::max(max_modulus, std::abs(values[i]));
    const double near = from_one(values[i - 1]), far = from_one(values[i]);
    if (max_modulus >= 1.0) break;
    // The halves of a conjugate pair are equally far from 1 and are never parted.
    if (far - near > std::max(widest, 1e-12)) {
      widest = far - near;
      distance = near + 0.5 * widest;
    }
  }
  return distance;
}

}  // namespace afterglow
