// Helpers of every kernel family: views with strided rows, gradient sinks, activations, sums over warps and blocks, and
// partial sums that the last block to arrive adds. Every sum has a fixed order, so the same input gives the same bits.
#pragma once
#include <cuda_bf16.h>

#include <string>
#include <type_traits>

#include "core/io/error.h"
#include "core/tensor/tensor.h"

namespace afterglow::device {

constexpr int threads = 256;
constexpr unsigned warps = threads / 32;
constexpr unsigned full_warp = 0xffffffffu;

/// An unrolled loop, as arrays in registers need it: calls body(i) for every i below `count`; with more counts
/// body(i, j, ..), the last index running fastest.
template <int count, int... others, class Body>
__device__ __forceinline__ void unrolled(const Body& body) {
#pragma unroll
  for (int i = 0; i < count; ++i) {
    if constexpr (sizeof...(others) == 0) {
      body(i);
    } else {
      unrolled<others...>([&](auto... rest) { body(i, rest...); });
    }
  }
}

/// Calls body with the first of `capacities` that is at least `count`, otherwise the last, as a compile-time constant.
template <auto capacity, auto... larger, class Count, class Body>
auto with_capacity(Count count, const Body& body) {
  if constexpr (sizeof...(larger) > 0) {
    if (count > Count(capacity)) return with_capacity<larger...>(count, body);
  }
  return body(std::integral_constant<decltype(capacity), capacity>{});
}
/// Calls body with one of two numbers as a compile-time constant.
template <auto if_true, auto if_false, class Body>
auto with_either(bool condition, const Body& body) {
  if (condition) return body(std::integral_constant<decltype(if_true), if_true>{});
  return body(std::integral_constant<decltype(if_false), if_false>{});
}

/// A tensor whose elements are counted flat, with any row stride.
template <class T>
struct Rows {
  T* data = nullptr;
  unsigned columns = 1;
  std::size_t stride = 1;
  bool dense = true;

  __device__ T& operator[](unsigned i) const { return dense ? data[i] : data[(i / columns) * stride + i % columns]; }
  __device__ T& at(std::size_t row, unsigned column) const { return data[row * stride + column]; }
};

/// Storage type of activations and gradients in bf16 mode; kernels compute in float.
using Bf16 = __nv_bfloat16;

/// Destination of a gradient: assigned, accumulated, or dropped when it is not wanted.
template <class T>
struct SinkOf {
  Rows<T> rows;
  bool accumulate = false;
  __host__ __device__ bool wanted() const { return rows.data != nullptr; }
  __device__ void put(unsigned i, float value) const { put(rows[i], value); }
  __device__ void put(std::size_t row, unsigned column, float value) const { put(rows.at(row, column), value); }

 private:
  __device__ void put(T& place, float value) const {
    place = static_cast<T>(accumulate ? float(place) + value : value);
  }
};
using Sink = SinkOf<float>;

/// The view of a tensor that is stored as T; of an undefined one with null data.
template <class T = float>
Rows<T> rows_of(const Tensor& tensor) {
  if (tensor.defined() && (tensor.dtype == DType::bf16) != std::is_same_v<std::remove_const_t<T>, Bf16>)
    throw Error(ExitCode::failure, std::string("a kernel cannot take numbers of type ") + name_of(tensor.dtype));
  if (tensor.elements() >= (std::int64_t{1} << 32)) {
    // The weights of a model lie in one row of numbers.
    throw Error(ExitCode::out_of_memory,
                (tensor.shape.rank() == 1 ? "the model has " + tensor.shape.text() + " weights"
                                          : "a tensor of shape " + tensor.shape.text() + " is too large") +
                    ", and a GPU counts at most 4,294,967,295 numbers in one tensor; " +
                    (tensor.shape.rank() == 1 ? "take a smaller model or use --device cpu" : "take a smaller batch"));
  }
  return {tensor.as<T>(), unsigned(tensor.columns()), std::size_t(tensor.row_stride), tensor.contiguous()};
}
template <class T = float>
SinkOf<T> sink_of(const Grad& grad) {
  return grad.wanted() ? SinkOf<T>{rows_of<T>(grad.tensor), grad.accumulate} : SinkOf<T>{};
}
/// Heads [B,T,H,D] as rows [B,T,H D].
inline Tensor joined_heads(const Tensor& heads) {
  const Shape& s = heads.shape;
  return s.rank() == 3 ? heads : heads.reshaped({s[0], s[1], s[2] * s[3]});
}
/// Calls body(T{}) with the stored type of the tensor, Bf16 or float.
template <class Body>
void with_stored_type(const Tensor& tensor, const Body& body) {
  if (tensor.dtype == DType::bf16) return body(Bf16{});
  body(float{});
}
/// Calls body with whether products are exact, as a compile-time constant; those of numbers stored as bfloat16 never
/// are.
template <class T, class Body>
void with_exact(bool exact, const Body& body) {
  if constexpr (std::is_same_v<T, float>) {
    if (exact) return body(std::true_type{});
  }
  body(std::false_type{});
}
inline unsigned blocks_for(std::int64_t count, std::int64_t block) { return unsigned((count + block - 1) / block); }
inline unsigned at_most(unsigned blocks, unsigned limit) { return blocks < limit ? blocks : limit; }

__device__ inline float4 operator*(float factor, const float4& v) {
  return make_float4(factor * v.x, factor * v.y, factor * v.z, factor * v.w);
}
__device__ inline float4& operator+=(float4& sum, const float4& v) {
  return sum = make_float4(sum.x + v.x, sum.y + v.y, sum.z + v.z, sum.w + v.w);
}

/// 2^x; subnormal results become zero.
__device__ inline float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// 1 / x within one unit in the last place.
__device__ inline float reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// T is the type in which the result is stored. For bfloat16 the hardware's approximation (2^-20) is exact enough and
// shorter. The division has no branch for tiny quotients, so loads behind a sigmoid need not wait for it.
template <class T = float>
__device__ float sigmoid(float x) {
  constexpr float to_base_two = 1.4426950408889634f;
  if constexpr (std::is_same_v<T, Bf16>) return reciprocal(1.0f + power_of_two(-to_base_two * x));
  return __fdividef(1.0f, 1.0f + expf(-x));
}
template <class T = float>
__device__ float silu(float x) {
  return x * sigmoid<T>(x);
}
/// silu(x) and its derivative, from one exponential.
struct Silu {
  float value, slope;
};
template <class T = float>
__device__ Silu silu_with_slope(float x) {
  const float s = sigmoid<T>(x), value = x * s;
  return {value, s + value * (1.0f - s)};
}
template <class T = float>
__device__ float silu_slope(float x) {
  return silu_with_slope<T>(x).slope;
}
__device__ inline float softplus(float x) { return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x))); }

template <class T>
__device__ T warp_sum(T value) {
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(full_warp, value, offset);
  return value;
}
__device__ inline float warp_max(float value) {
  for (int offset = 16; offset > 0; offset /= 2) value = fmaxf(value, __shfl_xor_sync(full_warp, value, offset));
  return value;
}

/// The sum over the block, returned to every thread. `shared` holds 32 values; the block consists of whole warps.
template <class T>
__device__ T block_sum(T value, T* shared) {
  value = warp_sum(value);
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  T sum = 0;
  for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) sum += shared[warp];
  return sum;
}

/// The maximum over the block of numbers that are not negative, returned to every thread. `shared`: a number a warp,
/// which no thread reads any more.
template <unsigned warps>
__device__ float block_max(float value, float (&shared)[warps]) {
  value = warp_max(value);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  for (const float of_warp : shared) value = fmaxf(value, of_warp);
  return value;
}

/// True in exactly one block, the last of `blocks` to call it, which then sees what the other blocks wrote to global
/// memory. Resets the ticket to zero for the next kernel.
__device__ inline bool is_last_block(unsigned* ticket, unsigned blocks) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(ticket, 1u) == blocks - 1;
    if (last) *ticket = 0;
  }
  __syncthreads();
  if (last) __threadfence();
  return last;
}

/// Sums `count` rows of partials [count, stride] over columns [first, first + columns) and calls finish(column, sum).
/// The whole block calls; for narrow sums groups of threads split the rows.
template <class Finish>
__device__ void sum_partials(const float* partials, unsigned count, std::size_t stride, unsigned first,
                             unsigned columns, const Finish& finish) {
  __shared__ float sums[threads];
  unsigned width = 32;
  while (width < columns && width < threads) width *= 2;
  const unsigned slices = threads / width, slice = threadIdx.x / width;
  for (unsigned begin = 0; begin < columns; begin += width) {
    const unsigned column = begin + threadIdx.x % width;
    float sum = 0;
    if (column < columns) {
#pragma unroll 8
      for (unsigned row = slice; row < count; row += slices) sum += partials[row * stride + first + column];
    }
    __syncthreads();
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (slice == 0 && column < columns) {
      for (unsigned other = 1; other < slices; ++other) sum += sums[other * width + threadIdx.x];
      finish(first + column, sum);
    }
  }
}

}  // namespace afterglow::device
