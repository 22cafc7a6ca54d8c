// Gradients through softmax weights of pairs of tokens, shared by causal attention and Sessa's feedback. A block owns
// 64 queries or 64 keys and streams the tokens of the other kind past them; scores are computed again from the saved
// logarithms and never leave the warp.
#pragma once
#include <algorithm>

#include "gpu/cuda_operands.cuh"

namespace afterglow::device::tiles {

/// weight[t,j] = exp(scale q_t . k_j - log_sum_t) for j < t + offset; y_t = sum over j of weight v_j. Tokens of one
/// sequence follow one another. `dy`: the upstream gradient; for the feedback u.
struct Pairs {
  Tiles q, k, v, dy;
  int batch, queries, keys, heads, key_heads, offset;
  float scale;

  __device__ int seen(int query) const { return min(keys, query + offset); }
  /// Scores are powers of two: the exponential in base 2 is the one that the hardware has.
  __device__ float power_scale() const { return scale * 1.44269504f; }
};

/// Where a tile's sums go: rows of one head, as Operand.
struct Target {
  Sink sink;
  int width = 0;
  __host__ __device__ bool wanted() const { return sink.wanted(); }
  template <int columns>
  __device__ void put(const Lane& lane, Share<columns>& sum, std::size_t first, int head, int count) const {
    sum.each([&](int n, int r, int e, float value) {
      const int row = lane.row_of(r), column = lane.column_of(n, e);
      if (row < count && column < width) sink.put(first + row, static_cast<unsigned>(head * width + column), value);
      return value;
    });
  }
};

/// Groups of warps in a block: wide rows leave room for one block only, whose warps then share the streamed rows.
template <int columns>
constexpr int groups_of = columns > 64 ? 2 : 1;
template <int columns>
constexpr int threads_of = groups_of<columns>* group_threads;
template <int columns>
constexpr int blocks_of = columns > 64 ? 1 : 3;

/// What one pass adds up: gradients behind the scores (dq or dk), behind the weights (dv), or both.
enum class Sums { slopes, weights, both };

template <int columns, bool exact, Sums sums>
constexpr int streamed_rows = (exact && columns > 128) || (columns <= 64 && sums == Sums::both) ? 32 : 64;

template <int columns, bool exact, Sums sums>
constexpr int pass_bytes = (sums == Sums::weights ? 1 : 2) * tile_bytes<columns, exact> +
                           2 * streamed_rows<columns, exact, sums>* row_bytes<columns, exact>;

/// One pass: dq of 64 queries (`of_keys` false), or dk and dv of 64 keys. The tiles are: own = queries or keys, its
/// partner = dy or v of the same tokens; streamed and its partner are the other kind's. `place` counts tiles.
template <int columns, bool exact, bool of_keys, Sums sums>
__device__ void gradient_pass(const Pairs& in, const Target& to, const Target& to_values, int place) {
  constexpr int S = streamed_rows<columns, exact, sums>, width = S / groups_of<columns>;
  constexpr bool slopes = sums != Sums::weights, values = sums != Sums::slopes;
  extern __shared__ float4 memory[];
  std::byte* const own = reinterpret_cast<std::byte*>(memory);
  std::byte* const own_partner = own + tile_bytes<columns, exact>;
  std::byte* const streamed = own + (slopes ? 2 : 1) * tile_bytes<columns, exact>;
  std::byte* const streamed_partner = streamed + S * row_bytes<columns, exact>;
  const Lane lane;
  const std::byte* const share = streamed + lane.group * width * row_bytes<columns, exact>;
  const std::byte* const partner_share = streamed_partner + lane.group * width * row_bytes<columns, exact>;

  const int own_heads = of_keys ? in.key_heads : in.heads, group = in.heads / in.key_heads;
  const int sequences = in.batch * own_heads, sequence = place % sequences, tile = place / sequences;
  const int b = sequence / own_heads, h = sequence % own_heads, own_length = of_keys ? in.keys : in.queries;
  // Late queries see the most keys and early keys are seen most often: they start first.
  const int first = (of_keys ? tile : (own_length - 1) / rows - tile) * rows;
  const int count = min(rows, own_length - first);
  // Tokens of the other kind that have anything to do with these: queries from `begin` on, or keys up to `end`.
  const int begin = of_keys ? max(0, first - in.offset + 1) / S * S : 0;
  const int end = of_keys ? in.queries : in.seen(first + count - 1);
  const int tiles_a_head = max(0, (end - begin + S - 1) / S), steps = tiles_a_head * (of_keys ? group : 1);

  const Tiles &own_from = of_keys ? in.k : in.q, &own_partner_from = of_keys ? in.v : in.dy;
  const Tiles &from = of_keys ? in.q : in.k, &partner_from = of_keys ? in.dy : in.v;
  const auto head_at = [&](int step) { return of_keys ? h * group + step / tiles_a_head : h / group; };
  const auto token_at = [&](int step) { return begin + step % tiles_a_head * S; };
  const auto begin_copy = [&](std::byte* tile_to, const Tiles& tiles, int step) {
    if (step < steps)
      copy<S * row_bytes<columns, exact>>(tile_to, tiles.at<columns, exact>(b, head_at(step), token_at(step)));
    commit();
  };

  copy<tile_bytes<columns, exact>>(own, own_from.at<columns, exact>(b, h, first));
  if (slopes) copy<tile_bytes<columns, exact>>(own_partner, own_partner_from.at<columns, exact>(b, h, first));
  begin_copy(streamed_partner, partner_from, 0);
  begin_copy(streamed, from, 0);
  Share<columns> sum, value_sum;
  sum.clear();
  value_sum.clear();
  for (int step = 0; step < steps; ++step) {
    wait<1>();
    __syncthreads();
    Share<width> slope, weight;
    if constexpr (slopes) {
      dot<exact, columns>(lane, own_partner, partner_share, 1.0f, slope);
      slope.each([&](int n, int r, int e, float value) {
        return value - (of_keys ? notes_of<columns, exact>(partner_share, lane.column_of(n, e))
                                : notes_of<columns, exact>(own_partner, lane.row_of(r)))
                           .mean;
      });
    }
    wait<0>();
    __syncthreads();
    if (!values) begin_copy(streamed_partner, partner_from, step + 1);
    dot<exact, columns>(lane, own, share, in.power_scale(), weight);
    const int token = token_at(step) + lane.group * width;
    const bool straddles = of_keys ? token + in.offset <= first + rows - 1 : token + width > in.seen(first);
    weight.each([&](int n, int r, int e, float value) {
      const int row = lane.row_of(r), column = lane.column_of(n, e);
      const Notes& query = of_keys ? notes_of<columns, exact>(share, column) : notes_of<columns, exact>(own, row);
      const bool counts =
          !straddles || (of_keys ? first + row < token + column + in.offset : token + column < in.seen(first + row));
      const float made = counts ? exp2f(value - query.log_sum) : 0.0f;
      if constexpr (slopes) slope.at(n, r, e) *= made * query.gain * in.scale;
      return made;
    });
    if constexpr (values) {
      spread<exact, columns>(lane, weight, partner_share, 0, value_sum);
      __syncthreads();
      begin_copy(streamed_partner, partner_from, step + 1);
    }
    if constexpr (slopes) spread<exact, columns>(lane, slope, share, 0, sum);
    __syncthreads();
    begin_copy(streamed, from, step + 1);
  }
  wait<0>();
  __syncthreads();
  const std::size_t own_row = static_cast<std::size_t>(b) * own_length + first;
  const auto finish = [&](Share<columns>& whole, const Target& target) {
    if constexpr (groups_of<columns> == 2) join_groups(lane, whole, own);
    if (lane.group == 0 && target.wanted()) target.put(lane, whole, own_row, h, count);
    __syncthreads();
  };
  if constexpr (slopes) finish(sum, to);
  if constexpr (values) finish(value_sum, to_values);
}

struct GradientTargets {
  Target q, k, v;
};

/// Keys by the first `key_tiles` blocks, queries by the others.
template <int columns, bool exact, Sums of_keys>
static __global__ void __launch_bounds__(threads_of<columns>, blocks_of<columns>)
    gradient_kernel(Pairs in, GradientTargets to, int key_tiles) {
  await_previous();
  const int place = static_cast<int>(blockIdx.x);
  if (place < key_tiles) {
    gradient_pass<columns, exact, true, of_keys>(in, to.k, to.v, place);
  } else {
    gradient_pass<columns, exact, false, Sums::slopes>(in, to.q, {}, place - key_tiles);
  }
}

/// Whether rows of two gradients have places in common; columns of one tensor have one stride.
inline bool overlap(const Sink& a, std::size_t rows_of_a, const Sink& b, std::size_t rows_of_b) {
  if (!a.wanted() || !b.wanted()) return false;
  const Rows<float>&lower = a.rows.data < b.rows.data ? a.rows : b.rows, &upper = &lower == &a.rows ? b.rows : a.rows;
  const std::size_t apart = static_cast<std::size_t>(upper.data - lower.data);
  const std::size_t lower_rows = &lower == &a.rows ? rows_of_a : rows_of_b;
  if (apart >= lower_rows * lower.stride) return false;
  const std::size_t column = apart % lower.stride;
  return lower.stride != upper.stride || column < lower.columns || column + upper.columns > lower.stride;
}

/// What is wanted of dq, and of dk or dv as `of_keys` says, in one launch, or one after the other where they are added
/// to the same memory.
template <int columns, bool exact, Sums of_keys>
void launch_gradients(cudaStream_t stream, const Pairs& in, const GradientTargets& to, const char* what) {
  constexpr int bytes = std::max(pass_bytes<columns, exact, of_keys>, pass_bytes<columns, exact, Sums::slopes>);
  const auto kernel = gradient_kernel<columns, exact, of_keys>;
  allow_shared_memory(reinterpret_cast<const void*>(kernel), bytes, what);
  const std::size_t query_rows = static_cast<std::size_t>(in.batch) * in.queries;
  const std::size_t key_rows = static_cast<std::size_t>(in.batch) * in.keys;
  if (overlap(to.q.sink, query_rows, to.k.sink, key_rows) || overlap(to.q.sink, query_rows, to.v.sink, key_rows)) {
    launch_gradients<columns, exact, of_keys>(stream, in, {to.q, {}, {}}, what);
    launch_gradients<columns, exact, of_keys>(stream, in, {{}, to.k, to.v}, what);
    return;
  }
  const bool keys = to.k.wanted() || to.v.wanted();
  const unsigned key_tiles = keys ? blocks_for(in.keys, rows) * static_cast<unsigned>(in.batch * in.key_heads) : 0;
  const unsigned query_tiles =
      to.q.wanted() ? blocks_for(in.queries, rows) * static_cast<unsigned>(in.batch * in.heads) : 0;
  if (key_tiles + query_tiles > 0)
    launch(kernel, key_tiles + query_tiles, threads_of<columns>, bytes, stream, in, to, static_cast<int>(key_tiles));
}

}  // namespace afterglow::device::tiles
