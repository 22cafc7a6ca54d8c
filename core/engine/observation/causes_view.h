// What interventions find: which place of the model carries an answer, what each part is worth, what the stream would
// answer on the way, what the state holds, and what another sequence's state answers. Plain values, stamped with the
// step of the weights.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/engine/observation/observation.h"
#include "core/engine/recipe/sequence_choice.h"

namespace afterglow {

/// The two sequences, and what the model answers to each after the asked token.
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
  inside,  ///< queries, keys, values, gates, answers of heads
  memory   ///< the state after a token, in the recurrent form
};

/// One place of one part, for all tokens.
struct PatchRow {
  int layer = -1;     ///< index into ModelSummary::layers; behind the last part: the head
  std::string label;  ///< "1 ska keys"
  std::string place;  ///< "keys"
  std::string hook;   ///< "blocks.1.attn.hook_k", as TransformerLens names it
  PatchGroup group = PatchGroup::stream;
  int head = -1;  ///< -1: all of them
};

/// Share of the answer that comes back when the clean run's value stands at one place of the corrupted run:
/// (measure - corrupted) / (clean - corrupted).
struct PatchView {
  std::int64_t step = 0;
  PairView pair;
  int tokens = 0;
  std::vector<PatchRow> rows;
  /// [rows * tokens]: to first order, by one reverse pass; of the memories of a layer that cannot tell their slopes
  /// between two runs with a little of the difference, NaN where these are still to come.
  std::vector<double> attributed;
  std::vector<double> exact;       ///< [rows * tokens]: by running the model on; NaN where that is still to come
  std::vector<std::string> parts;  ///< embedding, layers, head: those that paths lead from and to
  /// [parts * parts], sender first: share that goes from one to the other alone; NaN where there is no such path.
  std::vector<double> paths;
  int exact_cells = 0;
  double control = 0;  ///< the largest share that putting the corrupted run's own value in restores: 0
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
  double accuracy = 0, loss = 0;  ///< of the held-out batch without it
};

struct AblationView {
  std::int64_t step = 0;
  std::int64_t examples = 0;
  double accuracy = 0, loss = 0;     ///< with everything on
  double control_accuracy = 0;       ///< measured again with nothing switched off
  std::vector<AblatedPart> parts;    ///< the most needed first
  std::vector<std::string> planned;  ///< names of all that there will be
  bool is_complete = false;
};

/// The head on the residual stream between the parts.
struct LogitLensView {
  std::int64_t step = 0;
  PairView pair;
  int tokens = 0;
  std::vector<std::string> depths;  ///< "0 mamba2 in", .., "out"
  std::vector<std::string> hooks;   ///< "blocks.0.hook_resid_pre"
  std::vector<double> answer;       ///< [depths * tokens]: probability of the clean answer
  std::vector<int> best;            ///< [depths * tokens]: the likeliest token
  std::vector<double> best_probability;
  std::vector<std::string> best_labels;  ///< [depths]: text of the likeliest token after the asked one
};

/// Ridge read-outs from the state of one part to the values that stand in the sequence.
struct ReadoutView {
  std::int64_t step = 0;
  int layer = -1;
  std::vector<TokenView> tokens;
  std::vector<std::string> keys;  ///< text of the token that each value stands behind
  std::vector<int> places;        ///< of those values
  int examples = 0, choices = 0;  ///< sequences that are read, and values to choose from
  std::vector<double> accuracy;   ///< [keys * tokens], held out; NaN where that is still to come
  std::vector<double> shuffled;   ///< [tokens]: the same with shuffled labels, mean of all keys
  bool is_complete = false;
};

/// A state tensor of both runs after the token, one matrix a head.
struct StatePart {
  std::string name;  ///< "C"
  int rows = 0, columns = 0;
  std::vector<float> clean, corrupted;  ///< of the shown head; empty where it is no matrix
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
  double share = 0;                                    ///< of the answer that came along
};

}  // namespace afterglow
