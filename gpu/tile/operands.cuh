// Makes the operands of the products in tiles.cuh: rows of tokens become rows of tiles, split or rounded to halves,
// with Notes behind each row. One launch makes them for all blocks, or a block makes its own in shared memory.
#pragma once
#include "gpu/runtime/launch.cuh"
#include "gpu/tile/pieces.cuh"
#include "gpu/tile/tiles.cuh"

namespace afterglow::device::tiles {

/// Rows of `width` numbers in global memory, stored as T; a row holds several heads side by side.
template <class T>
struct OperandOf {
  const T* data = nullptr;
  std::size_t stride = 0;
  int width = 0;
  bool aligned = false;  // readable by fours
  __device__ const T* at(std::size_t row, int head) const { return data + row * stride + std::size_t(head) * width; }
};
using Operand = OperandOf<float>;

template <class T = float>
OperandOf<T> operand_of(const Tensor& tensor, std::int64_t row_stride, int width) {
  const T* data = rows_of<T>(tensor).data;
  const bool aligned =
      reinterpret_cast<std::uintptr_t>(data) % (4 * sizeof(T)) == 0 && row_stride % 4 == 0 && width % 4 == 0;
  return {data, std::size_t(row_stride), width, aligned};
}

/// Rows of tiles [B][heads][tokens, padded to whole tiles]; rows beyond the last token are zero.
struct Tiles {
  std::byte* data = nullptr;
  int heads = 1, padded = 0;
  template <int columns, bool exact>
  __device__ std::byte* at(int b, int head, int token) const {
    return data + ((std::size_t(b) * heads + head) * padded + token) * row_bytes<columns, exact>;
  }
};

inline std::size_t padded_rows(std::int64_t batch, std::int64_t heads, std::int64_t tokens) {
  return std::size_t(batch * heads * blocks_for(tokens, rows) * rows);
}

/// Rows [B,tokens] of heads that become rows of tiles, and the inputs of their Notes.
template <class T>
struct SourceOf {
  OperandOf<T> from;
  int tokens = 0, heads = 1;
  OperandOf<T> output;             ///< of an upstream gradient: its product with the output gives the mean
  const float* log_sum = nullptr;  ///< of queries: [B,heads,T], natural logarithm
  const float* gain = nullptr;     ///< of queries: [B,T]; null means 1

  __device__ bool aligned() const { return from.aligned && (output.data == nullptr || output.aligned); }
};

template <class T>
struct MakingOf : SourceOf<T> {
  Tiles to;
};

/// Operands that one launch makes, one behind the other in `memory`, and words that it clears.
template <class T>
struct MakingsOf {
  static constexpr int max_operands = 4;
  MakingOf<T> of[max_operands];
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
    making.heads = heads;
    making.to = {memory, heads, int(blocks_for(tokens, rows)) * rows};
    memory += all_rows * std::size_t(bytes_a_row);
    max_rows = std::max(max_rows, all_rows);
    return making;
  }
};

/// Reads columns [first, first + per) of a row; zeros beyond its width.
template <int per, class T>
__device__ void read_part(const OperandOf<T>& from, const T* row, int first, bool valid, float (&x)[per]) {
  if (per >= 4 && from.aligned) {
#pragma unroll
    for (int i = 0; i < per; i += 4) {
      const auto four = Piece<4>::of(row + first + i, valid && first + i < from.width);
      unrolled<4>([&](int e) { x[i + e] = four.v[e]; });
    }
  } else {
    unrolled<per>([&](int i) { x[i] = valid && first + i < from.width ? float(row[first + i]) : 0.0f; });
  }
}

/// Four numbers as stored; conversion is left to the caller, so that loads overlap. Zeros beyond the first `left`.
/// `aligned`: one load of all four or none.
template <bool aligned, class T>
__device__ Stored<T, 4> read_four(const T* from, int left) {
  if constexpr (aligned) return Stored<T, 4>::of(from, left > 0);
  Stored<T, 4> four;
  auto* const numbers = reinterpret_cast<T*>(&four);
  unrolled<4>([&](int e) { numbers[e] = e < left ? from[e] : T(0.0f); });
  return four;
}

/// Stores words with the widest possible instructions; `to` is aligned to all of them.
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

/// Writes numbers [first, first + per) of a row as halves; `scale` is that of the whole row.
template <int columns, bool exact, int per>
__device__ void write_part(std::byte* row, int first, const float (&x)[per], const Scale& scale) {
  std::uint32_t big[per / 2], rest[per / 2];
#pragma unroll
  for (int i = 0; i < per; i += 2) split(x[i] * scale.up, x[i + 1] * scale.up, big[i / 2], rest[i / 2]);
  store_words(row + first * 2, big);
  if constexpr (exact) store_words(row + columns * 2 + first * 2, rest);
}

/// A row of a tile: its numbers, then its Notes.
template <int width, bool exact>
struct TileRow {
  static constexpr int columns = width;
  std::byte* to;

  __device__ explicit TileRow(std::byte* row) : to(row) {}
  /// Row `row` of the tile that begins with token `begin`.
  __device__ TileRow(const Tiles& tiles, int b, int head, int begin, int row)
      : to(tiles.at<columns, exact>(b, head, begin + row)) {}
  template <int per>
  __device__ void put(int first, const float (&x)[per], const Scale& scale) const {
    write_part<columns, exact>(to, first, x, scale);
  }
  __device__ void note(const Notes& notes) const {
    *reinterpret_cast<Notes*>(to + row_bytes<columns, exact> - sizeof(Notes)) = notes;
  }
};

/// A thread's numbers of a row that neighbouring lanes write into a tile together. Reading and writing are separate, so
/// that several rows can be read first.
template <int columns, class T>
struct RowPart {
  static constexpr int per = columns < 128 ? 4 : 8, lanes = columns / per;
  Stored<T, 4> x[per / 4], output[per / 4];
  float log_sum = -INFINITY, gain = 1.0f;

  __device__ static int lane() { return int(threadIdx.x) % lanes; }
  /// Reads token `token + further`; the address of `token` is shared by several reads. Tokens beyond the last give
  /// zeros.
  template <bool aligned>
  __device__ void read(const SourceOf<T>& source, int b, int head, int token, int further) {
    const bool valid = token + further < source.tokens;
    const std::size_t row = std::size_t(b) * source.tokens + token;
    read_row<aligned>(source.from, row, head, further, valid, x);
    if (source.output.data != nullptr) read_row<aligned>(source.output, row, head, further, valid, output);
    if (source.log_sum != nullptr && valid)
      log_sum = source.log_sum[(std::size_t(b) * source.heads + head) * source.tokens + token + further];
    if (source.gain != nullptr) gain = valid ? source.gain[row + further] : 0.0f;
  }
  template <class Row>
  __device__ void write(const SourceOf<T>& source, const Row& to) const {
    float numbers[per];
    float peak = 0, mean = 0;
    unrolled<per>([&](int i) { numbers[i] = Piece<4>::of(x[i / 4]).v[i % 4]; });
    unrolled<per>([&](int i) { peak = fmaxf(peak, fabsf(numbers[i])); });
    if (source.output.data != nullptr) {
      unrolled<per>([&](int i) { mean += numbers[i] * Piece<4>::of(output[i / 4]).v[i % 4]; });
    }
#pragma unroll
    for (int offset = lanes / 2; offset > 0; offset /= 2) {
      peak = fmaxf(peak, __shfl_xor_sync(full_warp, peak, offset));
      mean += __shfl_xor_sync(full_warp, mean, offset);
    }
    const Scale scale(peak);
    to.put(lane() * per, numbers, scale);
    if (lane() != 0) return;
    // Rows beyond the end, and queries that see nothing, get weights of zero.
    const float power = log_sum == -INFINITY ? INFINITY : log_sum * 1.44269504f;
    to.note({scale.down, power, mean, gain});
  }

 private:
  template <bool aligned>
  __device__ static void read_row(const OperandOf<T>& from, std::size_t row, int head, int further, bool valid,
                                  Stored<T, 4> (&to)[per / 4]) {
    const T* numbers = from.at(row, head) + lane() * per + further * from.stride;
#pragma unroll
    for (int i = 0; i < per; i += 4)
      to[i / 4] = read_four<aligned>(numbers + i, valid ? from.width - lane() * per - i : 0);
  }
};

/// Makes one tile a block. Grid: (tiles of all sequences and heads, operands). Row: layout of a row in a tile.
template <class Row, class T>
static __global__ void __launch_bounds__(threads, 5) make_kernel(MakingsOf<T> in) {
  wait_for_previous_kernel();
  if (blockIdx.y == 0) {
    const unsigned word = blockIdx.x * threads + threadIdx.x;
    if (word < in.word_count) in.words[word] = 0;
  }
  using Part = RowPart<Row::columns, T>;
  const MakingOf<T>& making = in.of[blockIdx.y];
  const Tiles& to = making.to;
  const int tiles = to.padded / rows, sequence = int(blockIdx.x) / tiles, b = sequence / to.heads;
  if (b >= in.batch) return;
  const int head = sequence % to.heads, begin = int(blockIdx.x) % tiles * rows;
  for (int row = int(threadIdx.x) / Part::lanes; row < rows; row += threads / Part::lanes) {
    Part part;
    if (making.aligned()) {
      part.template read<true>(making, b, head, begin + row, 0);
    } else {
      part.template read<false>(making, b, head, begin + row, 0);
    }
    part.write(making, Row(to, b, head, begin, row));
  }
}

/// A tile of the first rows of a head, which a block makes for itself.
template <class T>
struct OwnTile {
  SourceOf<T> source;
  int head;
  std::byte* to;
};

/// Makes tiles of sequence b with all `block` threads. Each thread reads all its numbers first; behind the barrier the
/// block overwrites what the tiles' memory held before.
template <int columns, bool exact, int block, class T, int count>
__device__ __forceinline__ void make_tiles(int b, const OwnTile<T> (&tiles)[count]) {
  using Part = RowPart<columns, T>;
  constexpr int step = block / Part::lanes;
  const int row = int(threadIdx.x) / Part::lanes;
  Part parts[count][rows / step];
  const auto each = [&](const auto& visit) {
#pragma unroll
    for (int i = 0; i < count; ++i) unrolled<rows / step>([&](int n) { visit(tiles[i], parts[i][n], n * step); });
  };
  bool aligned = true;
  unrolled<count>([&](int i) { aligned = aligned && tiles[i].source.aligned(); });
  if (aligned) {
    each([&](const auto& tile, Part& part, int further) {
      part.template read<true>(tile.source, b, tile.head, row, further);
    });
  } else {
    each([&](const auto& tile, Part& part, int further) {
      part.template read<false>(tile.source, b, tile.head, row, further);
    });
  }
  __syncthreads();
  each([&](const auto& tile, const Part& part, int further) {
    part.write(tile.source, TileRow<columns, exact>(tile.to + (row + further) * row_bytes<columns, exact>));
  });
  __syncthreads();
}

template <class Row, class T>
void make_rows(cudaStream_t stream, const MakingsOf<T>& makings) {
  const dim3 grid(unsigned(makings.max_rows / rows), unsigned(makings.count));
  launch(make_kernel<Row, T>, grid, threads, 0, stream, makings);
}
template <int columns, bool exact, class T>
void make(cudaStream_t stream, const MakingsOf<T>& makings) {
  make_rows<TileRow<columns, exact>>(stream, makings);
}

/// Calls launch(columns, exact) with compile-time constants: the smallest of `widths` that holds `width`. False when
/// none does. T is the stored type.
template <class T, int... widths, class Launch>
bool with_columns(std::int64_t width, bool exact, const Launch& launch) {
  const auto attempt = [&](auto columns) {
    if (width > columns()) return false;
    with_exact<T>(exact, [&](auto is_exact) { launch(columns, is_exact); });
    return true;
  };
  return (attempt(std::integral_constant<int, widths>{}) || ...);
}

}  // namespace afterglow::device::tiles
