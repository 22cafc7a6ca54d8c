// Gated KalmaNet's core on tensor cores: bfloat16 operands, float32 sums. A warp holds 16 tokens of a chunk and all W
// columns of their rows in registers, in the accumulator layout of mma.m16n8k16: lane 4 g + t holds rows g and g + 8,
// and of every 8 columns 2 t and 2 t + 1. Two neighbouring accumulators, rounded, are the left operand of the next
// product, so an iteration needs no exchange between lanes or warps. States and panels are right operands in shared
// memory; their rows are 8 numbers longer than W to avoid bank conflicts.
#pragma once
#include <cuda_bf16.h>

#include <cstdint>

#include "gpu/chebyshev/chebyshev.cuh"
#include "gpu/device/fragments.cuh"

namespace afterglow::device {

namespace matrix_units {

constexpr int threads = 128;
constexpr int warp_tokens = 16;
using Number = __nv_bfloat16;

/// The 16 tokens of this warp. Later tokens see more of the chunk, so half of the blocks reverse the order; then the
/// four schedulers of a multiprocessor have equal work.
__device__ inline int token_group() {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  return blockIdx.x * 0x9e3779b9u >> 31 ? 3 - warp : warp;
}
/// The token of this lane's row g (half 0) or g + 8 (half 1) in the chunk.
__device__ inline int token_of(int half) {
  return token_group() * warp_tokens + static_cast<int>(threadIdx.x) % 32 / 4 + 8 * half;
}

__device__ inline std::uint32_t packed(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}
__device__ inline float low_of(std::uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ inline float high_of(std::uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }

/// Loads two right operands [16,8] from shared memory: inner numbers inner .. inner + 15, columns column .. column +
/// 15. The matrix is stored as [column][inner], or as [inner][column] when `by_inner`.
template <bool by_inner>
__device__ __forceinline__ void load_right(std::uint32_t (&right)[4], const Number* matrix, int stride, int inner,
                                           int column) {
  const int lane = static_cast<int>(threadIdx.x) % 32, part = lane / 8, row = lane % 8;
  const int place = by_inner ? (inner + part % 2 * 8 + row) * stride + column + part / 2 * 8
                             : (column + part / 2 * 8 + row) * stride + inner + part % 2 * 8;
  // The lane's part of the address is the same in every call; the rest is constant.
  const auto shared = static_cast<std::uint32_t>(__cvta_generic_to_shared(matrix)) +
                      static_cast<std::uint32_t>(place * static_cast<int>(sizeof(Number)));
  if (by_inner) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(right[0]), "=r"(right[1]), "=r"(right[2]), "=r"(right[3])
                 : "r"(shared));
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(right[0]), "=r"(right[1]), "=r"(right[2]), "=r"(right[3])
                 : "r"(shared));
  }
}

/// Loads a left operand [16,16] from a matrix stored as [inner][row]: rows row .. row + 15, inner numbers inner ..
/// inner + 15.
__device__ inline void load_left_transposed(std::uint32_t (&left)[4], const Number* matrix, int stride, int row,
                                            int inner) {
  const int lane = static_cast<int>(threadIdx.x) % 32, part = lane / 8;
  const Number* address = matrix + (inner + part / 2 * 8 + lane % 8) * stride + row + part % 2 * 8;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(left[0]), "=r"(left[1]), "=r"(left[2]), "=r"(left[3])
               : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(address))));
}

/// Rows of 16 tokens in accumulator layout.
template <int W>
struct Rows {
  float cell[W / 8][4];

  /// Calls body(cell, 0 for row g or 1 for row g + 8, column).
  template <class Body>
  __device__ __forceinline__ void each(const Body& body) {
    const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
    for (int n = 0; n < W / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) body(cell[n][e], e / 2, 8 * n + 2 * t + e % 2);
    }
  }
  __device__ void clear() {
    each([](float& c, int, int) { c = 0.0f; });
  }
};

/// The same rows rounded, as left operands: pair[k][.] belongs to columns 16 k .. 16 k + 15.
template <int W>
struct Left {
  std::uint32_t pair[W / 16][4];

  /// Replaces every number by make(old value, n, e, 0 or 1 for the row), and passes the rounded value to see(value, n,
  /// e).
  template <class Make, class See>
  __device__ __forceinline__ void update(const Make& make, const See& see) {
#pragma unroll
    for (int n = 0; n < W / 8; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        std::uint32_t& two = pair[n / 2][n % 2 * 2 + half];
        two = packed(make(low_of(two), n, 2 * half, half), make(high_of(two), n, 2 * half + 1, half));
        see(low_of(two), n, 2 * half);
        see(high_of(two), n, 2 * half + 1);
      }
    }
  }
  __device__ __forceinline__ void round(const Rows<W>& rows) {
#pragma unroll
    for (int n = 0; n < W / 8; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half)
        pair[n / 2][n % 2 * 2 + half] = packed(rows.cell[n][2 * half], rows.cell[n][2 * half + 1]);
    }
  }
};

/// Rounded weights of pairs of tokens in shared memory [4][threads]; every thread reads only what it wrote.
template <class Weight>
__device__ void fill_weights(uint4* weights, const Weight& weight) {
  const int column = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll 1
  for (int block = 0; block < 4; ++block) {
    const auto two = [&](int half, int side) {
      const int c = token_of(half), j = 16 * block + 8 * side + column;
      return packed(weight(c, j), weight(c, j + 1));
    };
    weights[block * threads + threadIdx.x] = {two(0, 0), two(1, 0), two(0, 1), two(1, 1)};
  }
}
/// e^{G_c - G_j} for j <= c: weights of past tokens j for token c.
__device__ inline void weigh_past(uint4* weights, const float* gate) {
  fill_weights(weights, [&](int c, int j) { return j <= c ? expf(gate[c] - gate[j]) : 0.0f; });
}
/// factor e^{G_j - G_c} for j >= c: weights of token c for future tokens j.
__device__ inline void weigh_future(uint4* weights, const float* gate, float factor) {
  fill_weights(weights, [&](int c, int j) { return j >= c ? factor * expf(gate[j] - gate[c]) : 0.0f; });
}

/// result_c += factor_c (in_c op(state)). `state` [W,W] is stored as [column][inner], or [inner][column] when
/// `by_inner`.
template <int W, bool by_inner>
__device__ __forceinline__ void add_state(const Left<W>& in, const Number* state, const float (&factor)[2],
                                          Rows<W>& result) {
  constexpr int columns = 32;  // four sums in flight
#pragma unroll
  for (int first = 0; first < W; first += columns) {
    float sums[columns / 8][4] = {};
#pragma unroll
    for (int k = 0; k < W / 16; ++k) {
#pragma unroll
      for (int two = 0; two < columns / 16; ++two) {
        std::uint32_t numbers[4];
        load_right<by_inner>(numbers, state, W + 8, 16 * k, first + 16 * two);
        tiles::mma_bf16(sums[2 * two], in.pair[k], numbers[0], numbers[1]);
        tiles::mma_bf16(sums[2 * two + 1], in.pair[k], numbers[2], numbers[3]);
      }
    }
#pragma unroll
    for (int n = 0; n < columns / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) result.cell[first / 8 + n][e] += factor[e / 2] * sums[n][e];
    }
  }
}

/// result_c += sum_j weight_cj (in_c . left_j) right_j over the tokens of the groups `first` to `last`; panels [64,W].
template <int W>
__device__ __forceinline__ void add_tokens(const Left<W>& in, const Number* left, const Number* right,
                                           const uint4* weights, int first, int last, Rows<W>& result) {
#pragma unroll 1
  for (int block = first; block <= last; ++block) {
    float sums[2][4] = {}, more[2][4] = {};  // of alternate inner steps: four sums in flight
#pragma unroll
    for (int k = 0; k < W / 16; k += 2) {
      std::uint32_t numbers[4], others[4];
      load_right<false>(numbers, left, W + 8, 16 * k, 16 * block);
      load_right<false>(others, left, W + 8, 16 * k + 16, 16 * block);
      tiles::mma_bf16(sums[0], in.pair[k], numbers[0], numbers[1]);
      tiles::mma_bf16(sums[1], in.pair[k], numbers[2], numbers[3]);
      tiles::mma_bf16(more[0], in.pair[k + 1], others[0], others[1]);
      tiles::mma_bf16(more[1], in.pair[k + 1], others[2], others[3]);
    }
#pragma unroll
    for (int side = 0; side < 2; ++side) {
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[side][e] += more[side][e];
    }
    const uint4 weight = weights[block * threads + threadIdx.x];
    const std::uint32_t scores[4] = {packed(sums[0][0] * low_of(weight.x), sums[0][1] * high_of(weight.x)),
                                     packed(sums[0][2] * low_of(weight.y), sums[0][3] * high_of(weight.y)),
                                     packed(sums[1][0] * low_of(weight.z), sums[1][1] * high_of(weight.z)),
                                     packed(sums[1][2] * low_of(weight.w), sums[1][3] * high_of(weight.w))};
#pragma unroll
    for (int n = 0; n < W / 16; ++n) {
      std::uint32_t numbers[4];
      load_right<true>(numbers, right, W + 8, 16 * block, 16 * n);
      tiles::mma_bf16(result.cell[2 * n], scores, numbers[0], numbers[1]);
      tiles::mma_bf16(result.cell[2 * n + 1], scores, numbers[2], numbers[3]);
    }
  }
}

/// What a chunk's tokens read: the state before it and the tokens up to them.
struct Past {
  const uint4* weights;
  float faded[2];  ///< e^{G_c}, the decay of the state before the chunk

  __device__ Past(uint4* memory, const float* gate) : weights(memory) {
    weigh_past(memory, gate);
#pragma unroll
    for (int half = 0; half < 2; ++half) faded[half] = expf(gate[token_of(half)]);
  }
  /// result += e^{G_c} in op(state) + sum_{j<=c} e^{G_c - G_j} (in_c . left_j) right_j.
  template <int W, bool state_by_inner>
  __device__ __forceinline__ void read(const Left<W>& in, const Number* state, const Number* left, const Number* right,
                                       Rows<W>& result) const {
    add_tokens(in, left, right, weights, 0, token_group(), result);
    add_state<W, state_by_inner>(in, state, faded, result);
  }
};

/// Chebyshev iteration: `x` solves (H_c + lambda_c I) x = right_c; `residual` is -right_c on entry and is overwritten.
/// The iteration is written for the differences d of the iterates: x and the residual follow the rounded d, so rounding
/// it only changes the path slightly.
template <int W>
__device__ __forceinline__ void solve_rows(int iterations, const float (&fro)[2], const float (&lambda)[2],
                                           const Number* state, const Number* keys, const Past& past, Rows<W>& residual,
                                           Rows<W>& x) {
  float step[2], rho[2], omega[2] = {2.0f, 2.0f};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float bound = fro[half] + 2.0f * lambda[half];
    step[half] = bound > 0.0f ? 2.0f / bound : 0.0f;
    rho[half] = bound > 0.0f ? fro[half] / bound : 0.0f;
  }
  Left<W> d;
  d.update([&](float, int n, int e, int half) { return -step[half] * residual.cell[n][e]; },
           [&](float value, int n, int e) { x.cell[n][e] = value; });
#pragma unroll 1
  for (int i = 0; i < iterations; ++i) {
    past.read<W, false>(d, state, keys, keys, residual);
    float keep[2], scaled_step[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      omega[half] = 4.0f / (4.0f - rho[half] * rho[half] * omega[half]);
      keep[half] = omega[half] - 1.0f;
      scaled_step[half] = -omega[half] * step[half];
    }
    d.update(
        [&](float old, int n, int e, int half) {
          residual.cell[n][e] += lambda[half] * old;
          return keep[half] * old + scaled_step[half] * residual.cell[n][e];
        },
        [&](float value, int n, int e) { x.cell[n][e] += value; });
  }
}

/// Loads a panel, rounded; value(four numbers, token, ..) may change them. Zero beyond the end. Reads use __ldg: the
/// kernel does not write these arrays, so loads need not wait for stores to shared memory.
template <int W, class Value>
__device__ void load_panel(const ChebyshevShape& s, const ChunkPosition& at, const float* from, Number* panel,
                           const Value& value) {
#pragma unroll 4
  for (int i = threadIdx.x; i < chunk_tokens * W / 4; i += blockDim.x) {
    const int c = i / (W / 4), column = i % (W / 4) * 4;
    float4 four = {};
    if (c < at.count) {
      const std::size_t row = s.row(at.pair, at.first + c);
      four = value(__ldg(reinterpret_cast<const float4*>(from + row * W + column)), c, row, column);
    }
    *reinterpret_cast<uint2*>(panel + c * (W + 8) + column) = {packed(four.x, four.y), packed(four.z, four.w)};
  }
}
template <int W>
__device__ void load_panel(const ChebyshevShape& s, const ChunkPosition& at, const float* from, Number* panel) {
  load_panel<W>(s, at, from, panel, [](const float4& four, int, std::size_t, int) { return four; });
}
__device__ inline float4 operator*(float factor, const float4& four) {
  return {factor * four.x, factor * four.y, factor * four.z, factor * four.w};
}
/// factor p, p = q + alpha (x - q).
template <int W, class Factor>
__device__ void load_mixed(const ChebyshevShape& s, const ChebyshevPointers& io, const ChunkPosition& at, Number* panel,
                           const Factor& factor) {
  load_panel<W>(s, at, io.x, panel, [&](const float4& x, int c, std::size_t row, int column) {
    const float alpha = io.alpha ? io.alpha[row] : s.alpha, f = factor(c);
    const float4 q = __ldg(reinterpret_cast<const float4*>(io.q + row * W + column));
    return float4{f * (q.x + alpha * (x.x - q.x)), f * (q.y + alpha * (x.y - q.y)), f * (q.z + alpha * (x.z - q.z)),
                  f * (q.w + alpha * (x.w - q.w))};
  });
}

/// States are stored as rounded numbers [W,W]; returns the address of state `piece`.
template <int W>
__device__ const Number* state_of(const float* states, std::size_t piece) {
  return reinterpret_cast<const Number*>(states) + piece * W * W;
}
template <int W>
__device__ void load_state(const Number* from, Number* state) {
#pragma unroll 8
  for (int i = threadIdx.x; i < W * W / 8; i += blockDim.x) {
    const int row = i / (W / 8), column = i % (W / 8) * 8;
    *reinterpret_cast<uint4*>(state + row * (W + 8) + column) = __ldg(reinterpret_cast<const uint4*>(from) + i);
  }
}

/// The sum over the four lanes that share a row.
__device__ inline float row_sum(float value) {
  value += __shfl_xor_sync(full_warp, value, 1);
  return value + __shfl_xor_sync(full_warp, value, 2);
}

/// Calls body(number, row of its token in [B,T,H,.], column, half) for tokens before the chunk's end.
template <int W, class Body>
__device__ __forceinline__ void each_inside(const ChebyshevShape& s, const ChunkPosition& at, Rows<W>& rows,
                                            const Body& body) {
  rows.each([&](float& cell, int half, int column) {
    const int c = token_of(half);
    if (c < at.count) body(cell, s.row(at.pair, at.first + c), column, half);
  });
}
/// Rows of a tensor [B,T,H,D] times a factor; zero beyond the end.
template <int W>
__device__ __forceinline__ void load_rows(const ChebyshevShape& s, const ChunkPosition& at, const float* from,
                                          float factor, Rows<W>& rows) {
  rows.clear();
  each_inside(s, at, rows,
              [&](float& cell, std::size_t row, int column, int) { cell = factor * from[row * W + column]; });
}

template <int W>
struct Width {
  static constexpr int value = W;
};
/// Calls body with the head's width as a type.
template <class Body>
void with_width(int width, const Body& body) {
  if (width == 32) return body(Width<32>{});
  if (width == 64) return body(Width<64>{});
  body(Width<128>{});
}

template <int W>
constexpr int bytes(int panels) {
  return (W + chunk_tokens * panels) * (W + 8) * static_cast<int>(sizeof(Number));
}
constexpr int weight_bytes = 4 * threads * static_cast<int>(sizeof(uint4));

}  // namespace matrix_units
}  // namespace afterglow::device
