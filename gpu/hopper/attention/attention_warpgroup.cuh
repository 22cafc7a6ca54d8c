// Shared by attention on warp groups and its gradient: layout of operands, roles of threads, and products of whole
// tiles. Only for files that are compiled for 90a (gpu/CMakeLists.txt).
#pragma once
#include <algorithm>

#include "gpu/hopper/mbarrier.cuh"
#include "gpu/hopper/warpgroup_halves.cuh"
#include "gpu/ops/attention/softmax.cuh"

namespace afterglow::device::tiles {

using warpgroup::Panel;
using HalvesPanel = Panel<rows>;

/// 1 / x of a power of two, as in Scale.
__device__ inline float inverse_power(float x) { return __uint_as_float((254u << 23) - __float_as_uint(x)); }

/// A tile in the layout of wgmma: a panel of halves, then one array for each member of Notes.
template <int columns>
struct PanelTile {
  static constexpr int panel_bytes = HalvesPanel::bytes(columns), bytes = tile_bytes<columns, false>;
  static constexpr int note_bytes = rows * int(sizeof(float));
  static_assert(bytes == panel_bytes + 4 * note_bytes);

  unsigned char* memory;

  __device__ HalvesPanel panel() const { return {memory}; }
  __device__ const float* units() const { return notes(0); }
  __device__ const float* log_sums() const { return notes(1); }
  /// Of an upstream gradient: its product with the output, in the units of its row.
  __device__ const float* means() const { return notes(2); }

 private:
  __device__ const float* notes(int kind) const {
    return reinterpret_cast<const float*>(memory + panel_bytes + kind * note_bytes);
  }
};

/// A row of a PanelTile that is being written, as TileRow.
template <int width>
struct PanelRow {
  static constexpr int columns = width;
  std::byte* tile;
  int row;

  __device__ PanelRow(const Tiles& tiles, int b, int head, int begin, int row_of_tile)
      : tile(tiles.at<columns, false>(b, head, begin)), row(row_of_tile) {}
  template <int per>
  __device__ void put(int first, const float (&x)[per], const Scale& scale) const {
    static_assert(per <= 8, "a piece");
    std::uint32_t halves[per / 2];
#pragma unroll
    for (int i = 0; i < per; i += 2) halves[i / 2] = halves_of(x[i] * scale.up, x[i + 1] * scale.up);
    store_words(tile + HalvesPanel::place(unsigned(row), unsigned(first)), halves);
  }
  __device__ void note(const Notes& notes) const {
    float* const to = reinterpret_cast<float*>(tile + PanelTile<columns>::panel_bytes) + row;
    to[0] = notes.unit;
    to[rows] = notes.log_sum;
    to[2 * rows] = notes.mean * inverse_power(notes.unit);
    to[3 * rows] = notes.gain;
  }
};

__device__ inline float part_of(const float2& two, int e) { return e == 0 ? two.x : two.y; }
/// The entries of an array for this lane's columns from 8 n on.
__device__ inline float2 columns_of(const float* array, const LanePosition& lane, int n) {
  return *reinterpret_cast<const float2*>(array + lane.column_of(n, 0));
}

/// Threads of a block: two warp groups that compute 64 rows each, and one whose first thread copies and which gives its
/// registers to the others.
struct Crew {
  static constexpr int groups = 2, own_rows = groups * rows, threads = (groups + 1) * group_threads;
  static constexpr unsigned warps = groups * group_threads / 32;  // that compute

  __device__ static bool copies() { return int(threadIdx.x) >= groups * group_threads; }
  __device__ static bool is_copier() { return int(threadIdx.x) == groups * group_threads; }
  __device__ static void give_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 24;"); }
  __device__ static void take_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 240;"); }
};

/// The warp releases a stage.
__device__ inline void leave(const Mbarrier& empty) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) empty.arrive();
}

__device__ inline unsigned char* aligned_memory(unsigned char* memory) {
  return memory + (1024 - static_cast<std::uint32_t>(__cvta_generic_to_shared(memory)) % 1024) % 1024;
}

/// Weights of 64 rows, or the rows themselves, as the left operand of products over `width` numbers.
template <int width>
using LeftHalves = std::uint32_t[width / 16][4];

template <int width>
__device__ __forceinline__ void take_halves(const Share<width>& weights, const float (&up)[2],
                                            std::uint32_t (&halves)[width / 16][4]) {
  unrolled<width / 8, 2>([&](int n, int r) {
    halves[n / 2][n % 2 * 2 + r] = halves_of(weights.at(n, r, 0) * up[r], weights.at(n, r, 1) * up[r]);
  });
}

/// Compiler fence: wgmma reads left operands from registers asynchronously. Call it before the products begin and after
/// the wait for them, so that the registers are complete and not reused.
template <int steps>
__device__ __forceinline__ void hold(std::uint32_t (&left)[steps][4]) {
  unrolled<steps>([&](int k) {
    asm volatile("" : "+r"(left[k][0]), "+r"(left[k][1]), "+r"(left[k][2]), "+r"(left[k][3])::"memory");
  });
}

/// Begins score_ij = a_i . b_j without units, for 64 rows in shared memory and `width` streamed ones, as one group.
template <int columns, int width>
__device__ __forceinline__ void begin_dot(HalvesPanel left, Panel<width> right, Share<width>& score) {
  // The asm makes the compiler recompute descriptors for each product; kept, they would fill the registers.
  asm volatile("" : "+l"(left.memory), "+l"(right.memory));
  unrolled<columns / 16>([&](int k) {
    warpgroup::multiply_shared<false, false, warpgroup::HalfOperands>(score.value, left.by_column(k),
                                                                      right.by_column(k), k > 0);
  });
  warpgroup::end_group();
}

/// The same with the 64 rows in registers.
template <int columns, int width>
__device__ __forceinline__ void begin_dot(const std::uint32_t (&left)[columns / 16][4], Panel<width> right,
                                          Share<width>& score) {
  asm volatile("" : "+l"(right.memory));
  unrolled<columns / 16>([&](int k) {
    warpgroup::multiply<false, warpgroup::HalfOperands>(score.value, left[k], right.by_column(k), k > 0);
  });
  warpgroup::end_group();
}

/// Begins sum_i += sum over j of weight_ij b_j without units, as one group.
template <int columns, int width>
__device__ __forceinline__ void begin_spread(const std::uint32_t (&weights)[width / 16][4], Panel<width> right,
                                             Share<columns>& sum) {
  asm volatile("" : "+l"(right.memory));
  unrolled<width / 16>(
      [&](int k) { warpgroup::multiply<true, warpgroup::HalfOperands>(sum.value, weights[k], right.by_row(k), true); });
  warpgroup::end_group();
}

/// Call before begin_spread and the products that begin with it.
template <int columns, int steps>
__device__ __forceinline__ void prepare_spread(std::uint32_t (&weights)[steps][4], Share<columns>& sum) {
  hold(weights);
  warpgroup::fence_accumulators(sum.value);
  warpgroup::begin_products();
}

/// Order of the blocks' work: all tiles of a few heads before those of the next, so that the tokens they stream stay in
/// the L2 cache. Places count the first tile of all `sequences`, then the second, and so on.
struct Order {
  int sequences, tiles, together;

  Order(int all, int tiles_of_each, std::size_t streamed_bytes)
      : sequences(all),
        tiles(tiles_of_each),
        together(int(std::clamp<std::size_t>(cached_bytes / streamed_bytes, 1, std::size_t(all)))) {}
  __device__ int place(int block) const {
    const int whole = together * tiles, begin = block / whole * together, rest = block % whole;
    const int count = min(together, sequences - begin);
    return rest / count * sequences + begin + rest % count;
  }

 private:
  static constexpr std::size_t cached_bytes = 16 << 20;
};

}  // namespace afterglow::device::tiles
