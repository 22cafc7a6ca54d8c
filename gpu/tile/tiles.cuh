// Tile products on the tensor cores for kernels over pairs of tokens (attention, Sessa's feedback). A block owns 64
// rows, a warp 16 of them; groups of four warps share the streamed rows. Weights stay in the registers of the warp that
// computed them, so warps synchronise only when a tile changes.
// Each row is scaled by a power of two and rounded to halves, which have the 11 bits of tf32; then one product
// suffices. With `exact` a second half holds the remainder, and three products are as accurate as float32. Tensor cores
// truncate their sums towards zero, so exact sums are kept short (64 numbers) and added in float32.
#pragma once
#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>

#include "gpu/tile/fragments.cuh"

namespace afterglow::device::tiles {

constexpr int rows = 64;            // tokens of a tile
constexpr int group_threads = 128;  // four warps, the rows of a tile

/// A row of a tile: `columns` numbers in either form, then its Notes. An odd multiple of 16 bytes avoids bank
/// conflicts.
template <int columns, bool exact>
constexpr int row_bytes = columns*(exact ? 4 : 2) + 16;
template <int columns, bool exact>
constexpr int tile_bytes = rows* row_bytes<columns, exact>;

/// Data of a row: `unit` is the factor of its numbers; of a query the base-2 logarithm of the softmax denominator and
/// its gain; of an upstream gradient its product with the output.
struct Notes {
  float unit, log_sum, mean, gain;
};
template <int columns, bool exact>
__device__ const Notes& notes_of(const std::byte* tile, int row) {
  return *reinterpret_cast<const Notes*>(tile + (row + 1) * row_bytes<columns, exact> - sizeof(Notes));
}

/// A thread's position in the accumulator fragment: rows `row` and `row` + 8, pairs of columns from 2 `part`.
struct LanePosition {
  int group, warp_row, row, part;
  __device__ LanePosition()
      : group(int(threadIdx.x / group_threads)),
        warp_row(int(threadIdx.x / 32 % 4 * 16)),
        row(warp_row + int(threadIdx.x % 32 / 4)),
        part(int(threadIdx.x % 4)) {}
  __device__ int row_of(int r) const { return row + 8 * r; }
  __device__ int column_of(int n, int e) const { return 8 * n + 2 * part + e; }
};

/// A thread's part of its warp's 16 rows by `width` columns: entry (n, r, e) is row lane.row_of(r), column
/// lane.column_of(n, e).
template <int width>
struct Share {
  float value[width / 8][4];

  __device__ float& at(int n, int r, int e) { return value[n][2 * r + e]; }
  __device__ float at(int n, int r, int e) const { return value[n][2 * r + e]; }
  /// Replaces every entry by change(n, r, e, number).
  template <class Change>
  __device__ void each(const Change& change) {
    unrolled<width / 8, 2, 2>([&](int n, int r, int e) { at(n, r, e) = change(n, r, e, at(n, r, e)); });
  }
  __device__ void clear() {
    each([](int, int, int, float) { return 0.0f; });
  }
};

/// The maximum, or the sum, over the four lanes that share a row.
__device__ inline float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(full_warp, x, 1));
  return fmaxf(x, __shfl_xor_sync(full_warp, x, 2));
}
__device__ inline float quad_sum(float x) {
  x += __shfl_xor_sync(full_warp, x, 1);
  return x + __shfl_xor_sync(full_warp, x, 2);
}

/// Begins to copy, bypassing L1: another block may just have written the source.
template <int bytes>
__device__ void copy(std::byte* to, const std::byte* from) {
  for (int i = int(threadIdx.x) * 16; i < bytes; i += int(blockDim.x) * 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to + i)), "l"(from + i) : "memory");
}
/// The power of two that brings numbers up to `peak` just below 2^15, and its inverse. A half then has 11 bits above
/// 2^-14 and its remainder reaches down to 2^-24.
struct Scale {
  float up, down;
  __device__ explicit Scale(float peak) {
    const int exponent = min(268 - int(__float_as_uint(peak) >> 23), 253);
    up = __uint_as_float(unsigned(exponent) << 23);
    down = __uint_as_float(unsigned(254 - exponent) << 23);
  }
};

__device__ inline std::uint32_t halves_of(float x, float y) {
  const __half2 both = __floats2half2_rn(x, y);
  return reinterpret_cast<const std::uint32_t&>(both);
}
/// Splits two scaled numbers into halves and the halves of their remainders.
__device__ inline void split(float x, float y, std::uint32_t& big, std::uint32_t& rest) {
  const __half2 first = __floats2half2_rn(x, y);
  const float2 taken = __half22float2(first);
  big = reinterpret_cast<const std::uint32_t&>(first);
  rest = halves_of(x - taken.x, y - taken.y);
}
__device__ inline float2 joined_halves(std::uint32_t big, std::uint32_t rest) {
  const float2 a = __half22float2(reinterpret_cast<const __half2&>(big)),
               b = __half22float2(reinterpret_cast<const __half2&>(rest));
  return make_float2(a.x + b.x, a.y + b.y);
}
using Left = std::uint32_t[4];

__device__ inline void multiply(float (&sum)[4], const Left& a, std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// sum + small += 64 (not exact: all) numbers of a_i . b_j, without the rows' units. `small` takes the products with
/// remainders and may be `sum`. The addresses are those of the lane.
template <bool exact, int columns, int width>
__device__ void dot_piece(unsigned left, unsigned right, Share<width>& sum, Share<width>& small) {
  constexpr int numbers = exact && columns > 64 ? 64 : columns, step = 32;  // bytes: 16 halves
  constexpr int second = columns * 2, together = width < 32 ? 1 : 2;
#pragma unroll
  for (int k = 0; k < numbers * 2; k += step) {
    Left a, a_rest;
    load_matrices(left + k, a);
    if (exact) load_matrices(left + k + second, a_rest);
#pragma unroll
    for (int n = 0; n < width / 16; n += together) {
      std::uint32_t b[together][4], b_rest[together][4];
      unrolled<together>([&](int i) {
        const unsigned from = right + (n + i) * 16 * row_bytes<columns, exact> + k;
        load_matrices(from, b[i]);
        if (exact) load_matrices(from + second, b_rest[i]);
      });
      // Products that add to the same sum are spaced apart, because each waits for the one before.
      const auto each = [&](Share<width>& to, const Left& l, const auto& r) {
        unrolled<2 * together>(
            [&](int i) { multiply(to.value[2 * n + i], l, r[i / 2][i % 2 * 2], r[i / 2][i % 2 * 2 + 1]); });
      };
      if (exact) {
        each(small, a_rest, b);
        each(small, a, b_rest);
      }
      each(sum, a, b);
    }
  }
}

/// score_ij = factor_i (a_i . b_j) for the warp's 16 rows of `own` and `width` rows from `streamed` on.
template <bool exact, int columns, int width>
__device__ void dot(const LanePosition& lane, const std::byte* own, const std::byte* streamed, float factor,
                    Share<width>& score) {
  constexpr int row = row_bytes<columns, exact>, piece = 64 * 2;
  const int place = int(threadIdx.x % 32);
  const unsigned left = shared_address(own + (lane.warp_row + place % 16) * row + place / 16 * 16);
  const unsigned right = shared_address(streamed + (place % 8 + place / 16 * 8) * row + place / 8 % 2 * 16);
  score.clear();
  if constexpr (columns <= 64 || !exact) {
    dot_piece<exact, columns>(left, right, score, score);
  } else {
    // The products with remainders have a sum of their own, so that fewer wait for one another and a score has the same
    // bits in every kernel and for either order of operands.
    Share<width> small;
    small.clear();
#pragma unroll 1
    for (int begin = 0; begin < columns / 64 * piece; begin += piece) {
      Share<width> part;
      part.clear();
      dot_piece<exact, columns>(left + begin, right + begin, part, small);
      score.each([&](int n, int r, int e, float value) { return value + part.at(n, r, e); });
    }
    score.each([&](int n, int r, int e, float value) { return value + small.at(n, r, e); });
  }
  float units[2];
  unrolled<2>([&](int r) { units[r] = factor * notes_of<columns, exact>(own, lane.row_of(r)).unit; });
  score.each([&](int n, int r, int e, float value) {
    return value * units[r] * notes_of<columns, exact>(streamed, lane.column_of(n, e)).unit;
  });
}

/// The left operand of products with `width` streamed rows, made from weights in registers.
template <bool exact, int width>
struct Weights {
  static constexpr int steps = width / 16;
  Left big[steps], rest[exact ? steps : 1];
  float rescale[2];  ///< factor of a row's products

  /// `streamed`: the rows that the weights belong to; their units become part of the weights.
  template <int columns>
  __device__ void take(const LanePosition& lane, Share<width> weights, const std::byte* streamed) {
    float peak[2] = {0, 0};
    weights.each([&](int n, int r, int e, float value) {
      value *= notes_of<columns, exact>(streamed, lane.column_of(n, e)).unit;
      peak[r] = fmaxf(peak[r], fabsf(value));
      return value;
    });
    unrolled<2>([&](int r) {
      const Scale scale(quad_max(peak[r]));
      rescale[r] = scale.down;
      unrolled<width / 8>([&](int n) {
        const float x = weights.at(n, r, 0) * scale.up, y = weights.at(n, r, 1) * scale.up;
        const int step = n / 2, place = n % 2 * 2 + r;
        if constexpr (exact) {
          split(x, y, big[step][place], rest[step][place]);
        } else {
          big[step][place] = halves_of(x, y);
        }
      });
    });
  }
};

/// part += weights times rows, for 16 or 32 columns; `from` is the lane's address.
template <int row, bool exact, int width, int count>
__device__ void add_products(const Weights<exact, width>& weights, unsigned from, int second, Share<count>& part) {
  unrolled<width / 16>([&](int k) {
    std::uint32_t b[count / 16][4], b_rest[exact ? count / 16 : 1][4];
    unrolled<count / 16>([&](int i) {
      load_transposed(from + k * 16 * row + i * 32, b[i]);
      if constexpr (exact) load_transposed(from + k * 16 * row + i * 32 + second, b_rest[i]);
    });
    const auto each = [&](const Left& l, const auto& r) {
      unrolled<count / 8>([&](int i) { multiply(part.value[i], l, r[i / 2][i % 2 * 2], r[i / 2][i % 2 * 2 + 1]); });
    };
    if constexpr (exact) {
      each(weights.rest[k], b);
      each(weights.big[k], b_rest);
    }
    each(weights.big[k], b);
  });
}

/// sum_i += sum over j of weight_ij x_j, for `width` rows x from `streamed` on and `count` columns from `first` on.
template <bool exact, int columns, int width, int count>
__device__ void add_weighted(const LanePosition& lane, const Weights<exact, width>& weights, const std::byte* streamed,
                             int first, Share<count>& sum) {
  constexpr int row = row_bytes<columns, exact>, together = count < 32 ? count : 32;
  const int place = int(threadIdx.x % 32);
#pragma unroll
  for (int c = 0; c < count; c += together) {
    Share<together> part;
    part.clear();
    const unsigned from = shared_address(streamed + place % 16 * row + place / 16 * 16 + (first + c) * 2);
    add_products<row>(weights, from, columns * 2, part);
    part.each([&](int n, int r, int e, float value) {
      float& to = sum.at(c / 8 + n, r, e);
      to = fmaf(value, weights.rescale[r], to);
      return value;
    });
  }
}

/// add_weighted for weights in float32.
template <bool exact, int columns, int width, int count>
__device__ void spread(const LanePosition& lane, const Share<width>& weights, const std::byte* streamed, int first,
                       Share<count>& sum) {
  Weights<exact, width> left;
  left.template take<columns>(lane, weights, streamed);
  add_weighted<exact, columns>(lane, left, streamed, first, sum);
}

/// Adds the sums of the second group of warps to those of the first. `memory`: 256 bytes a column; the whole block
/// calls.
template <int count>
__device__ void join_groups(const LanePosition& lane, Share<count>& sum, std::byte* memory) {
  float* numbers = reinterpret_cast<float*>(memory) + threadIdx.x % group_threads;
  if (lane.group == 1) {
    unrolled<count / 2>([&](int i) { numbers[i * group_threads] = sum.value[i / 4][i % 4]; });
  }
  __syncthreads();
  if (lane.group == 0) {
    unrolled<count / 2>([&](int i) { sum.value[i / 4][i % 4] += numbers[i * group_threads]; });
  }
}

}  // namespace afterglow::device::tiles
