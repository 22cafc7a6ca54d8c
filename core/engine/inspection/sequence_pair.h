// Two sequences that differ in a token, and a measure of which one's answer the logits give.
#pragma once
#include <span>
#include <vector>

#include "core/engine/observation/causes_view.h"
#include "core/engine/training/inspected_example.h"
#include "core/tasks/task.h"

namespace afterglow {

struct SequencePair {
  Example clean, corrupted;
  int asked = 0;              ///< the token after which the answer is read
  int clean_answer = -1;      ///< the clean sequence's target there; -1: the model's answer
  int corrupted_answer = -1;  ///< the replacing token; -1: the model's answer
  AnswerMeasure measure = AnswerMeasure::logit_difference;
};

/// The pair of a setup: `clean` is its sequence. If the corrupted one was not edited by hand, it replaces the value of
/// the queried key by another one of the same role, or, if that value does not occur, the token before the query. In an
/// edited clean sequence the answer is the token after the earlier occurrence of the key. Throws Error(bad_input) for
/// tokens outside the vocabulary or a wrong length.
SequencePair pair_of(const InspectionSetup& setup, const Example& clean, const Task& task);

/// The last token that occurred before, followed by a value, so that the sequence contains its answer; else the last
/// token.
int last_bound_token(const std::vector<int>& tokens, const Task& task);

/// Fills in answers that the task does not define, from the logits of both sequences at the queried token.
void take_answers(SequencePair& pair, std::span<const double> clean, std::span<const double> corrupted);

/// The pair's measure of the logits at the queried token.
double measured(const SequencePair& pair, std::span<const double> logits);
/// Its derivative with respect to each logit.
std::vector<double> measure_gradient(const SequencePair& pair, std::span<const double> logits);

/// The pair for panels; `clean` and `corrupted` are the model's logits at the queried token.
PairView view_of(const SequencePair& pair, std::span<const double> clean, std::span<const double> corrupted,
                 const Task& task);
/// (now - corrupted) / (clean - corrupted); NaN if clean and corrupted are equal.
double restored_share(double clean, double corrupted, double now);

}  // namespace afterglow
