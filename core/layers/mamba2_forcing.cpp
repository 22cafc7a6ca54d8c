// Proposition 4 of Sessa measured on one Mamba-2 layer: what a source token adds to the state, and how that decays.
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

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
  void project(const ScanMatrix& inputs);
  /// A column of x, B or C before SiLU at a token: the convolution of the projected inputs.
  double before_silu(std::int64_t token, std::int64_t column) const;
  ScanRow convolved_slopes(std::int64_t token, int source, std::int64_t first, std::int64_t count) const;
  /// State of one head after the token before `source`, [P,N].
  ScanMatrix state_before(int source, std::int64_t head) const;
  /// |∂h_last/∂x_source| of one head, read by any C of length 1.
  double injected(int source, std::int64_t last, std::int64_t head) const;
  /// Largest factor of the gate and its norm on the output at a token.
  double gate_factor(std::int64_t token) const;
  /// Largest ratio of the norms of output and state at a token.
  double reading(std::int64_t token) const;

  /// Inner products of the rows of W_in from which one head's step, x [P] and B [N] are computed.
  struct Rows {
    double step = 0;         // with itself
    ScanRow step_x, step_B;  // [P], [N]
    ScanMatrix x, x_B;       // [P,P], [P,N]
    ScanRow B;               // each with itself [N]
  };
  Rows rows_of(std::int64_t head) const;
  std::int64_t group_of(std::int64_t head) const { return head / (config_.heads() / config_.groups); }

  const Mamba2& layer_;
  const CapturedLayer& captured_;
  const Mamba2Config& config_;
  std::int64_t T_;
  bool is_sound_ = false;
  ScanMatrix in_, x_, B_, C_, dt_, sums_, W_in_, taps_, readout_;  // in_: the projected input [T, ..]
  std::vector<double> conv_bias_, norm_, A_, readings_;            // readings_ [T]
  std::vector<Rows> rows_;                                         // of each head
  double out_norm_ = 0;
};

Mamba2::Host::Host(const Mamba2& layer, const CapturedLayer& captured)
    : layer_(layer), captured_(captured), config_(layer.config_), T_(captured.tokens) {
  const std::vector<double>& inputs = captured.values("input");
  if (inputs.size() != static_cast<std::size_t>(T_ * config_.width)) return;
  const std::int64_t all = config_.inner + config_.convolved() + config_.heads();
  W_in_ = scan_matrix(weights(&layer.in_proj_), all, config_.width);
  captured.call_meanwhile();
  project(scan_matrix(inputs, T_, config_.width));
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
  for (std::int64_t head = 0; head < config_.heads(); ++head) {
    rows_.push_back(rows_of(head));
    captured_.call_meanwhile();
  }
  out_norm_ = largest_singular_value(scan_matrix(weights(&layer.out_proj_), config_.width, config_.inner));
  captured.call_meanwhile();
  for (std::int64_t t = 0; t < T_; ++t) readings_.push_back(reading(t));
  is_sound_ = true;
}

void Mamba2::Host::project(const ScanMatrix& inputs) {
  constexpr std::int64_t together = 32;  // tokens
  in_.resize(T_, W_in_.rows());
  for (std::int64_t t = 0; t < T_; t += together) {
    const std::int64_t count = std::min(together, T_ - t);
    in_.middleRows(t, count).noalias() = inputs.middleRows(t, count) * W_in_.transpose();
    captured_.call_meanwhile();
  }
}

double Mamba2::Host::before_silu(std::int64_t token, std::int64_t column) const {
  double sum = conv_bias_.empty() ? 0 : conv_bias_[static_cast<std::size_t>(column)];
  for (std::int64_t back = 0; back < config_.convolution && back <= token; ++back)
    sum += taps_(column, config_.convolution - 1 - back) * in_(token - back, config_.inner + column);
  return sum;
}

ScanRow Mamba2::Host::convolved_slopes(std::int64_t token, int source, std::int64_t first, std::int64_t count) const {
  ScanRow slopes(count);
  for (std::int64_t c = 0; c < count; ++c) {
    const double tap = taps_(first + c, config_.convolution - 1 - (token - source));
    slopes[c] = silu_slope_of(before_silu(token, first + c)) * tap;
  }
  return slopes;
}

Mamba2::Host::Rows Mamba2::Host::rows_of(std::int64_t head) const {
  const std::int64_t P = config_.head_width, N = config_.states;
  const ScanRow step = W_in_.row(config_.inner + config_.convolved() + head);
  const ScanMatrix x = W_in_.middleRows(config_.inner + head * P, P),
                   B = W_in_.middleRows(2 * config_.inner + group_of(head) * N, N);
  return {step.squaredNorm(), step * x.transpose(), step * B.transpose(),
          x * x.transpose(),  x * B.transpose(),    B.rowwise().squaredNorm().transpose()};
}

ScanMatrix Mamba2::Host::state_before(int source, std::int64_t head) const {
  const std::int64_t group = group_of(head);
  ScanMatrix h = ScanMatrix::Zero(config_.head_width, config_.states);
  for (std::int64_t s = 0; s < source; ++s) {
    const double kept = std::exp(sums_(source - 1, head) - sums_(s, head)) * dt_(s, head);
    h += kept * x_.row(s).segment(head * config_.head_width, config_.head_width).transpose() *
         B_.row(s).segment(group * config_.states, config_.states);
  }
  return h;
}

// Column n of the state has the Jacobian G_n [P,d] by the input, and |sum_n c_n G_n| <= |[G_1 .. G_N]| for |c| = 1.
// Row p of G_n is a sum of three rows of W_in, those of the step, of x_p and of B_n, with numbers O, X and Y [P,N]: so
// the product of all these rows with one another needs the products of W_in's rows alone.
double Mamba2::Host::injected(int source, std::int64_t last, std::int64_t head) const {
  const std::int64_t P = config_.head_width, N = config_.states, group = group_of(head);
  const auto faded = [&](std::int64_t s) { return std::exp(sums_(last, head) - sums_(s, head)); };
  const double step = dt_(source, head);
  const bool is_free = step > config_.step_floor && step < config_.step_ceiling;
  ScanMatrix O = faded(source) * x_.row(source).segment(head * P, P).transpose() * B_.row(source).segment(group * N, N);
  if (source > 0) O -= A_[static_cast<std::size_t>(head)] * faded(source - 1) * state_before(source, head);
  O *= is_free ? -std::expm1(-step) : 0.0;  // dt = softplus(raw): its slope is sigmoid(raw) = 1 - e^-dt
  ScanMatrix X = ScanMatrix::Zero(P, N), Y = X;
  for (std::int64_t s = source; s <= last; ++s) {
    const double share = faded(s) * dt_(s, head);
    const ScanRow of_x = convolved_slopes(s, source, head * P, P),
                  of_B = convolved_slopes(s, source, config_.inner + group * N, N);
    X += share * of_x.transpose() * B_.row(s).segment(group * N, N);
    Y += share * x_.row(s).segment(head * P, P).transpose() * of_B;
  }
  const Rows& rows = rows_[static_cast<std::size_t>(head)];
  const ScanMatrix mixed = O * X.transpose() * rows.step_x.asDiagonal() +
                           (O * rows.step_B.asDiagonal() + X.cwiseProduct(rows.x_B)) * Y.transpose();
  const ScanMatrix own =
      rows.step * O * O.transpose() + rows.x.cwiseProduct(X * X.transpose()) + Y * rows.B.asDiagonal() * Y.transpose();
  return std::sqrt(largest_singular_value(own + mixed + mixed.transpose()));
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

double Mamba2::Host::reading(std::int64_t token) const {
  double longest = 0;
  for (std::int64_t g = 0; g < config_.groups; ++g)
    longest = std::max(longest, C_.row(token).segment(g * config_.states, config_.states).norm());
  return gate_factor(token) * longest;
}

SourceForcing Mamba2::Host::of(int source) const {
  const std::int64_t last = std::min(source + config_.convolution - 1, T_ - 1);
  double squares = 0;
  for (std::int64_t head = 0; head < config_.heads(); ++head) {
    squares += std::pow(injected(source, last, head), 2);
    captured_.call_meanwhile();
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

std::vector<SourceForcing> Mamba2::forcing(const CapturedLayer& captured, std::span<const int> sources) const {
  if (config_.norm_before_gate || !config_.scales.empty()) return {};
  const Host host(*this, captured);
  std::vector<SourceForcing> all;
  for (const int source : sources) {
    if (!host.fits()) return {};
    all.push_back(host.of(source));
  }
  return all;
}

}  // namespace afterglow
