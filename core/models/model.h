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
#include "core/layers/spectral_memory.h"
#include "core/ops/ops.h"

namespace afterglow {

/// Of a whole stack.
inline constexpr std::int64_t max_blocks = 1024;

/// One residual branch of the stack: x += layer(norm(x)), or x = layer(x) for a layer that is a whole block.
struct Branch {
  int block = 0;       ///< which one of the stack
  std::string scope;   ///< "layers.1.ska": prefix of its parameters and captures
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
  std::int64_t position = 0;  ///< tokens seen, places of memory tokens among them
  std::int64_t places = 0;    ///< of these the first, where memory tokens stand
  std::size_t bytes() const;
  /// From here on no layer's scale changes, see LayerState::keeps_scale.
  void keep_scales();
  /// Whether the steps from here on differ in their tokens only, so that one of them, recorded, serves for all. Known
  /// after the first.
  bool steps_are_alike() const;
};

class Model {
 public:
  /// config: {"d_model": 64, "vocab": 128, "tie_embedding": false, "blocks": [{"mixer": {"kind": "mamba2", ..},
  /// "mlp": {"kind": "swiglu", ..}, "repeat": 2}, ..]}. Each block may leave out one of the two. The width is filled
  /// in. Anything unknown or impossible is an Error(bad_input) that names block and field. With "memory":
  /// {"n_components": 16, "memory_tokens": 4, ..} (the fields of read_spectral_memory, and `dropout`) the first M
  /// positions of every sequence are places: whatever token is given there, the memory tokens of training stand in its
  /// stead. With "retrieval": {"beta": 0.5, "jumps": 2, ..} (core/layers/written/retrieval_network.h) in the place of
  /// "blocks" it is the network of Sessa's theorem 12, with the weights of its proof.
  Model(const nlohmann::json& config, ParameterStore& store);

  std::int64_t width() const { return width_; }
  std::int64_t vocab() const { return vocab_; }
  const std::vector<Branch>& branches() const { return branches_; }

  /// The memory of training; null without one.
  SpectralMemory* memory() const { return memory_.get(); }
  /// Takes the memory of training and the live settings of a model of the same configuration; weights are the store's.
  void follow(const Model& other, Backend& backend, DType dtype);
  /// Places in front of every sequence, M; 0 without memory.
  std::int64_t places() const { return memory_ ? memory_->config().tokens : 0; }
  double memory_dropout() const { return memory_dropout_; }

  /// tokens i32 [B,T] -> logits [B,T,V]. `mask` u8 [B,T] or undefined, see Layer::forward. `dropped` acts in the
  /// projection of the memory. With places T must be larger than their number.
  Var forward(Tape& tape, const Tensor& tokens, const Tensor& mask, const DropoutSource& dropped = {});
  /// The cross-entropy of those logits, targets i32 [B,T], of which no batch has more than `most_answers`: behind the
  /// last layer that mixes tokens only rows with a target go on, where these are fewer than all, `tape` has no visitor
  /// and the model no memory. Where logits are many (has_wide_head) they never exist at once and there are no
  /// probabilities.
  CrossEntropy forward_loss(Tape& tape, const Tensor& tokens, const Tensor& mask, const Tensor& targets,
                            std::int64_t most_answers, const DropoutSource& dropped = {});
  /// Of the first `blocks` blocks `forward_loss` keeps for its gradient only what goes in and out, and computes the
  /// rest again on the way back (Tape::compute_twice).
  void recompute(std::int64_t blocks) { recomputed_ = blocks; }
  /// The first parameter that meets answered rows alone in `forward_loss`, as all behind it do; null with a memory.
  const Parameter* first_answering() const;
  /// The residual stream before the first branch: tokens i32 [B,T] -> [B,T,d].
  Var embed(Tape& tape, const Tensor& tokens, const DropoutSource& dropped = {});
  /// [1,d]: what the last pass leaves in the memory's history, pooled over the normed states behind the places.
  Tensor memory_summary(Tape& tape) const;
  /// The stream behind branches [first, last) when x [B,T,d] is the stream before them.
  Var forward_branches(Tape& tape, const Var& x, const Tensor& mask, std::size_t first, std::size_t last);
  /// The normed state that the head read in the last pass, [B,T,d], or [1,m,d] where `forward_loss` let only answered
  /// rows go on (zeros in rows that no target has); valid until the tape begins anew.
  const Tensor& last_hidden() const { return last_hidden_; }
  /// Logits of x [B,T,d], the stream before branch `first`; branch i is answered by `branch(i, x)`, x [B,T,d] its
  /// normed input. For captures that replace a layer.
  Var forward_with(Tape& tape, const Var& x, std::size_t first,
                   const std::function<Var(std::size_t i, const Var& x)>& branch);
  ModelState make_state(Backend& backend, DType dtype, std::int64_t batch) const;
  /// Of the first `count` branches alone, for `advance`.
  ModelState make_state(Backend& backend, DType dtype, std::int64_t batch, std::size_t count) const;
  /// tokens i32 [B,1] -> logits [B,1,V], advancing the state.
  Var step(Tape& tape, const Tensor& tokens, ModelState& state);
  /// A prompt at once: what `forward` answers to it, and in `state`, which must be new, what its tokens leave of every
  /// layer, so that `step` goes on behind it (Echo 3.2.2, prefix mode). A layer's state is that of the inputs which it
  /// had here: in prefix mode those of a layer above `ska` know the whole prompt, token by token only what has come.
  Var prefill(Tape& tape, const Tensor& tokens, const Tensor& mask, ModelState& state);
  /// The same where no answer is wanted: as many branches as the state has, and no head.
  void advance(Tape& tape, const Tensor& tokens, ModelState& state);

 private:
  void add_retrieval(const nlohmann::json& config, const std::string& where, const ParameterScope& root);
  void add_memory(const nlohmann::json& config, const std::string& where, const ParameterScope& root);
  void add_branch(const nlohmann::json& config, const std::string& where, int block, const char* role,
                  const ParameterScope& root);
  /// The stream x, to which what the last branch answered is still to be added.
  struct Stream {
    Var x, answer;
    Var settle(Tape& tape) const;
    /// The same as one value and its norm.
    NormedSum normed(Tape& tape, const Parameter& norm, double eps, Storage stored = Storage::wide) const;
  };
  template <class Apply>
  Stream run_branches(Tape& tape, Stream stream, std::size_t first, std::size_t last, const Apply& apply,
                      Storage inputs = Storage::wide);
  Stream run_layers(Tape& tape, const Stream& stream, const Tensor& mask, std::size_t first, std::size_t last);
  /// The same for a part of the branches of one block.
  Stream run_twice(Tape& tape, const Stream& stream, const Tensor& mask, std::size_t first, std::size_t last);
  /// The same, block by block, those twice that are to be computed again.
  Stream run_blocks(Tape& tape, Stream stream, const Tensor& mask, std::size_t first, std::size_t last);
  Stream step_branches(Tape& tape, const Tensor& tokens, ModelState& state);
  Var last_state(Tape& tape, const Stream& stream);
  Var read_out(Tape& tape, const Stream& stream);
  Var look_up(Tape& tape, const Tensor& tokens) const;
  Var behind_places(Tape& tape, const Var& x) const;
  Var place(Tape& tape, std::int64_t position, std::int64_t count) const;

  ParameterStore* store_;
  std::int64_t width_ = 0, vocab_ = 0;
  double norm_eps_ = 1e-5;
  const Parameter* embedding_ = nullptr;
  const Parameter* norm_ = nullptr;
  const Parameter* head_ = nullptr;
  std::vector<Branch> branches_;
  std::int64_t recomputed_ = 0;
  std::size_t mixing_ = 0;  // so many branches in front; those behind them work position by position
  std::unique_ptr<SpectralMemory> memory_;
  double memory_dropout_ = 0.1;
  Tensor last_hidden_;
};

}  // namespace afterglow
