// Builds a stack of layers from JSON and runs it.
#include "core/models/model.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/io/error.h"
#include "core/io/json_file.h"
#include "core/ops/ops.h"

namespace afterglow {

namespace {

using nlohmann::json;

// The field by which a layer calls the model's width (golden/README.md keeps the papers' names).
const char* width_field(const std::string& kind) {
  if (kind == "sessa") return "D";
  if (kind == "gka") return "hidden_size";
  return kind.rfind("mamba", 0) == 0 ? "d_model" : "d";
}

// What a person wants to see of a layer's configuration, in the papers' letters.
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

int heads_of(const json& config) {
  for (const char* field : {"H", "n_heads", "num_heads"}) {
    if (config.contains(field) && config[field].is_number_integer()) return config[field].get<int>();
  }
  return 0;
}

}  // namespace

std::size_t ModelState::bytes() const {
  std::size_t total = 0;
  for (const LayerState& layer : layers) total += layer.bytes();
  return total;
}

Model::Model(const json& config, ParameterStore& store) : store_(&store) {
  const std::string where = "model";
  refuse_unknown_keys(config, {"d_model", "vocab", "tie_embedding", "norm_eps", "blocks"}, where);
  width_ = get_integer(config, "d_model", std::nullopt, 1, 65536, where);
  vocab_ = get_integer(config, "vocab", std::nullopt, 2, 1 << 20, where);
  norm_eps_ = get_number(config, "norm_eps", 1e-5, 0.0, 1.0, where);
  const ParameterScope root(store, "");
  embedding_ = &root.add("embedding.weight", {vocab_, width_}, normal(0.02));
  if (!config.contains("blocks") || !config["blocks"].is_array()) {
    throw Error(ExitCode::bad_input,
                "model.blocks: expected a list of blocks such as {\"mixer\": {\"kind\": \"ska\"}}");
  }
  int block = 0;
  for (const json& entry : config["blocks"]) {
    const std::string here = "model.blocks[" + std::to_string(block) + "]";
    refuse_unknown_keys(entry, {"mixer", "mlp", "repeat"}, here);
    const std::int64_t repeat = get_integer(entry, "repeat", 1, 1, 1024, here);
    for (std::int64_t i = 0; i < repeat; ++i, ++block) {
      for (const char* role : {"mixer", "mlp"}) {
        if (entry.contains(role)) add_branch(entry[role], here + "." + role, block, role, root);
      }
    }
  }
  norm_ = &root.add("norm.weight", {width_}, constant(1.0));
  const bool tied = get_bool(config, "tie_embedding", false, where);
  head_ = tied ? embedding_ : &root.add("head.weight", {vocab_, width_}, normal(0.02));
}

void Model::add_branch(const json& config, const std::string& where, int block, const char* role,
                       const ParameterScope& root) {
  if (!config.is_object() || !config.contains("kind") || !config["kind"].is_string()) {
    throw Error(ExitCode::bad_input, where + ": expected an object with a \"kind\", such as {\"kind\": \"ska\"}");
  }
  json filled = config;
  const std::string kind = filled["kind"].get<std::string>();
  filled.erase("kind");
  if (!filled.contains(width_field(kind))) filled[width_field(kind)] = width_;
  const ParameterScope scope = root.scope("layers." + std::to_string(block));
  Branch branch;
  branch.scope = scope.prefix() + "." + kind;
  branch.label = std::to_string(block) + " " + kind;
  branch.detail = detail_of(filled);
  branch.heads = heads_of(filled);
  const std::size_t parameters_before = store_->all().size();
  const LayerKind* known = find_layer_kind(kind);
  if (known == nullptr || !known->whole_block)
    branch.norm = &scope.add(std::string(role) + "_norm.weight", {width_}, constant(1.0));
  try {
    branch.layer = make_layer(kind, filled, scope.scope(kind));
  } catch (const Error& error) {
    throw Error(error.code(), where + ": " + error.what());
  }
  branch.first = &store_->all()[parameters_before];
  branches_.push_back(std::move(branch));
}

template <class Apply>
Var Model::run_branches(Tape& tape, Var x, std::size_t first, std::size_t last, const Apply& apply) {
  for (std::size_t i = first; i < last; ++i) {
    const Tape::Scope scope(tape, branches_[i].scope);
    const Parameter* norm = branches_[i].norm;
    x = norm == nullptr ? apply(i, x) : add(tape, x, apply(i, rms_norm(tape, x, tape.parameter(*norm), norm_eps_)));
  }
  return x;
}

Var Model::embed(Tape& tape, const Tensor& tokens) {
  const Tape::Scope scope(tape, "embedding");
  return embedding(tape, tokens, tape.parameter(*embedding_));
}

Var Model::read_out(Tape& tape, const Var& x) {
  const Tape::Scope scope(tape, "head");
  const Var hidden = rms_norm(tape, x, tape.parameter(*norm_), norm_eps_);
  last_hidden_ = hidden.value;
  return linear(tape, hidden, tape.parameter(*head_));
}

Var Model::forward_branches(Tape& tape, const Var& x, const Tensor& mask, std::size_t first, std::size_t last) {
  return run_branches(tape, x, first, last,
                      [&](std::size_t i, const Var& in) { return branches_[i].layer->forward(tape, in, mask); });
}

Var Model::forward(Tape& tape, const Tensor& tokens, const Tensor& mask) {
  return read_out(tape, forward_branches(tape, embed(tape, tokens), mask, 0, branches_.size()));
}

Var Model::forward_with(Tape& tape, const Var& x, std::size_t first,
                        const std::function<Var(std::size_t i, const Var& x)>& branch) {
  return read_out(tape, run_branches(tape, x, first, branches_.size(), branch));
}

ModelState Model::make_state(Backend& backend, DType dtype, std::int64_t batch) const {
  ModelState state;
  for (const Branch& branch : branches_) state.layers.push_back(branch.layer->make_state(backend, dtype, batch));
  return state;
}

Var Model::step(Tape& tape, const Tensor& tokens, ModelState& state) {
  return read_out(tape, run_branches(tape, embed(tape, tokens), 0, branches_.size(), [&](std::size_t i, const Var& in) {
                    return branches_[i].layer->step(tape, in, state.layers[i]);
                  }));
}

}  // namespace afterglow
