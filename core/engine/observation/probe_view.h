// What the probe sequence makes the model answer, with and without interventions.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/engine/observation/observation.h"
#include "core/engine/recipe/probe_setup.h"

namespace afterglow {

/// The most probable next tokens after one token: of before and after the interventions, by their larger probability.
struct ProbeAnswer {
  std::vector<int> tokens;
  std::vector<double> before, after;             ///< probabilities, one for each of `tokens`
  double target_before = -1, target_after = -1;  ///< of the token that should follow; -1 where none is asked
};

/// One head of a changed layer as the probe sees it.
struct ProbedHead {
  HeadSpectrum spectrum;     ///< with every override in force; `eigenvalues` after the edits, in the order before them
  std::vector<bool> is_off;  ///< modes that are switched off
  bool head_is_off = false;
};

/// A changed Koopman MLP as the probe sees it.
struct ProbedMlp {
  MlpSpectrum spectrum;      ///< `eigenvalues` after the edits
  std::vector<bool> is_off;  ///< pairs that are switched off
};

struct ProbeView {
  std::int64_t step = 0;  ///< training step of the weights
  ProbeSetup setup;
  std::string task;               ///< what a sequence of another task than the run's asks; empty: of its own
  std::vector<TokenView> tokens;  ///< `target` is that of the example, also where tokens were edited
  /// One for each token. Of long sequences over large vocabularies all are empty but as many as fit: the last token's,
  /// those that are asked, and then of late tokens.
  std::vector<ProbeAnswer> answers;
  std::shared_ptr<const std::vector<std::string>> labels;  ///< text of every token id
  std::int64_t examples = 0;                               ///< sequences of the probe batch
  double accuracy_before = 0, accuracy_after = 0;          ///< share of right answers on them
  std::vector<ProbedHead> heads;                           ///< of changed layers only
  std::vector<ProbedMlp> mlps;                             ///< changed ones only
  TokenWeights weights;                                    ///< of the traced layer, interventions in force
  bool is_edited() const { return !setup.interventions.empty(); }
};

}  // namespace afterglow
