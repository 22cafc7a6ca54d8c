// Chooses the changed token by the roles of the vocabulary.
#include "core/engine/inspection/sequence_pair.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/analysis/attention/softmax.h"
#include "core/io/error.h"

namespace afterglow {
namespace {

/// The tokens with targets, the last one first; the last token without any.
std::vector<int> question_tokens(const Example& example) {
  std::vector<int> asked;
  for (int t = static_cast<int>(example.targets.size()) - 1; t >= 0; --t) {
    if (example.targets[static_cast<std::size_t>(t)] >= 0) asked.push_back(t);
  }
  if (asked.empty()) asked.push_back(static_cast<int>(example.tokens.size()) - 1);
  return asked;
}

/// Where the answer to `asked` occurs before it: after its own key if possible.
int evidence_of(const Example& example, int asked) {
  const std::int32_t key = example.tokens[static_cast<std::size_t>(asked)],
                     value = example.targets[static_cast<std::size_t>(asked)];
  int found = -1;
  bool behind_key = false;
  for (int t = 1; t < asked && value >= 0; ++t) {
    if (example.tokens[static_cast<std::size_t>(t)] != value) continue;
    const bool is_bound = example.tokens[static_cast<std::size_t>(t - 1)] == key;
    if (is_bound || !behind_key) found = t;
    behind_key = behind_key || is_bound;
  }
  return found;
}

/// The value after the last earlier token equal to the one at `asked`; -1 without one.
template <class Tokens>
int value_bound_to(const Tokens& tokens, int asked, const Task& task) {
  for (int t = asked - 2; t >= 0; --t) {
    const auto at = static_cast<std::size_t>(t);
    if (tokens[at] == tokens[static_cast<std::size_t>(asked)] && task.token_role(tokens[at + 1]) == TokenRole::value)
      return tokens[at + 1];
  }
  return -1;
}

/// Number `turn` of the other tokens with this role; tokens that do not occur in the sequence come first.
int other_token(const Example& example, int token, int turn, const Task& task) {
  std::vector<int> fresh, present;
  for (int i = 1; i < task.vocab(); ++i) {
    const int other = (token + i) % task.vocab();
    if (task.token_role(other) != task.token_role(token)) continue;
    (std::ranges::find(example.tokens, other) == example.tokens.end() ? fresh : present).push_back(other);
  }
  fresh.insert(fresh.end(), present.begin(), present.end());
  return fresh.empty() ? (token + 1) % task.vocab() : fresh[static_cast<std::size_t>(turn) % fresh.size()];
}

void require_tokens(const std::vector<int>& tokens, std::size_t length, int vocab) {
  if (tokens.size() != length)
    throw BadInput("the corrupted sequence has as many tokens as the clean one, ", length, ", not ", tokens.size());
  for (const int token : tokens) {
    if (token < 0 || token >= vocab)
      throw BadInput("token ", token, " of the corrupted sequence is outside the ", "vocabulary of ", vocab);
  }
}

int likeliest(std::span<const double> logits, int except) {
  int best = except == 0 && logits.size() > 1 ? 1 : 0;
  for (int i = 0; i < static_cast<int>(logits.size()); ++i) {
    if (i != except && logits[static_cast<std::size_t>(i)] > logits[static_cast<std::size_t>(best)]) best = i;
  }
  return best;
}

std::vector<double> softmax_of(std::span<const double> logits) {
  std::vector<double> p(logits.begin(), logits.end());
  softmax_in_place(p);
  return p;
}

}  // namespace

int last_bound_token(const std::vector<int>& tokens, const Task& task) {
  const int last = static_cast<int>(tokens.size()) - 1;
  for (int asked = last; asked >= 0; --asked) {
    if (value_bound_to(tokens, asked, task) >= 0) return asked;
  }
  return last;
}

SequencePair pair_of(const InspectionSetup& setup, const Example& clean, const Task& task) {
  const PairChoice& choice = setup.pair;
  SequencePair pair{.clean = clean, .corrupted = clean, .measure = choice.measure};
  const std::vector<int> asked = question_tokens(clean);
  const int turns = static_cast<int>(asked.size()), last = static_cast<int>(clean.tokens.size()) - 1;
  pair.asked =
      choice.asked >= 0 ? std::min(choice.asked, last) : asked[static_cast<std::size_t>(choice.choice % turns)];
  pair.clean_answer = clean.targets[static_cast<std::size_t>(pair.asked)];
  if (const int bound = setup.tokens.empty() ? -1 : value_bound_to(clean.tokens, pair.asked, task); bound >= 0)
    pair.clean_answer = bound;
  if (!choice.tokens.empty()) {
    require_tokens(choice.tokens, clean.tokens.size(), task.vocab());
    pair.corrupted.tokens.assign(choice.tokens.begin(), choice.tokens.end());
  } else {
    const int evidence = evidence_of(clean, pair.asked);
    const auto at = static_cast<std::size_t>(evidence >= 0 ? evidence : std::max(0, pair.asked - 1));
    pair.corrupted.tokens[at] = other_token(clean, clean.tokens[at], choice.choice / turns, task);
  }
  for (std::size_t t = 0; t < clean.tokens.size(); ++t) {
    if (clean.tokens[t] == pair.clean_answer && pair.corrupted.tokens[t] != clean.tokens[t])
      pair.corrupted_answer = pair.corrupted.tokens[t];
  }
  return pair;
}

void take_answers(SequencePair& pair, std::span<const double> clean, std::span<const double> corrupted) {
  if (pair.clean_answer < 0) pair.clean_answer = likeliest(clean, -1);
  if (pair.corrupted_answer < 0) pair.corrupted_answer = likeliest(corrupted, pair.clean_answer);
}

double measured(const SequencePair& pair, std::span<const double> logits) {
  const auto answer = static_cast<std::size_t>(pair.clean_answer);
  if (pair.measure == AnswerMeasure::logit_difference)
    return logits[answer] - logits[static_cast<std::size_t>(pair.corrupted_answer)];
  const double p = softmax_of(logits)[answer];
  return pair.measure == AnswerMeasure::probability ? p : -std::log(std::max(p, std::numeric_limits<double>::min()));
}

std::vector<double> measure_gradient(const SequencePair& pair, std::span<const double> logits) {
  const auto answer = static_cast<std::size_t>(pair.clean_answer);
  std::vector<double> gradient(logits.size(), 0.0);
  if (pair.measure == AnswerMeasure::logit_difference) {
    gradient[answer] += 1;
    gradient[static_cast<std::size_t>(pair.corrupted_answer)] -= 1;
    return gradient;
  }
  const std::vector<double> p = softmax_of(logits);
  const double factor = pair.measure == AnswerMeasure::probability ? p[answer] : -1.0;
  for (std::size_t i = 0; i < p.size(); ++i) gradient[i] = factor * ((i == answer ? 1.0 : 0.0) - p[i]);
  return gradient;
}

PairView view_of(const SequencePair& pair, std::span<const double> clean, std::span<const double> corrupted,
                 const Task& task) {
  PairView view;
  view.clean = token_views(pair.clean, task);
  view.corrupted = token_views(pair.corrupted, task);
  view.asked = pair.asked;
  view.clean_answer = pair.clean_answer;
  view.corrupted_answer = pair.corrupted_answer;
  view.clean_label = task.token_label(pair.clean_answer);
  view.corrupted_label = task.token_label(pair.corrupted_answer);
  view.clean_probability = softmax_of(clean)[static_cast<std::size_t>(pair.clean_answer)];
  view.corrupted_probability = softmax_of(corrupted)[static_cast<std::size_t>(pair.corrupted_answer)];
  view.measure = pair.measure;
  view.clean_measure = measured(pair, clean);
  view.corrupted_measure = measured(pair, corrupted);
  for (std::size_t t = 0; t < view.clean.size(); ++t) {
    if (view.clean[t].id != view.corrupted[t].id) view.changed.push_back(static_cast<int>(t));
  }
  return view;
}

double restored_share(double clean, double corrupted, double now) {
  return clean == corrupted ? std::numeric_limits<double>::quiet_NaN() : (now - corrupted) / (clean - corrupted);
}

}  // namespace afterglow
