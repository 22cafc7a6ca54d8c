// A language model over a small vocabulary: embedding, a stack of pre-norm residual blocks (mixer, MLP), norm, head.
// Any stack of the layers in core/layers can be written as JSON; the same model runs whole sequences and single tokens.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/layers/layer.h"

namespace afterglow {

/// One residual branch of the stack: x += layer(norm(x)), or x = layer(x) for a layer that is a whole block.
struct Branch {
  std::string scope;   ///< "layers.1.ska": prefix of its parameters and probes
  std::string label;   ///< "1 ska"
  std::string detail;  ///< "r 16 · K 2 · H 4"
  int heads = 0;
  const Parameter* norm = nullptr;   ///< none for a whole block
  const Parameter* first = nullptr;  ///< first of its parameters in the flat buffers
  std::unique_ptr<Layer> layer;
};

/// States of all branches, in their order.
struct ModelState {
  std::vector<LayerState> layers;
  std::size_t bytes() const;
};

class Model {
 public:
  /// config: {"d_model": 64, "vocab": 128, "tie_embedding": false, "blocks": [{"mixer": {"kind": "mamba2", ..},
  /// "mlp": {"kind": "swiglu", ..}, "repeat": 2}, ..]}. Each block may leave out one of the two. The width is filled
  /// in. Anything unknown or impossible is an Error(bad_input) that names block and field.
  Model(const nlohmann::json& config, ParameterStore& store);

  std::int64_t width() const { return width_; }
  std::int64_t vocab() const { return vocab_; }
  const std::vector<Branch>& branches() const { return branches_; }

  /// tokens i32 [B,T] -> logits [B,T,V]. `mask` u8 [B,T] or undefined, see Layer::forward.
  Var forward(Tape& tape, const Tensor& tokens, const Tensor& mask);
  /// The residual stream before the first branch: tokens i32 [B,T] -> [B,T,d].
  Var embed(Tape& tape, const Tensor& tokens);
  /// The stream behind branches [first, last) when x [B,T,d] is the stream before them.
  Var forward_branches(Tape& tape, const Var& x, const Tensor& mask, std::size_t first, std::size_t last);
  /// The normed state [B,T,d] that the head read in the last pass; valid until the tape begins anew.
  const Tensor& last_hidden() const { return last_hidden_; }
  /// Logits of x [B,T,d], the stream before branch `first`; branch i is answered by `branch(i, x)`, x [B,T,d] its
  /// normed input. For probes that replace a layer.
  Var forward_with(Tape& tape, const Var& x, std::size_t first,
                   const std::function<Var(std::size_t i, const Var& x)>& branch);
  ModelState make_state(Backend& backend, DType dtype, std::int64_t batch) const;
  /// tokens i32 [B,1] -> logits [B,1,V], advancing the state.
  Var step(Tape& tape, const Tensor& tokens, ModelState& state);

 private:
  void add_branch(const nlohmann::json& config, const std::string& where, int block, const char* role,
                  const ParameterScope& root);
  template <class Apply>
  Var run_branches(Tape& tape, Var x, std::size_t first, std::size_t last, const Apply& apply);
  Var read_out(Tape& tape, const Var& x);

  ParameterStore* store_;
  std::int64_t width_ = 0, vocab_ = 0;
  double norm_eps_ = 1e-5;
  const Parameter* embedding_ = nullptr;
  const Parameter* norm_ = nullptr;
  const Parameter* head_ = nullptr;
  std::vector<Branch> branches_;
  Tensor last_hidden_;
};

}  // namespace afterglow
