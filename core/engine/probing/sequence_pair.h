// Two sequences a token apart, and how far an answer is that of the one or of the other.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/engine/training/probe_example.h"
#include "core/tasks/task.h"

namespace afterglow {

struct SequencePair {
  Example clean, corrupted;
  int asked = 0;              ///< the token after which the answer counts
  int clean_answer = -1;      ///< the clean sequence's target there; -1: what the model answers
  int corrupted_answer = -1;  ///< the token that stands in its place; -1: what the model answers
  AnswerMeasure measure = AnswerMeasure::logit_difference;
};

/// The pair that a setup means: `clean` is its probe sequence. Where the corrupted one was not edited by hand, the
/// value that is asked for is another one of the same role; where that does not stand in the sequence, the token before
/// the asked one. Of a clean sequence that was edited the value behind the asked token is the answer. Tokens outside
/// the vocabulary or of another length are an Error(bad_input).
SequencePair pair_of(const ProbeSetup& setup, const Example& clean, const Task& task);

/// The last token that stood before with a value behind it, so that its answer is in the sequence; else the last one.
int last_bound_token(const std::vector<int>& tokens, const Task& task);

/// Fills in the answers that the task leaves to the model, from the logits of both sequences at the asked token.
void take_answers(SequencePair& pair, std::span<const double> clean, std::span<const double> corrupted);

/// The pair's measure of the logits at the asked token.
double measured(const SequencePair& pair, std::span<const double> logits);
/// Its derivative by each logit.
std::vector<double> measure_gradient(const SequencePair& pair, std::span<const double> logits);

}  // namespace afterglow
