// Lemmas K.1 to K.22 as weights of Sessa blocks.
#include "core/layers/written/retrieval_network.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/io/error.h"
#include "core/io/json_file.h"
#include "core/layers/layer_kind.h"
#include "core/ops/ops.h"

namespace afterglow {
namespace {

constexpr double gain_bound = 0.9999;   // gamma_max of every block
constexpr double writer_gain = 0.99;    // of the position writer: the nearer to 1, the more equal its steps
constexpr double stray_weight = 1e-13;  // the most weight that a sharp attention row may give to other tokens
constexpr double sharp_corner = 18;     // GELU is a ramp to 1e-17 at a distance of sharp_corner / 2 from its corner
constexpr double lift = 1;              // keeps the position above 0, where GELU is increasing

/// Bounds of the position coordinate of each token for any input: disjoint intervals in ascending order.
struct PositionCode {
  std::vector<double> low, high;
  double scale = 0;  ///< of the feedback's response
};

/// The response s of the writer's feedback to a constant 1, scaled so that intervals are 2 bounds apart (corollary
/// I.8).
PositionCode position_code_of(int tokens) {
  std::vector<double> s;
  double sum = 0, least_step = INFINITY;
  for (int t = 0; t < tokens; ++t) {
    s.push_back(t == 0 ? 1 : 1 + writer_gain * sum / t);
    sum += s.back();
    if (t > 0) least_step = std::min(least_step, s[static_cast<std::size_t>(t)] - s[static_cast<std::size_t>(t) - 1]);
  }
  PositionCode code;
  code.scale = 4 * retrieval_input_bound / least_step;
  for (const double value : s) {
    code.low.push_back(code.scale * value - retrieval_input_bound);
    code.high.push_back(code.scale * value + retrieval_input_bound);
  }
  return code;
}

/// The factor of the queries with which every row gives at most `stray_weight` to all keys but one. `behind` is 0 for
/// its own token's key (lemma K.2), 1 for the predecessor's (lemma K.1).
double sharpness(const PositionCode& code, int width, std::size_t behind) {
  const std::size_t tokens = code.low.size();
  double min_gap = INFINITY;
  for (std::size_t t = 1 + behind; t < tokens; ++t)
    min_gap = std::min(min_gap, (code.low[t] + lift) * (code.low[t - behind] - code.high[t - behind - 1]));
  const double wanted = std::log(static_cast<double>(tokens) / stray_weight);
  return tokens < 2 + behind ? 0 : std::sqrt(static_cast<double>(width)) * wanted / min_gap;
}

/// The weights of one block: reads of channels (slots of a, after GELU), values, gates, and writes to channels.
class BlockWriter {
 public:
  BlockWriter(std::string role, int width) : role_(std::move(role)), width_(width) {}

  /// A slot u = GELU(factor x_channel + offset).
  int read(int channel, double factor, double offset) {
    at(in_, reads_, channel) = factor;
    in_bias_[index(reads_)] = offset;
    return reads_++;
  }
  /// Value `slot` += factor u_read.
  void value(int slot, double factor, int read) { at(values_, slot, read) += factor; }
  /// Value `slot` += x_channel exactly, as GELU(x) - GELU(-x) = x (corollary K.5).
  void exact_value(int slot, int channel) {
    value(slot, 1, read(channel, 1, 0));
    value(slot, -1, read(channel, -1, 0));
  }
  void constant_value(int slot, double number) { value_bias_[index(slot)] += number; }
  /// The gate of a slot is a channel, or 1.
  void gate(int slot, int channel) { at(in_, width_ + slot, channel) = 1; }
  void open_gate(int slot) { in_bias_[index(width_ + slot)] = 1; }
  /// Channel += factor times the gated solution for value `slot`.
  void write(int channel, double factor, int slot) { at(out_, channel, slot) = factor; }
  /// Clears the channel: subtracts its content with the help of value `slot`, which is 1.
  void clear(int channel, int slot) {
    constant_value(slot, 1);
    gate(slot, channel);
    write(channel, -1, slot);
  }
  /// Every token attends to itself (lemma K.2).
  void focus_on_itself(const PositionCode& code) {
    const int position = read(position_channel, 1, lift);
    at(queries_, 0, position) = sharpness(code, width_, 0);
    at(keys_, 0, position) = 1;
  }
  /// The feedback reads the predecessor (lemma K.1).
  void feed_back_predecessor(const PositionCode& code) {
    const int position = read(position_channel, 1, lift);
    at(feedback_, 0, position) = sharpness(code, width_, 1);
    at(feedback_, width_, position) = 1;
  }
  /// The token `lag` before: turned by one radian a token, query and key meet at cos(t - lag - j) (lemma I.16).
  void look_back(int lag, int tokens) {
    double gap = 2;
    for (int apart = -lag; apart < tokens - lag; ++apart) {
      if (apart != 0) gap = std::min(gap, 1 - std::cos(apart));
    }
    const int constant = read(signal_channel, 0, 1);
    const double wanted = std::sqrt(static_cast<double>(width_)) * std::log(tokens / stray_weight) / gap;
    const double factor = 2 * wanted;  // the constant is GELU(1), whose square is above 1/2
    at(queries_, 0, constant) = factor * std::cos(lag);
    at(queries_, 1, constant) = -factor * std::sin(lag);
    at(keys_, 0, constant) = 1;
  }
  void gain(double gamma) { gain_ = std::atanh(gamma / gain_bound); }

  WrittenBlock finish() {
    WrittenBlock block;
    block.role = std::move(role_);
    block.kind = "sessa";
    block.mixer = {{"D", width_}, {"n_heads", 1}, {"use_norm", false}, {"gamma_max", gain_bound}};
    block.weights = {{"W_in.weight", in_},
                     {"W_in.bias", in_bias_},
                     {"mixer.q_proj.weight", queries_},
                     {"mixer.q_proj.bias", zeros_of(width_)},
                     {"mixer.k_proj.weight", keys_},
                     {"mixer.k_proj.bias", zeros_of(width_)},
                     {"mixer.v_proj.weight", values_},
                     {"mixer.v_proj.bias", value_bias_},
                     {"W_out.weight", out_},
                     {"W_out.bias", zeros_of(width_)},
                     {"mixer.proj_fb.weight", feedback_},
                     {"mixer.proj_fb.bias", zeros_of(2 * width_)},
                     {"mixer.gamma_bias", {gain_}},
                     {"mixer.gamma_ctx.weight", zeros_of(width_)}};
    return block;
  }

 private:
  using Numbers = std::vector<double>;
  static std::size_t index(int place) { return static_cast<std::size_t>(place); }
  static Numbers zeros_of(int count) { return Numbers(index(count), 0.0); }
  /// Element of a matrix with `width` columns.
  double& at(Numbers& matrix, int row, int column) { return matrix[index(row * width_ + column)]; }

  std::string role_;
  int width_, reads_ = 0;
  Numbers in_ = zeros_of(2 * width_ * width_), in_bias_ = zeros_of(2 * width_);
  Numbers queries_ = zeros_of(width_ * width_), keys_ = queries_, values_ = queries_, out_ = queries_;
  Numbers value_bias_ = zeros_of(width_), feedback_ = in_;
  double gain_ = 0;
};

/// A block that adds a channel, or a constant, times a gate to a channel.
struct Carried {
  std::string role;
  int to = 0;
  std::optional<int> from{}, gate{};  ///< channels; absent: 1
  bool clears = false;                ///< what was in the channel goes
  bool reads_itself = false;          ///< every token; else uniform attention
  bool feeds_back_predecessor = false;
  double gain = 0, factor = 1;
};

WrittenBlock carrying(int width, const PositionCode& code, const Carried& of) {
  BlockWriter block(of.role, width);
  if (of.reads_itself) block.focus_on_itself(code);
  if (of.feeds_back_predecessor) block.feed_back_predecessor(code);
  const int slot = of.clears ? 1 : 0;
  if (of.clears) block.clear(of.to, 0);
  of.from ? block.exact_value(slot, *of.from) : block.constant_value(slot, 1);
  of.gate ? block.gate(slot, *of.gate) : block.open_gate(slot);
  block.gain(of.gain);
  block.write(of.to, of.factor, slot);
  return block.finish();
}

/// Lemmas K.18 and K.19.
WrittenBlock clearing(const std::string& role, int width, std::initializer_list<int> channels) {
  BlockWriter block(role, width);
  int slot = 0;
  for (const int channel : channels) block.clear(channel, slot++);
  return block.finish();
}

/// Lemmas K.6 and K.7: 1 on the window channel at the source, `leak` elsewhere.
WrittenBlock window_writer(int width, const PositionCode& code, int source, double leak) {
  BlockWriter block("marks token " + std::to_string(source), width);
  const auto at = static_cast<std::size_t>(source);
  const double bound = retrieval_input_bound;
  const double before = source > 0 ? code.high[at - 1] : code.low[at] - 2 * bound;
  const double behind = at + 1 < code.low.size() ? code.low[at + 1] : code.high[at] + 2 * bound;
  const auto ramp = [&](double from, double to, double factor) {  // from 0 to `factor` across the middle of a gap
    const double a = from + (to - from) / 4, b = to - (to - from) / 4, steep = 4 * sharp_corner / (to - from);
    block.value(1, factor / (steep * (b - a)), block.read(position_channel, steep, -steep * a));
    block.value(1, -factor / (steep * (b - a)), block.read(position_channel, steep, -steep * b));
  };
  block.focus_on_itself(code);
  block.clear(window_channel, 0);
  block.constant_value(1, leak);
  ramp(before, code.low[at], 1 - leak);
  ramp(code.high[at], behind, leak - 1);
  block.open_gate(1);
  block.write(window_channel, 1, 1);
  return block.finish();
}

/// Lemma K.11: the channel is multiplied by the window channel.
Carried multiplied(const std::string& role, int channel) {
  return {.role = role, .to = channel, .from = window_channel, .gate = channel, .clears = true, .reads_itself = true};
}

}  // namespace

void write_weights(ParameterStore& store, const std::string& prefix, const WrittenBlock& block) {
  for (const auto& [name, weights] : block.weights) {
    Parameter* parameter = store.find(prefix + "." + name);
    if (parameter == nullptr || parameter->shape.elements() != static_cast<std::int64_t>(weights.size())) {
      throw BadInput(prefix, ".", name, ": the block that ", block.role, " has ", weights.size(),
                     " weights for it, and the layer has no parameter of that name and size");
    }
    parameter->initialise = {[weights = weights](Random&, const Shape&, std::span<double> values) {
      std::ranges::copy(weights, values.begin());
    }};
  }
}

WrittenStack::WrittenStack(const std::vector<WrittenBlock>& blocks, Backend& backend) {
  for (const WrittenBlock& block : blocks) {
    const std::string prefix = std::to_string(parts_.size());
    parts_.push_back({make_layer(block.kind, block.mixer, ParameterScope(store_, prefix)),
                      find_layer_kind(block.kind)->whole_block});
    write_weights(store_, prefix, block);
  }
  store_.allocate_values(backend, DType::f64);
  store_.initialise(0);
}

Var WrittenStack::stream_before(Tape& tape, const Var& x, std::size_t block) {
  Var stream = x;
  for (std::size_t i = 0; i < std::min(block, parts_.size()); ++i) {
    const Var answer = parts_[i].layer->forward(tape, stream, {});
    stream = parts_[i].is_whole_block ? answer : add(tape, stream, answer);
  }
  return stream;
}

Var WrittenStack::forward(Tape& tape, const Var& x) { return stream_before(tape, x, parts_.size()); }

RetrievalNetwork parse_retrieval_network(const nlohmann::json& value, RetrievalNetwork network,
                                         const std::string& where) {
  const auto integer = [&](const char* key, int now, int low, int high) {
    return static_cast<int>(get_integer(value, key, now, low, high, where));
  };
  constexpr int most_tokens = 2048, max_jumps = 6;
  constexpr double min_beta = 0.02;
  network.tokens = integer("tokens", network.tokens, 8, most_tokens);
  network.jumps = integer("jumps", network.jumps, 1, max_jumps);
  network.source = integer("source", std::min(network.source, network.tokens - 4), 0, network.tokens - 4);
  network.beta = get_number(value, "beta", network.beta, min_beta, 1 - min_beta, where);
  network.leak = get_number(value, "leak", network.leak, 0, 1, where);
  return network;
}

std::vector<WrittenBlock> retrieval_blocks(const RetrievalNetwork& network) {
  const int width = network.width;
  const PositionCode code = position_code_of(network.tokens);
  std::vector<WrittenBlock> blocks;
  const auto add = [&](const Carried& of) { blocks.push_back(carrying(width, code, of)); };
  // Corollary 4.11: the feedback's response to a constant.
  add({.role = "writes the position", .to = position_channel, .gain = writer_gain, .factor = code.scale});
  blocks.push_back(clearing("clears the profile channel", width, {profile_channel}));
  // Lemma K.17, step 1: 1 whatever the channel held.
  add({.role = "plants a constant", .to = tail_channel, .clears = true});
  blocks.push_back(window_writer(width, code, 0, 0));
  add(multiplied("keeps the constant at token 0 alone", tail_channel));
  // Lemma K.15: uniform feedback makes an impulse a tail t^-beta.
  add({.role = "copies the tail", .to = scratch_channel, .gate = tail_channel, .clears = true});
  add({.role = "lets it fade as t^-β",
       .to = tail_channel,
       .from = scratch_channel,
       .reads_itself = true,
       .gain = 1 - network.beta});
  blocks.push_back(
      clearing("clears the scratch channels", width, {scratch_channel, second_scratch_channel, window_channel}));
  // Lemma K.20: the sum of the tail so far, damped by 1 - 1/T a token, which leaves the power (t + 1)^(1 - beta).
  add({.role = "adds the tail up to a profile",
       .to = profile_channel,
       .from = tail_channel,
       .reads_itself = true,
       .feeds_back_predecessor = true,
       .gain = 1 - 1.0 / network.tokens});
  blocks.push_back(window_writer(width, code, network.source, network.leak));
  add(multiplied("keeps the signal of token " + std::to_string(network.source), signal_channel));
  for (int jump = 0; jump < network.jumps; ++jump) {
    // Lemma K.22: profile times signal, then its uniform prefix mean through a uniform feedback.
    add({.role = "weights the signal by the profile",
         .to = scratch_channel,
         .from = profile_channel,
         .gate = signal_channel,
         .clears = true,
         .reads_itself = true});
    add({.role = "carries it by diffuse feedback",
         .to = signal_channel,
         .from = scratch_channel,
         .gain = 1 - network.beta});
  }
  return blocks;
}

std::vector<WrittenBlock> copy_blocks(int width, int tokens) {
  std::vector<WrittenBlock> blocks;
  for (int lag = 1; lag < width; ++lag) {
    BlockWriter block("copies the token " + std::to_string(lag) + " before", width);
    block.look_back(lag, tokens);
    block.exact_value(0, signal_channel);
    block.open_gate(0);
    block.write(lag, 1, 0);
    blocks.push_back(block.finish());
  }
  return blocks;
}

std::vector<WrittenBlock> diffuse_attention_blocks(int width, int depth) {
  WrittenBlock block{"adds the mean of the signal", "attention", {{"d", width}, {"n_heads", 1}}, {}};
  const std::vector<double> nothing(static_cast<std::size_t>(width * width), 0.0);
  std::vector<double> signal = nothing;
  signal[static_cast<std::size_t>(signal_channel * width + signal_channel)] = 1;
  block.weights = {
      {"q_proj.weight", nothing}, {"k_proj.weight", nothing}, {"v_proj.weight", signal}, {"o_proj.weight", signal}};
  return std::vector(static_cast<std::size_t>(depth), block);
}

// The channels +x and -x pass SiLU, because SiLU(x) - SiLU(-x) = x; B, C and the gate are constants with SiLU(c) = 1.
std::vector<WrittenBlock> failed_freeze_blocks(int width, int depth, double step) {
  constexpr double silu_is_one = 1.27846454276107;
  WrittenBlock block{"adds a fading sum of the signal", "mamba2", {}, {}};
  block.mixer = {{"d_model", width}, {"d_state", 1}, {"d_conv", 1},     {"expand", 2.0 / width},
                 {"headdim", 2},     {"bias", true}, {"rmsnorm", false}};
  constexpr int rows = 7;  // z z x x B C dt
  std::vector<double> in(static_cast<std::size_t>(rows * width), 0.0), out(static_cast<std::size_t>(2 * width), 0.0);
  in[static_cast<std::size_t>(2 * width + signal_channel)] = 1;
  in[static_cast<std::size_t>(3 * width + signal_channel)] = -1;
  const double weight = -std::expm1(-step) / step;  // the scan itself weights its input by the step
  out[signal_channel * 2] = weight;
  out[signal_channel * 2 + 1] = -weight;
  const double one = silu_is_one;
  block.weights = {{"in_proj.weight", in},
                   {"in_proj.bias", {one, one, 0, 0, one, one, 0}},
                   {"conv1d.weight", {1, 1, 1, 1}},
                   {"conv1d.bias", {0, 0, 0, 0}},
                   {"dt_bias", {step + std::log(-std::expm1(-step))}},
                   {"A_log", {0}},
                   {"D", {0}},
                   {"out_proj.weight", out},
                   {"out_proj.bias", std::vector<double>(static_cast<std::size_t>(width), 0.0)}};
  return std::vector(static_cast<std::size_t>(depth), block);
}

}  // namespace afterglow
