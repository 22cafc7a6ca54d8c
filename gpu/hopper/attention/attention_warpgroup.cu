// Softmax attention of long sequences on warp groups, y_t = sum over j of softmax_j(scale q_t . k_j) v_j. A block has
// 128 queries of a head, 64 for each of two warp groups; a copying thread streams keys and values through shared
// memory, 128 at a time. While the products of weights and values of one step run, the next step's scores become
// weights. Grid: tiles of 128 queries of all heads.
#include "gpu/hopper/attention/attention_warpgroup.cuh"

namespace afterglow::device::tiles {
namespace {

constexpr int step_keys = 128, tiles_a_step = step_keys / rows;
using KeysPanel = Panel<step_keys>;

template <int columns>
struct ForwardMemory {
  static constexpr unsigned stages = 2;
  static constexpr int panel_bytes = KeysPanel::bytes(columns), unit_bytes = step_keys * int(sizeof(float));
  static constexpr int query_bytes = Crew::groups * PanelTile<columns>::bytes;
  static constexpr int key_bytes = panel_bytes + 2 * unit_bytes;  // with the units of keys and of values
  static constexpr int value_bytes = panel_bytes;
  static constexpr int values_at = query_bytes + int(stages) * key_bytes;
  static constexpr int mbarriers_at = values_at + int(stages) * value_bytes;
  static constexpr int mbarrier_count = 1 + 2 * int(Ring<stages>::mbarrier_count);
  static constexpr int bytes = mbarriers_at + mbarrier_count * int(sizeof(std::uint64_t)) + 1024;
  static_assert(key_bytes % 1024 == 0 && query_bytes % 1024 == 0);

  unsigned char* memory;
  Ring<stages> key_stages, value_stages;

  __device__ explicit ForwardMemory(unsigned char* begin)
      : memory(begin), key_stages{mbarriers() + 1}, value_stages{mbarriers() + 1 + Ring<stages>::mbarrier_count} {}
  __device__ void init_mbarriers() const {
    queries_full().init(1);
    key_stages.init(Crew::warps);
    value_stages.init(Crew::warps);
    fence_mbarrier_init();
  }
  __device__ Mbarrier queries_full() const { return Mbarrier(mbarriers()); }
  __device__ PanelTile<columns> queries(int group) const { return {memory + group * PanelTile<columns>::bytes}; }
  __device__ KeysPanel keys() const { return {key_memory()}; }
  __device__ float* key_units() const { return reinterpret_cast<float*>(key_memory() + panel_bytes); }
  __device__ float* value_units() const { return key_units() + step_keys; }
  __device__ KeysPanel values() const { return {memory + values_at + value_stages.stage * value_bytes}; }

 private:
  __device__ std::uint64_t* mbarriers() const { return reinterpret_cast<std::uint64_t*>(memory + mbarriers_at); }
  __device__ unsigned char* key_memory() const { return memory + query_bytes + key_stages.stage * key_bytes; }
};

struct ForwardPosition {
  int batch, head, key_head, first, count, steps;

  __device__ ForwardPosition(const Pairs& in, int place) {
    const int sequences = in.batch * in.heads, sequence = place % sequences;
    batch = sequence / in.heads;
    head = sequence % in.heads;
    key_head = head / (in.heads / in.key_heads);
    // Late queries see the most keys, so their blocks start first.
    first = ((in.queries - 1) / Crew::own_rows - place / sequences) * Crew::own_rows;
    count = min(Crew::own_rows, in.queries - first);
    steps = max(0, in.seen(first + count - 1) + step_keys - 1) / step_keys;
  }
};

/// Copies everything that a block reads; one thread runs it. Beyond the last tile it copies that one again; its entries
/// are masked.
template <int columns>
struct ForwardCopier {
  using Tile = PanelTile<columns>;
  using Memory = ForwardMemory<columns>;
  const Pairs& in;
  const ForwardPosition& at;
  Memory& memory;

  __device__ void copy_all() const {
    copy_queries();
    for (int step = 0; step < at.steps; ++step) {
      copy_keys(step);
      if (step > 0) copy_values(step - 1);
    }
    if (at.steps > 0) copy_values(at.steps - 1);
  }

 private:
  __device__ void copy_queries() const {
    const Mbarrier full = memory.queries_full();
    full.arrive_expect_tx(Crew::groups * Tile::bytes);
    for (int group = 0; group < Crew::groups; ++group) {
      const int first = min(at.first + group * rows, in.q.padded - rows);
      full.copy(memory.queries(group).memory, in.q.at<columns, false>(at.batch, at.head, first), Tile::bytes);
    }
  }
  __device__ void copy_keys(int step) const {
    memory.key_stages.empty().wait(memory.key_stages.phase ^ 1);
    const Mbarrier full = memory.key_stages.full();
    full.arrive_expect_tx(Memory::key_bytes);
    for (int i = 0; i < tiles_a_step; ++i) {
      const std::byte *keys = tile_of(in.k, step, i), *values = tile_of(in.v, step, i);
      copy_panel(full, memory.keys(), keys, i);
      full.copy(memory.key_units() + i * rows, keys + Tile::panel_bytes, Tile::note_bytes);
      full.copy(memory.value_units() + i * rows, values + Tile::panel_bytes, Tile::note_bytes);
    }
    memory.key_stages.advance();
  }
  __device__ void copy_values(int step) const {
    memory.value_stages.empty().wait(memory.value_stages.phase ^ 1);
    const Mbarrier full = memory.value_stages.full();
    full.arrive_expect_tx(Memory::value_bytes);
    for (int i = 0; i < tiles_a_step; ++i) copy_panel(full, memory.values(), tile_of(in.v, step, i), i);
    memory.value_stages.advance();
  }
  __device__ const std::byte* tile_of(const Tiles& from, int step, int i) const {
    return from.at<columns, false>(at.batch, at.key_head, min(step * step_keys + i * rows, from.padded - rows));
  }
  __device__ static void copy_panel(const Mbarrier& full, const KeysPanel& to, const std::byte* tile, int i) {
    unrolled<columns / 64>([&](int block) {
      full.copy(to.memory + block * KeysPanel::block_bytes + i * HalvesPanel::block_bytes,
                tile + block * HalvesPanel::block_bytes, HalvesPanel::block_bytes);
    });
  }
};

/// Turns scores of a warp group's queries into weights times the units of the values. The reference of a row's weights
/// keeps weight times unit below 2^14, so that they are halves without a scale of their own, and earlier sums only
/// shrink as in any online softmax.
template <int columns>
struct Weigher {
  const Pairs& in;
  const LanePosition& lane;
  int first;                                  ///< of the group's queries
  float factor[2];                            ///< of a row's scores
  float largest[2] = {-INFINITY, -INFINITY};  ///< score without that factor
  float unit[2] = {min_unit, min_unit};       ///< the largest of values
  float shrink[2];                            ///< of the sums so far
  Softmax softmax;

  __device__ Weigher(const Pairs& pairs, const LanePosition& place, int first_query, const PanelTile<columns>& queries)
      : in(pairs), lane(place), first(first_query) {
    unrolled<2>([&](int r) { factor[r] = fmaxf(queries.units()[lane.row_of(r)] * in.power_scale(), 0x1p-126f); });
  }

  /// Turns scores of keys from `key` on into weights times the units of their values.
  __device__ __forceinline__ void weigh(int key, const float* key_units, const float* value_units,
                                        Share<step_keys>& score) {
    multiply_columns(key_units, score);
    if (key + step_keys > in.seen(first)) {
      hide_unseen(in, lane, first, key, score);
      find_seen_units(key, value_units);
    } else {
      find_units(value_units);
    }
    float base[2];
    unrolled<2>([&](int r) {
      float top = -INFINITY;
      unrolled<step_keys / 8>([&](int n) { top = fmaxf(top, fmaxf(score.at(n, r, 0), score.at(n, r, 1))); });
      largest[r] = fmaxf(largest[r], quad_max(top));
      const float before = softmax.largest[r];
      softmax.largest[r] = fmaf(largest[r], factor[r], exponent_of(unit[r]) - 14.0f);
      base[r] = softmax.base(r);
      shrink[r] = power_of_two(before - base[r]);
      softmax.total[r] *= shrink[r];
    });
    score.each([&](int, int r, int, float value) {
      const float weight = power_of_two(fmaf(value, factor[r], -base[r]));
      softmax.total[r] += weight;
      return weight;
    });
    multiply_columns(value_units, score);
  }
  __device__ __forceinline__ void shrink_sum(Share<columns>& sum) const {
    if (__any_sync(full_warp, shrink[0] != 1.0f || shrink[1] != 1.0f))
      sum.each([&](int, int r, int, float value) { return value * shrink[r]; });
  }

 private:
  /// Lower bound that keeps the result in the range of float; values may be smaller.
  static constexpr float min_unit = 0x1p-60f;

  __device__ static float exponent_of(float power) { return float(int(__float_as_uint(power) >> 23) - 127); }
  __device__ __forceinline__ void multiply_columns(const float* by, Share<step_keys>& score) const {
    score.each([&](int n, int, int e, float value) { return value * part_of(columns_of(by, lane, n), e); });
  }
  __device__ __forceinline__ void find_units(const float* value_units) {
    const float4 four = reinterpret_cast<const float4*>(value_units)[threadIdx.x % 32];
    const float top = warpgroup::max_in_warp(device::largest(four));
    unrolled<2>([&](int r) { unit[r] = fmaxf(unit[r], top); });
  }
  __device__ __forceinline__ void find_seen_units(int key, const float* value_units) {
    float top[2] = {0, 0};
    unrolled<step_keys / 8>([&](int n) {
      const float2 both = columns_of(value_units, lane, n);
      unrolled<2, 2>([&](int r, int e) {
        if (key + lane.column_of(n, e) < in.seen(first + lane.row_of(r))) top[r] = fmaxf(top[r], part_of(both, e));
      });
    });
    unrolled<2>([&](int r) { unit[r] = fmaxf(unit[r], quad_max(top[r])); });
  }
};

template <int columns, class T>
__device__ __forceinline__ void attend(const Pairs& in, const ForwardPosition& at, ForwardMemory<columns>& memory,
                                       const TargetOf<T>& to, float* log_sum) {
  const LanePosition lane;
  const int first = at.first + lane.group * rows;
  const PanelTile<columns> queries = memory.queries(lane.group);
  memory.queries_full().wait(0);
  Weigher<columns> weigher(in, lane, first, queries);
  Share<columns> sum;
  Share<step_keys> score;
  LeftHalves<step_keys> weights;
  sum.clear();
  const auto begin_scores = [&] {
    memory.key_stages.full().wait(memory.key_stages.phase);
    warpgroup::begin_products();
    begin_dot<columns>(queries.panel(), memory.keys(), score);
  };
  const auto weigh = [&](int step) {
    weigher.weigh(step * step_keys, memory.key_units(), memory.value_units(), score);
    leave(memory.key_stages.empty());
    memory.key_stages.advance();
  };
  const auto take_weights = [&] {
    constexpr float as_they_are[2] = {1, 1};
    take_halves(score, as_they_are, weights);
  };
  const auto begin_answers = [&] {
    memory.value_stages.full().wait(memory.value_stages.phase);
    prepare_spread(weights, sum);
    begin_spread<columns>(weights, memory.values(), sum);
  };
  const auto end_answers = [&] {
    warpgroup::wait_for_groups<0>(sum.value);
    hold(weights);
    leave(memory.value_stages.empty());
    memory.value_stages.advance();
  };
  if (at.steps > 0) {
    begin_scores();
    warpgroup::wait_for_groups<0>(score.value);
    weigh(0);
    take_weights();
    for (int step = 1; step < at.steps; ++step) {
      begin_scores();
      begin_answers();
      warpgroup::wait_for_groups<1>(score.value);
      weigh(step);
      end_answers();
      weigher.shrink_sum(sum);
      take_weights();
    }
    begin_answers();
    end_answers();
  }
  Softmax& softmax = weigher.softmax;
  unrolled<2>([&](int r) { softmax.total[r] = quad_sum(softmax.total[r]); });
  put_answers(in, lane, at.batch, at.head, first, at.count - lane.group * rows, softmax, sum, to, log_sum);
}

template <int columns, class T>
__global__ void __launch_bounds__(Crew::threads, 1)
    long_attention_kernel(const __grid_constant__ Pairs in, const __grid_constant__ TargetOf<T> to, float* log_sum,
                          const __grid_constant__ Order order) {
  extern __shared__ unsigned char shared[];
  ForwardMemory<columns> memory(aligned_memory(shared));
  if (threadIdx.x == 0) memory.init_mbarriers();
  __syncthreads();
  wait_for_previous_kernel();
  const ForwardPosition at(in, order.place(int(blockIdx.x)));
  if (Crew::copies()) {
    Crew::give_registers();
    if (Crew::is_copier()) ForwardCopier<columns>{in, at, memory}.copy_all();
  } else {
    Crew::take_registers();
    attend(in, at, memory, to, log_sum);
  }
}

template <int columns, class T>
void launch_forward(cudaStream_t stream, const Pairs& in, const MakingsOf<T>& makings, const TargetOf<T>& to,
                    float* log_sum) {
  constexpr int bytes = ForwardMemory<columns>::bytes;
  make_rows<PanelRow<columns>>(stream, makings);
  const unsigned tiles = blocks_for(in.queries, Crew::own_rows);
  const int sequences = in.batch * in.heads;
  const std::size_t streamed = std::size_t(2 * in.k.padded) * row_bytes<columns, false>;
  launch("attention", long_attention_kernel<columns, T>, tiles * unsigned(sequences), Crew::threads, bytes, stream, in,
         to, log_sum, Order(sequences, int(tiles), streamed));
}

}  // namespace

template <class T>
void attend_on_warpgroups(cudaStream_t stream, const Pairs& in, const MakingsOf<T>& makings, const TargetOf<T>& to,
                          float* log_sum) {
  if (warpgroup_columns(to.width) == 64) return launch_forward<64>(stream, in, makings, to, log_sum);
  launch_forward<128>(stream, in, makings, to, log_sum);
}

template void attend_on_warpgroups(cudaStream_t, const Pairs&, const MakingsOf<float>&, const TargetOf<float>&, float*);
template void attend_on_warpgroups(cudaStream_t, const Pairs&, const MakingsOf<Bf16>&, const TargetOf<Bf16>&, float*);

}  // namespace afterglow::device::tiles
