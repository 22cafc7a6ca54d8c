// Cases of the selective scan.
#include <array>
#include <cmath>

#include "core/ops/ops.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {

namespace {

struct ScanSizes {
  std::int64_t batch, tokens, heads, width, groups, states;
};

std::string name_of(const char* what, const ScanSizes& n) {
  return std::string(what) + "_" + std::to_string(n.batch) + "x" + std::to_string(n.tokens) + "x" +
         std::to_string(n.heads) + "x" + std::to_string(n.width) + "_states" + std::to_string(n.groups) + "x" +
         std::to_string(n.states);
}

/// h = exp(-exp(A_log) dt) h + dt x B^T, y = h C + D x, written down directly; empty vectors are absent inputs.
Values naive_scan(const ScanSizes& n, const Values& x, const Values& B, const Values& C, const Values& dt,
                  const Values& A_log, const Values& D) {
  Values y;
  y.resize(x.size());
  for (std::int64_t b = 0; b < n.batch; ++b) {
    for (std::int64_t head = 0; head < n.heads; ++head) {
      const std::int64_t group = head / (n.heads / n.groups);
      Values h(static_cast<std::size_t>(n.width * n.states), 0.0);
      for (std::int64_t t = 0; t < n.tokens; ++t) {
        const std::int64_t row = b * n.tokens + t;
        const double step = dt.empty() ? 1.0 : dt[row * n.heads + head];
        const double decay = A_log.empty() ? 1.0 : std::exp(-std::exp(A_log[head]) * step);
        for (std::int64_t p = 0; p < n.width; ++p) {
          const std::int64_t at = (row * n.heads + head) * n.width + p;
          y[at] = D.empty() ? 0.0 : D[head] * x[at];
          for (std::int64_t s = 0; s < n.states; ++s) {
            double& state = h[p * n.states + s];
            state = decay * state + step * x[at] * B[(row * n.groups + group) * n.states + s];
            y[at] += state * C[(row * n.groups + group) * n.states + s];
          }
        }
      }
    }
  }
  return y;
}

ScanVars scan_vars(const ScanSizes& n, const Var& x, const Var& B, const Var& C) {
  ScanVars vars;
  vars.x = x;
  vars.B = B;
  vars.C = C;
  vars.heads = n.heads;
  vars.groups = n.groups;
  return vars;
}

OpCase selective(const ScanSizes& n) {
  OpCase c;
  c.name = name_of("ssd_scan", n);
  c.inputs = {{"x", {n.batch, n.tokens, n.heads, n.width}},
              {"B", {n.batch, n.tokens, n.groups, n.states}},
              {"C", {n.batch, n.tokens, n.groups, n.states}},
              {"dt", {n.batch, n.tokens, n.heads}, 0.01, 0.8},
              {"A_log", {n.heads}, -1.0, 1.5},
              {"D", {n.heads}}};
  c.run = [n](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    ScanVars vars = scan_vars(n, in[0], in[1], in[2]);
    vars.dt = in[3];
    vars.A_log = in[4];
    vars.D = in[5];
    return ssd_scan(t, vars);
  };
  c.naive = [n](std::span<const Values> in, std::span<const Values>) {
    return naive_scan(n, in[0], in[1], in[2], in[3], in[4], in[5]);
  };
  c.tolerance = 5e-6;
  c.reason = "recurrent sums over the memory of the decay";
  return c;
}

/// h = exp(log_decay) (h + lag x' B'^T) + dt x B^T, where x' and B' belong to the token before; y = h C + D x.
Values naive_trapezoid(const ScanSizes& n, std::span<const Values> in) {
  const Values &x = in[0], &B = in[1], &C = in[2], &dt = in[3], &log_decay = in[4], &lag = in[5], &D = in[6];
  Values y(x.size());
  const auto input = [&](std::int64_t row, std::int64_t head, std::int64_t p, std::int64_t s) {
    const std::int64_t group = head / (n.heads / n.groups);
    return x[(row * n.heads + head) * n.width + p] * B[(row * n.groups + group) * n.states + s];
  };
  for (std::int64_t b = 0; b < n.batch; ++b) {
    for (std::int64_t head = 0; head < n.heads; ++head) {
      const std::int64_t group = head / (n.heads / n.groups);
      Values h(static_cast<std::size_t>(n.width * n.states), 0.0);
      for (std::int64_t t = 0; t < n.tokens; ++t) {
        const std::int64_t row = b * n.tokens + t, step = row * n.heads + head;
        for (std::int64_t p = 0; p < n.width; ++p) {
          double& out = y[step * n.width + p];
          out = D[head] * x[step * n.width + p];
          for (std::int64_t s = 0; s < n.states; ++s) {
            double& state = h[p * n.states + s];
            if (t > 0) state += lag[step] * input(row - 1, head, p, s);
            state = std::exp(log_decay[step]) * state + dt[step] * input(row, head, p, s);
            out += state * C[(row * n.groups + group) * n.states + s];
          }
        }
      }
    }
  }
  return y;
}

OpCase trapezoid(const ScanSizes& n) {
  OpCase c;
  c.name = name_of("ssd_scan_trapezoid", n);
  c.inputs = {{"x", {n.batch, n.tokens, n.heads, n.width}},
              {"B", {n.batch, n.tokens, n.groups, n.states}},
              {"C", {n.batch, n.tokens, n.groups, n.states}},
              {"dt", {n.batch, n.tokens, n.heads}, 0.0, 0.8},
              {"log_decay", {n.batch, n.tokens, n.heads}, -1.5, 0.0},
              {"lag", {n.batch, n.tokens, n.heads}, 0.0, 0.8},
              {"D", {n.heads}}};
  c.run = [n](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    ScanVars vars = scan_vars(n, in[0], in[1], in[2]);
    vars.dt = in[3];
    vars.log_decay = in[4];
    vars.lag = in[5];
    vars.D = in[6];
    return ssd_scan(t, vars);
  };
  c.naive = [n](std::span<const Values> in, std::span<const Values>) { return naive_trapezoid(n, in); };
  c.tolerance = 5e-6;
  c.reason = "recurrent sums over the memory of the decay";
  return c;
}

/// x, B, C and dt are columns of one wider tensor, as in mamba2.
OpCase strided(const ScanSizes& n) {
  const std::int64_t x = n.heads * n.width, shared = n.groups * n.states, wide = x + 2 * shared + n.heads;
  OpCase c;
  c.name = name_of("ssd_scan_of_columns", n);
  c.inputs = {{"wide", {n.batch, n.tokens, wide}, 0.01, 0.9}, {"A_log", {n.heads}, -1.0, 1.5}};
  c.run = [n, x, shared](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    const std::int64_t widths[] = {x, shared, shared, n.heads};
    Var parts[4];
    t.split_columns(in[0], widths, parts);
    ScanVars vars = scan_vars(n, parts[0], parts[1], parts[2]);
    vars.dt = parts[3];
    vars.A_log = in[1];
    return ssd_scan(t, vars);
  };
  c.naive = [n, x, shared, wide](std::span<const Values> in, std::span<const Values>) {
    const auto columns = [&](std::int64_t first, std::int64_t count) {
      Values part;
      for (std::int64_t row = 0; row < n.batch * n.tokens; ++row)
        for (std::int64_t i = 0; i < count; ++i) part.push_back(in[0][row * wide + first + i]);
      return part;
    };
    return naive_scan(n, columns(0, x), columns(x, shared), columns(x + shared, shared),
                      columns(x + 2 * shared, n.heads), in[1], {});
  };
  c.tolerance = 5e-6;
  c.reason = "recurrent sums over the memory of the decay";
  return c;
}

/// No decay, no steps: y_t = sum_{s <= t} (C_t . B_s) x_s.
OpCase linear_attention(const ScanSizes& n, bool same_keys_and_queries) {
  OpCase c;
  c.name = name_of(same_keys_and_queries ? "linear_attention_to_itself" : "linear_attention", n);
  c.inputs = {{"v", {n.batch, n.tokens, n.heads, n.width}}, {"k", {n.batch, n.tokens, n.heads, n.states}}};
  if (!same_keys_and_queries) c.inputs.push_back({"q", {n.batch, n.tokens, n.heads, n.states}});
  c.run = [n](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    return ssd_scan(t, scan_vars(n, in[0], in[1], in.size() > 2 ? in[2] : in[1]));
  };
  c.naive = [n](std::span<const Values> in, std::span<const Values>) {
    return naive_scan(n, in[0], in[1], in.size() > 2 ? in[2] : in[1], {}, {}, {});
  };
  c.tolerance = 5e-6;
  c.reason = "sums of up to 257 x 63 products of either sign";
  return c;
}

struct ChannelSizes {
  std::int64_t batch, tokens, channels, states;
};

/// Mamba-1: h = exp(-exp(A_log) dt) h + dt x B, y = sum of C h + D x, every channel by itself.
Values naive_channel_scan(const ChannelSizes& n, std::span<const Values> in) {
  const Values &x = in[0], &dt = in[1], &A_log = in[2], &B = in[3], &C = in[4], &D = in[5];
  Values y(x.size());
  for (std::int64_t b = 0; b < n.batch; ++b) {
    for (std::int64_t c = 0; c < n.channels; ++c) {
      Values h(static_cast<std::size_t>(n.states), 0.0);
      for (std::int64_t t = 0; t < n.tokens; ++t) {
        const std::int64_t row = b * n.tokens + t, at = row * n.channels + c;
        y[at] = D[c] * x[at];
        for (std::int64_t s = 0; s < n.states; ++s) {
          h[s] = std::exp(-std::exp(A_log[c * n.states + s]) * dt[at]) * h[s] + dt[at] * x[at] * B[row * n.states + s];
          y[at] += h[s] * C[row * n.states + s];
        }
      }
    }
  }
  return y;
}

OpCase channels(const ChannelSizes& n, bool of_columns) {
  OpCase c;
  c.name = std::string(of_columns ? "channel_scan_of_columns_" : "channel_scan_") + std::to_string(n.batch) + "x" +
           std::to_string(n.tokens) + "x" + std::to_string(n.channels) + "x" + std::to_string(n.states);
  const Shape one_each{n.batch, n.tokens, n.states};
  c.inputs = {{"x", {n.batch, n.tokens, n.channels}},
              {"dt", {n.batch, n.tokens, n.channels}, 0.01, 0.8},
              {"A_log", {n.channels, n.states}, -1.0, 1.5},
              {"B", one_each},
              {"C", one_each},
              {"D", {n.channels}}};
  if (of_columns)
    c.inputs = {{"wide", {n.batch, n.tokens, 2 * (n.channels + n.states)}, 0.01, 0.9}, c.inputs[2], c.inputs[5]};
  c.run = [n, of_columns](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    if (!of_columns) return channel_scan(t, {in[0], in[1], in[2], in[3], in[4], in[5]});
    const std::int64_t widths[] = {n.channels, n.channels, n.states, n.states};
    Var parts[4];
    t.split_columns(in[0], widths, parts);
    return channel_scan(t, {parts[0], parts[1], in[1], parts[2], parts[3], in[2]});
  };
  c.naive = [n, of_columns](std::span<const Values> in, std::span<const Values>) {
    if (!of_columns) return naive_channel_scan(n, in);
    const std::int64_t widths[] = {n.channels, n.channels, n.states, n.states}, wide = 2 * (n.channels + n.states);
    Values parts[4];
    for (std::int64_t row = 0; row < n.batch * n.tokens; ++row) {
      std::int64_t at = row * wide;
      for (std::size_t p = 0; p < 4; ++p)
        for (std::int64_t i = 0; i < widths[p]; ++i) parts[p].push_back(in[0][at++]);
    }
    return naive_channel_scan(n, std::array{parts[0], parts[1], in[1], parts[2], parts[3], in[2]});
  };
  c.tolerance = 5e-6;
  c.reason = "recurrent sums over the memory of the decay";
  return c;
}

}  // namespace

void add_scan_cases(std::vector<OpCase>& cases) {
  for (const ScanSizes& n :
       {ScanSizes{1, 1, 1, 1, 1, 1}, ScanSizes{2, 37, 4, 5, 2, 7}, ScanSizes{1, 101, 2, 17, 1, 16},
        ScanSizes{2, 65, 2, 32, 1, 3}, ScanSizes{3, 32, 2, 63, 2, 1}, ScanSizes{2, 257, 6, 17, 2, 33},
        ScanSizes{1, 1000, 3, 65, 1, 37}, ScanSizes{1, 2048, 3, 63, 1, 15}, ScanSizes{400, 17, 4, 3, 1, 2},
        ScanSizes{60, 33, 2, 64, 1, 16}, ScanSizes{1, 257, 4, 33, 2, 128}, ScanSizes{2, 260, 2, 8, 1, 66}})
    cases.push_back(selective(n));
  cases.push_back(strided({2, 37, 4, 3, 2, 5}));
  cases.push_back(strided({1, 257, 4, 33, 2, 5}));
  cases.push_back(strided({1, 257, 4, 64, 1, 16}));
  cases.push_back(strided({1, 300, 4, 16, 2, 96}));
  for (const ScanSizes& n :
       {ScanSizes{1, 1, 1, 1, 1, 1}, ScanSizes{2, 37, 4, 5, 4, 7}, ScanSizes{1, 101, 2, 17, 1, 33},
        ScanSizes{2, 65, 2, 33, 2, 65}, ScanSizes{3, 16, 2, 63, 2, 1}, ScanSizes{1, 257, 3, 33, 3, 64},
        ScanSizes{1, 1000, 5, 7, 1, 31}, ScanSizes{2, 64, 3, 100, 3, 40}, ScanSizes{1, 300, 3, 20, 3, 128}})
    cases.push_back(trapezoid(n));
  for (const ChannelSizes& n : {ChannelSizes{1, 1, 1, 1}, ChannelSizes{2, 37, 5, 7}, ChannelSizes{1, 101, 37, 16},
                                ChannelSizes{3, 33, 9, 65}, ChannelSizes{1, 300, 65, 8}, ChannelSizes{1, 5, 3, 256}})
    cases.push_back(channels(n, false));
  cases.push_back(channels({2, 65, 17, 16}, true));
  cases.push_back(linear_attention({2, 63, 3, 37, 3, 17}, false));
  cases.push_back(linear_attention({1, 101, 1, 5, 1, 37}, true));
  cases.push_back(linear_attention({1, 257, 3, 37, 3, 17}, false));
  cases.push_back(linear_attention({1, 257, 3, 33, 3, 63}, true));
  cases.push_back(linear_attention({1, 257, 2, 20, 2, 128}, true));
}

}  // namespace afterglow::testing
