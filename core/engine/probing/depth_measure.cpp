// Down the residual stream with the gradient, and around in each branch.
#include "core/engine/probing/depth_measure.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/analysis/depth_bounds.h"
#include "core/layers/host_values.h"
#include "core/layers/layer_kind.h"
#include "core/ops/ops.h"

namespace afterglow {

namespace {

using Numbers = std::vector<double>;

double norm_of(const Numbers& v) { return std::sqrt(std::inner_product(v.begin(), v.end(), v.begin(), 0.0)); }

Numbers scaled(Numbers v, double factor) {
  for (double& value : v) value *= factor;
  return v;
}

Numbers sum_of(Numbers a, const Numbers& b, double factor) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += factor * b[i];
  return a;
}

/// The model as maps of the residual stream [T*d] on the host; each call begins the tape anew.
class StreamMaps {
 public:
  StreamMaps(Trainer& trainer, Tape& tape, const Example& example)
      : model_(trainer.model()), tape_(tape), dtype_(trainer.dtype()), example_(example) {}

  Numbers embedding() {
    tape_.begin(false);
    return to_host(tape_.backend(), model_.embed(tape_, upload(DType::i32, example_.tokens.data())).value);
  }

  /// What branch l makes of the stream, its residual included.
  Numbers forward(std::size_t l, const Numbers& x) {
    tape_.begin(false);
    const Var in = tape_.constant(stream(x));
    return to_host(tape_.backend(), model_.forward_branches(tape_, in, mask(), l, l + 1).value);
  }

  /// Leaves the captures of branch l at x on the tape.
  void capture(std::size_t l, const Numbers& x) {
    tape_.begin(false);
    tape_.set_capturing(true);
    model_.forward_branches(tape_, tape_.constant(stream(x)), mask(), l, l + 1);
    tape_.set_capturing(false);
  }

  /// J^T u of branch l at x without the residual.
  Numbers pulled_back(std::size_t l, const Numbers& x, const Numbers& u) {
    begin_recording();
    const Var in = tape_.input(stream(x));
    tape_.backward(model_.forward_branches(tape_, in, mask(), l, l + 1), stream(u));
    return sum_of(to_host(tape_.backend(), tape_.gradient_of(in)), u, -1.0);
  }

  /// J v of branch l at x without the residual, by central differences: good enough for a direction.
  Numbers pushed_forward(std::size_t l, const Numbers& x, const Numbers& v) {
    constexpr double relative_step = 3e-3;
    const double h = relative_step * std::max(norm_of(x), 1e-6) / norm_of(v);
    const Numbers ahead = forward(l, sum_of(x, v, h)), behind = forward(l, sum_of(x, v, -h));
    return sum_of(scaled(sum_of(ahead, behind, -1.0), 0.5 / h), v, -1.0);
  }

  /// Gradient of the loss at what the head reads.
  Numbers gradient_at_head(const Numbers& x) {
    begin_recording();
    const Var in = tape_.input(stream(x));
    const Var logits = model_.forward_with(tape_, in, model_.branches().size(),
                                           [](std::size_t, const Var& branch_input) { return branch_input; });
    const Var loss = cross_entropy(tape_, logits, upload(DType::i32, example_.targets.data())).loss;
    const Tensor one = tape_.scratch(loss.shape(), loss.value.dtype);
    tape_.backend().fill(one, 1.0);
    tape_.backward(loss, one);
    return to_host(tape_.backend(), tape_.gradient_of(in));
  }

 private:
  std::int64_t length() const { return static_cast<std::int64_t>(example_.tokens.size()); }

  void begin_recording() {
    tape_.begin(true);
    tape_.set_frozen(true);
  }
  Tensor upload(DType dtype, const void* values) {
    const Tensor tensor = tape_.scratch({1, length()}, dtype);
    tape_.backend().upload(tensor, values);
    return tensor;
  }
  Tensor mask() { return upload(DType::u8, example_.context.data()); }
  Tensor stream(const Numbers& x) { return to_device(tape_, {1, length(), model_.width()}, dtype_, x); }

  Model& model_;
  Tape& tape_;
  DType dtype_;
  const Example& example_;
};

/// |J| of branch l from below, starting at the gradient `g` that arrives above it.
double branch_norm(StreamMaps& maps, std::size_t l, const Numbers& x, Numbers u, int iterations) {
  double best = 0;
  for (int i = 0; i < iterations; ++i) {
    const double length = norm_of(u);
    if (!(length > 0)) return best;
    const Numbers down = maps.pulled_back(l, x, scaled(std::move(u), 1 / length));
    const double gain = norm_of(down);
    if (!(gain > 0)) return std::isfinite(gain) ? best : gain;
    best = std::max(best, gain);
    if (i + 1 < iterations) u = maps.pushed_forward(l, x, down);
  }
  return best;
}

/// Bound on the Jacobian of the norm in front of a branch, which acts on each token alone: that of the worst token.
/// Without the norm's eps it is a little larger than it has to be.
double norm_in_front(const Numbers& weight, const Numbers& x) {
  double largest = 0;
  for (std::size_t t = 0; t + weight.size() <= x.size(); t += weight.size())
    largest = std::max(largest, rms_norm_bound(weight, std::span(x).subspan(t, weight.size()), 0.0));
  return largest;
}

/// Bound on |J| of a Koopman MLP without gate behind its norm; NaN for any other branch.
double closed_form_bound(Trainer& trainer, const Branch& branch, const Numbers& x) {
  ParameterStore& store = trainer.parameters();
  const bool is_gated = store.find(branch.scope + ".gate.weight") != nullptr;
  if (branch.norm == nullptr || is_gated || !shows(branch.layer->kind(), LayerTrait::koopman_modes))
    return std::numeric_limits<double>::quiet_NaN();
  const auto values = [&](const char* name) { return store.download(store.find(branch.scope + name)->value); };
  const Numbers weight = store.download(branch.norm->value), gamma = values(".gamma"), omega = values(".omega");
  double radius = 0;
  for (std::size_t i = 0; i < gamma.size(); ++i)
    radius = std::max(radius, std::min(1.0, std::hypot(gamma[i], omega[i])));
  const int d = static_cast<int>(weight.size()), dk = 2 * static_cast<int>(gamma.size());
  return norm_in_front(weight, x) * koopman_mlp_bound(values(".readout.weight"), values(".lift.weight"), d, dk, radius);
}

/// Bound on the path through the queries of branch l behind its norm; NaN where its kind has no closed form.
double query_path(Trainer& trainer, StreamMaps& maps, const CaptureReader& read, const Example& example, std::size_t l,
                  const Numbers& x) {
  const Branch& branch = trainer.model().branches()[l];
  const auto bound = readers_of(branch.layer->kind()).query_bound;
  if (branch.norm == nullptr || bound == nullptr) return std::numeric_limits<double>::quiet_NaN();
  maps.capture(l, x);
  const CapturedLayer captured{*branch.layer, read, branch.scope, static_cast<int>(example.tokens.size()),
                               example.context};
  return norm_in_front(trainer.parameters().download(branch.norm->value), x) * bound(captured);
}

/// Of each branch the closed form, of the whole or of its queries, else what was measured.
Numbers closed_norms(const DepthView& view) {
  Numbers norms = view.branch_norms;
  for (std::size_t l = 0; l < norms.size(); ++l) {
    if (!std::isnan(view.query_bounds[l])) norms[l] = view.query_bounds[l];
    if (!std::isnan(view.branch_bounds[l])) norms[l] = view.branch_bounds[l];
  }
  return norms;
}

bool is_finite(const Numbers& numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](double v) { return std::isfinite(v); });
}

}  // namespace

DepthView measure_depth(Trainer& trainer, Tape& tape, const Example& example, int iterations) {
  DepthView view;
  view.step = trainer.finished_steps();
  if (std::all_of(example.targets.begin(), example.targets.end(), [](int target) { return target < 0; })) return view;
  StreamMaps maps(trainer, tape, example);
  const std::size_t branches = trainer.model().branches().size();
  std::vector<Numbers> streams{maps.embedding()};
  for (std::size_t l = 0; l < branches; ++l) streams.push_back(maps.forward(l, streams.back()));

  Numbers g = maps.gradient_at_head(streams.back());
  Numbers gradient(branches + 1), norms(branches);
  gradient[branches] = norm_of(g);
  for (std::size_t l = branches; l-- > 0;) {
    norms[l] = branch_norm(maps, l, streams[l], g, iterations);
    g = sum_of(std::move(g), maps.pulled_back(l, streams[l], g), 1.0);
    gradient[l] = norm_of(g);
  }
  tape.set_frozen(false);
  if (!is_finite(gradient) || !is_finite(norms)) return view;
  for (std::size_t part = 0; part < trainer.parts().size(); ++part) {
    if (trainer.parts()[part].branch >= 0) view.layers.push_back(static_cast<int>(part));
  }
  for (std::size_t l = 0; l < branches; ++l) {
    view.branch_bounds.push_back(closed_form_bound(trainer, trainer.model().branches()[l], streams[l]));
    view.query_bounds.push_back(
        query_path(trainer, maps, CaptureReader(tape, trainer.backend()), example, l, streams[l]));
  }
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
