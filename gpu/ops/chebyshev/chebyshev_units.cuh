// Shared by the bfloat16 kernels of Gated KalmaNet's core: a block of four warps multiplies the 64 rows of a chunk
// together. A warp holds 16 tokens and all W columns of their rows in registers, in the accumulator layout of
// mma.m16n8k16: lane 4 g + t holds rows g and g + 8, and of every 8 columns 2 t and 2 t + 1. Two neighbouring
// accumulators, rounded, are the left operand of the next product, so an iteration needs no exchange between lanes or
// warps. States and panels of the chunk's tokens are right operands in shared memory.
// Row c of a left operand is stored times f_c = e^{G_c}, at least e^-60. Then the product with the state before the
// chunk needs no factor, and pairs of tokens have weights e^{G_c - G_j} / f_c. A state that decays by more than e^-60
// within its chunk is taken as decayed by e^-60.
// The including file says by the alias `device::units` whether warp groups (warpgroup.cuh) or single warps
// (warp_products.cuh) multiply.
#pragma once
#include <algorithm>

#include "gpu/ops/chebyshev/chebyshev_dual.cuh"
#include "gpu/tile/fragments.cuh"
#include "gpu/tile/pieces.cuh"

namespace afterglow::device::chebyshev_units {
namespace {

using units::begin_products;
using units::end_group;
using units::fence_async_proxy;
using units::multiply;
using units::multiply_shared;
using units::wait_for_groups;
using warpgroup::Panel;
using warpgroup::threads;
using Number = Bf16;

__device__ float low_of(std::uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ float high_of(std::uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }

/// Rows of 16 tokens in accumulator layout.
template <int W>
struct Rows {
  float cell[W / 8][4];

  /// Calls body(cell, 0 for row g or 1 for row g + 8, column).
  template <class Body>
  __device__ __forceinline__ void each(const Body& body) {
    const int t = int(threadIdx.x) % 4;
    unrolled<W / 8, 4>([&](int n, int e) { body(cell[n][e], e / 2, 8 * n + 2 * t + e % 2); });
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
    unrolled<W / 8, 2>([&](int n, int half) {
      std::uint32_t& two = pair[n / 2][n % 2 * 2 + half];
      two = bf16_pair(make(low_of(two), n, 2 * half, half), make(high_of(two), n, 2 * half + 1, half));
      see(low_of(two), n, 2 * half);
      see(high_of(two), n, 2 * half + 1);
    });
  }
  __device__ __forceinline__ void round(const Rows<W>& rows) {
    unrolled<W / 8, 2>([&](int n, int half) {
      pair[n / 2][n % 2 * 2 + half] = bf16_pair(rows.cell[n][2 * half], rows.cell[n][2 * half + 1]);
    });
  }
};

/// The token of this lane's row g (half 0) or g + 8 (half 1); column_of: the first of its two columns of every 8.
__device__ inline int token_of(int half) { return int(threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4) + 8 * half; }
__device__ inline int column_of() { return int(threadIdx.x % 4 * 2); }

/// e^x, exact enough for results rounded to bfloat16; subnormal results become zero.
__device__ inline float fast_exp(float x) { return power_of_two(1.4426950408889634f * x); }
__device__ inline float rounded(float x) { return __bfloat162float(__float2bfloat16_rn(x)); }
/// log f_c.
__device__ inline float kept(float gate) { return fmaxf(gate, -60.0f); }

/// Calls body(row of the token in [B,T,H,.], index in [B,T,H,D], n, half) for every pair of neighbours cell[n][2 half],
/// cell[n][2 half + 1] of tokens before the chunk's end.
template <int W, class Body>
__device__ __forceinline__ void each_pair(const ChunkRows& at, const Body& body) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int c = token_of(half);
    if (c >= at.count) continue;
    const std::size_t row = at.row(c), place = row * W + column_of();
    unrolled<W / 8>([&](int n) { body(row, place + 8 * n, n, half); });
  }
}
// Arrays that the kernel does not write are read by two_of and four_of, which need not wait for stores.

/// Rows of a tensor [B,T,H,D] times factor[half]; zero beyond the end.
template <int W, class T>
__device__ __forceinline__ void load_rows(const ChunkRows& at, const T* from, const float (&factor)[2], Rows<W>& rows) {
  rows.clear();
  each_pair<W>(at, [&](std::size_t, std::size_t place, int n, int half) {
    const float2 two = two_of(from + place);
    rows.cell[n][2 * half] = factor[half] * two.x;
    rows.cell[n][2 * half + 1] = factor[half] * two.y;
  });
}
template <int W>
__device__ __forceinline__ void scale_rows(const float (&factor)[2], Rows<W>& rows) {
  rows.each([&](float& cell, int half, int) { cell *= factor[half]; });
}

/// Two stored neighbours plus the numbers added to them.
__device__ __forceinline__ float2 sum_of(const float2& old, float first, float second) {
  return {old.x + first, old.y + second};
}
__device__ __forceinline__ std::uint32_t sum_of(std::uint32_t old, float first, float second) {
  return bf16_pair(low_of(old) + first, high_of(old) + second);
}
/// Assigns rows of a tensor, or adds to them; all numbers of a token are read before the first is written.
template <int W, class T>
__device__ __forceinline__ void put_rows(const ChunkRows& at, const device::Rows<T>& to, bool accumulate,
                                         const Rows<W>& rows) {
  using Two = std::conditional_t<std::is_same_v<T, float>, float2, std::uint32_t>;
  const bool by_pairs =
      std::is_same_v<T, Bf16> || (reinterpret_cast<std::uintptr_t>(to.data) % sizeof(Two) == 0 && to.stride % 2 == 0);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int c = token_of(half);
    if (c >= at.count) continue;
    T* const numbers = &to.at(at.row(c), unsigned(column_of()));
    if (!by_pairs) {
      unrolled<W / 4>([&](int i) {
        T& place = numbers[i / 2 * 8 + i % 2];
        place = static_cast<T>((accumulate ? float(place) : 0.0f) + rows.cell[i / 2][2 * half + i % 2]);
      });
      continue;
    }
    auto* const place = reinterpret_cast<Two*>(numbers);
    Two old[W / 8] = {};
    if (accumulate) {
      unrolled<W / 8>([&](int n) { old[n] = place[4 * n]; });
    }
    unrolled<W / 8>([&](int n) { place[4 * n] = sum_of(old[n], rows.cell[n][2 * half], rows.cell[n][2 * half + 1]); });
  }
}

/// Fills a panel with value(index of four numbers, token, row), rounded; zero beyond the end.
template <int W, class Value>
__device__ void fill_panel(const ChunkRows& at, Panel<chunk_tokens> to, const Value& value) {
  constexpr int steps = chunk_tokens * W / 4 / threads, rows = chunk_tokens / steps;  // a thread keeps its columns
  const int column = int(threadIdx.x % (W / 4)) * 4, first = int(threadIdx.x / (W / 4)) % rows;
#pragma unroll 8
  for (int i = 0; i < steps; ++i) {
    const int c = first + rows * i, inside = min(c, at.count - 1);
    const std::size_t row = at.row(inside);
    float4 four = value(row * W + column, inside, row);
    if (c >= at.count) four = {};
    *reinterpret_cast<uint2*>(to.memory + to.place(c, column)) = {bf16_pair(four.x, four.y), bf16_pair(four.z, four.w)};
  }
}
template <int W, class T>
__device__ void load_panel(const ChunkRows& at, const T* from, Panel<chunk_tokens> to) {
  fill_panel<W>(at, to, [&](std::size_t place, int, std::size_t) { return four_of(from + place); });
}
template <int W, class T, class Factor>
__device__ void load_panel(const ChunkRows& at, const T* from, Panel<chunk_tokens> to, const Factor& factor) {
  fill_panel<W>(at, to, [&](std::size_t place, int c, std::size_t) { return factor(c) * four_of(from + place); });
}
/// factor p, p = q + alpha (x - q).
template <int W, class T, class Factor>
__device__ void load_mixed(const ChebyshevShape& s, const ChebyshevPointersOf<T>& io, const ChunkRows& at,
                           Panel<chunk_tokens> to, const Factor& factor) {
  fill_panel<W>(at, to, [&](std::size_t place, int c, std::size_t row) {
    const float alpha = io.alpha ? __ldg(io.alpha + row) : s.alpha;
    const float4 q = four_of(io.q + place), x = four_of(io.x + place);
    return factor(c) * make_float4(q.x + alpha * (x.x - q.x), q.y + alpha * (x.y - q.y), q.z + alpha * (x.z - q.z),
                                   q.w + alpha * (x.w - q.w));
  });
}
/// Stores rounded rows in a panel; take_rows loads them as a left operand.
template <int W>
__device__ __forceinline__ void store_rows(const Rows<W>& rows, Panel<chunk_tokens> to) {
  const int column = column_of();
  unrolled<W / 8, 2>([&](int n, int half) {
    *reinterpret_cast<std::uint32_t*>(to.memory + to.place(token_of(half), 8 * n + column)) =
        bf16_pair(rows.cell[n][2 * half], rows.cell[n][2 * half + 1]);
  });
}
template <int W>
__device__ __forceinline__ void take_rows(Panel<chunk_tokens> from, Left<W>& left) {
  const int column = column_of();
  unrolled<W / 16, 4>([&](int k, int i) {
    left.pair[k][i] =
        *reinterpret_cast<const std::uint32_t*>(from.memory + from.place(token_of(i % 2), 16 * k + i / 2 * 8 + column));
  });
}
template <int W>
__device__ void begin_state(const Number* from, Panel<W> to) {
#pragma unroll 4
  for (int i = threadIdx.x; i < W * W / 8; i += threads)
    tiles::copy_piece(to.memory + to.place(i / (W / 8), i % (W / 8) * 8), from + 8 * i, true);
  tiles::commit();
}

/// e^{G_c - G_j} / f_c for j <= c in the layout of the scores' left operands. Every thread reads only what it wrote;
/// for wide heads on single warps, whose GPUs may have little shared memory, it computes them at each use.
template <int W>
struct PairWeights {
  static constexpr bool are_stored = units::is_warpgroup || W < 128;
  static constexpr int blocks = chunk_tokens / 16, bytes = are_stored ? blocks * threads * int(sizeof(uint4)) : 0;
  uint4* memory;
  const float* gate = nullptr;

  __device__ void fill(const float* of) {
    gate = of;
    if constexpr (are_stored) {
#pragma unroll 1
      for (int block = 0; block < blocks; ++block) memory[block * threads + threadIdx.x] = make(block);
    }
  }
  __device__ uint4 of_block(int block) const {
    if constexpr (are_stored) return memory[block * threads + threadIdx.x];
    return make(block);
  }

 private:
  __device__ uint4 make(int block) const {
    const auto weight = [&](int c, int j) { return fast_exp(j <= c ? gate[c] - kept(gate[c]) - gate[j] : -INFINITY); };
    const auto two = [&](int half, int side) {
      const int c = token_of(half), j = 16 * block + 8 * side + column_of();
      return bf16_pair(weight(c, j), weight(c, j + 1));
    };
    return {two(0, 0), two(1, 0), two(0, 1), two(1, 1)};
  }
};

/// Begins scores_cj = in_c . row_j of a panel.
template <int W>
__device__ __forceinline__ void begin_scores(const Left<W>& in, Panel<chunk_tokens> of, Rows<chunk_tokens>& scores) {
  unrolled<W / 16>([&](int k) { multiply<false>(scores.cell, in.pair[k], of.by_column(k), k > 0); });
}

/// Begins result = in op(state), or += when `add`.
template <int W, bool state_by_row>
__device__ __forceinline__ void begin_state_product(const Left<W>& in, Panel<W> state, bool add, Rows<W>& result) {
  unrolled<W / 16>([&](int k) {
    multiply<state_by_row>(result.cell, in.pair[k], state_by_row ? state.by_row(k) : state.by_column(k), add || k > 0);
  });
}

/// result_c += sum_j weighted_cj right_j.
template <int W>
__device__ __forceinline__ void add_weighted(const Left<chunk_tokens>& weighted, Panel<chunk_tokens> right,
                                             Rows<W>& result) {
  begin_products();
  unrolled<chunk_tokens / 16>([&](int k) { multiply<true>(result.cell, weighted.pair[k], right.by_row(k), true); });
  end_group();
  wait_for_groups<0>(result.cell);
}

/// Scores times weights, rounded.
template <int W>
__device__ __forceinline__ void weigh(const Rows<chunk_tokens>& scores, const PairWeights<W>& weights,
                                      Left<chunk_tokens>& weighted) {
  unrolled<chunk_tokens / 16>([&](int k) {
    const uint4 weight = weights.of_block(k);
    const std::uint32_t of[4] = {weight.x, weight.y, weight.z, weight.w};
    unrolled<4>([&](int i) {
      const float* sums = scores.cell[2 * k + i / 2] + i % 2 * 2;
      weighted.pair[k][i] = bf16_pair(low_of(of[i]) * sums[0], high_of(of[i]) * sums[1]);
    });
  });
}

/// result_c += in_c op(state) + sum_j weight_cj (in_c . left_j) right_j.
template <int W, bool state_by_row>
__device__ __forceinline__ void read(const Left<W>& in, Panel<W> state, Panel<chunk_tokens> left,
                                     Panel<chunk_tokens> right, const PairWeights<W>& weights, Rows<W>& result) {
  Rows<chunk_tokens> scores;
  Left<chunk_tokens> weighted;
  begin_products();
  begin_scores(in, left, scores);
  end_group();
  begin_state_product<W, state_by_row>(in, state, true, result);
  end_group();
  wait_for_groups<1>(scores.cell);
  weigh(scores, weights, weighted);
  add_weighted(weighted, right, result);
}

/// result = in op(state), or += when `add`.
template <int W, bool state_by_row>
__device__ __forceinline__ void multiply_state(const Left<W>& in, Panel<W> state, bool add, Rows<W>& result) {
  begin_products();
  begin_state_product<W, state_by_row>(in, state, add, result);
  end_group();
  wait_for_groups<0>(result.cell);
}

/// result_c += sum_j weight(c, j) (in_c . left_j) right_j.
template <int W, class Weight>
__device__ __forceinline__ void add_pairs(const Left<W>& in, Panel<chunk_tokens> left, Panel<chunk_tokens> right,
                                          const Weight& weight, Rows<W>& result) {
  Rows<chunk_tokens> scores;
  Left<chunk_tokens> weighted;
  begin_products();
  begin_scores(in, left, scores);
  end_group();
  wait_for_groups<0>(scores.cell);
  scores.each([&](float& cell, int half, int j) { cell *= weight(token_of(half), j); });
  weighted.round(scores);
  add_weighted(weighted, right, result);
}

/// Begins sums (+)= rows 64 block to 64 block + 63 of left^T right.
template <int W>
__device__ __forceinline__ void begin_outer(Panel<chunk_tokens> left, int block, Panel<chunk_tokens> right, bool add,
                                            Rows<W>& sums) {
  unrolled<chunk_tokens / 16>([&](int k) {
    multiply_shared<true, true, warpgroup::Bf16Operands>(sums.cell, left.by_row(k, block), right.by_row(k),
                                                         add || k > 0);
  });
}

/// sums = rows 64 block to 64 block + 63 of left^T right.
template <int W>
__device__ __forceinline__ void multiply_outer(Panel<chunk_tokens> left, int block, Panel<chunk_tokens> right,
                                               Rows<W>& sums) {
  begin_products();
  begin_outer(left, block, right, false, sums);
  end_group();
  wait_for_groups<0>(sums.cell);
}

/// Transposes 4 x 4 words over four neighbouring lanes: word i of lane t goes to lane i, as its word t.
__device__ __forceinline__ void exchange(std::uint32_t (&words)[4]) {
  const int t = int(threadIdx.x) % 4;
  const auto swap = [&](std::uint32_t& low, std::uint32_t& high, int distance) {
    const bool upper = (t & distance) != 0;
    const std::uint32_t other = __shfl_xor_sync(full_warp, upper ? low : high, distance);
    (upper ? low : high) = other;
  };
  swap(words[0], words[1], 1);
  swap(words[2], words[3], 1);
  swap(words[0], words[2], 2);
  swap(words[1], words[3], 2);
}

/// Of heads narrower than 64 the rows behind the last, which some warps hold, do not exist.
template <int W>
__device__ inline bool is_row_of_state(int half) {
  return W >= 64 || token_of(half) < W;
}
/// Index of the first of the 8 numbers, of every 32 of a row, that a lane reads or writes of a state; `block` counts 64
/// rows.
template <int W>
__device__ inline int place_in_state(int block, int half) {
  return (64 * block + token_of(half)) * W + int(threadIdx.x % 4 * 8);
}
/// Subtracts weight times rows 64 block to 64 block + 63 of a state from sums.
template <int W>
__device__ __forceinline__ void subtract_state(const Number* from, int block, float weight, Rows<W>& sums) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (!is_row_of_state<W>(half)) continue;
#pragma unroll
    for (int n = 0; n < W / 8; n += 4) {
      const uint4 piece = __ldg(reinterpret_cast<const uint4*>(from + place_in_state<W>(block, half) + 8 * n));
      std::uint32_t words[4] = {piece.x, piece.y, piece.z, piece.w};
      exchange(words);
      unrolled<4>([&](int i) {
        sums.cell[n + i][2 * half] -= weight * low_of(words[i]);
        sums.cell[n + i][2 * half + 1] -= weight * high_of(words[i]);
      });
    }
  }
}
template <int W>
__device__ __forceinline__ void store_state(const Rows<W>& sums, int block, Number* to) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (!is_row_of_state<W>(half)) continue;
#pragma unroll
    for (int n = 0; n < W / 8; n += 4) {
      std::uint32_t words[4];
      unrolled<4>([&](int i) { words[i] = bf16_pair(sums.cell[n + i][2 * half], sums.cell[n + i][2 * half + 1]); });
      exchange(words);
      *reinterpret_cast<uint4*>(to + place_in_state<W>(block, half) + 8 * n) = {words[0], words[1], words[2], words[3]};
    }
  }
}
/// States are stored rounded, [W,W]; the address of state `piece`.
template <int W>
__device__ Number* state_of(float* states, std::size_t piece) {
  return reinterpret_cast<Number*>(states) + piece * W * W;
}

/// f_c and its inverse for this lane's rows.
struct Faded {
  float factor[2], inverse[2];
  explicit __device__ Faded(const float* gate) {
    unrolled<2>([&](int half) {
      const float log_factor = kept(gate[token_of(half)]);
      factor[half] = expf(log_factor);
      inverse[half] = expf(-log_factor);
    });
  }
};

struct Norms {
  float fro[2], lambda[2];
  template <class T>
  __device__ Norms(const ChebyshevPointersOf<T>& io, const ChunkRows& at) {
    unrolled<2>([&](int half) {
      const int c = token_of(half);
      fro[half] = c < at.count ? io.fro[at.row(c)] : 0.0f;
      lambda[half] = c < at.count ? io.lambda[at.row(c)] : 0.0f;
    });
  }
};

/// Chebyshev iteration: row c of x solves (H_c + lambda_c I) x = right_c; `residual` is -right_c on entry and is
/// overwritten. The iteration is written for the differences d of the iterates: x and residual = H x -
/// right follow the rounded d, so rounding it only changes the path slightly. d and x are times f_c until the end.
template <int W>
__device__ __forceinline__ void solve_rows(int iterations, const Norms& norms, const Faded& faded, Panel<W> state,
                                           Panel<chunk_tokens> keys, const PairWeights<W>& weights, Rows<W>& residual,
                                           Rows<W>& x) {
  float step[2], rho[2], lambda[2], omega[2] = {2.0f, 2.0f};
  unrolled<2>([&](int half) {
    const float bound = norms.fro[half] + 2.0f * norms.lambda[half];
    step[half] = bound > 0.0f ? -2.0f / bound * faded.factor[half] : 0.0f;
    rho[half] = bound > 0.0f ? norms.fro[half] / bound : 0.0f;
    lambda[half] = norms.lambda[half] * faded.inverse[half];
  });
  Left<W> d;
  d.update([&](float, int n, int e, int half) { return step[half] * residual.cell[n][e]; },
           [&](float value, int n, int e) { x.cell[n][e] = value; });
#pragma unroll 1
  for (int i = 0; i < iterations; ++i) {
    read<W, false>(d, state, keys, keys, weights, residual);
    float keep[2], scaled_step[2];
    unrolled<2>([&](int half) {
      omega[half] = 4.0f / (4.0f - rho[half] * rho[half] * omega[half]);
      keep[half] = omega[half] - 1.0f;
      scaled_step[half] = omega[half] * step[half];
    });
    d.update(
        [&](float old, int n, int e, int half) {
          return keep[half] * old + scaled_step[half] * (residual.cell[n][e] + lambda[half] * x.cell[n][e]);
        },
        [&](float value, int n, int e) { x.cell[n][e] += value; });
  }
  scale_rows(faded.inverse, x);
}

/// Shared memory of a block: both states before the chunk (each with room for two panels), its keys and values, weights
/// of pairs of tokens.
template <int W>
struct RecursionMemory {
  static constexpr int panel_bytes = Panel<chunk_tokens>::bytes(W),
                       state_bytes = std::max(Panel<W>::bytes(W), 2 * panel_bytes);
  static constexpr int bytes = 2 * state_bytes + 2 * panel_bytes + PairWeights<W>::bytes;

  Panel<W> H, S;
  Panel<chunk_tokens> keys, values;
  PairWeights<W> weights;

  explicit __device__ RecursionMemory(unsigned char* memory)
      : H{memory},
        S{memory + state_bytes},
        keys{memory + 2 * state_bytes},
        values{memory + 2 * state_bytes + panel_bytes},
        weights{reinterpret_cast<uint4*>(memory + 2 * state_bytes + 2 * panel_bytes)} {}
  /// Loads everything, with weights from `gate`; the copy of the second state may not have ended: call
  /// tiles::wait<0> and fence_async_proxy before reading it.
  template <class T>
  __device__ void load(const ChebyshevShape& s, const ChebyshevPointersOf<T>& io, const ChunkRows& at, Gates& gates,
                       const float* gate, bool is_H_first) {
    begin_state<W>(state_of<W>(is_H_first ? io.H : io.S, blockIdx.x), is_H_first ? H : S);
    begin_state<W>(state_of<W>(is_H_first ? io.S : io.H, blockIdx.x), is_H_first ? S : H);
    load_panel<W>(at, io.k, keys);
    load_panel<W>(at, io.v, values);
    load_gates(s, io.g, at, gates);
    weights.fill(gate);
    tiles::wait<1>();
    fence_async_proxy();
  }
};

/// Inner products of this lane's rows with the same rows of a tensor.
template <int W, class T>
__device__ __forceinline__ void overlaps(const ChunkRows& at, const Rows<W>& rows, const T* other, float (&sums)[2]) {
  sums[0] = sums[1] = 0.0f;
  each_pair<W>(at, [&](std::size_t, std::size_t place, int n, int half) {
    const float2 two = two_of(other + place);
    sums[half] += rows.cell[n][2 * half] * two.x + rows.cell[n][2 * half + 1] * two.y;
  });
#pragma unroll
  for (float& sum : sums) sum = sum_of_lanes<4>(sum);
}

/// The same with rounded rows in registers.
template <int W>
__device__ __forceinline__ void overlaps(const Rows<W>& rows, const Left<W>& other, float (&sums)[2]) {
  sums[0] = sums[1] = 0.0f;
  unrolled<W / 8, 2>([&](int n, int half) {
    const std::uint32_t two = other.pair[n / 2][n % 2 * 2 + half];
    sums[half] += rows.cell[n][2 * half] * low_of(two) + rows.cell[n][2 * half + 1] * high_of(two);
  });
#pragma unroll
  for (float& sum : sums) sum = sum_of_lanes<4>(sum);
}

/// Rows of 64 numbers of a state that products compute at a time.
template <int W>
constexpr int state_blocks = (W + 63) / 64;

/// Calls body with the head's width as a compile-time constant; on warp groups it is at least 64.
template <class Body>
void with_width(int width, const Body& body) {
  if constexpr (!units::is_warpgroup) {
    if (width == 32) return body(std::integral_constant<int, 32>{});
  }
  with_capacity<64, 128>(width, body);
}

/// Launches a kernel with one block a chunk.
template <class Kernel, class... Arguments>
void launch_chunks(Kernel kernel, int bytes, cudaStream_t stream, const ChebyshevShape& s,
                   const Arguments&... arguments) {
  launch_after("Gated KalmaNet", kernel, unsigned(s.pieces()), threads, bytes, stream, s, arguments...);
}

}  // namespace
}  // namespace afterglow::device::chebyshev_units
