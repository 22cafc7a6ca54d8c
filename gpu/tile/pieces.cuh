// Vectorised access: several neighbouring numbers of a row in one load or store.
#pragma once
#include "gpu/tile/device.cuh"

namespace afterglow::device {

__device__ inline unsigned bf16_pair(float a, float b) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(a, b);
  return reinterpret_cast<const unsigned&>(pair);
}
__device__ inline float2 floats_of(unsigned pair) {
  return __bfloat1622float2(reinterpret_cast<__nv_bfloat162&>(pair));
}

/// Two or four neighbouring numbers of memory that no kernel writes meanwhile.
__device__ inline float2 two_of(const float* from) { return __ldg(reinterpret_cast<const float2*>(from)); }
__device__ inline float2 two_of(const Bf16* from) { return floats_of(__ldg(reinterpret_cast<const unsigned*>(from))); }
__device__ inline float4 four_of(const float* from) { return __ldg(reinterpret_cast<const float4*>(from)); }
__device__ inline float4 four_of(const Bf16* from) {
  const uint2 pairs = __ldg(reinterpret_cast<const uint2*>(from));
  const float2 first = floats_of(pairs.x), second = floats_of(pairs.y);
  return make_float4(first.x, first.y, second.x, second.y);
}

/// The largest absolute value.
__device__ inline float largest(const float4& v) {
  return fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w)));
}

__device__ inline void store_two(float* to, bool accumulate, float first, float second) {
  float2& place = *reinterpret_cast<float2*>(to);
  const float2 old = accumulate ? place : make_float2(0, 0);
  place = make_float2(old.x + first, old.y + second);
}
__device__ inline void store_two(Bf16* to, bool accumulate, float first, float second) {
  unsigned& place = *reinterpret_cast<unsigned*>(to);
  const float2 old = accumulate ? floats_of(place) : make_float2(0, 0);
  place = bf16_pair(old.x + first, old.y + second);
}

/// Neighbouring numbers as stored; multiples of four are read in vectors of up to 16 bytes.
template <class T, unsigned width>
struct Stored {
  static constexpr unsigned bytes = width * sizeof(T);
  using Bits = std::conditional_t<width % 4 != 0, T, std::conditional_t<bytes % 16 == 0, uint4, uint2>>;
  Bits bits[bytes / sizeof(Bits)];

  __device__ static Stored of(const T* from, bool inside) {
    Stored stored;
    unrolled<bytes / sizeof(Bits)>(
        [&](unsigned i) { stored.bits[i] = inside ? reinterpret_cast<const Bits*>(from)[i] : Bits{}; });
    return stored;
  }
  __device__ static Stored of(const Rows<T>& rows, unsigned row, unsigned column, bool inside) {
    return of(rows.data + row * rows.stride + column, inside);
  }
  __device__ void store(T* to) const {
    unrolled<bytes / sizeof(Bits)>([&](unsigned i) { reinterpret_cast<Bits*>(to)[i] = bits[i]; });
  }
  /// The same bits, opaque to the compiler: it recomputes what depends on them instead of keeping it in registers.
  __device__ Stored again() const {
    Stored other = *this;
    if constexpr (bytes % 4 == 0) {
      auto* words = reinterpret_cast<unsigned*>(&other);
      unrolled<bytes / 4>([&](unsigned i) { asm volatile("" : "+r"(words[i])); });
    }
    return other;
  }
};

template <unsigned width>
struct Piece {
  float v[width];
  template <class T>
  __device__ static Piece of(const Rows<T>& rows, unsigned row, unsigned column, bool inside) {
    return of(rows.data + row * rows.stride + column, inside);
  }
  template <class T>
  __device__ static Piece of(const T* from, bool inside) {
    return of(Stored<T, width>::of(from, inside));
  }
  template <class T>
  __device__ static Piece of(const Stored<T, width>& stored) {
    Piece piece;
    if constexpr (std::is_same_v<T, Bf16> && width % 2 == 0) {
      const auto* pairs = reinterpret_cast<const unsigned*>(&stored);
#pragma unroll
      for (unsigned e = 0; e < width; e += 2) {
        const float2 both = floats_of(pairs[e / 2]);
        piece.v[e] = both.x;
        piece.v[e + 1] = both.y;
      }
    } else {
      const auto* numbers = reinterpret_cast<const T*>(&stored);
      unrolled<width>([&](unsigned e) { piece.v[e] = float(numbers[e]); });
    }
    return piece;
  }
  template <class T>
  __device__ Stored<T, width> as() const {
    Stored<T, width> stored;
    if constexpr (std::is_same_v<T, Bf16> && width % 2 == 0) {
      auto* pairs = reinterpret_cast<unsigned*>(&stored);
#pragma unroll
      for (unsigned e = 0; e < width; e += 2) pairs[e / 2] = bf16_pair(v[e], v[e + 1]);
    } else {
      auto* numbers = reinterpret_cast<T*>(&stored);
      unrolled<width>([&](unsigned e) { numbers[e] = static_cast<T>(v[e]); });
    }
    return stored;
  }
  template <class T>
  __device__ void store(T* to) const {
    as<T>().store(to);
  }
  template <class T>
  __device__ void put(const SinkOf<T>& sink, unsigned row, unsigned column) const {
    T* to = &sink.rows.at(row, column);
    Piece sum = *this;
    if (sink.accumulate) {
      const Piece before = of(to, true);
      unrolled<width>([&](unsigned e) { sum.v[e] += before.v[e]; });
    }
    sum.store(to);
  }
};

template <unsigned width>
__device__ float product_of(const Piece<width>& a, const Piece<width>& b) {
  float sum = 0;
  unrolled<width>([&](unsigned e) { sum += a.v[e] * b.v[e]; });
  return sum;
}

/// How many numbers of type T one 16-byte load holds.
template <class T>
constexpr unsigned max_piece = 16 / sizeof(T);

/// Whether rows are absent, or can be read in vectors of `width` numbers, four or more.
template <unsigned width, class T>
bool in_pieces(const Rows<T>& rows) {
  constexpr std::size_t bytes = width * sizeof(T) < 16 ? width * sizeof(T) : 16;
  return rows.data == nullptr || (reinterpret_cast<std::uintptr_t>(rows.data) % bytes == 0 && rows.stride % width == 0);
}

}  // namespace afterglow::device
