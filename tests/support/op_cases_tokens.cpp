// Cases of embedding and cross-entropy.
#include <cmath>

#include "core/ops/ops.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {

namespace {

std::string size_name(std::int64_t a, std::int64_t b, std::int64_t c) {
  return std::to_string(a) + "x" + std::to_string(b) + "x" + std::to_string(c);
}

OpCase embedding_case(std::int64_t batch, std::int64_t length, std::int64_t vocabulary, std::int64_t width) {
  OpCase c;
  c.name = "embedding_" + size_name(batch, length, width) + "_of_" + std::to_string(vocabulary);
  c.inputs = {{"table", {vocabulary, width}}};
  c.data = {{"tokens", {batch, length}, 0.0, static_cast<double>(vocabulary - 1), DType::i32}};
  c.run = [](Tape& t, std::span<const Var> in, std::span<const Tensor> data) { return embedding(t, data[0], in[0]); };
  c.naive = [width](std::span<const Values> in, std::span<const Values> data) {
    Values y;
    for (const double token : data[0]) {
      for (std::int64_t j = 0; j < width; ++j) y.push_back(in[0][static_cast<std::int64_t>(token) * width + j]);
    }
    return y;
  };
  c.tolerance = 1e-6;
  c.reason = "the gradient of a row sums its tokens";
  return c;
}

/// About half of the rows have no target when `low` is negative.
OpCase cross_entropy_case(std::int64_t batch, std::int64_t length, std::int64_t vocabulary, double low, double high) {
  OpCase c;
  c.name = "cross_entropy_" + size_name(batch, length, vocabulary) + (low < 0 ? "_masked" : "");
  c.inputs = {{"logits", {batch, length, vocabulary}, -4, 4}};
  c.data = {{"targets", {batch, length}, low, high, DType::i32}};
  c.run = [](Tape& t, std::span<const Var> in, std::span<const Tensor> data) {
    return cross_entropy(t, in[0], data[0]).loss;
  };
  c.naive = [vocabulary](std::span<const Values> in, std::span<const Values> data) {
    double loss = 0.0, count = 0.0;
    for (std::size_t i = 0; i < data[0].size(); ++i) {
      if (data[0][i] < 0.0) continue;
      const double* row = in[0].data() + static_cast<std::int64_t>(i) * vocabulary;
      double sum = 0.0;
      for (std::int64_t j = 0; j < vocabulary; ++j) sum += std::exp(row[j]);
      loss += std::log(sum) - row[static_cast<std::int64_t>(data[0][i])];
      count += 1.0;
    }
    return Values{count > 0.0 ? loss / count : 0.0};
  };
  c.tolerance = 2e-6;
  c.reason = "a few roundings of the exponential and of the sum over the vocabulary";
  return c;
}

/// A head and its loss of which `rows` rows of logits exist at a time; it reads the answered rows alone where there are
/// at most `answers` of them (0: all may be). About half of the rows have no target when `low` is negative.
OpCase head_case(const Shape& hidden, std::int64_t vocabulary, std::int64_t rows, double low,
                 std::int64_t answers = 0) {
  const std::int64_t width = hidden.last();
  OpCase c;
  c.name = "head_cross_entropy_" + size_name(hidden.rows(), width, vocabulary) + "_by_" + std::to_string(rows) +
           (low < 0 ? "_masked" : "") + (answers > 0 ? "_at_most_" + std::to_string(answers) : "");
  c.inputs = {{"hidden", hidden, -2, 2}, {"weight", {vocabulary, width}}};
  c.data = {{"targets", {hidden[0], hidden[1]}, low, static_cast<double>(vocabulary - 1), DType::i32}};
  c.run = [=](Tape& t, std::span<const Var> in, std::span<const Tensor> data) {
    if (answers == 0) return head_cross_entropy(t, in[0], in[1], data[0], rows * vocabulary).loss;
    const AnsweredRows answered = answered_rows(t, data[0], answers);
    const Var hidden_rows = gather_rows(t, in[0], {}, answered);
    return head_cross_entropy(t, hidden_rows, in[1], answered.targets, rows * vocabulary).loss;
  };
  c.naive = [=](std::span<const Values> in, std::span<const Values> data) {
    double loss = 0.0, count = 0.0;
    for (std::size_t i = 0; i < data[0].size(); ++i) {
      if (data[0][i] < 0.0) continue;
      double sum = 0.0, own = 0.0;
      for (std::int64_t j = 0; j < vocabulary; ++j) {
        double logit = 0.0;
        for (std::int64_t k = 0; k < width; ++k)
          logit += in[0][i * static_cast<std::size_t>(width) + static_cast<std::size_t>(k)] * in[1][j * width + k];
        sum += std::exp(logit);
        if (j == static_cast<std::int64_t>(data[0][i])) own = logit;
      }
      loss += std::log(sum) - own;
      count += 1.0;
    }
    return Values{count > 0.0 ? loss / count : 0.0};
  };
  c.tolerance = 2e-6;
  c.reason = "a few roundings of the exponential and of the sums over the vocabulary and over rows";
  return c;
}

/// Answered rows of x, or of x + y; at most `most` rows have a target.
OpCase gather_case(const Shape& shape, bool is_sum, double low, std::int64_t most) {
  const std::int64_t width = shape.last();
  OpCase c;
  c.name = "gather_rows_" + size_name(shape[0], shape[1], width) + "_to_" + std::to_string(most) +
           (is_sum ? "_of_a_sum" : "");
  c.inputs = {{"x", shape, -2, 2}};
  if (is_sum) c.inputs.push_back({"y", shape, -2, 2});
  c.data = {{"targets", {shape[0], shape[1]}, low, 1, DType::i32}};
  c.run = [=](Tape& t, std::span<const Var> in, std::span<const Tensor> data) {
    return gather_rows(t, in[0], is_sum ? in[1] : Var{}, answered_rows(t, data[0], most));
  };
  c.naive = [=](std::span<const Values> in, std::span<const Values> data) {
    Values z;
    for (std::size_t row = 0; row < data[0].size(); ++row) {
      for (std::int64_t j = 0; j < width && data[0][row] >= 0; ++j) {
        const std::size_t i = row * static_cast<std::size_t>(width) + static_cast<std::size_t>(j);
        z.push_back(in[0][i] + (is_sum ? in[1][i] : 0.0));
      }
    }
    z.resize(static_cast<std::size_t>(most * width), 0.0);
    return z;
  };
  c.tolerance = 1e-7;
  c.reason = "one sum";
  return c;
}

}  // namespace

void add_token_cases(std::vector<OpCase>& cases) {
  cases.push_back(embedding_case(1, 1, 1, 1));
  cases.push_back(embedding_case(3, 37, 65, 63));
  cases.push_back(embedding_case(2, 41, 4099, 131));  // a large table, of which few words occur
  cases.push_back(embedding_case(1, 9, 5, 515));
  cases.push_back(embedding_case(2, 101, 5, 37));
  cases.push_back(cross_entropy_case(1, 1, 37, 0, 36));
  cases.push_back(cross_entropy_case(2, 37, 101, 0, 100));
  cases.push_back(cross_entropy_case(3, 65, 63, -62, 62));
  cases.push_back(cross_entropy_case(1, 7, 5, -3, -1));
  cases.push_back(head_case({1, 1, 3}, 37, 1, 0));
  cases.push_back(head_case({2, 37, 5}, 101, 16, 0));
  cases.push_back(head_case({3, 65, 33}, 63, 130, -62));
  cases.push_back(head_case({1, 300, 64}, 260, 256, 0));
  cases.push_back(head_case({1, 7, 4}, 5, 2, -9));
  cases.push_back(head_case({1, 9, 8}, 33, 9, 0));
  cases.push_back(head_case({3, 65, 33}, 63, 50, -62, 120));
  cases.push_back(head_case({2, 400, 12}, 40, 1000, -300, 130));
  cases.push_back(head_case({1, 7, 4}, 5, 2, -9, 6));
  cases.push_back(gather_case({1, 1, 1}, false, 0, 1));
  cases.push_back(gather_case({2, 19, 33}, true, -2, 38));
  cases.push_back(gather_case({3, 700, 5}, true, -40, 300));
  cases.push_back(gather_case({1, 9, 130}, false, -9, 9));
}

}  // namespace afterglow::testing
