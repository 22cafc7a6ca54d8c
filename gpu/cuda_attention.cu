// Softmax attention by tiles: scores live in shared memory a 32 x 32 tile at a time, never as a T x T matrix.
// The gradient recomputes them. Bound by arithmetic (float32 units) once T is a few hundred.
#include "gpu/cuda_backend.h"
#include "gpu/cuda_device.cuh"

namespace afterglow {

using namespace device;

namespace {

constexpr int tile = 32;  // queries and keys of a tile
constexpr int lanes = 8;  // threads that share a row; a block has 16 x 8 threads and each thread two rows
constexpr int block = 128;
constexpr int score_stride = tile + 4;

struct AttentionInputs {
  const float *q, *k, *v, *y, *log_sum, *dy;
  int batch, queries, keys, heads, key_heads, width;
  float scale;
  bool causal;

  __device__ int seen(int query) const { return causal ? query + keys - queries + 1 : keys; }  // keys that a query sees
  __device__ const float* query_row(const float* base, int b, int t, int h) const {
    return base + ((static_cast<std::size_t>(b) * queries + t) * heads + h) * width;
  }
  __device__ const float* key_row(const float* base, int b, int t, int h) const {
    return base + ((static_cast<std::size_t>(b) * keys + t) * key_heads + h) * width;
  }
};

/// A tile of rows in shared memory, zero-padded to `padded` columns; rows are 16-byte aligned and free of conflicts.
template <int padded>
struct Tile {
  static constexpr int stride = padded + 4;
  float* data;
  __device__ float* row(int i) const { return data + i * stride; }
};

template <int padded>
__device__ void load_tile(const Tile<padded>& to, const float* from, std::size_t from_stride, int rows, int width) {
  for (int i = static_cast<int>(threadIdx.x); i < tile * padded; i += block) {
    const int row = i / padded, column = i % padded;
    to.row(row)[column] = row < rows && column < width ? from[row * from_stride + column] : 0.0f;
  }
}

/// scores[i][j] = a[ty + 16 i] . b[tx + 8 j]
template <int padded>
__device__ void dot_rows(const Tile<padded>& a, const Tile<padded>& b, float (&scores)[2][4]) {
  const int tx = threadIdx.x % lanes, ty = threadIdx.x / lanes;
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) scores[i][j] = 0;
#pragma unroll 4
  for (int c = 0; c < padded; c += 4) {
    float4 left[2], right[4];
#pragma unroll
    for (int i = 0; i < 2; ++i) left[i] = *reinterpret_cast<const float4*>(a.row(ty + 16 * i) + c);
#pragma unroll
    for (int j = 0; j < 4; ++j) right[j] = *reinterpret_cast<const float4*>(b.row(tx + lanes * j) + c);
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        scores[i][j] +=
            left[i].x * right[j].x + left[i].y * right[j].y + left[i].z * right[j].z + left[i].w * right[j].w;
      }
  }
}

template <int padded>
struct Accumulator {
  static constexpr int parts = padded / (4 * lanes);
  float4 value[2][parts];

  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int s = 0; s < parts; ++s) value[i][s] = make_float4(0, 0, 0, 0);
  }
  __device__ void multiply(int i, float factor) {
#pragma unroll
    for (int s = 0; s < parts; ++s) {
      value[i][s].x *= factor;
      value[i][s].y *= factor;
      value[i][s].z *= factor;
      value[i][s].w *= factor;
    }
  }
  /// value[row] += sum over j of weights(row, j) rows[j]
  template <class Weight>
  __device__ void add_rows(const Tile<padded>& rows, const Weight& weight) {
    const int tx = threadIdx.x % lanes, ty = threadIdx.x / lanes;
#pragma unroll 4
    for (int j = 0; j < tile; ++j) {
      const float w[2] = {weight(ty, j), weight(ty + 16, j)};
#pragma unroll
      for (int s = 0; s < parts; ++s) {
        const float4 r = *reinterpret_cast<const float4*>(rows.row(j) + 4 * tx + 4 * lanes * s);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          value[i][s].x += w[i] * r.x;
          value[i][s].y += w[i] * r.y;
          value[i][s].z += w[i] * r.z;
          value[i][s].w += w[i] * r.w;
        }
      }
    }
  }
  /// Hands every number to put(column, number) for row ty + 16 i.
  template <class Put>
  __device__ void each(int i, int width, const Put& put) const {
    const int tx = threadIdx.x % lanes;
#pragma unroll
    for (int s = 0; s < parts; ++s) {
      const int column = 4 * tx + 4 * lanes * s;
      const float4 v = value[i][s];
      if (column < width) put(column, v.x);
      if (column + 1 < width) put(column + 1, v.y);
      if (column + 2 < width) put(column + 2, v.z);
      if (column + 3 < width) put(column + 3, v.w);
    }
  }
};

__device__ float row_sum(float x) {
  for (int offset = lanes / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(full_warp, x, offset);
  return x;
}
__device__ float row_max(float x) {
  for (int offset = lanes / 2; offset > 0; offset /= 2) x = fmaxf(x, __shfl_xor_sync(full_warp, x, offset));
  return x;
}

template <int padded>
constexpr int forward_bytes = (3 * tile * Tile<padded>::stride + tile * score_stride) * 4;
template <int padded>
constexpr int backward_bytes = (4 * tile * Tile<padded>::stride + 2 * tile * score_stride) * 4;

template <int padded>
__global__ void __launch_bounds__(block) attention_kernel(AttentionInputs in, float* y, float* log_sum) {
  extern __shared__ float4 memory[];
  float* shared = reinterpret_cast<float*>(memory);
  constexpr int size = tile * Tile<padded>::stride;
  const Tile<padded> q{shared}, k{shared + size}, v{shared + 2 * size};
  float* weights = shared + 3 * size;
  const int tx = threadIdx.x % lanes, ty = threadIdx.x / lanes;
  const int b = blockIdx.y / in.heads, h = blockIdx.y % in.heads, hk = h / (in.heads / in.key_heads);
  // Late queries see the most keys: they start first.
  const int first = static_cast<int>(gridDim.x - 1 - blockIdx.x) * tile, count = min(tile, in.queries - first);
  load_tile(q, in.query_row(in.q, b, first, h), static_cast<std::size_t>(in.heads) * in.width, count, in.width);
  Accumulator<padded> sum;
  sum.clear();
  float largest[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0};
  const int limit = min(in.keys, in.seen(first + count - 1));
  for (int key = 0; key < limit; key += tile) {
    __syncthreads();
    const std::size_t stride = static_cast<std::size_t>(in.key_heads) * in.width;
    load_tile(k, in.key_row(in.k, b, key, hk), stride, min(tile, in.keys - key), in.width);
    load_tile(v, in.key_row(in.v, b, key, hk), stride, min(tile, in.keys - key), in.width);
    __syncthreads();
    float scores[2][4];
    dot_rows(q, k, scores);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = ty + 16 * i, seen = min(in.keys, in.seen(first + row));
      float top = largest[i];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        scores[i][j] = key + tx + lanes * j < seen ? scores[i][j] * in.scale : -INFINITY;
        top = fmaxf(top, scores[i][j]);
      }
      top = row_max(top);
      const float shift = top == -INFINITY ? 0.0f : top;
      const float shrink = expf(largest[i] - shift);
      float part = 0;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float weight = expf(scores[i][j] - shift);
        weights[row * score_stride + tx + lanes * j] = weight;
        part += weight;
      }
      total[i] = total[i] * shrink + row_sum(part);
      largest[i] = top;
      sum.multiply(i, shrink);
    }
    __syncwarp();  // a row's weights are written and read by the same eight threads
    sum.add_rows(v, [&](int row, int j) { return weights[row * score_stride + j]; });
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = ty + 16 * i;
    if (row >= count) continue;
    const float inverse = total[i] > 0 ? 1.0f / total[i] : 0.0f;
    float* to = y + (in.query_row(in.q, b, first + row, h) - in.q);
    sum.each(i, in.width, [&](int column, float value) { to[column] = value * inverse; });
    if (tx == 0)
      log_sum[(static_cast<std::size_t>(b) * in.heads + h) * in.queries + first + row] = largest[i] + logf(total[i]);
  }
}

struct AttentionSinks {
  Sink q, k, v;
};

/// Softmax weights and the gradients of the scores of one tile, both [query][key], into shared memory.
template <int padded>
__device__ void score_gradients(const AttentionInputs& in, const Tile<padded>& q, const Tile<padded>& k,
                                const Tile<padded>& v, const Tile<padded>& dy, const float* log_sums,
                                const float* deltas, int query, int key, float* weights, float* dscores) {
  const int tx = threadIdx.x % lanes, ty = threadIdx.x / lanes;
  float scores[2][4], dweights[2][4];
  dot_rows(q, k, scores);
  dot_rows(dy, v, dweights);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = ty + 16 * i, seen = min(in.keys, in.seen(query + row));
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int column = tx + lanes * j;
      const bool counts = query + row < in.queries && key + column < seen;
      const float weight = counts ? expf(scores[i][j] * in.scale - log_sums[row]) : 0.0f;
      weights[row * score_stride + column] = weight;
      dscores[row * score_stride + column] = weight * (dweights[i][j] - deltas[row]) * in.scale;
    }
  }
}

/// log-sum-exp and dy . y of every query of a tile.
template <int padded>
__device__ void load_query_tile(const AttentionInputs& in, int b, int h, int first, const Tile<padded>& q,
                                const Tile<padded>& dy, float* log_sums, float* deltas) {
  const int count = min(tile, in.queries - first), tx = threadIdx.x % lanes;
  const std::size_t stride = static_cast<std::size_t>(in.heads) * in.width;
  load_tile(q, in.query_row(in.q, b, first, h), stride, count, in.width);
  load_tile(dy, in.query_row(in.dy, b, first, h), stride, count, in.width);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = static_cast<int>(threadIdx.x) / lanes + 16 * i;
    float sum = 0;
    if (row < count) {
      const float *up = in.query_row(in.dy, b, first + row, h), *out = in.query_row(in.y, b, first + row, h);
      for (int column = tx; column < in.width; column += lanes) sum += up[column] * out[column];
    }
    sum = row_sum(sum);
    if (tx == 0) {
      deltas[row] = sum;
      log_sums[row] =
          row < count ? in.log_sum[(static_cast<std::size_t>(b) * in.heads + h) * in.queries + first + row] : 0.0f;
    }
  }
}

template <int padded>
struct BackwardMemory {
  Tile<padded> q, k, v, dy;
  float *weights, *dscores, *log_sums, *deltas;
};

// One tile of queries against all its keys.
template <int padded>
__device__ void query_gradients(const AttentionInputs& in, const BackwardMemory<padded>& m, const Sink& dq, int b,
                                int h, int first) {
  const int hk = h / (in.heads / in.key_heads), count = min(tile, in.queries - first);
  load_query_tile(in, b, h, first, m.q, m.dy, m.log_sums, m.deltas);
  Accumulator<padded> sum;
  sum.clear();
  const int limit = min(in.keys, in.seen(first + count - 1));
  for (int key = 0; key < limit; key += tile) {
    __syncthreads();
    const std::size_t stride = static_cast<std::size_t>(in.key_heads) * in.width;
    load_tile(m.k, in.key_row(in.k, b, key, hk), stride, min(tile, in.keys - key), in.width);
    load_tile(m.v, in.key_row(in.v, b, key, hk), stride, min(tile, in.keys - key), in.width);
    __syncthreads();
    score_gradients(in, m.q, m.k, m.v, m.dy, m.log_sums, m.deltas, first, key, m.weights, m.dscores);
    __syncwarp();
    sum.add_rows(m.k, [&](int row, int j) { return m.dscores[row * score_stride + j]; });
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = static_cast<int>(threadIdx.x) / lanes + 16 * i;
    if (row >= count) continue;
    const std::size_t place = ((static_cast<std::size_t>(b) * in.queries + first + row) * in.heads + h) * in.width;
    sum.each(i, in.width, [&](int column, float value) { dq.put(static_cast<unsigned>(place + column), value); });
  }
}

// One tile of keys against all queries that see it, of every head that shares it, in order.
template <int padded>
__device__ void key_gradients(const AttentionInputs& in, const BackwardMemory<padded>& m, const Sink& dk,
                              const Sink& dv, int b, int hk, int first) {
  const int count = min(tile, in.keys - first), group = in.heads / in.key_heads;
  const std::size_t stride = static_cast<std::size_t>(in.key_heads) * in.width;
  load_tile(m.k, in.key_row(in.k, b, first, hk), stride, count, in.width);
  load_tile(m.v, in.key_row(in.v, b, first, hk), stride, count, in.width);
  Accumulator<padded> key_sum, value_sum;
  key_sum.clear();
  value_sum.clear();
  const int earliest = in.causal ? max(0, first - (in.keys - in.queries)) / tile * tile : 0;
  for (int h = hk * group; h < (hk + 1) * group; ++h) {
    for (int query = earliest; query < in.queries; query += tile) {
      __syncthreads();
      load_query_tile(in, b, h, query, m.q, m.dy, m.log_sums, m.deltas);
      __syncthreads();
      score_gradients(in, m.q, m.k, m.v, m.dy, m.log_sums, m.deltas, query, first, m.weights, m.dscores);
      __syncthreads();
      value_sum.add_rows(m.dy, [&](int row, int j) { return m.weights[j * score_stride + row]; });
      key_sum.add_rows(m.q, [&](int row, int j) { return m.dscores[j * score_stride + row]; });
    }
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = static_cast<int>(threadIdx.x) / lanes + 16 * i;
    if (row >= count) continue;
    const std::size_t place = ((static_cast<std::size_t>(b) * in.keys + first + row) * in.key_heads + hk) * in.width;
    if (dk.wanted()) {
      key_sum.each(i, in.width, [&](int column, float value) { dk.put(static_cast<unsigned>(place + column), value); });
    }
    if (dv.wanted()) {
      value_sum.each(i, in.width,
                     [&](int column, float value) { dv.put(static_cast<unsigned>(place + column), value); });
    }
  }
}

// Blocks below `query_blocks` make dq, the others dk and dv: both need only the saved sums, so they run side by side.
template <int padded>
__global__ void __launch_bounds__(block)
    attention_backward_kernel(AttentionInputs in, AttentionSinks out, unsigned query_tiles, unsigned query_blocks,
                              unsigned key_tiles) {
  extern __shared__ float4 memory[];
  __shared__ float log_sums[tile], deltas[tile];
  float* shared = reinterpret_cast<float*>(memory);
  constexpr int size = tile * Tile<padded>::stride;
  const BackwardMemory<padded> m{{shared},
                                 {shared + size},
                                 {shared + 2 * size},
                                 {shared + 3 * size},
                                 shared + 4 * size,
                                 shared + 4 * size + tile * score_stride,
                                 log_sums,
                                 deltas};
  if (blockIdx.x < query_blocks) {
    const int pair = static_cast<int>(blockIdx.x / query_tiles);
    const int first = static_cast<int>(query_tiles - 1 - blockIdx.x % query_tiles) * tile;
    if (out.q.wanted()) query_gradients(in, m, out.q, pair / in.heads, pair % in.heads, first);
  } else {
    const unsigned i = blockIdx.x - query_blocks;
    const int pair = static_cast<int>(i / key_tiles), first = static_cast<int>(i % key_tiles) * tile;
    if (out.k.wanted() || out.v.wanted()) {
      key_gradients(in, m, out.k, out.v, pair / in.key_heads, pair % in.key_heads, first);
    }
  }
}

AttentionInputs attention_inputs(const Tensor& q, const Tensor& k, const Tensor& v, double scale, bool causal) {
  return {q.as<float>(),
          k.as<float>(),
          v.as<float>(),
          nullptr,
          nullptr,
          nullptr,
          static_cast<int>(q.shape[0]),
          static_cast<int>(q.shape[1]),
          static_cast<int>(k.shape[1]),
          static_cast<int>(q.shape[2]),
          static_cast<int>(k.shape[2]),
          static_cast<int>(q.shape[3]),
          static_cast<float>(scale),
          causal};
}

template <int padded>
void launch_forward(cudaStream_t stream, const AttentionInputs& in, const Tensor& y, const Tensor& log_sum) {
  constexpr int bytes = forward_bytes<padded>;
  allow_shared_memory(reinterpret_cast<const void*>(attention_kernel<padded>), bytes, "attention");
  const dim3 grid(blocks_for(in.queries, tile), static_cast<unsigned>(in.batch * in.heads));
  attention_kernel<padded><<<grid, block, bytes, stream>>>(in, y.as<float>(), log_sum.as<float>());
}

template <int padded>
void launch_backward(cudaStream_t stream, const AttentionInputs& in, const AttentionSinks& out) {
  const float* to_q = out.q.rows.data;
  if (to_q != nullptr && (to_q == out.k.rows.data || to_q == out.v.rows.data)) {
    // Queries that are keys too: dq is written first and the rest is added.
    launch_backward<padded>(stream, in, {out.q, {}, {}});
    launch_backward<padded>(stream, in, {{}, out.k, out.v});
    return;
  }
  constexpr int bytes = backward_bytes<padded>;
  allow_shared_memory(reinterpret_cast<const void*>(attention_backward_kernel<padded>), bytes, "attention_backward");
  const unsigned query_tiles = blocks_for(in.queries, tile), key_tiles = blocks_for(in.keys, tile);
  const unsigned query_blocks = query_tiles * static_cast<unsigned>(in.batch * in.heads);
  const unsigned key_blocks = key_tiles * static_cast<unsigned>(in.batch * in.key_heads);
  attention_backward_kernel<padded>
      <<<query_blocks + key_blocks, block, bytes, stream>>>(in, out, query_tiles, query_blocks, key_tiles);
}

[[noreturn]] void too_wide(int width) {
  throw Error(ExitCode::failure, "the GPU's attention takes heads up to 128 wide, and these have " +
                                     std::to_string(width) + "; use more heads or --device cpu");
}

}  // namespace

void CudaBackend::attention(const Tensor& q, const Tensor& k, const Tensor& v, double scale, bool causal,
                            const Tensor& y, const Tensor& log_sum) {
  const AttentionInputs in = attention_inputs(q, k, v, scale, causal);
  if (q.elements() == 0) return;
  if (in.width <= 32) {
    launch_forward<32>(stream(), in, y, log_sum);
  } else if (in.width <= 64) {
    launch_forward<64>(stream(), in, y, log_sum);
  } else if (in.width <= 128) {
    launch_forward<128>(stream(), in, y, log_sum);
  } else {
    too_wide(in.width);
  }
  launched("attention");
}

void CudaBackend::attention_backward(const Tensor& q, const Tensor& k, const Tensor& v, double scale, bool causal,
                                     const Tensor& y, const Tensor& log_sum, const Tensor& dy, const Grad& dq,
                                     const Grad& dk, const Grad& dv) {
  AttentionInputs in = attention_inputs(q, k, v, scale, causal);
  if (q.elements() == 0) return;
  in.y = y.as<float>();
  in.log_sum = log_sum.as<float>();
  in.dy = dy.as<float>();
  const AttentionSinks out{sink_of(dq), sink_of(dk), sink_of(dv)};
  if (in.width <= 32) {
    launch_backward<32>(stream(), in, out);
  } else if (in.width <= 64) {
    launch_backward<64>(stream(), in, out);
  } else if (in.width <= 128) {
    launch_backward<128>(stream(), in, out);
  } else {
    too_wide(in.width);
  }
  launched("attention_backward");
}

}  // namespace afterglow
