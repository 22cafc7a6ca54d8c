// How a head's output moves with its query: exact Jacobians of SKA and of softmax attention, their singular values, the
// bounds of Echo appendix J, and whether the map is linear at all (proposition I.13).
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/analysis/koopman/ska_head.h"

namespace afterglow {

/// Softmax attention with keys and values held fixed: J = scale V^T (Diag(w) - w w^T) K (proposition J.2).
struct AttentionJacobian {
  std::vector<double> J;                ///< [P*r]
  std::vector<double> singular_values;  ///< descending
  int rank = 0;                         ///< numerical
  int rank_bound = 0;                   ///< min(P, r, T - 1)
  double max_weight = 0.0;              ///< m
  double bound = 0.0;                   ///< J.2: scale |V| |K| / 2
  double saturation_bound = 0.0;        ///< J.3: 2 (1 - m) scale |V| |K|; below J.2 only for m > 3/4
  /// min(m, 2 m (1 - m)) scale |V| |K|, below both: all row sums 2 w (1 - w) of the softmax covariance are at most
  /// 2 m (1 - m), and it is at most Diag(w). Exact for two tokens and for uniform weights.
  double sharp_bound = 0.0;
};
/// keys [T*r], values [T*P], queries [n*r], one Jacobian for each; `scale` is 1/sqrt(d_k) in the paper. A causal head
/// at position t passes the first t + 1 rows. Empty when T, r or P is below 1, a size is wrong, or a number or score is
/// not finite.
std::vector<AttentionJacobian> attention_query_jacobians(std::span<const double> keys, std::span<const double> values,
                                                         std::span<const double> queries, int tokens, int rank,
                                                         double scale);

/// The bound of J.2 alone, scale |V| |K| / 2, which holds for every query: keys [T*r], values [T*P]. NaN when a size is
/// wrong or a number is not finite.
double attention_query_bound(std::span<const double> keys, std::span<const double> values, int tokens, int rank,
                             double scale);

/// SKA with its statistics held fixed: J = eta B_v L A^K L^-1, with respect to the query divided by the key scale m
/// (proposition J.4). The map is linear, so J is the same for every query. The paper's section 3.2 calls J a product of
/// full-rank matrices; that needs P >= r, C of rank r and A invertible (J.5).
struct SkaJacobian {
  std::vector<double> J;                ///< [P*r]
  std::vector<double> singular_values;  ///< descending
  int rank = 0;                         ///< numerical
  double norm_A = 0.0, least_A = 0.0;   ///< largest and smallest singular value of A
  /// J.4: eta |B_v| g^K sqrt((|G| + eps) / eps), g = max(gamma, |A|), so that it holds for an estimated sigma, too.
  double bound = 0.0;
  double sharp_bound = 0.0;  ///< eta |C L^-T| |A|^K / sqrt(lambda_min(G~)): what J.4 gives away is kept
  /// J.6, of the smallest singular value: eta sigma_min(B_v) sigma_min(A)^K sqrt(eps / (|G| + eps)); 0 for P < r.
  double lower_bound = 0.0;
};
/// Nothing when the head is unsound (ska_operators) or P < 1.
std::optional<SkaJacobian> ska_query_jacobian(const SkaHead& head);
/// The bound of J.4 alone (SkaJacobian::bound); NaN when the head is unsound or P < 1.
double ska_query_bound(const SkaHead& head);

/// V^T softmax(scale K q) [P], with keys [T*r], values [T*P], query [r]. Empty when a size is wrong or a score is not
/// finite.
std::vector<double> attention_answer(std::span<const double> keys, std::span<const double> values,
                                     std::span<const double> query, double scale);

/// What a head answers to a query [r], its keys, values and statistics held fixed.
using QueryMap = std::function<std::vector<double>(std::span<const double> query)>;
/// Proposition I.13 in numbers: the largest |f((p + q)/2) - (f(p) + f(q))/2| / ((|f(p)| + |f(q)|)/2) of successive
/// queries p, q of [n*r]. 0 for SKA as for every map that is linear up to a constant, above 0 for softmax attention
/// unless its weights never change. NaN with fewer than two queries or where `f` answers nothing.
double linearity_gap(const QueryMap& f, std::span<const double> queries, int rank);

}  // namespace afterglow
