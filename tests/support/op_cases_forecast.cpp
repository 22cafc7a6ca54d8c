// Cases of the forecasting operations and of full attention.
#include <cmath>

#include "core/backend/dropout_mask.h"
#include "core/ops/ops.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {

namespace {

constexpr double series_eps = 1e-5;

struct SeriesSizes {
  std::int64_t batch, length, channels;
  std::string text() const {
    return std::to_string(batch) + "x" + std::to_string(length) + "x" + std::to_string(channels);
  }
  std::int64_t at(std::int64_t b, std::int64_t t, std::int64_t c) const { return (b * length + t) * channels + c; }
};

OpCase moments_case(const SeriesSizes& n) {
  OpCase c;
  c.name = "series_moments_" + n.text();
  c.inputs = {{"x", {n.batch, n.length, n.channels}, -2, 2}};
  c.run = [](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    return series_moments(t, in[0], series_eps).deviation;
  };
  c.naive = [n](std::span<const Values> in, std::span<const Values>) {
    Values deviation;
    for (std::int64_t b = 0; b < n.batch; ++b) {
      for (std::int64_t k = 0; k < n.channels; ++k) {
        double sum = 0, squares = 0;
        for (std::int64_t t = 0; t < n.length; ++t) sum += in[0][n.at(b, t, k)];
        for (std::int64_t t = 0; t < n.length; ++t)
          squares += std::pow(in[0][n.at(b, t, k)] - sum / static_cast<double>(n.length), 2);
        deviation.push_back(std::sqrt(squares / static_cast<double>(n.length) + series_eps));
      }
    }
    return deviation;
  };
  c.tolerance = 3e-6;
  c.reason = "two sums over up to 101 numbers";
  return c;
}

/// The mean is data, as the gradient treats it.
OpCase normalise_case(const SeriesSizes& n) {
  OpCase c;
  c.name = "series_normalise_" + n.text();
  c.inputs = {{"x", {n.batch, n.length, n.channels}, -2, 2}, {"deviation", {n.batch, n.channels}, 0.5, 2}};
  c.data = {{"mean", {n.batch, n.channels}}};
  c.run = [](Tape& t, std::span<const Var> in, std::span<const Tensor> data) {
    return series_normalise(t, in[0], data[0], in[1]);
  };
  c.naive = [n](std::span<const Values> in, std::span<const Values> data) {
    Values z;
    for (std::int64_t b = 0; b < n.batch; ++b) {
      for (std::int64_t k = 0; k < n.channels; ++k) {
        const std::int64_t i = b * n.channels + k;
        for (std::int64_t t = 0; t < n.length; ++t) z.push_back((in[0][n.at(b, t, k)] - data[0][i]) / in[1][i]);
      }
    }
    return z;
  };
  return c;
}

OpCase restore_case(const SeriesSizes& n) {
  OpCase c;
  c.name = "series_restore_" + n.text();
  c.inputs = {{"z", {n.batch * n.channels, n.length}, -2, 2}, {"deviation", {n.batch, n.channels}, 0.5, 2}};
  c.data = {{"mean", {n.batch, n.channels}}};
  c.run = [](Tape& t, std::span<const Var> in, std::span<const Tensor> data) {
    return series_restore(t, in[0], data[0], in[1]);
  };
  c.naive = [n](std::span<const Values> in, std::span<const Values> data) {
    Values y(in[0].size());
    for (std::int64_t b = 0; b < n.batch; ++b) {
      for (std::int64_t k = 0; k < n.channels; ++k) {
        const std::int64_t i = b * n.channels + k;
        for (std::int64_t t = 0; t < n.length; ++t) y[n.at(b, t, k)] = in[0][i * n.length + t] * in[1][i] + data[0][i];
      }
    }
    return y;
  };
  return c;
}

OpCase prepend_case(std::int64_t count, std::int64_t tokens, std::int64_t length, std::int64_t width) {
  OpCase c;
  c.name = "prepend_" + std::to_string(tokens) + "_to_" + std::to_string(count) + "x" + std::to_string(length) + "x" +
           std::to_string(width);
  c.inputs = {{"tokens", {tokens, width}}, {"x", {count, length, width}}};
  c.run = [](Tape& t, std::span<const Var> in, std::span<const Tensor>) { return prepend_tokens(t, in[0], in[1]); };
  c.naive = [=](std::span<const Values> in, std::span<const Values>) {
    Values y;
    for (std::int64_t i = 0; i < count; ++i) {
      y.insert(y.end(), in[0].begin(), in[0].end());
      y.insert(y.end(), in[1].begin() + i * length * width, in[1].begin() + (i + 1) * length * width);
    }
    return y;
  };
  return c;
}

OpCase bias_case(std::int64_t rows, std::int64_t columns) {
  OpCase c;
  c.name = "add_bias_" + std::to_string(rows) + "x" + std::to_string(columns);
  c.inputs = {{"x", {rows, columns}}, {"bias", {columns}}};
  c.run = [](Tape& t, std::span<const Var> in, std::span<const Tensor>) { return add_bias(t, in[0], in[1]); };
  c.naive = [=](std::span<const Values> in, std::span<const Values>) {
    Values y = in[0];
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += in[1][i % static_cast<std::size_t>(columns)];
    return y;
  };
  return c;
}

OpCase contiguous_case(std::int64_t rows, std::int64_t before, std::int64_t columns) {
  OpCase c;
  c.name = "contiguous_" + std::to_string(rows) + "x" + std::to_string(columns);
  c.inputs = {{"wide", {rows, before + columns}}};
  c.run = [=](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    const std::int64_t widths[] = {before, columns};
    Var parts[2];
    t.split_columns(in[0], widths, parts);
    return contiguous(t, parts[1]);
  };
  c.naive = [=](std::span<const Values> in, std::span<const Values>) {
    Values y;
    for (std::int64_t i = 0; i < rows; ++i)
      y.insert(y.end(), in[0].begin() + i * (before + columns) + before, in[0].begin() + (i + 1) * (before + columns));
    return y;
  };
  return c;
}

OpCase error_case(std::int64_t rows, std::int64_t columns) {
  OpCase c;
  c.name = "squared_error_" + std::to_string(rows) + "x" + std::to_string(columns);
  c.inputs = {{"prediction", {rows, columns}, -2, 2}};
  c.data = {{"truth", {rows, columns}, -2, 2}};
  c.run = [](Tape& t, std::span<const Var> in, std::span<const Tensor> data) {
    return squared_error(t, in[0], data[0]).loss;
  };
  c.naive = [](std::span<const Values> in, std::span<const Values> data) {
    double sum = 0;
    for (std::size_t i = 0; i < in[0].size(); ++i) sum += std::pow(in[0][i] - data[0][i], 2);
    return Values{sum / static_cast<double>(in[0].size())};
  };
  return c;
}

OpCase dropout_case(std::int64_t rows, std::int64_t columns, double rate) {
  OpCase c;
  c.name = "dropout_" + std::to_string(rows) + "x" + std::to_string(columns);
  c.inputs = {{"x", {rows, columns}, -2, 2}};
  c.data = {{"counter", {1}, 0, 1000, DType::i32}};
  c.run = [=](Tape& t, std::span<const Var> in, std::span<const Tensor> data) {
    return dropout(t, in[0], {rate, 11, data[0]}, 3);
  };
  c.naive = [=](std::span<const Values> in, std::span<const Values> data) {
    Values y = in[0];
    for (std::size_t i = 0; i < y.size(); ++i) {
      const PhiloxBlock block =
          dropout_block(11, 3, static_cast<std::int32_t>(data[0][0]), static_cast<std::uint32_t>(i / 4));
      const std::uint32_t bits[] = {block.x0, block.x1, block.x2, block.x3};
      y[i] = philox_uniform(bits[i % 4]) < static_cast<float>(rate) ? 0.0 : y[i] / (1.0 - rate);
    }
    return y;
  };
  return c;
}

OpCase full_attention_case(std::int64_t batch, std::int64_t queries, std::int64_t keys, std::int64_t heads,
                           std::int64_t width) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(width));
  OpCase c;
  c.name = "full_attention_" + std::to_string(batch) + "x" + std::to_string(queries) + "of" + std::to_string(keys) +
           "x" + std::to_string(heads) + "x" + std::to_string(width);
  c.inputs = {{"q", {batch, queries, heads, width}, -2, 2},
              {"k", {batch, keys, heads, width}, -2, 2},
              {"v", {batch, keys, heads, width}}};
  c.run = [scale](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    return full_attention(t, in[0], in[1], in[2], scale);
  };
  c.naive = [=](std::span<const Values> in, std::span<const Values>) {
    Values y(in[0].size(), 0.0);
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t h = 0; h < heads; ++h) {
        for (std::int64_t i = 0; i < queries; ++i) {
          const std::int64_t query = ((b * queries + i) * heads + h) * width;
          double sum = 0;
          for (std::int64_t j = 0; j < keys; ++j) {
            const std::int64_t key = ((b * keys + j) * heads + h) * width;
            double score = 0;
            for (std::int64_t e = 0; e < width; ++e) score += in[0][query + e] * in[1][key + e];
            const double weight = std::exp(scale * score);
            sum += weight;
            for (std::int64_t e = 0; e < width; ++e) y[query + e] += weight * in[2][key + e];
          }
          for (std::int64_t e = 0; e < width; ++e) y[query + e] /= sum;
        }
      }
    }
    return y;
  };
  c.tolerance = 5e-6;
  c.reason = "exponentials of scores that are sums of up to 65 products; gradients of q and k subtract means";
  return c;
}

}  // namespace

void add_forecast_cases(std::vector<OpCase>& cases) {
  for (const SeriesSizes& n : {SeriesSizes{1, 2, 1}, SeriesSizes{3, 37, 7}, SeriesSizes{2, 101, 65}}) {
    cases.push_back(moments_case(n));
    cases.push_back(normalise_case(n));
    cases.push_back(restore_case(n));
  }
  cases.push_back(normalise_case({2, 1, 3}));
  cases.push_back(prepend_case(1, 1, 1, 1));
  cases.push_back(prepend_case(63, 4, 3, 37));
  cases.push_back(bias_case(37, 101));
  cases.push_back(contiguous_case(65, 37, 63));
  cases.push_back(error_case(1, 1));
  cases.push_back(error_case(101, 63));
  cases.push_back(dropout_case(1, 1, 0.5));
  cases.push_back(dropout_case(37, 101, 0.1));
  cases.push_back(full_attention_case(2, 37, 37, 3, 5));
  cases.push_back(full_attention_case(1, 65, 101, 1, 63));
  cases.push_back(full_attention_case(1, 101, 63, 2, 16));
  cases.push_back(full_attention_case(2, 64, 21, 2, 33));
  cases.push_back(full_attention_case(1, 11, 64, 3, 32));
  cases.push_back(full_attention_case(1, 300, 257, 2, 40));
  cases.push_back(full_attention_case(1, 256, 321, 1, 65));
  cases.push_back(full_attention_case(1, 390, 256, 1, 128));
}

}  // namespace afterglow::testing
