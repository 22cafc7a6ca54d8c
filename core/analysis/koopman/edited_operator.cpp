// The change of each edited mode is added to the power of the operator: W = A^K + sum (new - old) v_i u_i^T.
#include "core/analysis/koopman/edited_operator.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/analysis/linear_algebra/decompositions.h"
#include "core/analysis/linear_algebra/spectrum.h"

namespace afterglow {
namespace {

using Complex = std::complex<double>;

/// Beyond it eigenvectors of unit length are parallel but for rounding.
constexpr double max_left_vector = 1e9;

/// Whole powers by products, so that (-x)^K keeps its sign and 0^0 is 1.
Complex power_of(Complex base, int power) {
  Complex result = 1;
  for (int k = 0; k < power; ++k) result *= base;
  return result;
}

/// The other one of a conjugate pair; the mode itself where it is real.
std::size_t partner_of(const std::vector<Complex>& modes, std::size_t i) {
  if (modes[i].imag() == 0) return i;
  for (std::size_t j = 0; j < modes.size(); ++j) {
    if (j != i && modes[j] == std::conj(modes[i])) return j;
  }
  return i;
}

void move_mode(const std::vector<Complex>& before, std::vector<Complex>& after, std::size_t i, Complex to) {
  const std::size_t partner = partner_of(before, i);
  if (partner == i) {
    after[i] = before[i].real() < 0 ? -std::abs(to) : std::abs(to);
    return;
  }
  const Complex upper(to.real(), std::abs(to.imag()));
  after[i] = before[i].imag() > 0 ? upper : std::conj(upper);
  after[partner] = std::conj(after[i]);
}

Eigen::MatrixXd power_of(const Eigen::MatrixXd& A, int power) {
  Eigen::MatrixXd result = Eigen::MatrixXd::Identity(A.rows(), A.cols());
  for (int k = 0; k < power; ++k) result = (result * A).eval();
  return result;
}

}  // namespace

std::optional<double> SumWeights::at(int token, int role) const {
  if (const auto own = tokens.find(token); own != tokens.end()) return own->second;
  const auto of_role = roles.find(role);
  return of_role == roles.end() ? std::nullopt : std::optional(of_role->second);
}

EditedModes edit_modes(const std::vector<Complex>& before, std::span<const ModeEdit> edits,
                       const NumberedModes& numbered) {
  EditedModes modes{before, std::vector<bool>(before.size(), false)};
  std::vector<int> numbers;
  if (std::ranges::any_of(edits, &ModeEdit::is_number)) numbers = track_modes(numbered, before);
  for (const ModeEdit& edit : edits) {
    const auto i =
        static_cast<std::size_t>(edit.is_number ? std::ranges::find(numbers, edit.mode) - numbers.begin() : edit.mode);
    if (i >= before.size()) continue;
    if (edit.is_off) modes.is_off[i] = modes.is_off[partner_of(before, i)] = true;
    if (edit.moved_to) move_mode(before, modes.eigenvalues, i, *edit.moved_to);
  }
  return modes;
}

EditedModes edit_pairs(const std::vector<Complex>& before, std::span<const ModeEdit> edits) {
  EditedModes modes{before, std::vector<bool>(before.size(), false)};
  for (const ModeEdit& edit : edits) {
    if (edit.mode < 0 || static_cast<std::size_t>(edit.mode) >= before.size()) continue;
    const auto i = static_cast<std::size_t>(edit.mode);
    modes.is_off[i] = edit.is_off;
    if (!edit.moved_to) continue;
    const Complex upper(edit.moved_to->real(), std::abs(edit.moved_to->imag()));
    modes.eigenvalues[i] = (before[i].imag() < 0 ? std::conj(upper) : upper) / std::max(1.0, std::abs(upper));
  }
  return modes;
}

std::vector<double> edited_power(std::span<const double> A_w, int r, double scale, int power,
                                 std::span<const ModeEdit> edits, const NumberedModes& numbered) {
  if (r < 1 || A_w.size() != static_cast<std::size_t>(r) * static_cast<std::size_t>(r) || !std::isfinite(scale))
    return {};
  const RowMajorView matrix(A_w.data(), r, r);
  if (!matrix.allFinite()) return {};
  Eigen::MatrixXd W = power_of(scale * matrix, power);
  if (edits.empty()) return stored(W);
  const Eigenpairs pairs = eigenpairs(matrix);
  if (pairs.values.size() == 0) return {};
  std::vector<int> order(static_cast<std::size_t>(r));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int a, int b) { return comes_before(pairs.values[a], pairs.values[b]); });
  std::vector<Complex> before;
  for (const int place : order) before.push_back(pairs.values[place]);
  const EditedModes modes = edit_modes(before, edits, numbered);
  if (std::ranges::all_of(modes.is_off, [](bool off) { return off; })) return std::vector<double>(A_w.size(), 0.0);
  Eigen::VectorXcd change(r);
  for (std::size_t i = 0; i < before.size(); ++i) {
    const Complex gain = modes.is_off[i] ? Complex(0) : power_of(scale * modes.eigenvalues[i], power);
    change[order[i]] = gain - power_of(scale * before[i], power);
  }
  const Eigen::MatrixXcd left = inverse(pairs.vectors);
  if (!(left.cwiseAbs().maxCoeff() < max_left_vector)) return {};
  W += (pairs.vectors * change.asDiagonal() * left).real();
  return W.allFinite() ? stored(W) : std::vector<double>{};
}

std::vector<double> edited_readout(std::span<const double> C, std::span<const double> L, std::span<const double> W,
                                   int r, int value_width) {
  const auto square = static_cast<std::size_t>(std::max(r, 0)) * static_cast<std::size_t>(std::max(r, 0));
  if (r < 1 || value_width < 1 || L.size() != square || W.size() != square ||
      C.size() != static_cast<std::size_t>(r) * static_cast<std::size_t>(value_width))
    return {};
  const RowMajorView lower(L.data(), r, r);
  const auto triangle = lower.triangularView<Eigen::Lower>();
  // From the left F = C L^-T, from the right F W L^-1.
  Eigen::MatrixXd F = triangle.solve(RowMajorView(C.data(), value_width, r).transpose().eval()).transpose();
  F = (F * RowMajorView(W.data(), r, r)).eval();
  return stored(triangle.transpose().solve(F.transpose().eval()).transpose());
}

}  // namespace afterglow
