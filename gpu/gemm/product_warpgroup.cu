// Large exact products by wgmma. While copying operands to shared memory the block splits each number into a half and
// the half of its remainder, so that three products are as accurate as float32 (tiles.cuh). Eight lines of an operand
// share a power-of-two scale within a slab; float32 applies the scales when it adds the products.
#include "gpu/cuda_backend.h"
#include "gpu/device/launch.cuh"
#include "gpu/device/warpgroup_halves.cuh"
#include "gpu/gemm/product.cuh"

namespace afterglow::device {

namespace {

using warpgroup::Operand;

constexpr unsigned tile_rows = WarpgroupTile::rows, tile_columns = WarpgroupTile::columns, slab = WarpgroupTile::slab;
constexpr unsigned block = 512, warps = block / 32;  // four warp groups: two by two
constexpr unsigned column_parts = tile_columns / 2 / 8;
constexpr unsigned quarter = tile_columns / 4;          // float4 a row of a tile
constexpr unsigned panel_bytes = tile_rows * slab * 2;  // one operand of a stage as halves, at most
constexpr unsigned line_group = 8, groups = tile_rows / line_group;

constexpr unsigned stage_bytes = 4 * panel_bytes;  // halves and remainders of both operands

/// Scales of the two operands of a stage, by groups of lines.
struct Scales {
  float rows[groups], columns[groups];
};
/// Maxima that each warp has found, by groups of lines.
struct RowPeaks {
  float rows[warps][groups], columns[warps][groups];
};
constexpr unsigned shared_bytes = 2 * (stage_bytes + sizeof(Scales)) + sizeof(RowPeaks);

/// Operand of 16 depths from step k on, of 64 rows or of a tile's columns. A deep operand has a 128-byte row for each
/// line; another one has a row for each depth, with 64 lines in it and the next 64 lines behind all depths.
template <bool deep>
__device__ Operand operand_at(unsigned char* panel, unsigned k) {
  const warpgroup::Panel<slab> whole{panel};
  return deep ? whole.by_column(static_cast<int>(k)) : whole.by_row(static_cast<int>(k));
}

/// Moves one operand from global memory to the panels of a stage: a slab waits in registers while the previous one is
/// multiplied. Of deep operands a warp loads whole groups of lines, of others every sixteenth depth.
template <unsigned lines, bool deep>
struct SlabFeed {
  static constexpr unsigned held = 4, half = lines / 2;
  float4 raw[held];
  const float* next;     // of raw[0], in the next slab
  unsigned apart, step;  // numbers from raw[i] to raw[i + 1], and from slab to slab
  unsigned inside;       // a bit for each raw[i] whose line counts

  __device__ static unsigned warp() { return threadIdx.x / 32; }
  __device__ static unsigned lane() { return threadIdx.x % 32; }
  /// Line of raw[i], and its depth within the slab.
  __device__ static unsigned line_of(unsigned i) {
    return deep ? line_group * warp() + 2 * i + lane() / 16 : 4 * lane();
  }
  __device__ static unsigned depth_of(unsigned i) { return deep ? 4 * (lane() % 16) : warp() + warps * i; }

  /// Starts at line `first`, with lines counted up to `end` and slabs from depth `from` on.
  __device__ void start(const ProductOperand& m, unsigned first, unsigned end, unsigned from) {
    const unsigned line = first + line_of(0), depth = from + depth_of(0);
    next = m.data + (deep ? std::size_t{line} * m.stride + depth : std::size_t{depth} * m.stride + line);
    apart = (deep ? 2 : warps) * m.stride;
    step = deep ? slab : slab * m.stride;
    inside = 0;
#pragma unroll
    for (unsigned i = 0; i < held; ++i) inside |= (line_of(i) < lines && first + line_of(i) < end ? 1u : 0u) << i;
  }
  /// Begins to load the next slab, of which `left` depths count; zeros outside.
  __device__ void load(unsigned left) {
    const auto at = [&](unsigned i) { return __ldg(reinterpret_cast<const float4*>(next + std::size_t{i} * apart)); };
    if (inside == (1u << held) - 1 && left >= slab) {
#pragma unroll
      for (unsigned i = 0; i < held; ++i) raw[i] = at(i);
    } else {
#pragma unroll
      for (unsigned i = 0; i < held; ++i)
        raw[i] = (inside >> i & 1) != 0 && depth_of(i) < left ? at(i) : make_float4(0, 0, 0, 0);
    }
    next += step;
  }
  /// When groups of lines span all warps, each warp publishes its maxima; the block synchronises before `store`.
  __device__ void announce(float (&peaks)[warps][groups]) const {
    if constexpr (!deep) {
      float peak = 0;
#pragma unroll
      for (const float4& four : raw) peak = fmaxf(peak, warpgroup::max_of(four));
      peak = fmaxf(peak, __shfl_xor_sync(full_warp, peak, 1));
      if (lane() % 2 == 0) peaks[warp()][lane() / 2] = peak;
    }
  }
  __device__ void store(unsigned char* panel, float (&scales)[groups], const float (&peaks)[warps][groups]) const {
    if constexpr (deep) {
      if (line_group * warp() >= lines) return;
      float peak = 0;
#pragma unroll
      for (const float4& four : raw) peak = fmaxf(peak, warpgroup::max_of(four));
      const tiles::Scale scale(warpgroup::max_in_warp(peak));
      if (lane() == 0) scales[warp()] = scale.down;
#pragma unroll
      for (unsigned i = 0; i < held; ++i) put(panel, i, scale.up);
    } else {
      float peak = 0;
#pragma unroll
      for (unsigned w = 0; w < warps; ++w) peak = fmaxf(peak, peaks[w][lane() / 2]);
      const tiles::Scale scale(peak);
      if (warp() == 0 && lane() % 2 == 0) scales[lane() / 2] = scale.down;
      if (4 * lane() >= lines) return;
#pragma unroll
      for (unsigned i = 0; i < held; ++i) put(panel, i, scale.up);
    }
  }

 private:
  __device__ void put(unsigned char* panel, unsigned i, float up) const {
    using Block = warpgroup::Panel<slab>;
    // The address of raw[0] is computed once: with a deep operand only the 16-byte vector changes with i, with others
    // nothing does.
    const unsigned line = line_of(0), of_half = line % half;
    const unsigned first = deep ? of_half * 128 : Block::place(depth_of(0), of_half);
    const unsigned piece = deep ? ((8 * (lane() % 16)) ^ (line % 8 * 16)) ^ (32 * i) : 0;
    unsigned char* to = panel + line / half * Block::block_bytes + first + (deep ? 256 : warps * 128) * i + piece;
    const float4& v = raw[i];
    std::uint32_t big[2], rest[2];
    tiles::split(v.x * up, v.y * up, big[0], rest[0]);
    tiles::split(v.z * up, v.w * up, big[1], rest[1]);
    *reinterpret_cast<uint2*>(to) = make_uint2(big[0], big[1]);
    *reinterpret_cast<uint2*>(to + panel_bytes) = make_uint2(rest[0], rest[1]);
  }
};

struct OutputTile {
  unsigned result = 0, row, column;
  __device__ explicit OutputTile(const Products& p) {
    const unsigned tile = blockIdx.x;
    if (!p.summed) {
      while (result + 1 < p.count && p.results[result + 1].first_tile <= tile) ++result;
    }
    const unsigned own = tile - p.results[result].first_tile;
    row = own / p.results[result].across * tile_rows;
    column = own % p.results[result].across * tile_columns;
  }
};

/// The slabs of a block: those of one term, or of all terms in turn.
struct Slabs {
  unsigned term, last_term, from, end;

  __device__ Slabs(const Products& p, unsigned result)
      : term(p.summed ? 0 : result), last_term(p.summed ? p.count - 1 : result) {
    const unsigned depth = p.terms[term].depth, share = ((depth + slab - 1) / slab + p.splits - 1) / p.splits * slab;
    from = p.splits > 1 ? blockIdx.y * share : 0;
    end = p.splits > 1 ? min(depth, from + share) : depth;
  }
  __device__ bool is_over() const { return from >= end; }
  /// Returns true when another term begins.
  __device__ bool advance(const Products& p) {
    from += slab;
    if (from < end || term == last_term) return false;
    from = 0;
    end = p.terms[++term].depth;
    return true;
  }
};

__device__ inline unsigned own_row() {
  return threadIdx.x / 256 * 64 + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
}
__device__ inline unsigned own_column() { return threadIdx.x / 128 % 2 * (tile_columns / 2) + threadIdx.x % 4 * 2; }

/// sum += part, scaled by the operands' scales.
__device__ __forceinline__ void add_scaled(float (&sum)[column_parts][4], const float (&part)[column_parts][4],
                                           const float (&rows)[groups], const float (&columns)[groups]) {
  const float above = rows[own_row() / line_group], below = rows[own_row() / line_group + 1];
#pragma unroll
  for (unsigned n = 0; n < column_parts; ++n) {
    const float scale = columns[own_column() / line_group + n];
#pragma unroll
    for (unsigned e = 0; e < 4; ++e) sum[n][e] = fmaf(part[n][e], (e < 2 ? above : below) * scale, sum[n][e]);
  }
}

__device__ __forceinline__ void store_result(const Products& p, unsigned result, unsigned tile_row,
                                             unsigned tile_column, const float (&sum)[column_parts][4]) {
  const Result& r = p.results[result];
#pragma unroll
  for (unsigned half = 0; half < 2; ++half) {
    const unsigned row = tile_row + own_row() + 8 * half, column = tile_column + own_column();
    if (row >= r.rows) continue;
    float* line = r.c.data + std::size_t{row} * r.c.stride + column;
    const int columns = static_cast<int>(r.columns - column);  // of this thread; even
    float2 old[column_parts] = {};                             // loaded together, so that the latencies overlap
    if (r.beta != 0.0f) {
#pragma unroll
      for (int n = 0; n < static_cast<int>(column_parts); ++n)
        if (8 * n < columns) old[n] = *reinterpret_cast<const float2*>(line + 8 * n);
    }
#pragma unroll
    for (int n = 0; n < static_cast<int>(column_parts); ++n) {
      if (8 * n < columns)
        *reinterpret_cast<float2*>(line + 8 * n) = make_float2(fmaf(r.beta, old[n].x, p.alpha * sum[n][2 * half]),
                                                               fmaf(r.beta, old[n].y, p.alpha * sum[n][2 * half + 1]));
    }
  }
}

/// The same, or into the partial sums when blocks share the depth.
__device__ __forceinline__ void store_tile(const Products& p, const OutputTile& place,
                                           const float (&sum)[column_parts][4]) {
  if (p.splits == 1) return store_result(p, place.result, place.row, place.column, sum);
  float* to = p.partials + (std::size_t{blockIdx.y} * p.tiles + blockIdx.x) * tile_rows * tile_columns +
              own_row() * tile_columns + own_column();
#pragma unroll
  for (unsigned half = 0; half < 2; ++half)
#pragma unroll
    for (unsigned n = 0; n < column_parts; ++n)
      *reinterpret_cast<float2*>(to + 8 * half * tile_columns + 8 * n) =
          make_float2(sum[n][2 * half], sum[n][2 * half + 1]);
}

template <bool a_deep, bool b_deep>
__global__ void __launch_bounds__(block, 1) warpgroup_product_kernel(const __grid_constant__ Products p) {
  extern __shared__ __align__(1024) unsigned char memory[];
  auto* scales = reinterpret_cast<Scales*>(memory + 2 * stage_bytes);
  auto& peaks = *reinterpret_cast<RowPeaks*>(scales + 2);
  const OutputTile place(p);
  Slabs slabs(p, place.result);
  SlabFeed<tile_rows, a_deep> a;
  SlabFeed<tile_columns, b_deep> b;
  wait_for_previous_kernel();
  const auto start = [&] {
    const Term& term = p.terms[slabs.term];
    a.start(term.a, place.row, p.results[place.result].rows, slabs.from);
    b.start(term.b, place.column, p.results[place.result].columns, slabs.from);
  };
  const auto load = [&] {
    a.load(slabs.end - slabs.from);
    b.load(slabs.end - slabs.from);
  };
  const auto store = [&](unsigned stage) {
    unsigned char* to = memory + stage * stage_bytes;
    a.announce(peaks.rows);
    b.announce(peaks.columns);
    if (!a_deep || !b_deep) __syncthreads();
    a.store(to, scales[stage].rows, peaks.rows);
    b.store(to + stage_bytes / 2, scales[stage].columns, peaks.columns);
  };
  const unsigned down = threadIdx.x / 256, across = threadIdx.x / 128 % 2;  // of this warp group
  float sum[column_parts][4] = {};
  bool more = !slabs.is_over();
  if (more) {
    start();
    load();
    store(0);
    if (slabs.advance(p)) start();
    if (!slabs.is_over()) load();
  }
  warpgroup::fence_async_proxy();
  for (unsigned stage = 0; more; stage ^= 1) {
    // The tensor cores truncate their sums: each slab starts from zero, and float32 adds it.
    float part[column_parts][4];
    unsigned char* left = memory + stage * stage_bytes + down * warpgroup::Panel<slab>::block_bytes;
    unsigned char* right =
        memory + stage * stage_bytes + stage_bytes / 2 + across * warpgroup::Panel<slab>::block_bytes;
    warpgroup::begin_products();
#pragma unroll
    for (unsigned k = 0; k < slab / 16; ++k) {
      const Operand a_big = operand_at<a_deep>(left, k), b_big = operand_at<b_deep>(right, k);
      warpgroup::multiply_shared<!a_deep, !b_deep, warpgroup::HalfOperands>(
          part, operand_at<a_deep>(left + panel_bytes, k), b_big, k > 0);
      warpgroup::multiply_shared<!a_deep, !b_deep, warpgroup::HalfOperands>(
          part, a_big, operand_at<b_deep>(right + panel_bytes, k), true);
      warpgroup::multiply_shared<!a_deep, !b_deep, warpgroup::HalfOperands>(part, a_big, b_big, true);
    }
    warpgroup::end_group();
    more = !slabs.is_over();
    if (more) {
      store(stage ^ 1);
      if (slabs.advance(p)) start();
      if (!slabs.is_over()) load();
    }
    warpgroup::wait_for_groups<0>(part);
    add_scaled(sum, part, scales[stage].rows, scales[stage].columns);
    warpgroup::fence_async_proxy();
  }
  store_tile(p, place, sum);
}

// Adds the partial sums of all blocks of a tile in order; a thread adds four numbers.
__global__ void __launch_bounds__(block) add_shares_kernel(const __grid_constant__ Products p) {
  wait_for_previous_kernel();
  const OutputTile place(p);
  const Result& r = p.results[place.result];
  const unsigned i = blockIdx.y * block + threadIdx.x, row = place.row + i / quarter,
                 column = place.column + i % quarter * 4;
  if (row >= r.rows || column >= r.columns) return;
  const float* from = p.partials + std::size_t{blockIdx.x} * tile_rows * tile_columns + 4 * i;
  float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 8
  for (unsigned n = 0; n < p.splits; ++n) {
    const float4 part = *reinterpret_cast<const float4*>(from + std::size_t{n} * p.tiles * tile_rows * tile_columns);
    sum = make_float4(sum.x + part.x, sum.y + part.y, sum.z + part.z, sum.w + part.w);
  }
  auto& to = *reinterpret_cast<float4*>(r.c.data + std::size_t{row} * r.c.stride + column);
  const float4 old = r.beta != 0.0f ? to : make_float4(0, 0, 0, 0);
  to = make_float4(fmaf(r.beta, old.x, p.alpha * sum.x), fmaf(r.beta, old.y, p.alpha * sum.y),
                   fmaf(r.beta, old.z, p.alpha * sum.z), fmaf(r.beta, old.w, p.alpha * sum.w));
}

template <bool a_deep, bool b_deep>
void launch_products(cudaStream_t stream, const Products& p) {
  const auto kernel = warpgroup_product_kernel<a_deep, b_deep>;
  allow_shared_memory(reinterpret_cast<const void*>(kernel), shared_bytes, "a large product");
  launch(kernel, dim3(p.tiles, p.splits), block, shared_bytes, stream, p);
  if (p.splits > 1) {
    launch(add_shares_kernel, dim3(p.tiles, tile_rows * quarter / block), block, 0, stream, p);
  }
}

}  // namespace

void multiply_on_warpgroups(cudaStream_t stream, const Products& p, bool a_deep, bool b_deep) {
  with_operands(a_deep, b_deep, [&](auto a, auto b) { launch_products<a(), b()>(stream, p); });
}

}  // namespace afterglow::device
