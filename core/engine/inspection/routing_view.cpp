// Reads the captures that several kinds of layers share: attn, alpha_fb with gamma, log_decay_cumsum.
#include "core/engine/inspection/routing_view.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/analysis/influence/influence.h"
#include "core/engine/inspection/layer_weights.h"
#include "core/engine/observation/influence_theory.h"
#include "core/engine/training/trainer.h"

namespace afterglow {

namespace {

constexpr int max_hops = 24, followed_hops = 4;

/// The mean spread of the heads [heads*T*T], and the largest c2.
void read_softmax(RoutingView& view, const std::vector<double>& alpha, int heads, bool strict) {
  const auto square = static_cast<std::size_t>(view.tokens) * static_cast<std::size_t>(view.tokens);
  view.logit_spread.assign(static_cast<std::size_t>(view.tokens), 0.0);
  view.effective = view.logit_spread;
  for (int head = 0; head < heads; ++head) {
    const RoutingSpread spread = routing_spread(std::span(alpha).subspan(head * square, square), view.tokens, strict);
    for (std::size_t t = 0; t < spread.effective.size(); ++t) {
      view.logit_spread[t] += spread.logit_spread[t] / heads;
      view.effective[t] += spread.effective[t] / heads;
    }
    view.c2 = std::max(view.c2, spread.c2);
  }
}

/// Columns 0 of B, B^2, .. and of the resolvent.
void read_hop_profiles(RoutingView& view, std::span<const double> B, std::span<const double> R) {
  const int T = view.tokens, hops = std::min(followed_hops, T - 1);
  const std::vector<double> columns = hop_profiles(B, T, 0, hops);
  for (int k = 1; k <= hops; ++k)
    view.hop_profiles.emplace_back(columns.begin() + std::ptrdiff_t{k} * T,
                                   columns.begin() + std::ptrdiff_t{k + 1} * T);
  std::vector<double>& all = view.hop_profiles.emplace_back();
  for (int t = 0; t < T; ++t) all.push_back(R[static_cast<std::size_t>(t) * static_cast<std::size_t>(T)]);
}

void read_feedback(RoutingView& view, const std::vector<double>& alpha, const std::vector<double>& gain) {
  const int T = view.tokens;
  read_softmax(view, alpha, 1, true);
  view.gain = gain;
  std::vector<double> B(alpha.size());
  for (std::size_t i = 0; i < B.size(); ++i) B[i] = gain[i / static_cast<std::size_t>(T)] * alpha[i];
  const std::vector<double> R = resolvent(B, T);
  view.feedback.assign(alpha.begin(), alpha.end());
  view.resolvent.assign(R.begin(), R.end());
  read_hop_profiles(view, B, R);
  view.position_code = position_code(B, T);
  view.hop_masses = hop_masses(B, T, T - 1, std::min(T - 1, max_hops));
  const double shown = std::accumulate(view.hop_masses.begin(), view.hop_masses.end(), 0.0);
  view.hop_masses.push_back(view.position_code.back() - shown);  // the code's last value is the mass of all hops
}

/// Per-token factors from the running sum of their logarithms [T*heads].
void read_decay(RoutingView& view, const std::vector<double>& sums) {
  const std::size_t T = static_cast<std::size_t>(view.tokens), heads = sums.size() / T;
  double total = 0;
  for (std::size_t h = 0; h < heads; ++h) {
    std::vector<double>& of_head = view.accumulated.emplace_back();
    for (std::size_t t = 0; t < T; ++t) of_head.push_back(sums[h] - sums[t * heads + h]);
  }
  for (std::size_t t = 0; t < T; ++t) {
    double mean = 0;
    for (std::size_t h = 0; h < heads; ++h)
      mean += (sums[t * heads + h] - (t > 0 ? sums[(t - 1) * heads + h] : 0.0)) / static_cast<double>(heads);
    view.decay.push_back(std::exp(mean));
    if (t > 0) total -= mean;
  }
  view.least_accumulated = least_accumulated(view);
  view.largest_factor = largest_factor(view);
  view.mean_rate = T > 1 ? total / static_cast<double>(T - 1) : 0.0;
}

double mean_of(const std::vector<double>& values) {
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return values.empty() ? 0.0 : sum / static_cast<double>(values.size());
}

}  // namespace

RoutingView routing_of(Trainer& trainer, int part, const CaptureReader& read, std::span<const std::uint8_t> context) {
  const ModelPart& info = trainer.parts()[static_cast<std::size_t>(part)];
  RoutingView view;
  view.layer = part;
  view.kind = info.kind;
  view.tokens = static_cast<int>(context.size());
  view.weights = layer_weights(trainer, part, read, context);
  std::erase_if(view.weights, [](const std::vector<float>& head) { return head.empty(); });
  const auto T = static_cast<std::size_t>(view.tokens);
  const std::vector<double>& attention = read.values(info.scope + ".attn");
  const std::vector<double>& feedback = read.values(info.scope + ".alpha_fb");
  const std::vector<double>& gain = read.values(info.scope + ".gamma");
  const std::vector<double>& decay = read.values(info.scope + ".log_decay_cumsum");
  if (feedback.size() == T * T && gain.size() == T) {
    read_feedback(view, feedback, gain);
  } else if (!attention.empty() && attention.size() % (T * T) == 0) {
    read_softmax(view, attention, static_cast<int>(attention.size() / (T * T)), false);
  }
  if (!decay.empty() && decay.size() % T == 0) read_decay(view, decay);
  // Layers without time steps capture neither; Mamba-3 splits a step into an immediate and a delayed part.
  view.mean_step = mean_of(read.values(info.scope + ".dt")) + mean_of(read.values(info.scope + ".lag"));
  return view;
}

}  // namespace afterglow
