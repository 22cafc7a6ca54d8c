// Cases of rotary position code, causal convolution and causal attention.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/ops/ops.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {

namespace {

/// x [.., length, heads, width] with its pairs turned, the first token at position `first`.
Values naive_rotary(const Values& x, std::int64_t length, std::int64_t heads, std::int64_t width, std::int64_t first) {
  Values y = x;
  for (std::size_t i = 0; i < x.size() / static_cast<std::size_t>(width); ++i) {
    const std::int64_t position = first + static_cast<std::int64_t>(i) / heads % length;
    for (std::int64_t j = 0; j + 1 < width; j += 2) {
      const std::size_t at = i * static_cast<std::size_t>(width) + static_cast<std::size_t>(j);
      const double angle =
          static_cast<double>(position) * std::pow(10000.0, -static_cast<double>(j) / static_cast<double>(width));
      y[at] = x[at] * std::cos(angle) - x[at + 1] * std::sin(angle);
      y[at + 1] = x[at] * std::sin(angle) + x[at + 1] * std::cos(angle);
    }
  }
  return y;
}

OpCase rotary_case(std::int64_t batch, std::int64_t length, std::int64_t heads, std::int64_t width,
                   std::int64_t first) {
  OpCase c;
  c.name = "rotary_" + std::to_string(batch) + "x" + std::to_string(length) + "x" + std::to_string(heads) + "x" +
           std::to_string(width) + "_from_" + std::to_string(first);
  c.inputs = {{"x", {batch, length, heads, width}}};
  c.run = [first](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    return rotary_pair(t, in[0], scale(t, in[0], 1.0), {}, first)[0];
  };
  c.naive = [=](std::span<const Values> in, std::span<const Values>) {
    return naive_rotary(in[0], length, heads, width, first);
  };
  c.tolerance = 5e-7;
  c.reason = "angles are exact: sine, cosine and two products are rounded";
  return c;
}

/// Stretched rates of the first columns of a head.
OpCase stretched_rotary_case(const std::string& name, const RotaryRates& rates) {
  constexpr std::int64_t length = 37, heads = 3, width = 10;
  OpCase c;
  c.name = "rotary_" + name;
  c.inputs = {{"x", {2, length, heads, width}}};
  c.run = [=](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    return rotary_pair(t, in[0], scale(t, in[0], 1.0), rates, 11)[0];
  };
  c.naive = [=](std::span<const Values> in, std::span<const Values>) {
    Values y = in[0];
    const std::int64_t turned = rates.width > 0 ? rates.width : width;
    for (std::int64_t row = 0; row < 2 * length * heads; ++row) {
      for (std::int64_t i = 0; 2 * i < turned; ++i) {
        const double rate = std::pow(rates.base, -2.0 * static_cast<double>(i) / static_cast<double>(turned));
        double kept = 0;
        if (rates.kept == RotaryRates::Kept::by_turns)
          kept = (rates.original * rate / 6.283185307179586 - rates.low) / (rates.high - rates.low);
        if (rates.kept == RotaryRates::Kept::by_pair)
          kept = 1 - (static_cast<double>(i) - rates.low) / (rates.high - rates.low);
        kept = std::clamp(kept, 0.0, 1.0);
        const double angle = static_cast<double>(11 + row / heads % length) * rate * (kept + (1 - kept) / rates.factor);
        const std::int64_t at = row * width + 2 * i;
        y[at] = rates.gain * (in[0][at] * std::cos(angle) - in[0][at + 1] * std::sin(angle));
        y[at + 1] = rates.gain * (in[0][at] * std::sin(angle) + in[0][at + 1] * std::cos(angle));
      }
    }
    return y;
  };
  c.tolerance = 5e-7;
  c.reason = "angles are exact: sine, cosine and two products are rounded";
  return c;
}

/// The scores of queries and keys, both turned; their heads are added first, because k has only one.
OpCase rotary_pair_case() {
  OpCase c;
  c.name = "rotary_pair";
  c.inputs = {{"q", {2, 37, 3, 6}}, {"k", {2, 37, 1, 6}}, {"sum", {6, 18}}};
  c.run = [](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    const auto [q, k] = rotary_pair(t, in[0], in[1], {}, 5);
    return multiply(t, linear(t, t.reshape(q, {2, 37, 18}), in[2]), t.reshape(k, {2, 37, 6}));
  };
  c.naive = [](std::span<const Values> in, std::span<const Values>) {
    const Values q = naive_rotary(in[0], 37, 3, 6, 5), k = naive_rotary(in[1], 37, 1, 6, 5);
    Values y(k.size(), 0.0);
    for (std::size_t i = 0; i < y.size(); ++i) {
      for (std::size_t j = 0; j < 18; ++j) y[i] += q[i / 6 * 18 + j] * in[2][i % 6 * 18 + j];
      y[i] *= k[i];
    }
    return y;
  };
  c.reason = "sums of eighteen products";
  return c;
}

struct ConvSizes {
  std::int64_t batch, length, before, channels, width;
  bool bias;
};

Values naive_conv(const ConvSizes& n, const Values& wide, const Values& weight, const Values& bias, bool silu) {
  Values y;
  for (std::int64_t b = 0; b < n.batch; ++b) {
    for (std::int64_t t = 0; t < n.length; ++t) {
      for (std::int64_t c = 0; c < n.channels; ++c) {
        double sum = bias.empty() ? 0.0 : bias[c];
        for (std::int64_t j = 0; j < n.width; ++j) {
          const std::int64_t time = t - (n.width - 1) + j;
          if (time >= 0)
            sum += weight[c * n.width + j] * wide[(b * n.length + time) * (n.before + n.channels) + n.before + c];
        }
        y.push_back(silu ? sum / (1.0 + std::exp(-sum)) : sum);
      }
    }
  }
  return y;
}

/// The input is a range of columns of a wider tensor, as after Mamba's input projection.
OpCase conv_case(const ConvSizes& n, bool silu = true) {
  OpCase c;
  c.name = (silu ? "causal_conv_" : "plain_causal_conv_") + std::to_string(n.batch) + "x" + std::to_string(n.length) +
           "x" + std::to_string(n.channels) + "_width_" + std::to_string(n.width);
  c.inputs = {{"wide", {n.batch, n.length, n.before + n.channels}, -2, 2}, {"weight", {n.channels, 1, n.width}}};
  if (n.bias) c.inputs.push_back({"bias", {n.channels}});
  c.run = [n, silu](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    const std::int64_t widths[] = {n.before, n.channels};
    Var parts[2];
    t.split_columns(in[0], widths, parts);
    const Var bias = n.bias ? in[2] : Var{};
    return silu ? causal_conv(t, parts[1], in[1], bias) : plain_causal_conv(t, parts[1], in[1], bias);
  };
  c.naive = [n, silu](std::span<const Values> in, std::span<const Values>) {
    return naive_conv(n, in[0], in[1], n.bias ? in[2] : Values{}, silu);
  };
  c.tolerance = 2e-6;
  c.reason = "the weights' gradients sum over all tokens";
  return c;
}

/// The same with heads of `width` channels divided by their length.
OpCase unit_conv_case(const ConvSizes& n, std::int64_t width) {
  constexpr double unit_eps = 1e-3;
  OpCase c = conv_case(n);
  c.name = "unit_" + c.name + "_heads_of_" + std::to_string(width);
  c.run = [n, width](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    const std::int64_t widths[] = {n.before, n.channels};
    Var parts[2];
    t.split_columns(in[0], widths, parts);
    return unit_causal_conv(t, parts[1], in[1], width, unit_eps);
  };
  c.naive = [n, width](std::span<const Values> in, std::span<const Values>) {
    Values y = naive_conv(n, in[0], in[1], {}, true);
    for (auto head = y.begin(); head != y.end(); head += width) {
      const double length = std::sqrt(std::inner_product(head, head + width, head, 0.0));
      for (auto value = head; value != head + width; ++value) *value /= length + unit_eps;
    }
    return y;
  };
  return c;
}

/// The same with the step sizes of `heads` columns, the last of those before; each channel is then multiplied by a
/// sum of them.
OpCase conv_with_steps_case(const ConvSizes& n, std::int64_t heads, const StepRange& range) {
  OpCase c = conv_case(n);
  c.name = std::to_string(heads) + "_steps_with_" + c.name;
  c.inputs.push_back({"steps bias", {heads}, -3, 3});
  c.inputs.push_back({"sum", {n.channels, heads}});
  const std::size_t next = n.bias ? 3 : 2;
  c.run = [=](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    const std::int64_t widths[] = {n.before - heads, heads, n.channels};
    Var parts[3];
    t.split_columns(in[0], widths, parts);
    const auto [y, sizes] = conv_with_steps(t, parts[2], in[1], n.bias ? in[2] : Var{}, {}, parts[1], in[next], range);
    return multiply(t, linear(t, sizes, in[next + 1]), y);
  };
  c.naive = [=](std::span<const Values> in, std::span<const Values>) {
    Values y = naive_conv(n, in[0], in[1], n.bias ? in[2] : Values{}, true);
    for (std::size_t i = 0; i < y.size(); ++i) {
      const std::int64_t row = static_cast<std::int64_t>(i) / n.channels,
                         channel = static_cast<std::int64_t>(i) % n.channels;
      double sum = 0.0;
      for (std::int64_t h = 0; h < heads; ++h) {
        const double size =
            std::log1p(std::exp(in[0][row * (n.before + n.channels) + n.before - heads + h] + in[next][h]));
        sum += in[next + 1][channel * heads + h] * std::clamp(size, range.least, range.most);
      }
      y[i] *= sum;
    }
    return y;
  };
  return c;
}

OpCase repeated_heads_case(std::int64_t batch, std::int64_t length, std::int64_t heads, std::int64_t width,
                           std::int64_t times) {
  OpCase c;
  c.name = "repeat_heads_" + std::to_string(length) + "x" + std::to_string(heads) + "x" + std::to_string(width) + "by" +
           std::to_string(times);
  c.inputs = {{"x", {batch, length, heads, width}, -2, 2}};
  c.run = [times](Tape& t, std::span<const Var> in, std::span<const Tensor>) { return repeat_heads(t, in[0], times); };
  c.naive = [=](std::span<const Values> in, std::span<const Values>) {
    Values y;
    for (std::int64_t head = 0; head < batch * length * heads * times; ++head) {
      const auto from = in[0].begin() + head / times * width;
      y.insert(y.end(), from, from + width);
    }
    return y;
  };
  c.reason = "numbers are copied; gradients are sums of a few";
  return c;
}

struct AttentionSizes {
  std::int64_t batch, queries, keys, heads, key_heads, width;
};

Values naive_attention(const AttentionSizes& n, const Values& q, const Values& k, const Values& v, double scale,
                       std::int64_t window = every_key) {
  Values y(q.size(), 0.0);
  for (std::int64_t b = 0; b < n.batch; ++b) {
    for (std::int64_t i = 0; i < n.queries; ++i) {
      for (std::int64_t h = 0; h < n.heads; ++h) {
        const std::int64_t key_head = h / (n.heads / n.key_heads), seen = i + n.keys - n.queries + 1;
        const auto key_at = [&](std::int64_t j) { return ((b * n.keys + j) * n.key_heads + key_head) * n.width; };
        const std::int64_t query_at = ((b * n.queries + i) * n.heads + h) * n.width;
        double sum = 0.0;
        for (std::int64_t j = std::max<std::int64_t>(0, seen - window); j < seen; ++j) {
          double score = 0.0;
          for (std::int64_t e = 0; e < n.width; ++e) score += q[query_at + e] * k[key_at(j) + e];
          const double weight = std::exp(scale * score);
          sum += weight;
          for (std::int64_t e = 0; e < n.width; ++e) y[query_at + e] += weight * v[key_at(j) + e];
        }
        for (std::int64_t e = 0; e < n.width; ++e) y[query_at + e] /= sum;
      }
    }
  }
  return y;
}

OpCase attention_case(const AttentionSizes& n, std::int64_t window = every_key) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(n.width));
  OpCase c;
  c.name = "causal_attention_" + std::to_string(n.batch) + "x" + std::to_string(n.queries) + "of" +
           std::to_string(n.keys) + "x" + std::to_string(n.heads) + "over" + std::to_string(n.key_heads) + "x" +
           std::to_string(n.width) + (window == every_key ? "" : "_window_" + std::to_string(window));
  c.inputs = {{"q", {n.batch, n.queries, n.heads, n.width}, -2, 2},
              {"k", {n.batch, n.keys, n.key_heads, n.width}, -2, 2},
              {"v", {n.batch, n.keys, n.key_heads, n.width}}};
  c.run = [scale, window](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    return causal_attention(t, in[0], in[1], in[2], scale, 0, window);
  };
  c.naive = [n, scale, window](std::span<const Values> in, std::span<const Values>) {
    return naive_attention(n, in[0], in[1], in[2], scale, window);
  };
  c.tolerance = 5e-6;
  c.reason = "exponentials of scores that are sums of up to 65 products; gradients of q and k subtract means";
  return c;
}

/// Queries, keys and values are one tensor: three gradients in the same memory.
OpCase attention_of_itself(std::int64_t length) {
  const AttentionSizes n{2, length, length, 3, 3, 7};
  OpCase c;
  c.name = "causal_attention_of_itself_" + std::to_string(length);
  c.inputs = {{"x", {2, length, 3, 7}, -1, 1}};
  c.run = [](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    return causal_attention(t, in[0], in[0], in[0], 0.5);
  };
  c.naive = [n](std::span<const Values> in, std::span<const Values>) {
    return naive_attention(n, in[0], in[0], in[0], 0.5);
  };
  c.tolerance = 5e-6;
  c.reason = "as for separate inputs";
  return c;
}

}  // namespace

void add_sequence_cases(std::vector<OpCase>& cases) {
  cases.push_back(rotary_case(1, 1, 1, 2, 0));
  cases.push_back(rotary_case(2, 37, 3, 6, 5));
  cases.push_back(rotary_case(1, 101, 2, 63, 900));
  cases.push_back(stretched_rotary_case("linear", {.base = 500, .factor = 3}));
  cases.push_back(stretched_rotary_case(
      "llama3", {.base = 500, .factor = 4, .kept = RotaryRates::Kept::by_turns, .low = 1, .high = 4, .original = 40}));
  cases.push_back(stretched_rotary_case(
      "yarn",
      {.base = 500, .width = 8, .factor = 4, .kept = RotaryRates::Kept::by_pair, .low = 0, .high = 3, .gain = 1.2}));
  cases.push_back(rotary_pair_case());
  for (const ConvSizes& n :
       {ConvSizes{1, 1, 1, 1, 1, true}, ConvSizes{2, 3, 5, 37, 4, true}, ConvSizes{2, 101, 37, 63, 4, false},
        ConvSizes{3, 65, 1, 65, 3, true}, ConvSizes{2, 2100, 1, 3, 4, true}, ConvSizes{2, 37, 3, 65, 7, true},
        ConvSizes{2, 2100, 1, 3, 6, true}})
    cases.push_back(conv_case(n));
  // Heads that a GPU kernel divides itself, also next to channels that fill no warp, and heads that it does not.
  cases.push_back(unit_conv_case({3, 1400, 4, 64, 4, false}, 64));
  cases.push_back(unit_conv_case({1, 4103, 8, 96, 3, false}, 32));
  cases.push_back(unit_conv_case({5, 821, 0, 128, 4, false}, 128));
  cases.push_back(unit_conv_case({2, 37, 3, 66, 4, false}, 22));
  cases.push_back(conv_case({2, 37, 3, 65, 4, true}, false));
  cases.push_back(conv_case({2, 5, 1, 3, 1, false}, false));
  cases.push_back(conv_with_steps_case({1, 1, 1, 1, 1, true}, 1, {}));
  cases.push_back(conv_with_steps_case({2, 37, 7, 65, 4, true}, 4, {.least = 0.3, .most = 1.7}));
  cases.push_back(conv_with_steps_case({3, 21, 33, 3, 7, false}, 33, {.least = 0.8}));
  cases.push_back(conv_with_steps_case({2, 2100, 4, 3, 4, true}, 2, {}));
  cases.push_back(repeated_heads_case(2, 37, 3, 5, 4));
  cases.push_back(repeated_heads_case(1, 1, 1, 65, 2));
  for (const AttentionSizes& n :
       {AttentionSizes{1, 1, 1, 1, 1, 1}, AttentionSizes{2, 37, 37, 2, 2, 65}, AttentionSizes{1, 101, 101, 4, 2, 9},
        AttentionSizes{1, 63, 101, 3, 1, 16}, AttentionSizes{3, 1, 65, 2, 1, 32}, AttentionSizes{1, 130, 131, 1, 1, 37},
        AttentionSizes{1, 70, 133, 2, 1, 200}, AttentionSizes{2, 1, 700, 4, 2, 65},
        AttentionSizes{1, 3, 530, 2, 2, 256}, AttentionSizes{2, 64, 64, 4, 4, 32}, AttentionSizes{1, 33, 64, 4, 2, 15},
        AttentionSizes{3, 5, 61, 6, 2, 18}, AttentionSizes{2, 47, 47, 6, 3, 33}, AttentionSizes{1, 64, 64, 3, 1, 64},
        AttentionSizes{2, 2, 9, 4, 1, 64}})
    cases.push_back(attention_case(n));
  // Long enough for warp groups: odd lengths, groups of queries' heads, keys that came before the first query.
  for (const AttentionSizes& n : {AttentionSizes{1, 300, 300, 4, 2, 40}, AttentionSizes{2, 257, 390, 1, 1, 64},
                                  AttentionSizes{1, 321, 333, 2, 1, 80}, AttentionSizes{1, 256, 400, 1, 1, 128},
                                  AttentionSizes{1, 1000, 1000, 1, 1, 48}})
    cases.push_back(attention_case(n));
  // Windows: of one token, that end within a tile and with it, longer than the sequence, that leave whole tiles of keys
  // unseen, and of a few queries whose keys are read in pieces.
  const std::pair<AttentionSizes, std::int64_t> windows[] = {
      {{2, 37, 37, 2, 1, 8}, 5},      {{1, 130, 140, 4, 2, 16}, 70}, {{1, 101, 101, 2, 2, 9}, 1},
      {{1, 33, 64, 4, 2, 15}, 200},   {{1, 200, 200, 3, 1, 65}, 64}, {{1, 70, 333, 2, 1, 200}, 33},
      {{1, 300, 400, 2, 1, 40}, 129}, {{2, 1, 700, 4, 2, 65}, 300},  {{1, 3, 530, 2, 2, 256}, 1},
      {{1, 4, 9, 2, 1, 33}, 7}};
  for (const auto& [n, window] : windows) cases.push_back(attention_case(n, window));
  cases.push_back(attention_of_itself(300));
  cases.push_back(attention_of_itself(65));
  cases.push_back(attention_of_itself(64));
}

}  // namespace afterglow::testing
