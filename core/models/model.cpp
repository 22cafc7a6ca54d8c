// Builds a stack of layers from JSON and runs it.
#include "core/models/model.h"

#include <algorithm>
#include <array>

#include "core/backend/arena.h"
#include "core/io/error.h"
#include "core/io/json.h"
#include "core/io/json_file.h"
#include "core/layers/host_values.h"
#include "core/layers/layer_kind.h"
#include "core/layers/written/retrieval_network.h"

namespace afterglow {
namespace {

// The main numbers of a layer's configuration for displays, with the letters of the papers.
std::string detail_of(const json& config) {
  static const std::vector<std::pair<const char*, const char*>> shown = {
      {"r", "r"},         {"K", "K"},        {"num_iter", "r"}, {"H", "H"},    {"n_heads", "H"},
      {"num_heads", "H"}, {"head_dim", "D"}, {"d_state", "N"},  {"d_ff", "d"}, {"dk", "d"}};
  std::string text;
  for (const auto& [field, letter] : shown) {
    if (!config.contains(field) || !config[field].is_number()) continue;
    if (!text.empty()) text += " · ";
    text += std::string(letter) + " " + config[field].dump();
  }
  return text;
}

}  // namespace

std::size_t ModelState::bytes() const {
  std::size_t total = 0;
  for (const LayerState& layer : layers) total += layer.bytes();
  return total;
}

void ModelState::keep_scales() {
  for (LayerState& layer : layers) layer.keeps_scale = true;
}

bool ModelState::steps_are_alike() const {
  return position >= std::max<std::int64_t>(places, 1) &&
         std::ranges::none_of(layers, [](const LayerState& layer) { return layer.has_cache || layer.keeps_scale; });
}

Model::Model(const json& config, ParameterStore& store) : store_(&store) {
  const std::string where = "model";
  refuse_unknown_keys(config,
                      {"d_model", "vocab", "tie_embedding", "norm_eps", "norm_plus_one", "embedding_scale",
                       "logit_scale", "blocks", "retrieval", "memory"},
                      where);
  width_ = get_integer(config, "d_model", std::nullopt, 1, 65536, where);
  vocab_ = get_integer(config, "vocab", std::nullopt, 2, 1 << 20, where);
  norm_eps_ = get_number(config, "norm_eps", 1e-5, 0.0, 1.0, where);
  norm_plus_one_ = get_bool(config, "norm_plus_one", false, where);
  embedding_scale_ = get_number(config, "embedding_scale", 1.0, -1e6, 1e6, where);
  logit_scale_ = get_number(config, "logit_scale", 1.0, -1e6, 1e6, where);
  const ParameterScope root(store, "");
  embedding_ = &root.add("embedding.weight", {vocab_, width_}, normal(0.02));
  if (config.contains("retrieval")) {
    add_retrieval(config, where + ".retrieval", root);
  } else if (!config.contains("blocks") || !config["blocks"].is_array()) {
    throw BadInput("model.blocks: expected a list of blocks such as {\"mixer\": {\"kind\": \"ska\"}}");
  }
  int block = 0;
  for (const json& entry : config.value("blocks", json::array())) {
    const std::string here = "model.blocks[" + std::to_string(block) + "]";
    refuse_unknown_keys(entry, {"mixer", "mlp", "repeat", "norm", "output_scale", "blend"}, here);
    const bool behind = get_choice(entry, "norm", {"before", "behind"}, "before", here) == "behind";
    const double output_scale = get_number(entry, "output_scale", 1.0, -1e6, 1e6, here);
    const std::int64_t repeat = get_integer(entry, "repeat", 1, 1, max_blocks, here);
    if (block + repeat > max_blocks)
      throw BadInput(here, ": with it there are ", block + repeat, " blocks, and the most is ", max_blocks,
                     "; make \"repeat\" smaller");
    for (std::int64_t i = 0; i < repeat; ++i, ++block) {
      for (const char* role : {"mixer", "mlp"}) {
        if (!entry.contains(role)) continue;
        Branch& branch = add_branch(entry[role], here + "." + role, block, role, root);
        branch.norm_behind = behind;
        branch.output_scale = output_scale;
        if (entry.contains("blend") && role == std::string_view("mixer")) add_blend(branch, entry, here, root);
        if (branch.norm == nullptr && (behind || output_scale != 1))
          throw BadInput(here, ".", role, ": a ", branch.layer->kind(),
                         " has its own norm and residual; take out norm and output_scale");
      }
    }
  }
  if (config.contains("memory")) add_memory(config["memory"], where + ".memory", root);
  norm_ = &root.add("norm.weight", {width_}, constant(norm_plus_one_ ? 0.0 : 1.0));
  const bool tied = get_bool(config, "tie_embedding", false, where);
  head_ = tied ? embedding_ : &root.add("head.weight", {vocab_, width_}, normal(0.02));
}

void Model::add_blend(Branch& branch, const json& entry, const std::string& here, const ParameterScope& root) {
  if (branch.norm == nullptr || branch.norm_behind || branch.output_scale != 1)
    throw BadInput(here, ": a mixer is blended behind a norm in front of it; take out blend");
  const ParameterScope scope = root.scope("layers." + std::to_string(branch.block));
  branch.blend_weight = &scope.add("blend.weight", {width_, width_}, zeros());
  branch.blend_bias = &scope.add("blend.bias", {width_}, constant(get_number(entry, "blend", -2.0, -20.0, 20.0, here)));
}

void Model::add_retrieval(const json& config, const std::string& where, const ParameterScope& root) {
  if (config.contains("blocks")) throw BadInput(where, ": this network is its own list of blocks; take \"blocks\" out");
  refuse_unknown_keys(config["retrieval"], {"tokens", "jumps", "beta", "source", "leak"}, where);
  RetrievalNetwork network = parse_retrieval_network(config["retrieval"], {}, where);
  if (width_ < network.width)
    throw BadInput("model.d_model: ", where, " needs at least ", network.width, " channels, and there are ", width_,
                   "; make it larger");
  network.width = static_cast<int>(width_);
  int place = 0;
  for (const WrittenBlock& written : retrieval_blocks(network)) {
    json mixer = written.mixer;
    mixer["kind"] = written.kind;
    add_branch(mixer, where, place++, "mixer", root);
    branches_.back().detail = written.role;
    write_weights(*store_, branches_.back().scope, written);
  }
}

void Model::add_memory(const json& config, const std::string& where, const ParameterScope& root) {
  JsonFields fields(config, where);
  memory_dropout_ = fields.number("dropout", memory_dropout_, 0.0, 0.95);
  const SpectralMemoryConfig memory = read_spectral_memory(fields, width_, 1);
  fields.refuse_others();
  memory_ = std::make_unique<SpectralMemory>(memory, root.scope("memory"), root.scope("pooling_layer"));
}

Branch& Model::add_branch(const json& config, const std::string& where, int block, const char* role,
                          const ParameterScope& root) {
  if (!config.is_object() || !config.contains("kind") || !config["kind"].is_string())
    throw BadInput(where, ": expected an object with a \"kind\", such as {\"kind\": \"ska\"}");
  json filled = config;
  const std::string kind = filled["kind"].get<std::string>();
  filled.erase("kind");
  const LayerKind* known = find_layer_kind(kind);
  if (known != nullptr && !filled.contains(known->width_field)) filled[known->width_field] = width_;
  const ParameterScope scope = root.scope("layers." + std::to_string(block));
  Branch branch;
  branch.block = block;
  branch.scope = scope.prefix() + "." + kind;
  branch.label = std::to_string(block) + " " + kind;
  branch.detail = detail_of(filled);
  const std::size_t parameters_before = store_->all().size();
  if (known == nullptr || !known->whole_block)
    branch.norm = &scope.add(std::string(role) + "_norm.weight", {width_}, constant(norm_plus_one_ ? 0.0 : 1.0));
  branch.norm_plus_one = norm_plus_one_;
  branch.reads_embedding = known != nullptr && known->reads_embedding;
  try {
    branch.layer = make_layer(kind, filled, scope.scope(kind));
  } catch (const Error& error) {
    throw Error(error.code(), where, ": ", error.what());
  }
  branch.heads = static_cast<int>(branch.layer->heads());
  branch.first = &store_->all()[parameters_before];
  branches_.push_back(std::move(branch));
  if (known->mixes_tokens) mixing_ = branches_.size();
  return branches_.back();
}

void Model::follow(const Model& other, Backend& backend, DType dtype) {
  if (SpectralMemory* memory = other.memory()) {
    memory_->assign(memory->history().values(), memory->history().appended());
    for (const LayerSetting& setting : memory->settings()) memory_->set(setting.key, setting.field.value);
    memory_->refresh(backend, dtype);
  }
  for (std::size_t i = 0; i < branches_.size(); ++i) {
    for (const LayerSetting& setting : other.branches_[i].layer->settings())
      branches_[i].layer->set(setting.key, setting.field.value);
  }
}

Var Model::Stream::settle(Tape& tape) const { return answer.defined() ? add(tape, x, answer) : x; }

NormedSum Model::Stream::normed(Tape& tape, const Var& norm, double eps, Storage stored) const {
  if (tape.form() == PassForm::unfused) {
    const Var sum = settle(tape);
    tape.hook("stream", sum);
    return {sum, rms_norm(tape, sum, norm, eps)};
  }
  if (answer.defined()) return add_rms_norm(tape, x, answer, norm, eps, stored);
  return {x, rms_norm(tape, x, norm, eps, stored)};
}

template <class Apply>
Model::Stream Model::run_branches(Tape& tape, Stream stream, std::size_t first, std::size_t last, const Apply& apply,
                                  Storage inputs) {
  if (first == 0) embedded_ = stream.x;
  for (std::size_t i = first; i < last; ++i) {
    const Tape::Scope scope(tape, branches_[i].scope);
    const Branch& branch = branches_[i];
    const Var norm = branch.norm != nullptr ? norm_weight(tape, *branch.norm, branch.norm_plus_one) : Var();
    if (!norm.defined() || branch.norm_behind) {
      const Var in = stream.settle(tape);
      tape.hook("stream", in);
      const Var out = apply(i, branch.reads_embedding ? with_embedding(tape, in) : in);
      stream = norm.defined() ? Stream{in, rms_norm(tape, out, norm, norm_eps_)} : Stream{out, {}};
    } else {
      const bool is_narrow = branch.layer->projects_once() && branch.blend_weight == nullptr;
      const Storage stored = is_narrow ? inputs : Storage::wide;
      const NormedSum in = stream.normed(tape, norm, norm_eps_, stored);
      stream = {in.sum, apply(i, in.normed)};
      if (branch.blend_weight != nullptr) {
        const Var gate =
            unary(tape, Unary::sigmoid,
                  linear(tape, in.normed, tape.parameter(*branch.blend_weight), tape.parameter(*branch.blend_bias)));
        stream.answer = multiply(tape, gate, add(tape, stream.answer, scale(tape, in.sum, -1)));
      }
    }
    if (norm.defined() && branch.output_scale != 1) stream.answer = scale(tape, stream.answer, branch.output_scale);
    tape.hook("output", norm.defined() ? stream.answer : stream.x);
  }
  return stream;
}

Var Model::with_embedding(Tape& tape, const Var& x) const {
  if (!embedded_.defined())
    throw BadInput(
        "a shared block reads the embedding again, which a pass that begins at a later layer does not have: "
        "this analysis cannot be computed for a model with shared blocks");
  return join_columns(tape, std::array{x, embedded_});
}

Var Model::look_up(Tape& tape, const Tensor& tokens) const {
  const Tape::Scope scope(tape, "embedding");
  const Var x = embedding(tape, tokens, tape.parameter(*embedding_));
  return embedding_scale_ != 1 ? scale(tape, x, embedding_scale_) : x;
}

// Computes embeddings for the places, too, and ignores them, so that all shapes are those of the sequence.
Var Model::embed(Tape& tape, const Tensor& tokens, const DropoutSource& dropped) {
  if (!memory_) return look_up(tape, tokens);
  if (tokens.shape[1] <= places())
    throw BadInput("a sequence of ", tokens.shape[1], " tokens leaves nothing behind ", places(),
                   " memory tokens; make it longer");
  return prepend_tokens(tape, memory_->memory_tokens(tape, dropped, 0), behind_places(tape, look_up(tape, tokens)));
}

/// x [B,T,d] without its first M positions.
Var Model::behind_places(Tape& tape, const Var& x) const {
  const std::int64_t count = x.shape()[0], front = places(), rest = x.shape()[1] - front;
  const std::int64_t widths[] = {front * width_, rest * width_};
  Var parts[2];
  tape.split_columns(tape.reshape(x, {count, (front + rest) * width_}), widths, parts);
  return tape.reshape(contiguous(tape, parts[1]), {count, rest, width_});
}

/// The memory token of a place, for each of `count` sequences: [count,1,d].
Var Model::place(Tape& tape, std::int64_t position, std::int64_t count) const {
  const Var tokens = tape.reshape(memory_->memory_tokens(tape, {}, 0), {1, places() * width_});
  const std::vector<std::int64_t> widths(static_cast<std::size_t>(places()), width_);
  std::vector<Var> parts(widths.size());
  tape.split_columns(tokens, widths, parts);
  const Var own = tape.reshape(contiguous(tape, parts[static_cast<std::size_t>(position)]), {width_});
  return tape.reshape(add_bias(tape, filled(tape, {count, width_}, own.value.dtype, 0.0), own), {count, 1, width_});
}

Tensor Model::memory_summary(Tape& tape) const {
  return memory_->summary(tape, behind_places(tape, tape.constant(last_hidden_)).value);
}

/// The normed last state, scaled as the logits are: the input of the head.
Var Model::last_state(Tape& tape, const Stream& stream) {
  const Var hidden = stream.normed(tape, norm_weight(tape, *norm_, norm_plus_one_), norm_eps_).normed;
  last_hidden_ = hidden.value;
  return logit_scale_ != 1 ? scale(tape, hidden, logit_scale_) : hidden;
}

Var Model::read_out(Tape& tape, const Stream& stream) {
  const Tape::Scope scope(tape, "head");
  return linear(tape, last_state(tape, stream), tape.parameter(*head_));
}

Var Model::forward_branches(Tape& tape, const Var& x, const Tensor& mask, std::size_t first, std::size_t last) {
  embedded_ = {};
  return run_layers(tape, {x, {}}, mask, first, last).settle(tape);
}

Model::Stream Model::run_layers(Tape& tape, const Stream& stream, const Tensor& mask, std::size_t first,
                                std::size_t last) {
  const auto forward = [&](std::size_t i, const Var& in) { return branches_[i].layer->forward(tape, in, mask); };
  return run_branches(tape, stream, first, last, forward, Storage::narrow);
}

Model::Stream Model::run_twice(Tape& tape, const Stream& stream, const Tensor& mask, std::size_t first,
                               std::size_t last) {
  const auto compute = [this, mask, first, last](Tape& same, const Tape::Pair& in) -> Tape::Pair {
    const Stream out = run_layers(same, {in[0], in[1]}, mask, first, last);
    return {out.x, out.answer};
  };
  const Var& x = stream.x;
  const bool answers = branches_[last - 1].norm != nullptr;
  const Tape::Pair out{tape.result(x.shape(), x.value.dtype, {x}),
                       answers ? tape.result(x.shape(), x.value.dtype, {x}) : Var()};
  tape.compute_twice({x, stream.answer}, out, compute);
  return {out[0], out[1]};
}

Model::Stream Model::run_blocks(Tape& tape, Stream stream, const Tensor& mask, std::size_t first, std::size_t last) {
  const bool keeps_all = !tape.recording() || tape.form() == PassForm::unfused;
  for (std::size_t begin = first, end = begin; begin < last; begin = end) {
    const int block = branches_[begin].block;
    while (end < last && branches_[end].block == block) ++end;
    const bool reads_embedding =
        branches_[begin].reads_embedding;  // it is not among what a second computation may read
    stream = keeps_all || reads_embedding || block >= recomputed_ ? run_layers(tape, stream, mask, begin, end)
                                                                  : run_twice(tape, stream, mask, begin, end);
  }
  return stream;
}

Var Model::forward(Tape& tape, const Tensor& tokens, const Tensor& mask, const DropoutSource& dropped) {
  return read_out(tape, run_layers(tape, {embed(tape, tokens, dropped), {}}, mask, 0, branches_.size()));
}

CrossEntropy Model::forward_loss(Tape& tape, const Tensor& tokens, const Tensor& mask, const Tensor& targets,
                                 std::int64_t max_answers, const DropoutSource& dropped) {
  Backend& backend = tape.backend();
  const bool drops_rows = max_answers < tokens.elements() && !memory_ && tape.form() != PassForm::unfused;
  AnsweredRows rows{{}, targets, {}};
  if (drops_rows) {
    const SideStream side_stream(backend);
    rows = answered_rows(tape, targets, std::max<std::int64_t>(1, max_answers));
  }
  Stream stream = run_blocks(tape, {embed(tape, tokens, dropped), {}}, mask, 0, mixing_);
  if (drops_rows) {
    backend.join_side_stream();
    stream = {gather_rows(tape, stream.x, stream.answer, rows), {}};
  }
  stream = run_blocks(tape, stream, mask, mixing_, branches_.size());
  if (has_wide_head(tokens.elements(), vocab_)) {
    const Tape::Scope scope(tape, "head");
    return head_cross_entropy(tape, last_state(tape, stream), tape.parameter(*head_), rows.targets);
  }
  const Var logits = read_out(tape, stream);
  const Tape::Scope scope(tape, "loss");
  return cross_entropy(tape, logits, rows.targets);
}

Var Model::forward_with(Tape& tape, const Var& x, std::size_t first,
                        const std::function<Var(std::size_t i, const Var& x)>& branch) {
  embedded_ = {};
  return read_out(tape, run_branches(tape, {x, {}}, first, branches_.size(), branch));
}

ModelState Model::make_state(Backend& backend, DType dtype, std::int64_t batch) const {
  return make_state(backend, dtype, batch, branches_.size());
}

ModelState Model::make_state(Backend& backend, DType dtype, std::int64_t batch, std::size_t count) const {
  ModelState state;
  state.places = places();
  for (std::size_t i = 0; i < count; ++i) state.layers.push_back(branches_[i].layer->make_state(backend, dtype, batch));
  return state;
}

Model::Stream Model::step_branches(Tape& tape, const Tensor& tokens, ModelState& state) {
  const bool is_place = state.position < state.places;
  const Var x = is_place ? place(tape, state.position, tokens.shape[0]) : look_up(tape, tokens);
  ++state.position;
  return run_branches(tape, {x, {}}, 0, state.layers.size(), [&](std::size_t i, const Var& in) {
    return branches_[i].layer->step(tape, in, state.layers[i]);
  });
}

Var Model::step(Tape& tape, const Tensor& tokens, ModelState& state) {
  return read_out(tape, step_branches(tape, tokens, state));
}

void Model::advance(Tape& tape, const Tensor& tokens, ModelState& state) { step_branches(tape, tokens, state); }

Model::Stream Model::at_last_token(Tape& tape, const Stream& stream) {
  const auto last = [&](const Var& x) -> Var {
    if (!x.defined()) return {};
    return tape.constant(gathered(tape, last_token(x.value)).reshaped({x.shape()[0], 1, x.shape()[2]}));
  };
  return {last(stream.x), last(stream.answer)};
}

Var Model::prefill(Tape& tape, const Tensor& tokens, const Tensor& mask, ModelState& state, Asked asked) {
  const auto read = [&](std::size_t i, const Var& x) {
    return branches_[i].layer->prefill(tape, x, mask, state.layers[i]);
  };
  const Stream stream = run_branches(tape, {embed(tape, tokens), {}}, 0, branches_.size(), read);
  state.position = tokens.shape[1];
  return read_out(tape, asked == Asked::last_token ? at_last_token(tape, stream) : stream);
}

}  // namespace afterglow
