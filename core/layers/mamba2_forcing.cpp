// Proposition 4 of Sessa measured on one Mamba-2 layer: what a source token puts into the state, and how it fades.
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/analysis/influence/smooth_routing.h"
#include "core/analysis/linear_algebra/singular_values.h"
#include "core/layers/captured_layer.h"
#include "core/layers/mamba2.h"

namespace afterglow {

namespace {

using ScanMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using ScanRow = Eigen::RowVectorXd;

ScanMatrix scan_matrix(const std::vector<double>& numbers, std::int64_t rows, std::int64_t columns) {
  return Eigen::Map<const ScanMatrix>(numbers.data(), rows, columns);
}

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
double silu_of(double x) { return x * sigmoid_of(x); }
double silu_slope_of(double x) { return sigmoid_of(x) * (1 + x * (1 - sigmoid_of(x))); }

double largest_singular_value(const ScanMatrix& A) {
  return spectral_norm({A.data(), static_cast<std::size_t>(A.size())}, static_cast<int>(A.rows()),
                       static_cast<int>(A.cols()));
}

}  // namespace

/// One captured sequence with the layer's weights, in float64.
struct Mamba2::Host {
  Host(const Mamba2& layer, const CapturedLayer& captured);
  bool fits() const { return is_sound_; }
  SourceForcing of(int source) const;

 private:
  std::vector<double> weights(const Parameter* parameter) const {
    return parameter == nullptr ? std::vector<double>{} : captured_.read.download(parameter->value);
  }
  /// Columns of x, B or C before SiLU at a token, and how they follow the input of an earlier one: a row for each.
  double before_silu(std::int64_t token, std::int64_t column) const;
  ScanMatrix convolved_jacobian(std::int64_t token, int source, std::int64_t first, std::int64_t count) const;
  /// State of one head after the token before `source`, [P,N].
  ScanMatrix state_before(int source, std::int64_t head) const;
  /// |∂h_last/∂x_source| of one head, read by any C of length 1.
  double injected(int source, std::int64_t last, std::int64_t head) const;
  /// What the gate and its norm make of an answer at a token: at most this factor.
  double gate_factor(std::int64_t token) const;

  const Mamba2& layer_;
  const CapturedLayer& captured_;
  const Mamba2Config& config_;
  std::int64_t T_;
  bool is_sound_ = false;
  ScanMatrix in_, x_, B_, C_, dt_, sums_, W_in_, taps_, readout_;  // in_: the projected input [T, ..]
  std::vector<double> conv_bias_, norm_, A_;
  double out_norm_ = 0;
};

Mamba2::Host::Host(const Mamba2& layer, const CapturedLayer& captured)
    : layer_(layer), captured_(captured), config_(layer.config_), T_(captured.tokens) {
  const std::vector<double>& inputs = captured.values("input");
  if (inputs.size() != static_cast<std::size_t>(T_ * config_.width)) return;
  const std::int64_t all = config_.inner + config_.convolved() + config_.heads();
  W_in_ = scan_matrix(weights(&layer.in_proj_), all, config_.width);
  in_ = scan_matrix(inputs, T_, config_.width) * W_in_.transpose();
  if (layer.in_bias_ != nullptr) in_.rowwise() += ScanRow(scan_matrix(weights(layer.in_bias_), 1, all));
  taps_ = scan_matrix(weights(&layer.conv_weight_), config_.convolved(), config_.convolution);
  conv_bias_ = weights(layer.conv_bias_);
  x_ = scan_matrix(captured.values("values"), T_, config_.inner);
  B_ = scan_matrix(captured.values("B"), T_, config_.shared());
  C_ = scan_matrix(captured.values("C"), T_, config_.shared());
  dt_ = scan_matrix(captured.values("dt"), T_, config_.heads());
  sums_ = scan_matrix(captured.values("log_decay_cumsum"), T_, config_.heads());
  readout_ = scan_matrix(captured.values("readout"), T_, config_.inner);
  norm_ = weights(layer.norm_);
  for (const double log : weights(&layer.A_log_)) A_.push_back(std::exp(log));
  out_norm_ = largest_singular_value(scan_matrix(weights(&layer.out_proj_), config_.width, config_.inner));
  is_sound_ = true;
}

double Mamba2::Host::before_silu(std::int64_t token, std::int64_t column) const {
  double sum = conv_bias_.empty() ? 0 : conv_bias_[static_cast<std::size_t>(column)];
  for (std::int64_t back = 0; back < config_.convolution && back <= token; ++back)
    sum += taps_(column, config_.convolution - 1 - back) * in_(token - back, config_.inner + column);
  return sum;
}

ScanMatrix Mamba2::Host::convolved_jacobian(std::int64_t token, int source, std::int64_t first,
                                            std::int64_t count) const {
  ScanMatrix J(count, config_.width);
  for (std::int64_t c = 0; c < count; ++c) {
    const std::int64_t column = first + c;
    const double tap = taps_(column, config_.convolution - 1 - (token - source));
    J.row(c) = silu_slope_of(before_silu(token, column)) * tap * W_in_.row(config_.inner + column);
  }
  return J;
}

ScanMatrix Mamba2::Host::state_before(int source, std::int64_t head) const {
  const std::int64_t group = head / (config_.heads() / config_.groups);
  ScanMatrix h = ScanMatrix::Zero(config_.head_width, config_.states);
  for (std::int64_t s = 0; s < source; ++s) {
    const double kept = std::exp(sums_(source - 1, head) - sums_(s, head)) * dt_(s, head);
    h += kept * x_.row(s).segment(head * config_.head_width, config_.head_width).transpose() *
         B_.row(s).segment(group * config_.states, config_.states);
  }
  return h;
}

double Mamba2::Host::injected(int source, std::int64_t last, std::int64_t head) const {
  const std::int64_t P = config_.head_width, N = config_.states, d = config_.width;
  const std::int64_t group = head / (config_.heads() / config_.groups);
  // Rows p, columns (n, input): every column n of the state, one Jacobian beside the other.
  ScanMatrix G = ScanMatrix::Zero(P, N * d);
  const auto faded = [&](std::int64_t s) { return std::exp(sums_(last, head) - sums_(s, head)); };
  const double step = dt_(source, head);
  const bool is_free = step > config_.step_floor && step < config_.step_ceiling;
  // dt = softplus(raw): its slope is sigmoid(raw) = 1 - e^-dt.
  const ScanRow step_slope =
      (is_free ? -std::expm1(-step) : 0.0) * W_in_.row(config_.inner + config_.convolved() + head);
  const ScanMatrix written = x_.row(source).segment(head * P, P).transpose() * B_.row(source).segment(group * N, N);
  ScanMatrix of_step = faded(source) * written;
  if (source > 0) of_step -= A_[static_cast<std::size_t>(head)] * faded(source - 1) * state_before(source, head);
  for (std::int64_t p = 0; p < P; ++p) {
    for (std::int64_t n = 0; n < N; ++n) G.row(p).segment(n * d, d) += of_step(p, n) * step_slope;
  }
  for (std::int64_t s = source; s <= last; ++s) {
    const ScanMatrix Jx = convolved_jacobian(s, source, head * P, P);
    const ScanMatrix JB = convolved_jacobian(s, source, config_.inner + group * N, N);
    const double share = faded(s) * dt_(s, head);
    for (std::int64_t p = 0; p < P; ++p) {
      for (std::int64_t n = 0; n < N; ++n)
        G.row(p).segment(n * d, d) += share * (B_(s, group * N + n) * Jx.row(p) + x_(s, head * P + p) * JB.row(n));
    }
  }
  // |sum_n c_n G_n| <= |[G_1 .. G_N]| for |c| = 1, by its small side.
  return std::sqrt(largest_singular_value(G * G.transpose()));
}

double Mamba2::Host::gate_factor(std::int64_t token) const {
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

SourceForcing Mamba2::Host::of(int source) const {
  const std::int64_t last = std::min(source + config_.convolution - 1, T_ - 1);
  double squares = 0;
  for (std::int64_t head = 0; head < config_.heads(); ++head) squares += std::pow(injected(source, last, head), 2);
  double reading = 0;
  for (std::int64_t t = last + 1; t < T_; ++t) {
    double longest = 0;
    for (std::int64_t g = 0; g < config_.groups; ++g)
      longest = std::max(longest, C_.row(t).segment(g * config_.states, config_.states).norm());
    reading = std::max(reading, gate_factor(t) * longest);
  }
  SourceForcing forcing;
  forcing.source = source;
  forcing.outlet = out_norm_;
  forcing.own = std::sqrt(squares) * reading;
  // Up to the last token whose convolution still reads the source nothing is promised.
  forcing.forward.assign(static_cast<std::size_t>(T_), std::numeric_limits<double>::infinity());
  for (std::int64_t t = last + 1; t < T_; ++t) {
    const double slowest = (sums_.row(t) - sums_.row(last)).maxCoeff();
    forcing.forward[static_cast<std::size_t>(t)] = forcing.own * std::exp(slowest);
  }
  return forcing;
}

std::vector<SourceForcing> Mamba2::forcing(const CapturedLayer& captured, std::span<const int> sources) const {
  const Host host(*this, captured);
  std::vector<SourceForcing> all;
  for (const int source : sources) {
    if (!host.fits()) return {};
    all.push_back(host.of(source));
  }
  return all;
}

}  // namespace afterglow
