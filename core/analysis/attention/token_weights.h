// Equivalent attention: with what weight each token's value enters each token's output, for layers with and without
// attention, as one kind of matrix.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace afterglow {

/// Every function answers w [T*T], row-major: row t, column s is the weight of value s in output t. Empty when T < 1, a
/// size is wrong, or an input or a weight is not finite.
using WeightMatrix = std::vector<double>;

/// One head of SKA as its captures hold it. Positions are cut into pieces; the queries of piece g are answered from the
/// statistics of the pieces before it, and of piece g too unless `exclusive`. Modes prefix and masked: piece = T, one
/// group. chunk: piece = S, exclusive. recurrent: piece = 1. There are ceil(T / piece) groups.
struct SkaTokens {
  int tokens = 0, rank = 0, piece = 0;
  bool exclusive = false;
  std::span<const double> keys, queries;  ///< [T*r], as projected, not divided by the key scale m
  std::span<const double> L, A_w;         ///< [groups*r*r]
  std::span<const double> m, sigma;       ///< [groups]
  double gamma = 1.0;
  int power = 2;                       ///< K
  std::span<const std::uint8_t> mask;  ///< [T], positions that contribute; empty: all
};
/// w_ts = z_s^T G~^-1 Phi_K q_t = (L^-1 z_s)^T A^K (L^-1 q_t), A = gamma / max(sigma, 1) A_w, keys and queries divided
/// by the m of the group; y_t = eta sum_s w_ts v_s, before o_proj (Echo eq. 13, prop. I.8). Weights may be negative and
/// do not sum to 1. 0 where s does not contribute to the group of t; in prefix mode the future contributes.
WeightMatrix ska_token_weights(const SkaTokens& head);

/// scale q_t . k_s for s <= t; y_t = sum_s w_ts v_s.
WeightMatrix linear_token_weights(std::span<const double> keys, std::span<const double> queries, int tokens,
                                  double scale);

/// Mamba-2: C_t . B_s dt_s prod_{s < u <= t} a_u for s <= t; B, C [T*N], dt [T], and the inspected running sum
/// `log_decay_cumsum` [T] of log a. y_t = sum_s w_ts x_s + D x_t; the skip D is not part of the weights.
WeightMatrix mamba2_token_weights(std::span<const double> B, std::span<const double> C, std::span<const double> dt,
                                  std::span<const double> log_decay_cumsum, int tokens);

/// Mamba-3: q_t . k_s (dt_s + lag_{s+1}) prod_{s < u <= t} a_u for s < t, and q_t . k_t dt_t for the token itself;
/// keys, queries [T*M] of one head, dt and lag [T] the trapezoidal rule's weights. As above otherwise.
WeightMatrix trapezoid_token_weights(std::span<const double> keys, std::span<const double> queries,
                                     std::span<const double> dt, std::span<const double> lag,
                                     std::span<const double> log_decay_cumsum, int tokens);

/// One head of the delta-rule family (core/backend/delta.h), what enters its core.
struct DeltaTokens {
  int tokens = 0;
  std::span<const double> keys, queries;  ///< [T*K]
  std::span<const double> beta;           ///< [T]; empty: a sum without correction
  std::span<const double> log_decay;      ///< [T], or [T*K] by channel, or empty for none
  double scale = 1.0;
};
/// w_ts = scale beta_s q_t^T (prod_{u = s+1..t} (I - beta_u k_u k_u^T) D_u) k_s for s <= t, D_u the decay; without beta
/// scale q_t^T (prod D_u) k_s. y_t = sum_s w_ts v_s, exactly: the rules are linear in the values.
WeightMatrix delta_token_weights(const DeltaTokens& head);

/// w_ts = weight_s q_t^T Phi_t k_s for s <= t with Phi_t = (lambda I + sum_{s <= t} weight_s k_s k_s^T)^-1, the Kalman
/// recursion's. keys, queries [T*K], weights [T] or empty for 1.
WeightMatrix kalman_token_weights(std::span<const double> keys, std::span<const double> queries,
                                  std::span<const double> weights, double ridge, int tokens);

/// Gated KalmaNet: scale e^(G_t - G_s) p_t . k_s for s <= t, G the running sum of the log gates that the values' memory
/// fades by and p_t = q_t + alpha_t (x_t - q_t) what reads it, x_t the solution of the ridge system. keys, readers
/// [T*D], log_gate [T] or empty for none. y_t = sum_s w_ts v_s, exactly: the solution does not depend on the values.
WeightMatrix solved_token_weights(std::span<const double> keys, std::span<const double> readers,
                                  std::span<const double> log_gate, double scale, int tokens);

/// The decay of one head's memory, token by token.
struct HeadGate {
  int head = 0;
  std::vector<double> log_decay;  ///< [T], <= 0
  int channels = 1;               ///< number of channels with their own gate; `log_decay` is their mean
};

}  // namespace afterglow
