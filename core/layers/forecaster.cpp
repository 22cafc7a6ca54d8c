// The forecasting models.
#include "core/layers/forecaster.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/io/error.h"
#include "core/io/json_file.h"
#include "core/layers/files/file_run.h"
#include "core/layers/files/kl_file.h"
#include "core/layers/host_values.h"

namespace afterglow {
namespace {

constexpr double series_eps = 1e-5, norm_eps = 1e-5;

struct EncoderConfig {
  std::int64_t length = 96, horizon = 96, channels = 7;  // L, P, C
  std::int64_t width = 64, heads = 4, hidden = 256, layers = 2;
  double dropout = 0.1;
  SpectralMemoryConfig memory;  // unused without memory tokens
};

/// Weight and bias of a linear map.
struct Map {
  const Parameter &weight, &bias;
  Map(const ParameterScope& scope, const std::string& weight_name, const std::string& bias_name, const Shape& shape)
      : weight(scope.add(weight_name, shape, fan_in_uniform())), bias(scope.add(bias_name, {shape[0]}, zeros())) {}
  Map(const ParameterScope& scope, const std::string& name, const Shape& shape)
      : Map(scope, name + ".weight", name + ".bias", shape) {}
  Var operator()(Tape& tape, const Var& x) const {
    return linear(tape, x, tape.parameter(weight), tape.parameter(bias));
  }
};

struct Norm {
  const Parameter &weight, &bias;
  Norm(const ParameterScope& scope, const std::string& name, std::int64_t width)
      : weight(scope.add(name + ".weight", {width}, constant(1.0))),
        bias(scope.add(name + ".bias", {width}, zeros())) {}
  Var operator()(Tape& tape, const Var& x) const {
    return layer_norm(tape, x, tape.parameter(weight), tape.parameter(bias), norm_eps);
  }
};

/// x += attention(norm1(x)); x += linear2(gelu(linear1(norm2(x)))), attention without a mask.
class EncoderLayer {
 public:
  EncoderLayer(const EncoderConfig& config, const ParameterScope& scope, std::uint32_t first_site)
      : heads_(config.heads),
        dropped_sites_(first_site),
        in_(scope, "self_attn.in_proj_weight", "self_attn.in_proj_bias", {3 * config.width, config.width}),
        out_(scope, "self_attn.out_proj", {config.width, config.width}),
        first_(scope, "linear1", {config.hidden, config.width}),
        second_(scope, "linear2", {config.width, config.hidden}),
        norm1_(scope, "norm1", config.width),
        norm2_(scope, "norm2", config.width) {}

  static constexpr std::uint32_t sites = 3;

  Var forward(Tape& tape, const Var& x, const DropoutSource& dropped) const {
    const Var attended = dropout(tape, attend(tape, norm1_(tape, x)), dropped, dropped_sites_);
    const Var y = add(tape, x, attended);
    const Var hidden = unary(tape, Unary::gelu, first_(tape, norm2_(tape, y)));
    const Var inner = second_(tape, dropout(tape, hidden, dropped, dropped_sites_ + 1));
    return add(tape, y, dropout(tape, inner, dropped, dropped_sites_ + 2));
  }

 private:
  Var attend(Tape& tape, const Var& x) const {
    const std::int64_t count = x.shape()[0], length = x.shape()[1], width = x.shape()[2];
    const std::int64_t widths[] = {width, width, width};
    Var parts[3];
    tape.split_columns(in_(tape, x), widths, parts);
    for (Var& part : parts) part = tape.reshape(contiguous(tape, part), {count, length, heads_, width / heads_});
    tape.hook("q", parts[0].value);
    tape.hook("k", parts[1].value);
    const double scale = 1.0 / std::sqrt(static_cast<double>(width / heads_));
    const Var y = full_attention(tape, parts[0], parts[1], parts[2], scale);
    return out_(tape, tape.reshape(y, {count, length, width}));
  }

  std::int64_t heads_;
  std::uint32_t dropped_sites_;
  Map in_, out_, first_, second_;
  Norm norm1_, norm2_;
};

Tensor mean_of_rows(Tape& tape, const Tensor& rows) {
  const Tensor mean = tape.scratch({1, rows.columns()}, rows.dtype);
  tape.backend().sum_rows(rows, {mean.reshaped({rows.columns()}), false});
  tape.backend().scale(mean, 1.0 / static_cast<double>(rows.rows()), {mean, false});
  return mean;
}

class SpectralForecaster final : public Forecaster {
 public:
  SpectralForecaster(const EncoderConfig& config, const ParameterScope& root)
      : config_(config),
        positions_(root.add("pos_encoding", {1, config.length, config.width}, normal(0.02))),
        embedding_(root, "enc_embedding", {config.width, 1}) {
    for (std::int64_t i = 0; i < config.layers; ++i) {
      const ParameterScope scope = root.scope("encoder.layers." + std::to_string(i));
      layers_.emplace_back(config, scope, static_cast<std::uint32_t>(1 + i * EncoderLayer::sites));
    }
    if (config.memory.tokens > 0)
      memory_ = std::make_unique<SpectralMemory>(config.memory, root.scope("memory"), root.scope("pooling_layer"));
    head_ = std::make_unique<Map>(root, "head", Shape{config.horizon, config.length * config.width});
  }

  ForecastPass forward(Tape& tape, const Var& x, const DropoutSource& dropped) override {
    const std::int64_t count = x.shape()[0] * config_.channels, length = config_.length, width = config_.width;
    ForecastPass pass;
    const SeriesMoments moments = series_moments(tape, x, series_eps);
    Var tokens = embed(tape, series_normalise(tape, x, moments.mean, moments.deviation), count);
    if (memory_) {
      const Var memory = memory_->memory_tokens(tape, dropped, 0);
      pass.memory_tokens = memory.value;
      tokens = prepend_tokens(tape, memory, tokens);
    }
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const Tape::Scope scope(tape, "encoder.layers." + std::to_string(i));
      tokens = layers_[i].forward(tape, tokens, dropped);
    }
    const Var series = without_memory(tape, tokens, count);
    pass.summary = summary(tape, series.value.reshaped({count, length, width}));
    const Tape::Scope scope(tape, "head");
    pass.y = series_restore(tape, (*head_)(tape, series), moments.mean, moments.deviation);
    return pass;
  }

  SpectralMemory* memory() override { return memory_.get(); }
  std::int64_t width() const override { return config_.width; }
  double dropout_rate() const override { return config_.dropout; }

  std::vector<ForecasterPart> parts() const override {
    std::vector<ForecasterPart> parts{
        {"embedding", "enc_embedding", "embedding", "d " + std::to_string(config_.width), 0, "pos_encoding"}};
    for (std::int64_t i = 0; i < config_.layers; ++i) {
      const std::string scope = "encoder.layers." + std::to_string(i);
      parts.push_back({std::to_string(i) + " attention", scope, "attention", "H " + std::to_string(config_.heads),
                       static_cast<int>(config_.heads), scope + ".self_attn.in_proj_weight"});
    }
    if (memory_)
      parts.push_back(
          {"memory", "memory", "spectral_memory",
           "K " + std::to_string(config_.memory.kl.components) + " · M " + std::to_string(config_.memory.tokens), 0,
           memory_->first_parameter().name});
    parts.push_back({"head", "head", "head", "P " + std::to_string(config_.horizon), 0, "head.weight"});
    return parts;
  }

 private:
  Var embed(Tape& tape, const Var& series, std::int64_t count) const {
    const std::int64_t length = config_.length, width = config_.width;
    const Tape::Scope scope(tape, "enc_embedding");
    const Var points = embedding_(tape, tape.reshape(series, {count * length, 1}));
    const Var positions = tape.reshape(tape.parameter(positions_), {length * width});
    return tape.reshape(add_bias(tape, tape.reshape(points, {count, length * width}), positions),
                        {count, length, width});
  }

  /// The tokens without those of the memory, [N, L d], contiguous.
  Var without_memory(Tape& tape, const Var& tokens, std::int64_t count) const {
    const std::int64_t front = config_.memory.tokens * config_.width, rest = config_.length * config_.width;
    const Var flat = tape.reshape(tokens, {count, front + rest});
    if (front == 0) return flat;
    const std::int64_t widths[] = {front, rest};
    Var parts[2];
    tape.split_columns(flat, widths, parts);
    return contiguous(tape, parts[1]);
  }

  Tensor summary(Tape& tape, const Tensor& x) const {
    return memory_ ? memory_->summary(tape, x) : mean_of_rows(tape, x.reshaped({x.shape.rows(), config_.width}));
  }

  EncoderConfig config_;
  const Parameter& positions_;
  Map embedding_;
  std::vector<EncoderLayer> layers_;
  std::unique_ptr<SpectralMemory> memory_;
  std::unique_ptr<Map> head_;
};

/// DLinear: the moving average and the remainder of the series, each through a linear map over time that all channels
/// share. Outside of the window the moving average repeats the first and last value.
class DLinear final : public Forecaster {
 public:
  DLinear(std::int64_t length, std::int64_t horizon, std::int64_t channels, std::int64_t span,
          const ParameterScope& root)
      : length_(length),
        channels_(channels),
        span_(span),
        seasonal_(root, "Linear_Seasonal", {horizon, length}),
        trend_(root, "Linear_Trend", {horizon, length}) {}
  ~DLinear() override {
    if (average_.defined()) backend_->release(average_.data);
  }

  ForecastPass forward(Tape& tape, const Var& x, const DropoutSource&) override {
    const Shape shape{x.shape()[0], channels_};
    if (!average_.defined()) make_average(tape.backend(), x.value.dtype);
    const Tensor mean = filled(tape, shape, x.value.dtype, 0.0).value;
    const Var deviation = filled(tape, shape, x.value.dtype, 1.0);
    const Var series = series_normalise(tape, x, mean, deviation);
    const Var smooth = linear(tape, series, tape.constant(average_));
    const Var rest = add(tape, series, scale(tape, smooth, -1.0));
    const Var y = add(tape, seasonal_(tape, rest), trend_(tape, smooth));
    return {series_restore(tape, y, mean, deviation), {}, mean_of_rows(tape, series.value)};
  }

  std::int64_t width() const override { return length_; }
  std::vector<ForecasterPart> parts() const override {
    return {{"seasonal", "Linear_Seasonal", "dlinear", "moving average " + std::to_string(span_), 0,
             "Linear_Seasonal.weight"},
            {"trend", "Linear_Trend", "dlinear", "", 0, "Linear_Trend.weight"}};
  }

 private:
  void make_average(Backend& backend, DType dtype) {
    std::vector<double> weights(static_cast<std::size_t>(length_ * length_), 0.0);
    for (std::int64_t t = 0; t < length_; ++t) {
      for (std::int64_t offset = -(span_ / 2); offset <= span_ / 2; ++offset) {
        const std::int64_t from = std::clamp<std::int64_t>(t + offset, 0, length_ - 1);
        weights[static_cast<std::size_t>(t * length_ + from)] += 1.0 / static_cast<double>(span_);
      }
    }
    backend_ = &backend;
    average_ = Tensor(backend.allocate(weights.size() * size_of(dtype)), {length_, length_}, dtype);
    upload_numbers(backend, average_, weights);
  }

  std::int64_t length_, channels_, span_;
  Map seasonal_, trend_;
  Backend* backend_ = nullptr;
  Tensor average_;  // [L,L]
};

EncoderConfig read_encoder(JsonFields& config) {
  EncoderConfig c;
  c.width = config.integer("d_model", c.width, 1, 4096);
  c.heads = config.integer("n_heads", c.heads, 1, 256);
  c.hidden = config.integer("d_ff", c.hidden, 1, 65536);
  c.layers = config.integer("e_layers", c.layers, 1, 64);
  c.dropout = config.number("dropout", c.dropout, 0.0, 0.95);
  c.memory = read_spectral_memory(config, c.width, 0);
  check_mode_sign(config);
  if (c.width % c.heads != 0) config.refuse(": d_model must be a multiple of n_heads; change one of them");
  return c;
}

/// The model for a layer file: a fixed history, no dropout.
class ForecasterSubject final : public FileSubject {
 public:
  ForecasterSubject(const EncoderConfig& config, bool training, const ParameterScope& parameters)
      : config_(config), training_(training), model_(config, parameters) {}

  void run(FileRun& run) override {
    const Var x = run.input("x", {FileRun::any, config_.length, config_.channels});
    SpectralMemory& memory = *model_.memory();
    const std::vector<double> rows = run.numbers("history", {FileRun::any, config_.width});
    const std::int64_t count = run.shape_of("history")[0];
    if (count > config_.memory.depth)
      throw BadInput("spectral_memory: history has ", count, " rows, more than memory_depth; raise memory_depth");
    memory.assign(rows, count);
    memory.refresh(run.tape().backend(), run.dtype());
    const ForecastPass pass = model_.forward(run.tape(), x, {});
    run.output("y", pass.y);
    run.output("memory_tokens", {config_.memory.tokens, config_.width},
               to_host(run.tape().backend(), pass.memory_tokens));
    if (memory.usable()) {
      run.output("probe.components", {config_.memory.kl.components, config_.width}, memory.decomposition().components);
      run.output("probe.eigenvalues", {config_.memory.kl.components}, memory.decomposition().eigenvalues);
    }
    if (training_) {
      const std::vector<double> summary = to_host(run.tape().backend(), pass.summary);
      run.output("new_summary", {1, config_.width}, summary);
      memory.append(summary);
    }
    run.output("probe.history_after", {memory.history().rows(), config_.width}, memory.history().values());
  }

 private:
  EncoderConfig config_;
  bool training_;
  SpectralForecaster model_;
};

}  // namespace

bool is_forecaster(const nlohmann::json& model) {
  return model.is_object() && model.contains("kind") &&
         (model["kind"] == "spectral_memory" || model["kind"] == "dlinear");
}

LayerTraits traits_of_part(std::string_view kind) {
  if (kind == "spectral_memory") return LayerTrait::training_memory;
  return kind == "dlinear" ? LayerTrait::series : LayerTraits();
}

std::unique_ptr<Forecaster> make_forecaster(const nlohmann::json& config, std::int64_t length, std::int64_t horizon,
                                            std::int64_t channels, const ParameterScope& parameters) {
  JsonFields fields(config, "model");
  if (fields.text("kind", std::nullopt) == "dlinear") {
    const std::int64_t span = fields.integer("moving_average", 25, 1, 10001);
    fields.refuse_others();
    if (span % 2 == 0) fields.refuse(".moving_average must be odd");
    return std::make_unique<DLinear>(length, horizon, channels, span, parameters);
  }
  EncoderConfig c = read_encoder(fields);
  fields.refuse_others();
  c.length = length;
  c.horizon = horizon;
  c.channels = channels;
  return std::make_unique<SpectralForecaster>(c, parameters);
}

/// Inputs `x` [B,L,C] and `history` [T,d]; outputs `y`, `memory_tokens` and, with `training`, `new_summary`.
FileKind spectral_memory_file_kind() {
  return {"spectral_memory",
          [](const nlohmann::json& config, const ParameterScope& parameters) -> std::unique_ptr<FileSubject> {
            JsonFields fields(config, "spectral_memory");
            EncoderConfig c = read_encoder(fields);
            c.length = fields.integer("seq_len", std::nullopt, 1, 65536);
            c.horizon = fields.integer("pred_len", std::nullopt, 1, 65536);
            c.channels = fields.integer("enc_in", std::nullopt, 1, 65536);
            const bool is_square = fields.integer("c_out", c.channels, 1, 65536) == c.channels,
                       training = fields.flag("training", false);
            fields.refuse_others();
            if (!is_square) fields.refuse(": c_out must equal enc_in, every channel forecasts itself");
            if (c.memory.tokens == 0) fields.refuse(".memory_tokens must be at least 1 in a file");
            return std::make_unique<ForecasterSubject>(c, training, parameters);
          }};
}

}  // namespace afterglow
