// Readers of the captures of Spectral Koopman Attention: token weights, and the systems that it solved.
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/analysis/attention/query_jacobian.h"
#include "core/analysis/depth_bounds.h"
#include "core/analysis/koopman/ska_head.h"
#include "core/backend/host_numbers.h"
#include "core/layers/captured_layer.h"
#include "core/layers/ska.h"

namespace afterglow {
namespace {

using Mode = RidgeConfig::Mode;

const Ska& ska_of(const Layer& layer) { return static_cast<const Ska&>(layer); }

SkaHead head_of(const Layer& layer, Backend& backend, int head) {
  const Ska& ska = ska_of(layer);
  const SkaConfig& config = ska.config();
  const auto at = static_cast<std::size_t>(head);
  SkaHead of;
  of.rank = static_cast<int>(config.rank);
  of.value_width = static_cast<int>(config.value_width);
  of.ridge = config.core.ridge;
  of.power = config.core.power;
  of.gamma = config.core.gamma.at(to_host(backend, ska.gamma_raw().value)[at]);
  of.eta = ska.eta_of(to_host(backend, ska.eta().value)[at]);
  return of;
}

SkaHead learned_head(const CapturedLayer& layer, int head) { return head_of(layer.layer, layer.read.backend(), head); }

HeldTokens held(const Layer& layer, std::span<const std::uint8_t> context) {
  const Ska& ska = ska_of(layer);
  const RidgeConfig& core = ska.config().core;
  HeldTokens tokens{std::vector<std::uint8_t>(context.size(), 1), {}, !ska.config().changes_keys()};
  std::ranges::transform(context, tokens.counted.begin(),
                         [&](std::uint8_t role) { return ska.sum_weight({}, 0, role) > 0; });
  if (core.mode == Mode::chunk) {
    const auto groups = core.groups(static_cast<std::int64_t>(context.size()));
    std::fill(tokens.counted.begin() + (groups - 1) * core.chunk, tokens.counted.end(), std::uint8_t{0});
  }
  const bool sees_all = core.mode == Mode::chunk && core.norm == RidgeConfig::Norm::sequence;
  tokens.measured = sees_all ? std::vector<std::uint8_t>(context.size(), 1) : tokens.counted;
  return tokens;
}

std::vector<double> sums(const Layer& layer, std::span<const std::uint8_t> roles, const SumWeights& painted) {
  std::vector<double> weights;
  for (const std::uint8_t role : roles)
    weights.push_back(ska_of(layer).sum_weight(painted, static_cast<int>(weights.size()), role));
  return weights;
}

/// Each row of numbers times its factor, or each column.
void multiply_by(std::vector<double>& rows, const std::vector<double>& factors, bool are_columns) {
  const std::size_t count = factors.size(), width = count == 0 ? 0 : rows.size() / count;
  for (std::size_t i = 0; i < count * width; ++i) rows[i] *= factors[are_columns ? i % count : i / width];
}

/// The weights of values, given those of keys, whose sums take each value with this root of a weight: lagged values
/// belong to the key in front of them.
WeightMatrix of_values(WeightMatrix weights, const std::vector<double>& roots, const SkaConfig& config, int tokens) {
  multiply_by(weights, roots, true);
  if (!config.lags_values || weights.empty()) return weights;
  for (auto row = weights.begin(); row != weights.end(); row += tokens) {
    std::rotate(row, row + tokens - 1, row + tokens);
    *row = 0;  // nothing is behind the last key
  }
  return weights;
}

WeightMatrix ska_weights(const CapturedLayer& layer, int head) {
  const Ska& ska = layer.as<Ska>();
  const SkaConfig& config = ska.config();
  const Mode mode = config.core.mode;
  SkaTokens of;
  of.tokens = layer.tokens;
  of.rank = static_cast<int>(config.rank);
  of.piece = mode == Mode::chunk ? config.core.chunk : mode == Mode::recurrent ? 1 : of.tokens;
  of.exclusive = mode == Mode::chunk;
  of.power = config.core.power;
  const std::vector<std::uint8_t> counted = held(layer.layer, layer.context).counted;
  const std::vector<double> roots = layer.of_head("root_weights", head);
  if (mode == Mode::masked && roots.empty()) of.mask = counted;
  of.gamma = learned_head(layer, head).gamma;
  const auto groups = static_cast<std::size_t>((of.tokens + of.piece - 1) / of.piece);
  const std::size_t square = static_cast<std::size_t>(config.rank * config.rank);
  const auto statistics = [&](const char* capture, std::size_t size) {
    std::vector<double> all = layer.block(capture, head);
    if (all.size() > groups * size) all.resize(groups * size);  // groups after the last token shown
    return all;
  };
  std::vector<double> keys = layer.of_head("keys", head);
  multiply_by(keys, roots, false);
  const std::vector<double> queries = layer.of_head("queries", head), L = statistics("L", square),
                            A_w = statistics("A_w", square), m = statistics("m", 1), sigma = statistics("sigma", 1);
  // Under edits the layer captures the operator that replaces A^K.
  const std::vector<double> filter = statistics("operator", square);
  const std::vector<double> no_scale(m.size(), 0.0);
  if (filter.empty()) {
    of.A_w = A_w;
    of.sigma = sigma;
  } else {
    of.A_w = filter;
    of.sigma = no_scale;
    of.gamma = 1;
    of.power = 1;
  }
  of.keys = keys;
  of.queries = queries;
  of.L = L;
  of.m = m;
  WeightMatrix weights = of_values(ska_token_weights(of), roots, config, of.tokens);
  const std::vector<double> lambda = layer.of_head("lambda", head);
  const bool is_off = !filter.empty() && std::ranges::all_of(filter, [](double value) { return value == 0; });
  if (lambda.empty() || weights.empty() || is_off) return weights;
  of.power = 0;
  const WeightMatrix plain = of_values(ska_token_weights(of), roots, config, of.tokens);
  const auto T = static_cast<std::size_t>(of.tokens);
  for (std::size_t i = 0; i < plain.size(); ++i) weights[i] = std::lerp(plain[i], weights[i], lambda[i / T]);
  return weights;
}

/// The group of statistics that a token reads; -1 in the first chunk, which reads no group.
int group_of(const RidgeConfig& core, int token) {
  if (core.mode == Mode::recurrent) return token;
  return core.mode == Mode::chunk ? (token < core.chunk ? -1 : token / core.chunk) : 0;
}

/// The mean of both triangles, which differ by rounding because the layer sums in float32.
std::vector<double> symmetrised(std::span<const double> G, std::size_t n) {
  std::vector<double> H(G.begin(), G.end());
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < i; ++j) H[i * n + j] = H[j * n + i] = (G[i * n + j] + G[j * n + i]) / 2;
  }
  return H;
}

double ska_systems(const CapturedLayer& layer, std::span<const int> tokens, const SeeSystem& see) {
  const SkaConfig& config = layer.as<Ska>().config();
  const auto square = static_cast<std::size_t>(config.rank * config.rank);
  for (int head = 0; head < layer.heads(); ++head) {
    const std::vector<double> G = layer.block("G", head), m = layer.block("m", head),
                              jitter = layer.block("jitter", head);
    for (const int token : tokens) {
      const int group = group_of(config.core, token);
      const auto at = static_cast<std::size_t>(std::max(group, 0));
      if (group < 0 || (at + 1) * square > G.size()) continue;
      std::vector<double> q = layer.row("queries", token, head);
      for (double& value : q) value /= m[at];
      std::vector<double> H = symmetrised(std::span(G).subspan(at * square, square), q.size());
      see(head, token, bounded_problem(std::move(H), std::move(q), config.core.ridge + ska_jitter_step * jitter[at]));
    }
  }
  return 0;
}

/// One head with the statistics of all its groups.
struct ReadHead {
  SkaHead learned;
  std::vector<double> G, M, C, m, sigma, jitter;
};

/// Proposition J.4 by the projected query, which the layer divides by m: the largest of all groups in use.
double head_query_bound(const ReadHead& head, const RidgeConfig& core) {
  SkaHead of = head.learned;
  const auto rank = static_cast<std::size_t>(of.rank), square = rank * rank,
             values = rank * static_cast<std::size_t>(of.value_width);
  const std::size_t groups = head.m.size();
  if (groups == 0 || head.G.size() != groups * square || head.M.size() != head.G.size() ||
      head.C.size() != groups * values || head.sigma.size() != groups || head.jitter.size() != groups)
    return std::nan("");
  double largest = 0;
  for (std::size_t group = core.mode == Mode::chunk ? 1 : 0; group < groups; ++group) {  // the first chunk gives zeros
    of.G = std::span(head.G).subspan(group * square, square);
    of.M = std::span(head.M).subspan(group * square, square);
    of.C = std::span(head.C).subspan(group * values, values);
    of.ridge = core.ridge + ska_jitter_step * head.jitter[group];
    of.sigma = head.sigma[group];
    const double bound = ska_query_bound(of) / head.m[group];
    if (std::isnan(bound)) return bound;
    largest = std::max(largest, bound);
  }
  return largest;
}

ReadBound query_bound(const CapturedLayer& layer) {
  const Ska& ska = layer.as<Ska>();
  const SkaConfig& config = ska.config();
  // J.4 does not cover queries that are squared, divided or cut by their own length, or gated by themselves.
  if (config.lifts_keys || config.norms_tokens || config.clip > 0 || config.has_read_gate)
    return [] { return std::nan(""); };
  std::vector<ReadHead> heads;
  for (int head = 0; head < layer.heads(); ++head)
    heads.push_back({learned_head(layer, head), layer.block("G", head), layer.block("M", head), layer.block("Cv", head),
                     layer.block("m", head), layer.block("sigma", head), layer.block("jitter", head)});
  return [heads = std::move(heads), core = config.core, output = layer.read.download(ska.o_proj().value),
          query = layer.read.download(ska.q_proj().value), d = static_cast<int>(config.width)] {
    std::vector<double> bounds;
    for (const ReadHead& head : heads) bounds.push_back(head_query_bound(head, core));
    return query_path_bound(output, query, d, bounds);
  };
}

/// From the key to the output (Echo eqs. 4 to 7), in float64 from the layer's own statistics.
std::vector<StepPicture> ska_steps(const CapturedLayer& layer, int head) {
  const SkaConfig& config = layer.as<Ska>().config();
  if (config.has_read_gate) return {};  // its answer is a mixture of two
  const auto rank = static_cast<std::size_t>(config.rank);
  const std::vector<double> M = layer.block("M", head), C = layer.block("Cv", head), m = layer.block("m", head),
                            sigma = layer.block("sigma", head), jitter = layer.block("jitter", head);
  if (M.size() != rank * rank || m.empty() || m[0] <= 0 || sigma.empty() || jitter.empty()) return {};
  const std::vector<double> G = symmetrised(layer.block("G", head), rank);
  SkaHead of = learned_head(layer, head);
  of.G = G;
  of.M = M;
  of.C = C;
  of.ridge = config.core.ridge + ska_jitter_step * jitter[0];
  of.sigma = sigma[0];
  const SkaOperators operators = ska_operators(of);
  if (operators.empty()) return {};
  std::vector<double> z = layer.row("keys", 0, head), q = layer.row("queries", 0, head);
  for (double& value : z) value /= m[0];
  for (double& value : q) value /= m[0];
  const SkaReading reading = ska_reading(of, operators, q);
  const int r = of.rank;
  return {step_picture("z", "the key of this token, normalised", z),
          step_picture("G", "Σ z zᵀ: which keys were seen", G, r),
          step_picture("M", "Σ z₊ zᵀ: which key follows which", M, r),
          step_picture("C", "Σ v zᵀ: which value belongs to which key", C, r),
          step_picture("L", "G + εI = L Lᵀ", operators.L, r),
          step_picture("A_w", "L⁻¹ M L⁻ᵀ: the whitened operator", operators.A_w, r),
          step_picture("A^K", "A = γ A_w / max(σ, 1), K = " + std::to_string(of.power) + " times", reading.filter, r),
          step_picture("y", "η C L⁻ᵀ A^K L⁻¹ q: the answer", reading.y)};
}

}  // namespace

LayerReaders ska_readers() {
  return {.token_weights = ska_weights,
          .systems = ska_systems,
          .modes = [](const Layer& layer) { return ska_of(layer).config().rank; },
          .edit = [](Layer& layer, Tape& tape, const Var& x, const Tensor& mask,
                     const LayerEdit& edit) { return static_cast<Ska&>(layer).forward_edited(tape, x, mask, edit); },
          .head = head_of,
          .held = held,
          .sums = sums,
          .step_pictures = ska_steps,
          .query_bound = query_bound};
}

}  // namespace afterglow
