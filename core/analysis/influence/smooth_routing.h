// How far a token reaches through a routing that follows its own input: the constants of Sessa's proposition 10 and
// theorem 23, measured at one sequence, and the envelopes that they make (appendices B and C.8).
#pragma once
#include <span>
#include <vector>

namespace afterglow {

/// y = W x + b of every token: W [rows*width], b [rows] or empty.
struct TokenMap {
  std::vector<double> weight, bias;
};

/// A causal softmax routing whose queries, keys and values are linear maps of one token each. Matrices are row-major.
struct SmoothRouting {
  int tokens = 0, width = 0;                     ///< T; numbers of a token that enters the maps
  int heads = 1, key_heads = 1, head_width = 0;  ///< query heads share key heads by groups
  std::vector<double> alpha;                     ///< [heads*T*T]
  std::vector<double> inputs;                    ///< [T*width], what the maps read
  TokenMap query, key;                           ///< [heads*head_width], [key_heads*head_width] rows
  std::vector<double> values;                    ///< [T*key_heads*value_width], what is read
  TokenMap value;                                ///< where they come from; empty: they do not follow the source
  int value_width = 0;
  std::vector<double> output;  ///< [outputs*heads*value_width], a map of all heads together; empty: as they are
  double scale = 1;            ///< of the logits
  double rotary_base = 0;      ///< 0: no position code
};

/// Upper bounds of |∂o_t/∂x_source|_2 of the answers o_t = W_o sum_j alpha_tj v_j at t = 0 .. T-1, `jacobian`
/// [width*columns] being that of the source's input by x. At t = source it is exact. Later it is a triangle
/// inequality: the source is read (alpha_t,source |V|), and its key moves all weights (alpha_t,source |v - o| |g|).
/// The naive Jacobian is what it may not fall below (assumption 21). Empty for sizes that do not fit.
std::vector<double> answer_sensitivity(const SmoothRouting& routing, std::span<const double> jacobian, int columns,
                                       int source);
/// sum_j alpha_tj |∂logit_tj/∂x_source|_2 of the first head, t > source, else 0 (assumption 22): exact, as only the
/// source's own key follows it.
std::vector<double> logit_sensitivity(const SmoothRouting& routing, std::span<const double> jacobian, int columns,
                                      int source);

/// What a source does to the right side of a feedback s = f + gamma alpha s: differentiated, the solve is
/// J_t = u_t + gamma_t sum_{j<t} alpha_tj J_j, and u is this forcing. Without a feedback J = u.
struct SourceForcing {
  int source = 0;
  std::vector<double> forward;  ///< [T] at most |∂f_t/∂x|_2 (assumption 21); at t = source and later
  std::vector<double> routing;  ///< [T] at most |gamma_t sum_j s_j ∂alpha_tj/∂x|_2, later than the source
  std::vector<double> logits;   ///< [T] sum_j alpha_tj |∂logit_tj/∂x|_2 (assumption 22)
  double own = 0;               ///< at most |u_source|_2 (assumptions 17 and 19)
  double outlet = 1;            ///< at most |∂y_t/∂s_t|_2 of any later token (corollary B.7)
};

/// The least C with at[t] <= C / (t + offset) for all first < t < end; 0 for none.
double dilution_constant(std::span<const double> at, int first, int end, int offset);
/// Theorem 23 with corollary B.7 as heights of |∂y_t/∂x_source| at lags 0 .. T-1-source; the first is not promised
/// (infinite). With C = envelope_constant(beta), u = C_u / t, C_u = dilution_constant of forward + routing:
///   outlet (C_u / t + C own lag^-beta + C C_u sum_{source<j<t} (t - j)^-beta / j),
/// the sum as it stands, which lemma B.6 bounds further. 0 < beta < 1.
std::vector<double> forced_envelope(const SourceForcing& forcing, double beta);
/// The step before it: outlet sum_j |(I - B)^-1_tj| |u_j| with the measured solve [T*T] in the place of its tail.
/// Nothing is assumed of the routing, so that no exact Jacobian lies above it.
std::vector<double> forced_solve(const SourceForcing& forcing, std::span<const float> resolvent);
/// Proposition 10 (i): outlet C / (source + lag + 1), C = dilution_constant of forward; the first is infinite.
std::vector<double> diluted_envelope(const SourceForcing& forcing);

}  // namespace afterglow
