// Fills the view from core/analysis.
#include "core/engine/inspection/theory.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/analysis/attention/linear_attention_gap.h"
#include "core/analysis/depth_bounds.h"
#include "core/analysis/koopman/mode_decomposition.h"
#include "core/analysis/koopman/perturbation.h"
#include "core/analysis/memory_cost.h"
#include "core/backend/arena.h"
#include "core/engine/inspection/layer_readings.h"
#include "core/engine/training/inspected_example.h"
#include "core/layers/host_values.h"
#include "core/layers/layer_kind.h"
#include "core/ops/ops.h"

namespace afterglow {
namespace {

constexpr int max_power = 8;
constexpr int noise_draws = 3, max_queries = 64;
constexpr std::uint64_t noise_seed = 7;
constexpr double usual_distance = 0.5;

/// Noise sizes ascend, with `noise_draws` draws each; the worst draw counts.
void add_noise(const SkaHead& head, TheoryView& view) {
  std::vector<double> sizes;
  for (int i = 0; i <= 10; ++i) sizes.push_back(std::pow(10.0, -6.0 + 0.5 * i));
  for (const NoisePoint& point : noise_sweep(head, sizes, noise_draws, noise_seed)) {
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
    view.regime = *regime;
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
  view.layers = static_cast<int>(std::ranges::count_if(
      trainer.parts(), [](const ModelPart& other) { return shows(other.kind, LayerTrait::koopman_heads); }));
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
  const std::optional<SkaJacobian> jacobian = ska_query_jacobian(head);
  if (!jacobian) return;
  view.jacobian = *jacobian;
  const SkaOperators operators = ska_operators(head);
  const auto answer = [&](std::span<const double> query) { return ska_reading(head, operators, query).y; };
  view.linearity_gap = linearity_gap(answer, queries, head.rank);
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
  SkaHead own = readers_of(info.kind).head(layer, trainer.backend(), head);
  TheoryView view = describe_head(trainer, part, spectrum, own);
  const int r = view.rank, width = view.value_width;
  const auto statistic = [&](const char* name, std::int64_t size) {
    return read.tail(info.scope + "." + name, head, info.heads, size);
  };
  const std::vector<double> G = statistic("G", r * r), M = statistic("M", r * r), C = statistic("Cv", width * r),
                            m = statistic("m", 1);
  if (G.empty() || M.empty() || C.empty() || m.empty()) return view;
  const std::vector<double> queries = last_queries(read.values(info.scope + ".queries"), m.front(), view);
  if (queries.empty()) return view;
  own.G = G;
  own.M = M;
  own.C = C;
  own.ridge += ska_jitter_step * spectrum.jitter;
  own.sigma = spectrum.sigma;
  add_noise(own, view);
  view.powers = contractivity(own, max_power).value_or(Contractivity());
  view.risk = excess_risk(own, max_power).value_or(ExcessRisk());
  add_regime(own, std::span(queries).last(static_cast<std::size_t>(r)), view);
  add_gap(own, queries, view);
  add_jacobian(own, queries, view);
  const HeldPairs pairs = held_pairs(readers_of(info.kind).held(layer, context).counted, info.scope, read, view);
  add_gradient_step(own, pairs, m.front(), queries, view);
  add_softmax(pairs, m.front(), queries, view);
  return view;
}

namespace {

using Numbers = std::vector<double>;

/// The model as maps of the residual stream [1,T,d], which stays on the device because a pass of one branch is faster
/// than a transfer. Each map overwrites the tape.
class StreamMaps {
 public:
  StreamMaps(Trainer& trainer, Tape& tape, const Example& example)
      : model_(trainer.model()),
        tape_(tape),
        backend_(tape.backend()),
        dtype_(trainer.dtype()),
        example_(example),
        arena_(backend_) {
    squares_ = make();
    column_sums_ = arena_.allocate({model_.width()}, dtype_);
    for (Tensor* each : {&moved_, &ahead_, &behind_}) *each = make();
  }

  /// An uninitialised stream that lives as long as this object.
  Tensor make() { return arena_.allocate({1, length(), model_.width()}, dtype_); }

  double norm(const Tensor& x) {
    constexpr double min_sound = 1e-24;  // squares in float32 lose their digits below
    const Tensor squares = squares_.reshaped({length(), model_.width()});
    backend_.multiply(x, x, squares_);
    backend_.sum_rows(squares, {column_sums_});
    const Numbers sums = to_host(backend_, column_sums_);
    const double square = std::accumulate(sums.begin(), sums.end(), 0.0);
    if (square > min_sound && std::isfinite(square)) return std::sqrt(square);
    const Numbers values = to_host(backend_, x);
    return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
  }
  /// out = factor x, or out += factor x if `accumulate`.
  void scale(const Tensor& x, double factor, const Tensor& out, bool accumulate = false) {
    backend_.scale(x, factor, {out, accumulate});
  }

  void embed(const Tensor& out) {
    tape_.begin(false);
    backend_.copy(out, model_.embed(tape_, upload(DType::i32, example_.tokens.data())).value);
  }

  /// Branch l with its residual.
  void forward(std::size_t l, const Tensor& x, const Tensor& out) {
    tape_.begin(false);
    backend_.copy(out, model_.forward_branches(tape_, tape_.constant(x), mask(), l, l + 1).value);
  }

  /// Leaves the captures of branch l at x on the tape.
  void capture(std::size_t l, const Tensor& x) {
    tape_.begin(false);
    const Capturing capturing(tape_);
    model_.forward_branches(tape_, tape_.constant(x), mask(), l, l + 1);
  }

  /// J^T u of branch l at x without the residual.
  void pull_back(std::size_t l, const Tensor& x, const Tensor& u, const Tensor& out) {
    begin_recording();
    const Var in = tape_.input(x);
    tape_.backward(model_.forward_branches(tape_, in, mask(), l, l + 1), u);
    backend_.copy(out, tape_.gradient_of(in));
    scale(u, -1.0, out, true);
  }

  /// J v of branch l at x without the residual, by central differences: accurate enough for a direction.
  void push_forward(std::size_t l, const Tensor& x, const Tensor& v, const Tensor& out) {
    constexpr double relative_step = 3e-3;
    const double h = relative_step * std::max(norm(x), 1e-6) / norm(v);
    backend_.copy(moved_, x);
    scale(v, h, moved_, true);
    forward(l, moved_, ahead_);
    backend_.copy(moved_, x);
    scale(v, -h, moved_, true);
    forward(l, moved_, behind_);
    scale(behind_, -1.0, ahead_, true);
    scale(ahead_, 0.5 / h, out);
    scale(v, -1.0, out, true);
  }

  /// Gradient of the loss at the head's input.
  void gradient_at_head(const Tensor& x, const Tensor& out) {
    begin_recording();
    const Var in = tape_.input(x);
    const Var logits = model_.forward_with(tape_, in, model_.branches().size(),
                                           [](std::size_t, const Var& branch_input) { return branch_input; });
    const Var loss = cross_entropy(tape_, logits, upload(DType::i32, example_.targets.data())).loss;
    tape_.backward(loss, filled(tape_, loss.shape(), loss.value.dtype, 1.0).value);
    backend_.copy(out, tape_.gradient_of(in));
  }

 private:
  std::int64_t length() const { return static_cast<std::int64_t>(example_.tokens.size()); }

  void begin_recording() {
    tape_.begin(true);
    tape_.set_frozen(true);
  }
  Tensor upload(DType dtype, const void* values) { return uploaded(tape_, {1, length()}, dtype, values); }
  Tensor mask() { return upload(DType::u8, example_.context.data()); }

  Model& model_;
  Tape& tape_;
  Backend& backend_;
  DType dtype_;
  const Example& example_;
  Arena arena_;
  Tensor squares_, column_sums_, moved_, ahead_, behind_;
};

/// A lower estimate of |J| of branch l, starting at the gradient that arrives above it.
class BranchNorm {
 public:
  explicit BranchNorm(StreamMaps& maps) : maps_(maps), u_(maps.make()), down_(maps.make()) {}

  double measure(std::size_t l, const Tensor& x, const Tensor& gradient, int iterations) {
    maps_.scale(gradient, 1.0, u_);
    double best = 0;
    for (int i = 0; i < iterations; ++i) {
      const double length = maps_.norm(u_);
      if (!(length > 0)) return best;
      maps_.scale(u_, 1 / length, u_);
      maps_.pull_back(l, x, u_, down_);
      const double gain = maps_.norm(down_);
      if (!(gain > 0)) return std::isfinite(gain) ? best : gain;
      best = std::max(best, gain);
      if (i + 1 < iterations) maps_.push_forward(l, x, down_, u_);
    }
    return best;
  }

 private:
  StreamMaps& maps_;
  Tensor u_, down_;
};

/// Bound on the Jacobian of the norm before a branch, which acts on each token separately: the worst token's. Ignoring
/// the norm's eps makes the bound slightly larger.
double norm_in_front(const Numbers& weight, const Numbers& x) {
  double largest = 0;
  for (std::size_t t = 0; t + weight.size() <= x.size(); t += weight.size())
    largest = std::max(largest, rms_norm_bound(weight, std::span(x).subspan(t, weight.size()), 0.0));
  return largest;
}

ReadBound no_bound() {
  return [] { return std::numeric_limits<double>::quiet_NaN(); };
}

/// Bound on |J| of a Koopman MLP without gate including its norm; NaN for any other branch.
ReadBound closed_form_bound(Trainer& trainer, const Branch& branch, const Tensor& x) {
  ParameterStore& store = trainer.parameters();
  const auto has = [&](const char* name) { return store.find(branch.scope + name) != nullptr; };
  const bool is_plain = !has(".gate.weight") && has(".gamma") && has(".lift.weight");  // a mixer lengthens nothing
  if (branch.plain_norm() == nullptr || !is_plain || !shows(branch.layer->kind(), LayerTrait::koopman_modes))
    return no_bound();
  const auto values = [&](const char* name) { return store.download(store.find(branch.scope + name)->value); };
  return [stream = to_host(trainer.backend(), x), weight = store.download(branch.norm->value), gamma = values(".gamma"),
          omega = values(".omega"), lift = values(".lift.weight"), readout = values(".readout.weight")] {
    double radius = 0;
    for (std::size_t i = 0; i < gamma.size(); ++i)
      radius = std::max(radius, std::min(1.0, std::hypot(gamma[i], omega[i])));
    const int d = static_cast<int>(weight.size()), dk = 2 * static_cast<int>(gamma.size());
    return norm_in_front(weight, stream) * koopman_mlp_bound(readout, lift, d, dk, radius);
  };
}

/// Bound on the path through the queries of branch l including its norm; NaN for kinds without a closed form.
ReadBound query_path(Trainer& trainer, StreamMaps& maps, const CaptureReader& read, const Example& example,
                     std::size_t l, const Tensor& x) {
  const Branch& branch = trainer.model().branches()[l];
  const auto bound = readers_of(branch.layer->kind()).query_bound;
  if (branch.plain_norm() == nullptr || bound == nullptr) return no_bound();
  maps.capture(l, x);
  const CapturedLayer captured{*branch.layer, read, branch.scope, static_cast<int>(example.tokens.size()),
                               example.context};
  return [behind_norm = bound(captured), weight = trainer.parameters().download(branch.norm->value),
          stream = to_host(trainer.backend(), x)] { return norm_in_front(weight, stream) * behind_norm(); };
}

/// Evaluates these bounds in parallel, appends their values, and frees what they had read.
void add_found(ThreadPool& threads, std::vector<ReadBound>& bounds, Numbers& values) {
  const std::size_t before = values.size();
  values.resize(before + bounds.size());
  threads.for_each(static_cast<std::int64_t>(bounds.size()), [&](std::int64_t i) {
    values[before + static_cast<std::size_t>(i)] = bounds[static_cast<std::size_t>(i)]();
  });
  bounds.clear();
}

/// For each branch the closed form of the whole or of its queries, else the measured norm.
Numbers closed_norms(const DepthView& view) {
  Numbers norms = view.branch_norms;
  for (std::size_t l = 0; l < norms.size(); ++l) {
    if (!std::isnan(view.query_bounds[l])) norms[l] = view.query_bounds[l];
    if (!std::isnan(view.branch_bounds[l])) norms[l] = view.branch_bounds[l];
  }
  return norms;
}

bool is_finite(const Numbers& numbers) {
  return std::ranges::all_of(numbers, [](double v) { return std::isfinite(v); });
}

}  // namespace

DepthView measure_depth(Trainer& trainer, Tape& tape, const Example& example, int iterations) {
  DepthView view;
  view.step = trainer.finished_steps();
  if (std::ranges::all_of(example.targets, [](int target) { return target < 0; })) return view;
  StreamMaps maps(trainer, tape, example);
  const std::size_t branches = trainer.model().branches().size();
  std::vector<Tensor> streams{maps.make()};
  maps.embed(streams.front());
  for (std::size_t l = 0; l < branches; ++l) {
    streams.push_back(maps.make());
    maps.forward(l, streams[l], streams[l + 1]);
  }

  const Tensor g = maps.make(), down = maps.make();
  maps.gradient_at_head(streams.back(), g);
  Numbers gradient(branches + 1), norms(branches);
  gradient[branches] = maps.norm(g);
  BranchNorm branch_norm(maps);
  for (std::size_t l = branches; l-- > 0;) {
    norms[l] = branch_norm.measure(l, streams[l], g, iterations);
    maps.pull_back(l, streams[l], g, down);
    maps.scale(down, 1.0, g, true);
    gradient[l] = maps.norm(g);
  }
  tape.set_frozen(false);
  if (!is_finite(gradient) || !is_finite(norms)) return view;
  for (std::size_t part = 0; part < trainer.parts().size(); ++part) {
    if (trainer.parts()[part].branch >= 0) view.layers.push_back(static_cast<int>(part));
  }
  constexpr std::size_t together = 16;  // branches whose weights are held on the host
  std::vector<ReadBound> closed_forms, query_paths;
  for (std::size_t l = 0; l < branches; ++l) {
    closed_forms.push_back(closed_form_bound(trainer, trainer.model().branches()[l], streams[l]));
    query_paths.push_back(query_path(trainer, maps, CaptureReader(tape, trainer.backend()), example, l, streams[l]));
    if (closed_forms.size() == together) add_found(trainer.analysis_threads(), closed_forms, view.branch_bounds);
  }
  add_found(trainer.analysis_threads(), closed_forms, view.branch_bounds);
  add_found(trainer.analysis_threads(), query_paths, view.query_bounds);
  const DepthBounds bounds = depth_bounds(norms, gradient[branches]);
  view.gradient = std::move(gradient);
  view.branch_norms = std::move(norms);
  view.residual_bound = bounds.residual;
  view.residual_floor = bounds.residual_floor;
  view.branch_product = bounds.branches;
  view.closed_product = depth_bounds(closed_norms(view), bounds.branches.back()).branches;
  return view;
}

}  // namespace afterglow
