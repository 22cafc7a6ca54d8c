// Matrices of the SKA core on warp groups: up to 64 x 64 numbers as halves in shared memory, blocks of four warps.
#pragma once
#include "gpu/hopper/warpgroup_halves.cuh"
#include "gpu/ops/ridge/ridge_pieces.cuh"

namespace afterglow::device::warpgroup {

constexpr unsigned warps = threads / 32, held = 8;  // float4 of a 64 x 64 matrix a thread

/// Rows of up to 64 numbers in registers: a thread has four neighbours of every eighth row.
struct HeldRows {
  float4 numbers[held];

  __device__ static unsigned column() { return threadIdx.x % 16 * 4; }
  __device__ static unsigned row(unsigned i) { return threadIdx.x / 16 + 8 * i; }
  /// from(row): the address of a row, or null for zeros.
  template <class From>
  __device__ void load(int columns, const From& from) {
    unrolled<held>([&](unsigned i) {
      const auto* source = from(int(row(i)));
      const bool inside = source != nullptr && int(column()) < columns;
      numbers[i] = inside ? four_of(source + column()) : make_float4(0, 0, 0, 0);
    });
  }
  __device__ void load_matrix(const float* from, int rows, int columns) {
    load(columns, [&](int row) { return row < rows ? from + row * columns : nullptr; });
  }
  __device__ void store_matrix(float* to, int rows, int columns) const {
    unrolled<held>([&](unsigned i) {
      const int line = int(row(i)), place = int(column());
      if (line < rows && place < columns) *reinterpret_cast<float4*>(to + line * columns + place) = numbers[i];
    });
  }
  __device__ float peak() const {
    float peak = 0;
    for (const float4& four : numbers) peak = fmaxf(peak, largest(four));
    return peak;
  }
  template <bool exact = true>
  __device__ void store(const HalfMatrix& to, float up) const {
    unrolled<held>([&](unsigned i) { to.put<exact>(row(i), column(), numbers[i], up); });
  }
};

/// Rows for tokens [B,T] that hold all heads side by side, `columns` each; T is the stored type.
template <class T>
struct TokenArray {
  T* data = nullptr;
  int columns = 0, stride = 0;  ///< from token to token
  bool accumulate = false;      ///< of a gradient
  __host__ __device__ bool wanted() const { return data != nullptr; }
  __device__ T* at(const RidgeShape& s, int pair, int t) const {
    return data + (std::size_t(pair / s.heads) * s.length + t) * stride + pair % s.heads * columns;
  }
};
/// Heads [B,T,H,columns], or [B,T,H columns] with rows that may be strided.
template <class T>
TokenArray<T> tokens_of(const RidgeShape& s, const Tensor& tensor, int columns, bool accumulate = false) {
  const std::int64_t stride = tensor.shape.rank() == 4 ? std::int64_t{s.heads} * columns : tensor.row_stride;
  return {rows_of<T>(tensor).data, columns, int(stride), accumulate};
}
template <class T>
TokenArray<T> gradient_of(const RidgeShape& s, const Grad& grad, int columns) {
  return grad.wanted() ? tokens_of<T>(s, grad.tensor, columns, grad.accumulate) : TokenArray<T>{};
}

/// Calls run<exact, T>() for the stored type T of tokens.
template <class Run>
void with_numbers(const RidgeInputs& in, bool exact, const Run& run) {
  with_stored_type(in.z, [&]<class T>(T) {
    with_exact<T>(exact, [&](auto is_exact) { run.template operator()<is_exact(), T>(); });
  });
}

/// Rows of one pair of sequence and head, addressed without divisions.
template <class T>
struct TokenRows {
  const T* first;
  const std::uint8_t* mask;
  int stride, length, roles;

  __device__ TokenRows(const RidgeShape& s, const TokenArray<T>& all, int pair, const std::uint8_t* masks = nullptr)
      : first(all.at(s, pair, 0)),
        mask(masks == nullptr ? nullptr : masks + pair / s.heads * s.length),
        stride(all.stride),
        length(s.length),
        roles(s.roles) {}
  /// Null outside the sequence and for masked tokens.
  __device__ const T* at(int t) const {
    if (t < 0 || t >= length || (mask != nullptr && (roles >> mask[t] & 1) == 0)) return nullptr;
    return first + static_cast<std::ptrdiff_t>(t) * stride;
  }
};

/// Maxima over the block: every warp stores its own, and after a barrier all threads read them.
template <int count>
struct Peaks {
  float of[count][warps];
  __device__ void put(int which, float peak) {
    peak = max_in_warp(peak);
    if (threadIdx.x % 32 == 0) of[which][threadIdx.x / 32] = peak;
  }
  __device__ tiles::Scale scale(int which) const {
    return tiles::Scale(fmaxf(fmaxf(of[which][0], of[which][1]), fmaxf(of[which][2], of[which][3])));
  }
};

__device__ __forceinline__ void store_sums(float* to, const float (&sums)[8][4], int rows, int columns, float factor) {
  each_pair(sums, [&](int row, int column, float first, float second) {
    if (row < rows && column < columns)
      *reinterpret_cast<float2*>(to + row * columns + column) = make_float2(factor * first, factor * second);
  });
}

using Accumulators = float[8][4];

/// A matrix and the factor of its numbers.
struct Scaled {
  HalfMatrix at;
  float down;

  __device__ __forceinline__ void put(int row, int column, std::uint32_t big, std::uint32_t rest) const {
    unsigned char* place = at.memory + HalfMatrix::Block::place(unsigned(row), unsigned(column));
    *reinterpret_cast<std::uint32_t*>(place) = big;
    *reinterpret_cast<std::uint32_t*>(place + HalfMatrix::rest) = rest;
  }
  template <bool exact>
  __device__ __forceinline__ float2 pair(int row, int column) const {
    const unsigned char* from = at.memory + HalfMatrix::Block::place(unsigned(row), unsigned(column));
    const float2 sum =
        tiles::joined_halves(*reinterpret_cast<const std::uint32_t*>(from),
                             exact ? *reinterpret_cast<const std::uint32_t*>(from + HalfMatrix::rest) : 0u);
    return make_float2(down * sum.x, down * sum.y);
  }
};

__device__ __forceinline__ void scale_product(Accumulators& product, float factor) {
  each_constant<32>([&](auto i) { product[i() / 4][i() % 4] *= factor; });
}
__device__ __forceinline__ void add_product(Accumulators& to, const Accumulators& more, float factor) {
  each_constant<32>([&](auto i) { to[i() / 4][i() % 4] = fmaf(factor, more[i() / 4][i() % 4], to[i() / 4][i() % 4]); });
}
__device__ __forceinline__ float max_of(const Accumulators& product) {
  float peak = 0;
  each_constant<32>([&](auto i) { peak = fmaxf(peak, fabsf(product[i() / 4][i() % 4])); });
  return peak;
}

/// Waits until at most `pending` groups of products are in flight.
template <int pending>
__device__ __forceinline__ void wait_for_products(Accumulators& sums) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
  each_constant<32>([&](auto i) { asm volatile("" : "+f"(sums[i() / 4][i() % 4])::"memory"); });
}
/// sums = a b without the operands' scales; returns the product of the scales.
template <bool exact, bool a_by_columns, bool b_by_columns>
__device__ __forceinline__ float multiply_halves_of(Accumulators& sums, const Scaled& a, const Scaled& b) {
  begin_products();
  begin_multiply<exact, a_by_columns, b_by_columns>(sums, a.at, b.at);
  wait_for_products<0>(sums);
  return a.down * b.down;
}
template <bool exact, bool a_by_columns, bool b_by_columns>
__device__ __forceinline__ void multiply(Accumulators& sums, const Scaled& a, const Scaled& b, float factor = 1.0f) {
  scale_product(sums, factor * multiply_halves_of<exact, a_by_columns, b_by_columns>(sums, a, b));
}

/// Replaces a matrix, which the previous products have read, by a product times a factor. Includes barriers; `peaks`:
/// one entry.
template <int count>
__device__ __forceinline__ void replace(Peaks<count>& peaks, Scaled& to, const Accumulators& product,
                                        float factor = 1.0f) {
  peaks.put(0, max_of(product) * fabsf(factor));
  __syncthreads();
  const tiles::Scale own = peaks.scale(0);
  const float up = own.up * factor;
  to.down = own.down;
  each_pair(product, [&](int row, int column, float one, float two) {
    std::uint32_t big, rest;
    tiles::split(one * up, two * up, big, rest);
    to.put(row, column, big, rest);
  });
  fence_async_proxy();
}
/// Tells the compiler what it cannot see through a call.
__device__ __forceinline__ void assume_shared(const void* address) { __builtin_assume(__isShared(address)); }

/// `to` = factor a b; it may be one of them. Not inlined, like the next one: a kernel runs many products once each, and
/// fetching instructions would dominate.
template <bool exact, bool a_by_columns, bool b_by_columns>
static __device__ __noinline__ float multiply_into(HalfMatrix to, Scaled a, Scaled b, float factor, Peaks<1>& peaks) {
  assume_shared(to.memory);
  assume_shared(&peaks);
  Accumulators sums;
  Scaled result{to, 1.0f};
  const float scales = multiply_halves_of<exact, a_by_columns, b_by_columns>(sums, a, b);
  replace(peaks, result, sums, factor * scales);
  return result.down;
}
/// `to` [rank, rank] in global memory = factor scale a^T b; returns this thread's part of the inner product of factor
/// a^T b and the matrix `with`.
static __device__ __noinline__ float multiply_to(float* to, Scaled a, Scaled b, float factor, int rank, float scale,
                                                 const float* with) {
  Accumulators product;
  multiply<true, true, true>(product, a, b, factor);
  float sum = 0;
  each_pair(product, [&](int row, int column, float one, float two) {
    if (row >= rank || column >= rank) return;
    const float2 other = *reinterpret_cast<const float2*>(with + row * rank + column);
    sum += one * other.x + two * other.y;
    *reinterpret_cast<float2*>(to + row * rank + column) = make_float2(scale * one, scale * two);
  });
  return sum;
}
/// This thread's part of the inner product of two matrices; not `exact`: of the first halves.
template <bool exact>
static __device__ __noinline__ float dot(Scaled a, Scaled b) {
  assume_shared(a.at.memory);
  assume_shared(b.at.memory);
  float sum = 0;
#pragma unroll 4
  for (unsigned i = threadIdx.x; i < 64 * 32; i += threads) {
    const float2 one = a.pair<exact>(int(i / 32), int(i % 32 * 2)), two = b.pair<exact>(int(i / 32), int(i % 32 * 2));
    sum += one.x * two.x + one.y * two.y;
  }
  return sum;
}
/// Fills a matrix with `rows` rows of `columns` numbers, `stride` apart; returns their scale. Includes barriers before
/// and after the write. Not `exact`: first halves only.
template <bool exact = true, class T>
static __device__ __noinline__ float load_into(HalfMatrix to, const T* from, int rows, int columns, int stride,
                                               Peaks<1>& peaks) {
  assume_shared(to.memory);
  assume_shared(&peaks);
  HeldRows held_rows;
  held_rows.load(columns, [&](int row) { return row < rows ? from + std::ptrdiff_t{row} * stride : nullptr; });
  peaks.put(0, held_rows.peak());
  __syncthreads();
  const tiles::Scale own = peaks.scale(0);
  held_rows.store<exact>(to, own.up);
  fence_async_proxy();
  return own.down;
}

}  // namespace afterglow::device::warpgroup
