// Results of the solver laboratory: every solver and arithmetic on ridge systems of a layer or of the user; condition
// numbers by token; gates; gradients by iteration count.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/analysis/attention/token_weights.h"
#include "core/analysis/solvers/gradient_check.h"
#include "core/analysis/solvers/kalman.h"
#include "core/analysis/solvers/solvers.h"

namespace afterglow {

/// |r_i|/|q| of every solver in one arithmetic, in the order of all_solvers; Cholesky has one number, NaN if it failed.
using SolverRace = std::array<std::vector<double>, all_solvers.size()>;

/// One system (H + λI) x = q and its solutions.
struct RacedProblem {
  int head = 0, token = -1;                                ///< token of the query; -1: made by the user
  double ridge = 0, mu = 0, L = 0;                         ///< λ and the bounds that the iterations assume
  std::vector<double> eigenvalues;                         ///< of H + λI, ascending
  std::array<SolverRace, all_arithmetics.size()> races{};  ///< in the order of all_arithmetics
  double kappa() const { return eigenvalues.empty() ? 0 : eigenvalues.back() / eigenvalues.front(); }
};

/// H_t of one head at some tokens: κ(H_t + λI) for any λ.
struct HeadConditioning {
  int head = 0;
  std::vector<int> tokens;
  std::vector<double> smallest, largest, norm;  ///< eigenvalues of H_t and |H_t|_F
  std::vector<double> ridge;                    ///< λ_t in the layer
};

/// Gradients of one system by iteration count.
struct GradientLine {
  SolverKind solver = SolverKind::chebyshev;
  Arithmetic arithmetic = Arithmetic::fp64;
  std::vector<GradientCheck> checks;
};

/// A system made by the user: eigenvalues of H + λI and the bounds that the iterations assume.
struct MadeProblem {
  std::vector<double> eigenvalues;  ///< positive, at most 128, in the user's order
  double mu = 0, L = 0;             ///< 0: the ends of the spectrum
};

constexpr double weak_share = 1e-3;  ///< of λ, for HeadFilters::weaker_drifts

/// The pairs that one head stores, as six filters of Gated KalmaNet's section 6 would have written them.
struct HeadFilters {
  int head = 0;
  std::vector<FilterRun> runs;
  Uncertainty steady, fading;                   ///< of the exact filter with A_t = I and with decay
  std::vector<NoiseSweep> sweeps;               ///< of the exact filter with A_t = I and with the head's own A_t
  std::vector<DriftRun> drifts, weaker_drifts;  ///< in the order of all_arithmetics, at λ and at weak_share of it
};

/// How many tokens halve what the heads of one layer hold of a token, from the mean of their log gates over the
/// inspected sequence, where channels have gates of their own also over these; infinite for a head that keeps all.
struct LayerHalfLives {
  int layer = -1;                ///< index into ModelSummary::layers
  std::vector<double> of_heads;  ///< NaN for a head without a gate
};

struct SolverView {
  std::int64_t step = 0;  ///< training step of the weights
  int layer = -1;         ///< layer of the systems, index into ModelSummary::layers; -1: no layer solves any
  double strength = 0;    ///< a where λ_t = a |H_t|_F; 0: λ is fixed
  int iterations = 0;
  int own_iterations = -1;             ///< r, the number of iterations in the layer; -1: it solves exactly
  std::vector<RacedProblem> problems;  ///< some tokens of every head, head by head
  std::vector<HeadConditioning> conditioning;
  std::vector<GradientLine> gradients;  ///< of the worst conditioned problem
  /// For the same problem: Chebyshev run backwards, in the order of all_arithmetics.
  std::array<ChebyshevReversal, all_arithmetics.size()> reversals{};
  int gate_layer = -1;  ///< the layer of `gates`: `layer` if it has a gate, else the first that has
  std::vector<HeadGate> gates;
  std::vector<LayerHalfLives> half_lives;  ///< of every layer with a gate
  int pair_layer = -1;                     ///< the layer of `filters`, found as `gate_layer`
  std::vector<HeadFilters> filters;

  // The user's own system, if there is one.
  std::optional<MadeProblem> made_of;
  std::optional<RacedProblem> made;
  std::vector<GradientLine> made_gradients;
  std::array<ChebyshevReversal, all_arithmetics.size()> made_reversals{};
};

}  // namespace afterglow
