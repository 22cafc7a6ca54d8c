// Calls the readers of the layers (core/layers) for the parts of a trained model, and decomposes operators.
#include "core/engine/inspection/layer_readings.h"

#include <algorithm>
#include <limits>

#include "core/analysis/koopman/mode_decomposition.h"
#include "core/analysis/linear_algebra/spectrum.h"
#include "core/engine/training/trainer.h"
#include "core/layers/layer_kind.h"

namespace afterglow {
namespace {

void blank_future(std::vector<float>& weights, std::size_t tokens) {
  if (weights.empty()) return;
  for (std::size_t t = 0; t < tokens; ++t) {
    for (std::size_t s = t + 1; s < tokens; ++s) weights[t * tokens + s] = std::numeric_limits<float>::quiet_NaN();
  }
}

}  // namespace

CapturedLayer captured_layer(Trainer& trainer, int part, const CaptureReader& read, int tokens) {
  const ModelPart& info = trainer.parts()[static_cast<std::size_t>(part)];
  const Layer& layer = trainer.layer_of(info);
  // Every layer that mixes tokens captures its values [1,T,..].
  if (tokens == 0) tokens = static_cast<int>(read.shape(info.scope + ".values")[1]);
  return {layer, read, info.scope, tokens, {}, [&trainer] { trainer.analysis_threads().yield(); }};
}

std::vector<std::vector<float>> layer_weights(Trainer& trainer, int part, const CaptureReader& read,
                                              std::span<const std::uint8_t> context) {
  std::vector<std::vector<float>> result;
  const auto reader = readers_of(trainer.parts()[static_cast<std::size_t>(part)].kind).token_weights;
  if (!reader) return result;
  CapturedLayer layer = captured_layer(trainer, part, read, static_cast<int>(context.size()));
  layer.context = context;
  for (int head = 0; head < layer.heads(); ++head) {
    const WeightMatrix weights = reader(layer, head);
    std::vector<float>& shown = result.emplace_back(weights.begin(), weights.end());
    if (!layer.layer.reads_later_tokens()) blank_future(shown, context.size());
    layer.yield();
  }
  return result;
}

bool has_token_weights(const Trainer& trainer, int part) {
  const auto& parts = trainer.parts();
  return part >= 0 && part < static_cast<int>(parts.size()) && readers_of(parts[part].kind).token_weights != nullptr;
}

TokenWeights read_token_weights(Trainer& trainer, int part, const CaptureReader& read,
                                std::span<const std::uint8_t> context) {
  TokenWeights result;
  result.step = trainer.finished_steps();
  result.layer = part;
  result.tokens = std::min(max_weighted_tokens, static_cast<int>(context.size()));
  if (!has_token_weights(trainer, part)) return result;
  result.weights = layer_weights(trainer, part, read, context.first(static_cast<std::size_t>(result.tokens)));
  result.heads = static_cast<int>(result.weights.size());
  return result;
}

double added_to_gram(double ridge, int jitter) { return ridge + ska_jitter_step * jitter; }

GramRange gram_range(std::span<const double> gram, double added) {
  if (gram.empty()) return {std::nan(""), std::nan("")};
  return {gram.back() + added, gram.front() + added};
}

HeadReading read_head(Trainer& trainer, int part, int head, const CaptureReader& read) {
  const ModelPart& info = trainer.parts()[static_cast<std::size_t>(part)];
  HeadReading reading;
  reading.rank = static_cast<int>(read.shape(info.scope + ".A_w").last());
  reading.numbers.layer = part;
  reading.numbers.head = head;
  const auto matrix = [&](const char* name) {
    return read.tail(info.scope + "." + name, head, info.heads, std::int64_t{reading.rank} * reading.rank);
  };
  const auto scalar = [&](const char* name, double fallback) {
    const std::vector<double> value = read.tail(info.scope + "." + name, head, info.heads, 1);
    return value.empty() ? fallback : value.front();
  };
  reading.A = matrix("A_w");
  reading.L = matrix("L");
  if (reading.A.empty() || reading.L.empty()) return reading;
  reading.G = matrix("G");
  const std::vector<double>& queries = read.values(info.scope + ".queries");  // [1,T,H,r]
  if (queries.size() >= static_cast<std::size_t>(info.heads * reading.rank)) {
    const double m = scalar("m", 1.0);
    const auto* last = queries.data() + queries.size() - static_cast<std::size_t>((info.heads - head) * reading.rank);
    reading.query.assign(last, last + reading.rank);
    for (double& value : reading.query) value /= m;
  }
  HeadSpectrum& numbers = reading.numbers;
  numbers.sigma = scalar("sigma", 0.0);
  numbers.jitter = static_cast<int>(scalar("jitter", 0.0));
  const SkaHead now = readers_of(info.kind).head(trainer.layer_of(info), trainer.backend(), head);
  numbers.gamma = now.gamma;
  numbers.eta = now.eta;
  numbers.scale = numbers.gamma / std::max(numbers.sigma, 1.0);
  numbers.power = now.power;
  numbers.ridge = now.ridge;
  return reading;
}

HeadSpectrum decompose(const HeadReading& reading) {
  HeadSpectrum spectrum = reading.numbers;
  if (reading.A.empty() || reading.L.empty()) return spectrum;
  const int r = reading.rank;
  const std::vector<double> w = reading.query.empty() ? reading.query : solve_lower(reading.L, r, reading.query);
  ModeDecomposition modes = decompose_modes(reading.A, r, w);
  spectrum.eigenvalues = std::move(modes.eigenvalues);
  spectrum.energy = std::move(modes.energy);
  const GramRange range = gram_range(symmetric_spectrum(reading.G, r), added_to_gram(spectrum.ridge, spectrum.jitter));
  spectrum.lambda_min = range.smallest;
  spectrum.kappa = range.largest / range.smallest;
  return spectrum;
}

}  // namespace afterglow
