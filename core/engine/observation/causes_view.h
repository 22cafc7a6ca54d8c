// Results of interventions: which hook point carries an answer, how much accuracy each part contributes, which answer
// the residual stream holds at each depth, what the state contains, and what another sequence's state answers. Plain
// values with the step of the weights.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/engine/observation/observation.h"
#include "core/recipe/inspection_setup.h"

namespace afterglow {

/// The two sequences, and the model's answer to each after the queried token.
struct PairView {
  std::vector<TokenView> clean, corrupted;
  int asked = 0;
  int clean_answer = -1, corrupted_answer = -1;  ///< token ids
  std::string clean_label, corrupted_label;      ///< their texts
  double clean_probability = 0;                  ///< of the clean answer in the clean run
  double corrupted_probability = 0;              ///< of the corrupted answer in the corrupted run
  AnswerMeasure measure = AnswerMeasure::logit_difference;
  double clean_measure = 0, corrupted_measure = 0;
  std::vector<int> changed;  ///< where the sequences differ
};

/// Where values may be replaced.
enum class PatchGroup {
  stream,  ///< the residual stream and what each part adds to it
  inside,  ///< queries, keys, values, gates, outputs of heads
  memory   ///< the state after a token, in the recurrent form
};

/// One hook point of one part, for all tokens.
struct PatchRow {
  int layer = -1;     ///< index into ModelSummary::layers; one past the last part: the head
  std::string label;  ///< "1 ska keys"
  std::string place;  ///< "keys"
  std::string hook;   ///< "blocks.1.attn.hook_k", TransformerLens' name
  PatchGroup group = PatchGroup::stream;
  int head = -1;  ///< -1: all of them
};

/// Share of the answer that is restored when the clean run's value replaces one value of the corrupted run: (measure -
/// corrupted) / (clean - corrupted).
struct PatchView {
  std::int64_t step = 0;
  PairView pair;
  int tokens = 0;
  std::vector<PatchRow> rows;
  /// [rows * tokens]: first-order estimate from one backward pass; for states without a backward pass, a difference
  /// quotient, NaN until it is computed.
  std::vector<double> attributed;
  std::vector<double> exact;       ///< [rows * tokens]: by running the model; NaN until it is computed
  std::vector<std::string> parts;  ///< embedding, layers, head: the ends of paths
  /// [parts * parts], sender first: share that reaches the receiver on the direct path only; NaN without such a path.
  std::vector<double> paths;
  int exact_cells = 0;
  double control = 0;  ///< the largest share restored by the corrupted run's own values: 0 in exact arithmetic
  bool is_complete = false;

  std::size_t cell(std::size_t row, int token) const {
    return row * static_cast<std::size_t>(tokens) + static_cast<std::size_t>(token);
  }
};

/// One part that was switched off.
struct AblatedPart {
  std::string name;  ///< "1 ska head 2"
  std::string sort;  ///< "block", "head", "mode" or "memory token"
  int layer = -1, head = -1, mode = -1;
  double accuracy = 0, loss = 0;  ///< of the held-out batch without the part
};

struct AblationView {
  std::int64_t step = 0;
  std::int64_t examples = 0;
  double accuracy = 0, loss = 0;     ///< with everything on
  double control_accuracy = 0;       ///< measured again with nothing switched off
  std::vector<AblatedPart> parts;    ///< in descending order of the loss of accuracy
  std::vector<std::string> planned;  ///< names of all parts that will be measured
  bool is_complete = false;
};

/// The head applied to the residual stream between the parts.
struct LogitLensView {
  std::int64_t step = 0;
  PairView pair;
  int tokens = 0;
  std::vector<std::string> depths;  ///< "0 mamba2 in", .., "out"
  std::vector<std::string> hooks;   ///< "blocks.0.hook_resid_pre"
  std::vector<double> answer;       ///< [depths * tokens]: probability of the clean answer
  std::vector<int> best;            ///< [depths * tokens]: the likeliest token
  std::vector<double> best_probability;
  std::vector<std::string> best_labels;  ///< [depths]: text of the likeliest token after the queried one
};

/// Ridge read-outs from the state of one part to the values in the sequence.
struct ReadoutView {
  std::int64_t step = 0;
  int layer = -1;
  std::vector<TokenView> tokens;
  std::vector<std::string> keys;  ///< text of the token before each value
  std::vector<int> places;        ///< indices of those values
  int examples = 0, choices = 0;  ///< sequences, and values to choose from
  std::vector<double> accuracy;   ///< [keys * tokens], held out; NaN until it is computed
  std::vector<double> shuffled;   ///< [tokens]: the same with shuffled labels, mean over the keys
  bool is_complete = false;
};

/// A state tensor of both runs after the token, one matrix a head.
struct StatePart {
  std::string name;  ///< "C"
  int rows = 0, columns = 0;
  std::vector<float> clean, corrupted;  ///< of the shown head; empty if it is no matrix
};

struct TransplantView {
  std::int64_t step = 0;
  PairView pair;  ///< in the recurrent form
  TransplantChoice choice;
  int layer = -1, token = 0, heads = 1, shown_head = 0;
  std::vector<StatePart> parts;
  std::vector<int> answers;  ///< the likeliest tokens of the three runs
  std::vector<std::string> labels;
  std::vector<double> clean, corrupted, transplanted;  ///< their probabilities
  double share = 0;                                    ///< share of the answer that moved with the state
};

}  // namespace afterglow
