// Products with own tiles, c = alpha op(a) op(b) + beta c: those of moderate size, where cuBLAS leaves most of the GPU
// idle (about a thousand rows and a few hundred columns). Grid: (tiles of all results, blocks
// that share the depth). Exact products split each operand into a tf32 number and its remainder (fragments.cuh) and add
// three products; the others use the tf32 number alone. Groups of warps share a slab of the depth, and for gradients of
// weights several blocks share a tile; partial sums are added in a fixed order. Projections of one input, their
// gradients, and the gate and up projections of a SwiGLU are one launch each.
#include <algorithm>
#include <optional>
#include <utility>

#include "gpu/ops/product/product.cuh"
#include "gpu/runtime/kernel.cuh"
#include "gpu/tile/fragments.cuh"

namespace afterglow {

using namespace device;

namespace {

constexpr unsigned part = 32;                // rows and columns of a warp's part of a tile
constexpr unsigned max_tiles = 2048;         // of 32 x 64; with more the GPU is full and cuBLAS is as fast
constexpr unsigned max_depth = 4096;         // of a product with a transposed first operand
constexpr double max_deep = 134217728.0;     // multiplications of a deeper one: the gradients of narrow gates
constexpr double max_rounded = 67108864.0;   // multiplications of one that is not exact; with more cuBLAS is faster
constexpr unsigned max_rounded_tiles = 448;  // of 32 x 64; long narrow products beyond go to cuBLAS
constexpr unsigned max_tile_depth = 16384;   // of the others on warp groups, whose blocks share greater depths,
constexpr double min_split = 536870912.0;    // from this many multiplications on
constexpr unsigned wide_tiles = 180;         // from this many tiles of 32 x 64 on Wide is faster
constexpr unsigned split_blocks = 200;       // number of blocks that share the depth of products with few tiles
constexpr unsigned min_depth = 128;          // of a block that shares

constexpr unsigned enough_tiles = 128;     // of collected gradients: they fill the GPU once
constexpr unsigned max_kept = 176;         // more would take room from the main stream
constexpr unsigned max_kept_depth = 2048;  // rows that such a gradient is summed over

/// Shape of a block: `down` by `across` parts of 32 x 32; `groups` of warps that share a slab, each with `depth` of it;
/// up to `stages` slabs in flight. A multiprocessor must hold `neighbours` blocks at once; 0: as many as fit. The
/// tensor cores, which truncate towards zero, add at most `short_sum` products.
template <unsigned down_, unsigned across_, unsigned groups_, unsigned depth_, unsigned stages_,
          unsigned neighbours_ = 0>
struct TilePlan {
  static constexpr unsigned neighbours = neighbours_, short_sum = 64;
  static constexpr unsigned down = down_, across = across_, groups = groups_, depth = depth_, stages = stages_;
  static constexpr unsigned rows = part * down, columns = part * across, quads = columns / 4;
  static constexpr unsigned shares = down * across, slab = depth * groups, block = 32 * groups * shares;
  static constexpr unsigned elements = rows * columns;
  using Order = TilePlan;
  static_assert(short_sum % depth == 0, "a short sum is a whole number of steps");
};
using Narrow = TilePlan<1, 1, 8, 16, 3>;  // for few tiles; loads a whole deep slab at once
using Wide = TilePlan<1, 2, 2, 32, 3>;    // for many tiles; small blocks
using Shared = TilePlan<1, 1, 4, 16, 4>;  // for gradients of weights; leaves room for the main stream

/// The sums of `Other`, bit for bit, while several runs share the GPU and throughput counts instead of latency. Larger
/// tiles need fewer copies and splits; their one group of warps takes the parts of Other's groups in turns. `brief`: a
/// group's part is one short sum, so that fewer registers hold sums and one more block fits.
template <class Other, bool brief_>
struct HighOccupancy : TilePlan<2, 2, 1, 16, 3, brief_ ? 4 : 3> {
  using Order = Other;
  static constexpr bool brief = brief_;
  static_assert(Other::depth % 16 == 0);
};
template <class P>
constexpr bool takes_turns = !std::is_same_v<typename P::Order, P>;

/// A slab of 32 lines of an operand in shared memory. A `deep` operand has a row for each line, otherwise a row for
/// each depth, as in global memory. The strides avoid bank conflicts of the fragment loads.
template <bool deep, unsigned slab>
struct Lines {
  static constexpr unsigned inner = deep ? slab : part, outer = deep ? part : slab;
  static constexpr unsigned stride = inner + (deep ? 4 : 8), elements = outer * stride;

  /// Begins to copy lines [first, first + 32) for depths [from, from + slab), one number at a time; zeros outside.
  template <unsigned block>
  __device__ static void load(const ProductOperand& m, float* to, unsigned first, unsigned lines, unsigned from,
                              unsigned depth) {
    const unsigned inner_first = deep ? from : first, outer_first = deep ? first : from;
    const unsigned inner_end = deep ? depth : lines, outer_end = deep ? lines : depth;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < outer * inner; i += block) {
      const unsigned o = i / inner, n = i % inner;
      const bool inside = outer_first + o < outer_end && inner_first + n < inner_end;
      const float* source = inside ? m.data + std::size_t{outer_first + o} * m.stride + inner_first + n : m.data;
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(tiles::shared_address(to + o * stride + n)),
                   "l"(source), "r"(inside ? 4 : 0));
    }
  }

  /// First operand: two fragments of 16 lines and 8 depths from `depth` on.
  template <bool exact>
  __device__ static void rows(const float* data, unsigned depth, tiles::Fragment<exact, 4> (&out)[2]) {
    const unsigned lane = threadIdx.x % 32;
    unrolled<2>([&](unsigned i) {
      float value[4];
      if constexpr (deep) {
        tiles::load_four(data + (16 * i + lane % 16) * stride + depth + lane / 16 * 4, value);
      } else {
        const float* from = data + (depth + lane % 4) * stride + 16 * i + lane / 4;
        unrolled<4>([&](unsigned e) { value[e] = from[e / 2 * 4 * stride + e % 2 * 8]; });
      }
      unrolled<4>([&](unsigned e) { out[i].set(int(e), value[e]); });
    });
  }

  /// Second operand: four fragments of 8 lines.
  template <bool exact>
  __device__ static void columns(const float* data, unsigned depth, tiles::Fragment<exact, 2> (&out)[4]) {
    const unsigned lane = threadIdx.x % 32;
    if constexpr (deep) {
      unrolled<2>([&](unsigned pair) {
        float value[4];
        tiles::load_four(data + (16 * pair + lane % 8 + lane / 16 * 8) * stride + depth + lane / 8 % 2 * 4, value);
        unrolled<4>([&](unsigned e) { out[2 * pair + e / 2].set(int(e % 2), value[e]); });
      });
    } else {
      const float* from = data + (depth + lane % 4) * stride + lane / 4;
      unrolled<4, 2>([&](unsigned n, unsigned e) { out[n].set(int(e), from[e * 4 * stride + 8 * n]); });
    }
  }
};

constexpr unsigned sum_stride = part + 8;  // conflict-free stores of pairs of columns

template <class P, bool a_deep, bool b_deep>
constexpr unsigned stage_elements =
    P::down* Lines<a_deep, P::slab>::elements + P::across* Lines<b_deep, P::slab>::elements;

template <class P, bool a_deep, bool b_deep>
constexpr unsigned product_bytes(unsigned slabs) {
  const unsigned stages = (slabs < P::stages ? slabs : P::stages) * stage_elements<P, a_deep, b_deep>;
  constexpr unsigned sums = P::block / 32 * part * sum_stride;
  return (stages > sums ? stages : sums) * sizeof(float);
}

struct OutputTile {
  unsigned result, row, column;
};

template <class P>
__device__ OutputTile output_tile_of(const Products& p, unsigned tile) {
  unsigned result = 0;
  if (!p.summed && p.finish == Finish::plain) {
    while (result + 1 < p.count && p.results[result + 1].first_tile <= tile) ++result;
  }
  const unsigned across = p.results[result].across, own = tile - p.results[result].first_tile;
  const unsigned width = p.finish == Finish::gate_up ? P::columns / 2 : P::columns;
  return {result, own / across * P::rows, own % across * width};
}

__device__ inline void put_four(const Result& r, unsigned row, unsigned column, float alpha, const float (&sum)[4]) {
  if (row >= r.rows || column >= r.columns) return;
  float* to = r.c.data + std::size_t{row} * r.c.stride + column;
  const bool whole = r.c.vector && column + 4 <= r.columns;
  float before[4] = {};
  if (r.beta != 0.0f) {
    unrolled<4>([&](unsigned e) { before[e] = column + e < r.columns ? to[e] : 0.0f; });
  }
  float value[4];
  unrolled<4>([&](unsigned e) { value[e] = fmaf(r.beta, before[e], alpha * sum[e]); });
  if (whole) {
    *reinterpret_cast<float4*>(to) = make_float4(value[0], value[1], value[2], value[3]);
  } else {
    unrolled<4>([&](unsigned e) {
      if (column + e < r.columns) to[e] = value[e];
    });
  }
}

/// The sums of a tile, from the parts of the groups of warps in shared memory, or from `partials` with shared depths.
template <class P>
struct Sums {
  const float* memory;
  const Products* p;
  unsigned tile;
  bool from_partials;

  __device__ void at(unsigned row, unsigned column, float (&sum)[4]) const {
    for (float& one : sum) one = 0;
    if (from_partials) {
      const float* from = p->partials + std::size_t{tile} * P::elements + row * P::columns + column;
      for (unsigned split = 0; split < p->splits; ++split) {
        add(sum, from + std::size_t{split} * p->tiles * P::elements);
      }
      return;
    }
    const unsigned share = row / part * P::across + column / part;
    unrolled<P::groups>([&](unsigned group) {
      add(sum, memory + ((group * P::shares + share) * part + row % part) * sum_stride + column % part);
    });
  }
  __device__ static void add(float (&sum)[4], const float* from) {
    const float4 four = *reinterpret_cast<const float4*>(from);
    sum[0] += four.x;
    sum[1] += four.y;
    sum[2] += four.z;
    sum[3] += four.w;
  }
};

/// g, u and h = silu(g) u: a tile has 32 columns of g on its left and the same columns of u on its right.
template <class P>
__device__ void finish_gate_up(const Products& p, const Sums<P>& sums, const OutputTile& place) {
  for (unsigned i = threadIdx.x; i < P::elements / 8; i += P::block) {
    const unsigned row = i / (P::quads / 2), column = i % (P::quads / 2) * 4;
    float g[4], u[4], h[4];
    sums.at(row, column, g);
    sums.at(row, column + P::columns / 2, u);
    unrolled<4>([&](unsigned e) { h[e] = silu(g[e]) * u[e]; });
    put_four(p.results[0], place.row + row, place.column + column, 1.0f, g);
    put_four(p.results[1], place.row + row, place.column + column, 1.0f, u);
    put_four(p.results[2], place.row + row, place.column + column, 1.0f, h);
  }
}

/// A thread's numbers of g and u for the gradient of h, loaded while the product is computed.
template <class P>
struct GateUp {
  static constexpr unsigned each = P::elements / 4 / P::block;
  Piece<4> g[each], u[each];

  __device__ void load(const Products& p, const OutputTile& place) {
    unrolled<each>([&](unsigned k) {
      const unsigned i = threadIdx.x + k * P::block;
      const unsigned row = place.row + i / P::quads, column = place.column + i % P::quads * 4;
      g[k] = read_four(p.kept[0], p.results[0], row, column);
      u[k] = read_four(p.kept[1], p.results[0], row, column);
    });
  }
  /// Four neighbouring numbers of a row, zeros beyond the result `r`.
  __device__ static Piece<4> read_four(const ProductOperand& m, const Result& r, unsigned row, unsigned column) {
    const float* from = m.data + std::size_t{row} * m.stride + column;
    if (m.vector && row < r.rows && column + 4 <= r.columns) return Piece<4>::of(from, true);
    Piece<4> four;
    unrolled<4>([&](unsigned e) { four.v[e] = row < r.rows && column + e < r.columns ? from[e] : 0.0f; });
    return four;
  }
};

template <class P>
__device__ void finish_gate_up_backward(const Products& p, const Sums<P>& sums, const OutputTile& place,
                                        const GateUp<P>& gate_up) {
  unrolled<GateUp<P>::each>([&](unsigned k) {
    const unsigned i = threadIdx.x + k * P::block, row = i / P::quads, column = i % P::quads * 4;
    float dh[4], dg[4], du[4];
    sums.at(row, column, dh);
    unrolled<4>([&](unsigned e) {
      const float g = gate_up.g[k].v[e], u = gate_up.u[k].v[e];
      dg[e] = dh[e] * u * silu_slope(g);
      du[e] = dh[e] * silu(g);
    });
    put_four(p.results[0], place.row + row, place.column + column, 1.0f, dg);
    put_four(p.results[1], place.row + row, place.column + column, 1.0f, du);
  });
}

template <bool biased, class P>
__device__ void finish_plain(const Products& p, const Sums<P>& sums, const OutputTile& place) {
  const Result& result = p.results[place.result];
  const float* bias = biased ? p.biases[place.result] : nullptr;
  for (unsigned i = threadIdx.x; i < P::elements / 4; i += P::block) {
    const unsigned row = i / P::quads, column = i % P::quads * 4;
    float sum[4];
    sums.at(row, column, sum);
    unrolled<4>([&](unsigned e) {
      const unsigned own = place.column + column + e;
      if (biased && bias != nullptr && own < result.columns) sum[e] += bias[own];
    });
    put_four(result, place.row + row, place.column + column, p.alpha, sum);
  }
}

/// Copies 32 lines of an operand slab by slab, 16 bytes at a time. A thread's position is fixed, so that a slab needs
/// little address arithmetic.
template <bool deep, unsigned slab, unsigned block>
struct OperandFeed {
  using L = Lines<deep, slab>;
  static constexpr unsigned pieces = L::inner / 4, step = block / pieces, count = L::outer / step;
  static_assert(block % pieces == 0 && L::outer % step == 0);
  const float* source;
  int lines;  // from this thread's first line to the end

  __device__ void start(const ProductOperand& m, unsigned first, unsigned end, unsigned from) {
    const unsigned o = threadIdx.x / pieces, n = threadIdx.x % pieces * 4;
    const unsigned line = first + (deep ? o : n), depth = from + (deep ? n : o);
    source = m.data + std::size_t{deep ? line : depth} * m.stride + (deep ? depth : line);
    lines = int(end) - int(line);
  }
  /// Begins to copy the next slab, of which `left` depths count.
  __device__ void bring(float* to, unsigned stride, unsigned left) {
    const unsigned o = threadIdx.x / pieces, n = threadIdx.x % pieces * 4;
    const int along = deep ? int(left) - int(n) : lines;
    const int bytes = 4 * max(0, min(4, along));
    const unsigned address = tiles::shared_address(to + o * L::stride + n);
    unrolled<count>([&](unsigned i) {
      const bool inside = deep ? int(i * step) < lines : o + i * step < left;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address + i * step * L::stride * 4),
                   "l"(source + std::size_t{i * step} * stride), "r"(inside ? bytes : 0));
    });
    source += deep ? slab : std::size_t{slab} * stride;
  }
  /// Begins to copy lines up to `last` of the depths from `from` on, of which `left` count.
  __device__ void copy(const ProductOperand& m, float* to, unsigned first, unsigned last, unsigned from,
                       unsigned left) {
    if (m.vector) {
      bring(to, m.stride, left);
    } else {
      L::template load<block>(m, to, first, last, from, from + left);
    }
  }
};

/// The slabs of a block, over all its terms, copied in the order of use; with HighOccupancy each one's part of the
/// first group, then of the second.
template <class P, bool a_deep, bool b_deep>
struct Slabs {
  using Order = typename P::Order;
  using A = Lines<a_deep, P::slab>;
  using B = Lines<b_deep, P::slab>;
  const Products& p;
  const OutputTile& place;
  float* memory;
  unsigned term;  // the term copied next
  OperandFeed<a_deep, P::slab, P::block> a[P::down];
  OperandFeed<b_deep, P::slab, P::block> b[P::across];
  float* to;                        // stage of the next slab
  unsigned begin, end, next, from;  // slabs of the block, the next one to copy, and where that begins in its term
  unsigned part_of_slab = 0;        // where the group and the piece that are copied next begin in a slab

  __device__ Slabs(const Products& products, const OutputTile& at, float* shared, unsigned first, unsigned last)
      : p(products), place(at), memory(shared), to(shared), begin(first), end(last) {
    enter(begin);
    start(from);
  }
  __device__ static unsigned slabs_of(const Term& term) { return (term.depth + Order::slab - 1) / Order::slab; }
  /// Goes to slab `index`, counted over all terms.
  __device__ void enter(unsigned index) {
    next = index;
    term = p.summed ? 0 : place.result;
    while (p.summed && term + 1 < p.count && index >= slabs_of(p.terms[term])) index -= slabs_of(p.terms[term++]);
    from = index * Order::slab;
  }
  __device__ const ProductOperand& right(unsigned k) const {
    return p.finish == Finish::gate_up ? p.terms[k].b : p.terms[term].b;
  }
  __device__ unsigned right_column(unsigned k) const {
    return place.column + (p.finish == Finish::gate_up ? 0 : part * k);
  }
  __device__ void start(unsigned depth) {
    const Result& r = p.results[place.result];
    unrolled<P::down>([&](unsigned k) { a[k].start(p.terms[term].a, place.row + part * k, r.rows, depth); });
    unrolled<P::across>([&](unsigned k) { b[k].start(right(k), right_column(k), r.columns, depth); });
  }
  /// Begin to copy the term's depths from `depth` on.
  __device__ void copy_left(unsigned depth) {
    const Term& t = p.terms[term];
    const unsigned rows = p.results[place.result].rows, left = depth < t.depth ? t.depth - depth : 0;
    unrolled<P::down>(
        [&](unsigned k) { a[k].copy(t.a, to + k * A::elements, place.row + part * k, rows, depth, left); });
  }
  __device__ void copy_right(unsigned depth, float* stage) {
    const Term& t = p.terms[term];
    const unsigned columns = p.results[place.result].columns, left = depth < t.depth ? t.depth - depth : 0;
    unrolled<P::across>([&](unsigned k) {
      float* part_to = stage + P::down * A::elements + k * B::elements;
      b[k].copy(right(k), part_to, right_column(k), columns, depth, left);
    });
  }
  __device__ float* stage_behind(float* stage) const {
    constexpr unsigned size = stage_elements<P, a_deep, b_deep>;
    return stage == memory + (P::stages - 1) * size ? memory : stage + size;
  }
  __device__ unsigned steps() const { return (end - begin) * (takes_turns<P> ? Order::depth / P::slab : 1); }
  /// The number of groups whose part has any depth.
  __device__ unsigned groups() const {
    const unsigned left = p.terms[term].depth - from;
    return end - begin == 1 ? min(Order::groups, (left + Order::depth - 1) / Order::depth) : Order::groups;
  }
  /// The number of slabs to copy before the first step, if they belong to one term; otherwise 0.
  __device__ unsigned first_slabs() const {
    const unsigned some = min(P::stages - 1, end - next), left = p.terms[term].depth - from;
    return (some - 1) * P::slab < left ? some : 0;
  }
  /// Begins to copy the second operands of the first slabs, then (bring_left) the first operands.
  __device__ void bring_right(unsigned slabs) {
    float* stage = to;
    for (unsigned i = 0; i < slabs; ++i) {
      copy_right(from + i * P::slab, stage);
      stage = stage_behind(stage);
    }
  }
  __device__ void bring_left(unsigned slabs) {
    for (unsigned i = 0; i + 1 < P::stages; ++i) {
      if (i < slabs) {
        copy_left(from);
        go_on();
      }
      tiles::commit();
    }
  }
  __device__ void bring() {
    if (next < end) {
      if (from >= p.terms[term].depth) {
        ++term;
        from = 0;
        start(from);
      }
      if constexpr (takes_turns<P>) start(from + part_of_slab);
      copy_left(from + part_of_slab);
      copy_right(from + part_of_slab, to);
      go_on();
    }
    tiles::commit();
  }
  __device__ void go_on() {
    to = stage_behind(to);
    if (takes_turns<P> && (part_of_slab += P::slab) % Order::depth != 0) return;
    from += Order::slab;
    ++next;
    if constexpr (takes_turns<P>) {
      const bool is_next_group = next == end && part_of_slab < Order::slab;
      if (is_next_group) enter(begin);
      if (!is_next_group) part_of_slab -= Order::depth;
    }
  }
};

template <class P>
__device__ unsigned slabs_in(const Products& p, unsigned result) {
  unsigned count = 0;
  for (unsigned term = p.summed ? 0 : result; term < (p.summed ? p.count : result + 1); ++term) {
    count += (p.terms[term].depth + P::Order::slab - 1) / P::Order::slab;
  }
  return count;
}

/// Adds a short sum of the tensor cores in float32, and clears it.
__device__ void add_short_sum(float (&sum)[2][4][4], float (&some)[2][4][4]) {
  unrolled<2, 4, 4>([&](int i, int n, int e) {
    sum[i][n][e] += some[i][n][e];
    some[i][n][e] = 0;
  });
}

/// Variants of the kernel with more work than a plain product; separate kernels, because they need more registers.
enum class Extra {
  none,
  biases,  ///< for plain results
  gate_up  ///< Finish::gate_up_backward reads g and u
};

using Square = float[2][4][4];

/// Adds the product over the warp's `depth` of a slab.
template <class P, bool a_deep, bool b_deep, bool exact>
__device__ void multiply_slab(Square& some, const float* stage, unsigned share, unsigned first) {
  using A = Lines<a_deep, P::slab>;
  using B = Lines<b_deep, P::slab>;
  const float* left = stage + share / P::across * A::elements;
  const float* right = stage + P::down * A::elements + share % P::across * B::elements;
#pragma unroll
  for (unsigned depth = 0; depth < P::depth; depth += 8) {
    tiles::Fragment<exact, 4> a[2];
    tiles::Fragment<exact, 2> b[4];
    A::rows(left, first + depth, a);
    B::columns(right, first + depth, b);
    tiles::multiply_fragments<exact>(some, a, b);
  }
}

/// Waits for the slab in `stage`, begins to copy a later one, and adds the warp's part of the product.
template <bool exact, class P, bool a_deep, bool b_deep>
__device__ void next_step(Slabs<P, a_deep, b_deep>& slabs, float*& stage, Square& some) {
  const unsigned warp = threadIdx.x / 32;
  tiles::wait<P::stages - 2>();
  __syncthreads();
  slabs.bring();
  multiply_slab<P, a_deep, b_deep, exact>(some, stage, warp % P::shares, warp / P::shares * P::depth);
  stage = slabs.stage_behind(stage);
}

/// The sums of a group of warps, which shares every slab with the others.
template <bool exact, class P, bool a_deep, bool b_deep>
__device__ void sum_slabs(Slabs<P, a_deep, b_deep>& slabs, float* stage, unsigned steps, Square& sum) {
  Square some = {};
  for (unsigned step = 0; step < steps; ++step) {
    next_step<exact>(slabs, stage, some);
    if (step % (P::short_sum / P::depth) == P::short_sum / P::depth - 1) add_short_sum(sum, some);
  }
  add_short_sum(sum, some);
}

/// The sums of `groups` groups, `steps` each, added in their order.
template <bool exact, class P, bool a_deep, bool b_deep>
__device__ void sum_in_turns(Slabs<P, a_deep, b_deep>& slabs, float* stage, unsigned groups, unsigned steps,
                             Square& sum) {
  Square some = {}, of_group = {};
  for (; groups > 0; --groups) {
    for (unsigned step = 1; step <= steps; ++step) {
      next_step<exact>(slabs, stage, some);
      if (!P::brief && step % (P::short_sum / P::depth) == 0) add_short_sum(of_group, some);
    }
    if constexpr (!P::brief) add_short_sum(of_group, some);
    add_short_sum(sum, P::brief ? some : of_group);
  }
}

/// Operands that are not split leave registers for one more block of HighOccupancy.
template <class P, bool exact>
constexpr unsigned neighbours = P::neighbours + (takes_turns<P> && !exact ? 1 : 0);

template <class P, bool a_deep, bool b_deep, Extra extra, bool exact>
__global__ void __launch_bounds__(P::block, neighbours<P, exact>) product_kernel(const __grid_constant__ Products p) {
  extern __shared__ __align__(16) float memory[];
  const unsigned tile = blockIdx.x, split = blockIdx.y;
  const OutputTile place = output_tile_of<P>(p, tile);
  const unsigned count = slabs_in<P>(p, place.result), each = (count + p.splits - 1) / p.splits;
  const unsigned begin = min(count, split * each), end = min(count, begin + each);
  Slabs<P, a_deep, b_deep> slabs(p, place, memory, begin, end);
  const unsigned warp = threadIdx.x / 32, steps = slabs.steps(), groups = slabs.groups();
  unsigned early = 0;  // slabs copied before the previous kernel has ended
  if constexpr (a_deep && !takes_turns<P>) {
    if (p.is_right_pinned && steps > 0) early = slabs.first_slabs();
    slabs.bring_right(early);
  }
  wait_for_previous_kernel();  // the addresses were computed before
  if constexpr (a_deep && !takes_turns<P>) {
    if (early > 0) slabs.bring_left(early);
  }
  for (unsigned i = 0; early == 0 && i + 1 < P::stages; ++i) slabs.bring();
  GateUp<P> gate_up;
  if constexpr (extra == Extra::gate_up && !takes_turns<P>) gate_up.load(p, place);
  Square sum = {};
  if constexpr (takes_turns<P>) {
    sum_in_turns<exact>(slabs, memory, groups, steps, sum);
  } else {
    sum_slabs<exact>(slabs, memory, steps, sum);
  }
  tiles::wait<0>();
  __syncthreads();
  float* own = memory + warp * part * sum_stride + threadIdx.x % 32 / 4 * sum_stride + threadIdx.x % 4 * 2;
  unrolled<4, 4>([&](int r, int n) {
    *reinterpret_cast<float2*>(own + 8 * r * sum_stride + 8 * n) =
        make_float2(sum[r / 2][n][r % 2 * 2], sum[r / 2][n][r % 2 * 2 + 1]);
  });
  __syncthreads();
  Sums<P> sums{memory, &p, tile, false};
  if (p.splits > 1) {
    float* to = p.partials + (std::size_t{split} * p.tiles + tile) * P::elements;
    for (unsigned i = threadIdx.x; i < P::elements / 4; i += P::block) {
      float four[4];
      sums.at(i / P::quads, i % P::quads * 4, four);
      *reinterpret_cast<float4*>(to + 4 * i) = make_float4(four[0], four[1], four[2], four[3]);
    }
    if (!is_last_block(&p.tickets[tile], p.splits)) return;
    sums.from_partials = true;
  }
  if constexpr (P::across == 2) {
    if (p.finish == Finish::gate_up) return finish_gate_up<P>(p, sums, place);
  }
  if constexpr (extra == Extra::gate_up) {
    if constexpr (takes_turns<P>) gate_up.load(p, place);
    finish_gate_up_backward<P>(p, sums, place, gate_up);
  } else {
    finish_plain<extra == Extra::biases>(p, sums, place);
  }
}

bool is_one_launch(std::size_t count) { return count > 0 && count <= max_products; }

Result result_of(const Tensor& tensor, double beta) {
  Result r;
  r.c = matrix_of(tensor);
  r.rows = unsigned(tensor.rows());
  r.columns = unsigned(tensor.columns());
  r.beta = float(beta);
  return r;
}

template <class P>
unsigned count_tiles(Products& p) {
  const unsigned width = p.finish == Finish::gate_up ? P::columns / 2 : P::columns;
  const unsigned own = p.summed || p.finish != Finish::plain ? 1 : p.count;
  p.tiles = 0;
  for (unsigned i = 0; i < own; ++i) {
    Result& r = p.results[i];
    r.first_tile = p.tiles;
    r.across = blocks_for(r.columns, width);
    p.tiles += r.across * blocks_for(r.rows, P::rows);
  }
  return p.tiles;
}

bool writes_to_one_of(const Products& p, const Products& others) {
  for (unsigned i = 0; i < p.count; ++i) {
    for (unsigned k = 0; k < others.count; ++k) {
      if (p.results[i].c.data == others.results[k].c.data) return true;
    }
  }
  return false;
}

template <class P>
unsigned max_slabs(const Products& p) {
  unsigned sum = 0, deepest = 0;
  for (unsigned i = 0; i < p.count; ++i) {
    const unsigned slabs = blocks_for(p.terms[i].depth, P::slab);
    sum += slabs;
    deepest = slabs > deepest ? slabs : deepest;
  }
  return p.summed ? sum : deepest;
}

/// The number of blocks that share the depth of a tile: several with few deep tiles.
template <class P>
unsigned splits_of(Products& p) {
  count_tiles<P>(p);
  const unsigned slabs = max_slabs<P>(p), min_slabs = min_depth / P::slab;
  const unsigned wanted = p.tiles > 0 && split_blocks > p.tiles ? split_blocks / p.tiles : 1;
  const unsigned each = slabs / wanted > min_slabs ? blocks_for(slabs, wanted) : min_slabs;
  return slabs > each ? blocks_for(slabs, each) : 1;
}

/// Counts the tiles and the blocks that share each, whose sums need memory.
template <class P>
void share_depth(Products& p, const CudaBackend& backend) {
  p.splits = splits_of<typename P::Order>(p);
  count_tiles<P>(p);
  if (p.splits == 1) return;
  p.partials = backend.scratch(std::size_t{p.splits} * p.tiles * P::elements);
  p.tickets = backend.tickets();
}

double products_of(const Products& p) {
  double sum = 0;
  for (unsigned i = 0; i < p.count; ++i) {
    const Result& r = p.results[p.summed ? 0 : i];
    sum += double(r.rows) * r.columns * p.terms[i].depth;
  }
  return sum;
}

template <class P, bool a_deep, bool b_deep, Extra extra, bool exact>
void launch_kernel(cudaStream_t stream, const Products& p) {
  constexpr auto kernel = product_kernel<P, a_deep, b_deep, extra, exact>;
  allow_shared_memory(reinterpret_cast<const void*>(kernel), product_bytes<P, a_deep, b_deep>(P::stages), "a product");
  if (p.tiles == 0) return;
  const unsigned slabs = takes_turns<P> ? P::stages : blocks_for(max_slabs<P>(p), p.splits);
  launch(kernel, dim3(p.tiles, p.splits), P::block, product_bytes<P, a_deep, b_deep>(slabs), stream, p);
}

}  // namespace

template <bool a_deep, bool b_deep>
bool ProductPlanner::multiply_tiles(Products& p) {
  const unsigned wide = count_tiles<Wide>(p);
  // When refused, summed products become a launch each, so each is compared with the limit alone.
  const double wanted = products_of(p), each = wanted / (p.summed ? p.count : 1);
  if (a_deep && p.exact && p.terms[0].depth > max_tile_depth && wanted >= min_split && splits_operands()) return false;
  const bool deep = !a_deep && p.terms[0].depth > max_depth;
  const bool suits = p.exact ? wide <= max_tiles && !(deep && wanted > max_deep)
                             : wide <= max_rounded_tiles && !deep && each <= max_rounded;
  if (suits) run_tiles<a_deep, b_deep>(p);
  return suits;
}

bool ProductPlanner::is_right_pinned(const Products& p) const {
  const unsigned terms = p.finish == Finish::gate_up ? 2 : p.count;
  return std::all_of(p.terms, p.terms + terms, [&](const Term& term) { return backend_.is_pinned(term.b.data); });
}

template <bool a_deep, bool b_deep>
void ProductPlanner::run_tiles(Products& p) {
  p.is_right_pinned = is_right_pinned(p);
  const auto run_plan = [&](auto plan) {
    using P = decltype(plan);
    share_depth<P>(p, backend_);
    with_either<true, false>(p.exact, [&](auto exact) {
      if constexpr (a_deep && b_deep) {
        if (p.biased) return launch_kernel<P, true, true, Extra::biases, exact()>(backend_.stream(), p);
      } else if constexpr (a_deep) {
        if (p.finish == Finish::gate_up_backward)
          return launch_kernel<P, true, false, Extra::gate_up, exact()>(backend_.stream(), p);
      }
      launch_kernel<P, a_deep, b_deep, Extra::none, exact()>(backend_.stream(), p);
    });
  };
  const auto run = [&](auto plan) {
    using P = decltype(plan);
    if (!is_gpu_shared()) return run_plan(plan);
    const unsigned splits = splits_of<P>(p), depth_of_group = blocks_for(max_slabs<P>(p), splits) * P::depth;
    with_either<true, false>(depth_of_group <= P::short_sum,
                             [&](auto brief) { run_plan(HighOccupancy<P, brief()>()); });
  };
  if constexpr (!a_deep) {
    run(Shared());
  } else if (p.finish == Finish::gate_up || count_tiles<Wide>(p) >= wide_tiles) {
    run(Wide());
  } else {
    run(Narrow());
  }
  backend_.launched("product");
}

bool ProductPlanner::tile_product(bool transpose_a, bool transpose_b, double alpha, const Tensor& a, const Tensor& b,
                                  double beta, const Tensor& c) {
  const std::int64_t depth = transpose_a ? a.rows() : a.columns();
  if ((transpose_a && transpose_b) || depth == 0) return false;
  Products p = none_yet();
  p.count = 1;
  p.alpha = float(alpha);
  p.terms[0] = {matrix_of(a), matrix_of(b), unsigned(depth)};
  p.results[0] = result_of(c, beta);
  return transpose_a   ? multiply_tiles<false, false>(p)
         : transpose_b ? multiply_tiles<true, true>(p)
                       : multiply_tiles<true, false>(p);
}

Products ProductPlanner::none_yet() const {
  Products p;
  p.exact = backend_.precision() == Precision::fp32;
  return p;
}

void CudaBackend::linear_forward_many(const Tensor& x, std::span<const Tensor> weights, std::span<const Tensor> biases,
                                      std::span<const Tensor> results, const KeptInput& kept) {
  if (!kept.numbers.defined() && few_row_projections(*this, x, weights, biases, results)) return;
  if (are_narrow(weights) && precision_ != Precision::bf16)
    return linear_forward_many(x, widened(weights), biases, results, kept);
  const bool takes_floats = !are_narrow(weights);
  if (takes_floats && (products_.project_rounded(x, weights, results, kept) ||
                       products_.project_split(x, weights, results) || products_.thin_projections(x, weights, results)))
    return add_biases(biases, results);
  Products p = products_.none_yet();
  if (takes_floats && is_one_launch(weights.size()) && x.columns() > 0) {
    p.count = unsigned(weights.size());
    for (unsigned i = 0; i < p.count; ++i) {
      p.terms[i] = {matrix_of(x), matrix_of(weights[i]), unsigned(x.columns())};
      p.results[i] = result_of(results[i], 0);
      if (i < biases.size()) p.biases[i] = biases[i].as<float>();
      p.biased = p.biased || p.biases[i] != nullptr;
    }
    if (products_.multiply_tiles<true, true>(p)) return;
    if (weights.size() > 1) {  // too much for one launch
      for (std::size_t i = 0; i < weights.size(); ++i)
        linear_forward_many(x, weights.subspan(i, 1), i < biases.size() ? biases.subspan(i, 1) : biases,
                            results.subspan(i, 1), {});
      return;
    }
  }
  for (std::size_t i = 0; i < weights.size(); ++i) gemm(false, true, 1.0, x, weights[i], 0.0, results[i]);
  add_biases(biases, results);
}

void CudaBackend::gemm_sum(std::span<const Tensor> a, std::span<const Tensor> b, const Grad& c) {
  if (!c.wanted() || products_.thin_input_gradient(a, b, c)) return;
  Products p = products_.none_yet();
  if (is_one_launch(a.size())) {
    p.count = unsigned(a.size());
    p.summed = p.count > 1;
    for (unsigned i = 0; i < p.count; ++i) {
      p.terms[i] = {matrix_of(a[i]), matrix_of(b[i]), unsigned(a[i].columns())};
    }
    p.results[0] = result_of(c.tensor, c.accumulate ? 1 : 0);
    if (products_.multiply_tiles<true, false>(p)) return;
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    gemm(false, false, 1.0, a[i], b[i], i > 0 || c.accumulate ? 1.0 : 0.0, c.tensor);
  }
}

void CudaBackend::linear_gradients(std::span<const Tensor> dresults, const Tensor& x, std::span<const Grad> dweights,
                                   std::span<const Grad> dbiases) {
  products_.multiply_gradients(dresults, x, dweights);
  sum_biases(dresults, dbiases);
}

void CudaBackend::sum_biases(std::span<const Tensor> dresults, std::span<const Grad> dbiases) {
  if (are_apart(dbiases)) {
    sum_rows_each(dresults.first(dbiases.size()), dbiases);
  } else {
    for (std::size_t i = 0; i < dbiases.size(); ++i) sum_rows(dresults[i], dbiases[i]);
  }
}

void ProductPlanner::multiply_gradients(std::span<const Tensor> dresults, const Tensor& x,
                                        std::span<const Grad> dweights) {
  if (thin_weight_gradients(dresults, x, dweights)) return;
  Products p = none_yet();
  if (is_one_launch(dresults.size()) && x.rows() > 0 && are_apart(dweights)) {
    for (std::size_t i = 0; i < dresults.size(); ++i) {
      if (!dweights[i].wanted()) continue;
      p.terms[p.count] = {matrix_of(dresults[i]), matrix_of(x), unsigned(x.rows())};
      p.results[p.count++] = result_of(dweights[i].tensor, dweights[i].accumulate ? 1 : 0);
    }
    if (p.count == 0 || (backend_.is_on_side_stream() && keep_gradients(p)) || multiply_tiles<false, false>(p)) return;
  }
  launch_kept_gradients();  // a collected gradient may have the same destination
  for (std::size_t i = 0; i < dresults.size(); ++i) {
    if (dweights[i].wanted())
      backend_.gemm(true, false, 1.0, dresults[i], x, dweights[i].accumulate ? 1.0 : 0.0, dweights[i].tensor);
  }
}

// The operands of gradients do not change before the backward pass ends, so these products can wait. One by one they
// have few tiles each and would take longer than the main stream's work during that time.
bool ProductPlanner::keep_gradients(const Products& products) {
  Products p = products;
  const unsigned tiles = count_tiles<Shared>(p);
  if (kept_gradients_ != nullptr && (kept_gradients_->exact != p.exact || writes_to_one_of(p, *kept_gradients_)))
    launch_kept_gradients();
  if (tiles > max_kept || p.terms[0].depth > max_kept_depth) return false;
  if (kept_gradients_ != nullptr &&
      (kept_gradients_->count + p.count > max_terms || kept_gradients_->tiles + tiles > max_kept))
    launch_kept_gradients();
  if (kept_gradients_ == nullptr) kept_gradients_ = std::make_shared<Products>(none_yet());
  for (unsigned i = 0; i < p.count; ++i) {
    kept_gradients_->terms[kept_gradients_->count] = p.terms[i];
    kept_gradients_->results[kept_gradients_->count++] = p.results[i];
  }
  kept_gradients_->tiles += tiles;
  if (kept_gradients_->tiles >= enough_tiles) launch_kept_gradients();
  return true;
}

void ProductPlanner::launch_kept_gradients() {
  if (kept_gradients_ == nullptr) return;
  const std::shared_ptr<Products> kept = std::move(kept_gradients_);
  std::optional<SideStream> side;
  if (!backend_.is_on_side_stream()) side.emplace(backend_);
  run_tiles<false, false>(*kept);
}

void CudaBackend::swiglu_gate_up(const Tensor& x, const Tensor& gate, const Tensor& up, const Tensor& g,
                                 const Tensor& u, const Tensor& h) {
  const Tensor weights[] = {gate, up}, results[] = {g, u};
  if (few_row_projections(*this, x, weights, {}, results)) return silu_multiply(g, u, h);
  if (are_narrow(weights) && precision_ != Precision::bf16) {
    const std::vector<Tensor> wide = widened(weights);
    return swiglu_gate_up(x, wide[0], wide[1], g, u, h);
  }
  Products p = products_.none_yet();
  if (x.columns() > 0 && !are_narrow(weights)) {
    p.finish = Finish::gate_up;
    p.count = 1;  // both products run through one depth together
    p.terms[0] = {matrix_of(x), matrix_of(gate), unsigned(x.columns())};
    p.terms[1] = {matrix_of(x), matrix_of(up), unsigned(x.columns())};
    p.results[0] = result_of(g, 0);
    p.results[1] = result_of(u, 0);
    p.results[2] = result_of(h, 0);
    if (products_.multiply_tiles<true, true>(p)) return;
  }
  gemm(false, true, 1.0, x, gate, 0.0, g);
  gemm(false, true, 1.0, x, up, 0.0, u);
  silu_multiply(g, u, h);
}

void CudaBackend::swiglu_gate_up_backward(const Tensor& dy, const Tensor& down, const Tensor& g, const Tensor& u,
                                          const Tensor& dg, const Tensor& du) {
  Products p = products_.none_yet();
  p.finish = Finish::gate_up_backward;
  p.count = 1;
  p.terms[0] = {matrix_of(dy), matrix_of(down), unsigned(dy.columns())};
  p.results[0] = result_of(dg, 0);
  p.results[1] = result_of(du, 0);
  p.kept[0] = matrix_of(g);
  p.kept[1] = matrix_of(u);
  if (dy.columns() > 0 && products_.multiply_tiles<true, false>(p)) return;
  gemm(false, false, 1.0, dy, down, 0.0, du);
  silu_multiply_backward(g, u, du, {dg, false}, {du, false});
}

}  // namespace afterglow
