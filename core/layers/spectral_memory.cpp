// History, components and tokens of the memory of training.
#include "core/layers/spectral_memory.h"

#include <algorithm>

#include "core/backend/host_numbers.h"
#include "core/io/named.h"
#include "core/layers/files/kl_file.h"

namespace afterglow {
namespace {

constexpr int min_rows = 4;
constexpr double memory_norm_eps = 1e-5;

constexpr KlFields kl_fields{"kl_strategy", "kl_kernel", "kl_tau", "n_components", "kl_lambda_scale"};

}  // namespace

SpectralMemoryConfig read_spectral_memory(JsonFields& config, std::int64_t width, std::int64_t min_tokens) {
  SpectralMemoryConfig memory;
  memory.kl = read_kl_config(config, kl_fields);
  memory.width = width;
  memory.tokens = config.integer("memory_tokens", memory.tokens, min_tokens, 1024);
  memory.depth = config.integer("memory_depth", memory.depth, 1, 100000);
  memory.epoch = config.integer("memory_epoch", 0, 0, 1'000'000);
  memory.gain = config.number("memory_gain", memory.gain, 0.0, 1000.0);
  memory.projection = config.choice("memory_projection", {"mlp", "none", "free"}, MemoryProjection::mlp);
  if (memory.projection == MemoryProjection::none && memory.tokens > memory.kl.components)
    config.refuse(".memory_tokens ", memory.tokens,
                  ": without a projection a token is a component, of which there are ", memory.kl.components,
                  " (n_components)");
  return memory;
}

SpectralMemory::SpectralMemory(const SpectralMemoryConfig& config, const ParameterScope& memory,
                               const ParameterScope& pooling)
    : config_(config),
      history_(static_cast<int>(config.width), static_cast<int>(config.depth)),
      kept_(whole()),
      optional_(add_optional(config, memory)),
      norm_weight_(memory.add("norm.weight", {config.width}, constant(config.gain))),
      norm_bias_(memory.add("norm.bias", {config.width}, zeros())),
      pooling_weight_(pooling.add("weight", {1, config.width}, fan_in_uniform())),
      pooling_bias_(pooling.add("bias", {1}, zeros())) {}

SpectralMemory::Optional SpectralMemory::add_optional(const SpectralMemoryConfig& config,
                                                      const ParameterScope& memory) {
  Optional added;
  const std::int64_t inputs = config.kl.components * config.width, outputs = config.tokens * config.width;
  if (config.projection == MemoryProjection::mlp) {
    added.expand_weight = &memory.add("projection_mlp.0.weight", {2 * inputs, inputs}, fan_in_uniform());
    added.expand_bias = &memory.add("projection_mlp.0.bias", {2 * inputs}, zeros());
    added.project_weight = &memory.add("projection_mlp.3.weight", {outputs, 2 * inputs}, fan_in_uniform());
    added.project_bias = &memory.add("projection_mlp.3.bias", {outputs}, zeros());
  }
  if (config.projection == MemoryProjection::free)
    added.tokens = &memory.add("tokens", {config.tokens, config.width}, fan_in_uniform());
  return added;
}

const Parameter& SpectralMemory::first_parameter() const {
  if (optional_.expand_weight) return *optional_.expand_weight;
  return optional_.tokens ? *optional_.tokens : norm_weight_;
}

SpectralMemory::~SpectralMemory() {
  for (const Tensor& own : {components_, token_mask_}) {
    if (own.defined()) backend_->release(own.data);
  }
}

MemoryShare SpectralMemory::whole() const {
  return {config_.kl.components, static_cast<int>(config_.tokens), static_cast<int>(config_.depth)};
}

int SpectralMemory::least_rows() const {
  return std::min(std::max(min_rows, config_.kl.components), static_cast<int>(config_.depth));
}

bool SpectralMemory::refresh(Backend& backend, DType dtype) {
  const bool was_usable = usable_;
  decomposition_ = {};
  if (history_.rows() >= std::max(min_rows, config_.kl.components))
    decomposition_ = history_.components(config_.kl, kept_.rows);
  usable_ = decomposition_.count > 0;
  if (usable_) {
    if (!components_.defined()) {
      backend_ = &backend;
      const std::int64_t count = config_.kl.components * config_.width;
      components_ = Tensor(backend.allocate(static_cast<std::size_t>(count) * size_of(dtype)), {1, count}, dtype);
      const auto mask_bytes = static_cast<std::size_t>(config_.tokens) * size_of(dtype);
      token_mask_ = Tensor(backend.allocate(mask_bytes), {config_.tokens}, dtype);
      upload_mask();
    }
    upload(-1);
  }
  return usable_ != was_usable;
}

std::vector<double> SpectralMemory::components_without(int mode) const {
  std::vector<double> used = decomposition_.components;
  const auto width = static_cast<std::ptrdiff_t>(config_.width);
  for (int k = 0; k < decomposition_.count; ++k) {
    if (k == mode || k + 1 == without_ || k >= kept_.modes) std::fill_n(used.begin() + k * width, width, 0.0);
  }
  return used;
}

std::vector<double> SpectralMemory::used_components() const { return components_without(-1); }

void SpectralMemory::upload(int left_out) { upload_numbers(*backend_, components_, components_without(left_out)); }

void SpectralMemory::upload_mask() {
  std::vector<double> mask(static_cast<std::size_t>(config_.tokens), 0.0);
  std::fill_n(mask.begin(), kept_.tokens, 1.0);
  upload_numbers(*backend_, token_mask_, mask);
}

void SpectralMemory::keep(const MemoryShare& share) {
  const bool has_other_rows = share.rows != kept_.rows;
  kept_ = share;
  if (token_mask_.defined()) upload_mask();
  if (!usable_) return;
  if (has_other_rows) {
    refresh(*backend_, components_.dtype);
  } else {
    upload(-1);
  }
}

void SpectralMemory::leave_out(int mode) {
  if (usable_) upload(mode);
}

std::vector<LayerSetting> SpectralMemory::settings() {
  KlConfig& kl = config_.kl;
  const MemoryShare all = whole();
  return {{"strategy", "Strategy", "0: A, the covariance of the history itself; 1: B, a kernel over time", kl.strategy,
           0, 1},
          {"kernel", "Kernel", "of strategy B: 0 exponential, 1 Gaussian, 2 Matérn, 3 Matérn as eq. 21 has it",
           kl.kernel, 0, 3},
          {"tau", "Time scale τ", "of strategy B's kernel, in rows of the history", kl.tau, 0.1, 100000, true},
          {"modes", "Modes kept K'", "the strongest of the K modes; the others are zeros for the tokens", kept_.modes,
           0, static_cast<double>(all.modes)},
          {"tokens", "Tokens kept M'", "the first of the M memory tokens; zeros stand in the place of the others",
           kept_.tokens, 0, static_cast<double>(all.tokens)},
          {"rows", "Rows kept T'", "the newest rows of the history that are decomposed, at most T", kept_.rows,
           static_cast<double>(least_rows()), static_cast<double>(all.rows)},
          {"without", "Mode switched off", "one of the K modes by its number, zeros for the tokens; 0: none", without_,
           0, static_cast<double>(kl.components)}};
}

// Settings do not change the history, so the components can be computed again at once, whether a rewind restores the
// history before or after the settings.
void SpectralMemory::set(std::string_view key, double value) {
  const std::vector<LayerSetting> all = settings();
  if (const LayerSetting* setting = find_by(all, key, &LayerSetting::key)) setting->field.change(value);
  if (token_mask_.defined()) upload_mask();
  if (usable_) refresh(*backend_, components_.dtype);
}

Var SpectralMemory::plain_tokens(Tape& tape, const DropoutSource& dropped, std::uint32_t site) const {
  const Shape shape{config_.tokens, config_.width};
  if (optional_.tokens) return tape.parameter(*optional_.tokens);
  if (!optional_.expand_weight) return tape.constant(Tensor(components_.data, shape, components_.dtype));
  const Var expanded = linear(tape, tape.constant(components_), tape.parameter(*optional_.expand_weight),
                              tape.parameter(*optional_.expand_bias));
  const Var hidden = dropout(tape, unary(tape, Unary::gelu, expanded), dropped, site);
  return tape.reshape(
      linear(tape, hidden, tape.parameter(*optional_.project_weight), tape.parameter(*optional_.project_bias)), shape);
}

Var SpectralMemory::used_tokens(Tape& tape, const Var& tokens) const {
  if (kept_.tokens == config_.tokens) return tokens;
  return multiply_rows(tape, tokens, tape.constant(token_mask_), 0.0);
}

Var SpectralMemory::memory_tokens(Tape& tape, const DropoutSource& dropped, std::uint32_t site) const {
  if (!usable_ || is_off_) return filled(tape, {config_.tokens, config_.width}, pooling_weight_.value.dtype, 0.0);
  const Tape::Scope scope(tape, "memory");
  const Var tokens = used_tokens(tape, layer_norm(tape, plain_tokens(tape, dropped, site), tape.parameter(norm_weight_),
                                                  tape.parameter(norm_bias_), memory_norm_eps));
  tape.hook("tokens", tokens.value);
  return tokens;
}

Tensor SpectralMemory::summary(Tape& tape, const Tensor& x) const {
  Backend& backend = tape.backend();
  const std::int64_t count = x.shape[0], length = x.shape[1], width = x.shape[2];
  const Tensor rows = x.reshaped({count * length, width});
  // A bias common to all positions does not change their softmax.
  const Tensor scores = tape.scratch({count * length, 1}, x.dtype);
  backend.gemm(false, true, 1.0, rows, pooling_weight_.value, 0.0, scores);
  // The softmax of the cross-entropy kernel, with targets that count no row.
  const Tensor weights = tape.scratch({count, length}, x.dtype), targets = tape.scratch({count}, DType::i32);
  const Tensor number = tape.scratch({1}, DType::i32);
  backend.fill(targets, -1);
  backend.cross_entropy(scores.reshaped({count, length}), targets, weights, tape.scratch({1}, x.dtype), number, number);
  tape.hook("memory.pooling", weights);
  const Tensor result = tape.scratch({1, width}, x.dtype);
  backend.gemm(false, false, 1.0 / static_cast<double>(count), weights.reshaped({1, count * length}), rows, 0.0,
               result);
  return result;
}

}  // namespace afterglow
