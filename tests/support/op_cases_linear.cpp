// Cases of linear projections.
#include <cmath>

#include "core/ops/ops.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {

namespace {

struct LinearSizes {
  std::int64_t rows, inputs, outputs;
  bool bias;
};

Values naive_linear(const LinearSizes& n, const Values& x, const Values& weight, const Values& bias) {
  Values y(static_cast<std::size_t>(n.rows * n.outputs));
  for (std::int64_t i = 0; i < n.rows; ++i) {
    for (std::int64_t j = 0; j < n.outputs; ++j) {
      double sum = bias.empty() ? 0.0 : bias[j];
      for (std::int64_t k = 0; k < n.inputs; ++k) sum += x[i * n.inputs + k] * weight[j * n.inputs + k];
      y[i * n.outputs + j] = sum;
    }
  }
  return y;
}

OpCase linear_case(const LinearSizes& n) {
  OpCase c;
  c.name = "linear_" + std::to_string(n.rows) + "x" + std::to_string(n.inputs) + "to" + std::to_string(n.outputs);
  c.inputs = {{"x", {n.rows, n.inputs}}, {"weight", {n.outputs, n.inputs}}};
  if (n.bias) c.inputs.push_back({"bias", {n.outputs}});
  c.run = [n](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    return linear(t, in[0], in[1], n.bias ? in[2] : Var{});
  };
  c.naive = [n](std::span<const Values> in, std::span<const Values>) {
    return naive_linear(n, in[0], in[1], n.bias ? in[2] : Values{});
  };
  c.tolerance = 2e-6;
  c.reason = "sums of up to 1200 products of either sign";
  return c;
}

/// Two projections of adjacent column ranges of one tensor: strided rows forward and backward.
OpCase strided_case() {
  OpCase c;
  c.name = "linear_of_columns";
  c.inputs = {{"x", {5, 13, 100}}, {"left", {63, 37}}, {"right", {63, 63}}};
  c.run = [](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    const std::int64_t widths[] = {37, 63};
    Var parts[2];
    t.split_columns(in[0], widths, parts);
    return add(t, linear(t, parts[0], in[1]), linear(t, parts[1], in[2]));
  };
  c.naive = [](std::span<const Values> in, std::span<const Values>) {
    Values y(5 * 13 * 63, 0.0);
    for (int i = 0; i < 65; ++i)
      for (int j = 0; j < 63; ++j)
        for (int k = 0; k < 100; ++k)
          y[i * 63 + j] += in[0][i * 100 + k] * (k < 37 ? in[1][j * 37 + k] : in[2][j * 63 + k - 37]);
    return y;
  };
  c.reason = "sums of a hundred products of either sign";
  return c;
}

Values product(const Values& x, const Values& weight, std::int64_t rows, std::int64_t outputs) {
  return naive_linear({rows, static_cast<std::int64_t>(x.size()) / rows, outputs, false}, x, weight, {});
}

/// Three projections of one input, of which the last goes nowhere; the others are mapped to one width and added. With
/// `biases` the second has none.
OpCase projections_case(bool biases) {
  OpCase c;
  c.name = biases ? "linear_many_with_biases" : "linear_many";
  c.inputs = {{"x", {7, 13, 37}},  {"first", {50, 37}},      {"second", {63, 37}},
              {"unused", {5, 37}}, {"from_first", {20, 50}}, {"from_second", {20, 63}}};
  if (biases) c.inputs.insert(c.inputs.end(), {{"first_bias", {50}}, {"unused_bias", {5}}});
  c.run = [biases](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    Var projections[3], offsets[3];
    if (biases) {
      offsets[0] = in[6];
      offsets[2] = in[7];
    }
    linear_many(t, in[0], in.subspan(1, 3), projections, {offsets, biases ? std::size_t{3} : std::size_t{0}});
    return add(t, linear(t, projections[0], in[4]), linear(t, projections[1], in[5]));
  };
  c.naive = [biases](std::span<const Values> in, std::span<const Values>) {
    const Values first = naive_linear({91, 37, 50, biases}, in[0], in[1], biases ? in[6] : Values{});
    Values y = product(first, in[4], 91, 20);
    const Values second = product(product(in[0], in[2], 91, 63), in[5], 91, 20);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += second[i];
    return y;
  };
  c.reason = "sums of sums of up to 91 products of either sign";
  return c;
}

OpCase gated_mlp_case(std::int64_t rows, std::int64_t width, std::int64_t inner) {
  OpCase c;
  c.name = "gated_mlp_" + std::to_string(rows) + "x" + std::to_string(width) + "x" + std::to_string(inner);
  c.inputs = {{"x", {rows, width}}, {"gate", {inner, width}}, {"up", {inner, width}}, {"down", {width, inner}}};
  c.run = [](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    return gated_mlp(t, in[0], in[1], in[2], in[3]);
  };
  c.naive = [=](std::span<const Values> in, std::span<const Values>) {
    Values h = product(in[0], in[1], rows, inner);
    const Values u = product(in[0], in[2], rows, inner);
    for (std::size_t i = 0; i < h.size(); ++i) h[i] *= u[i] / (1.0 + std::exp(-h[i]));
    return product(h, in[3], rows, width);
  };
  c.tolerance = 3e-6;
  c.reason = "two products one after the other";
  return c;
}

}  // namespace

void add_linear_cases(std::vector<OpCase>& cases) {
  for (const LinearSizes& n :
       {LinearSizes{1, 1, 1, true}, LinearSizes{1, 65, 37, false}, LinearSizes{101, 37, 63, true},
        LinearSizes{65, 63, 101, false}, LinearSizes{37, 1, 65, true}, LinearSizes{1200, 65, 130, true},
        LinearSizes{4200, 3, 5, true}, LinearSizes{1, 900, 101, true}, LinearSizes{3, 132, 65, false}})
    cases.push_back(linear_case(n));
  cases.push_back(strided_case());
  cases.push_back(projections_case(false));
  cases.push_back(projections_case(true));
  cases.push_back(gated_mlp_case(1, 1, 1));
  cases.push_back(gated_mlp_case(2, 36, 65));
  cases.push_back(gated_mlp_case(101, 37, 65));
  cases.push_back(gated_mlp_case(300, 64, 101));
}

}  // namespace afterglow::testing
