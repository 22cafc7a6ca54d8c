// Shared by layers with softmax attention: storage of heads, caches that grow with every token, and the weights as a
// capture.
#pragma once
#include <initializer_list>

#include "core/layers/layer.h"

namespace afterglow {

/// Storage of heads projected from inputs [B, T, d]: narrow where the back end has tiled attention for them.
Storage heads_storage(const Backend& backend, const Shape& input, std::int64_t heads, std::int64_t key_heads,
                      std::int64_t width);
/// A projection as heads [B, T, heads, width]; narrow ones stay [B, T, heads width], which the kernel reads strided.
Var as_heads(Tape& tape, const Var& projected, std::int64_t width);
/// Doubles the caches [B, capacity, heads, width] of a state when the token at `state.position` - 1 does not fit.
void make_room(LayerState& state, std::initializer_list<const char*> names);
/// Writes the newest tokens [B, n, heads, width] into a cache; returns its first `length` tokens, contiguous.
Tensor append_tokens(Tape& tape, const Tensor& cache, const Tensor& newest, std::int64_t length);
/// The first `length` tokens of such a result or of a cache, contiguous.
Tensor tokens_before(Tape& tape, const Tensor& cache, std::int64_t length);
/// The causal softmax weights [B, H, T, T] of q [B, T, H, D] and k [B, T, Hkv, D], with a `window` on so many newest
/// keys; the operation itself never stores them.
Tensor attention_weights(Tape& tape, const Tensor& q, const Tensor& k, double scale, std::int64_t window = 0);
/// The softmax weights [B, H, T] of one query q [B, 1, H, D] on keys k [B, T, Hkv, D].
Tensor newest_weights(Tape& tape, const Tensor& q, const Tensor& k, double scale);

}  // namespace afterglow
