// Cuts captures into heads and tokens; readers that several kinds of layers share.
#include "core/layers/captured_layer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace afterglow {
namespace {

/// Numbers of one token in a capture [1,T,..]; 0 without the capture.
std::int64_t token_width(const Shape& shape) { return shape.rank() < 2 ? 0 : shape.elements() / (shape[0] * shape[1]); }

}  // namespace

std::vector<double> CapturedLayer::of_head(const char* capture, int head) const {
  const std::int64_t all = token_width(read.shape(name(capture)));
  return read.columns(name(capture), tokens, all, head * (all / heads()), all / heads());
}

std::vector<double> CapturedLayer::of_group(const char* capture, int head, int groups) const {
  const std::int64_t all = token_width(read.shape(name(capture))), group = head / (heads() / groups);
  return read.columns(name(capture), tokens, all, group * (all / groups), all / groups);
}

std::vector<double> CapturedLayer::row(const char* capture, int token, int head) const {
  const std::vector<double>& all = values(capture);
  const auto width = static_cast<std::ptrdiff_t>(token_width(read.shape(name(capture))) / heads());
  const auto begin = all.begin() + (std::ptrdiff_t{token} * heads() + head) * width;
  return {begin, begin + width};
}

WeightMatrix CapturedLayer::square(const char* capture, int head) const {
  const std::vector<double> all = block(capture, head);
  const auto length = static_cast<std::ptrdiff_t>(read.shape(name(capture)).last());
  WeightMatrix result;
  for (std::ptrdiff_t t = 0; t < tokens; ++t) {
    const auto row = all.begin() + t * length;
    result.insert(result.end(), row, row + tokens);
  }
  return result;
}

std::vector<HeadGate> gates_of_log_decay(const CapturedLayer& layer) {
  std::vector<HeadGate> gates(static_cast<std::size_t>(layer.heads()));
  for (HeadGate& gate : gates) {
    gate.head = static_cast<int>(&gate - gates.data());
    for (int t = 0; t < layer.tokens; ++t) {
      const std::vector<double> channels = layer.row("log_decay", t, gate.head);
      gate.channels = static_cast<int>(channels.size());
      gate.log_decay.push_back(std::accumulate(channels.begin(), channels.end(), 0.0) / gate.channels);
    }
  }
  return gates;
}

std::vector<HeadGate> gates_of_running_sum(const CapturedLayer& layer) {
  std::vector<HeadGate> gates(static_cast<std::size_t>(layer.heads()));
  for (HeadGate& gate : gates) {
    gate.head = static_cast<int>(&gate - gates.data());
    gate.log_decay = layer.of_head("log_decay_cumsum", gate.head);
    std::adjacent_difference(gate.log_decay.begin(), gate.log_decay.end(), gate.log_decay.begin());
  }
  return gates;
}

std::vector<std::complex<double>> modes_of_log_decay(const CapturedLayer& layer, int head) {
  std::vector<double> sums = layer.row("log_decay", 0, head);
  for (int t = 1; t < layer.tokens; ++t) {
    const std::vector<double> channels = layer.row("log_decay", t, head);
    std::ranges::transform(sums, channels, sums.begin(), std::plus<>());
  }
  std::vector<std::complex<double>> modes;
  for (const double sum : sums) modes.emplace_back(std::exp(sum / layer.tokens));
  return modes;
}

std::vector<std::complex<double>> modes_of_running_sum(const CapturedLayer& layer, int head) {
  const double modulus = std::exp(layer.row("log_decay_cumsum", layer.tokens - 1, head).front() / layer.tokens);
  if (layer.values("angle_cumsum").empty()) return {modulus};
  std::vector<std::complex<double>> modes;
  for (const double angle : layer.row("angle_cumsum", layer.tokens - 1, head)) {
    modes.push_back(std::polar(modulus, angle / layer.tokens));
    modes.push_back(std::conj(modes.back()));
  }
  if (modes.size() < layer.row("keys", 0, head).size()) modes.emplace_back(modulus);  // coordinates without rotation
  return modes;
}

WeightMatrix captured_softmax(const CapturedLayer& layer, int head) { return layer.square("attn", head); }

}  // namespace afterglow
