// Ridge systems and gates of a model's layers, read from captures, and systems that the user makes.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "core/engine/analyses/solvers/solver_view.h"
#include "core/layers/capture_reader.h"
#include "core/layers/captured_layer.h"

namespace afterglow {

class Trainer;

/// Whether layers of this kind solve known ridge systems: G + εI of a group of tokens, H_t + λ_t I of a token.
bool solves_systems(std::string_view kind);
/// Whether layers of this kind have a known gate that lets their memory decay.
bool has_gate(std::string_view kind);

/// LayerReaders::systems of a part whose kind solves some.
double for_each_system(Trainer& trainer, int part, const CaptureReader& read, std::span<const int> tokens,
                       const SeeSystem& see);

/// Log decays of every head of a part over the captured sequence.
std::vector<HeadGate> read_gates(Trainer& trainer, int part, const CaptureReader& read);
/// Those of every layer with a gate.
std::vector<LayerHalfLives> read_half_lives(Trainer& trainer, const CaptureReader& read);

/// {"eigenvalues": [..]} or {"shape": "geometric" | "clustered" | "outlier", "count": 24, "kappa": 51}, with "mu" and
/// "L" if the iterations should assume other bounds; nothing for {} (only the layer's systems). Throws
/// Error(bad_input).
std::optional<MadeProblem> parse_made_problem(const nlohmann::json& value);
/// H with that spectrum in a fixed orthogonal basis; q has equal components along all eigenvectors.
RidgeProblem system_of(const MadeProblem& made);

/// Runs every solver in every arithmetic.
RacedProblem race(int head, int token, const RidgeProblem& problem, int iterations);
/// The view with the systems of `made` instead of its former ones, or without any.
SolverView with_made(SolverView view, const std::optional<MadeProblem>& made);
/// Chebyshev run backwards in every arithmetic.
std::array<ChebyshevReversal, all_arithmetics.size()> check_reversals(const RidgeProblem& problem, int iterations);
/// Gradients of Chebyshev and conjugate gradient in every arithmetic.
std::vector<GradientLine> check_gradients(const RidgeProblem& problem, double strength, int iterations);

/// Whether layers of this kind store pairs of key and value that a filter can read.
bool has_pairs(std::string_view kind);

/// All filters, Σ_t and the drift of one head.
HeadFilters filters_of(int head, const PairSequence& pairs);
/// Filters on the first 256 tokens of the captured sequence, for as many of the first heads as fit into some tenths of
/// a second.
std::vector<HeadFilters> compare_filters(Trainer& trainer, int part, const CaptureReader& read);

}  // namespace afterglow
