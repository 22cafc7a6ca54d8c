// A thread takes all waiting tokens, and starts again for those that arrive meanwhile.
#include "core/engine/inspection/trace_decomposition.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/analysis/attention/softmax.h"
#include "core/analysis/linear_algebra/spectrum.h"
#include "core/engine/inspection/head_spectrum.h"

namespace afterglow {

namespace {

constexpr std::size_t max_waiting = 64;  // tokens, so that a slow processor does not fill the memory
constexpr std::size_t answers_of_a_token = 5;

void add_answers(std::vector<double> scores, TokenStep& step) {
  softmax_in_place(scores);
  std::vector<int> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const auto shown = static_cast<std::ptrdiff_t>(std::min(answers_of_a_token, order.size()));
  std::partial_sort(order.begin(), order.begin() + shown, order.end(),
                    [&](int a, int b) { return scores[a] > scores[b] || (scores[a] == scores[b] && a < b); });
  step.top_tokens.assign(order.begin(), order.begin() + shown);
  for (const int token : step.top_tokens) step.top_probabilities.push_back(scores[token]);
}

/// Norm and effective rank of `heads` matrices with `rows` rows each.
void measure_matrices(const TokenNumbers& numbers, TokenStep& step) {
  if (numbers.matrices.empty()) return;
  const std::size_t size = numbers.matrices.size() / static_cast<std::size_t>(numbers.heads),
                    height = static_cast<std::size_t>(numbers.rows), width = size / height;
  for (std::size_t head = 0; head < static_cast<std::size_t>(numbers.heads); ++head) {
    const double* S = numbers.matrices.data() + head * size;
    double square = 0, fourth = 0;  // |S|^2 and |S S^T|^2
    for (std::size_t i = 0; i < height; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        const double product = std::inner_product(S + i * width, S + (i + 1) * width, S + j * width, 0.0);
        fourth += (i == j ? 1 : 2) * product * product;
        if (i == j) square += product;
      }
    }
    step.state_norm.push_back(std::sqrt(square));
    step.state_rank.push_back(square > 0 ? square * square / fourth : 0);
  }
}

void decompose_head(const std::vector<double>& A_w, int rank, HeadStep& head) {
  head.gram = symmetric_spectrum(std::vector<double>(head.G.begin(), head.G.end()), rank);
  const GramRange range = gram_range(head.gram, head.ridge);
  head.lambda_min = range.smallest;
  head.kappa = range.largest / range.smallest;
  head.eigenvalues = eigenvalues(A_w, rank);
}

}  // namespace

void TraceDecomposition::add(TokenStep& step, TokenNumbers numbers) {
  waiting_.push_back({&step, std::move(numbers)});
  const bool is_idle = !work_.valid() || work_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  if (is_idle || waiting_.size() >= max_waiting) begin();
}

void TraceDecomposition::begin() {
  if (work_.valid()) work_.get();
  work_ = std::async(std::launch::async, [this, tokens = std::exchange(waiting_, {})]() mutable {
    std::vector<std::pair<std::size_t, std::size_t>> pieces;  // token, and a head or, after the last head, the rest
    for (std::size_t token = 0; token < tokens.size(); ++token) {
      for (std::size_t head = 0; head <= tokens[token].step->heads.size(); ++head) pieces.emplace_back(token, head);
    }
    pool_.for_each(static_cast<std::int64_t>(pieces.size()), [&](std::int64_t i) {
      const auto [token, head] = pieces[static_cast<std::size_t>(i)];
      TokenStep& step = *tokens[token].step;
      TokenNumbers& numbers = tokens[token].numbers;
      if (head < step.heads.size()) return decompose_head(numbers.operators[head], numbers.rank, step.heads[head]);
      add_answers(std::move(numbers.scores), step);
      measure_matrices(numbers, step);
    });
  });
}

void TraceDecomposition::finish() {
  begin();
  work_.get();
}

}  // namespace afterglow
