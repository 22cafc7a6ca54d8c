// How memory fades with the lag: profiles of influence matrices, the hops of a feedback, how diffuse a routing is, and
// what theory says of each (Sessa, section 4.2 and appendix E).
#pragma once
#include <span>
#include <vector>

namespace afterglow {

/// How strongly a token tau acts on the later outputs t. Matrices of this file are [T*T], row-major: row t, column
/// tau. Functions answer an empty value when T < 1 or a span has another size.
struct InfluenceProfile {
  std::vector<double> lags, values;  ///< lag l = t - tau, ascending; the absolute influence at it
};

/// Lags 1, 2, .. `last`, at most `per_decade` of them in each decade: points that weigh every decade of a tail alike.
std::vector<int> spread_lags(int last, int per_decade);
/// The values of a profile at spread lags, with lag 0 left out: what a law is fitted to.
InfluenceProfile spread_profile(const InfluenceProfile& profile, int per_decade);
/// The first lag from which on the values stay at or below `share` of the value at the first lag >= 1, on a straight
/// line between points of the log-log plot; infinite when that does not happen within the profile, NaN without values.
double lag_of_share(const InfluenceProfile& profile, double share);

/// (I - B)^-1 of a strictly lower triangular B [T*T], the solve Jacobian (Sessa eq. 27). What lies on or above the
/// diagonal of B is not read.
std::vector<double> resolvent(std::span<const double> B, int tokens);
/// Column `source` of B^k for k = 0 .. max_hops [(max_hops + 1)*T]: what reaches each token over k hops (eq. 5). B is
/// nilpotent, so with max_hops >= T - 1 - source the rows add to the column of the resolvent.
std::vector<double> hop_profiles(std::span<const double> B, int tokens, int source, int max_hops);
/// (B^k 1)_t for k = 0 .. max_hops: the mass that reaches token t over k hops; sums to row t of the resolvent.
std::vector<double> hop_masses(std::span<const double> B, int tokens, int token, int max_hops);
/// The position code: s of (I - B) s = 1, the answer of the feedback to a constant signal (corollary I.8) [T].
std::vector<double> position_code(std::span<const double> B, int tokens);

/// How diffuse a softmax routing is, row by row. Rows without two visible tokens have spread 0.
struct RoutingSpread {
  std::vector<double> logit_spread;  ///< [T] largest minus smallest logit = log(max / min) (definition 4)
  std::vector<double> effective;     ///< [T] exp(entropy): how many tokens are really read
  double c2 = 0;                     ///< largest alpha[t, j] times the number of visible tokens (assumption 6)
};
/// Row t sees tokens j <= t, or j < t when `strict`.
RoutingSpread routing_spread(std::span<const double> alpha, int tokens, bool strict);

/// Uniform routing alpha[t, j] = 1/t with constant gain gamma, impulse at tau: s at tau + lag (corollary F.2),
///   gamma Gamma(tau+1)/Gamma(tau+1+gamma) Gamma(tau+lag+gamma)/Gamma(tau+lag+1), and 1 at lag 0. |gamma| < 1.
double uniform_routing_influence(double gamma, double tau, double lag);
/// The position code of uniform routing: 1 + gamma/(1-gamma) (1 - Gamma(t+gamma)/(Gamma(gamma) Gamma(t+1))), t >= 0.
double uniform_position_code(double gamma, double token);
/// beta = 1 - gamma_max c2 of the envelope lag^-beta (theorem 8); below 0 there is no envelope.
double envelope_exponent(double gamma_max, double c2);
/// C of |(I - B)^-1 [tau + lag, tau]| <= C lag^-beta for every tau and lag >= 1 (theorem 8, whose proof leads here):
/// with m = 1 - beta the sum of the impulse grows by (1 + m/t) at most, so C = m e^m. 0 <= beta < 1.
double envelope_constant(double beta);
/// Exponent k (1 - beta) - 1 of k stacked blocks (theorem 12): negative decays, 0 is frozen, positive grows.
double deep_exponent(int blocks, double beta);

/// Transport of a unit impulse at `source` through `blocks` macro-layers of uniform routing (lemma K.22): each adds to
/// the signal x the answer s of the feedback with gain gamma to f_t = p_t x_t, the profile p_t = (t + 1)^gamma making
/// up for the age of the source. Values are those of paths that jump in every block, for lags 0 .. tokens - 1 - source;
/// with 0 < gamma = 1 - beta < 1 they follow lag^(k (1 - beta) - 1).
InfluenceProfile uniform_stack_profile(int blocks, double gamma, int source, int tokens);
/// The same as lemma K.22 itself builds it: each block adds to x the answer of the feedback to the uniform average over
/// the prefix of p_t x_t, own token included, and x itself passes on (the diagonal path). Its tail has the same
/// exponent; heights and the first lags differ.
InfluenceProfile averaged_stack_profile(int blocks, double gamma, int source, int tokens);

/// A profile at every lag 0 .. last: `own` at lag 0, straight on log-log axes between its points, level beyond them.
std::vector<double> at_every_lag(const InfluenceProfile& profile, double own, int last);
/// Theorem 11: what a path of any number of jumps brings over lags 0, 1, .. through blocks one after the other, the
/// norm of whose Jacobians is at most kernels[block][lag] whatever the source: the product of their lower triangular
/// Toeplitz matrices, column 0. All kernels have one length.
std::vector<double> path_sum(std::span<const std::vector<double>> kernels);

/// The spectral norm of a matrix J of which only m rows U J are known, U random.
struct NormEstimate {
  double value = 0;
  double low = 0, high = 0;  ///< where the norm lies, up to the sampling error of the moments; both = value when exact
  int rows = 0;              ///< m; 0 when exact
};
/// By what factor the bounds of an estimate from `rows` independent rows have to be widened for 95 % of the norms to
/// lie between them, whatever the spectrum: low is divided by the first, high multiplied by the second. That of rank 1,
/// whose moments vary most: sqrt(chi^2_m / m) by Wilson and Hilferty's approximation. 1 for rows < 1.
struct SamplingAllowance {
  double low = 1, high = 1;
};
SamplingAllowance sampling_allowance(int rows);

/// `rows` [m*columns] hold U J. Complete: U is orthogonal (m = the height of J) and the norm is exact. Otherwise m >= 2
/// and the rows u of U are independent standard normal, which gives without bias, for A = J J^T,
///   tr A = E |u J|^2, tr A^2 = E (u J . u' J)^2, and with them sqrt(tr A^2 / tr A) <= |J|_2 <= (tr A^2)^(1/4).
/// Both bounds meet for rank 1, where the estimate has a relative error of about 1/sqrt(2m); value is their geometric
/// mean.
NormEstimate spectral_norm_from_rows(std::span<const double> rows, int m, int columns, bool complete);

}  // namespace afterglow
