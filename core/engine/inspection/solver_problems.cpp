// Systems from captures, solver runs and gradient checks.
#include "core/engine/inspection/solver_problems.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <numeric>

#include "core/analysis/linear_algebra/decompositions.h"
#include "core/engine/inspection/layer_readings.h"
#include "core/engine/training/trainer.h"
#include "core/io/error.h"
#include "core/io/json_file.h"
#include "core/layers/layer_kind.h"

namespace afterglow {
namespace {

constexpr std::size_t max_eigenvalues = 128;
constexpr double smallest_eigenvalue = 1e-12, max_eigenvalue = 1e12;
constexpr int max_tokens = 256;  // that filters read
constexpr double process_noises[] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1, 10};

std::vector<double> shaped_spectrum(const std::string& shape, int count, double kappa) {
  std::vector<double> values;
  for (int i = 0; i < count; ++i) {
    const double place = count > 1 ? static_cast<double>(i) / (count - 1) : 1;
    const double spread = std::pow(kappa, place - 1);  // from 1/κ to 1
    if (shape == "geometric") values.push_back(spread);
    // Two groups, each within a factor 1.2.
    if (shape == "clustered") values.push_back(2 * i < count ? (1 + 0.4 * place) / kappa : 1 - 0.4 * (1 - place));
    if (shape == "outlier") values.push_back(i + 1 == count ? 1 : (1 + place) / kappa);
  }
  return values;
}

}  // namespace

bool solves_systems(std::string_view kind) { return readers_of(kind).systems != nullptr; }
bool has_gate(std::string_view kind) { return readers_of(kind).gates != nullptr; }

double for_each_system(Trainer& trainer, int part, const CaptureReader& read, std::span<const int> tokens,
                       const SeeSystem& see) {
  const std::string& kind = trainer.parts()[static_cast<std::size_t>(part)].kind;
  return readers_of(kind).systems(captured_layer(trainer, part, read), tokens, see);
}

std::vector<HeadGate> read_gates(Trainer& trainer, int part, const CaptureReader& read) {
  const std::string& kind = trainer.parts()[static_cast<std::size_t>(part)].kind;
  return readers_of(kind).gates(captured_layer(trainer, part, read));
}

std::vector<LayerHalfLives> read_half_lives(Trainer& trainer, const CaptureReader& read) {
  std::vector<LayerHalfLives> all;
  for (int part = 0; part < static_cast<int>(trainer.parts().size()); ++part) {
    const ModelPart& layer = trainer.parts()[static_cast<std::size_t>(part)];
    if (!has_gate(layer.kind)) continue;
    LayerHalfLives own{part, std::vector<double>(static_cast<std::size_t>(layer.heads), std::nan(""))};
    for (const HeadGate& gate : read_gates(trainer, part, read)) {
      const double sum = std::accumulate(gate.log_decay.begin(), gate.log_decay.end(), 0.0);
      own.of_heads[static_cast<std::size_t>(gate.head)] =
          static_cast<double>(gate.log_decay.size()) * std::numbers::ln2 / std::max(0.0, -sum);
    }
    all.push_back(std::move(own));
  }
  return all;
}

std::optional<MadeProblem> parse_made_problem(const nlohmann::json& value) {
  const std::string where = "solver_problem";
  refuse_unknown_keys(value, {"eigenvalues", "shape", "count", "kappa", "mu", "L"}, where);
  if (value.empty()) return std::nullopt;
  MadeProblem made;
  if (value.contains("eigenvalues")) {
    const nlohmann::json& list = value["eigenvalues"];
    const bool numbers = list.is_array() && std::ranges::all_of(list, [](const auto& v) {
                           return v.is_number() && v.template get<double>() >= smallest_eigenvalue &&
                                  v.template get<double>() <= max_eigenvalue;
                         });
    if (!numbers || list.empty() || list.size() > max_eigenvalues)
      throw BadInput(where, ": eigenvalues are 1 to 128 numbers between 1e-12 and 1e12");
    made.eigenvalues = list.get<std::vector<double>>();
  } else {
    const std::string shape = get_choice(value, "shape", {"geometric", "clustered", "outlier"}, std::nullopt, where);
    made.eigenvalues =
        shaped_spectrum(shape, static_cast<int>(get_integer(value, "count", 24, 2, max_eigenvalues, where)),
                        get_number(value, "kappa", 51, 2, max_eigenvalue, where));
  }
  made.mu = get_number(value, "mu", 0, 0, max_eigenvalue, where);
  made.L = get_number(value, "L", 0, 0, max_eigenvalue, where);
  return made;
}

RidgeProblem system_of(const MadeProblem& made) {
  const auto n = static_cast<Eigen::Index>(made.eigenvalues.size());
  // A reflection in a direction without symmetry: eigenvectors e_j - 2 v_j v, whose rounding errors are those of a
  // general matrix, not of a diagonal one.
  Eigen::VectorXd v(n);
  for (Eigen::Index i = 0; i < n; ++i) v[i] = std::sin(1 + 2.4 * static_cast<double>(i)) + 1.5;
  v.normalize();
  const RowMajor basis = RowMajor::Identity(n, n) - 2 * v * v.transpose();
  const Eigen::Map<const Eigen::VectorXd> eigenvalues(made.eigenvalues.data(), n);
  RidgeProblem problem;
  problem.H = stored(basis * eigenvalues.asDiagonal() * basis);
  problem.q = stored(basis.rowwise().sum() / std::sqrt(static_cast<double>(n)));
  const auto [low, high] = std::ranges::minmax_element(made.eigenvalues);
  problem.mu = made.mu > 0 ? made.mu : *low;
  problem.L = std::max(made.L > 0 ? made.L : *high, problem.mu);
  return problem;
}

RacedProblem race(int head, int token, const RidgeProblem& problem, int iterations) {
  RacedProblem raced{head, token, problem.ridge, problem.mu, problem.L, ridge_eigenvalues(problem), {}};
  const double length = frobenius_norm(problem.q);
  for (std::size_t a = 0; a < all_arithmetics.size(); ++a) {
    for (std::size_t s = 0; s < all_solvers.size(); ++s) {
      raced.races[a][s] = run_solver(all_solvers[s], problem, iterations, all_arithmetics[a]).residuals;
      for (double& residual : raced.races[a][s]) residual /= length;
    }
  }
  return raced;
}

SolverView with_made(SolverView view, const std::optional<MadeProblem>& made) {
  view.made_of = made;
  view.made.reset();
  view.made_gradients.clear();
  view.made_reversals = {};
  if (!made) return view;
  const RidgeProblem problem = system_of(*made);
  view.made = race(0, -1, problem, view.iterations);
  view.made_gradients = check_gradients(problem, 0, view.iterations);
  view.made_reversals = check_reversals(problem, view.iterations);
  return view;
}

std::array<ChebyshevReversal, all_arithmetics.size()> check_reversals(const RidgeProblem& problem, int iterations) {
  std::array<ChebyshevReversal, all_arithmetics.size()> reversals;
  for (std::size_t a = 0; a < all_arithmetics.size(); ++a)
    reversals[a] = reverse_chebyshev(problem, iterations, all_arithmetics[a]);
  return reversals;
}

std::vector<GradientLine> check_gradients(const RidgeProblem& problem, double strength, int iterations) {
  std::vector<double> upstream;
  for (std::size_t i = 0; i < problem.q.size(); ++i) upstream.push_back(i % 2 ? -1 : 1);
  std::vector<int> counts;
  for (int count = 1; count <= iterations; count += count < 6 ? 1 : 3) counts.push_back(count);
  std::vector<GradientLine> lines;
  for (const SolverKind solver : {SolverKind::chebyshev, SolverKind::conjugate_gradient}) {
    for (const Arithmetic arithmetic : all_arithmetics)
      lines.push_back({solver, arithmetic, gradient_check(solver, problem, strength, upstream, counts, arithmetic)});
  }
  return lines;
}

HeadFilters filters_of(int head, const PairSequence& pairs) {
  const double cubed = std::pow(pairs.key_width(), 3);
  const int looks = std::clamp(static_cast<int>(3e6 / cubed), 8, 48);  // for Σ_t and for the drift
  HeadFilters found;
  found.head = head;
  for (const FilterKind kind : all_filters) {
    if (kind != FilterKind::kda || pairs.fades_by_channel()) found.runs.push_back(run_filter(kind, pairs));
  }
  found.steady = uncertainty(FilterKind::kalman, pairs, looks);
  found.fading = uncertainty(FilterKind::fading_kalman, pairs, looks);
  for (const bool fades : {false, true}) {
    if (!fades || !pairs.log_decay.empty()) found.sweeps.push_back(sweep_process_noise(fades, process_noises, pairs));
  }
  for (const Arithmetic arithmetic : all_arithmetics) {
    found.drifts.push_back(drift(pairs, arithmetic, 1, looks));
    found.weaker_drifts.push_back(drift(pairs, arithmetic, weak_share, looks));
  }
  return found;
}

bool has_pairs(std::string_view kind) { return readers_of(kind).pairs != nullptr; }

std::vector<HeadFilters> compare_filters(Trainer& trainer, int part, const CaptureReader& read) {
  const CapturedLayer whole = captured_layer(trainer, part, read);
  const CapturedLayer layer = captured_layer(trainer, part, read, std::min(max_tokens, whole.tokens));
  const auto reader = readers_of(trainer.parts()[static_cast<std::size_t>(part)].kind).pairs;
  std::vector<HeadFilters> all;
  double budget = 2e8;  // multiplications
  for (int head = 0; head < layer.heads() && (head == 0 || budget > 0); ++head) {
    const PairSequence pairs = reader(layer, head);
    budget -= layer.tokens * std::pow(pairs.key_width(), 3);
    if (is_sound(pairs)) all.push_back(filters_of(head, pairs));
  }
  return all;
}

}  // namespace afterglow
