// Products of 64-row tiles on the tensor cores, for kernels that work through pairs of tokens (attention, Sessa's
// feedback). A block has 8 warps: 2 groups of 32 rows by 4 groups of columns. Operands are float32 in shared memory;
// the matrix units take tf32. `exact` splits every operand into a tf32 number and the rest and adds three products,
// which is as accurate as float32 arithmetic; otherwise one product of rounded operands. The matrix units cut what
// does not fit their sums, always towards zero, so sums are kept short (64 terms) and added by ordinary float32.
#pragma once
#include <cstdint>

#include "gpu/cuda_device.cuh"

namespace afterglow::device::tiles {

constexpr int rows = 64;    // tokens of a tile
constexpr int block = 256;  // threads

/// Where a thread's numbers lie: its warp's 32 rows and quarter of the columns, and its row and column in a fragment.
struct Lane {
  int row, quarter, part;
  __device__ Lane()
      : row(static_cast<int>(threadIdx.x / 128 * 32 + threadIdx.x % 32 / 4)),
        quarter(static_cast<int>(threadIdx.x / 32 % 4)),
        part(static_cast<int>(threadIdx.x % 4)) {}
  /// Row in the tile of entry `r` in [0, 4) of a thread's rows.
  __device__ int row_of(int r) const { return row + 8 * r; }
};

/// A tile in shared memory whose rows are read in fours (first operand of both products) or in columns; no conflicts.
template <int columns>
struct Tile {
  static constexpr int stride = columns + 4;
  static constexpr int size = rows * stride;
  float* data;
  __device__ float* row(int i) const { return data + i * stride; }
};

/// Weights [own row][streamed row], written and read in pairs; no conflicts.
template <int depth>
struct Weights {
  static constexpr int stride = depth + 8;
  static constexpr int size = rows * stride;
  float* data;
  __device__ float* row(int i) const { return data + i * stride; }
};

/// A thread's share of 64 rows by 32 * parts columns: entry (r, n, e) is row lane.row_of(r), column
/// quarter * 8 * parts + 8 n + 2 part + e.
template <int parts>
struct Accumulator {
  float value[2][parts][4];

  __device__ float& at(int r, int n, int e) { return value[r / 2][n][r % 2 * 2 + e]; }
  __device__ float at(int r, int n, int e) const { return value[r / 2][n][r % 2 * 2 + e]; }
  __device__ static int column(const Lane& lane, int n, int e) {
    return lane.quarter * 8 * parts + 8 * n + 2 * lane.part + e;
  }
  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int n = 0; n < parts; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) value[i][n][e] = 0;
  }
  __device__ void add(const Accumulator& other) {
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int n = 0; n < parts; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) value[i][n][e] += other.value[i][n][e];
  }
  /// change(r, column, number) -> number for every entry.
  template <class Change>
  __device__ void each(const Lane& lane, const Change& change) {
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
      for (int n = 0; n < parts; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) at(r, n, e) = change(r, column(lane, n, e), at(r, n, e));
  }
  template <class Rows>
  __device__ void store(const Lane& lane, const Rows& to) const {
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
      for (int n = 0; n < parts; ++n) {
        *reinterpret_cast<float2*>(to.row(lane.row_of(r)) + column(lane, n, 0)) = make_float2(at(r, n, 0), at(r, n, 1));
      }
  }
};

// Copies to shared memory that go on while the block computes.
__device__ inline unsigned shared_address(const void* address) {
  return static_cast<unsigned>(__cvta_generic_to_shared(address));
}
__device__ inline void copy_four(float* to, const float* from, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(valid ? 16 : 0)
               : "memory");
}
__device__ inline void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int pending>
__device__ void wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

/// Rows of `width` numbers in global memory; several heads lie side by side in a row.
struct Operand {
  const float* data = nullptr;
  std::size_t stride = 0;
  int width = 0;
  bool aligned = false;  // four numbers at a time
  __device__ const float* at(std::size_t row, int head) const {
    return data + row * stride + std::size_t(head) * width;
  }
};

inline Operand operand_of(const Tensor& tensor, std::int64_t row_stride, int width) {
  const auto* data = tensor.as<float>();
  const bool aligned = reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && row_stride % 4 == 0 && width % 4 == 0;
  return {data, static_cast<std::size_t>(row_stride), width, aligned};
}

/// Begins to copy `count` rows of one head; the other rows and columns of the tile become zero. Reads past the first
/// cache: another block may have written just now.
template <int tile_rows, int columns>
__device__ void load(const Tile<columns>& to, const Operand& from, std::size_t first, int head, int count) {
  const float* base = from.at(first, head);
  if (from.aligned) {
    constexpr int fours = columns / 4;
    for (int i = static_cast<int>(threadIdx.x); i < tile_rows * fours; i += block) {
      const int row = i / fours, column = i % fours * 4;
      const bool valid = row < count && column < from.width;
      copy_four(to.row(row) + column, valid ? base + row * from.stride + column : from.data, valid);
    }
  } else {
    for (int i = static_cast<int>(threadIdx.x); i < tile_rows * columns; i += block) {
      const int row = i / columns, column = i % columns;
      to.row(row)[column] = row < count && column < from.width ? __ldcg(base + row * from.stride + column) : 0.0f;
    }
  }
}

// Fragments of the matrix units: m16n8k8.
/// The units ignore the last 13 bits. Rounding by half of what they ignore costs less than the conversion instruction.
template <bool exact, int count>
struct Fragment {
  std::uint32_t big[count], rest[count];
  __device__ void set(int i, float x) {
    big[i] = __float_as_uint(x) + 0x1000u;
    if (!exact) return;
    big[i] &= 0xffffe000u;
    rest[i] = __float_as_uint(x - __uint_as_float(big[i]));
  }
};

__device__ inline void multiply_units(float (&sum)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// sum[i][first + n] += a[i] b[n]. Products that add to the same sum are kept apart: each waits for the one before.
template <bool exact, int parts, int count>
__device__ void multiply(Accumulator<parts>& sum, int first, const Fragment<exact, 4> (&a)[2],
                         const Fragment<exact, 2> (&b)[count]) {
  const auto each = [&](const auto& step) {
#pragma unroll
    for (int n = 0; n < count; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) step(sum.value[i][first + n], a[i], b[n]);
  };
  if (exact) {
    each([](float(&to)[4], const auto& l, const auto& r) { multiply_units(to, l.rest, r.big); });
    each([](float(&to)[4], const auto& l, const auto& r) { multiply_units(to, l.big, r.rest); });
  }
  each([](float(&to)[4], const auto& l, const auto& r) { multiply_units(to, l.big, r.big); });
}

/// Four 8 x 4 matrices of floats; lane l names row l % 8 of matrix l / 8 and receives element (l / 4, l % 4) of each.
__device__ inline void load_four(const float* row, float (&value)[4]) {
  std::uint32_t bits[4];
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(bits[0]), "=r"(bits[1]), "=r"(bits[2]), "=r"(bits[3])
               : "r"(shared_address(row))
               : "memory");
#pragma unroll
  for (int i = 0; i < 4; ++i) value[i] = __uint_as_float(bits[i]);
}

/// sum[i][j] = a_i . b_j for the 64 rows of `a` and the `streamed` (32 or 64) rows of `b`.
template <bool exact, int streamed, int columns>
__device__ void dot_rows(const Tile<columns>& a, const Tile<columns>& b, Accumulator<streamed / 32>& sum) {
  constexpr int parts = streamed / 32, piece = columns < 64 ? columns : 64;
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const float* left = a.row(warp / 4 * 32 + lane % 16) + lane / 16 * 4;
  // With two column tiles matrices 2 and 3 belong to the second; with one they are the next 8 numbers of the same rows.
  const float* right = parts == 2 ? b.row(warp % 4 * 16 + lane % 8 + lane / 16 * 8) + lane / 8 % 2 * 4
                                  : b.row(warp % 4 * 8 + lane % 8) + lane / 8 * 4;
  sum.clear();
#pragma unroll 1
  for (int begin = 0; begin < columns; begin += piece) {
    Accumulator<parts> part;
    part.clear();
#pragma unroll 2
    for (int pair = 0; pair < piece; pair += 16) {
      float next[4];
#pragma unroll
      for (int k = pair; k < pair + 16; k += 8) {
        Fragment<exact, 4> rows_of_a[2];
        Fragment<exact, 2> rows_of_b[parts];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float value[4];
          load_four(left + i * 16 * Tile<columns>::stride + begin + k, value);
#pragma unroll
          for (int e = 0; e < 4; ++e) rows_of_a[i].set(e, value[e]);
        }
        if (parts == 2 || k == pair) load_four(right + begin + k, next);
#pragma unroll
        for (int n = 0; n < parts; ++n) {
          const int from = parts == 2 ? 2 * n : (k - pair) / 4;
          rows_of_b[n].set(0, next[from]);
          rows_of_b[n].set(1, next[from + 1]);
        }
        multiply<exact>(part, 0, rows_of_a, rows_of_b);
      }
    }
    sum.add(part);
  }
}

/// sum[i][.] += sum over j of weights[i][j] b_j, for `depth` (32 or 64) rows of b. Slot s of the units' inner axis is
/// row 2 s, slot s + 4 is row 2 s + 1: that order reads both operands without conflicts.
template <bool exact, int depth, int columns>
__device__ void add_rows(const Weights<depth>& weights, const Tile<columns>& b, Accumulator<columns / 32>& sum) {
  constexpr int parts = columns / 32;
  const Lane lane;
  const float* left = weights.row(lane.row) + 2 * lane.part;
  const float* right = b.row(2 * lane.part) + lane.quarter * 8 * parts + threadIdx.x % 32 / 4;
  Accumulator<parts> part;
  part.clear();
#pragma unroll 2
  for (int k = 0; k < depth; k += 8) {
    Fragment<exact, 4> rows_of_a[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float2 upper = *reinterpret_cast<const float2*>(left + 16 * i * Weights<depth>::stride + k);
      const float2 lower = *reinterpret_cast<const float2*>(left + (16 * i + 8) * Weights<depth>::stride + k);
      rows_of_a[i].set(0, upper.x);
      rows_of_a[i].set(1, lower.x);
      rows_of_a[i].set(2, upper.y);
      rows_of_a[i].set(3, lower.y);
    }
    constexpr int together = parts < 4 ? parts : 4;
#pragma unroll
    for (int first = 0; first < parts; first += together) {
      Fragment<exact, 2> rows_of_b[together];
#pragma unroll
      for (int n = 0; n < together; ++n) {
        rows_of_b[n].set(0, right[k * Tile<columns>::stride + 8 * (first + n)]);
        rows_of_b[n].set(1, right[(k + 1) * Tile<columns>::stride + 8 * (first + n)]);
      }
      multiply<exact>(part, first, rows_of_a, rows_of_b);
    }
  }
  sum.add(part);
}

}  // namespace afterglow::device::tiles
