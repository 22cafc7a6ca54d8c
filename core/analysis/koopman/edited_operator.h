// A Koopman operator with some of its modes moved or switched off: what an inspected sequence asks "what if" with.
#pragma once
#include <complex>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "core/analysis/koopman/mode_decomposition.h"

namespace afterglow {

/// One change. Of a conjugate pair either member stands for both: the partner moves along, so that the operator stays
/// real.
struct ModeEdit {
  /// Place in the list of eigenvalues: of A_w by modulus, descending (comes_before); of a Koopman MLP as its parameters
  /// stand.
  int mode = 0;
  bool is_off = false;
  /// Eigenvalue of A_w to move to. A pair follows anywhere; a mode that does not turn stays real and keeps its sign:
  /// it takes the modulus.
  std::optional<std::complex<double>> moved_to{};
  bool is_number = false;  ///< `mode` is the number that the mode keeps (NumberedModes) instead of its place
  bool operator==(const ModeEdit&) const = default;
};

/// Changes of one head for one forward pass.
struct HeadEdit {
  bool is_off = false;
  std::optional<double> gamma{}, eta{};
  std::vector<ModeEdit> modes{};
  NumberedModes numbered{};  ///< where modes that are named by their numbers take these from
  bool is_plain() const { return !is_off && !gamma && !eta && modes.empty(); }
};
/// Weights in [0, 1] with which tokens enter a layer's sums: 0 is left out, 1 counted. A token's own weight goes before
/// that of its role: filler 0, facts 1, questions 2.
struct SumWeights {
  std::map<int, double> tokens{}, roles{};
  bool empty() const { return tokens.empty() && roles.empty(); }
  /// Nothing for a token that the layer's own mask decides about.
  std::optional<double> at(int token, int role) const;
  bool operator==(const SumWeights&) const = default;
};
/// Changes of a layer for one forward pass; its parameters stay unchanged.
struct LayerEdit {
  std::optional<int> power{};
  std::optional<double> ridge{};
  std::vector<HeadEdit> heads{};  ///< empty, or one for each head; of a Koopman MLP one, of which only modes count
  SumWeights weights{};
};

struct EditedModes {
  std::vector<std::complex<double>> eigenvalues;  ///< after the edits, in the order before them
  std::vector<bool> is_off;                       ///< for each eigenvalue
};
/// Edits of modes that are not there do nothing. Numbers are those that the eigenvalues take from `numbered`; without
/// it, a number is the place.
EditedModes edit_modes(const std::vector<std::complex<double>>& eigenvalues, std::span<const ModeEdit> edits,
                       const NumberedModes& numbered = {});

/// The same of learned eigenvalues (Echo 3.3), each of which stands for itself and its conjugate: it moves alone, stays
/// on its side of the real axis (so that either one of both may be dragged), and what is led out of the unit disk ends
/// on the circle, by the layer's own division by max(1, modulus).
EditedModes edit_pairs(const std::vector<std::complex<double>>& eigenvalues, std::span<const ModeEdit> edits);

/// W [r*r] = V diag(kept (s lambda)^K) V^-1, row-major, of A_w [r*r] with A = s A_w, s = scale, K = power: A^K without
/// edits. Only what an edit changes goes through the eigenvectors; with every mode off W is exactly zero, also for
/// K = 0. `numbered` is as for edit_modes. Empty when A_w has another size or is not finite, or when edited modes have
/// no eigenvectors to tell them apart (a defective A_w).
std::vector<double> edited_power(std::span<const double> A_w, int r, double scale, int power,
                                 std::span<const ModeEdit> edits, const NumberedModes& numbered = {});

/// E [P*r] = C L^-T W L^-1, so that y = (eta / m) E q (Echo eq. 7 with W for A^K). Empty when a size is wrong.
std::vector<double> edited_readout(std::span<const double> C, std::span<const double> L, std::span<const double> W,
                                   int r, int value_width);

}  // namespace afterglow
