// Cases of Sessa's feedback solve.
#include <cmath>

#include "core/ops/ops.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {

namespace {

struct FeedbackSizes {
  std::int64_t batch, length, width, features;
};

/// Token by token from the definition; `wide` holds queries, then keys.
Values naive_solve(const FeedbackSizes& n, const Values& wide, const Values& gamma, const Values& f, double scale) {
  Values s(f.size());
  for (std::int64_t b = 0; b < n.batch; ++b) {
    for (std::int64_t t = 0; t < n.length; ++t) {
      const std::int64_t here = b * n.length + t;
      Values sum(static_cast<std::size_t>(n.features), 0.0);
      double total = 0.0;
      for (std::int64_t j = 0; j < t; ++j) {
        double score = 0.0;
        for (std::int64_t e = 0; e < n.width; ++e)
          score += wide[here * 2 * n.width + e] * wide[((b * n.length + j) * 2 + 1) * n.width + e];
        const double weight = std::exp(scale * score);
        total += weight;
        for (std::int64_t e = 0; e < n.features; ++e) sum[e] += weight * s[(b * n.length + j) * n.features + e];
      }
      for (std::int64_t e = 0; e < n.features; ++e) {
        const double routed = t == 0 ? 0.0 : sum[e] / total;
        s[here * n.features + e] = f[here * n.features + e] + gamma[here] * routed;
      }
    }
  }
  return s;
}

/// Queries and keys are columns of one tensor, as after Sessa's projection.
OpCase solve_case(const FeedbackSizes& n, double gamma, double logits) {
  const double scale = logits / std::sqrt(static_cast<double>(n.width));
  OpCase c;
  c.name = "feedback_solve_" + std::to_string(n.batch) + "x" + std::to_string(n.length) + "x" +
           std::to_string(n.width) + "over" + std::to_string(n.features) + (logits > 1 ? "_sharp" : "");
  c.inputs = {{"wide", {n.batch, n.length, 2 * n.width}, -2, 2},
              {"gamma", {n.batch, n.length}, -gamma, gamma},
              {"f", {n.batch, n.length, n.features}}};
  c.run = [n, scale](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    const std::int64_t widths[] = {n.width, n.width};
    Var parts[2];
    t.split_columns(in[0], widths, parts);
    return feedback_solve(t, {parts[0], parts[1], in[1], in[2]}, scale);
  };
  c.naive = [n, scale](std::span<const Values> in, std::span<const Values>) {
    return naive_solve(n, in[0], in[1], in[2], scale);
  };
  c.tolerance = 5e-6;
  c.reason = "exponentials of scores that are sums of up to 256 products, and a recurrence through all tokens";
  return c;
}

/// Queries, keys and right-hand sides are one tensor: three gradients in the same memory.
OpCase solve_of_itself() {
  OpCase c;
  c.name = "feedback_solve_of_itself";
  c.inputs = {{"x", {2, 65, 7}, -1, 1}, {"gamma", {2, 65}, -0.9, 0.9}};
  c.run = [](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    return feedback_solve(t, {in[0], in[0], in[1], in[0]}, 0.5);
  };
  c.naive = [](std::span<const Values> in, std::span<const Values>) {
    Values wide;
    for (std::size_t row = 0; row < in[0].size(); row += 7) {
      for (int copy = 0; copy < 2; ++copy) wide.insert(wide.end(), in[0].begin() + row, in[0].begin() + row + 7);
    }
    return naive_solve({2, 65, 7, 7}, wide, in[1], in[0], 0.5);
  };
  c.tolerance = 5e-6;
  c.reason = "as for separate inputs";
  return c;
}

}  // namespace

void add_feedback_cases(std::vector<OpCase>& cases) {
  cases.push_back(solve_case({1, 1, 1, 1}, 0.9, 1));
  cases.push_back(solve_case({3, 2, 5, 3}, 0.9, 1));
  cases.push_back(solve_case({2, 37, 8, 8}, 0.999, 1));
  cases.push_back(solve_case({1, 63, 64, 64}, 0.9, 1));
  cases.push_back(solve_case({2, 65, 37, 101}, 0.9, 1));
  cases.push_back(solve_case({1, 101, 128, 128}, 0.999, 1));
  cases.push_back(solve_case({1, 200, 256, 256}, 0.9, 1));
  cases.push_back(solve_case({1, 130, 130, 200}, 0.9, 1));
  cases.push_back(solve_case({2, 101, 16, 16}, 0.999, 8));
  cases.push_back(solve_of_itself());
}

}  // namespace afterglow::testing
