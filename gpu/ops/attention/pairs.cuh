// Gradients through softmax weights of pairs of tokens, for attention and Sessa's feedback. A block owns 64 queries or
// 64 keys and streams tiles of the other kind; it recomputes scores from the saved logarithms in registers:
//   weight_tj = exp(scale q_t . k_j - log_sum_t), slope_tj = dy_t . v_j - dy_t . y_t,
//   dv_j = sum_t weight_tj dy_t, dq_t = scale sum_j weight_tj slope_tj k_j, dk_j = scale sum_t weight_tj slope_tj q_t.
#pragma once
#include <algorithm>

#include "gpu/runtime/kernel.cuh"
#include "gpu/tile/operands.cuh"

namespace afterglow::device::tiles {

/// weight[t,j] = exp(scale q_t . k_j - log_sum_t) for t + since <= j < t + offset; y_t = sum over j of weight v_j. The
/// tokens of a sequence are contiguous. `dy` is the upstream gradient; for the feedback it is u.
struct Pairs {
  Tiles q, k, v, dy;
  int batch, queries, keys, heads, key_heads, offset, since = sees_all;
  float scale;

  static constexpr int sees_all = -(1 << 30);  ///< `since` without a window
  __host__ __device__ bool has_window() const { return queries - 1 + since > 0; }
  __device__ int seen(int query) const { return min(keys, query + offset); }
  __device__ int first_seen(int query) const { return max(0, query + since); }
  /// Scores are in base 2, because the hardware's exponential is 2^x.
  __device__ float power_scale() const { return scale * 1.44269504f; }
};

/// Destination of a tile's sums: rows of one head, as in Operand.
template <class T>
struct TargetOf {
  SinkOf<T> sink;
  int width = 0;
  __host__ __device__ bool wanted() const { return sink.wanted(); }
  template <int columns>
  __device__ void put(const LanePosition& lane, Share<columns>& sum, std::size_t first, int head, int count) const {
    sum.each([&](int n, int r, int e, float value) {
      const int row = lane.row_of(r), column = lane.column_of(n, e);
      if (row < count && column < width) sink.put(first + row, unsigned(head * width + column), value);
      return value;
    });
  }
};

using Target = TargetOf<float>;

/// Groups of warps in a block: wide rows leave room for one block, whose groups then share the streamed rows.
template <int columns>
constexpr int groups_of = columns > 64 ? 2 : 1;
template <int columns>
constexpr int threads_of = groups_of<columns>* group_threads;
template <int columns>
constexpr int blocks_of = columns > 64 ? 1 : 3;

/// The sums of a pass: gradients through the scores (dq or dk), through the weights (dv), or both.
enum class Sums { slopes, weights, both };

template <int columns, bool exact, Sums sums>
constexpr int streamed_rows = (exact && columns > 128) || (columns <= 64 && sums == Sums::both) ? 32 : 64;

template <int columns, bool exact, Sums sums>
constexpr int pass_bytes = (sums == Sums::weights ? 1 : 2) * tile_bytes<columns, exact> +
                           2 * streamed_rows<columns, exact, sums>* row_bytes<columns, exact>;

/// The work of a pass: `own` rows of one head, the `place`-th part of all, and the range of the other kind's tokens
/// that interact with them, in tiles of `streamed` rows.
template <bool of_keys, int streamed, int own = rows>
struct PassPosition {
  int batch, head, first, count;  ///< own rows
  std::size_t own_row;            ///< of a tensor [B,T]
  int group;                      ///< query heads of a key head
  int begin, tiles_a_head, steps;

  __device__ __forceinline__ PassPosition(const Pairs& in, int place) {
    const int own_heads = of_keys ? in.key_heads : in.heads, own_length = of_keys ? in.keys : in.queries;
    const int sequences = in.batch * own_heads, sequence = place % sequences, tile = place / sequences;
    batch = sequence / own_heads;
    head = sequence % own_heads;
    group = in.heads / in.key_heads;
    // Late queries see the most keys, and early keys are seen by the most queries; their blocks start first.
    first = (of_keys ? tile : (own_length - 1) / own - tile) * own;
    count = min(own, own_length - first);
    own_row = std::size_t(batch) * own_length + first;
    begin = (of_keys ? max(0, first - in.offset + 1) : in.first_seen(first)) / streamed * streamed;
    const int end = of_keys ? min(in.queries, first + count - in.since) : in.seen(first + count - 1);
    tiles_a_head = max(0, (end - begin + streamed - 1) / streamed);
    steps = tiles_a_head * (of_keys ? group : 1);
  }
  /// Head and first token of the other kind in a step.
  __device__ int head_at(int step) const { return of_keys ? head * group + step / tiles_a_head : head / group; }
  __device__ int token_at(int step) const { return begin + step % tiles_a_head * streamed; }
};

/// One pass: dq of 64 queries (`of_keys` false), or dk and dv of 64 keys. Tiles in shared memory: `own` are queries or
/// keys, `own_partner` dy or v of the same tokens; `streamed` and `streamed_partner` are those of the other kind.
template <int columns, bool exact, bool of_keys, Sums sums>
struct GradientPass {
  static constexpr int S = streamed_rows<columns, exact, sums>, width = S / groups_of<columns>;
  static constexpr bool slopes = sums != Sums::weights, values = sums != Sums::slopes;
  using Pair = Share<width>;  ///< numbers of pairs: own rows by the streamed rows of this lane's group of warps

  const Pairs& in;
  const PassPosition<of_keys, S> at;
  const LanePosition lane;
  std::byte *own, *own_partner, *streamed, *streamed_partner;
  const std::byte *share, *partner_share;  ///< this group's part of the streamed tiles

  __device__ __forceinline__ GradientPass(const Pairs& pairs, int place, std::byte* memory)
      : in(pairs),
        at(pairs, place),
        own(memory),
        own_partner(own + tile_bytes<columns, exact>),
        streamed(own + (slopes ? 2 : 1) * tile_bytes<columns, exact>),
        streamed_partner(streamed + S * row_bytes<columns, exact>),
        share(streamed + lane.group * width * row_bytes<columns, exact>),
        partner_share(streamed_partner + lane.group * width * row_bytes<columns, exact>) {}

  __device__ __forceinline__ void begin_own() const {
    const Tiles &from = of_keys ? in.k : in.q, &partner_from = of_keys ? in.v : in.dy;
    copy<tile_bytes<columns, exact>>(own, from.at<columns, exact>(at.batch, at.head, at.first));
    if (slopes)
      copy<tile_bytes<columns, exact>>(own_partner, partner_from.at<columns, exact>(at.batch, at.head, at.first));
  }
  __device__ __forceinline__ void begin_streamed(int step) const { begin_copy(streamed, of_keys ? in.q : in.k, step); }
  __device__ __forceinline__ void begin_partner(int step) const {
    begin_copy(streamed_partner, of_keys ? in.dy : in.v, step);
  }
  __device__ __forceinline__ void begin_copy(std::byte* to, const Tiles& from, int step) const {
    if (step < at.steps)
      copy<S * row_bytes<columns, exact>>(to, from.at<columns, exact>(at.batch, at.head_at(step), at.token_at(step)));
    commit();
  }

  /// slope_tj = dy_t . v_j - dy_t . y_t.
  __device__ __forceinline__ void find_slopes(Pair& slope) const {
    dot<exact, columns>(lane, own_partner, partner_share, 1.0f, slope);
    slope.each([&](int n, int r, int e, float value) {
      return value - (of_keys ? notes_of<columns, exact>(partner_share, lane.column_of(n, e))
                              : notes_of<columns, exact>(own_partner, lane.row_of(r)))
                         .mean;
    });
  }

  /// Turns scores into weights, and slopes into the scores' gradients weight_tj gain_t slope_tj scale; both are 0 for
  /// unseen keys. `token` is the first of the group's streamed rows.
  __device__ __forceinline__ void weigh(int token, Pair& weight, Pair& slope) const {
    const bool straddles = of_keys ? token + in.offset <= at.first + rows - 1 : token + width > in.seen(at.first);
    weight.each([&](int n, int r, int e, float value) {
      const int row = lane.row_of(r), column = lane.column_of(n, e);
      const Notes& query = of_keys ? notes_of<columns, exact>(share, column) : notes_of<columns, exact>(own, row);
      const bool counts = !straddles || (of_keys ? at.first + row < token + column + in.offset
                                                 : token + column < in.seen(at.first + row));
      const float made = counts ? exp2f(value - query.log_sum) : 0.0f;
      if constexpr (slopes) slope.at(n, r, e) *= made * query.gain * in.scale;
      return made;
    });
    if (of_keys ? token + width - 1 + in.since <= at.first : token >= at.first + rows - 1 + in.since) return;
    weight.each([&](int n, int r, int e, float value) {  // a window: queries see no earlier keys
      const int row = at.first + lane.row_of(r), column = token + lane.column_of(n, e);
      if ((of_keys ? row - column : column - row) >= in.since) return value;
      if constexpr (slopes) slope.at(n, r, e) = 0.0f;
      return 0.0f;
    });
  }

  /// Adds one streamed tile; copies of the next begin as soon as no warp reads the tile that they overwrite.
  __device__ __forceinline__ void add_step(int step, Share<columns>& sum, Share<columns>& value_sum) const {
    wait<1>();
    __syncthreads();
    Pair slope, weight;
    if constexpr (slopes) find_slopes(slope);
    wait<0>();
    __syncthreads();
    if (!values) begin_partner(step + 1);
    dot<exact, columns>(lane, own, share, in.power_scale(), weight);
    weigh(at.token_at(step) + lane.group * width, weight, slope);
    if constexpr (values) {
      spread<exact, columns>(lane, weight, partner_share, 0, value_sum);
      __syncthreads();
      begin_partner(step + 1);
    }
    if constexpr (slopes) spread<exact, columns>(lane, slope, share, 0, sum);
    __syncthreads();
    begin_streamed(step + 1);
  }

  template <class T>
  __device__ __forceinline__ void put(Share<columns>& sum, const TargetOf<T>& to) const {
    if constexpr (groups_of<columns> == 2) join_groups(lane, sum, own);
    if (lane.group == 0 && to.wanted()) to.put(lane, sum, at.own_row, at.head, at.count);
    __syncthreads();
  }

  /// Gradients through the scores go to `to`, those through the weights to `to_values`.
  template <class T>
  __device__ __forceinline__ void run(const TargetOf<T>& to, const TargetOf<T>& to_values) const {
    begin_own();
    begin_partner(0);
    begin_streamed(0);
    Share<columns> sum, value_sum;
    sum.clear();
    value_sum.clear();
    for (int step = 0; step < at.steps; ++step) add_step(step, sum, value_sum);
    wait<0>();
    __syncthreads();
    if constexpr (slopes) put(sum, to);
    if constexpr (values) put(value_sum, to_values);
  }
};

template <class T>
struct GradientTargets {
  TargetOf<T> q, k, v;
};

/// The first `key_tiles` blocks own keys, the others queries.
template <int columns, bool exact, Sums of_keys, class T>
static __global__ void __launch_bounds__(threads_of<columns>, blocks_of<columns>)
    gradient_kernel(Pairs in, GradientTargets<T> to, int key_tiles) {
  extern __shared__ float4 memory[];
  wait_for_previous_kernel();
  auto* const tiles = reinterpret_cast<std::byte*>(memory);
  const int place = int(blockIdx.x);
  if (place < key_tiles) {
    GradientPass<columns, exact, true, of_keys>(in, place, tiles).run(to.k, to.v);
  } else {
    GradientPass<columns, exact, false, Sums::slopes>(in, place - key_tiles, tiles).run(to.q, {});
  }
}

/// Whether the memory of two gradients overlaps; columns of one tensor have equal strides.
template <class T>
bool overlap(const SinkOf<T>& a, std::size_t rows_of_a, const SinkOf<T>& b, std::size_t rows_of_b) {
  if (!a.wanted() || !b.wanted()) return false;
  const Rows<T>&lower = a.rows.data < b.rows.data ? a.rows : b.rows, &upper = &lower == &a.rows ? b.rows : a.rows;
  const std::size_t apart = std::size_t(upper.data - lower.data);
  const std::size_t lower_rows = &lower == &a.rows ? rows_of_a : rows_of_b;
  if (apart >= lower_rows * lower.stride) return false;
  const std::size_t column = apart % lower.stride;
  return lower.stride != upper.stride || column < lower.columns || column + upper.columns > lower.stride;
}

/// Calls launch(targets) with all wanted gradients, or with dq first when it shares memory with dk or dv.
template <class T, class Launch>
void with_targets_apart(const Pairs& in, const GradientTargets<T>& to, const Launch& launch) {
  const std::size_t query_rows = std::size_t(in.batch) * in.queries;
  const std::size_t key_rows = std::size_t(in.batch) * in.keys;
  if (overlap(to.q.sink, query_rows, to.k.sink, key_rows) || overlap(to.q.sink, query_rows, to.v.sink, key_rows)) {
    launch(GradientTargets<T>{to.q, {}, {}});
    launch(GradientTargets<T>{{}, to.k, to.v});
  } else {
    launch(to);
  }
}

/// The number of blocks that own keys and of those that own queries, `own` rows each.
struct PassBlocks {
  unsigned of_keys, of_queries;
  template <class T>
  PassBlocks(const Pairs& in, const GradientTargets<T>& to, int own) {
    const bool keys = to.k.wanted() || to.v.wanted();
    of_keys = keys ? blocks_for(in.keys, own) * unsigned(in.batch * in.key_heads) : 0;
    of_queries = to.q.wanted() ? blocks_for(in.queries, own) * unsigned(in.batch * in.heads) : 0;
  }
  unsigned all() const { return of_keys + of_queries; }
};

/// Computes the wanted gradients, dk and dv as `of_keys` says: in one launch, or in two when they share memory.
template <int columns, bool exact, Sums of_keys, class T = float>
void launch_gradients(cudaStream_t stream, const Pairs& in, const GradientTargets<T>& to, const char* what) {
  constexpr int bytes = std::max(pass_bytes<columns, exact, of_keys>, pass_bytes<columns, exact, Sums::slopes>);
  with_targets_apart(in, to, [&](const GradientTargets<T>& apart) {
    const PassBlocks blocks(in, apart, rows);
    if (blocks.all() > 0)
      launch(what, gradient_kernel<columns, exact, of_keys, T>, blocks.all(), threads_of<columns>, bytes, stream, in,
             apart, int(blocks.of_keys));
  });
}

}  // namespace afterglow::device::tiles
