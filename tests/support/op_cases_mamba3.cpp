// Cases of what Mamba-3 computes around its scan.
#include <cmath>
#include <numbers>

#include "core/ops/ops.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {

namespace {

constexpr double pi = std::numbers::pi;

/// A norm of one number keeps its sign alone, unless eps has a say.
double eps_for(std::int64_t width) { return width == 1 ? 0.5 : 1e-5; }

std::string sizes_text(std::initializer_list<std::int64_t> sizes) {
  std::string text;
  for (const std::int64_t size : sizes) text += (text.empty() ? "_" : "x") + std::to_string(size);
  return text;
}

/// Columns [first, first + count) of rows that are `width` wide.
Values columns_of(const Values& wide, std::int64_t width, std::int64_t first, std::int64_t count) {
  Values part;
  for (std::size_t row = 0; row * width < wide.size(); ++row)
    for (std::int64_t i = 0; i < count; ++i) part.push_back(wide[row * width + first + i]);
  return part;
}

/// With `wider`, x stands between two columns that do not matter.
OpCase steps(std::int64_t rows, std::int64_t heads, const StepFloors& floors, bool wider) {
  OpCase c;
  c.name = "trapezoid_steps" + sizes_text({rows, heads}) + (floors.rate > 0 ? "_floors" : "") + (wider ? "_wide" : "");
  const std::int64_t width = 3 * heads + (wider ? 2 : 0);
  c.inputs = {{"x", {1, rows, width}, -3, 3}, {"bias", {heads}, -2, 1}};
  c.run = [heads, floors, wider](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    if (!wider) return trapezoid_steps(t, in[0], in[1], floors);
    const std::int64_t widths[] = {1, 3 * heads, 1};
    Var parts[3];
    t.split_columns(in[0], widths, parts);
    return trapezoid_steps(t, parts[1], in[1], floors);
  };
  c.naive = [rows, heads, width, floors, wider](std::span<const Values> in, std::span<const Values>) {
    Values y(static_cast<std::size_t>(rows * 4 * heads));
    for (std::int64_t row = 0; row < rows; ++row) {
      const double* x = in[0].data() + row * width + (wider ? 1 : 0);
      for (std::int64_t h = 0; h < heads; ++h) {
        const double dt = std::max(std::log1p(std::exp(x[h] + in[1][h])), floors.step), A = x[heads + h];
        const double rate = std::max(A >= 0 ? 1 + A : 1 / (1 - A), floors.rate), r = sigmoid(x[2 * heads + h]);
        const double parts[] = {dt, -rate * dt, r * dt, (1 - r) * dt};
        for (int i = 0; i < 4; ++i) y[(row * 4 + i) * heads + h] = parts[i];
      }
    }
    return y;
  };
  c.reason = "a few products and exponentials";
  return c;
}

OpCase angles(std::int64_t batch, std::int64_t tokens, std::int64_t heads, std::int64_t pairs, bool wider) {
  OpCase c;
  c.name = "rotary_angles" + sizes_text({batch, tokens, heads, pairs}) + (wider ? "_wide" : "");
  const auto run = [](Tape& t, const Var& dt, const Var& turn) { return rotary_angles(t, dt, turn); };
  const auto naive = [=](const Values& dt, const Values& turn) {
    Values theta(static_cast<std::size_t>(batch * tokens * heads * pairs));
    for (std::int64_t i = 0; i < batch * tokens * heads * pairs; ++i) {
      const std::int64_t row = i / (heads * pairs), h = i / pairs % heads, pair = i % pairs;
      double sum = 0.0;
      for (std::int64_t s = row / tokens * tokens; s <= row; ++s)
        sum += dt[s * heads + h] * pi * std::tanh(turn[s * pairs + pair]);
      theta[i] = std::remainder(sum, 2 * pi);
    }
    return theta;
  };
  if (wider) {
    c.inputs = {{"wide", {batch, tokens, heads + pairs}, 0.0, 0.5}};
    c.run = [=](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
      const std::int64_t widths[] = {heads, pairs};
      Var parts[2];
      t.split_columns(in[0], widths, parts);
      return run(t, parts[0], parts[1]);
    };
    c.naive = [=](std::span<const Values> in, std::span<const Values>) {
      return naive(columns_of(in[0], heads + pairs, 0, heads), columns_of(in[0], heads + pairs, heads, pairs));
    };
  } else {
    c.inputs = {{"dt", {batch, tokens, heads}, 0.0, 0.4}, {"turn", {batch, tokens, pairs}, -1.0, 3.0}};
    c.run = [=](Tape& t, std::span<const Var> in, std::span<const Tensor>) { return run(t, in[0], in[1]); };
    c.naive = [=](std::span<const Values> in, std::span<const Values>) { return naive(in[0], in[1]); };
  }
  c.tolerance = 5e-6;
  c.reason = "each term is rounded once, and they add up to some turns before whole turns are taken away";
  return c;
}

OpCase turned(std::int64_t batch, std::int64_t tokens, std::int64_t heads, std::int64_t states, std::int64_t pairs,
              bool wider) {
  OpCase c;
  c.name = "rotate_heads" + sizes_text({batch, tokens, heads, states, pairs}) + (wider ? "_wide" : "");
  const std::int64_t width = states + (wider ? 3 : 0);
  c.inputs = {{"x", {batch, tokens, width}, -2, 2}, {"weight", {states}, 0.5, 1.5}, {"bias", {heads, 1, states}}};
  if (pairs > 0) c.inputs.push_back({"theta", {batch, tokens, heads, pairs}, -3.1, 3.1});
  c.run = [=](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    const std::int64_t widths[] = {width - states, states};
    Var parts[] = {Var{}, in[0]};
    if (wider) t.split_columns(in[0], widths, parts);
    return rotate_heads(t, parts[1], in[1], in[2], pairs > 0 ? in[3] : Var{}, eps_for(states));
  };
  c.naive = [=](std::span<const Values> in, std::span<const Values>) {
    const Values x = columns_of(in[0], width, width - states, states);
    Values y;
    for (std::int64_t row = 0; row < batch * tokens; ++row) {
      double squares = 0.0;
      for (std::int64_t n = 0; n < states; ++n) squares += x[row * states + n] * x[row * states + n];
      const double scale = 1.0 / std::sqrt(squares / static_cast<double>(states) + eps_for(states));
      for (std::int64_t h = 0; h < heads; ++h) {
        for (std::int64_t n = 0; n < states; ++n)
          y.push_back(x[row * states + n] * scale * in[1][n] + in[2][h * states + n]);
        double* key = y.data() + (row * heads + h) * states;
        for (std::int64_t i = 0; i < pairs; ++i) {
          const double angle = in[3][(row * heads + h) * pairs + i], a = key[2 * i], b = key[2 * i + 1];
          key[2 * i] = a * std::cos(angle) - b * std::sin(angle);
          key[2 * i + 1] = a * std::sin(angle) + b * std::cos(angle);
        }
      }
    }
    return y;
  };
  c.tolerance = 3e-6;
  c.reason = "sums over heads and rows of either sign";
  return c;
}

/// Heads turned by the angles of long sequences, which whole turns leave as they are.
OpCase turned_by_steps(std::int64_t batch, std::int64_t tokens, std::int64_t heads, std::int64_t states,
                       std::int64_t pairs) {
  const OpCase by_steps = angles(batch, tokens, heads, pairs, false);
  OpCase c = turned(batch, tokens, heads, states, pairs, false);
  c.name = "rotate_heads_by_steps" + sizes_text({batch, tokens, heads, states, pairs});
  c.inputs.pop_back();
  c.inputs.push_back({"dt", {batch, tokens, heads}, 0.0, 0.05});
  c.inputs.push_back({"turn", {batch, tokens, pairs}, -1.0, 2.0});
  c.run = [](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    return rotate_heads(t, in[0], in[1], in[2], rotary_angles(t, in[3], in[4]), 1e-5);
  };
  c.naive = [turn = c.naive, sum = by_steps.naive](std::span<const Values> in, std::span<const Values> data) {
    const Values with_angles[] = {in[0], in[1], in[2], sum(in.subspan(3), data)};
    return turn(with_angles, data);
  };
  c.tolerance = 1e-5;
  c.reason = "angles are sums of many terms of which each is rounded";
  return c;
}

OpCase squares(std::int64_t rows, std::int64_t pairs, const PairSquares& wanted) {
  OpCase c;
  c.name = "pair_squares" + sizes_text({rows, pairs}) + (wanted.invariant ? "_invariant" : "") +
           (wanted.harmonics ? "_harmonics" : "");
  c.inputs = {{"x", {rows, 2 * pairs}}};
  c.run = [wanted](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    return pair_squares(t, in[0], wanted);
  };
  c.naive = [=](std::span<const Values> in, std::span<const Values>) {
    Values y;
    for (std::int64_t row = 0; row < rows; ++row) {
      const double* k = in[0].data() + row * 2 * pairs;
      for (std::int64_t i = 0; wanted.invariant && i < pairs; ++i)
        y.push_back(k[2 * i] * k[2 * i] + k[2 * i + 1] * k[2 * i + 1]);
      for (std::int64_t i = 0; wanted.harmonics && i < pairs; ++i) {
        y.push_back(k[2 * i] * k[2 * i] - k[2 * i + 1] * k[2 * i + 1]);
        y.push_back(2 * k[2 * i] * k[2 * i + 1]);
      }
    }
    return y;
  };
  c.reason = "a difference of squares";
  return c;
}

}  // namespace

void add_mamba3_cases(std::vector<OpCase>& cases) {
  cases.push_back(steps(1, 1, {}, false));
  cases.push_back(steps(101, 37, {}, true));
  cases.push_back(steps(65, 4, {0.75, 0.5}, false));
  cases.push_back(angles(1, 1, 1, 1, false));
  cases.push_back(angles(2, 37, 3, 5, false));
  cases.push_back(angles(1, 101, 2, 37, true));
  cases.push_back(angles(2, 65, 4, 1, true));
  cases.push_back(angles(2, 256, 3, 2, true));
  cases.push_back(angles(1, 601, 2, 3, false));
  cases.push_back(turned(1, 1, 1, 1, 0, false));
  cases.push_back(turned(2, 37, 3, 7, 3, true));
  cases.push_back(turned(1, 63, 2, 65, 16, false));
  cases.push_back(turned(1, 101, 4, 16, 8, true));
  // Two pairs a thread, one head and many, all pairs turned and none; then the same of many rows.
  cases.push_back(turned(3, 21, 14, 64, 16, false));
  cases.push_back(turned(1, 33, 5, 128, 37, false));
  cases.push_back(turned(2, 37, 1, 32, 0, false));
  cases.push_back(turned(1, 65, 3, 16, 8, false));
  cases.push_back(turned(1, 4101, 3, 64, 11, false));
  cases.push_back(turned(3, 1367, 2, 32, 16, false));
  cases.push_back(turned(1, 4099, 5, 16, 4, false));
  cases.push_back(turned(1, 4098, 1, 128, 0, false));
  cases.push_back(turned(1, 4097, 2, 15, 3, false));
  cases.push_back(turned_by_steps(2, 1031, 4, 32, 16));
  cases.push_back(turned_by_steps(2, 1033, 6, 22, 11));
  cases.push_back(turned_by_steps(16, 520, 4, 16, 4));
  for (const PairSquares& wanted : {PairSquares{true, false}, PairSquares{false, true}, PairSquares{true, true}}) {
    cases.push_back(squares(1, 1, wanted));
    cases.push_back(squares(37, 33, wanted));
  }
}

}  // namespace afterglow::testing
