// Cases of the norms.
#include <algorithm>
#include <cmath>

#include "core/ops/ops.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {

namespace {

constexpr double eps = 1e-5;

/// RMSNorm of every row of `columns` numbers.
Values naive_norm(const Values& x, const Values& weight) {
  const std::size_t columns = weight.size();
  Values y(x.size());
  for (std::size_t row = 0; row < x.size(); row += columns) {
    double squares = 0.0;
    for (std::size_t j = 0; j < columns; ++j) squares += x[row + j] * x[row + j];
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(columns) + eps);
    for (std::size_t j = 0; j < columns; ++j) y[row + j] = x[row + j] * scale * weight[j];
  }
  return y;
}

OpCase norm_case(std::int64_t rows, std::int64_t columns) {
  OpCase c;
  c.name = "rms_norm_" + std::to_string(rows) + "x" + std::to_string(columns);
  c.inputs = {{"x", {rows, columns}, -2, 2}, {"weight", {columns}, 0.5, 1.5}};
  c.run = [](Tape& t, std::span<const Var> in, std::span<const Tensor>) { return rms_norm(t, in[0], in[1], eps); };
  c.naive = [](std::span<const Values> in, std::span<const Values>) { return naive_norm(in[0], in[1]); };
  c.tolerance = columns == 1 ? 1e-3 : 3e-6;
  c.reason = columns == 1 ? "with one column the gradient of x is a difference of nearly equal numbers"
                          : "sums over a row and over up to 101 rows";
  return c;
}

/// Both results of the norm of a sum, added.
OpCase normed_sum_case(std::int64_t rows, std::int64_t columns) {
  OpCase c;
  c.name = "add_rms_norm_" + std::to_string(rows) + "x" + std::to_string(columns);
  c.inputs = {{"a", {rows, columns}, -2, 2}, {"b", {rows, columns}, -2, 2}, {"weight", {columns}, 0.5, 1.5}};
  c.run = [](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    const NormedSum result = add_rms_norm(t, in[0], in[1], in[2], eps);
    return add(t, result.sum, result.normed);
  };
  c.naive = [](std::span<const Values> in, std::span<const Values>) {
    Values sum = in[0];
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += in[1][i];
    Values y = naive_norm(sum, in[2]);
    for (std::size_t i = 0; i < sum.size(); ++i) y[i] += sum[i];
    return y;
  };
  c.tolerance = 3e-6;
  c.reason = "sums over a row and over up to 101 rows";
  return c;
}

/// Rows divided by their length plus `unit_eps`.
OpCase unit_case(std::int64_t rows, std::int64_t columns, double unit_eps) {
  OpCase c;
  c.name = "unit_norm_" + std::to_string(rows) + "x" + std::to_string(columns) + (unit_eps > 0.1 ? "_large_eps" : "");
  c.inputs = {{"x", {rows, columns}, columns == 1 ? 0.5 : -2.0, 2}};
  c.run = [unit_eps](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    return unit_norm(t, in[0], unit_eps);
  };
  c.naive = [=](std::span<const Values> in, std::span<const Values>) {
    Values y(in[0].size());
    for (std::int64_t i = 0; i < rows; ++i) {
      double squares = 0.0;
      for (std::int64_t j = 0; j < columns; ++j) squares += std::pow(in[0][i * columns + j], 2);
      for (std::int64_t j = 0; j < columns; ++j)
        y[i * columns + j] = in[0][i * columns + j] / (std::sqrt(squares) + unit_eps);
    }
    return y;
  };
  c.reason = "sums over a row";
  return c;
}

/// Rows divided by the root of their squares' sum plus `l2_eps`.
OpCase l2_case(std::int64_t rows, std::int64_t columns, double l2_eps) {
  OpCase c;
  c.name = "l2_norm_" + std::to_string(rows) + "x" + std::to_string(columns) + (l2_eps > 0.1 ? "_large_eps" : "");
  c.inputs = {{"x", {rows, columns}, columns == 1 ? 0.5 : -2.0, 2}};
  c.run = [l2_eps](Tape& t, std::span<const Var> in, std::span<const Tensor>) { return l2_norm(t, in[0], l2_eps); };
  c.naive = [=](std::span<const Values> in, std::span<const Values>) {
    Values y(in[0].size());
    for (std::int64_t i = 0; i < rows; ++i) {
      double squares = l2_eps;
      for (std::int64_t j = 0; j < columns; ++j) squares += std::pow(in[0][i * columns + j], 2);
      for (std::int64_t j = 0; j < columns; ++j) y[i * columns + j] = in[0][i * columns + j] / std::sqrt(squares);
    }
    return y;
  };
  c.tolerance = 3e-6;
  c.reason = "sums over a row";
  return c;
}

/// Each range of columns is normed for itself.
OpCase group_case(std::int64_t rows, std::int64_t groups, std::int64_t columns) {
  OpCase c;
  c.name = "group_rms_norm_" + std::to_string(rows) + "x" + std::to_string(groups) + "of" + std::to_string(columns);
  const std::int64_t all = groups * columns;
  c.inputs = {{"x", {1, rows, all}, -2, 2}, {"weight", {all}, 0.5, 1.5}};
  c.run = [groups](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    return group_rms_norm(t, in[0], in[1], eps, groups);
  };
  c.naive = [=](std::span<const Values> in, std::span<const Values>) {
    Values y(in[0].size());
    for (std::int64_t group = 0; group < groups; ++group) {
      Values x;
      const auto of_group = [&](const Values& from, std::int64_t row) {
        return from.begin() + row * all + group * columns;
      };
      for (std::int64_t i = 0; i < rows; ++i) x.insert(x.end(), of_group(in[0], i), of_group(in[0], i) + columns);
      const Values weight(of_group(in[1], 0), of_group(in[1], 0) + columns), normed = naive_norm(x, weight);
      for (std::int64_t i = 0; i < rows; ++i)
        std::copy_n(normed.begin() + i * columns, columns, y.begin() + i * all + group * columns);
    }
    return y;
  };
  c.tolerance = 3e-6;
  c.reason = "sums over a row and over up to 101 rows";
  return c;
}

/// The gate is a range of columns of a wider tensor.
OpCase gated_case(std::int64_t rows, std::int64_t before, std::int64_t columns) {
  OpCase c;
  c.name = "gated_rms_norm_" + std::to_string(rows) + "x" + std::to_string(columns);
  c.inputs = {
      {"x", {1, rows, columns}, -2, 2}, {"wide", {1, rows, before + columns}, -3, 3}, {"weight", {columns}, 0.5, 1.5}};
  c.run = [before, columns](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    const std::int64_t widths[] = {before, columns};
    Var parts[2];
    t.split_columns(in[1], widths, parts);
    return gated_rms_norm(t, in[0], parts[1], in[2], eps);
  };
  c.naive = [=](std::span<const Values> in, std::span<const Values>) {
    Values gated(in[0].size());
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        const double z = in[1][i * (before + columns) + before + j];
        gated[i * columns + j] = in[0][i * columns + j] * z / (1.0 + std::exp(-z));
      }
    }
    return naive_norm(gated, in[2]);
  };
  c.tolerance = 3e-6;
  c.reason = "the norm's sums on top of a sigmoid";
  return c;
}

Values naive_layer_norm(const Values& x, const Values& weight, const Values& bias) {
  const std::size_t columns = weight.size();
  const auto n = static_cast<double>(columns);
  Values y(x.size());
  for (std::size_t row = 0; row < x.size(); row += columns) {
    double mean = 0.0, variance = 0.0;
    for (std::size_t j = 0; j < columns; ++j) mean += x[row + j] / n;
    for (std::size_t j = 0; j < columns; ++j) variance += (x[row + j] - mean) * (x[row + j] - mean) / n;
    for (std::size_t j = 0; j < columns; ++j)
      y[row + j] = (x[row + j] - mean) / std::sqrt(variance + eps) * weight[j] + bias[j];
  }
  return y;
}

/// `low` and `high` are those of x: numbers far from zero show whether the variance is taken about the mean.
OpCase layer_norm_case(std::int64_t rows, std::int64_t columns, double low, double high) {
  OpCase c;
  c.name = "layer_norm_" + std::to_string(rows) + "x" + std::to_string(columns) + (low > 0 ? "_far_from_zero" : "");
  c.inputs = {{"x", {rows, columns}, low, high}, {"weight", {columns}, 0.5, 1.5}, {"bias", {columns}, -1, 1}};
  c.run = [](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    return layer_norm(t, in[0], in[1], in[2], eps);
  };
  c.naive = [](std::span<const Values> in, std::span<const Values>) { return naive_layer_norm(in[0], in[1], in[2]); };
  c.tolerance = low > 0 ? 1e-4 : 3e-6;
  c.reason = low > 0 ? "the spread is a hundredth of the numbers" : "sums over a row and over up to 101 rows";
  return c;
}

enum class HeadWeight { none, of_each, of_all };

/// The gate is the columns after the first `before` of a tensor.
OpCase heads_case(std::int64_t rows, std::int64_t heads, std::int64_t width, HeadWeight weight, std::int64_t before) {
  OpCase c;
  const bool normed = weight != HeadWeight::none;
  const std::int64_t columns = heads * width, weights = weight == HeadWeight::of_all ? width : columns;
  // A norm of one number keeps its sign alone, unless eps has a say.
  const double own_eps = width == 1 ? 0.5 : eps;
  c.name = "gated_heads_" + std::to_string(rows) + "x" + std::to_string(heads) + "x" + std::to_string(width) +
           (!normed                        ? ""
            : weight == HeadWeight::of_all ? "_normed_alike"
                                           : "_normed");
  c.inputs = {{"x", {1, rows, heads, width}, -2, 2}, {"wide", {1, rows, before + columns}, -3, 3}};
  if (normed) c.inputs.push_back({"weight", {weights}, 0.5, 1.5});
  c.run = [=](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    const std::int64_t widths[] = {before, columns};
    Var parts[] = {Var{}, in[1]};
    if (before > 0) t.split_columns(in[1], widths, parts);
    return gated_heads(t, in[0], parts[1], normed ? in[2] : Var{}, own_eps);
  };
  c.naive = [=](std::span<const Values> in, std::span<const Values>) {
    Values y(in[0].size());
    for (std::int64_t i = 0; i < rows * heads; ++i) {
      double squares = 0.0;
      for (std::int64_t p = 0; p < width; ++p) squares += in[0][i * width + p] * in[0][i * width + p];
      const double scale = normed ? 1.0 / std::sqrt(squares / static_cast<double>(width) + own_eps) : 1.0;
      for (std::int64_t p = 0; p < width; ++p) {
        const std::int64_t column = i % heads * width + p;
        const double z = in[1][i / heads * (before + columns) + before + column];
        y[i * width + p] =
            in[0][i * width + p] * scale * (normed ? in[2][column % weights] : 1.0) * z / (1.0 + std::exp(-z));
      }
    }
    return y;
  };
  c.tolerance = 3e-6;
  c.reason = "sums over rows of either sign";
  return c;
}

}  // namespace

void add_norm_cases(std::vector<OpCase>& cases) {
  cases.push_back(norm_case(37, 1));
  cases.push_back(norm_case(1, 37));
  cases.push_back(norm_case(101, 63));
  cases.push_back(norm_case(65, 101));
  cases.push_back(norm_case(101, 64));
  cases.push_back(norm_case(37, 132));
  cases.push_back(normed_sum_case(1, 37));
  cases.push_back(normed_sum_case(101, 63));
  cases.push_back(normed_sum_case(5, 200));
  cases.push_back(normed_sum_case(33, 48));
  cases.push_back(unit_case(37, 1, 0.3));
  cases.push_back(unit_case(1, 37, 1e-6));
  cases.push_back(unit_case(101, 63, 1e-6));
  cases.push_back(unit_case(65, 101, 0.7));
  cases.push_back(l2_case(37, 1, 0.3));
  cases.push_back(l2_case(1, 37, 1e-6));
  cases.push_back(l2_case(101, 63, 0.4));
  cases.push_back(group_case(1, 1, 37));
  cases.push_back(group_case(37, 2, 33));
  cases.push_back(group_case(101, 4, 16));
  // With one or two columns the gradient of x is a difference of nearly equal numbers, rounding alone.
  cases.push_back(layer_norm_case(37, 3, -2, 2));
  cases.push_back(layer_norm_case(1, 37, -2, 2));
  cases.push_back(layer_norm_case(101, 63, -2, 2));
  cases.push_back(layer_norm_case(65, 101, 100, 101));
  cases.push_back(gated_case(1, 1, 63));
  cases.push_back(gated_case(101, 37, 65));
  cases.push_back(gated_case(101, 4, 64));
  for (const HeadWeight weight : {HeadWeight::none, HeadWeight::of_each, HeadWeight::of_all}) {
    cases.push_back(heads_case(1, 1, 1, weight, 0));
    cases.push_back(heads_case(37, 3, 5, weight, 1));
    cases.push_back(heads_case(65, 2, 63, weight, 0));
    cases.push_back(heads_case(37, 7, 64, weight, 0));
    cases.push_back(heads_case(5, 3, 128, weight, 4));
    cases.push_back(heads_case(4101, 2, 16, weight, 0));
  }
}

}  // namespace afterglow::testing
