// The exact Kalman filter of a memory of keys and values compared with the layers that approximate it, on the same
// pairs, and what low precision does to its recursion (Gated KalmaNet, section 6 and section 3.2).
#pragma once
#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "core/analysis/solvers/arithmetic.h"

namespace afterglow {

/// What one head stores, in the terms of the linear Gaussian model (LGM): s_t = A_t s_{t-1} + w_t, v_t = s_t^T k_t +
/// µ_t.
struct PairSequence {
  int tokens = 0;
  std::vector<double> keys, queries;  ///< [T*K]
  std::vector<double> values;         ///< [T*V]
  std::vector<double> noise{};        ///< [T], r_t > 0, variance of µ_t: 1/η_t of eq. 3
  std::vector<double> log_decay{};    ///< [T] or [T*K], A_t = diag(e^g); empty: nothing fades
  double strength = 0.02;             ///< λ_t = strength |H_t|_F ..
  double ridge = 0;                   ///< .. or this λ for every token, where it is above 0
  int key_width() const { return tokens > 0 ? static_cast<int>(keys.size()) / tokens : 0; }
  int value_width() const { return tokens > 0 ? static_cast<int>(values.size()) / tokens : 0; }
  bool fades_by_channel() const { return log_decay.size() > noise.size(); }
};
/// Whether sizes fit, every number is finite and every r_t above 0.
bool is_sound(const PairSequence& pairs);

/// The filters: eq. 16 (A_t = I, no process noise, Σ_0 = I/λ with λ of the last token), eqs. 12 to 14 with the head's
/// own decays as A_t and process noise I (eqs. 18 and 20), Gated KalmaNet, and the three that keep Σ_t = I (eqs. 17,
/// 19, 20).
enum class FilterKind { kalman, fading_kalman, gka, deltanet, gated_deltanet, kda };

inline constexpr std::array all_filters{FilterKind::kalman,   FilterKind::fading_kalman,  FilterKind::gka,
                                        FilterKind::deltanet, FilterKind::gated_deltanet, FilterKind::kda};
/// "Kalman", "Kalman, fading", "Gated KalmaNet", "DeltaNet", "gated DeltaNet", "KDA".
std::string_view name_of(FilterKind kind);

/// One filter on one sequence. Its state S [K*V] predicts v_t as S^T k_t; Gated KalmaNet's is U_t (H_t + λ_t I)^-1,
/// whose gain G_t = (H_t + λ_t I)^-1 k_t / r_t.
struct FilterRun {
  FilterKind kind = FilterKind::kalman;
  std::vector<double> written;    ///< [T], k_t . G_t: the share of the innovation that the key's own answer takes up
  std::vector<double> alignment;  ///< [T], cosine of G_t and k_t: 1 writes along the key alone
  std::vector<double> recall;     ///< [T], |v_t - S^T k_t| / |v_t| of every pair, with the state S after the last one
  std::vector<double> state;      ///< [K*V], S after the last token
};
/// Empty vectors when the sequence is not sound.
FilterRun run_filter(FilterKind kind, const PairSequence& pairs);
/// The exact filter of (LGM), eqs. 12 to 14, with Q_t = `process_noise` I at every token and as A_t the head's decays,
/// or I where it does not fade. Without noise and decay it is `kalman`, with decay and noise 1 `fading_kalman`.
FilterRun run_exact_filter(bool fades, double process_noise, const PairSequence& pairs);

/// The mean of errors that are finite, as those of values of length 0 are not; NaN without any.
double finite_mean(std::span<const double> values);

/// What the exact filter recalls in the end, by the process noise that it assumes.
struct NoiseSweep {
  bool fades = false;             ///< A_t = the head's decays; else I
  std::vector<double> noise;      ///< variances of Q_t
  std::vector<double> all, last;  ///< mean error |v - S^T k| / |v| of all pairs, and of the last eighth
};
NoiseSweep sweep_process_noise(bool fades, std::span<const double> noise, const PairSequence& pairs);

/// Σ_t at some tokens, spread over the sequence.
struct Uncertainty {
  std::vector<int> tokens;
  std::vector<double> mean, smallest, largest;  ///< eigenvalues of Σ_t; their mean is its trace / K
};
/// Of `kalman` or `fading_kalman`.
Uncertainty uncertainty(FilterKind kind, const PairSequence& pairs, int most_tokens);

/// How far two ways to (H_t + λI)^-1 q_t are from the solution, both in the same arithmetic with sums and states in
/// float32: Φ_t updated by the Woodbury identity as in (KF), and a factorisation of H_t + λI at each token. The
/// recursion keeps the errors of its worst token; the factorisation begins anew and owes only the present κ.
struct DriftRun {
  Arithmetic arithmetic = Arithmetic::fp64;
  double ridge = 0;                      ///< λ
  std::vector<int> tokens;               ///< spread over the sequence
  std::vector<double> recursion, solve;  ///< |x~ - x| / |x|, x by Cholesky in float64; NaN where a factorisation failed
};
/// λ is that of the exact filter times `weakness`.
DriftRun drift(const PairSequence& pairs, Arithmetic arithmetic, double weakness, int most_tokens);

}  // namespace afterglow
