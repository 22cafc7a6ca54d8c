// Large exact products of split matrices (split.cuh) by wgmma. A persistent block loops over tiles: one warp copies
// squares to shared memory, and two warp groups, each with 64 rows of a tile, multiply them with three products for
// one. The copies of the next tile overlap with storing the last one's results.
#include <algorithm>

#include "gpu/hopper/mbarrier.cuh"
#include "gpu/hopper/warpgroup_halves.cuh"
#include "gpu/ops/product/split.cuh"
#include "gpu/runtime/kernel.cuh"

namespace afterglow::device {
namespace {

using warpgroup::Operand;
using Square = warpgroup::Panel<square>;

constexpr unsigned groups = 2;                                 // warp groups that multiply
constexpr unsigned block = (groups + 1) * warpgroup::threads;  // one more group, whose first thread copies
// A stage holds one plane of the squares at a depth: halves or remainders.
constexpr unsigned stages = 5;
constexpr unsigned left_bytes = groups * plane_bytes;  // one square for each group
constexpr unsigned stage_bytes = left_bytes + max_tile_squares * plane_bytes;
constexpr unsigned shared_bytes = stages * stage_bytes + Ring<stages>::mbarrier_count * sizeof(std::uint64_t) + 1024;

struct Stages : Ring<stages> {
  unsigned char* memory;

  __device__ unsigned char* left() const { return memory + stage * stage_bytes; }
  __device__ unsigned char* right() const { return left() + left_bytes; }
};

/// A block's work item: a tile of a product and a share of the depth, in squares.
struct Work {
  unsigned product = 0, share, row, column, columns, from, end;
  __device__ Work(const SplitProducts& p, unsigned index) {
    const unsigned tile = index % p.tiles;
    share = index / p.tiles;
    while (product + 1 < p.count && p.of[product + 1].first_tile <= tile) ++product;
    const SplitProduct& own = p.of[product];
    const unsigned own_tile = tile - own.first_tile;
    row = own_tile % own.down * groups;
    const TileSquares across((own.columns + square - 1) / square, own_tile / own.down);
    column = across.first;
    columns = across.count;
    const unsigned each = (p.depth + p.shares - 1) / p.shares;
    from = share * each;
    end = min(p.depth, from + each);
  }
};

template <bool deep>
__device__ std::size_t index_of(const SplitMatrix& m, unsigned line, unsigned depth) {
  return deep ? std::size_t{line} * m.across + depth : std::size_t{depth} * m.across + line;
}

template <bool a_deep, bool b_deep>
__device__ void copy_squares(const SplitProduct& p, const Work& work, Stages& stages) {
  const unsigned rows = min(groups, (p.rows + square - 1) / square - work.row);
  for (unsigned depth = work.from; depth < work.end; ++depth) {
    unrolled<2>([&](unsigned plane) {
      stages.empty().wait(stages.phase ^ 1);
      const Mbarrier full = stages.full();
      full.arrive_expect_tx((rows + work.columns) * plane_bytes);
      const auto copy = [&](unsigned char* to, const unsigned char* squares, std::size_t index) {
        full.copy(to, squares + index * square_bytes + plane * plane_bytes, plane_bytes);
      };
      for (unsigned i = 0; i < rows; ++i)
        copy(stages.left() + i * plane_bytes, p.a.squares, index_of<a_deep>(p.a, work.row + i, depth));
      for (unsigned i = 0; i < work.columns; ++i)
        copy(stages.right() + i * plane_bytes, p.b.squares, index_of<b_deep>(p.b, work.column + i, depth));
      stages.advance();
    });
  }
}

/// Operand of 16 depths from 16 k on, of 64 rows or of a tile's columns.
template <bool deep>
__device__ Operand operand_at(unsigned char* panel, int k) {
  return deep ? Square{panel}.by_column(k) : Square{panel}.by_row(k);
}

/// Begins sums += left right, or = when not `add`, over a depth of one square.
template <bool a_deep, bool b_deep, int parts>
__device__ __forceinline__ void begin_square(float (&sums)[parts][4], unsigned char* left, unsigned char* right,
                                             bool add) {
  unrolled<int(square / 16)>([&](int k) {
    warpgroup::multiply_shared<!a_deep, !b_deep, warpgroup::HalfOperands>(sums, operand_at<a_deep>(left, k),
                                                                          operand_at<b_deep>(right, k), add || k > 0);
  });
}

template <int parts>
__device__ __forceinline__ void store(const SplitProduct& p, const Work& work, unsigned row_square,
                                      const float (&sums)[parts][4]) {
  const unsigned thread = threadIdx.x % warpgroup::threads, column = work.column * square + thread % 4 * 2;
  float* const to = p.c + std::size_t{work.share} * p.rows * p.stride;
  const int columns = int(p.columns - column);  // of this thread; even
#pragma unroll
  for (unsigned half = 0; half < 2; ++half) {
    const unsigned row = row_square * square + thread / 32 * 16 + thread % 32 / 4 + 8 * half;
    if (row >= p.rows) continue;
    float* line = to + std::size_t{row} * p.stride + column;
    unrolled<parts>([&](int n) {
      if (8 * n >= columns) return;
      auto& place = *reinterpret_cast<float2*>(line + 8 * n);
      const float2 old = p.accumulate ? place : make_float2(0, 0);
      place = make_float2(old.x + sums[n][2 * half], old.y + sums[n][2 * half + 1]);
    });
  }
}

/// The warp releases this stage.
__device__ __forceinline__ void pass(Stages& stages) {
  if (threadIdx.x % 32 == 0) stages.empty().arrive();
  stages.advance();
}

/// Ping-pong schedule of the two warp groups: the products of one run while the other adds its sums.
struct PingPong {
  static constexpr unsigned all = groups * warpgroup::threads;
  unsigned group;
  __device__ void wait() const { asm volatile("bar.sync %0, %1;" ::"r"(1 + group), "n"(all) : "memory"); }
  __device__ void pass() const { asm volatile("bar.arrive %0, %1;" ::"r"(2 - group), "n"(all) : "memory"); }
};

/// One warp group's rows of a tile that is `across` squares wide.
template <int across, bool a_deep, bool b_deep>
__device__ __forceinline__ void multiply_tile(const SplitProduct& p, const Work& work, const PingPong& pingpong,
                                              Stages& stages) {
  constexpr int of_square = 8, parts = of_square * across;
  const unsigned row = work.row + pingpong.group;
  const bool inside = row * square < p.rows;
  float sums[parts][4] = {};
  for (unsigned depth = work.from; depth < work.end; ++depth) {
    Stages rest = stages;
    rest.advance();
    stages.full().wait(stages.phase);
    rest.full().wait(rest.phase);
    pingpong.wait();
    if (!inside) {
      pingpong.pass();
      pass(stages);
      pass(stages);
      continue;
    }
    unsigned char *const left = stages.left() + pingpong.group * plane_bytes, *const left_rest =
                                                                                  rest.left() +
                                                                                  pingpong.group * plane_bytes;
    // The tensor cores truncate their sums: each square starts from zero with the small products, and float32 adds it.
    float part[parts][4];
    warpgroup::begin_products();
    begin_square<a_deep, b_deep>(part, left_rest, stages.right(), false);
    begin_square<a_deep, b_deep>(part, left, rest.right(), true);
    begin_square<a_deep, b_deep>(part, left, stages.right(), true);
    warpgroup::end_group();
    pingpong.pass();
    float scales[across];
    const float of_row = __ldg(p.a.scales + index_of<a_deep>(p.a, row, depth));
    unrolled<across>(
        [&](unsigned i) { scales[i] = of_row * __ldg(p.b.scales + index_of<b_deep>(p.b, work.column + i, depth)); });
    warpgroup::wait_for_groups<0>(part);
    pass(stages);
    pass(stages);
    unrolled<parts, 4>([&](int n, int e) { sums[n][e] = fmaf(part[n][e], scales[n / of_square], sums[n][e]); });
  }
  if (inside) store(p, work, row, sums);
}

template <bool a_deep, bool b_deep>
__global__ void __launch_bounds__(block, 1) split_product_kernel(const __grid_constant__ SplitProducts p) {
  extern __shared__ unsigned char memory[];
  unsigned char* const aligned =
      memory + (1024 - static_cast<std::uint32_t>(__cvta_generic_to_shared(memory)) % 1024) % 1024;
  Stages own{{reinterpret_cast<std::uint64_t*>(aligned + stages * stage_bytes)}, aligned};
  if (threadIdx.x == 0) {
    own.init(groups * warpgroup::threads / 32);
    fence_mbarrier_init();
  }
  __syncthreads();
  wait_for_previous_kernel();
  const unsigned all = p.tiles * p.shares;
  if (threadIdx.x < warpgroup::threads) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x > 0) return;
    for (unsigned i = blockIdx.x; i < all; i += gridDim.x) {
      const Work work(p, i);
      copy_squares<a_deep, b_deep>(p.of[work.product], work, own);
    }
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  const PingPong pingpong{threadIdx.x / warpgroup::threads - 1};
  if (pingpong.group == 1) pingpong.pass();
  for (unsigned i = blockIdx.x; i < all; i += gridDim.x) {
    const Work work(p, i);
    const SplitProduct& product = p.of[work.product];
    if (work.columns == 3) {
      multiply_tile<3, a_deep, b_deep>(product, work, pingpong, own);
    } else if (work.columns == 2) {
      multiply_tile<2, a_deep, b_deep>(product, work, pingpong, own);
    } else {
      multiply_tile<1, a_deep, b_deep>(product, work, pingpong, own);
    }
  }
}

template <bool a_deep, bool b_deep>
void launch_products(cudaStream_t stream, const SplitProducts& p) {
  launch("a large product", split_product_kernel<a_deep, b_deep>, std::min(p.tiles * p.shares, multiprocessors()),
         block, shared_bytes, stream, p);
}

}  // namespace

void multiply_split(cudaStream_t stream, const SplitProducts& p, bool a_deep, bool b_deep) {
  const auto run =
      a_deep ? b_deep ? launch_products<true, true> : launch_products<true, false> : launch_products<false, false>;
  run(stream, p);
}

}  // namespace afterglow::device
