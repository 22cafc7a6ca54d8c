// One layer of a model with the captures of a forward pass over one sequence, and what readers compute from them:
// equivalent attention, ridge systems, gates.
#pragma once
#include <complex>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/analysis/attention/token_weights.h"
#include "core/analysis/influence/block_bound.h"
#include "core/analysis/influence/smooth_routing.h"
#include "core/analysis/koopman/edited_operator.h"
#include "core/analysis/koopman/ska_head.h"
#include "core/analysis/solvers/kalman.h"
#include "core/analysis/solvers/solvers.h"
#include "core/layers/capture_reader.h"
#include "core/layers/layer.h"
#include "core/layers/step_picture.h"

namespace afterglow {

struct CapturedLayer {
  const Layer& layer;
  const CaptureReader& read;
  std::string scope;  ///< "layers.1.ska": prefix of its captures
  int tokens = 0;     ///< T: readers use the first T tokens of the captured sequence
  /// [T], 1 where a token carries a fact; only `ska` in masked mode reads it, for its token weights.
  std::span<const std::uint8_t> context{};
  /// Long readers call this between pieces of their work, on their own thread; may be empty.
  std::function<void()> meanwhile{};

  void yield() const {
    if (meanwhile) meanwhile();
  }
  int heads() const { return static_cast<int>(layer.heads()); }
  /// The layer as its concrete class.
  template <class Kind>
  const Kind& as() const {
    return static_cast<const Kind&>(layer);
  }
  std::string name(const char* capture) const { return scope + "." + capture; }
  /// All numbers of a capture; empty without it.
  const std::vector<double>& values(const char* capture) const { return read.values(name(capture)); }
  /// The first T tokens of a capture [1,T,H*width] or [1,T,H,width], one head: [T*width]; empty without the capture.
  std::vector<double> of_head(const char* capture, int head) const;
  /// The first T tokens of a capture [1,T,groups*width] that heads share by groups, the group of one head: [T*width].
  std::vector<double> of_group(const char* capture, int head, int groups) const;
  /// Row `token` of a capture [1,T,H,width], one head: [width].
  std::vector<double> row(const char* capture, int token, int head) const;
  /// Block `head` of a capture [1,H,..].
  std::vector<double> block(const char* capture, int head) const { return read.block(name(capture), head, heads()); }
  /// The first T rows and columns of a capture [1,H,T,T], one head.
  WeightMatrix square(const char* capture, int head) const;
};

/// Captures that all layers with keys have, before later operations read them.
inline void hook_reading(Tape& tape, const Var& queries, const Var& keys, const Var& values) {
  tape.hook("queries", queries);
  tape.hook("keys", keys);
  tape.hook("values", values);
}

using SeeSystem = std::function<void(int head, int token, RidgeProblem problem)>;

/// A bound whose inputs are on the host already: any thread may call it for the value.
using ReadBound = std::function<double()>;

/// 1 for each token of a sequence whose key a head's operator holds after it, and for each whose key sets its scale.
struct HeldTokens {
  std::vector<std::uint8_t> counted, measured;
  bool is_linear = true;  ///< whether a key is its projection, but for one scale of all
};

/// Functions that compute results from the captures of a kind of layer; null where a kind does not have a result.
struct LayerReaders {
  /// Weights of one head (core/analysis/attention/token_weights.h); of a layer that
  /// does not read later tokens, callers ignore the weights of future tokens.
  WeightMatrix (*token_weights)(const CapturedLayer& layer, int head) = nullptr;
  /// Calls see(head, token, problem) for the ascending `tokens` of every head, head by head. The bounds are those of
  /// Gated KalmaNet, [λ, |H|_F + λ]. Returns a where λ_t = a |H_t|_F, 0 where λ is fixed.
  double (*systems)(const CapturedLayer& layer, std::span<const int> tokens, const SeeSystem& see) = nullptr;
  /// How many steps the layer's own solver takes; null where its solution is exact.
  int (*iterations)(const CapturedLayer& layer) = nullptr;
  /// One for each head, over the whole captured sequence.
  std::vector<HeadGate> (*gates)(const CapturedLayer& layer) = nullptr;
  /// Eigenvalues of one head's transition per token, mean over the captured sequence: those of the product of the
  /// tokens' transitions, to the power 1/T. Equal ones are listed once.
  std::vector<std::complex<double>> (*state_modes)(const CapturedLayer& layer, int head) = nullptr;
  /// Of layers with editable eigenvalues: how many a head has, and `forward` with an edit, without a gradient.
  std::int64_t (*modes)(const Layer& layer) = nullptr;
  Var (*edit)(Layer& layer, Tape& tape, const Var& x, const Tensor& mask, const LayerEdit& edit) = nullptr;
  /// Learned eigenvalues of one head, each for itself and its conjugate.
  std::vector<std::complex<double>> (*spectrum)(const Layer& layer, Backend& backend, int head) = nullptr;
  /// For layers that fit an operator to their keys: sizes, settings and gains of a head as they are now, without
  /// statistics; and which tokens of a sequence with this context (1: a fact) the fit reads.
  SkaHead (*head)(const Layer& layer, Backend& backend, int head) = nullptr;
  HeldTokens (*held)(const Layer& layer, std::span<const std::uint8_t> context) = nullptr;
  /// With which weight each token of a sequence with these roles enters the sums.
  std::vector<double> (*sums)(const Layer& layer, std::span<const std::uint8_t> roles,
                              const SumWeights& painted) = nullptr;
  /// The keys, values and noise of one head as inputs of a Kalman filter (core/analysis/solvers/kalman.h).
  PairSequence (*pairs)(const CapturedLayer& layer, int head) = nullptr;
  /// The computation of one head for the token of a capturing `step` (tokens = 1), at most eight pictures; empty where
  /// numbers are missing or not finite.
  std::vector<StepPicture> (*step_pictures)(const CapturedLayer& layer, int head) = nullptr;
  /// How smoothly the routing depends on each of these source tokens, from the captured input; empty where the captures
  /// do not fit.
  std::vector<SourceForcing> (*forcing)(const CapturedLayer& layer, std::span<const int> sources) = nullptr;
  /// The largest factor on the norm of a gradient through the queries only, with keys, values and statistics held
  /// fixed: Echo's propositions J.2 and J.4 between the projections. NaN where the captures do not fit.
  ReadBound (*query_bound)(const CapturedLayer& layer) = nullptr;
  /// Largest measured and possible norms of the output (Sessa, proposition 25); empty where the captures do not fit.
  BlockReach (*reach)(const CapturedLayer& layer) = nullptr;
};

/// Gates of a layer that captures `log_decay` [1,T,H] or, a gate for each channel, [1,T,H,channels].
std::vector<HeadGate> gates_of_log_decay(const CapturedLayer& layer);
/// Gates of a layer that captures the running sum over the tokens, `log_decay_cumsum` [1,T,H].
std::vector<HeadGate> gates_of_running_sum(const CapturedLayer& layer);
/// Modes of a layer that captures `log_decay`, one for each channel.
std::vector<std::complex<double>> modes_of_log_decay(const CapturedLayer& layer, int head);
/// Modes of a layer that captures `log_decay_cumsum`, and with rotated keys `angle_cumsum` [1,T,H,pairs]: a conjugate
/// pair for each angle.
std::vector<std::complex<double>> modes_of_running_sum(const CapturedLayer& layer, int head);
/// Weights of a layer that captures the distributions of a softmax, `attn` [1,H,T,T].
WeightMatrix captured_softmax(const CapturedLayer& layer, int head);

}  // namespace afterglow
