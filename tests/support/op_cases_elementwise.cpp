// Cases of the elementwise operations.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/ops/ops.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {

namespace {

double softplus(double x) { return std::log1p(std::exp(-std::abs(x))) + std::max(x, 0.0); }

double unary_value(Unary kind, double x) {
  switch (kind) {
    case Unary::silu:
      return x * sigmoid(x);
    case Unary::sigmoid:
      return sigmoid(x);
    case Unary::softplus:
      return softplus(x);
    case Unary::tanh:
      return std::tanh(x);
    case Unary::gelu:
      return 0.5 * x * (1.0 + std::erf(x / std::numbers::sqrt2));
    case Unary::exp:
      return std::exp(x);
    case Unary::relu:
      return std::max(x, 0.0);
    case Unary::elu_plus_one:
      return x > 0.0 ? x + 1.0 : std::exp(x);
    case Unary::sine:
      return std::sin(x);
  }
  return 0.0;
}

/// One value from one value, or one from two.
template <class Function>
Values map(const Values& x, const Function& function) {
  Values y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = function(x[i]);
  return y;
}
template <class Function>
Values map(const Values& a, const Values& b, const Function& function) {
  Values y(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) y[i] = function(a[i], b[i % b.size()]);
  return y;
}

const std::vector<Shape> shapes{{1}, {37}, {63, 65}, {2, 3, 101}, {1, 101, 37}};

std::string name_of_shape(const Shape& shape) {
  std::string name;
  for (int axis = 0; axis < shape.rank(); ++axis) name += (axis > 0 ? "x" : "") + std::to_string(shape[axis]);
  return name;
}

void add_unary(std::vector<OpCase>& cases, Unary kind, const char* name, double reach) {
  for (const Shape& shape : shapes) {
    OpCase c;
    c.name = std::string(name) + "_" + name_of_shape(shape);
    c.inputs = {{"x", shape, -reach, reach}};
    c.run = [kind](Tape& t, std::span<const Var> in, std::span<const Tensor>) { return unary(t, kind, in[0]); };
    c.naive = [kind](std::span<const Values> in, std::span<const Values>) {
      return map(in[0], [kind](double x) { return unary_value(kind, x); });
    };
    c.tolerance = 2e-6;
    c.reason = "a few units in the last place of the vectorised exponential; 1 + erf cancels at negative numbers";
    cases.push_back(c);
  }
}

template <class Run, class Function>
void add_binary(std::vector<OpCase>& cases, const char* name, const Run& run, const Function& function) {
  for (const Shape& shape : shapes) {
    OpCase c;
    c.name = std::string(name) + "_" + name_of_shape(shape);
    c.inputs = {{"a", shape, -3, 3}, {"b", shape, -2, 2}};
    c.run = [run](Tape& t, std::span<const Var> in, std::span<const Tensor>) { return run(t, in[0], in[1]); };
    c.naive = [function](std::span<const Values> in, std::span<const Values>) { return map(in[0], in[1], function); };
    c.tolerance = 1e-6;
    c.reason = "a few roundings an element";
    cases.push_back(c);
    // One value in both places: its gradient has two parts in the same memory.
    c.name = std::string(name) + "_of_itself_" + name_of_shape(shape);
    c.inputs = {{"a", shape, -3, 3}};
    c.run = [run](Tape& t, std::span<const Var> in, std::span<const Tensor>) { return run(t, in[0], in[0]); };
    c.naive = [function](std::span<const Values> in, std::span<const Values>) { return map(in[0], in[0], function); };
    cases.push_back(c);
  }
}

/// x is a range of columns of a wider tensor, as where one projection yields several parts.
void add_softplus_bias(std::vector<OpCase>& cases, std::int64_t rows, std::int64_t before, std::int64_t width,
                       const StepRange& range = {}) {
  OpCase c;
  c.name = std::string("softplus_bias_") + (range.least > 0.0 ? "floor_" : "") +
           (std::isfinite(range.most) ? "ceiling_" : "") + std::to_string(rows) + "x" + std::to_string(width);
  c.inputs = {{"wide", {rows, before + width}, -4, 4}, {"bias", {width}, -3, 3}};
  c.run = [before, width, range](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    const std::int64_t widths[] = {before, width};
    Var parts[2];
    t.split_columns(in[0], widths, parts);
    return softplus_bias(t, parts[1], in[1], range);
  };
  c.naive = [rows, before, width, range](std::span<const Values> in, std::span<const Values>) {
    Values y;
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < width; ++j)
        y.push_back(std::clamp(softplus(in[0][i * (before + width) + before + j] + in[1][j]), range.least, range.most));
    return y;
  };
  c.tolerance = 1e-6;
  c.reason = "a few units in the last place of the logarithm; the bias sums up to 101 rows";
  cases.push_back(c);
}

/// Both halves of the columns of one tensor, as where gate and values are one projection.
void add_gated_halves(std::vector<OpCase>& cases, std::int64_t rows, std::int64_t width) {
  OpCase c;
  c.name = "silu_multiply_halves_" + std::to_string(rows) + "x" + std::to_string(width);
  c.inputs = {{"wide", {rows, 2 * width}, -3, 3}};
  c.run = [width](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    const std::int64_t widths[] = {width, width};
    Var parts[2];
    t.split_columns(in[0], widths, parts);
    return silu_multiply(t, parts[0], parts[1]);
  };
  c.naive = [rows, width](std::span<const Values> in, std::span<const Values>) {
    Values y;
    for (std::int64_t i = 0; i < rows; ++i) {
      const double* gate = in[0].data() + i * 2 * width;
      for (std::int64_t j = 0; j < width; ++j) y.push_back(gate[j] * sigmoid(gate[j]) * gate[width + j]);
    }
    return y;
  };
  c.tolerance = 1e-6;
  c.reason = "a few roundings an element";
  cases.push_back(c);
}

}  // namespace

void add_elementwise_cases(std::vector<OpCase>& cases) {
  add_unary(cases, Unary::silu, "silu", 6);
  add_unary(cases, Unary::sigmoid, "sigmoid", 6);
  add_unary(cases, Unary::softplus, "softplus", 25);
  add_unary(cases, Unary::tanh, "tanh", 3);
  add_unary(cases, Unary::gelu, "gelu", 3);
  add_unary(cases, Unary::exp, "exp", 4);
  add_unary(cases, Unary::relu, "relu", 3);
  add_unary(cases, Unary::elu_plus_one, "elu_plus_one", 3);
  add_unary(cases, Unary::sine, "sine", 4);
  add_binary(cases, "add", &add, [](double a, double b) { return a + b; });
  add_binary(cases, "multiply", &multiply, [](double a, double b) { return a * b; });
  add_binary(cases, "silu_multiply", &silu_multiply, [](double a, double b) { return a * sigmoid(a) * b; });
  add_binary(
      cases, "scaled_sum", [](Tape& t, const Var& a, const Var& b) { return add(t, scale(t, a, -1.7), b); },
      [](double a, double b) { return -1.7 * a + b; });
  add_gated_halves(cases, 37, 44);
  add_gated_halves(cases, 5, 63);
  add_softplus_bias(cases, 1, 3, 1);
  add_softplus_bias(cases, 101, 63, 5);
  add_softplus_bias(cases, 37, 1, 65);
  add_softplus_bias(cases, 37, 1, 33, {.least = 0.8});
  add_softplus_bias(cases, 37, 1, 33, {.least = 0.3, .most = 1.7});
}

}  // namespace afterglow::testing
