// Random models, files of them, and plain loops that run them.
#include "tests/core/models/checkpoints/saved_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>

#include "core/io/safetensors.h"
#include "core/random/random.h"

namespace afterglow::testing {

using nlohmann::json;
using Row = std::vector<double>;
using Rows = std::vector<Row>;

ModelFolder::ModelFolder(const std::string& name)
    : path_(std::filesystem::temp_directory_path() / ("afterglow_model_" + name)) {
  std::filesystem::remove_all(path_);
  std::filesystem::create_directories(path_);
}
ModelFolder::~ModelFolder() { std::filesystem::remove_all(path_); }
void ModelFolder::write(const std::string& file, const std::string& text) const {
  std::ofstream(path_ / file, std::ios::binary) << text;
}

void SavedModel::add(const std::string& name, std::vector<std::int64_t> shape, double spread, double mean) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  Random random(17, 3, values_.size() + 1);
  std::vector<double>& values = values_[name];
  values.clear();
  for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(mean + spread * random.normal()));
  shapes_[name] = std::move(shape);
}

const std::vector<double>& SavedModel::at(const std::string& name) const { return values_.at(name); }

void SavedModel::remove(const std::string& name) {
  values_.erase(name);
  shapes_.erase(name);
}

void SavedModel::round_to_bfloat16() {
  for (auto& [name, values] : values_) {
    for (double& value : values)
      value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) & 0xFFFF0000u);
  }
}

std::vector<HostTensor> SavedModel::tensors(StoredType type) const {
  std::vector<HostTensor> all;
  for (const auto& [name, values] : values_) {
    const std::vector<float> floats(values.begin(), values.end());
    HostTensor tensor = make_tensor(name, shapes_.at(name), std::span<const float>(floats));
    if (type == StoredType::bf16) {
      std::vector<std::byte> halves(2 * floats.size());
      for (std::size_t i = 0; i < floats.size(); ++i) std::memcpy(&halves[2 * i], tensor.bytes.data() + 4 * i + 2, 2);
      tensor.type = type;
      tensor.bytes = std::move(halves);
    }
    all.push_back(std::move(tensor));
  }
  return all;
}

void SavedModel::save(const ModelFolder& folder, StoredType type) const {
  folder.write("config.json", config.dump(2));
  TensorFile file;
  file.metadata = {{"format", "pt"}};
  file.tensors = tensors(type);
  write_safetensors(folder.path() / "model.safetensors", file);
}

namespace {

std::int64_t whole(const json& config, const char* field, std::int64_t fallback) {
  return config.value(field, fallback);
}

void add_outer(SavedModel& model, const std::string& prefix, const std::string& last_norm) {
  const std::int64_t width = model.config["hidden_size"], vocab = model.config["vocab_size"];
  model.add(prefix + "embeddings.weight", {vocab, width}, 1.0);
  model.add(prefix + last_norm, {width}, 0.2, 1);
  if (!model.config["tie_word_embeddings"].get<bool>()) model.add("lm_head.weight", {vocab, width});
}

}  // namespace

SavedModel random_mamba2(const json& changes) {
  json config{{"model_type", "mamba2"}, {"hidden_size", 12}, {"vocab_size", 29},      {"num_hidden_layers", 2},
              {"head_dim", 4},          {"state_size", 5},   {"expand", 2},           {"conv_kernel", 4},
              {"n_groups", 1},          {"use_bias", false}, {"use_conv_bias", true}, {"tie_word_embeddings", false}};
  if (!changes.contains("norm_eps")) config["layer_norm_epsilon"] = 1e-5;
  config.update(changes);
  SavedModel model(config);
  add_outer(model, "backbone.", "norm_f.weight");
  const std::int64_t width = config["hidden_size"], inner = width * config["expand"].get<std::int64_t>(),
                     heads = inner / config["head_dim"].get<std::int64_t>(),
                     convolved =
                         inner + 2 * config["n_groups"].get<std::int64_t>() * config["state_size"].get<std::int64_t>();
  for (int i = 0; i < config["num_hidden_layers"]; ++i) {
    const std::string layer = "backbone.layers." + std::to_string(i) + ".", mixer = layer + "mixer.";
    model.add(layer + "norm.weight", {width}, 0.2, 1);
    model.add(mixer + "in_proj.weight", {inner + convolved + heads, width});
    if (config["use_bias"]) model.add(mixer + "in_proj.bias", {inner + convolved + heads});
    model.add(mixer + "conv1d.weight", {convolved, 1, config["conv_kernel"]});
    if (config["use_conv_bias"]) model.add(mixer + "conv1d.bias", {convolved});
    model.add(mixer + "dt_bias", {heads});
    model.add(mixer + "A_log", {heads});
    model.add(mixer + "D", {heads}, 0.3, 1);
    if (config.value("rmsnorm", true)) model.add(mixer + "norm.weight", {inner}, 0.2, 1);
    model.add(mixer + "out_proj.weight", {width, inner});
    if (config["use_bias"]) model.add(mixer + "out_proj.bias", {width});
  }
  return model;
}

SavedModel random_fla(const std::string& type, const json& changes) {
  json config{{"model_type", type},      {"hidden_size", 12},
              {"vocab_size", 29},        {"num_hidden_layers", 2},
              {"num_heads", 2},          {"norm_eps", 1e-6},
              {"intermediate_size", 20}, {"tie_word_embeddings", false},
              {"conv_size", 4},          {"use_short_conv", type != "gla"},
              {"hidden_act", "swish"},   {"expand_v", 1.0}};
  const bool kda = type == "kda", gated_delta = kda || type == "gated_deltanet", gla = type == "gla";
  if (!kda) config[gla ? "use_output_gate" : "use_gate"] = type != "delta_net";
  if (gated_delta) config["head_dim"] = 4;
  if (!gated_delta) config["expand_k"] = gla ? 0.5 : 1.0;
  config.update(changes);
  SavedModel model(config);
  add_outer(model, "model.", "norm.weight");
  const std::int64_t width = config["hidden_size"], key_heads = config["num_heads"],
                     heads = gated_delta ? whole(config, "num_v_heads", key_heads) : key_heads,
                     shared = gla ? whole(config, "num_kv_heads", heads) : key_heads;
  const auto expand = [&](const char* field, std::int64_t of) {
    return static_cast<std::int64_t>(static_cast<double>(of) * config[field].get<double>());
  };
  const std::int64_t keys = gated_delta ? config["head_dim"].get<std::int64_t>() : expand("expand_k", width) / heads,
                     values = gated_delta ? expand("expand_v", keys) : expand("expand_v", width) / heads,
                     v_heads = gla ? shared : heads, q_heads = gla ? heads : key_heads;
  for (int i = 0; i < config["num_hidden_layers"]; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".", attn = layer + "attn.";
    model.add(layer + "attn_norm.weight", {width}, 0.2, 1);
    model.add(layer + "mlp_norm.weight", {width}, 0.2, 1);
    model.add(attn + "q_proj.weight", {q_heads * keys, width});
    model.add(attn + "k_proj.weight", {shared * keys, width});
    model.add(attn + "v_proj.weight", {v_heads * values, width});
    model.add(attn + "o_proj.weight", {width, heads * values});
    if (config["use_short_conv"]) {
      model.add(attn + "q_conv1d.weight", {q_heads * keys, 1, config["conv_size"]});
      model.add(attn + "k_conv1d.weight", {shared * keys, 1, config["conv_size"]});
      model.add(attn + "v_conv1d.weight", {v_heads * values, 1, config["conv_size"]});
    }
    const bool gate = config.value(gla ? "use_output_gate" : "use_gate", true);
    if (gate && !kda) model.add(attn + "g_proj.weight", {heads * values, width});
    if (kda) {
      model.add(attn + "f_proj.0.weight", {values, width});
      model.add(attn + "f_proj.1.weight", {heads * keys, values});
      model.add(attn + "g_proj.0.weight", {values, width});
      model.add(attn + "g_proj.1.weight", {heads * values, values});
      model.add(attn + "g_proj.1.bias", {heads * values}, 0.5);
      model.add(attn + "A_log", {heads});
      model.add(attn + "dt_bias", {heads * keys});
    } else if (gated_delta) {
      model.add(attn + "a_proj.weight", {heads, width});
      model.add(attn + "A_log", {heads});
      model.add(attn + "dt_bias", {heads});
    }
    if (!gla && config.value("use_beta", true)) model.add(attn + "b_proj.weight", {heads, width});
    if (gla) {
      model.add(attn + "gk_proj.0.weight", {16, width});
      model.add(attn + "gk_proj.1.weight", {shared * keys, 16});
      model.add(attn + "gk_proj.1.bias", {shared * keys}, 0.3, 1);
    }
    const bool fused = gla && gate && config.value("fuse_norm", true);
    const std::string norm = !gla ? "o_norm" : fused ? "g_norm_swish_gate" : "g_norm";
    if (config.value("elementwise_affine", true)) model.add(attn + norm + ".weight", {values}, 0.2, 1);
    model.add(layer + "mlp.gate_proj.weight", {config["intermediate_size"], width});
    model.add(layer + "mlp.up_proj.weight", {config["intermediate_size"], width});
    model.add(layer + "mlp.down_proj.weight", {width, config["intermediate_size"]});
  }
  return model;
}

namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double silu(double x) { return x * sigmoid(x); }
double softplus(double x) { return std::log1p(std::exp(-std::abs(x))) + std::max(x, 0.0); }

/// The model with shorter words.
struct Reader {
  const SavedModel& model;
  std::string prefix;
  const std::vector<double>& operator()(const std::string& name) const { return model.at(prefix + name); }
  bool has(const std::string& name) const { return model.has(prefix + name); }
  double number(const char* field, double fallback) const { return model.config.value(field, fallback); }
  std::int64_t count(const char* field, std::int64_t fallback = 0) const {
    return whole(model.config, field, fallback);
  }
  bool flag(const char* field, bool fallback) const { return model.config.value(field, fallback); }
};

Row times(const std::vector<double>& matrix, const Row& x) {
  Row y(matrix.size() / x.size(), 0.0);
  for (std::size_t i = 0; i < y.size(); ++i) {
    for (std::size_t j = 0; j < x.size(); ++j) y[i] += matrix[i * x.size() + j] * x[j];
  }
  return y;
}

Rows times(const std::vector<double>& matrix, const Rows& x) {
  Rows y;
  for (const Row& row : x) y.push_back(times(matrix, row));
  return y;
}

void add_to(Row& x, const Row& y) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

/// RMSNorm of the numbers [begin, begin + count), in place.
void norm(Row& x, std::size_t begin, std::size_t count, double eps) {
  double squares = 0;
  for (std::size_t i = begin; i < begin + count; ++i) squares += x[i] * x[i];
  const double factor = 1 / std::sqrt(squares / static_cast<double>(count) + eps);
  for (std::size_t i = begin; i < begin + count; ++i) x[i] *= factor;
}

Row normed(Row x, const std::vector<double>& weight, double eps) {
  norm(x, 0, x.size(), eps);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] *= weight[i % weight.size()];
  return x;
}

/// Causal depthwise convolution with `taps` [C,1,w], and a function of every sum.
Rows convolved(const Rows& x, const std::vector<double>& taps, const std::vector<double>& bias,
               const std::function<double(double)>& function) {
  const std::size_t channels = x[0].size(), width = taps.size() / channels;
  Rows y = x;
  for (std::size_t t = 0; t < x.size(); ++t) {
    for (std::size_t c = 0; c < channels; ++c) {
      double sum = bias.empty() ? 0 : bias[c];
      for (std::size_t j = 0; j < width; ++j) {
        if (t + j + 1 >= width) sum += taps[c * width + j] * x[t + j + 1 - width][c];
      }
      y[t][c] = function(sum);
    }
  }
  return y;
}

Rows mamba2(const Reader& r, const Rows& x) {
  const auto inner = static_cast<std::size_t>(r.count("hidden_size") * r.count("expand")),
             states = static_cast<std::size_t>(r.count("state_size")),
             width = static_cast<std::size_t>(r.count("head_dim")),
             groups = static_cast<std::size_t>(r.count("n_groups")), heads = inner / width;
  const bool is_fla = r.model.config.contains("norm_eps");
  const double eps = is_fla ? r.number("norm_eps", 0) : r.number("layer_norm_epsilon", 0);
  const bool is_old_fla = is_fla && r.model.config.contains("time_step_limit");
  const json limit =
      r.model.config.value(is_fla && !is_old_fla ? "dt_limit" : "time_step_limit", json::array({0.0, 1e30}));
  const double most = limit[1].is_number() ? limit[1].get<double>() : 1e30;
  Rows z, xBC, dt;
  for (const Row& token : x) {
    Row all = times(r("mixer.in_proj.weight"), token);
    if (r.has("mixer.in_proj.bias")) add_to(all, r("mixer.in_proj.bias"));
    z.emplace_back(all.begin(), all.begin() + inner);
    xBC.emplace_back(all.begin() + inner, all.end() - heads);
    dt.emplace_back(all.end() - heads, all.end());
  }
  const std::vector<double> none;
  xBC = convolved(xBC, r("mixer.conv1d.weight"), r.has("mixer.conv1d.bias") ? r("mixer.conv1d.bias") : none, silu);
  std::vector<double> state(heads * width * states, 0.0);
  Rows y;
  for (std::size_t t = 0; t < x.size(); ++t) {
    Row out(inner);
    for (std::size_t h = 0; h < heads; ++h) {
      const double step = std::clamp(softplus(dt[t][h] + r("mixer.dt_bias")[h]), limit[0].get<double>(), most);
      const double decay = std::exp(-std::exp(r("mixer.A_log")[h]) * step);
      const double* B = &xBC[t][inner + h / (heads / groups) * states];
      const double* C = B + groups * states;
      for (std::size_t p = 0; p < width; ++p) {
        const double input = xBC[t][h * width + p];
        double sum = r("mixer.D")[h] * input;
        for (std::size_t n = 0; n < states; ++n) {
          double& s = state[(h * width + p) * states + n];
          s = decay * s + step * B[n] * input;
          sum += C[n] * s;
        }
        out[h * width + p] = sum * silu(z[t][h * width + p]);
      }
    }
    if (r.has("mixer.norm.weight")) {
      const json version = r.model.config.value("transformers_version", json());
      int major = 5, minor = 24;
      if (version.is_string()) std::sscanf(version.get<std::string>().c_str(), "%d.%d", &major, &minor);
      const bool by_group = is_fla ? !is_old_fla : major > 5 || (major == 5 && minor >= 23);
      const std::size_t parts = by_group ? groups : 1;
      for (std::size_t g = 0; g < parts; ++g) norm(out, g * (inner / parts), inner / parts, eps);
      for (std::size_t i = 0; i < inner; ++i) out[i] *= r("mixer.norm.weight")[i];
    }
    Row answer = times(r("mixer.out_proj.weight"), out);
    if (r.has("mixer.out_proj.bias")) add_to(answer, r("mixer.out_proj.bias"));
    y.push_back(answer);
  }
  return y;
}

/// Head h of rows with `heads` heads, each of which serves several of `all` heads.
Row head_of(const Row& row, std::size_t heads, std::size_t all, std::size_t h) {
  const std::size_t width = row.size() / heads, first = h / (all / heads) * width;
  return {row.begin() + static_cast<std::ptrdiff_t>(first), row.begin() + static_cast<std::ptrdiff_t>(first + width)};
}

Row unit(Row x) {
  double squares = 1e-6;
  for (const double value : x) squares += value * value;
  for (double& value : x) value /= std::sqrt(squares);
  return x;
}

Rows delta(const Reader& r, const Rows& x) {
  const std::string type = r.model.config["model_type"];
  const bool gla = type == "gla", kda = type == "kda", gated_delta = kda || type == "gated_deltanet",
             convolves = r.flag("use_short_conv", true);
  const auto q_heads = static_cast<std::size_t>(r.count("num_heads")),
             heads = gated_delta ? static_cast<std::size_t>(r.count("num_v_heads", r.count("num_heads"))) : q_heads,
             shared = gla ? static_cast<std::size_t>(r.count("num_kv_heads", r.count("num_heads"))) : q_heads;
  const std::string act = r.model.config.value("qk_activation", "silu"), map = r.model.config.value("feature_map", "");
  const auto key_function = [&](double sum) {
    double y = (gla && !convolves) || act != "silu" ? sum : silu(sum);
    if (act == "relu" || map == "relu") y = std::max(y, 0.0);
    if (act == "elu") y = y > 0 ? y + 1 : std::exp(y);
    return y;
  };
  const auto value_function = [&](double sum) { return gla && !convolves ? sum : silu(sum); };
  const auto stream = [&](const std::string& name, const std::function<double(double)>& function) {
    Rows y = times(r("attn." + name + "_proj.weight"), x);
    if (convolves) return convolved(y, r("attn." + name + "_conv1d.weight"), {}, function);
    for (Row& row : y) std::ranges::transform(row, row.begin(), function);
    return y;
  };
  const Rows q = stream("q", key_function), k = stream("k", key_function), v = stream("v", value_function);
  const std::size_t keys = q[0].size() / q_heads, v_heads = gla ? shared : heads, values = v[0].size() / v_heads;
  std::vector<double> state(heads * keys * values, 0.0);
  Rows result;
  for (std::size_t t = 0; t < x.size(); ++t) {
    Row out;
    for (std::size_t h = 0; h < heads; ++h) {
      Row query = head_of(q[t], q_heads, heads, h), key = head_of(k[t], shared, heads, h), decay(keys, 1.0);
      const Row value = head_of(v[t], v_heads, heads, h);
      if (!gla) query = unit(query), key = unit(key);
      if (gla) {
        Row gate = times(r("attn.gk_proj.1.weight"), times(r("attn.gk_proj.0.weight"), x[t]));
        add_to(gate, r("attn.gk_proj.1.bias"));
        const Row own = head_of(gate, shared, heads, h);
        for (std::size_t i = 0; i < keys; ++i)
          decay[i] = std::exp(std::max(-softplus(-own[i]) / 16, r.number("clamp_min", -1e30)));
      }
      if (kda) {
        const Row step = times(r("attn.f_proj.1.weight"), times(r("attn.f_proj.0.weight"), x[t]));
        for (std::size_t i = 0; i < keys; ++i)
          decay[i] =
              std::exp(-std::exp(r("attn.A_log")[h]) * softplus(step[h * keys + i] + r("attn.dt_bias")[h * keys + i]));
      } else if (gated_delta) {
        const double a = times(r("attn.a_proj.weight"), x[t])[h];
        decay.assign(keys, std::exp(-std::exp(r("attn.A_log")[h]) * softplus(a + r("attn.dt_bias")[h])));
      }
      double beta = 1;
      if (!gla && r.flag("use_beta", true)) beta = sigmoid(times(r("attn.b_proj.weight"), x[t])[h]);
      if (r.flag("allow_neg_eigval", false)) beta *= 2;
      Row answer(values);
      for (std::size_t p = 0; p < values; ++p) {
        double* column = &state[(h * values + p) * keys];
        double read = 0;
        for (std::size_t i = 0; i < keys; ++i) {
          column[i] *= decay[i];
          read += column[i] * key[i];
        }
        for (std::size_t i = 0; i < keys; ++i) column[i] += key[i] * (gla ? value[p] : beta * (value[p] - read));
        for (std::size_t i = 0; i < keys; ++i) answer[p] += column[i] * query[i] / std::sqrt(static_cast<double>(keys));
      }
      norm(answer, 0, values, r.number("norm_eps", 0));
      out.insert(out.end(), answer.begin(), answer.end());
    }
    const std::string weight = r.has("attn.o_norm.weight")   ? "attn.o_norm.weight"
                               : r.has("attn.g_norm.weight") ? "attn.g_norm.weight"
                                                             : "attn.g_norm_swish_gate.weight";
    for (std::size_t i = 0; r.has(weight) && i < out.size(); ++i) out[i] *= r(weight)[i % values];
    if (r.has("attn.g_proj.weight")) {
      const Row gate = times(r("attn.g_proj.weight"), x[t]);
      const auto gate_of = r.model.config.value("output_gate_activation", "swish") == "sigmoid" ? sigmoid : silu;
      for (std::size_t i = 0; i < out.size(); ++i) out[i] *= gate_of(gate[i]);
    }
    if (kda) {
      Row gate = times(r("attn.g_proj.1.weight"), times(r("attn.g_proj.0.weight"), x[t]));
      add_to(gate, r("attn.g_proj.1.bias"));
      for (std::size_t i = 0; i < out.size(); ++i) out[i] *= sigmoid(gate[i]);
    }
    result.push_back(times(r("attn.o_proj.weight"), out));
  }
  return result;
}

/// Attention, in a window where it has one, with the rotary code that turns halves of a head.
Rows attention(const Reader& r, const json& attn, const Rows& x) {
  const auto heads = attn["num_heads"].get<std::size_t>(), shared = attn.value("num_kv_heads", heads);
  const double base = attn.value("rope_theta", 10000.0);
  const auto stream = [&](const std::string& name) {
    Rows y = times(r("attn." + name + "_proj.weight"), x);
    for (Row& row : y) {
      if (r.has("attn." + name + "_proj.bias")) add_to(row, r("attn." + name + "_proj.bias"));
    }
    return y;
  };
  const Rows q = stream("q"), k = stream("k"), v = stream("v");
  const auto turned = [&](Row head, std::size_t t) {
    const std::size_t half = head.size() / 2;
    for (std::size_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(t) * std::pow(base, -static_cast<double>(i) / static_cast<double>(half));
      const double first = head[i], second = head[i + half];
      head[i] = first * std::cos(angle) - second * std::sin(angle);
      head[i + half] = first * std::sin(angle) + second * std::cos(angle);
    }
    return head;
  };
  const json window = attn.value("window_size", json());
  Rows y;
  for (std::size_t t = 0; t < x.size(); ++t) {
    Row out;
    const std::size_t newest = window.is_null() ? t + 1 : std::min(t + 1, window.get<std::size_t>());
    for (std::size_t h = 0; h < heads; ++h) {
      const Row query = turned(head_of(q[t], heads, heads, h), t);
      Row answer(query.size(), 0.0);
      double total = 0;
      for (std::size_t s = t + 1 - newest; s <= t; ++s) {
        const Row key = turned(head_of(k[s], shared, heads, h), s), value = head_of(v[s], shared, heads, h);
        double score = 0;
        for (std::size_t i = 0; i < key.size(); ++i) score += key[i] * query[i];
        const double weight = std::exp(score / std::sqrt(static_cast<double>(key.size())));
        total += weight;
        for (std::size_t i = 0; i < answer.size(); ++i) answer[i] += weight * value[i];
      }
      for (const double value : answer) out.push_back(value / total);
    }
    y.push_back(times(r("attn.o_proj.weight"), out));
  }
  return y;
}

}  // namespace

std::vector<double> naive_logits(const SavedModel& model, const std::vector<int>& tokens) {
  const bool is_mamba = model.config["model_type"] == "mamba2";
  const std::string prefix = is_mamba ? "backbone." : "model.";
  const Reader outer{model, prefix};
  const auto width = static_cast<std::size_t>(outer.count("hidden_size"));
  const double eps =
      model.config.contains("norm_eps") ? outer.number("norm_eps", 0) : outer.number("layer_norm_epsilon", 0);
  const std::vector<double>& table = outer("embeddings.weight");
  Rows x;
  for (const int token : tokens) {
    const auto begin = table.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(token) * width);
    x.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(width));
  }
  for (int i = 0; i < model.config["num_hidden_layers"]; ++i) {
    const Reader r{model, prefix + "layers." + std::to_string(i) + "."};
    Rows in = x;
    for (Row& row : in) row = normed(row, r(is_mamba ? "norm.weight" : "attn_norm.weight"), eps);
    const json attn = model.config.value("attn", json());
    const bool is_attention = attn.is_object() && std::ranges::count(attn["layers"], json(i)) > 0;
    const Rows mixed = is_mamba ? mamba2(r, in) : is_attention ? attention(r, attn, in) : delta(r, in);
    for (std::size_t t = 0; t < x.size(); ++t) add_to(x[t], mixed[t]);
    for (std::size_t t = 0; t < x.size() && !is_mamba; ++t) {
      const Row own = normed(x[t], r("mlp_norm.weight"), eps);
      Row gate = times(r("mlp.gate_proj.weight"), own);
      const Row up = times(r("mlp.up_proj.weight"), own);
      for (std::size_t j = 0; j < gate.size(); ++j) gate[j] = silu(gate[j]) * up[j];
      add_to(x[t], times(r("mlp.down_proj.weight"), gate));
    }
  }
  const bool is_tied = model.config["tie_word_embeddings"];
  std::vector<double> logits;
  for (const Row& row : x) {
    const Row last = normed(row, outer(is_mamba ? "norm_f.weight" : "norm.weight"), eps);
    const Row answer = times(is_tied ? table : model.at("lm_head.weight"), last);
    logits.insert(logits.end(), answer.begin(), answer.end());
  }
  return logits;
}

double error_between(const std::vector<double>& got, const std::vector<double>& want) {
  EXPECT_EQ(got.size(), want.size());
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    difference += (got[i] - want[i]) * (got[i] - want[i]);
    size += want[i] * want[i];
  }
  return std::sqrt(difference / size);
}

}  // namespace afterglow::testing
