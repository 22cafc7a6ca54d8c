// Shared by layers with softmax attention: storage of heads, key and value caches, attention weights for captures.
#include "core/layers/key_cache.h"

#include <limits>
#include <span>
#include <vector>

#include "core/analysis/attention/softmax.h"
#include "core/layers/host_values.h"

namespace afterglow {
namespace {

/// The matrix [T, width] of one head in a tensor [B, T, heads, width].
Tensor head_of(const Tensor& heads, std::int64_t batch, std::int64_t head) {
  const std::int64_t length = heads.shape[1], width = heads.shape[3];
  return heads.at(batch).reshaped({length, heads.shape[2] * width}).column_range(head * width, width);
}

}  // namespace

Storage heads_storage(const Backend& backend, const Shape& input, std::int64_t heads, std::int64_t key_heads,
                      std::int64_t width) {
  const auto sizes = [&](std::int64_t count) {
    return Tensor(nullptr, {input[0], input[1], count, width}, DType::f32);
  };
  return backend.plan(AttentionCall{sizes(heads), sizes(key_heads)}).stored;
}

Var as_heads(Tape& tape, const Var& projected, std::int64_t width) {
  if (projected.value.dtype == DType::bf16) return projected;
  const Shape& s = projected.shape();
  return tape.reshape(projected, {s[0], s[1], s[2] / width, width});
}

void make_room(LayerState& state, std::initializer_list<const char*> names) {
  state.has_cache = true;
  for (const char* name : names) {
    const Shape shape = state.get(name).shape;
    std::int64_t room = shape[1];
    while (room < state.position) room *= 2;
    if (room > shape[1]) state.grow(name, {shape[0], room, shape[2], shape[3]});
  }
}

Tensor append_tokens(Tape& tape, const Tensor& cache, const Tensor& newest, std::int64_t length) {
  const std::int64_t batch = cache.shape[0], token = cache.shape[2] * cache.shape[3], own = newest.elements() / batch;
  const Tensor flat = cache.reshaped({batch, cache.elements() / batch});
  tape.backend().copy(flat.column_range(length * token - own, own), newest.reshaped({batch, own}));
  return tokens_before(tape, cache, length);
}

Tensor tokens_before(Tape& tape, const Tensor& cache, std::int64_t length) {
  const std::int64_t batch = cache.shape[0], token = cache.shape[2] * cache.shape[3];
  const Shape seen{batch, length, cache.shape[2], cache.shape[3]};
  if (batch == 1) return Tensor(cache.data, seen, cache.dtype);
  const Tensor prefix = tape.scratch(seen, cache.dtype);
  const Tensor flat = cache.reshaped({batch, cache.elements() / batch});
  tape.backend().copy(prefix.reshaped({batch, length * token}), flat.column_range(0, length * token));
  return prefix;
}

// Masked scores, then the softmax of the cross-entropy kernel, with targets that count no row.
Tensor attention_weights(Tape& tape, const Tensor& q, const Tensor& k, double scale, std::int64_t window) {
  const std::int64_t batch = q.shape[0], length = q.shape[1], heads = q.shape[2];
  const DType dtype = q.dtype;
  Backend& backend = tape.backend();
  std::vector<double> hidden(static_cast<std::size_t>(length * length), 0.0);
  for (std::int64_t t = 0; t < length; ++t) {
    for (std::int64_t j = 0; j < length; ++j) {
      if (j > t || (window > 0 && j <= t - window)) hidden[t * length + j] = -std::numeric_limits<double>::infinity();
    }
  }
  const Tensor mask = to_device(tape, {length, length}, dtype, hidden);
  const Tensor scores = tape.scratch({batch * heads, length, length}, dtype);
  for (std::int64_t i = 0; i < batch * heads; ++i) {
    const std::int64_t key_head = i % heads / (heads / k.shape[2]);
    backend.gemm(false, true, scale, head_of(q, i / heads, i % heads), head_of(k, i / heads, key_head), 0.0,
                 scores.at(i));
    backend.add(scores.at(i), mask, scores.at(i));
  }
  const std::vector<std::int32_t> nothing(static_cast<std::size_t>(batch * heads * length), -1);
  const Tensor targets = tape.scratch({batch * heads * length}, DType::i32), one = tape.scratch({1}, DType::i32);
  backend.upload(targets, nothing.data());
  const Tensor weights = tape.scratch({batch, heads, length, length}, dtype);
  const Shape rows{batch * heads * length, length};
  backend.cross_entropy(scores.reshaped(rows), targets, weights.reshaped(rows), tape.scratch({1}, dtype), one, one);
  return weights;
}

// One query needs no mask, so the host computes it: a few numbers, and only for captures.
Tensor newest_weights(Tape& tape, const Tensor& q, const Tensor& k, double scale) {
  const std::int64_t batch = q.shape[0], heads = q.shape[2], width = q.shape[3], length = k.shape[1],
                     key_heads = k.shape[2];
  const std::vector<double> queries = to_host(tape.backend(), q), keys = to_host(tape.backend(), k);
  std::vector<double> weights(static_cast<std::size_t>(batch * heads * length), 0.0);
  for (std::int64_t row = 0; row < batch * heads; ++row) {
    const std::int64_t b = row / heads, key_head = row % heads / (heads / key_heads);
    const std::span of(weights.data() + row * length, static_cast<std::size_t>(length));
    for (std::int64_t j = 0; j < length; ++j) {
      const double* key = keys.data() + ((b * length + j) * key_heads + key_head) * width;
      for (std::int64_t i = 0; i < width; ++i) of[j] += scale * queries[row * width + i] * key[i];
    }
    softmax_in_place(of);
  }
  return to_device(tape, {batch, heads, length}, q.dtype, weights);
}

}  // namespace afterglow
