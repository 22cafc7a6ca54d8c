// What a probing pass left of one head, as numbers that panels show.
#include "core/engine/probing/head_spectrum.h"

#include <algorithm>
#include <cmath>

#include "core/analysis/koopman/mode_decomposition.h"
#include "core/analysis/linear_algebra/spectrum.h"
#include "core/layers/ska.h"

namespace afterglow {

namespace {

const Ska& ska_of(const Trainer& trainer, int part) {
  return static_cast<const Ska&>(trainer.layer_of(trainer.parts()[static_cast<std::size_t>(part)]));
}

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

}  // namespace

HeadSettings head_settings(const Trainer& trainer, int part) {
  const RidgeConfig& core = ska_of(trainer, part).config().core;
  return {core.power, core.ridge};
}

double added_to_gram(double ridge, int jitter) { return ridge + ska_jitter_step * jitter; }

GramRange gram_range(std::span<const double> gram, double added) {
  if (gram.empty()) return {std::nan(""), std::nan("")};
  return {gram.back() + added, gram.front() + added};
}

HeadSpectrum read_head_spectrum(Trainer& trainer, int part, int head, const HeadSettings& settings,
                                const CaptureReader& read) {
  const ModelPart& info = trainer.parts()[static_cast<std::size_t>(part)];
  const auto r = static_cast<int>(read.shape(info.scope + ".A_w").last());
  const std::int64_t square = static_cast<std::int64_t>(r) * r;
  HeadSpectrum spectrum;
  spectrum.layer = part;
  spectrum.head = head;
  const auto scalar = [&](const char* name, double fallback) {
    const std::vector<double> value = read.tail(info.scope + "." + name, head, info.heads, 1);
    return value.empty() ? fallback : value.front();
  };
  const std::vector<double> A = read.tail(info.scope + ".A_w", head, info.heads, square);
  const std::vector<double> L = read.tail(info.scope + ".L", head, info.heads, square);
  if (A.empty() || L.empty()) return spectrum;

  // The query of the last token, [1,T,H,r], divided by the key scale m and whitened.
  const std::vector<double>& queries = read.values(info.scope + ".queries");
  std::vector<double> w;
  const double m = scalar("m", 1.0);
  if (queries.size() >= static_cast<std::size_t>(info.heads * r)) {
    const auto* last = queries.data() + queries.size() - static_cast<std::size_t>((info.heads - head) * r);
    std::vector<double> query(last, last + r);
    for (double& value : query) value /= m;
    w = solve_lower(L, r, query);
  }
  ModeDecomposition modes = decompose_modes(A, r, w);
  spectrum.eigenvalues = std::move(modes.eigenvalues);
  spectrum.energy = std::move(modes.energy);
  spectrum.sigma = scalar("sigma", 0.0);
  spectrum.jitter = static_cast<int>(scalar("jitter", 0.0));
  const Ska& ska = ska_of(trainer, part);
  spectrum.gamma = 1.0 + 0.5 * sigmoid(read.download(ska.gamma_raw().value)[head]);
  spectrum.eta = read.download(ska.eta().value)[head];
  spectrum.scale = spectrum.gamma / std::max(spectrum.sigma, 1.0);
  spectrum.power = settings.power;
  spectrum.ridge = settings.ridge;
  const GramRange range = gram_range(symmetric_spectrum(read.tail(info.scope + ".G", head, info.heads, square), r),
                                     added_to_gram(spectrum.ridge, spectrum.jitter));
  spectrum.lambda_min = range.smallest;
  spectrum.kappa = range.largest / range.smallest;
  return spectrum;
}

}  // namespace afterglow
