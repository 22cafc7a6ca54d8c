// How memory fades with the lag: tails of every token mixer and of the whole stack, their routing, and the race of all
// layers on one input. Plain values with the step of the weights.
#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/analysis/influence/block_bound.h"
#include "core/analysis/influence/influence_fit.h"
#include "core/analysis/influence/smooth_routing.h"

namespace afterglow {

/// One curve of influence against the lag.
struct InfluenceTail {
  std::string label;                 ///< "1 ska", "whole stack"
  std::string kind;                  ///< layer kind; "stack"
  int layer = -1;                    ///< index into ModelSummary::layers; -1: the whole stack, or of a race
  std::vector<double> lags, values;  ///< lags >= 1, ascending
  double own = std::numeric_limits<double>::quiet_NaN();  ///< at lag 0, of the same sources; NaN: not measured
  std::vector<double> low, high;  ///< 95 % bounds of the norm (SamplingAllowance); empty if the values are exact
  InfluenceFit fit;               ///< over lags >= 4, or all if there are fewer than six of those
  double one_percent_lag = 0;  ///< lag of 1 % of the influence at lag 1; infinite beyond the last lag, NaN if unknown
  bool is_silent = false;      ///< no influence at all: the output projection is still zero
  bool is_resolvent = false;   ///< of a feedback's solve (I - B)^-1 without the rest of the block
};

/// Routing of one mixer over the sequence, as far as its kind defines it. Matrices [T*T] row-major, row = reading
/// token.
struct RoutingView {
  int layer = -1;
  std::string kind;
  int tokens = 0;
  std::vector<std::vector<float>> weights;  ///< equivalent attention of each head (TokenWeights); NaN in the future
  std::vector<double> logit_spread;         ///< [T] of a softmax routing: of the feedback, else the mean of the heads
  std::vector<double> effective;            ///< [T] effective number of tokens read, exp(entropy)
  double c2 = 0;                            ///< alpha[t, j] <= c2 / (visible tokens) for all t, j; 0 without a softmax
  // Of a feedback (Sessa).
  std::vector<float> feedback;   ///< alpha_fb
  std::vector<float> resolvent;  ///< (I - B)^-1
  std::vector<double> gain;      ///< [T] gamma_t
  std::vector<double>
      hop_masses;  ///< mass that reaches the last token over k = 0, 1, .. hops; the last entry holds all longer paths
  /// What token 0 sends to token t [T] over k = 1, 2, .. hops: column 0 of B^k; the last entry over all hops: that of
  /// the resolvent. Signed.
  std::vector<std::vector<double>> hop_profiles;
  std::vector<double> position_code;  ///< [T] response of the feedback to a constant signal
  // Of a state that decays.
  std::vector<double> decay;  ///< [T] decay factor a_t of the state, geometric mean over the heads; empty: none
  /// [heads][T] Delta(0, t) = -sum of log a of each head over tokens 1 .. t.
  std::vector<std::vector<double>> accumulated;
  std::vector<double> min_accumulated;  ///< [T] the smallest Delta(tau, tau + lag) of any head and source
  double largest_factor = 0;            ///< largest |C_t B_tau| (influence_theory.h)
  double mean_rate = 0;  ///< mean of -log a_t: the tail is exp(-rate lag); near 0 the state hardly decays
  double mean_step = 0;  ///< mean time step over tokens and heads (Mamba); 0: none. Near 0 the state is frozen
  // Of a softmax or feedback whose maps are known: the effect of each source through the block's input.
  std::vector<SourceForcing> forcing;  ///< one for each source of the measurement; empty: unknown
  BlockReach reach;                    ///< of a block whose weights bound its output; empty: unknown
};

struct RaceEntry {
  InfluenceTail tail;
  std::string weights;           ///< "initial", "trained, step 120"
  std::int64_t state_bytes = 0;  ///< of one sequence of the race's length, float32
  double step_ms = 0;            ///< measured median time of one recurrent step near the end
  /// Share of right answers to "which of four tokens was planted?" after so many tokens (planted_recall.h).
  std::vector<double> recall_lags, recall;
  /// The largest tensor of the recurrent state after the last token. If it has more rows or columns than are shown,
  /// each cell is the number of largest modulus of its block.
  std::vector<float> state;
  int state_rows = 0, state_columns = 0;
  std::string state_name;  ///< "H · 64 × 16"
  std::string note;        ///< what was changed to run the layer: "a drawn output projection"
};

/// All layers on one input: white noise [T,d] from the run's seed, so that no layer has an advantage.
struct RaceView {
  std::int64_t step = 0;  ///< training step of the trained weights
  int tokens = 0, width = 0, source = 0;
  std::uint64_t seed = 0;
  std::vector<RaceEntry> entries;     ///< sorted by memory length, longest first; unfinished ones are missing
  int contestants = 0;                ///< number of layers
  std::vector<std::string> left_out;  ///< layers that do not run at this width on this device
  bool is_complete = false;           ///< no result is missing
  std::vector<std::string> kinds;     ///< every layer kind that can race, for switches
};

/// An impulse at token 0 through k stacked blocks of uniform routing with gain 1 - beta (deep_experiment.h).
struct DeepProfile {
  int blocks = 1;
  double beta = 0;
  std::vector<double> lags, values;          ///< |ds_t/dx_0| of the stack, by backward passes
  std::vector<double> far_lags, far_values;  ///< by the recursion, at lags beyond the Jacobian's
  std::vector<double> built_values;          ///< at far_lags, the stack built as in lemma K.22 (averaged_stack_profile)
  InfluenceFit fit, far_fit;                 ///< of the Jacobian from lag 128 on; of the recursion from 10,000 on
  double theory = 0;                         ///< exponent k (1 - beta) - 1
};

/// A stack compared with the network of theorem 12: the same score of the same source.
struct RetrievalStack {
  std::string name;  ///< "15 diffuse attention"
  std::string kind;  ///< layer kind
  int blocks = 0;
  std::vector<double> scores;  ///< at the lags of the view
};

/// The network of Sessa's theorem 12 with constructed weights (definition 5): what the signal of one source brings to
/// each later token, and what all others bring. It belongs to no step of the run.
struct RetrievalView {
  double beta = 0, leak = 0, freeze_step = 0;
  int tokens = 0, jumps = 0, source = 0;
  double theory = 0;                   ///< exponent jumps (1 - beta) - 1
  std::string kind;                    ///< of the network's layers
  std::vector<std::string> roles;      ///< the task of each block
  std::vector<double> lags, scores;    ///< e_signal^T (dh_t/dx_source) e_signal at t = source + lag, by backward passes
  std::vector<double> competitors;     ///< sum over all other sources before t of the absolute score
  double low = 0, high = 0;            ///< smallest and largest score / lag^theory: the constants of definition 5
  InfluenceFit fit;                    ///< of the scores, from lag 8 on
  std::vector<double> profile;         ///< [T] output of the first blocks, proportional to (t + 1)^(1 - beta)
  std::vector<double> position;        ///< [T] the position coordinate, including noise of the input
  std::vector<RetrievalStack> others;  ///< with as many blocks as macro-layers, and as the whole network
  std::vector<double> copy_errors;     ///< of theorem 14's block for lag 1, 2 ..: at the worst token of those behind it
};

struct InfluenceView {
  std::int64_t step = 0;  ///< training step of the weights
  int tokens = 0;         ///< T of the sequence
  std::vector<int> sources;
  int directions = 0;                  ///< random cotangents for each block; 0: exact norms
  std::vector<InfluenceTail> blocks;   ///< end-to-end |dy_t/dx_tau| of each mixer's block, then of the whole stack
  std::vector<InfluenceTail> between;  ///< blocks that mix no tokens: only `own`
  std::vector<double>
      path_sum;  ///< theorem 11 from the blocks' tails, at the lags of the whole stack; empty: not computed yet
  std::vector<InfluenceTail> fixed;                      ///< with fixed routing: |w_ts|, mean of the heads
  std::vector<RoutingView> routing;                      ///< one for each mixer that has token weights
  std::shared_ptr<const std::vector<DeepProfile>> deep;  ///< null until computed
  bool is_complete = false;                              ///< no result is missing
};

}  // namespace afterglow
