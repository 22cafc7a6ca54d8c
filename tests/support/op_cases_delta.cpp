// Cases of the delta-rule family.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/ops/ops.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {

namespace {

enum class Decay { none, of_head, of_channel };

struct DeltaSizes {
  std::int64_t batch, tokens, heads, keys, width;
};

struct Rule {
  const char* name;
  bool corrects;  ///< has beta
  Decay decay;
  double least = -1.0;  ///< logarithm of a decay
};

/// The recurrence itself; empty vectors are absent inputs.
Values naive_delta(const DeltaSizes& n, double scale, Decay decay, const Values& q, const Values& k, const Values& v,
                   const Values& beta, const Values& g) {
  Values y;
  y.resize(v.size());
  for (std::int64_t b = 0; b < n.batch; ++b) {
    for (std::int64_t head = 0; head < n.heads; ++head) {
      Values s(static_cast<std::size_t>(n.keys * n.width), 0.0);
      for (std::int64_t t = 0; t < n.tokens; ++t) {
        const std::int64_t row = (b * n.tokens + t) * n.heads + head;
        for (std::int64_t i = 0; i < n.keys; ++i) {
          const double log_decay = decay == Decay::none ? 0.0 : g[decay == Decay::of_channel ? row * n.keys + i : row];
          for (std::int64_t p = 0; p < n.width; ++p) s[i * n.width + p] *= std::exp(log_decay);
        }
        for (std::int64_t p = 0; p < n.width; ++p) {
          double u = v[row * n.width + p], out = 0.0;
          for (std::int64_t i = 0; !beta.empty() && i < n.keys; ++i) u -= s[i * n.width + p] * k[row * n.keys + i];
          if (!beta.empty()) u *= beta[row];
          for (std::int64_t i = 0; i < n.keys; ++i) {
            s[i * n.width + p] += k[row * n.keys + i] * u;
            out += s[i * n.width + p] * q[row * n.keys + i];
          }
          y[row * n.width + p] = scale * out;
        }
      }
    }
  }
  return y;
}

/// beta and g, where the rule has them.
void add_gates(OpCase& c, const Rule& rule, const DeltaSizes& n) {
  if (rule.corrects) c.inputs.push_back({"beta", {n.batch, n.tokens, n.heads}, 0.05, 1.0});
  if (rule.decay == Decay::of_head) c.inputs.push_back({"g", {n.batch, n.tokens, n.heads}, rule.least, -0.01});
  if (rule.decay == Decay::of_channel)
    c.inputs.push_back({"g", {n.batch, n.tokens, n.heads, n.keys}, rule.least, -0.01});
}

/// With queries, keys and values at these places among the inputs, before the gates.
void set_runs(OpCase& c, const Rule& rule, const DeltaSizes& n, std::array<std::size_t, 3> tokens, double scale) {
  const std::size_t gates = *std::max_element(tokens.begin(), tokens.end()) + 1;
  c.run = [=](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    DeltaVars vars{in[tokens[0]], in[tokens[1]], in[tokens[2]], {}, {}, scale};
    if (rule.corrects) vars.beta = in[gates];
    if (rule.decay != Decay::none) vars.g = in.back();
    return delta_scan(t, vars);
  };
  c.naive = [=](std::span<const Values> in, std::span<const Values>) {
    return naive_delta(n, scale, rule.decay, in[tokens[0]], in[tokens[1]], in[tokens[2]],
                       rule.corrects ? in[gates] : Values{}, rule.decay == Decay::none ? Values{} : in.back());
  };
  c.tolerance = 5e-6;
  c.reason = "recurrent sums over the memory of the state";
}

std::string name_of(const char* rule, const DeltaSizes& n) {
  return std::string(rule) + "_" + std::to_string(n.batch) + "x" + std::to_string(n.tokens) + "x" +
         std::to_string(n.heads) + "x" + std::to_string(n.keys) + "x" + std::to_string(n.width);
}

OpCase delta(const Rule& rule, const DeltaSizes& n) {
  const double reach = 1.0 / std::sqrt(static_cast<double>(n.keys));  // keys shorter than 1 keep the rule stable
  OpCase c;
  c.name = name_of(rule.name, n);
  c.inputs = {{"q", {n.batch, n.tokens, n.heads, n.keys}},
              {"k", {n.batch, n.tokens, n.heads, n.keys}, -reach, reach},
              {"v", {n.batch, n.tokens, n.heads, n.width}}};
  add_gates(c, rule, n);
  set_runs(c, rule, n, {0, 1, 2}, 1.0 / std::sqrt(static_cast<double>(n.keys)));
  return c;
}

/// One value as key, query and value: three gradients end in one place.
OpCase of_itself(const Rule& rule, const DeltaSizes& n) {
  const double reach = std::min(0.3, 1.0 / std::sqrt(static_cast<double>(n.keys)));
  OpCase c;
  c.name = name_of(rule.name, n) + "_of_itself";
  c.inputs = {{"x", {n.batch, n.tokens, n.heads, n.keys}, -reach, reach}};
  add_gates(c, rule, n);
  set_runs(c, rule, n, {0, 0, 0}, 1.0);
  return c;
}

}  // namespace

void add_delta_cases(std::vector<OpCase>& cases) {
  constexpr Rule deltanet{"deltanet", true, Decay::none}, gated{"gated_deltanet", true, Decay::of_head},
      gla{"gla", false, Decay::of_channel}, forgetful{"gla_forgetful", false, Decay::of_channel, -30.0},
      partly{"gla_partly_forgetful", false, Decay::of_channel, -4.0},  // in a part of all channels and 16 tokens
      kda{"kda", true, Decay::of_channel}, forgetful_kda{"kda_forgetful", true, Decay::of_channel, -30.0},
      partly_kda{"kda_partly_forgetful", true, Decay::of_channel, -4.0},
      linear{"delta_without_correction", false, Decay::none}, retention{"delta_retention", false, Decay::of_head};
  for (const Rule& rule : {deltanet, gated, gla}) {
    cases.push_back(delta(rule, {1, 1, 1, 1, 1}));
    cases.push_back(delta(rule, {2, 37, 3, 5, 7}));
    cases.push_back(delta(rule, {1, 101, 2, 17, 16}));
    cases.push_back(delta(rule, {1, 65, 1, 32, 63}));
  }
  for (const Rule& rule : {deltanet, gated}) {
    cases.push_back(delta(rule, {2, 257, 3, 17, 33}));
    cases.push_back(delta(rule, {1, 1000, 3, 63, 15}));
    cases.push_back(delta(rule, {1, 192, 2, 64, 64}));
    cases.push_back(delta(rule, {1, 131, 1, 32, 24}));
    cases.push_back(delta(rule, {1, 130, 1, 128, 128}));
  }
  cases.push_back(delta(deltanet, {1, 1000, 1, 66, 10}));
  cases.push_back(delta(deltanet, {1, 129, 1, 40, 200}));
  cases.push_back(delta(gated, {1, 200, 2, 96, 80}));
  cases.push_back(delta(gated, {1, 129, 29, 1, 193}));
  for (const Rule& rule : {gla, kda}) {
    cases.push_back(delta(rule, {2, 257, 3, 17, 33}));
    cases.push_back(delta(rule, {1, 515, 2, 31, 15}));
    cases.push_back(delta(rule, {1, 192, 2, 64, 64}));
    cases.push_back(delta(rule, {1, 130, 1, 5, 48}));
  }
  // Heads in two pieces, and in four.
  for (const Rule& rule : {gla, kda}) {
    cases.push_back(delta(rule, {1, 130, 2, 128, 128}));
    cases.push_back(delta(rule, {2, 257, 1, 96, 80}));
    cases.push_back(delta(rule, {1, 1000, 1, 72, 128}));
    cases.push_back(of_itself(rule, {1, 140, 2, 80, 80}));
  }
  cases.push_back(delta(gla, {1, 130, 1, 132, 256}));
  for (const Rule& rule : {forgetful, forgetful_kda}) cases.push_back(delta(rule, {1, 150, 2, 33, 20}));
  for (const Rule& rule : {forgetful, partly, forgetful_kda, partly_kda}) {
    cases.push_back(delta(rule, {1, 150, 2, 66, 80}));
    cases.push_back(of_itself(rule, {1, 140, 2, 80, 80}));
  }
  cases.push_back(delta(kda, {1, 63, 2, 9, 33}));
  cases.push_back(delta(linear, {1, 37, 2, 7, 5}));
  cases.push_back(delta(retention, {1, 37, 2, 65, 5}));
  cases.push_back(of_itself(linear, {1, 37, 2, 6, 6}));
  for (const Rule& rule : {linear, gated, gla, kda}) cases.push_back(of_itself(rule, {1, 140, 2, 6, 6}));
  cases.push_back(of_itself(gated, {1, 150, 2, 72, 72}));
}

}  // namespace afterglow::testing
