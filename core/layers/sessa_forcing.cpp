// The constants of theorem 23 measured on one block, the effect of a source token on f and on the rows of the feedback;
// and those of proposition 25, the largest outputs.
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "core/analysis/influence/block_bound.h"
#include "core/analysis/influence/smooth_routing.h"
#include "core/analysis/linear_algebra/singular_values.h"
#include "core/layers/captured_layer.h"
#include "core/layers/sessa.h"

namespace afterglow {

namespace {

using HostMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using HostRow = Eigen::RowVectorXd;

constexpr double forward_rotary_base = 10000;

HostMatrix matrix_of(const std::vector<double>& numbers, std::int64_t rows, std::int64_t columns) {
  return Eigen::Map<const HostMatrix>(numbers.data(), rows, columns);
}

std::vector<double> numbers_of(const HostMatrix& matrix) { return {matrix.data(), matrix.data() + matrix.size()}; }

double norm_of_matrix(const HostMatrix& A) {
  return spectral_norm({A.data(), static_cast<std::size_t>(A.size())}, static_cast<int>(A.rows()),
                       static_cast<int>(A.cols()));
}

double gelu_at(double x) { return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2)); }
double gelu_slope_at(double x) {
  const double density = std::exp(-0.5 * x * x) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  return 0.5 * (1 + std::erf(x / std::numbers::sqrt2)) + x * density;
}

/// LayerNorm of a token and its Jacobian, or the identity.
struct EnteredToken {
  HostRow normed;
  HostMatrix jacobian;
};
EnteredToken entered(const HostRow& x, const HostRow& weight, const HostRow& bias, double eps) {
  const auto width = x.size();
  if (weight.size() == 0) return {x, HostMatrix::Identity(width, width)};
  const HostRow centred = x.array() - x.mean();
  const double root = std::sqrt(centred.squaredNorm() / static_cast<double>(width) + eps);
  const HostRow unit = centred / root;
  HostMatrix inner = HostMatrix::Identity(width, width);
  inner.array() -= 1.0 / static_cast<double>(width);
  inner -= unit.transpose() * unit / static_cast<double>(width);
  return {(unit.array() * weight.array() + bias.array()).matrix(), weight.transpose().asDiagonal() * inner / root};
}

}  // namespace

/// One captured sequence with the block's weights, in float64.
struct Sessa::Host {
  Host(const Sessa& block, const CapturedLayer& captured);
  bool fits() const { return is_sound_; }
  SourceForcing of(int source) const;
  SessaNorms norms() const;
  BlockReach reach() const;

 private:
  std::vector<double> weights(const Parameter* parameter) const {
    return parameter == nullptr ? std::vector<double>{} : captured_.read.download(parameter->value);
  }
  void enter();
  void read_forward();
  void read_feedback();
  EnteredToken entered_token(std::int64_t t) const {
    return entered(x_.row(t), norm_weight_, norm_bias_, block_.config_.norm_eps);
  }
  AffineNorms norms_of(const Parameter& weight, const Parameter& bias, std::int64_t first, std::int64_t rows,
                       std::int64_t columns) const;
  /// The effect of the source token on its own row and gain of the feedback (assumptions 17 and 19).
  double own_gain(int source, const HostMatrix& J) const;

  const Sessa& block_;
  const CapturedLayer& captured_;
  std::int64_t T_, D_;
  bool is_sound_ = false;
  HostMatrix x_, W_in_, a_, gate_, s_;
  HostRow b_in_, norm_weight_, norm_bias_;
  SmoothRouting forward_, feedback_;
  std::vector<double> gain_, gain_weight_;
  double out_norm_ = 0;
};

Sessa::Host::Host(const Sessa& block, const CapturedLayer& captured)
    : block_(block), captured_(captured), T_(captured.tokens), D_(block.config_.width) {
  const std::vector<double>&inputs = captured.values("input"), &s = captured.values("s");
  if (inputs.size() != static_cast<std::size_t>(T_ * D_) || s.size() != inputs.size()) return;
  x_ = matrix_of(inputs, T_, D_);
  s_ = matrix_of(s, T_, D_);
  enter();
  read_forward();
  is_sound_ = true;
  if (block_.config_.feedback) read_feedback();
}

void Sessa::Host::enter() {
  const std::vector<double> weight = weights(block_.norm_weight_), bias = weights(block_.norm_bias_);
  norm_weight_ = matrix_of(weight, 1, static_cast<std::int64_t>(weight.size()));
  norm_bias_ = matrix_of(bias, 1, static_cast<std::int64_t>(bias.size()));
  W_in_ = matrix_of(weights(&block_.in_.weight), 2 * D_, D_);
  b_in_ = matrix_of(weights(&block_.in_.bias), 1, 2 * D_);
  a_.resize(T_, D_);
  gate_.resize(T_, D_);
  for (std::int64_t t = 0; t < T_; ++t) {
    const HostRow both = entered_token(t).normed * W_in_.transpose() + b_in_;
    a_.row(t) = both.head(D_);
    gate_.row(t) = both.tail(D_);
  }
  out_norm_ = norm_of_matrix(matrix_of(weights(&block_.out_.weight), D_, D_));
}

void Sessa::Host::read_forward() {
  const SessaConfig& config = block_.config_;
  const auto map = [&](const Map& of) { return TokenMap{weights(&of.weight), weights(&of.bias)}; };
  forward_.tokens = static_cast<int>(T_);
  forward_.width = static_cast<int>(D_);
  forward_.heads = static_cast<int>(config.heads);
  forward_.key_heads = static_cast<int>(config.key_heads);
  forward_.head_width = forward_.value_width = static_cast<int>(config.head_width());
  forward_.alpha = captured_.values("attn");
  forward_.inputs = numbers_of(a_.unaryExpr(&gelu_at));
  forward_.query = map(block_.q_proj_);
  forward_.key = map(block_.k_proj_);
  forward_.value = map(block_.v_proj_);
  forward_.values = captured_.values("values");
  forward_.output = weights(block_.out_proj_);
  forward_.scale = block_.scale();
  forward_.rotary_base = config.rotary ? forward_rotary_base : 0;
}

void Sessa::Host::read_feedback() {
  const HostMatrix W = matrix_of(weights(&block_.feedback_->weight), 2 * D_, D_);
  const HostMatrix b = matrix_of(weights(&block_.feedback_->bias), 1, 2 * D_);
  feedback_.tokens = forward_.tokens;
  feedback_.width = feedback_.head_width = feedback_.value_width = forward_.width;
  feedback_.alpha = captured_.values("alpha_fb");
  feedback_.inputs = forward_.inputs;
  feedback_.query = {numbers_of(W.topRows(D_)), numbers_of(b.leftCols(D_))};
  feedback_.key = {numbers_of(W.bottomRows(D_)), numbers_of(b.rightCols(D_))};
  feedback_.values = numbers_of(s_);  // held fixed: their effect is part of the solve
  feedback_.scale = block_.feedback_scale();
  gain_ = captured_.values("gamma");
  gain_weight_ = weights(block_.gamma_ctx_);
  is_sound_ = gain_.size() == static_cast<std::size_t>(T_);
}

double Sessa::Host::own_gain(int source, const HostMatrix& J) const {
  const double most = block_.config_.gamma_max, gain = gain_[static_cast<std::size_t>(source)];
  const double slope = most > 0 ? most - gain * gain / most : 0;  // of gamma_max tanh
  const HostRow routed = matrix_of(feedback_.alpha, T_, T_).row(source) * s_;
  return slope * routed.norm() * (matrix_of(gain_weight_, 1, D_) * J).norm();
}

SourceForcing Sessa::Host::of(int source) const {
  const HostMatrix J = a_.row(source).transpose().unaryExpr(&gelu_slope_at).asDiagonal() *
                       HostMatrix(W_in_.topRows(D_) * entered_token(source).jacobian);
  const std::vector<double> jacobian = numbers_of(J);
  const auto at = static_cast<std::size_t>(source);
  SourceForcing forcing;
  forcing.source = source;
  forcing.forward = answer_sensitivity(forward_, jacobian, forward_.width, source);
  if (forcing.forward.empty()) return forcing;
  forcing.own = forcing.forward[at];
  const std::int64_t later = T_ - source - 1;
  forcing.outlet = later > 0 ? out_norm_ * gate_.bottomRows(later).cwiseAbs().maxCoeff() : 0;
  if (!block_.config_.feedback) return forcing;
  forcing.routing = answer_sensitivity(feedback_, jacobian, forward_.width, source);
  forcing.logits = logit_sensitivity(feedback_, jacobian, forward_.width, source);
  if (forcing.routing.empty()) return {};
  for (std::size_t t = 0; t < gain_.size(); ++t) forcing.routing[t] *= std::abs(gain_[t]);
  forcing.own += std::exchange(forcing.routing[at], 0) + own_gain(source, J);
  return forcing;
}

/// Norms of a range of rows of a linear map.
AffineNorms Sessa::Host::norms_of(const Parameter& weight, const Parameter& bias, std::int64_t first, std::int64_t rows,
                                  std::int64_t columns) const {
  const std::vector<double> W = weights(&weight), b = weights(&bias);
  const HostMatrix whole = matrix_of(W, static_cast<std::int64_t>(b.size()), columns);
  const Eigen::Map<const Eigen::VectorXd> biases(b.data(), static_cast<std::int64_t>(b.size()));
  return {norm_of_matrix(whole.middleRows(first, rows)), biases.segment(first, rows).norm()};
}

SessaNorms Sessa::Host::norms() const {
  const SessaConfig& config = block_.config_;
  SessaNorms norms;
  if (norm_weight_.size() > 0)
    norms.norm = {static_cast<int>(D_), norm_weight_.cwiseAbs().maxCoeff(), norm_bias_.norm(), config.norm_eps};
  norms.signal = norms_of(block_.in_.weight, block_.in_.bias, 0, D_, D_);
  norms.gate = norms_of(block_.in_.weight, block_.in_.bias, D_, D_, D_);
  const std::int64_t width = config.head_width();
  for (std::int64_t head = 0; head < config.heads; ++head) {
    const std::int64_t group = head / (config.heads / config.key_heads);
    norms.values.push_back(norms_of(block_.v_proj_.weight, block_.v_proj_.bias, group * width, width, D_));
  }
  if (block_.out_proj_ != nullptr) norms.joined = norm_of_matrix(matrix_of(weights(block_.out_proj_), D_, D_));
  norms.out = {out_norm_, matrix_of(weights(&block_.out_.bias), 1, D_).norm()};
  if (!config.feedback) return norms;
  norms.gain = {matrix_of(gain_weight_, 1, D_).norm(), std::abs(weights(block_.gamma_bias_).front())};
  norms.most_gain = config.gamma_max;
  return norms;
}

BlockReach Sessa::Host::reach() const {
  constexpr int steps = 24;
  BlockReach reach;
  const HostMatrix W = matrix_of(weights(&block_.out_.weight), D_, D_),
                   b = matrix_of(weights(&block_.out_.bias), 1, D_);
  const HostMatrix y = ((s_.array() * gate_.array()).matrix() * W.transpose() + x_).rowwise() + HostRow(b);
  for (std::int64_t t = 0; t < T_; ++t) {
    reach.entering.push_back(x_.row(t).norm());
    reach.leaving.push_back(y.row(t).norm());
  }
  const double largest = *std::ranges::max_element(reach.entering);
  const SessaNorms own = norms();
  for (int step = 1; step <= steps; ++step) {
    reach.radii.push_back(largest * step / steps);
    reach.bounds.push_back(sessa_reach(own, reach.radii.back()).answer);
  }
  return reach;
}

BlockReach Sessa::reach(const CapturedLayer& captured) const {
  const Host host(*this, captured);
  return host.fits() ? host.reach() : BlockReach{};
}

std::vector<SourceForcing> Sessa::forcing(const CapturedLayer& captured, std::span<const int> sources) const {
  const Host host(*this, captured);
  std::vector<SourceForcing> all;
  for (const int source : sources) {
    if (!host.fits()) return {};
    all.push_back(host.of(source));
    if (all.back().forward.empty()) return {};
  }
  return all;
}

}  // namespace afterglow
