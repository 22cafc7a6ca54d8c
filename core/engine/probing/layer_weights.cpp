// One reader for each kind of layer; all end in the functions of core/analysis/token_weights.h.
#include "core/engine/probing/layer_weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/analysis/token_weights.h"
#include "core/engine/training/trainer.h"
#include "core/layers/capture_reader.h"
#include "core/layers/delta_net.h"
#include "core/layers/gka.h"
#include "core/layers/ska.h"

namespace afterglow {

namespace {

struct Source {
  Trainer& trainer;
  const ModelPart& part;
  const CaptureReader& read;
  std::span<const std::uint8_t> context;

  /// The heads of Mamba-2 and Mamba-3 follow from their widths; their time steps are one for each.
  int heads() const {
    return part.kind.starts_with("mamba") ? static_cast<int>(read.shape(name("dt")).last()) : part.heads;
  }
  int tokens() const { return static_cast<int>(context.size()); }
  std::string name(const char* probe) const { return part.scope + "." + probe; }
  const Layer& layer() const { return *trainer.model().branches()[static_cast<std::size_t>(part.branch)].layer; }
  /// The first tokens of a probe [1,T,H*width] or [1,T,H,width], one head.
  std::vector<double> of_head(const char* probe, int head) const {
    const std::int64_t all = sequence_width(probe);
    return read.columns(name(probe), tokens(), all, head * (all / heads()), all / heads());
  }
  std::vector<double> of_all_heads(const char* probe) const {
    const std::int64_t all = sequence_width(probe);
    return read.columns(name(probe), tokens(), all, 0, all);
  }

 private:
  std::int64_t sequence_width(const char* probe) const {
    const Shape shape = read.shape(name(probe));
    return shape.elements() / (shape[0] * shape[1]);
  }
};

bool sees_the_future(const Source& source) {
  if (source.part.kind != "ska") return false;
  const RidgeConfig::Mode mode = static_cast<const Ska&>(source.layer()).config().core.mode;
  return mode == RidgeConfig::Mode::prefix || mode == RidgeConfig::Mode::masked;
}

WeightMatrix ska_weights(const Source& source, int head) {
  using Mode = RidgeConfig::Mode;
  const SkaConfig& config = static_cast<const Ska&>(source.layer()).config();
  const Mode mode = config.core.mode;
  SkaTokens of;
  of.tokens = source.tokens();
  of.rank = static_cast<int>(config.rank);
  of.piece = mode == Mode::chunk ? config.core.chunk : mode == Mode::recurrent ? 1 : of.tokens;
  of.exclusive = mode == Mode::chunk;
  of.power = config.core.power;
  if (mode == Mode::masked) of.mask = source.context;
  ParameterStore& store = source.trainer.parameters();
  const std::vector<double> gamma_raw = store.download(store.find(source.part.scope + ".gamma_raw")->value);
  of.gamma = 1.0 + 0.5 / (1.0 + std::exp(-gamma_raw[static_cast<std::size_t>(head)]));
  const auto groups = static_cast<std::size_t>((of.tokens + of.piece - 1) / of.piece);
  const std::size_t square = static_cast<std::size_t>(config.rank * config.rank);
  const auto statistics = [&](const char* probe, std::size_t size) {
    std::vector<double> all = source.read.block(source.name(probe), head, source.heads());
    if (all.size() > groups * size) all.resize(groups * size);  // groups behind the last token shown
    return all;
  };
  const std::vector<double> keys = source.of_head("keys", head), queries = source.of_head("queries", head),
                            L = statistics("L", square), A_w = statistics("A_w", square), m = statistics("m", 1),
                            sigma = statistics("sigma", 1);
  // Under a probe's edits the layer says itself what stands in place of A^K.
  const std::vector<double> filter = statistics("operator", square);
  const std::vector<double> no_scale(m.size(), 0.0);
  if (filter.empty()) {
    of.A_w = A_w;
    of.sigma = sigma;
  } else {
    of.A_w = filter;
    of.sigma = no_scale;
    of.gamma = 1;
    of.power = 1;
  }
  of.keys = keys;
  of.queries = queries;
  of.L = L;
  of.m = m;
  return ska_token_weights(of);
}

// The layer probes the distributions themselves, for the whole sequence.
WeightMatrix attention_weights(const Source& source, int head) {
  const std::vector<double> all = source.read.block(source.name("attn"), head, source.heads());
  const auto length = static_cast<std::size_t>(source.read.shape(source.name("attn")).last());
  const auto shown = static_cast<std::size_t>(source.tokens());
  WeightMatrix weights;
  for (std::size_t t = 0; t < shown; ++t) {
    const auto row = all.begin() + static_cast<std::ptrdiff_t>(t * length);
    weights.insert(weights.end(), row, row + static_cast<std::ptrdiff_t>(shown));
  }
  return weights;
}

// The probed queries bear the factor D^-0.5 already.
WeightMatrix linear_attention_weights(const Source& source, int head) {
  return linear_token_weights(source.of_head("keys", head), source.of_head("queries", head), source.tokens(), 1.0);
}

WeightMatrix mamba2_weights(const Source& source, int head) {
  return mamba2_token_weights(source.of_all_heads("B"), source.of_all_heads("C"), source.of_head("dt", head),
                              source.of_head("log_decay_cumsum", head), source.tokens());
}

// The values of the forward branch reach s_t through (I - B_fb)^-1 alpha.
WeightMatrix sessa_weights(const Source& source, int head) {
  const WeightMatrix alpha = attention_weights(source, head);
  const auto shown = static_cast<std::size_t>(source.tokens());
  const std::string name = source.name("solve_jacobian");
  const std::vector<double>& jacobian = source.read.values(name);
  if (jacobian.empty()) return alpha;  // without feedback, or too long for it
  const auto length = static_cast<std::size_t>(source.read.shape(name).last());
  WeightMatrix weights(shown * shown, 0.0);
  for (std::size_t t = 0; t < shown; ++t) {
    for (std::size_t j = 0; j <= t; ++j) {
      for (std::size_t i = 0; i <= j; ++i) weights[t * shown + i] += jacobian[t * length + j] * alpha[j * shown + i];
    }
  }
  return weights;
}

WeightMatrix mamba3_weights(const Source& source, int head) {
  return trapezoid_token_weights(source.of_head("keys", head), source.of_head("queries", head),
                                 source.of_head("dt", head), source.of_head("lag", head),
                                 source.of_head("log_decay_cumsum", head), source.tokens());
}

WeightMatrix delta_net_weights(const Source& source, int head) {
  const DeltaNetConfig& config = static_cast<const DeltaNet&>(source.layer()).config();
  const std::vector<double> keys = source.of_head("keys", head), queries = source.of_head("queries", head);
  const std::vector<double> beta = config.has_beta() ? source.of_head("beta", head) : std::vector<double>();
  const std::vector<double> log_decay = config.fades() ? source.of_head("log_decay", head) : std::vector<double>();
  if (config.rule == MemoryRule::kalman)
    return kalman_token_weights(keys, queries, beta, config.ridge, source.tokens());
  DeltaTokens of;
  of.tokens = source.tokens();
  of.keys = keys;
  of.queries = queries;
  of.beta = beta;
  of.log_decay = log_decay;
  of.scale = 1.0 / std::sqrt(static_cast<double>(config.keys));
  return delta_token_weights(of);
}

WeightMatrix gka_weights(const Source& source, int head) {
  const GkaConfig& config = static_cast<const Gka&>(source.layer()).config();
  const std::vector<double> keys = source.of_head("keys", head), queries = source.of_head("queries", head),
                            solutions = source.of_head("xhat", head);
  std::vector<double> alpha(static_cast<std::size_t>(source.tokens()),
                            config.alpha_override >= 0 ? config.alpha_override : config.core.alpha);
  if (config.alpha && config.alpha_override < 0) alpha = source.of_head("alpha", head);
  std::vector<double> readers = queries, log_gate;
  const std::size_t width = readers.size() / alpha.size();
  for (std::size_t i = 0; i < readers.size(); ++i) readers[i] += alpha[i / width] * (solutions[i] - queries[i]);
  if (config.forget) log_gate = source.of_head("log_gate", head);
  for (double& gate : log_gate) gate = std::max(gate, std::log(config.core.gate_floor));
  return solved_token_weights(keys, readers, log_gate, config.core.scale, source.tokens());
}

struct Reader {
  std::string_view kind;
  WeightMatrix (*weights)(const Source& source, int head);
};
constexpr std::array readers{Reader{"ska", ska_weights},
                             Reader{"attention", attention_weights},
                             Reader{"linear_attention", linear_attention_weights},
                             Reader{"mamba2", mamba2_weights},
                             Reader{"sessa", sessa_weights},
                             Reader{"mamba3", mamba3_weights},
                             Reader{"deltanet", delta_net_weights},
                             Reader{"gated_deltanet", delta_net_weights},
                             Reader{"gla", delta_net_weights},
                             Reader{"kalman", delta_net_weights},
                             Reader{"gka", gka_weights}};

const Reader* find_reader(std::string_view kind) {
  for (const Reader& reader : readers) {
    if (reader.kind == kind) return &reader;
  }
  return nullptr;
}

void blank_future(std::vector<float>& weights, std::size_t tokens) {
  if (weights.empty()) return;
  for (std::size_t t = 0; t < tokens; ++t) {
    for (std::size_t s = t + 1; s < tokens; ++s) weights[t * tokens + s] = std::numeric_limits<float>::quiet_NaN();
  }
}

}  // namespace

bool has_layer_weights(std::string_view kind) { return find_reader(kind) != nullptr; }

std::vector<std::vector<float>> layer_weights(Trainer& trainer, int part, const CaptureReader& read,
                                              std::span<const std::uint8_t> context) {
  const Source source{trainer, trainer.parts()[static_cast<std::size_t>(part)], read, context};
  const Reader* reader = find_reader(source.part.kind);
  std::vector<std::vector<float>> result;
  for (int head = 0; reader && head < source.heads(); ++head) {
    const WeightMatrix weights = reader->weights(source, head);
    std::vector<float>& shown = result.emplace_back(weights.begin(), weights.end());
    if (!sees_the_future(source)) blank_future(shown, context.size());
  }
  return result;
}

}  // namespace afterglow
