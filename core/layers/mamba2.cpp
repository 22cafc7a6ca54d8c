// Mamba-2 (the official Mamba2Simple, with the options of transformers and flash-linear-attention): a selective scan
// between a convolution and a gated norm. Its memory decays exponentially, with a rate that each token sets.
#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "core/analysis/influence/smooth_routing.h"
#include "core/analysis/influence/state_slopes.h"
#include "core/analysis/linear_algebra/decompositions.h"
#include "core/io/json_file.h"
#include "core/io/named.h"
#include "core/layers/captured_layer.h"
#include "core/layers/host_values.h"
#include "core/layers/layer_kind.h"
#include "core/layers/scan_slopes.h"
#include "core/ops/ops.h"

namespace afterglow {
namespace {

struct Mamba2Config : JsonFields {
  explicit Mamba2Config(const nlohmann::json& config) : JsonFields(config, "mamba2") {
    refuse_others();
    if (inner % head_width != 0)
      refuse(": headdim ", head_width, " must divide expand * d_model = ", inner, "; change one of the three");
    if (heads() % groups != 0)
      refuse(": ngroups ", groups, " must divide the ", heads(), " heads; change one of the two");
  }
  std::int64_t width = integer("d_model", {}, 1, 65536);
  std::int64_t states = integer("d_state", 64, 1, 4096);  ///< N
  std::int64_t convolution = integer("d_conv", 4, 1, 64);
  std::int64_t inner = integer("d_inner", expanded(), 1, 1 << 20);
  std::int64_t head_width = integer("headdim", 64, 1, 65536);  ///< P
  std::int64_t groups = integer("ngroups", 1, 1, 64);          ///< G: head h reads B and C of group h / (heads / G)
  bool bias = flag("bias", false);                             ///< of in_proj
  bool out_bias = flag("out_bias", bias);                      ///< of out_proj
  bool convolution_bias = flag("conv_bias", true);
  bool gated_norm = flag("rmsnorm", true);                  ///< false: the gate alone
  bool norm_per_group = flag("norm_per_group", false);      ///< the gated norm's mean is taken over a group's columns
  bool norm_before_gate = flag("norm_before_gate", false);  ///< the norm comes first, then the gate
  std::vector<double> scales = in_scales();                 ///< factors of what in_proj makes; empty: ones
  double norm_eps = number("norm_eps", 1e-5, 0.0, 1.0);
  double step_floor = number("dt_floor", 0.0, 0.0, largest_step);  ///< live: the least time step
  double step_ceiling =
      has("dt_ceiling") ? number("dt_ceiling", {}, step_floor, largest_step) : std::numeric_limits<double>::infinity();
  std::int64_t heads() const { return inner / head_width; }
  std::int64_t shared() const { return groups * states; }          ///< columns of B, and of C
  std::int64_t convolved() const { return inner + 2 * shared(); }  ///< columns of x, B and C together

 private:
  static constexpr double largest_step = 1e6;
  std::int64_t expanded() {
    const double wanted = static_cast<double>(width) * number("expand", 2, 1.0 / 64, 64);
    if (wanted != std::floor(wanted)) refuse(": expand * d_model must be a whole number; change one of the two");
    return std::llround(wanted);
  }
  std::vector<double> in_scales() {
    const nlohmann::json* given = find("in_scales");
    if (given == nullptr) return {};
    const std::vector<std::string> streams{"gate", "x", "B", "C", "dt"};
    refuse_unknown_keys(*given, streams, "mamba2.in_scales");
    std::vector<double> all;
    for (const std::string& stream : streams)
      if (!given->empty()) all.push_back(get_number(*given, stream, 1.0, -1e6, 1e6, "mamba2.in_scales"));
    return all;
  }
};

/// Adds a parameter, or returns null for a part that the configuration leaves out.
const Parameter* add_if(bool wanted, const ParameterScope& parameters, const char* name, const Shape& shape,
                        Initialiser initialise) {
  return wanted ? &parameters.add(name, shape, std::move(initialise)) : nullptr;
}

using ScanRow = Eigen::RowVectorXd;

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

double silu_of(double x) { return x * sigmoid_of(x); }

double silu_slope_of(double x) { return sigmoid_of(x) * (1 + x * (1 - sigmoid_of(x))); }

/// Captures: `final_state` [B,nh,P,N], `log_decay_cumsum` [B,T,nh]: sum of log a_s over s <= t, `dt` [B,T,nh]; inputs
/// of the scan: `B`, `C` [B,T,G*N] and `values` [B,T,nh*P]; `readout`, the output of the scan before the gate; and
/// `input` [B,T,d].
class Mamba2 final : public Layer {
 public:
  // Start values as in the official implementation: A uniform in [1, 16], time steps log-uniform in [0.001, 0.1].
  Mamba2(const Mamba2Config& config, const ParameterScope& parameters)
      : config_(config),
        in_proj_(add_in_proj(config, parameters)),
        in_bias_(add_if(config.bias, parameters, "in_proj.bias", {config.inner + config.convolved() + config.heads()},
                        zeros())),
        conv_weight_(parameters.add("conv1d.weight", {config.convolved(), 1, config.convolution}, fan_in_uniform())),
        conv_bias_(add_if(config.convolution_bias, parameters, "conv1d.bias", {config.convolved()},
                          uniform(-1.0 / std::sqrt(static_cast<double>(config.convolution)),
                                  1.0 / std::sqrt(static_cast<double>(config.convolution))))),
        dt_bias_(parameters.add("dt_bias", {config.heads()}, time_step_bias(1e-3, 1e-1))),
        A_log_(parameters.add("A_log", {config.heads()}, log_of_uniform(1.0, 16.0))),
        D_(parameters.add("D", {config.heads()}, constant(1.0))),
        norm_(add_if(config.gated_norm, parameters, "norm.weight", {config.inner}, constant(1.0))),
        out_proj_(parameters.add("out_proj.weight", {config.width, config.inner}, fan_in_uniform())),
        out_bias_(add_if(config.out_bias, parameters, "out_proj.bias", {config.width}, zeros())) {}
  std::int64_t heads() const override { return config_.heads(); }
  bool projects_once() const override { return true; }
  Var forward(Tape& tape, const Var& x, const Tensor&) override {
    const Shape states{x.shape()[0], config_.heads(), config_.head_width, config_.states};
    const Tensor state = tape.wants("final_state") ? tape.scratch(states, x.value.dtype) : Tensor();
    const Var y = run(tape, x, {}, state, false);
    if (state.defined()) tape.hook("final_state", state);
    tape.hook("input", x.value);
    return y;
  }
  // The scan computes every token as `step` does.
  Var forward_as_stepped(Tape& tape, const Var& x) override { return run(tape, x, {}, {}, false, true); }
  std::vector<StateSlope> state_slopes(Tape& tape, const HookedVars& hooked) const override {
    const std::vector<double> A_log = to_host(tape.backend(), A_log_.value);
    HookedScan scan{config_.heads(), config_.groups, to_host(tape, hooked.at("steps")),
                    to_host(tape, hooked.at("queries")), gradient_to_host(tape, hooked.at("readout"))};
    for (std::size_t i = 0; i < scan.decay.size(); ++i)
      scan.decay[i] = std::exp(-std::exp(A_log[i % A_log.size()]) * scan.decay[i]);
    std::vector<StateSlope> slopes = slopes_of_scan(scan);
    if (config_.convolution == 1) return slopes;
    slopes.push_back({"convolution",
                      convolution_slopes(
                          {static_cast<std::size_t>(config_.convolved()), static_cast<std::size_t>(config_.convolution),
                           to_host(tape, hooked.at("inputs")), to_host(tape.backend(), conv_weight_.value),
                           conv_bias_ ? to_host(tape.backend(), conv_bias_->value) : std::vector<double>{},
                           gradient_to_host(tape, hooked.at("convolved"))})});
    return slopes;
  }
  /// Groups of heads share B and C.
  std::int64_t heads_at(std::string_view place) const override {
    if (place == "values" || place == "steps" || place == "gate") return config_.heads();
    const bool is_own = config_.groups == config_.heads() && (place == "keys" || place == "queries");
    return is_own ? config_.heads() : 1;
  }
  /// `convolution`: the last inputs of the convolution.
  std::vector<StateTensor> state_parts() const override {
    return {{"state", {config_.heads(), config_.head_width, config_.states}},
            {"convolution", {config_.convolution - 1, config_.convolved()}}};
  }
  Var step(Tape& tape, const Var& x, LayerState& state) override {
    state.position += x.shape()[1];
    return run(tape, x, state.find("convolution"), state.get("state"), true);
  }
  std::vector<LayerSetting> settings() override { return {step_floor_setting(config_.step_floor)}; }
  const Mamba2Config& config() const { return config_; }
  /// Sessa's proposition 4 for each source, from the weights and one captured sequence: `forward` is C e^-Delta from
  /// the first token whose convolution no longer reads the source (remark C.3), with Delta of the slowest head.
  std::vector<SourceForcing> forcing(const CapturedLayer& captured, std::span<const int> sources) const {
    if (config_.norm_before_gate || !config_.scales.empty()) return {};
    const Host host(*this, captured);
    if (!host.fits()) return {};
    return afterglow::mapped(sources, [&](int source) { return host.of(source); });
  }

 private:
  static const Parameter& add_in_proj(const Mamba2Config& config, const ParameterScope& parameters) {
    Parameter& added = parameters.add(
        "in_proj.weight", {config.inner + config.convolved() + config.heads(), config.width}, fan_in_uniform());
    added.is_projection = added.is_projection && config.scales.empty();
    return added;
  }
  /// One captured sequence with the layer's weights, in float64.
  struct Host {
    Host(const Mamba2& layer, const CapturedLayer& captured)
        : layer_(layer), captured_(captured), config_(layer.config_), T_(captured.tokens) {
      const std::vector<double>& inputs = captured.values("input");
      if (inputs.size() != static_cast<std::size_t>(T_ * config_.width)) return;
      const std::int64_t all = config_.inner + config_.convolved() + config_.heads();
      W_in_ = matrix_of(weights(&layer.in_proj_), all, config_.width);
      captured.yield();
      project(matrix_of(inputs, T_, config_.width));
      if (layer.in_bias_ != nullptr) in_.rowwise() += ScanRow(matrix_of(weights(layer.in_bias_), 1, all));
      taps_ = matrix_of(weights(&layer.conv_weight_), config_.convolved(), config_.convolution);
      conv_bias_ = weights(layer.conv_bias_);
      x_ = matrix_of(captured.values("values"), T_, config_.inner);
      B_ = matrix_of(captured.values("B"), T_, config_.shared());
      C_ = matrix_of(captured.values("C"), T_, config_.shared());
      dt_ = matrix_of(captured.values("dt"), T_, config_.heads());
      sums_ = matrix_of(captured.values("log_decay_cumsum"), T_, config_.heads());
      readout_ = matrix_of(captured.values("readout"), T_, config_.inner);
      norm_ = weights(layer.norm_);
      for (const double log : weights(&layer.A_log_)) A_.push_back(std::exp(log));
      for (std::int64_t head = 0; head < config_.heads(); ++head) {
        rows_.push_back(rows_of(head));
        captured_.yield();
      }
      out_norm_ = spectral_norm(matrix_of(weights(&layer.out_proj_), config_.width, config_.inner));
      captured.yield();
      for (std::int64_t t = 0; t < T_; ++t) readings_.push_back(reading(t));
      is_sound_ = true;
    }
    bool fits() const { return is_sound_; }
    SourceForcing of(int source) const {
      const std::int64_t last = std::min(source + config_.convolution - 1, T_ - 1);
      double squares = 0;
      for (std::int64_t head = 0; head < config_.heads(); ++head) {
        squares += std::pow(injected(source, last, head), 2);
        captured_.yield();
      }
      const double reading = std::accumulate(readings_.begin() + last + 1, readings_.end(), 0.0,
                                             [](double a, double b) { return std::max(a, b); });
      SourceForcing forcing;
      forcing.source = source;
      forcing.outlet = out_norm_;
      forcing.own = std::sqrt(squares) * reading;
      // The theory gives no bound up to the last token whose convolution still reads the source.
      forcing.forward.assign(static_cast<std::size_t>(T_), std::numeric_limits<double>::infinity());
      for (std::int64_t t = last + 1; t < T_; ++t) {
        const double slowest = (sums_.row(t) - sums_.row(last)).maxCoeff();
        forcing.forward[static_cast<std::size_t>(t)] = forcing.own * std::exp(slowest);
      }
      return forcing;
    }

   private:
    std::vector<double> weights(const Parameter* parameter) const {
      return parameter == nullptr ? std::vector<double>{} : captured_.read.download(parameter->value);
    }
    void project(const RowMajor& inputs) {
      constexpr std::int64_t together = 32;  // tokens
      in_.resize(T_, W_in_.rows());
      for (std::int64_t t = 0; t < T_; t += together) {
        const std::int64_t count = std::min(together, T_ - t);
        in_.middleRows(t, count).noalias() = inputs.middleRows(t, count) * W_in_.transpose();
        captured_.yield();
      }
    }
    /// A column of x, B or C before SiLU at a token: the convolution of the projected inputs.
    double before_silu(std::int64_t token, std::int64_t column) const {
      double sum = conv_bias_.empty() ? 0 : conv_bias_[static_cast<std::size_t>(column)];
      for (std::int64_t back = 0; back < config_.convolution && back <= token; ++back)
        sum += taps_(column, config_.convolution - 1 - back) * in_(token - back, config_.inner + column);
      return sum;
    }
    ScanRow convolved_slopes(std::int64_t token, int source, std::int64_t first, std::int64_t count) const {
      ScanRow slopes(count);
      for (std::int64_t c = 0; c < count; ++c) {
        const double tap = taps_(first + c, config_.convolution - 1 - (token - source));
        slopes[c] = silu_slope_of(before_silu(token, first + c)) * tap;
      }
      return slopes;
    }
    /// State of one head after the token before `source`, [P,N].
    RowMajor state_before(int source, std::int64_t head) const {
      const std::int64_t group = group_of(head);
      RowMajor h = RowMajor::Zero(config_.head_width, config_.states);
      for (std::int64_t s = 0; s < source; ++s) {
        const double kept = std::exp(sums_(source - 1, head) - sums_(s, head)) * dt_(s, head);
        h += kept * x_.row(s).segment(head * config_.head_width, config_.head_width).transpose() *
             B_.row(s).segment(group * config_.states, config_.states);
      }
      return h;
    }
    /// |∂h_last/∂x_source| of one head, read by any C of length 1.
    // Column n of the state has the Jacobian G_n [P,d] by the input, and |sum_n c_n G_n| <= |[G_1 .. G_N]| for |c| = 1.
    // Row p of G_n is a sum of three rows of W_in, those of the step, of x_p and of B_n, with numbers O, X and Y [P,N]:
    // so the product of all these rows with one another needs the products of W_in's rows alone.
    double injected(int source, std::int64_t last, std::int64_t head) const {
      const std::int64_t P = config_.head_width, N = config_.states, group = group_of(head);
      const auto faded = [&](std::int64_t s) { return std::exp(sums_(last, head) - sums_(s, head)); };
      const double step = dt_(source, head);
      const bool is_free = step > config_.step_floor && step < config_.step_ceiling;
      RowMajor O =
          faded(source) * x_.row(source).segment(head * P, P).transpose() * B_.row(source).segment(group * N, N);
      if (source > 0) O -= A_[static_cast<std::size_t>(head)] * faded(source - 1) * state_before(source, head);
      O *= is_free ? -std::expm1(-step) : 0.0;  // dt = softplus(raw): its slope is sigmoid(raw) = 1 - e^-dt
      RowMajor X = RowMajor::Zero(P, N), Y = X;
      for (std::int64_t s = source; s <= last; ++s) {
        const double share = faded(s) * dt_(s, head);
        const ScanRow of_x = convolved_slopes(s, source, head * P, P),
                      of_B = convolved_slopes(s, source, config_.inner + group * N, N);
        X += share * of_x.transpose() * B_.row(s).segment(group * N, N);
        Y += share * x_.row(s).segment(head * P, P).transpose() * of_B;
      }
      const Rows& rows = rows_[static_cast<std::size_t>(head)];
      const RowMajor mixed = O * X.transpose() * rows.step_x.asDiagonal() +
                             (O * rows.step_B.asDiagonal() + X.cwiseProduct(rows.x_B)) * Y.transpose();
      const RowMajor own = rows.step * O * O.transpose() + rows.x.cwiseProduct(X * X.transpose()) +
                           Y * rows.B.asDiagonal() * Y.transpose();
      return std::sqrt(spectral_norm(own + mixed + mixed.transpose()));
    }
    /// Largest factor of the gate and its norm on the output at a token.
    double gate_factor(std::int64_t token) const {
      const ScanRow gate = in_.row(token).head(config_.inner).unaryExpr(&silu_of);
      const double largest = gate.cwiseAbs().maxCoeff();
      if (norm_.empty()) return largest;
      const ScanRow gated = gate.cwiseProduct(readout_.row(token));
      const std::int64_t groups = config_.norm_per_group ? config_.groups : 1, columns = config_.inner / groups;
      double least = std::numeric_limits<double>::infinity();
      for (std::int64_t g = 0; g < groups; ++g)
        least = std::min(least, gated.segment(g * columns, columns).squaredNorm() / static_cast<double>(columns));
      const double weight = std::abs(*std::ranges::max_element(norm_, {}, [](double w) { return std::abs(w); }));
      return largest * weight / std::sqrt(least + config_.norm_eps);
    }
    /// Largest ratio of the norms of output and state at a token.
    double reading(std::int64_t token) const {
      double longest = 0;
      for (std::int64_t g = 0; g < config_.groups; ++g)
        longest = std::max(longest, C_.row(token).segment(g * config_.states, config_.states).norm());
      return gate_factor(token) * longest;
    }

    /// Inner products of the rows of W_in from which one head's step, x [P] and B [N] are computed.
    struct Rows {
      double step = 0;         // with itself
      ScanRow step_x, step_B;  // [P], [N]
      RowMajor x, x_B;         // [P,P], [P,N]
      ScanRow B;               // each with itself [N]
    };
    Rows rows_of(std::int64_t head) const {
      const std::int64_t P = config_.head_width, N = config_.states;
      const ScanRow step = W_in_.row(config_.inner + config_.convolved() + head);
      const RowMajor x = W_in_.middleRows(config_.inner + head * P, P),
                     B = W_in_.middleRows(2 * config_.inner + group_of(head) * N, N);
      return {step.squaredNorm(), step * x.transpose(), step * B.transpose(),
              x * x.transpose(),  x * B.transpose(),    B.rowwise().squaredNorm().transpose()};
    }
    std::int64_t group_of(std::int64_t head) const { return head / (config_.heads() / config_.groups); }

    const Mamba2& layer_;
    const CapturedLayer& captured_;
    const Mamba2Config& config_;
    std::int64_t T_;
    bool is_sound_ = false;
    RowMajor in_, x_, B_, C_, dt_, sums_, W_in_, taps_, readout_;  // in_: the projected input [T, ..]
    std::vector<double> conv_bias_, norm_, A_, readings_;          // readings_ [T]
    std::vector<Rows> rows_;                                       // of each head
    double out_norm_ = 0;
  };
  Var gated(Tape& tape, const Var& y, const Var& z) const {
    if (!config_.gated_norm) return silu_multiply(tape, contiguous(tape, z), y);
    const Var weight = tape.parameter(*norm_);
    const std::int64_t groups = config_.norm_per_group ? config_.groups : 1;
    if (config_.norm_before_gate)
      return silu_multiply(tape, contiguous(tape, z), group_rms_norm(tape, y, weight, config_.norm_eps, groups));
    if (!config_.norm_per_group) return gated_rms_norm(tape, y, z, weight, config_.norm_eps);
    return group_rms_norm(tape, silu_multiply(tape, contiguous(tape, z), y), weight, config_.norm_eps, groups);
  }
  /// A parameter of in_proj with rows scaled by `in_scales`.
  Var scaled(Tape& tape, const Var& rows) const {
    if (config_.scales.empty() || !rows.defined()) return rows;
    const std::int64_t widths[] = {config_.inner, config_.inner, config_.shared(), config_.shared(), config_.heads()};
    const Tensor all = tape.scratch({rows.shape()[0]}, rows.value.dtype);
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < config_.scales.size(); begin += widths[i++])
      tape.backend().fill(all.column_range(begin, widths[i]), config_.scales[i]);
    const Var factors = tape.constant(all);
    return rows.shape().rank() == 1 ? multiply(tape, rows, factors) : multiply_rows(tape, rows, factors, 0.0);
  }
  /// Storage of the values between the projections.
  // The norm and the scan decide: projection and convolution accept narrow numbers of any size.
  Storage storage(const Backend& backend, const Shape& input) const {
    if (!config_.gated_norm || config_.norm_per_group || config_.norm_before_gate || config_.inner % 8 != 0)
      return Storage::wide;
    ScanInputs sizes;
    sizes.heads = static_cast<int>(config_.heads());
    sizes.groups = static_cast<int>(config_.groups);
    sizes.x.shape = input.with_last(config_.inner);
    sizes.B.shape = sizes.C.shape = input.with_last(config_.shared());
    return backend.plan(sizes).stored;
  }
  Var run(Tape& tape, const Var& x, const Tensor& history, const Tensor& state, bool resume,
          bool is_stepped = false) const {
    const std::int64_t widths[] = {config_.inner, config_.convolved(), config_.heads()};
    Var parts[3];  // z, then x, B and C before the convolution, then dt
    linear_columns(tape, x, scaled(tape, tape.parameter(in_proj_)), scaled(tape, optional_parameter(tape, in_bias_)),
                   widths, parts,
                   !is_stepped && !history.defined() ? storage(tape.backend(), x.shape()) : Storage::wide);
    if (is_stepped) tape.hook("inputs", parts[1]);
    const auto [convolved, dt] =
        conv_with_steps(tape, parts[1], tape.parameter(conv_weight_), optional_parameter(tape, conv_bias_), history,
                        parts[2], tape.parameter(dt_bias_), {config_.step_floor, config_.step_ceiling});
    if (is_stepped) tape.hook("convolved", convolved);
    const std::int64_t roles[] = {config_.inner, config_.shared(), config_.shared()};
    Var xBC[3];
    tape.split_columns(convolved, roles, xBC);
    ScanVars scan;
    scan.x = xBC[0];
    scan.B = xBC[1];
    scan.C = xBC[2];
    scan.dt = dt;
    scan.A_log = tape.parameter(A_log_);
    scan.D = tape.parameter(D_);
    scan.heads = config_.heads();
    scan.groups = config_.groups;
    hook_reading(tape, scan.C, scan.B, scan.x);
    tape.hook("steps", scan.dt);
    tape.hook("gate", parts[0]);
    if (tape.wants("log_decay_cumsum")) hook_scan(tape, scan);
    const Var heads = ssd_scan(tape, scan, state, resume);
    tape.hook("readout", heads);
    const Var y = tape.reshape(heads, {x.shape()[0], x.shape()[1], config_.inner});
    return linear(tape, gated(tape, y, parts[0]), tape.parameter(out_proj_), optional_parameter(tape, out_bias_));
  }
  void hook_scan(Tape& tape, const ScanVars& scan) const {
    tape.hook("B", scan.B.value);
    tape.hook("C", scan.C.value);
    const Tensor& dt = scan.dt.value;
    tape.hook("dt", dt);
    std::vector<double> sums = to_host(tape.backend(), dt);
    const std::vector<double> A_log = to_host(tape.backend(), A_log_.value);
    const std::int64_t tokens = dt.shape[1], heads = dt.shape[2];
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      sums[i] *= -std::exp(A_log[i % A_log.size()]);
      if (at / heads % tokens > 0) sums[i] += sums[i - static_cast<std::size_t>(heads)];
    }
    tape.hook("log_decay_cumsum", to_device(tape, dt.shape, dt.dtype, sums));
  }

  Mamba2Config config_;
  // A bias or norm is null where the configuration leaves it out.
  const Parameter &in_proj_, *in_bias_, &conv_weight_, *conv_bias_, &dt_bias_, &A_log_, &D_, *norm_, &out_proj_,
      *out_bias_;
};

WeightMatrix mamba2_weights(const CapturedLayer& layer, int head) {
  const auto groups = static_cast<int>(layer.as<Mamba2>().config().groups);
  return mamba2_token_weights(layer.of_group("B", head, groups), layer.of_group("C", head, groups),
                              layer.of_head("dt", head), layer.of_head("log_decay_cumsum", head), layer.tokens);
}

}  // namespace

LayerKind mamba2_kind() {
  return {
      .name = "mamba2",
      .description = "Mamba-2: a selective scan whose memory fades exponentially",
      .source = "mamba_ssm Mamba2Simple",
      .make = make_read<Mamba2, Mamba2Config>,
      .small_config = [](const SmallSizes& s) -> nlohmann::json {
        return {{"d_model", s.width}, {"d_state", 16}, {"expand", 2}, {"headdim", s.head_width}};
      },
      .width_field = "d_model",
      .ink = 2,
      .race_place = 4,
      .readers = {.token_weights = mamba2_weights,
                  .gates = gates_of_running_sum,
                  .state_modes = modes_of_running_sum,
                  .forcing = [](const CapturedLayer& layer,
                                std::span<const int> sources) { return layer.as<Mamba2>().forcing(layer, sources); }},
      .benchmarks = {{R"({"d_model":128,"d_state":16,"expand":2,"headdim":64})", 16, 64},
                     {R"({"d_model":448,"d_state":64,"expand":2,"headdim":64})", 8, 2048},
                     {R"({"d_model":1024,"d_state":128,"expand":1,"headdim":128})", 4, 8192, "8 heads x 128"}}};
}

}  // namespace afterglow
