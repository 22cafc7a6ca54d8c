// Fills the view from core/analysis.
#include "core/engine/inspection/theory.h"

#include <algorithm>
#include <cmath>

#include "core/analysis/attention/linear_attention_gap.h"
#include "core/analysis/attention/query_jacobian.h"
#include "core/analysis/koopman/mode_decomposition.h"
#include "core/analysis/koopman/perturbation.h"
#include "core/analysis/koopman/power_filter.h"
#include "core/analysis/memory_cost.h"
#include "core/engine/inspection/head_spectrum.h"
#include "core/layers/layer_kind.h"

namespace afterglow {

namespace {

constexpr int max_power = 8;
constexpr int noise_draws = 3, max_queries = 64;
constexpr std::uint64_t noise_seed = 7;
constexpr double usual_distance = 0.5;

std::vector<double> noise_sizes() {
  std::vector<double> sizes;
  for (int i = 0; i <= 10; ++i) sizes.push_back(std::pow(10.0, -6.0 + 0.5 * i));
  return sizes;
}

/// Noise sizes ascend, with `noise_draws` draws each; the worst draw counts.
void add_noise(const SkaHead& head, TheoryView& view) {
  for (const NoisePoint& point : noise_sweep(head, noise_sizes(), noise_draws, noise_seed)) {
    const Perturbation& m = point.measured;
    const std::pair<std::vector<double>*, double> entries[] = {{&view.operator_change, m.operator_change},
                                                               {&view.operator_bound, m.operator_bound},
                                                               {&view.sharp_operator_bound, m.sharp_operator_bound},
                                                               {&view.eigenvalue_change, m.eigenvalue_change},
                                                               {&view.bauer_fike, m.bauer_fike},
                                                               {&view.combined_bound, m.combined_bound},
                                                               {&view.pencil_bound, m.pencil_bound}};
    const bool is_new = view.noise.empty() || view.noise.back() != point.size;
    if (is_new) view.noise.push_back(point.size);
    for (const auto& [list, value] : entries) {
      if (is_new) {
        list->push_back(value);
      } else {
        list->back() = std::max(list->back(), value);
      }
    }
    view.eigenvector_condition = m.eigenvector_condition;
  }
}

void add_memory(TheoryView& view) {
  const auto r = static_cast<double>(view.rank), width = static_cast<double>(view.value_width),
             heads = static_cast<double>(view.heads), layers = static_cast<double>(view.layers);
  const MemoryCost state = memory_cost(SkaMemory{r, width, heads, layers, sizeof(float)});
  const MemoryCost cache = memory_cost(AttentionMemory{r, width, heads, layers, sizeof(float)});
  view.state_bytes = state.fixed;
  view.cache_bytes = cache.per_token;
  view.crossing = crossover_tokens(state, cache);
}

void add_powers(const SkaHead& head, TheoryView& view) {
  if (const auto measured = contractivity(head, max_power)) {
    view.sigma = measured->sigma;
    view.norms = measured->norms;
    view.restored = measured->restored;
    view.paper_bounds = measured->paper_bounds;
    view.bounds = measured->bounds;
  }
  if (const auto risk = excess_risk(head, max_power)) {
    view.explained = risk->explained;
    view.excess = risk->excess;
    view.excess_with_gain = risk->with_gain;
  }
}

void add_regime(SkaHead head, std::span<const double> query, TheoryView& view) {
  const SkaOperators operators = ska_operators(head);
  if (operators.empty()) return;
  double distance = widest_gap(decompose_modes(operators.A, head.rank, {}).eigenvalues);
  if (!std::isfinite(distance)) distance = usual_distance;
  for (head.power = 0; head.power <= max_power; ++head.power) {
    const auto regime = persistent_regime(head, query, distance);
    if (!regime) return;
    view.regime_error.push_back(regime->error);
    view.regime_bound.push_back(regime->bound);
    view.persistent = regime->persistent;
    view.transient = regime->transient;
    view.rho = regime->rho;
    view.delta = regime->delta;
    view.regime_applies = regime->applies;
  }
}

/// What is known of the head without its statistics.
TheoryView describe_head(Trainer& trainer, int part, const HeadSpectrum& spectrum, const SkaHead& head) {
  TheoryView view;
  view.step = trainer.finished_steps();
  view.layer = part;
  view.head = spectrum.head;
  view.rank = head.rank;
  view.value_width = head.value_width;
  view.heads = trainer.parts()[static_cast<std::size_t>(part)].heads;
  view.layers =
      static_cast<int>(std::count_if(trainer.parts().begin(), trainer.parts().end(), [](const ModelPart& other) {
        return shows(other.kind, LayerTrait::koopman_heads);
      }));
  view.power = spectrum.power;
  view.ridge = spectrum.ridge;
  view.gamma = spectrum.gamma;
  view.eta = spectrum.eta;
  view.kappa = spectrum.kappa;
  add_memory(view);
  return view;
}

/// The head's last queries, row by row, from those of all heads [1,T,H,r] and the scale m.
std::vector<double> last_queries(const std::vector<double>& all, double m, TheoryView& view) {
  const int tokens = static_cast<int>(all.size()) / std::max(1, view.heads * view.rank);
  view.first_query = std::max(0, tokens - max_queries);
  std::vector<double> queries;
  for (int t = view.first_query; t < tokens; ++t) {
    for (int i = 0; i < view.rank; ++i)
      queries.push_back(all[static_cast<std::size_t>((t * view.heads + view.head) * view.rank + i)] / m);
  }
  return queries;
}

void add_gap(const SkaHead& head, const std::vector<double>& queries, TheoryView& view) {
  for (const auto& query :
       linear_attention_gap(head.G, head.C, head.ridge, head.rank, head.value_width, queries).queries) {
    view.gap.push_back(query.gap);
    view.shared_gap.push_back(query.shared_gap);
    view.gap_bound.push_back(query.bound);
  }
}

void add_jacobian(const SkaHead& head, const std::vector<double>& queries, TheoryView& view) {
  if (const auto jacobian = ska_query_jacobian(head)) {
    view.jacobian = jacobian->singular_values;
    view.jacobian_rank = jacobian->rank;
    view.jacobian_bound = jacobian->bound;
    view.jacobian_sharp_bound = jacobian->sharp_bound;
    view.jacobian_lower_bound = jacobian->lower_bound;
    const SkaOperators operators = ska_operators(head);
    const auto answer = [&](std::span<const double> query) { return ska_reading(head, operators, query).y; };
    view.linearity_gap = linearity_gap(answer, queries, head.rank);
  }
}

/// Projected keys [T*r] and values [T*P] of the tokens in the head's last statistics.
struct HeldPairs {
  std::vector<double> keys, values;
};

HeldPairs held_pairs(const std::vector<std::uint8_t>& is_held, const std::string& scope, const CaptureReader& read,
                     const TheoryView& view) {
  const int tokens = static_cast<int>(is_held.size());
  const auto of_head = [&](const char* name, int width) {
    std::vector<double> kept;
    const std::vector<double> all =
        read.columns(scope + name, tokens, std::int64_t{width} * view.heads, std::int64_t{width} * view.head, width);
    for (int t = 0; t < tokens && !all.empty(); ++t) {
      const auto row = all.begin() + std::ptrdiff_t{t} * width;
      if (is_held[static_cast<std::size_t>(t)]) kept.insert(kept.end(), row, row + width);
    }
    return kept;
  };
  return {of_head(".keys", view.rank), of_head(".values", view.value_width)};
}

/// Compares linear attention with one gradient step on the pairs in the statistics.
void add_gradient_step(const SkaHead& head, HeldPairs pairs, double m, const std::vector<double>& queries,
                       TheoryView& view) {
  for (double& value : pairs.keys) value /= m;
  const std::vector<double> zero(head.C.size(), 0.0);
  const std::vector<double> stepped = ridge_gradient_step(zero, pairs.keys, pairs.values, head.rank, head.ridge, 0.5);
  view.gradient_step_gap = largest_difference(head.C, stepped, queries, head.rank);
}

/// Softmax attention over the tokens in the statistics. Its weights use the projected queries m q, so the derivative by
/// q, as SKA's, has the scale m / sqrt(r).
void add_softmax(const HeldPairs& pairs, double m, const std::vector<double>& queries, TheoryView& view) {
  const double scale = m / std::sqrt(static_cast<double>(view.rank));
  const auto answer = [&](std::span<const double> query) {
    return attention_answer(pairs.keys, pairs.values, query, scale);
  };
  view.softmax.linearity_gap = linearity_gap(answer, queries, view.rank);
  for (const AttentionJacobian& one : attention_query_jacobians(
           pairs.keys, pairs.values, queries, static_cast<int>(pairs.keys.size()) / view.rank, view.rank, scale)) {
    view.softmax.max_weight.push_back(one.max_weight);
    view.softmax.norm.push_back(one.singular_values.front());
    view.softmax.saturation_bound.push_back(one.saturation_bound);
    view.softmax.sharp_bound.push_back(one.sharp_bound);
    view.softmax.bound = one.bound;
    view.softmax.last = one.singular_values;
    view.softmax.rank = one.rank;
    view.softmax.rank_bound = one.rank_bound;
  }
}

}  // namespace

TheoryView read_theory(Trainer& trainer, int part, int head, const CaptureReader& read,
                       std::span<const std::uint8_t> context) {
  const ModelPart& info = trainer.parts()[static_cast<std::size_t>(part)];
  const HeadSpectrum spectrum = decompose(read_head(trainer, part, head, read));
  const Layer& layer = trainer.layer_of(info);
  TheoryView view = describe_head(trainer, part, spectrum, readers_of(info.kind).head(layer));
  const int r = view.rank, width = view.value_width;
  const auto statistic = [&](const char* name, std::int64_t size) {
    return read.tail(info.scope + "." + name, head, info.heads, size);
  };
  const std::vector<double> G = statistic("G", r * r), M = statistic("M", r * r), C = statistic("Cv", width * r),
                            m = statistic("m", 1);
  if (G.empty() || M.empty() || C.empty() || m.empty()) return view;
  const std::vector<double> queries = last_queries(read.values(info.scope + ".queries"), m.front(), view);
  if (queries.empty()) return view;
  const SkaHead own{r,
                    width,
                    G,
                    M,
                    C,
                    spectrum.ridge + ska_jitter_step * spectrum.jitter,
                    spectrum.gamma,
                    spectrum.eta,
                    spectrum.power,
                    spectrum.sigma};
  add_noise(own, view);
  add_powers(own, view);
  add_regime(own, std::span(queries).last(static_cast<std::size_t>(r)), view);
  add_gap(own, queries, view);
  add_jacobian(own, queries, view);
  const HeldPairs pairs = held_pairs(readers_of(info.kind).held(layer, context).counted, info.scope, read, view);
  add_gradient_step(own, pairs, m.front(), queries, view);
  add_softmax(pairs, m.front(), queries, view);
  return view;
}

}  // namespace afterglow
