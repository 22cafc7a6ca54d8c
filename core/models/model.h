// A language model over a small vocabulary: embedding, a stack of pre-norm residual blocks (mixer, MLP), norm, head.
// A JSON configuration may stack any layers of core/layers; the model runs whole sequences and single tokens.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/layers/layer.h"
#include "core/layers/spectral_memory.h"
#include "core/ops/ops.h"

namespace afterglow {

/// Most blocks of a stack.
inline constexpr std::int64_t max_blocks = 1024;

/// One residual branch of the stack: x += output_scale layer(norm(x)), or x += output_scale norm(layer(x)) with the
/// norm after, or x = layer(x) for a layer that is a whole block.
struct Branch {
  int block = 0;       ///< index in the stack
  std::string scope;   ///< "layers.1.ska": prefix of its parameters and captures
  std::string label;   ///< "1 ska"
  std::string detail;  ///< "r 16 · K 2 · H 4"
  int heads = 0;
  const Parameter* norm = nullptr;  ///< null for a whole block
  bool norm_behind = false, norm_plus_one = false;
  bool reads_embedding = false;  ///< its layer reads [x, embedding]
  double output_scale = 1;
  /// Of a block with `blend`: x becomes (1 - g) x + g y with g = sigmoid(weight norm(x) + bias), in each channel.
  const Parameter *blend_weight = nullptr, *blend_bias = nullptr;
  /// The weight of a norm in front, whose answer is added as it is; null for other branches.
  const Parameter* plain_norm() const {
    return norm_behind || norm_plus_one || output_scale != 1 || blend_weight != nullptr ? nullptr : norm;
  }
  const Parameter* first = nullptr;  ///< first of its parameters in the flat buffers
  std::unique_ptr<Layer> layer;
};

/// States of all branches, in their order.
struct ModelState {
  std::vector<LayerState> layers;
  std::int64_t position = 0;  ///< tokens so far, including the places of memory tokens
  std::int64_t places = 0;    ///< how many of these are places of memory tokens, which come first
  std::size_t bytes() const;
  /// Freezes the scales of all layers, see LayerState::keeps_scale.
  void keep_scales();
  /// Whether all further steps launch the same work with other tokens, so that one recorded step can be replayed. Valid
  /// after the first step.
  bool steps_are_alike() const;
};

class Model {
 public:
  /// config: {"d_model": 64, "vocab": 128, "tie_embedding": false, "blocks": [{"mixer": {"kind": "mamba2", ..},
  /// "mlp": {"kind": "swiglu", ..}, "repeat": 2}, ..]}. Each block may leave out one of the two. The width is filled
  /// in. A block's `norm` is `before` or `behind` its layers, and `output_scale` multiplies what they add. The model's
  /// `norm_plus_one` lets all norms of blocks and the last one multiply by 1 + weight; `embedding_scale` and
  /// `logit_scale` multiply embeddings and logits. Anything unknown or impossible is an Error(bad_input) that names
  /// block and field. With "memory":
  /// {"n_components": 16, "memory_tokens": 4, ..} (the fields of read_spectral_memory, and `dropout`) the first M
  /// positions of every sequence are places: the memory tokens of training replace the tokens given there. With
  /// "retrieval": {"beta": 0.5, "jumps": 2, ..} (core/layers/written/retrieval_network.h) instead of "blocks" it is the
  /// network of Sessa's theorem 12, with the weights of its proof.
  Model(const nlohmann::json& config, ParameterStore& store);

  std::int64_t width() const { return width_; }
  std::int64_t vocab() const { return vocab_; }
  const std::vector<Branch>& branches() const { return branches_; }

  /// The memory of training; null without one.
  SpectralMemory* memory() const { return memory_.get(); }
  /// Copies memory of training and live settings from a model of the same configuration; the store holds the weights.
  void follow(const Model& other, Backend& backend, DType dtype);
  /// Places at the start of every sequence, M; 0 without memory.
  std::int64_t places() const { return memory_ ? memory_->config().tokens : 0; }
  double memory_dropout() const { return memory_dropout_; }

  /// tokens i32 [B,T] -> logits [B,T,V]. `mask` u8 [B,T] or undefined, see Layer::forward. `dropped` applies to
  /// the projection of the memory. With places T must be larger than their number.
  Var forward(Tape& tape, const Tensor& tokens, const Tensor& mask, const DropoutSource& dropped = {});
  /// The cross-entropy of those logits, targets i32 [B,T], of which no batch has more than `max_answers`. After the
  /// last layer that mixes tokens it computes only rows with a target, where these are fewer than all, `tape` has no
  /// visitor and the model no memory. Where logits are many (has_wide_head) they never exist at once, and there are no
  /// probabilities.
  CrossEntropy forward_loss(Tape& tape, const Tensor& tokens, const Tensor& mask, const Tensor& targets,
                            std::int64_t max_answers, const DropoutSource& dropped = {});
  /// Gradient checkpointing: of the first `blocks` blocks `forward_loss` saves only inputs and outputs; the backward
  /// pass computes the rest again (Tape::compute_twice).
  void recompute(std::int64_t blocks) { recomputed_ = blocks; }
  /// The residual stream before the first branch: tokens i32 [B,T] -> [B,T,d].
  Var embed(Tape& tape, const Tensor& tokens, const DropoutSource& dropped = {});
  /// [1,d]: the summary of the last pass for the memory's history, pooled over the normed states after the places.
  Tensor memory_summary(Tape& tape) const;
  /// The residual stream after branches [first, last), given the stream x [B,T,d] before them.
  Var forward_branches(Tape& tape, const Var& x, const Tensor& mask, std::size_t first, std::size_t last);
  /// The normed state that the head read in the last pass, [B,T,d], or [1,m,d] where `forward_loss` computed only
  /// rows with a target (zeros in rows without one); valid until the tape begins anew.
  const Tensor& last_hidden() const { return last_hidden_; }
  /// Logits of x [B,T,d], the stream before branch `first`; `branch(i, x)` computes branch i, x [B,T,d] its normed
  /// input. For captures that replace a layer.
  Var forward_with(Tape& tape, const Var& x, std::size_t first,
                   const std::function<Var(std::size_t i, const Var& x)>& branch);
  ModelState make_state(Backend& backend, DType dtype, std::int64_t batch) const;
  /// The state of the first `count` branches, for `advance`.
  ModelState make_state(Backend& backend, DType dtype, std::int64_t batch, std::size_t count) const;
  /// tokens i32 [B,1] -> logits [B,1,V], advancing the state.
  Var step(Tape& tape, const Tensor& tokens, ModelState& state);
  /// A prompt at once: returns the logits of `forward` and fills `state`, which must be new, with the state of every
  /// layer after the prompt, so that `step` continues it (Echo 3.2.2, prefix mode). The states come from the inputs of
  /// this pass: in prefix mode inputs of layers above `ska` depend on the whole prompt, in `step` on earlier tokens
  /// only. With `Asked::last_token` the logits [B,1,V] of that alone.
  enum class Asked { every_token, last_token };
  Var prefill(Tape& tape, const Tensor& tokens, const Tensor& mask, ModelState& state,
              Asked asked = Asked::every_token);
  /// The same without logits: only the branches that the state has, and no head.
  void advance(Tape& tape, const Tensor& tokens, ModelState& state);

 private:
  void add_retrieval(const nlohmann::json& config, const std::string& where, const ParameterScope& root);
  void add_memory(const nlohmann::json& config, const std::string& where, const ParameterScope& root);
  void add_blend(Branch& branch, const nlohmann::json& entry, const std::string& here, const ParameterScope& root);
  Branch& add_branch(const nlohmann::json& config, const std::string& where, int block, const char* role,
                     const ParameterScope& root);
  /// The residual stream x, and the output of the last branch, which is not added yet.
  struct Stream {
    Var x, answer;
    Var settle(Tape& tape) const;
    /// The sum of both as one value, and its norm.
    NormedSum normed(Tape& tape, const Var& norm, double eps, Storage stored = Storage::wide) const;
  };
  template <class Apply>
  Stream run_branches(Tape& tape, Stream stream, std::size_t first, std::size_t last, const Apply& apply,
                      Storage inputs = Storage::wide);
  Stream run_layers(Tape& tape, const Stream& stream, const Tensor& mask, std::size_t first, std::size_t last);
  /// The same for a part of the branches of one block.
  Stream run_twice(Tape& tape, const Stream& stream, const Tensor& mask, std::size_t first, std::size_t last);
  /// The same, block by block, with gradient checkpointing for the first `recomputed_` blocks.
  Stream run_blocks(Tape& tape, Stream stream, const Tensor& mask, std::size_t first, std::size_t last);
  Stream step_branches(Tape& tape, const Tensor& tokens, ModelState& state);
  static Stream at_last_token(Tape& tape, const Stream& stream);
  Var last_state(Tape& tape, const Stream& stream);
  /// [x, embedding] for a branch that reads both. Throws Error(bad_input) in a pass that began at a later branch.
  Var with_embedding(Tape& tape, const Var& x) const;
  Var read_out(Tape& tape, const Stream& stream);
  Var look_up(Tape& tape, const Tensor& tokens) const;
  Var behind_places(Tape& tape, const Var& x) const;
  Var place(Tape& tape, std::int64_t position, std::int64_t count) const;

  ParameterStore* store_;
  std::int64_t width_ = 0, vocab_ = 0;
  double norm_eps_ = 1e-5, embedding_scale_ = 1, logit_scale_ = 1;
  bool norm_plus_one_ = false;
  const Parameter* embedding_ = nullptr;
  const Parameter* norm_ = nullptr;
  const Parameter* head_ = nullptr;
  std::vector<Branch> branches_;
  std::int64_t recomputed_ = 0;
  std::size_t mixing_ = 0;  // number of branches up to the last that mixes tokens; later ones work position by position
  std::unique_ptr<SpectralMemory> memory_;
  double memory_dropout_ = 0.1;
  Tensor last_hidden_;
  Var embedded_;  // the stream before the first branch; undefined in a pass that begins at a later one
};

}  // namespace afterglow
