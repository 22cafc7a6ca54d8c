// Operands of the products in tiles.cuh, made once for all blocks that read them: rows of tokens become rows of
// tiles, split or rounded, together with what is known of them.
#pragma once
#include "gpu/device/launch.cuh"
#include "gpu/device/pieces.cuh"
#include "gpu/device/tiles.cuh"

namespace afterglow::device::tiles {

/// Rows of `width` numbers in global memory, stored as T; several heads lie side by side in a row.
template <class T>
struct OperandOf {
  const T* data = nullptr;
  std::size_t stride = 0;
  int width = 0;
  bool aligned = false;  // four numbers at a time
  __device__ const T* at(std::size_t row, int head) const { return data + row * stride + std::size_t(head) * width; }
};
using Operand = OperandOf<float>;

template <class T = float>
OperandOf<T> operand_of(const Tensor& tensor, std::int64_t row_stride, int width) {
  const T* data = rows_of<T>(tensor).data;
  const bool aligned =
      reinterpret_cast<std::uintptr_t>(data) % (4 * sizeof(T)) == 0 && row_stride % 4 == 0 && width % 4 == 0;
  return {data, static_cast<std::size_t>(row_stride), width, aligned};
}

/// Rows of tiles [B][heads][tokens, rounded up to whole tiles]; rows beyond the last token are zero.
struct Tiles {
  std::byte* data = nullptr;
  int heads = 1, padded = 0;
  template <int columns, bool exact>
  __device__ std::byte* at(int b, int head, int token) const {
    return data + ((static_cast<std::size_t>(b) * heads + head) * padded + token) * row_bytes<columns, exact>;
  }
};

inline std::size_t padded_rows(std::int64_t batch, std::int64_t heads, std::int64_t tokens) {
  return static_cast<std::size_t>(batch * heads * blocks_for(tokens, rows) * rows);
}

/// One operand to be made.
template <class T>
struct MakingOf {
  OperandOf<T> from;
  int tokens = 0;
  Tiles to;
  OperandOf<T> output;             ///< of an upstream gradient: what it is multiplied with for the mean
  const float* log_sum = nullptr;  ///< of queries: [B,heads,T], natural
  const float* gain = nullptr;     ///< of queries: [B,T]; without it 1
};

/// Operands that one launch makes, side by side in `memory`, and words that it clears.
template <class T>
struct MakingsOf {
  static constexpr int most = 4;
  MakingOf<T> of[most];
  int count = 0, batch = 0;
  std::size_t max_rows = 0;
  std::byte* memory = nullptr;
  unsigned* words = nullptr;
  unsigned word_count = 0;

  MakingsOf(int sequences, void* all) : batch(sequences), memory(static_cast<std::byte*>(all)) {}
  MakingOf<T>& add(const OperandOf<T>& from, int heads, int tokens, int bytes_a_row) {
    MakingOf<T>& making = of[count++];
    const std::size_t all_rows = padded_rows(batch, heads, tokens);
    making.from = from;
    making.tokens = tokens;
    making.to = {memory, heads, static_cast<int>(blocks_for(tokens, rows)) * rows};
    memory += all_rows * static_cast<std::size_t>(bytes_a_row);
    max_rows = std::max(max_rows, all_rows);
    return making;
  }
};

using Making = MakingOf<float>;
using Makings = MakingsOf<float>;

/// Columns [first, first + per) of a row; zeros beyond its width.
template <int per, class T>
__device__ void read_part(const OperandOf<T>& from, const T* row, int first, bool valid, float (&x)[per]) {
  if (per >= 4 && from.aligned) {
#pragma unroll
    for (int i = 0; i < per; i += 4) {
      const auto four = Piece<4>::of(row + first + i, valid && first + i < from.width);
#pragma unroll
      for (int e = 0; e < 4; ++e) x[i + e] = four.v[e];
    }
  } else {
#pragma unroll
    for (int i = 0; i < per; ++i) x[i] = valid && first + i < from.width ? static_cast<float>(row[first + i]) : 0.0f;
  }
}

/// Stores words at once as far as possible; `to` is as aligned as they are large.
template <int count>
__device__ void store_words(std::byte* to, const std::uint32_t (&words)[count]) {
  if constexpr (count % 4 == 0) {
#pragma unroll
    for (int i = 0; i < count; i += 4)
      *reinterpret_cast<uint4*>(to + i * 4) = make_uint4(words[i], words[i + 1], words[i + 2], words[i + 3]);
  } else if constexpr (count == 2) {
    *reinterpret_cast<uint2*>(to) = make_uint2(words[0], words[1]);
  } else {
    *reinterpret_cast<std::uint32_t*>(to) = words[0];
  }
}

/// Writes numbers [first, first + per) of a row in the form that the products take; `scale` of the whole row.
template <int columns, bool exact, int per>
__device__ void write_part(std::byte* row, int first, const float (&x)[per], const Scale& scale) {
  std::uint32_t big[per / 2], rest[per / 2];
#pragma unroll
  for (int i = 0; i < per; i += 2) split(x[i] * scale.up, x[i + 1] * scale.up, big[i / 2], rest[i / 2]);
  store_words(row + first * 2, big);
  if constexpr (exact) store_words(row + columns * 2 + first * 2, rest);
}

/// A tile by a block, a row by neighbouring lanes.
template <int columns, bool exact, class T>
static __global__ void __launch_bounds__(threads) make_kernel(MakingsOf<T> in) {
  await_previous();
  if (blockIdx.y == 0) {
    const unsigned word = blockIdx.x * threads + threadIdx.x;
    if (word < in.word_count) in.words[word] = 0;
  }
  constexpr int per = columns < 128 ? 4 : 8, lanes = columns / per;
  const MakingOf<T>& making = in.of[blockIdx.y];
  const Tiles& to = making.to;
  const int tiles = to.padded / rows, sequence = static_cast<int>(blockIdx.x) / tiles, b = sequence / to.heads;
  if (b >= in.batch) return;
  const int head = sequence % to.heads, begin = static_cast<int>(blockIdx.x) % tiles * rows;
  const int lane = static_cast<int>(threadIdx.x) % lanes, first = lane * per;
  for (int row = static_cast<int>(threadIdx.x) / lanes; row < rows; row += threads / lanes) {
    const int token = begin + row;
    const bool valid = token < making.tokens;
    const std::size_t from_row = static_cast<std::size_t>(b) * making.tokens + token;
    float x[per];
    read_part(making.from, making.from.at(from_row, head), first, valid, x);
    float peak = 0, mean = 0;
#pragma unroll
    for (int i = 0; i < per; ++i) peak = fmaxf(peak, fabsf(x[i]));
    if (making.output.data != nullptr) {
      float y[per];
      read_part(making.output, making.output.at(from_row, head), first, valid, y);
#pragma unroll
      for (int i = 0; i < per; ++i) mean += x[i] * y[i];
    }
#pragma unroll
    for (int offset = lanes / 2; offset > 0; offset /= 2) {
      peak = fmaxf(peak, __shfl_xor_sync(full_warp, peak, offset));
      mean += __shfl_xor_sync(full_warp, mean, offset);
    }
    const Scale scale(peak);
    std::byte* to_row = to.at<columns, exact>(b, head, token);
    write_part<columns, exact>(to_row, first, x, scale);
    if (lane != 0) continue;
    // Beyond the end, and where nothing is seen, every weight becomes zero.
    float log_sum = INFINITY, gain = 1.0f;
    if (making.log_sum != nullptr && valid) {
      const float given = making.log_sum[static_cast<std::size_t>(sequence) * making.tokens + token];
      if (given != -INFINITY) log_sum = given * 1.44269504f;
    }
    if (making.gain != nullptr) gain = valid ? making.gain[from_row] : 0.0f;
    *reinterpret_cast<Notes*>(to_row + row_bytes<columns, exact> - sizeof(Notes)) = {scale.down, log_sum, mean, gain};
  }
}

template <int columns, bool exact, class T>
void make(cudaStream_t stream, const MakingsOf<T>& makings) {
  const dim3 grid(static_cast<unsigned>(makings.max_rows / rows), static_cast<unsigned>(makings.count));
  launch(make_kernel<columns, exact, T>, grid, threads, 0, stream, makings);
}

/// Calls launch(columns, exact) with constants: the first of `widths` that is wide enough. False when none is.
template <int... widths, class Launch>
bool with_columns(std::int64_t width, bool exact, const Launch& launch) {
  const auto attempt = [&](auto columns) {
    if (width > columns()) return false;
    if (exact) {
      launch(columns, std::true_type{});
    } else {
      launch(columns, std::false_type{});
    }
    return true;
  };
  return (attempt(std::integral_constant<int, widths>{}) || ...);
}

}  // namespace afterglow::device::tiles
