// Shared by the forward and backward passes of the SKA core: sizes, tiles of tokens, and products of small matrices in
// shared memory.
// A matrix in shared memory is zero-padded to 16 W x 16 W, with W = 1 for sizes up to 16, 2 up to 32 and 4 up to 64.
// Products use the tensor-core fragments of tiles.cuh; `exact` ones split their operands and are as accurate as
// float32.
#pragma once
#include <algorithm>

#include "core/backend/backend.h"
#include "gpu/runtime/launch.cuh"
#include "gpu/tile/fragments.cuh"

namespace afterglow::device {

struct RidgeShape {
  int batch, length, heads, rank, width;
  int piece, groups;        ///< statistics are sums over pieces; the queries of group g are the positions of piece g
  bool exclusive, running;  ///< exclusive: without piece g itself; running: m over the contributing pieces only
  int power, iterations;
  int roles;  ///< bit i: positions with the mask i count
  float ridge;
  float gamma_low, gamma_span;  ///< gamma = low + span sigmoid(gamma_raw)
  bool plain;                   ///< neither lengths nor left factors are given

  __device__ float gamma(float raw) const { return gamma_low + gamma_span * sigmoid(raw); }
  __device__ float gamma_slope(float raw) const { return gamma_span * sigmoid(raw) * (1.0f - sigmoid(raw)); }
  __host__ __device__ int square() const { return rank * rank; }
  __host__ __device__ int tall() const { return width * rank; }
  __device__ std::size_t token(int pair, int t) const {  ///< row of [B,T,H,.] for pair = b heads + h
    return (std::size_t(pair / heads) * length + t) * heads + pair % heads;
  }
  __device__ bool counts(std::uint8_t role) const { return (roles >> role & 1) != 0; }
  __device__ int first(int g) const { return g * piece; }
  __device__ int count(int g) const { return min(piece, length - g * piece); }
};

struct RidgePointers {
  const float *z, *q, *v;  ///< null when stored as bfloat16, which only warp-group kernels read
  const float *eta, *gamma_raw;
  const std::uint8_t* mask;  ///< null unless the mode is masked
  float *G, *M, *L, *A_w, *C, *F, *m, *sigma, *jitter;
  int* m_index;
  float* inverse;              ///< null when no backward pass follows
  const float *length, *left;  ///< null unless given
};

inline RidgeShape ridge_shape(const RidgeConfig& config, const RidgeInputs& in) {
  const RidgeSizes sizes = in.sizes();
  RidgeShape s{};
  s.batch = int(sizes.batch);
  s.length = int(sizes.tokens);
  s.heads = int(sizes.heads);
  s.rank = int(sizes.r);
  s.width = int(sizes.width);
  s.exclusive = config.mode == RidgeConfig::Mode::chunk;
  s.piece = s.exclusive ? config.chunk : config.mode == RidgeConfig::Mode::recurrent ? 1 : s.length;
  s.groups = int(config.groups(s.length));
  s.running = config.mode == RidgeConfig::Mode::recurrent || (s.exclusive && config.norm == RidgeConfig::Norm::prefix);
  s.power = config.power;
  s.iterations = config.power_iterations;
  s.roles = config.roles;
  s.ridge = float(config.ridge);
  s.gamma_low = float(config.gamma.low);
  s.gamma_span = float(config.gamma.high - config.gamma.low);
  s.plain = !in.length.defined() && !in.left.defined();
  if (s.rank > 64 || s.width > 64) {
    throw Error(ExitCode::failure, "the GPU's SKA core takes ranks and head widths up to 64, and these are " +
                                       std::to_string(s.rank) + " and " + std::to_string(s.width) +
                                       "; use more heads or --device cpu");
  }
  return s;
}

inline RidgePointers ridge_pointers(const RidgeConfig& config, const RidgeInputs& in, const RidgeSaved& saved) {
  const auto of = [](const Tensor& tensor) { return tensor.dtype == DType::bf16 ? nullptr : tensor.as<float>(); };
  const auto* mask = config.mode == RidgeConfig::Mode::masked ? in.mask.as<std::uint8_t>() : nullptr;
  return {of(in.z),          of(in.q),
          of(in.v),          of(in.eta),
          of(in.gamma_raw),  mask,
          of(saved.G),       of(saved.M),
          of(saved.L),       of(saved.A_w),
          of(saved.C),       of(saved.F),
          of(saved.m),       of(saved.sigma),
          of(saved.jitter),  saved.m_index.as<int>(),
          of(saved.inverse), of(in.length),
          of(in.left)};
}

constexpr float min_scale = 1e-6f;  // lower bound of m

/// Threads of a block that multiplies. Two warps suffice for the smallest matrices, and many such blocks fit a
/// multiprocessor.
template <int W>
constexpr int ridge_threads = W == 1 ? 64 : 256;
template <int W>
constexpr int ridge_warps = ridge_threads<W> / 32;
/// Minimum number of a kernel's blocks on a multiprocessor; `large` for blocks of 256 threads.
template <int W>
constexpr int ridge_blocks(int large) {
  return W == 1 ? 8 : large;
}

/// Layout of a padded matrix. Columns are swizzled by row, so that a warp reads eight rows of four numbers, or four
/// rows of eight, without bank conflicts; in the smallest matrices two rows share the banks anyway.
template <int W>
struct Grid {
  static constexpr int width = 16 * W;
  static constexpr int size = width * width;
  __device__ static int swizzle(int row) { return (W == 1 ? (row & 2) << 2 : (row & 3) << 3) | (row & 4); }
  __device__ static int place(int row, int column) { return row * width + (column ^ swizzle(row)); }
  /// Of row `block` + row, for a multiple of eight; the compiler shares the swizzle between blocks.
  __device__ static int place(int block, int row, int column) {
    return (block + row) * width + (column ^ swizzle(row));
  }
};

__device__ inline int ridge_warp() { return int(threadIdx.x) / 32; }
__device__ inline int ridge_lane() { return int(threadIdx.x) % 32; }

/// A product in registers: each warp holds half of the rows (of the smallest matrices all) and some of the columns,
/// each thread pairs of neighbours.
template <int W>
struct Product {
  static constexpr int down = W == 1 ? 1 : 2, across = ridge_warps<W> / down;  // warps
  static constexpr int row_tiles = W / down, column_tiles = 2 * W / across;
  float v[row_tiles][column_tiles][4];

  __device__ static int first_row() { return ridge_warp() / across * 16 * row_tiles; }
  __device__ static int first_column() { return ridge_warp() % across * 8 * column_tiles; }
  __device__ void clear() {
    unrolled<row_tiles, column_tiles, 4>([&](int i, int j, int e) { v[i][j][e] = 0; });
  }
  __device__ void add(const Product& other, float factor = 1.0f) {
    unrolled<row_tiles, column_tiles, 4>([&](int i, int j, int e) { v[i][j][e] += factor * other.v[i][j][e]; });
  }
  /// Calls body(row, column, number at column, number at column + 1); columns are even.
  template <class Body>
  __device__ void pairs(const Body& body) {
    each_pair(*this, body);
  }
  template <class Body>
  __device__ void pairs(const Body& body) const {
    each_pair(*this, body);
  }
  template <class Body>
  __device__ void each(const Body& body) {
    pairs([&](int row, int column, float& first, float& second) {
      body(row, column, first);
      body(row, column + 1, second);
    });
  }
  /// Stores to shared memory that no thread reads; the caller synchronises before and after.
  __device__ void store(float* to, float factor = 1.0f) const {
    pairs([&](int row, int column, float first, float second) {
      *reinterpret_cast<float2*>(to + Grid<W>::place(row, column)) = make_float2(factor * first, factor * second);
    });
  }
  /// The same with the barriers, for a result that replaces one of its operands.
  __device__ void replace(float* to, float factor = 1.0f) const {
    __syncthreads();
    store(to, factor);
    __syncthreads();
  }
  /// This thread's part of the sum of elementwise products with a matrix in shared memory.
  __device__ float dot(const float* with) const {
    float sum = 0;
    pairs([&](int row, int column, float first, float second) {
      const float2 other = *reinterpret_cast<const float2*>(with + Grid<W>::place(row, column));
      sum += first * other.x + second * other.y;
    });
    return sum;
  }

 private:
  template <class Self, class Body>
  __device__ static void each_pair(Self& self, const Body& body) {
    const int row = first_row() + ridge_lane() / 4, column = first_column() + ridge_lane() % 4 * 2;
    unrolled<row_tiles, 2, column_tiles>([&](int i, int half, int j) {
      body(row + 16 * i + 8 * half, column + 8 * j, self.v[i][j][2 * half], self.v[i][j][2 * half + 1]);
    });
  }
};

/// An operand whose rows run along the summed axis, from row `first` on.
struct ByRows {
  const float* data;
  int first = 0;
};
/// An operand whose columns run along the summed axis, which begins with row `first`.
struct ByColumns {
  const float* data;
  int first = 0;
};

/// Loads 16 lines of a left operand at eight depths; both offsets are multiples of eight.
template <int W, bool exact>
__device__ void fetch(tiles::Fragment<exact, 4>& to, const ByRows& from, int line, int depth) {
  const int lane = ridge_lane(), column = depth + lane / 16 * 4;
  float value[4];
  tiles::load_four(from.data + Grid<W>::place(line, from.first + lane % 16, column), value);
  unrolled<4>([&](int e) { to.set(e, value[e]); });
}
template <int W, bool exact>
__device__ void fetch(tiles::Fragment<exact, 4>& to, const ByColumns& from, int line, int depth) {
  const int lane = ridge_lane();
  unrolled<4>([&](int e) {
    const int row = from.first + lane % 4 + e / 2 * 4, column = line + lane / 4 + e % 2 * 8;
    to.set(e, from.data[Grid<W>::place(depth, row, column)]);
  });
}
/// Loads eight lines for each fragment of a right operand at eight depths.
template <int W, bool exact, int count>
__device__ void fetch(tiles::Fragment<exact, 2> (&to)[count], const ByRows& from, int line, int depth) {
  const int lane = ridge_lane(), row = from.first + lane % 8, column = depth + lane / 8 % 2 * 4;
#pragma unroll
  for (int n = 0; n + 1 < count; n += 2) {
    float value[4];
    tiles::load_four(from.data + Grid<W>::place(line + 8 * n + lane / 16 * 8, row, column), value);
    unrolled<4>([&](int e) { to[n + e / 2].set(e % 2, value[e]); });
  }
  if constexpr (count % 2 == 1) {
    float value[2];
    tiles::load_two(from.data + Grid<W>::place(line + 8 * (count - 1), row, column), value);
    unrolled<2>([&](int e) { to[count - 1].set(e, value[e]); });
  }
}
template <int W, bool exact, int count>
__device__ void fetch(tiles::Fragment<exact, 2> (&to)[count], const ByColumns& from, int line, int depth) {
  const int lane = ridge_lane();
  unrolled<count, 2>([&](int n, int e) {
    const int row = from.first + lane % 4 + e * 4, column = line + 8 * n + lane / 4;
    to[n].set(e, from.data[Grid<W>::place(depth, row, column)]);
  });
}

/// out += a b over eight depths from k on.
template <bool exact, int W, class Left, class Right>
__device__ void add_step(Product<W>& out, const Left& a, const Right& b, int k) {
  tiles::Fragment<exact, 4> left[Product<W>::row_tiles];
  tiles::Fragment<exact, 2> right[Product<W>::column_tiles];
  unrolled<Product<W>::row_tiles>([&](int i) { fetch<W>(left[i], a, Product<W>::first_row() + 16 * i, k); });
  fetch<W>(right, b, Product<W>::first_column(), k);
  tiles::multiply_fragments<exact>(out.v, left, right);
}

/// out = a b, summed over `depth` (at most the width, a multiple of eight). A left operand by columns is transposed,
/// and so is a right one by rows.
template <bool exact, int W, class Left, class Right>
__device__ void multiply(Product<W>& out, const Left& a, const Right& b, int depth) {
  out.clear();
  // Not unrolled: a kernel runs some twenty products once each, and fetching instructions would dominate.
#pragma unroll 1
  for (int k = 0; k < depth; k += 8) add_step<exact>(out, a, b, k);
}

template <class Left, class Right>
struct Factors {
  Left left;
  Right right;
};
template <class Left, class Right>
Factors(Left, Right) -> Factors<Left, Right>;

/// Two products at once, so that each hides the latencies of the other.
template <bool exact, int W, class One, class Other>
__device__ void multiply_two(Product<W>& out, const One& of, Product<W>& out_too, const Other& of_too, int depth) {
  out.clear();
  out_too.clear();
#pragma unroll 1
  for (int k = 0; k < depth; k += 8) {
    add_step<exact>(out, of.left, of.right, k);
    add_step<exact>(out_too, of_too.left, of_too.right, k);
  }
}

/// out += factor a b. Tensor cores truncate their sums, so every product starts from zero.
template <bool exact, int W, class Left, class Right>
__device__ void accumulate(Product<W>& out, const Left& a, const Right& b, int depth, float factor = 1.0f) {
  Product<W> part;
  multiply<exact>(part, a, b, depth);
  out.add(part, factor);
}

/// Swaps two tiles: the block copies into one while it works on the other.
__device__ inline void swap(float*& one, float*& other) {
  float* const before = one;
  one = other;
  other = before;
}

/// Waits, in the whole block, for the copies of `load_rows`.
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
}

/// Begins to fill a padded matrix of `rows` from rows in global memory: from(i), or zeros when that is null. Call
/// `wait_for_copies` before reading it.
template <int W, class From>
__device__ void load_rows(float* to, int columns, const From& from, int rows = Grid<W>::width) {
  constexpr int width = Grid<W>::width;
  const bool fours = columns % 4 == 0;
  const int step = fours ? 4 : 1;
#pragma unroll 1
  for (int i = int(threadIdx.x) * step; i < rows * width; i += ridge_threads<W> * step) {
    const int row = i / width, column = i % width;
    const float* source = from(row);
    const bool inside = source != nullptr && column < columns;
    float* place = to + Grid<W>::place(row, column);
    if (!fours) {
      *place = inside ? source[column] : 0.0f;
    } else if (inside) {
      tiles::copy_piece(place, source + column, true);
    } else {
      *reinterpret_cast<float4*>(place) = make_float4(0, 0, 0, 0);
    }
  }
}

template <int W>
__device__ void load_matrix(float* to, const float* from, int rows, int columns) {
  load_rows<W>(to, columns, [&](int row) { return row < rows ? from + row * columns : nullptr; });
}

/// Calls body(row, column, numbers) for the first `columns` numbers of every row: float4, or float when columns is no
/// multiple of four.
template <int W, class Body>
__device__ void each_row(const float* from, int columns, const Body& body) {
  constexpr int width = Grid<W>::width;
  const bool fours = columns % 4 == 0;
  const int step = fours ? 4 : 1;
#pragma unroll 1
  for (int i = int(threadIdx.x) * step; i < width * width; i += ridge_threads<W> * step) {
    const int row = i / width, column = i % width;
    const float* place = from + Grid<W>::place(row, column);
    if (column >= columns) continue;
    if (fours) {
      body(row, column, *reinterpret_cast<const float4*>(place));
    } else {
      body(row, column, *place);
    }
  }
}

template <int W>
__device__ void store_matrix(float* to, const float* from, int rows, int columns, float factor = 1.0f) {
  each_row<W>(from, columns, [&](int row, int column, auto number) {
    if (row < rows) *reinterpret_cast<decltype(number)*>(to + row * columns + column) = factor * number;
  });
}

template <int W>
__device__ void clear_matrix(float* to) {
  for (int i = int(threadIdx.x) * 4; i < Grid<W>::size; i += ridge_threads<W> * 4) {
    *reinterpret_cast<float4*>(to + i) = make_float4(0, 0, 0, 0);
  }
}

__device__ inline int padded(int depth) { return (depth + 7) / 8 * 8; }

/// The key of a position; null outside the sequence or when masked.
__device__ inline const float* key_at(const RidgeShape& s, const RidgePointers& in, int pair, int t) {
  if (t < 0 || t >= s.length) return nullptr;
  if (in.mask != nullptr && !s.counts(in.mask[pair / s.heads * s.length + t])) return nullptr;
  return in.z + s.token(pair, t) * s.rank;
}

/// Loads rows of z, q, v, dy or y for positions [first, end) of a pair; [B,T,H,columns].
template <int W>
__device__ void load_positions(float* to, const RidgeShape& s, const float* from, int columns, int pair, int first,
                               int end) {
  load_rows<W>(to, columns,
               [&](int row) { return first + row < end ? from + s.token(pair, first + row) * columns : nullptr; });
}

/// Loads the keys of positions first - 1 .. end - 1, so row 0 is the previous one. Masked keys are zero, and so are
/// their contributions. The matrix has one row more than others.
template <int W>
__device__ void load_keys(float* to, const RidgeShape& s, const RidgePointers& in, int pair, int first, int end) {
  const auto at = [&](int row) { return first - 1 + row < end ? key_at(s, in, pair, first - 1 + row) : nullptr; };
  load_rows<W>(to, s.rank, at, Grid<W>::width + 1);
}

/// Loads the left factors of these positions, where they are given; those of masked keys are zero.
template <int W>
__device__ void load_left(float* to, const RidgeShape& s, const RidgePointers& in, int pair, int first, int end) {
  if (in.left == nullptr) return;
  load_rows<W>(to, s.rank, [&](int row) -> const float* {
    const bool counts = first + row < end && key_at(s, in, pair, first + row) != nullptr;
    return counts ? in.left + s.token(pair, first + row) * s.rank : nullptr;
  });
}

/// One number, or four neighbours, of G, M or C, which one thread owns in all groups when it sums over groups.
template <class Number>
struct Owned {
  Number* place = nullptr;  ///< in the first group; null beyond the last number
  std::size_t stride = 0;   ///< from group to group
  bool is_first = false, is_tall = false;

  __device__ Owned(const RidgeShape& s, float* G, float* M, float* C, std::size_t first_group) {
    constexpr int width = sizeof(Number) / sizeof(float);
    const int number = int(blockIdx.x * blockDim.x + threadIdx.x) * width;
    if (number >= 2 * s.square() + s.tall()) return;
    is_first = number == 0;
    is_tall = number >= 2 * s.square();
    const int size = is_tall ? s.tall() : s.square();
    float* matrices = is_tall ? C : number < s.square() ? G : M;
    const int offset = is_tall ? number - 2 * s.square() : number % s.square();
    place = reinterpret_cast<Number*>(matrices + first_group * std::size_t(size) + offset);
    stride = std::size_t(size / width);
  }
};

constexpr int owner_threads = 128;  // of a block that sums over groups
constexpr int groups_ahead = 8;     // loads in flight

/// Launches a kernel with one owner for each number, or for four numbers where the sizes allow it.
template <class Four, class One, class... Arguments>
void launch_owners(Four* four, One* one, cudaStream_t stream, const RidgeShape& s, const Arguments&... arguments) {
  const bool fours = s.square() % 4 == 0 && s.tall() % 4 == 0;
  const dim3 grid(blocks_for(2 * s.square() + s.tall(), owner_threads * (fours ? 4 : 1)), unsigned(s.batch * s.heads));
  launch(fours ? four : one, grid, owner_threads, 0, stream, s, arguments...);
}

/// Calls body with the smallest W that holds ranks and widths, as a type.
template <class Body>
void with_grid(const RidgeShape& s, const Body& body) {
  with_capacity<1, 2, 4>((std::max(s.rank, s.width) + 15) / 16, body);
}

}  // namespace afterglow::device
