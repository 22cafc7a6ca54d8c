// Softmax attention, y_t = sum over j of softmax_j(scale q_t . k_j) v_j, in one pass over the keys (flash attention): a
// block owns 64 queries of a head and streams tiles of 64 keys; scores stay in registers, and the gradient recomputes
// them. Grid: one block for each tile of queries of each head. Products run on tensor cores (tiles.cuh). A separate
// launch makes the tiles for all blocks; in the forward pass of sequences of one tile the blocks make their own. Tiles
// before the window are left out. Long sequences use warp groups where possible (softmax.cuh).

#include "gpu/ops/attention/decoding.cuh"
#include "gpu/ops/attention/softmax.cuh"

namespace afterglow {

using namespace device;
using namespace device::tiles;

namespace {

template <int columns, bool exact>
constexpr int forward_bytes = 3 * tile_bytes<columns, exact>;

/// Turns scores into weights, and rescales the sums so far to the new maximum (online softmax).
template <int width, int columns>
__device__ void take_scores(Share<width>& score, Softmax& softmax, Share<columns>& sum) {
  float shrink[2];
  unrolled<2>([&](int r) {
    float top = -INFINITY;
    unrolled<width / 8>([&](int n) { top = fmaxf(top, fmaxf(score.at(n, r, 0), score.at(n, r, 1))); });
    const float before = softmax.largest[r];
    softmax.largest[r] = fmaxf(before, quad_max(top));
    shrink[r] = exp2f(before - softmax.base(r));
    softmax.total[r] *= shrink[r];
  });
  score.each([&](int, int r, int, float value) {
    const float weight = exp2f(value - softmax.base(r));
    softmax.total[r] += weight;
    return weight;
  });
  sum.each([&](int, int r, int, float value) { return value * shrink[r]; });
}

/// Rescales both groups' sums to their common maximum and adds them; the first group ends with the total.
template <int columns>
__device__ void join_softmax(const LanePosition& lane, Softmax& softmax, Share<columns>& sum, std::byte* memory) {
  __shared__ float largest[2][rows], totals[2][rows];
  unrolled<2>([&](int r) {
    if (lane.part != 0) return;
    largest[lane.group][lane.row_of(r)] = softmax.largest[r];
    totals[lane.group][lane.row_of(r)] = softmax.total[r];
  });
  __syncthreads();
  float shrink[2];
  unrolled<2>([&](int r) {
    const int row = lane.row_of(r), other = 1 - lane.group;
    const float before = softmax.largest[r];
    softmax.largest[r] = fmaxf(before, largest[other][row]);
    shrink[r] = exp2f(before - softmax.base(r));
    softmax.total[r] = softmax.total[r] * shrink[r] + totals[other][row] * exp2f(largest[other][row] - softmax.base(r));
  });
  sum.each([&](int, int r, int, float value) { return value * shrink[r]; });
  join_groups(lane, sum, memory);
}

template <int columns, bool exact, class T>
__global__ void __launch_bounds__(threads_of<columns>, blocks_of<columns>)
    attention_kernel(Pairs in, TargetOf<T> to, float* log_sum) {
  wait_for_previous_kernel();
  constexpr int width = rows / groups_of<columns>;
  extern __shared__ float4 memory[];
  std::byte* const q = reinterpret_cast<std::byte*>(memory);
  std::byte* const k = q + tile_bytes<columns, exact>;
  std::byte* const v = k + tile_bytes<columns, exact>;
  const LanePosition lane;
  const int share = lane.group * width;  // first streamed row of this group
  const int sequences = in.batch * in.heads, place = int(blockIdx.x), sequence = place % sequences;
  const int b = sequence / in.heads, h = sequence % in.heads, key_head = h / (in.heads / in.key_heads);
  // Late queries see the most keys, so their blocks start first.
  const int first = ((in.queries - 1) / rows - place / sequences) * rows;
  const int count = min(rows, in.queries - first), limit = in.seen(first + count - 1);
  const int start = in.first_seen(first) / rows * rows;
  const auto begin_copy = [&](std::byte* tile, const Tiles& from, int key) {
    if (key < limit) copy<tile_bytes<columns, exact>>(tile, from.at<columns, exact>(b, key_head, key));
    commit();
  };
  copy<tile_bytes<columns, exact>>(q, in.q.at<columns, exact>(b, h, first));
  begin_copy(k, in.k, start);
  begin_copy(v, in.v, start);
  Share<columns> sum;
  sum.clear();
  Softmax softmax;
  for (int key = start; key < limit; key += rows) {
    wait<1>();
    __syncthreads();
    Share<width> score;
    dot<exact, columns>(lane, q, k + share * row_bytes<columns, exact>, in.power_scale(), score);
    __syncthreads();
    begin_copy(k, in.k, key + rows);
    if (key + rows > in.seen(first)) hide_unseen(in, lane, first, key + share, score);
    if (key < first + rows - 1 + in.since) hide_early(in, lane, first, key + share, score);
    take_scores(score, softmax, sum);
    wait<1>();
    __syncthreads();
    spread<exact, columns>(lane, score, v + share * row_bytes<columns, exact>, 0, sum);
    __syncthreads();
    begin_copy(v, in.v, key + rows);
  }
  wait<0>();
  __syncthreads();
  unrolled<2>([&](int r) { softmax.total[r] = quad_sum(softmax.total[r]); });
  if constexpr (groups_of<columns> == 2) join_softmax(lane, softmax, sum, q);
  if (lane.group == 0) put_answers(in, lane, b, h, first, count, softmax, sum, to, log_sum);
}

/// Sequences with one tile of queries and one of keys. Wider heads would not fit a block's registers.
constexpr int max_single_tile_width = 64;
bool is_single_tile(const Pairs& in) { return in.queries <= rows && in.keys <= rows; }

template <class T>
struct HeadsOf {
  OperandOf<T> q, k, v;
};

/// Attention of one head of a single-tile sequence. Grid: (sequences, heads).
template <int columns, bool exact, class T>
__global__ void __launch_bounds__(threads_of<columns>, blocks_of<columns>)
    single_tile_attention_kernel(Pairs in, HeadsOf<T> from, TargetOf<T> to, float* log_sum) {
  wait_for_previous_kernel();
  extern __shared__ float4 memory[];
  std::byte* const q = reinterpret_cast<std::byte*>(memory);
  std::byte* const k = q + tile_bytes<columns, exact>;
  std::byte* const v = k + tile_bytes<columns, exact>;
  const LanePosition lane;
  const int b = int(blockIdx.x), h = int(blockIdx.y);
  const int key_head = h / (in.heads / in.key_heads);
  make_tiles<columns, exact, threads_of<columns>>(
      b, {OwnTile<T>{{from.q, in.queries, in.heads}, h, q}, OwnTile<T>{{from.k, in.keys, in.key_heads}, key_head, k},
          OwnTile<T>{{from.v, in.keys, in.key_heads}, key_head, v}});
  Share<rows> score;
  dot<exact, columns>(lane, q, k, in.power_scale(), score);
  if (rows > in.seen(0)) hide_unseen(in, lane, 0, 0, score);
  if (in.has_window()) hide_early(in, lane, 0, 0, score);
  Share<columns> sum;
  sum.clear();
  Softmax softmax;
  take_scores(score, softmax, sum);
  spread<exact, columns>(lane, score, v, 0, sum);
  unrolled<2>([&](int r) { softmax.total[r] = quad_sum(softmax.total[r]); });
  put_answers(in, lane, b, h, 0, in.queries, softmax, sum, to, log_sum);
}

template <class T>
OperandOf<T> heads_operand(const Tensor& heads, int width) {
  return operand_of<T>(heads, joined_heads(heads).row_stride, width);
}
template <class T>
TargetOf<T> target_of(const Grad& grad, int width) {
  return {grad.wanted() ? sink_of<T>({joined_heads(grad.tensor), grad.accumulate}) : SinkOf<T>{}, width};
}

/// Sizes; the result y is [B,Tq,H,D].
Pairs attention_pairs(const Tensor& y, const Tensor& k, double scale, std::int64_t window) {
  Pairs in{};
  in.batch = int(y.shape[0]);
  in.queries = int(y.shape[1]);
  in.keys = int(k.shape[1]);
  in.heads = int(y.shape[2]);
  in.key_heads = int(joined_heads(k).columns() / y.shape[3]);
  in.offset = window > 0 ? in.keys - in.queries + 1 : in.keys;
  if (window > 0) in.since = int(std::max<std::int64_t>(in.offset - window, Pairs::sees_all));
  in.scale = float(scale);
  return in;
}

/// The sizes for few queries, whose keys and values are read without making tiles.
Decoding decoding_of(const Pairs& in, const Tensor& q, const Tensor& k, const Tensor& v, const Target& to,
                     float* log_sum) {
  const auto heads = [&](const Tensor& of) { return heads_operand<float>(of, to.width); };
  return {heads(q), heads(k), heads(v),     to.sink.rows, log_sum,  in.batch, in.queries,
          in.keys,  in.heads, in.key_heads, in.offset,    in.since, in.scale};
}

/// Rows of tiles for queries (`of_queries` operands) and for keys (two).
std::size_t rows_for(const Pairs& in, int of_queries) {
  return of_queries * padded_rows(in.batch, in.heads, in.queries) + 2 * padded_rows(in.batch, in.key_heads, in.keys);
}

template <int columns, bool exact, class T>
void launch_backward(cudaStream_t stream, const Pairs& in, const GradientTargets<T>& to) {
  constexpr const char* what = "attention_backward";
  if constexpr (columns <= 128) {
    launch_gradients<columns, exact, Sums::both, T>(stream, in, to, what);
  } else {  // a single pass would need too many registers
    launch_gradients<columns, exact, Sums::slopes, T>(stream, in, {to.q, to.k, {}}, what);
    launch_gradients<columns, exact, Sums::weights, T>(stream, in, {{}, {}, to.v}, what);
  }
}

/// Lists the operands in `memory`, and points `in` to their tiles. The backward pass also reads y and dy.
template <class T>
MakingsOf<T> makings_of(Pairs& in, const HeadsOf<T>& from, void* memory, int bytes_a_row, const OperandOf<T>& y = {},
                        const OperandOf<T>& dy = {}, const float* log_sum = nullptr) {
  MakingsOf<T> makings(in.batch, memory);
  MakingOf<T>& queries = makings.add(from.q, in.heads, in.queries, bytes_a_row);
  queries.log_sum = log_sum;
  in.q = queries.to;
  if (dy.data != nullptr) {
    MakingOf<T>& upstream = makings.add(dy, in.heads, in.queries, bytes_a_row);
    upstream.output = y;
    in.dy = upstream.to;
  }
  in.k = makings.add(from.k, in.key_heads, in.keys, bytes_a_row).to;
  in.v = makings.add(from.v, in.key_heads, in.keys, bytes_a_row).to;
  return makings;
}

/// T is the stored type of queries.
template <class T, class Launch>
void with_head_width(int width, bool exact, const Launch& launch) {
  if (!with_columns<T, 32, 64, 128, 256>(width, exact, launch))
    throw Error(ExitCode::failure, "the GPU's attention takes heads up to 256 wide, and these have " +
                                       std::to_string(width) + "; use more heads or --device cpu");
}

}  // namespace

void CudaBackend::attention(const Tensor& q, const Tensor& k, const Tensor& v, double scale, std::int64_t window,
                            const Tensor& y, const Tensor& log_sum) {
  if (q.elements() == 0) return;
  Pairs in = attention_pairs(y, k, scale, window);
  const int width = int(y.shape[3]);
  if (in.queries <= few_queries && width <= max_few_width) {
    const Decoding few = decoding_of(in, q, k, v, target_of<float>({y, false}, width), log_sum.as<float>());
    decode(stream(), few, scratch(decoding_elements(few)));
    return launched("attention of a few queries");
  }
  with_stored_type(q, [&]<class T>(T) {
    const TargetOf<T> to = target_of<T>({y, false}, width);
    const HeadsOf<T> from{heads_operand<T>(q, width), heads_operand<T>(k, width), heads_operand<T>(v, width)};
    if constexpr (hopper_attention) {
      if (uses_warpgroups(in, width, precision_)) {
        const int row = warpgroup_row_bytes(width);
        const auto makings = makings_of(in, from, operand_memory(rows_for(in, 1) * row), row);
        return attend_on_warpgroups(stream(), in, makings, to, log_sum.as<float>());
      }
    }
    with_head_width<T>(width, precision_ == Precision::fp32, [&](auto columns, auto exact) {
      constexpr int bytes = forward_bytes<columns(), exact()>, row = row_bytes<columns(), exact()>;
      if constexpr (columns() <= max_single_tile_width) {
        if (is_single_tile(in))
          return launch("attention", single_tile_attention_kernel<columns(), exact(), T>,
                        dim3(unsigned(in.batch), unsigned(in.heads)), threads_of<columns()>, bytes, stream(), in, from,
                        to, log_sum.as<float>());
      }
      make<columns(), exact()>(stream(), makings_of(in, from, operand_memory(rows_for(in, 1) * row), row));
      launch("attention", attention_kernel<columns(), exact(), T>,
             blocks_for(in.queries, rows) * unsigned(in.batch * in.heads), threads_of<columns()>, bytes, stream(), in,
             to, log_sum.as<float>());
    });
  });
  launched("attention");
}

void CudaBackend::attention_backward(const Tensor& q, const Tensor& k, const Tensor& v, double scale,
                                     std::int64_t window, const Tensor& y, const Tensor& log_sum, const Tensor& dy,
                                     const Grad& dq, const Grad& dk, const Grad& dv) {
  if (q.elements() == 0) return;
  Pairs in = attention_pairs(y, k, scale, window);
  const int width = int(y.shape[3]);
  with_stored_type(q, [&]<class T>(T) {
    const GradientTargets<T> out{target_of<T>(dq, width), target_of<T>(dk, width), target_of<T>(dv, width)};
    const auto makings = [&](int row) {
      const HeadsOf<T> from{heads_operand<T>(q, width), heads_operand<T>(k, width), heads_operand<T>(v, width)};
      return makings_of(in, from, operand_memory(rows_for(in, 2) * row), row, heads_operand<T>(y, width),
                        heads_operand<T>(dy, width), log_sum.as<float>());
    };
    if constexpr (hopper_attention) {
      if (uses_warpgroups(in, width, precision_))
        return gradients_on_warpgroups(stream(), in, makings(warpgroup_row_bytes(width)), width, out);
    }
    with_head_width<T>(width, precision_ == Precision::fp32, [&](auto columns, auto exact) {
      constexpr int row = row_bytes<columns(), exact()>;
      make<columns(), exact()>(stream(), makings(row));
      launch_backward<columns(), exact()>(stream(), in, out);
    });
  });
  launched("attention_backward");
}

// Few queries read heads as they are; others make operands of them, of any storage.
Plan CudaBackend::plan(const AttentionCall& call) const {
  const Pairs in = attention_pairs(call.q, call.k, 1, 0);
  const int width = int(call.q.shape[3]);
  if (in.queries <= few_queries && width <= max_few_width) return {};
  std::size_t row = warpgroup_row_bytes(width);
  if (!uses_warpgroups(in, width, precision_)) {
    with_head_width<float>(width, precision_ == Precision::fp32,
                           [&](auto columns, auto exact) { row = row_bytes<columns(), exact()>; });
  }
  const auto bytes = std::int64_t(rows_for(in, 2) * row);
  return {.stored = bytes > 0 ? Storage::narrow : Storage::wide, .operands = bytes};
}

}  // namespace afterglow
