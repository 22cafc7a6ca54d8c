// Perturbed operators and the bounds on their change.
#include "core/analysis/koopman/perturbation.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/analysis/linear_algebra/decompositions.h"
#include "core/analysis/linear_algebra/spectrum.h"
#include "core/random/random.h"

namespace afterglow {
namespace {

using Complexes = std::vector<std::complex<double>>;

/// |V| |V^-1| of the unit eigenvectors of A; infinite when they are dependent or were not found.
double eigenvector_condition(const RowMajor& A) {
  const Eigenpairs pairs = eigenpairs(A);
  if (pairs.values.size() == 0) return INFINITY;
  const Eigen::VectorXd values = singular_values_of(pairs.vectors);
  const double least = values[values.size() - 1];
  return least > std::numeric_limits<double>::epsilon() * values[0] ? values[0] / least : INFINITY;
}

double max_distance_to_nearest(const Complexes& from, const Complexes& to) {
  double largest = 0.0;
  for (const std::complex<double>& value : from) {
    double nearest = INFINITY;
    for (const std::complex<double>& other : to) nearest = std::min(nearest, std::abs(value - other));
    largest = std::max(largest, nearest);
  }
  return largest;
}

Complexes eigenvalues_of(const RowMajor& A) {
  return eigenvalues({A.data(), static_cast<std::size_t>(A.size())}, static_cast<int>(A.rows()));
}

/// Unit directions of noise, drawn once for all sizes.
struct NoiseDirections {
  RowMajor G, M;
  NoiseDirections(int r, std::uint64_t seed, int draw) : G(r, r), M(r, r) {
    Random random(seed, perturbation_stream, static_cast<std::uint64_t>(draw));
    for (double& entry : G.reshaped()) entry = random.normal();
    for (double& entry : M.reshaped()) entry = random.normal();
    G = (G + G.transpose()).eval();
    G /= spectral_norm(G);
    M /= spectral_norm(M);
  }
};

/// The true operator and what the bounds need of it; computed once for many noises.
struct TrueOperator {
  RowMajor gram, M, A, A_w, L;  // gram = G~
  double norm_gram = 0.0, min_gram = 0.0, norm_A = 0.0, kappa_V = 1.0;
  Complexes eigenvalues;
  bool sound = false;

  explicit TrueOperator(const SkaHead& head) {
    const SkaOperators operators = ska_operators(head);
    if (operators.empty()) return;
    const int r = head.rank;
    gram = RowMajorView(head.G.data(), r, r) + head.ridge * RowMajor::Identity(r, r);
    M = RowMajorView(head.M.data(), r, r);
    L = RowMajorView(operators.L.data(), r, r);
    A_w = RowMajorView(operators.A_w.data(), r, r);
    A = L * L.triangularView<Eigen::Lower>().transpose().solve(A_w.transpose()).transpose();
    const SymmetricRange range = symmetric_range(numbers_of(gram), r);
    norm_gram = range.largest;
    min_gram = range.smallest;
    norm_A = spectral_norm(A);
    kappa_V = eigenvector_condition(A_w);
    eigenvalues = eigenvalues_of(A_w);
    sound = !eigenvalues.empty();
  }
};

void fill_eigenvalue_bounds(const TrueOperator& truth, const RowMajor& change, Perturbation& result) {
  const auto lower = truth.L.triangularView<Eigen::Lower>();
  const RowMajor whitened = lower.solve(change * truth.L);
  result.eigenvalues = eigenvalues_of(truth.A_w + whitened);  // similar to A^
  result.eigenvector_condition = truth.kappa_V;
  result.eigenvalue_change = max_distance_to_nearest(result.eigenvalues, truth.eigenvalues);
  result.bauer_fike = truth.kappa_V * spectral_norm(whitened);
  result.combined_bound = truth.kappa_V * result.operator_bound;
  const double radius = result.eigenvalues.empty() ? 0.0 : std::abs(result.eigenvalues.front());
  result.pencil_bound = truth.kappa_V * (result.noise_M + radius * result.noise_G) / truth.min_gram;
}

std::optional<Perturbation> measure(const TrueOperator& truth, const RowMajor& dG, const RowMajor& dM) {
  if (!truth.sound || !dG.allFinite() || !dM.allFinite()) return std::nullopt;
  Perturbation result;
  result.noise_G = spectral_norm(dG);
  result.noise_M = spectral_norm(dM);
  const RowMajor gram = truth.gram + dG;
  const std::vector<double> singular =
      singular_values(numbers_of(gram), static_cast<int>(gram.rows()), static_cast<int>(gram.cols()));
  if (singular.empty() || !(singular.back() > std::numeric_limits<double>::epsilon() * singular.front()))
    return std::nullopt;
  result.positive_definite = symmetric_range(numbers_of(gram), static_cast<int>(gram.rows())).smallest > 0.0;
  const double least = singular.back();
  // A^ - A = (E_M - A E_G) (G~ + E_G)^-1: exact, and without the cancellation of a difference (eq. 41).
  const RowMajor numerator = dM - truth.A * dG;
  const RowMajor change =
      solve_with_full_pivoting(Eigen::MatrixXd(gram.transpose()), numerator.transpose()).transpose();
  if (!change.allFinite()) return std::nullopt;
  result.operator_change = spectral_norm(change);
  const double kappa = truth.norm_gram / truth.min_gram;
  result.operator_bound = (result.noise_M + truth.norm_A * kappa * result.noise_G) / least;
  result.sharp_operator_bound = (result.noise_M + truth.norm_A * result.noise_G) / least;
  fill_eigenvalue_bounds(truth, change, result);
  return result;
}

}  // namespace

std::vector<std::optional<Perturbation>> measure_perturbations(const SkaHead& head,
                                                               std::span<const StatisticsNoise> noises) {
  std::vector<std::optional<Perturbation>> results(noises.size());
  const TrueOperator truth(head);
  for (std::size_t i = 0; truth.sound && i < noises.size(); ++i) {
    const auto& [G, M] = noises[i];
    if (G.size() != head.G.size() || M.size() != head.M.size()) continue;
    results[i] =
        measure(truth, RowMajorView(G.data(), head.rank, head.rank), RowMajorView(M.data(), head.rank, head.rank));
  }
  return results;
}

std::vector<NoisePoint> noise_sweep(const SkaHead& head, std::span<const double> sizes, int draws, std::uint64_t seed) {
  if (ska_operators(head).empty()) return {};
  const double unit_G = spectral_norm(head.G, head.rank, head.rank),
               unit_M = spectral_norm(head.M, head.rank, head.rank);
  std::vector<NoiseDirections> directions;
  for (int draw = 0; draw < draws; ++draw) directions.emplace_back(head.rank, seed, draw);
  std::vector<StatisticsNoise> noises;
  for (const double size : sizes) {
    for (const NoiseDirections& noise : directions)
      noises.push_back({stored(size * unit_G * noise.G), stored(size * unit_M * noise.M)});
  }
  const std::vector<std::optional<Perturbation>> measured = measure_perturbations(head, noises);
  std::vector<NoisePoint> points;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    const std::size_t kinds = directions.size();
    if (measured[i]) points.push_back({sizes[i / kinds], static_cast<int>(i % kinds), *measured[i]});
  }
  return points;
}

}  // namespace afterglow
