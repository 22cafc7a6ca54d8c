// How an answer depends on the memory that a recurrent layer carries: given d answer / d readout for every token, the
// gradient with respect to the state after every token. A state is read by later tokens alone, so each of these is the
// adjoint of the layer's own recurrence, run backward over one sequence, in float64.
#pragma once
#include <array>
#include <cstddef>
#include <vector>

#include "core/analysis/koopman/ska_head.h"

namespace afterglow {

/// Of rows that hold `parts` equal parts, a part for each head: one of them, row by row; and where it is put again.
std::vector<double> part_of_rows(const std::vector<double>& rows, std::size_t tokens, std::size_t part,
                                 std::size_t parts);
void put_part_of_rows(std::vector<double>& rows, const std::vector<double>& own, std::size_t tokens, std::size_t part,
                      std::size_t parts);

/// One head of a scan S_t = a_t (S_{t-1} + lag_t x_{t-1} B_{t-1}^T) + dt_t x_t B_t^T, y_t = S_t C_t + D x_t over T
/// tokens. Row-major, a row for each token.
struct ScanHead {
  std::size_t width = 0, states = 0;  ///< P and N
  std::vector<double> decay;          ///< a [T]
  std::vector<double> C;              ///< [T,N]
  std::vector<double> readout_slope;  ///< d answer / dy [T,P]
  // Of a scan with `lag` (Mamba-3) alone.
  std::vector<double> lag{};     ///< [T]
  std::vector<double> x{}, B{};  ///< [T,P] and [T,N]
};
/// Gradient with respect to what is carried from token t on: S [T,P,N], and of a scan with `lag` the token's own key
/// and value, [T,N] and [T,P], which enter once more with the next one.
struct ScanSlopes {
  std::vector<double> state, key, value;
};
ScanSlopes scan_slopes(const ScanHead& head);

/// A causal depthwise convolution followed by SiLU: out_t = silu(bias + sum_j weight[c,j] u_{t-w+1+j}).
struct ConvolutionRun {
  std::size_t channels = 0, width = 0;  ///< c and w
  std::vector<double> inputs;           ///< u [T,c]
  std::vector<double> weight;           ///< [c,w]
  std::vector<double> bias;             ///< [c], or empty
  std::vector<double> output_slope;     ///< d answer / d out [T,c]
};
/// Gradient with respect to the inputs that are still seen after token t: [T,w-1,c], oldest first.
std::vector<double> convolution_slopes(const ConvolutionRun& run);

/// One head of Spectral Koopman Attention in its recurrent form (Echo 3.2).
struct RidgeRun {
  SkaHead head;                       ///< without statistics
  double smallest_scale = 1e-6;       ///< m is at least this
  std::vector<double> keys, queries;  ///< z, q [T,r]
  std::vector<double> values;         ///< [T,P]
  std::vector<double> readout_slope;  ///< d answer / dy [T,P]
};
/// Gradient with respect to the state after token t, whose G, M, C and previous key are divided by the key scale m:
/// [T,r,r], [T,r,r], [T,P,r], [T,r], [T]. sigma counts as constant, which is exact while it is at most 1: of the
/// statistics of one sequence the largest singular value of A_w is.
std::array<std::vector<double>, 5> ridge_slopes(const RidgeRun& run);

}  // namespace afterglow
