// What layers with softmax attention share: how heads are stored, caches that grow with every token, and the weights as
// a capture.
#pragma once
#include <initializer_list>

#include "core/layers/layer.h"

namespace afterglow {

inline constexpr std::int64_t first_cache_capacity = 64;

/// How heads that are projected from inputs [B, T, d] may be stored: narrow where the back end reads them by tiles.
Storage heads_storage(const Backend& backend, const Shape& input, std::int64_t heads, std::int64_t key_heads,
                      std::int64_t width);
/// What was projected, as heads [B, T, heads, width]; narrow ones are read as they lie, [B, T, heads width].
Var as_heads(Tape& tape, const Var& projected, std::int64_t width);
/// For a state that has caches: doubles the caches [B, capacity, heads, width] when the token at `state.position` - 1
/// has no place in them.
void make_room(LayerState& state, std::initializer_list<const char*> names);
/// Puts the newest token's rows [B, 1, heads, width] into a cache and answers the cache's first `length` tokens,
/// contiguous.
Tensor append_token(Tape& tape, const Tensor& cache, const Tensor& newest, std::int64_t length);
/// The first `length` tokens of such an answer or of a cache, contiguous.
Tensor tokens_before(Tape& tape, const Tensor& cache, std::int64_t length);
/// The causal softmax weights [B, H, T, T] of q [B, T, H, D] and k [B, T, Hkv, D], which the operation never holds.
Tensor attention_weights(Tape& tape, const Tensor& q, const Tensor& k, double scale);
/// The softmax weights [B, H, T] of one query q [B, 1, H, D] on keys k [B, T, Hkv, D].
Tensor newest_weights(Tape& tape, const Tensor& q, const Tensor& k, double scale);

}  // namespace afterglow
