// Cases of linear maps.
#include "core/ops/ops.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {

namespace {

struct Sizes {
  std::int64_t rows, inputs, outputs;
  bool bias;
};

Values naive_linear(const Sizes& n, const Values& x, const Values& weight, const Values& bias) {
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

OpCase linear_case(const Sizes& n) {
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

/// Two maps of adjacent column ranges of one tensor: strided rows forward and backward.
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

}  // namespace

void add_linear_cases(std::vector<OpCase>& cases) {
  for (const Sizes& n : {Sizes{1, 1, 1, true}, Sizes{1, 65, 37, false}, Sizes{101, 37, 63, true},
                         Sizes{65, 63, 101, false}, Sizes{37, 1, 65, true}, Sizes{1200, 65, 130, true}})
    cases.push_back(linear_case(n));
  cases.push_back(strided_case());
}

}  // namespace afterglow::testing
