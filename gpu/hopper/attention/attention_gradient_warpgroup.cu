// Gradients of attention of long sequences on warp groups; the equations are in pairs.cuh. Each of two warp groups owns
// 64 keys or 64 queries of a head, and a copying thread streams tokens of the other kind, 64 at a time. Grid: 128 keys
// of a head a block, then 128 queries.
#include "gpu/hopper/attention/attention_warpgroup.cuh"

namespace afterglow::device::tiles {
namespace {

template <bool of_keys>
using Position = PassPosition<of_keys, rows, Crew::own_rows>;

/// Layout of a block's shared memory: own queries or keys, their partners (dy or v), and stages of the other kind with
/// its partners.
template <int columns>
struct GradientMemory {
  using Tile = PanelTile<columns>;
  static constexpr unsigned stages = 3;
  static constexpr int tiles = 2 * (Crew::groups + int(stages)), mbarriers_at = tiles * Tile::bytes;
  static constexpr int mbarrier_count = 1 + int(Ring<stages>::mbarrier_count);
  static constexpr int bytes = mbarriers_at + mbarrier_count * int(sizeof(std::uint64_t)) + 1024;
  static_assert(Tile::bytes % 1024 == 0);

  unsigned char* memory;
  Ring<stages> ring;

  __device__ explicit GradientMemory(unsigned char* begin) : memory(begin), ring{mbarriers() + 1} {}
  __device__ void init_mbarriers() const {
    own_full().init(1);
    ring.init(Crew::warps);
    fence_mbarrier_init();
  }
  __device__ Mbarrier own_full() const { return Mbarrier(mbarriers()); }
  __device__ Tile own(int group) const { return tile(group); }
  __device__ Tile own_partner(int group) const { return tile(Crew::groups + group); }
  __device__ Tile streamed() const { return tile(2 * (Crew::groups + int(ring.stage))); }
  __device__ Tile streamed_partner() const { return tile(2 * (Crew::groups + int(ring.stage)) + 1); }

 private:
  __device__ Tile tile(int i) const { return {memory + i * Tile::bytes}; }
  __device__ std::uint64_t* mbarriers() const { return reinterpret_cast<std::uint64_t*>(memory + mbarriers_at); }
};

/// Copies everything that a block reads; one thread runs it. Beyond the last tile it copies that one again, and its
/// sums are dropped.
template <int columns, bool of_keys>
__device__ void copy_all(const Pairs& in, const Position<of_keys>& at, GradientMemory<columns>& memory) {
  constexpr unsigned tile = PanelTile<columns>::bytes;
  const Tiles &own = of_keys ? in.k : in.q, &own_partner = of_keys ? in.v : in.dy;
  const Tiles &other = of_keys ? in.q : in.k, &other_partner = of_keys ? in.dy : in.v;
  const Mbarrier own_full = memory.own_full();
  own_full.arrive_expect_tx(2 * Crew::groups * tile);
  for (int group = 0; group < Crew::groups; ++group) {
    const int first = min(at.first + group * rows, own.padded - rows);
    own_full.copy(memory.own(group).memory, own.at<columns, false>(at.batch, at.head, first), tile);
    own_full.copy(memory.own_partner(group).memory, own_partner.at<columns, false>(at.batch, at.head, first), tile);
  }
  auto& ring = memory.ring;
  for (int step = 0; step < at.steps; ++step) {
    const int head = at.head_at(step), token = at.token_at(step);
    ring.empty().wait(ring.phase ^ 1);
    ring.full().arrive_expect_tx(2 * tile);
    ring.full().copy(memory.streamed().memory, other.at<columns, false>(at.batch, head, token), tile);
    ring.full().copy(memory.streamed_partner().memory, other_partner.at<columns, false>(at.batch, head, token), tile);
    ring.advance();
  }
}

/// Powers of two that keep a row's weights below 2^15 in all steps so far; larger weights rescale the earlier sums.
struct RowScales {
  float up[2];
  __device__ RowScales() { up[0] = up[1] = Scale(0).up; }

  /// `peak`: a thread's largest weights in its rows.
  template <int columns>
  __device__ __forceinline__ void take(const float (&peak)[2], Share<columns>& sum) {
    float shrink[2];
    unrolled<2>([&](int r) {
      const float now = fminf(up[r], Scale(quad_max(peak[r])).up);
      shrink[r] = now * inverse_power(up[r]);
      up[r] = now;
    });
    if (__any_sync(full_warp, shrink[0] != 1.0f || shrink[1] != 1.0f))
      sum.each([&](int, int r, int, float value) { return value * shrink[r]; });
  }
  __device__ float down(int r) const { return inverse_power(up[r]); }
};

template <int columns>
__device__ __forceinline__ void take_weights(const Share<rows>& weights, RowScales& scales, Share<columns>& sum,
                                             std::uint32_t (&halves)[rows / 16][4]) {
  float peak[2] = {0, 0};
  unrolled<rows / 8, 2>(
      [&](int n, int r) { peak[r] = fmaxf(peak[r], fmaxf(fabsf(weights.at(n, r, 0)), fabsf(weights.at(n, r, 1)))); });
  scales.take(peak, sum);
  take_halves(weights, scales.up, halves);
}

/// The pass of a warp group over its rows, which are keys (dk and dv) or queries (dq); columns are tokens of the other
/// kind.
template <int columns, bool of_keys>
struct LongPass {
  using Tile = PanelTile<columns>;
  const Pairs& in;
  const Position<of_keys>& at;
  GradientMemory<columns>& memory;
  const LanePosition lane;
  const int first;
  const Tile own, own_partner;
  float factor[2];                   ///< of a row's scores
  float log_sum[2];                  ///< of queries
  float value_unit[2];               ///< of keys
  float mean[2];                     ///< of queries
  LeftHalves<columns> rows_held[2];  ///< queries and dy
  Share<rows> weight, slope;
  LeftHalves<rows> halves, value_halves;
  RowScales scales, value_scales;
  Share<columns> sum, value_sum;

  __device__ __forceinline__ LongPass(const Pairs& pairs, const Position<of_keys>& place,
                                      GradientMemory<columns>& shared)
      : in(pairs),
        at(place),
        memory(shared),
        first(at.first + lane.group * rows),
        own(memory.own(lane.group)),
        own_partner(memory.own_partner(lane.group)) {
    memory.own_full().wait(0);
    sum.clear();
    if constexpr (of_keys) value_sum.clear();
    unrolled<2>([&](int r) {
      const int row = lane.row_of(r);
      factor[r] = own.units()[row] * in.power_scale();
      if constexpr (of_keys) {
        value_unit[r] = own_partner.units()[row];
      } else {
        log_sum[r] = own.log_sums()[row];
        mean[r] = own_partner.means()[row];
      }
    });
    if constexpr (!of_keys) {
      load_rows(own, rows_held[0]);
      load_rows(own_partner, rows_held[1]);
    }
  }

  /// Each iteration begins and ends with no products in flight; the compiler would serialise products that cross
  /// iterations.
  __device__ __forceinline__ void add_all() {
    if (at.steps == 0) return;
    auto& ring = memory.ring;
    ring.full().wait(ring.phase);
    warpgroup::begin_products();
    begin_dots();
    warpgroup::wait_for_groups<1>(weight.value);
    weigh(0);
    warpgroup::wait_for_groups<0>(slope.value);
    for (int step = 1;; ++step) {
      add_values_and_find_slopes();
      take_weights(slope, scales, sum, halves);
      const HalvesPanel streamed = memory.streamed().panel();
      if (step == at.steps) {
        prepare_spread(halves, sum);
        begin_spread<columns>(halves, streamed, sum);
        warpgroup::wait_for_groups<0>(sum.value);
        hold(halves);
        return;
      }
      const Mbarrier empty = ring.empty();
      ring.advance();
      ring.full().wait(ring.phase);
      prepare_spread(halves, sum);
      begin_spread<columns>(halves, streamed, sum);
      begin_dots();
      warpgroup::wait_for_groups<1>(weight.value);
      hold(halves);
      leave(empty);
      weigh(step);
      warpgroup::wait_for_groups<0>(slope.value);
      warpgroup::fence_accumulators(sum.value);
    }
  }

  /// Gradients through the scores go to `to`, those through the weights to `to_values`.
  template <class T>
  __device__ __forceinline__ void put(const TargetOf<T>& to, const TargetOf<T>& to_values) {
    const int count = at.count - lane.group * rows;
    const std::size_t row = at.own_row + std::size_t(lane.group * rows);
    float down[2];
    unrolled<2>([&](int r) {
      down[r] = scales.down(r) * in.scale;
      if constexpr (!of_keys) down[r] *= own_partner.units()[lane.row_of(r)];
    });
    sum.each([&](int, int r, int, float value) { return value * down[r]; });
    if (to.wanted()) to.put(lane, sum, row, at.head, count);
    __syncwarp();
    if constexpr (of_keys) {
      value_sum.each([&](int, int r, int, float value) { return value * value_scales.down(r); });
      if (to_values.wanted()) to_values.put(lane, value_sum, row, at.head, count);
    }
  }

 private:
  __device__ __forceinline__ void load_rows(const Tile& tile, std::uint32_t (&to)[columns / 16][4]) const {
    const int place = int(threadIdx.x % 32);
    const auto row = unsigned(lane.warp_row + place % 16), column = unsigned(place / 16 * 8);
    unrolled<columns / 16>([&](unsigned k) {
      load_matrices(shared_address(tile.memory + HalvesPanel::place(row, 16 * k + column)), to[k]);
    });
  }
  __device__ __forceinline__ void begin_dots() {
    const HalvesPanel streamed = memory.streamed().panel(), partner = memory.streamed_partner().panel();
    if constexpr (of_keys) {
      begin_dot<columns>(own.panel(), streamed, weight);
      begin_dot<columns>(own_partner.panel(), partner, slope);
    } else {
      begin_dot<columns>(rows_held[0], streamed, weight);
      begin_dot<columns>(rows_held[1], partner, slope);
    }
  }
  /// Turns scores into weights; those of keys are times the units of dy.
  __device__ __forceinline__ void weigh(int step) {
    const Tile streamed = memory.streamed(), partner = memory.streamed_partner();
    weight.each([&](int n, int r, int e, float score) {
      const float unit = part_of(columns_of(streamed.units(), lane, n), e);
      if constexpr (of_keys) {
        const float of_query = part_of(columns_of(streamed.log_sums(), lane, n), e);
        const float upstream_unit = part_of(columns_of(partner.units(), lane, n), e);
        return power_of_two(fmaf(score * unit, factor[r], -of_query)) * upstream_unit;
      } else {
        return power_of_two(fmaf(score * unit, factor[r], -log_sum[r]));
      }
    });
    const int token = at.token_at(step);
    const bool straddles = of_keys ? token + in.offset <= first + rows - 1 : token + rows > in.seen(first);
    if (!straddles) return;
    weight.each([&](int n, int r, int e, float value) {
      const int row = first + lane.row_of(r), column = token + lane.column_of(n, e);
      return (of_keys ? row < column + in.offset : column < in.seen(row)) ? value : 0.0f;
    });
  }
  /// Turns slopes into the scores' gradients without the scale, times the units of the streamed rows. Means are in the
  /// units of dy, which weights of keys already include and sums of queries get at the end.
  __device__ __forceinline__ void add_values_and_find_slopes() {
    const Tile streamed = memory.streamed(), partner = memory.streamed_partner();
    if constexpr (of_keys) {
      take_weights(weight, value_scales, value_sum, value_halves);
      prepare_spread(value_halves, value_sum);
      begin_spread<columns>(value_halves, partner.panel(), value_sum);
    }
    slope.each([&](int n, int r, int e, float value) {
      const float unit = part_of(columns_of(streamed.units(), lane, n), e);
      const float of_partner = part_of(columns_of(of_keys ? partner.means() : partner.units(), lane, n), e);
      const float apart = of_keys ? fmaf(value, value_unit[r], -of_partner) : fmaf(value, of_partner, -mean[r]);
      return apart * weight.at(n, r, e) * unit;
    });
    if constexpr (of_keys) {
      warpgroup::wait_for_groups<0>(value_sum.value);
      hold(value_halves);
    }
  }
};

template <int columns, bool of_keys, class T>
__device__ __forceinline__ void run_pass(const Pairs& in, int place, GradientMemory<columns>& memory,
                                         const TargetOf<T>& to, const TargetOf<T>& to_values) {
  const Position<of_keys> at(in, place);
  LongPass<columns, of_keys> pass(in, at, memory);
  pass.add_all();
  pass.put(to, to_values);
}

/// The order of both kinds of blocks; the first `key_blocks` own keys.
struct Orders {
  Order keys, queries;
  int key_blocks;
};

template <int columns, class T>
__global__ void __launch_bounds__(Crew::threads, 1)
    long_gradient_kernel(const __grid_constant__ Pairs in, const __grid_constant__ GradientTargets<T> to,
                         const __grid_constant__ Orders orders) {
  extern __shared__ unsigned char shared[];
  GradientMemory<columns> memory(aligned_memory(shared));
  if (threadIdx.x == 0) memory.init_mbarriers();
  __syncthreads();
  wait_for_previous_kernel();
  const int block = int(blockIdx.x);
  const bool of_keys = block < orders.key_blocks;
  const int place = of_keys ? orders.keys.place(block) : orders.queries.place(block - orders.key_blocks);
  if (Crew::copies()) {
    Crew::give_registers();
    if (!Crew::is_copier()) return;
    if (of_keys) {
      copy_all<columns, true>(in, Position<true>(in, place), memory);
    } else {
      copy_all<columns, false>(in, Position<false>(in, place), memory);
    }
  } else {
    Crew::take_registers();
    if (of_keys) {
      run_pass<columns, true>(in, place, memory, to.k, to.v);
    } else {
      run_pass<columns, false>(in, place, memory, to.q, {});
    }
  }
}

template <int columns, class T>
void launch_passes(cudaStream_t stream, const Pairs& in, const MakingsOf<T>& makings, const GradientTargets<T>& to) {
  constexpr int bytes = GradientMemory<columns>::bytes, own = Crew::own_rows;
  make_rows<PanelRow<columns>>(stream, makings);
  const auto order = [&](int heads, int length, int streamed_rows) {
    return Order(in.batch * heads, int(blocks_for(length, own)),
                 2 * std::size_t(streamed_rows) * row_bytes<columns, false>);
  };
  const Order of_keys = order(in.key_heads, in.keys, in.heads / in.key_heads * in.q.padded);
  const Order of_queries = order(in.heads, in.queries, in.k.padded);
  with_targets_apart(in, to, [&](const GradientTargets<T>& apart) {
    const PassBlocks blocks(in, apart, own);
    if (blocks.all() > 0)
      launch("attention_backward", long_gradient_kernel<columns, T>, blocks.all(), Crew::threads, bytes, stream, in,
             apart, Orders{of_keys, of_queries, int(blocks.of_keys)});
  });
}

}  // namespace

template <class T>
void gradients_on_warpgroups(cudaStream_t stream, const Pairs& in, const MakingsOf<T>& makings, int width,
                             const GradientTargets<T>& to) {
  if (warpgroup_columns(width) == 64) return launch_passes<64>(stream, in, makings, to);
  launch_passes<128>(stream, in, makings, to);
}

template void gradients_on_warpgroups(cudaStream_t, const Pairs&, const MakingsOf<float>&, int,
                                      const GradientTargets<float>&);
template void gradients_on_warpgroups(cudaStream_t, const Pairs&, const MakingsOf<Bf16>&, int,
                                      const GradientTargets<Bf16>&);

}  // namespace afterglow::device::tiles
