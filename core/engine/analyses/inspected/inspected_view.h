// The model's answers to the inspected sequence, with and without interventions.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/engine/observation/observation.h"
#include "core/recipe/inspection_setup.h"

namespace afterglow {

/// The most probable next tokens after one token, by the larger of their probabilities before and after the
/// interventions.
struct InspectedAnswer {
  std::vector<int> tokens;
  std::vector<double> before, after;             ///< probabilities, one for each of `tokens`
  double target_before = -1, target_after = -1;  ///< of the token that should follow; -1 without a target
};

/// One head of an edited layer.
struct InspectedHead {
  HeadSpectrum spectrum;     ///< with every override in force; `eigenvalues` after the edits, in the order before them
  std::vector<bool> is_off;  ///< modes that are switched off
  bool head_is_off = false;
};

/// An edited Koopman MLP.
struct InspectedMlp {
  MlpSpectrum spectrum;      ///< `eigenvalues` after the edits
  std::vector<bool> is_off;  ///< pairs that are switched off
};

struct InspectedView {
  std::int64_t step = 0;  ///< training step of the weights
  InspectionSetup setup;
  std::string task;               ///< description of a sequence of another task than the run's; else empty
  std::vector<TokenView> tokens;  ///< `target` is that of the example, also for edited tokens
  /// One for each token. For long sequences over large vocabularies only as many as fit are filled: the last token's,
  /// those with targets, then those of late tokens.
  std::vector<InspectedAnswer> answers;
  std::shared_ptr<const std::vector<std::string>> labels;  ///< text of every token id
  std::int64_t examples = 0;                               ///< sequences of the held-out batch
  double accuracy_before = 0, accuracy_after = 0;          ///< share of right answers on them
  bool accuracy_is_old = false;                            ///< they are of an earlier step or other interventions
  std::vector<InspectedHead> heads;                        ///< of edited layers only
  std::vector<InspectedMlp> mlps;                          ///< edited ones only
  TokenWeights weights;                                    ///< of the traced layer, interventions in force
  int summed_layer = -1;                                   ///< the traced part, if it has sums over tokens
  std::vector<double> sum_weights;                         ///< with which its sums take each token
  bool is_edited() const { return !setup.interventions.empty(); }
};

}  // namespace afterglow
