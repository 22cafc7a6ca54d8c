// Gradients through softmax weights of pairs of tokens, shared by causal attention and Sessa's feedback. A block owns
// 64 queries or 64 keys and streams the tokens of the other kind past them; scores are computed again from the saved
// logarithms and never leave the block.
#pragma once
#include "gpu/cuda_tiles.cuh"

namespace afterglow::device::tiles {

/// weight[t,j] = exp(scale q_t . k_j - log_sum_t) for j < t + offset; y_t = sum over j of weight v_j. Tokens of one
/// sequence follow one another; logarithms, means and gains are [B,H,Tq].
struct Pairs {
  Operand q, k, v;
  Operand dy;            ///< upstream gradient; for the feedback u
  const float* log_sum;  ///< [B,H,Tq]
  const float* mean;     ///< [B,H,Tq]: dy . y
  const float* gain;     ///< [B,Tq] factor of the upstream gradient, or null
  int batch, queries, keys, heads, key_heads, offset;
  float scale;

  __device__ int seen(int query) const { return min(keys, query + offset); }
  __device__ std::size_t statistic(int b, int h, int query) const {
    return (static_cast<std::size_t>(b) * heads + h) * queries + query;
  }
};

/// log_sum, mean and gain of a tile of queries; zeros beyond the end.
template <int count>
struct Statistics {
  float log_sum[count], mean[count], gain[count];
  __device__ void load(const Pairs& in, int b, int h, int first) {
    const int i = static_cast<int>(threadIdx.x);
    if (i >= count) return;
    const bool valid = first + i < in.queries;
    log_sum[i] = valid ? in.log_sum[in.statistic(b, h, first + i)] : 0.0f;
    mean[i] = valid ? in.mean[in.statistic(b, h, first + i)] : 0.0f;
    gain[i] = valid && in.gain != nullptr ? in.gain[static_cast<std::size_t>(b) * in.queries + first + i] : 1.0f;
  }
};

/// Where a tile's sums go: rows of one head, as Operand.
struct Target {
  Sink sink;
  int width = 0;
  __host__ __device__ bool wanted() const { return sink.wanted(); }
  template <int parts>
  __device__ void put(const Lane& lane, Accumulator<parts>& sum, std::size_t first, int head, int count) const {
    sum.each(lane, [&](int r, int column, float value) {
      const int row = lane.row_of(r);
      if (row < count && column < width) sink.put(first + row, static_cast<unsigned>(head * width + column), value);
      return value;
    });
  }
};

template <int columns>
constexpr int streamed_rows = columns > 128 ? 32 : 64;

template <int columns, bool values>
constexpr int gradient_bytes = (2 * Tile<columns>::size + 2 * streamed_rows<columns> * Tile<columns>::stride +
                                (values ? 2 : 1) * Weights<streamed_rows<columns>>::size) *
                               4;

/// One pass: dq of 64 queries (`of_keys` false), or dk, and dv when `values`, of 64 keys. The tiles are: own = queries
/// or keys, upstream = dy or v of the same tokens; streamed and its partner are the other kind's.
template <int columns, bool exact, bool of_keys, bool values>
__global__ void __launch_bounds__(block, columns <= 64 ? 2 : 1)
    gradient_kernel(Pairs in, Target to, Target to_values, unsigned own_tiles) {
  constexpr int S = streamed_rows<columns>;
  extern __shared__ float4 memory[];
  __shared__ Statistics<of_keys ? S : rows> of_queries;
  float* next = reinterpret_cast<float*>(memory);
  const Tile<columns> own{next}, own_partner{next + Tile<columns>::size};
  next += 2 * Tile<columns>::size;
  const Tile<columns> streamed{next}, streamed_partner{next + S * Tile<columns>::stride};
  next += 2 * S * Tile<columns>::stride;
  const Weights<S> slopes{next}, weights{next + Weights<S>::size};
  const Lane lane;

  const int own_heads = of_keys ? in.key_heads : in.heads, group = in.heads / in.key_heads;
  const int sequence = static_cast<int>(blockIdx.x / own_tiles), b = sequence / own_heads, h = sequence % own_heads;
  const int tile = static_cast<int>(blockIdx.x % own_tiles);
  // Late queries see the most keys and early keys are seen most often: they start first.
  const int first = (of_keys ? tile : static_cast<int>(own_tiles) - 1 - tile) * rows;
  const int own_length = of_keys ? in.keys : in.queries, other_length = of_keys ? in.queries : in.keys;
  const int count = min(rows, own_length - first);
  const std::size_t own_row = static_cast<std::size_t>(b) * own_length + first;
  const std::size_t other_row = static_cast<std::size_t>(b) * other_length;
  // Tokens of the other kind that have anything to do with these: queries from `begin` on, or keys up to `end`.
  const int begin = of_keys ? max(0, first - in.offset + 1) / S * S : 0;
  const int end = of_keys ? in.queries : in.seen(first + count - 1);
  const int tiles_a_head = max(0, (end - begin + S - 1) / S), steps = tiles_a_head * (of_keys ? group : 1);

  const Operand &own_from = of_keys ? in.k : in.q, &own_partner_from = of_keys ? in.v : in.dy;
  const Operand &from = of_keys ? in.q : in.k, &partner_from = of_keys ? in.dy : in.v;
  const auto head_at = [&](int step) { return of_keys ? h * group + step / tiles_a_head : h / group; };
  const auto token_at = [&](int step) { return begin + step % tiles_a_head * S; };
  const auto begin_load = [&](const Tile<columns>& tile_to, const Operand& operand, int step) {
    if (step < steps) {
      const int token = token_at(step);
      load<S>(tile_to, operand, other_row + token, head_at(step), min(S, other_length - token));
    }
    commit();
  };

  if (!of_keys) of_queries.load(in, b, h, first);
  load<rows>(own, own_from, own_row, h, count);
  load<rows>(own_partner, own_partner_from, own_row, h, count);
  begin_load(streamed_partner, partner_from, 0);
  begin_load(streamed, from, 0);
  Accumulator<columns / 32> sum, value_sum;
  sum.clear();
  value_sum.clear();
  for (int step = 0; step < steps; ++step) {
    const int token = token_at(step);
    if (of_keys) of_queries.load(in, b, head_at(step), token);
    wait<1>();
    __syncthreads();
    Accumulator<S / 32> slope, score;
    dot_rows<exact, S>(own_partner, streamed_partner, slope);
    wait<0>();
    __syncthreads();
    if (!values) begin_load(streamed_partner, partner_from, step + 1);
    dot_rows<exact, S>(own, streamed, score);
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
      for (int n = 0; n < S / 32; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int row = lane.row_of(r), column = Accumulator<S / 32>::column(lane, n, e);
          const int i = of_keys ? column : row;  // the query's place in its tile
          const int query = of_keys ? token + column : first + row, key = of_keys ? first + row : token + column;
          const bool counts = query < in.queries && key < in.seen(query);
          const float weight = counts ? expf(score.at(r, n, e) * in.scale - of_queries.log_sum[i]) : 0.0f;
          score.at(r, n, e) = weight;
          slope.at(r, n, e) = weight * (slope.at(r, n, e) - of_queries.mean[i]) * of_queries.gain[i] * in.scale;
        }
    slope.store(lane, slopes);
    if (values) score.store(lane, weights);
    __syncthreads();
    add_rows<exact, S>(slopes, streamed, sum);
    if (values) add_rows<exact, S>(weights, streamed_partner, value_sum);
    __syncthreads();
    if (values) begin_load(streamed_partner, partner_from, step + 1);
    begin_load(streamed, from, step + 1);
  }
  wait<0>();
  if (to.wanted()) to.put(lane, sum, own_row, h, count);
  if (values && to_values.wanted()) to_values.put(lane, value_sum, own_row, h, count);
}

/// dv of 64 keys alone, for heads so wide that dk and dv do not fit one block.
template <int columns, bool exact>
__global__ void __launch_bounds__(block) value_gradient_kernel(Pairs in, Target to, unsigned own_tiles) {
  constexpr int S = streamed_rows<columns>;
  extern __shared__ float4 memory[];
  __shared__ Statistics<S> of_queries;
  float* next = reinterpret_cast<float*>(memory);
  const Tile<columns> own{next}, streamed{next + Tile<columns>::size},
      upstream{next + Tile<columns>::size + S * Tile<columns>::stride};
  const Weights<S> weights{next + Tile<columns>::size + 2 * S * Tile<columns>::stride};
  const Lane lane;
  const int group = in.heads / in.key_heads;
  const int sequence = static_cast<int>(blockIdx.x / own_tiles), b = sequence / in.key_heads,
            h = sequence % in.key_heads;
  const int first = static_cast<int>(blockIdx.x % own_tiles) * rows, count = min(rows, in.keys - first);
  load<rows>(own, in.k, static_cast<std::size_t>(b) * in.keys + first, h, count);
  Accumulator<columns / 32> sum;
  sum.clear();
  for (int head = h * group; head < (h + 1) * group; ++head) {
    for (int token = max(0, first - in.offset + 1) / S * S; token < in.queries; token += S) {
      const std::size_t row = static_cast<std::size_t>(b) * in.queries + token;
      of_queries.load(in, b, head, token);
      load<S>(streamed, in.q, row, head, min(S, in.queries - token));
      load<S>(upstream, in.dy, row, head, min(S, in.queries - token));
      commit();
      wait<0>();
      __syncthreads();
      Accumulator<S / 32> score;
      dot_rows<exact, S>(own, streamed, score);
      score.each(lane, [&](int r, int column, float value) {
        const bool counts = token + column < in.queries && first + lane.row_of(r) < in.seen(token + column);
        return counts ? expf(value * in.scale - of_queries.log_sum[column]) : 0.0f;
      });
      score.store(lane, weights);
      __syncthreads();
      add_rows<exact, S>(weights, upstream, sum);
      __syncthreads();
    }
  }
  to.put(lane, sum, static_cast<std::size_t>(b) * in.keys + first, h, count);
}

template <int columns, bool exact, bool of_keys, bool values>
void launch_gradients(cudaStream_t stream, const Pairs& in, const Target& to, const Target& to_values,
                      const char* what) {
  constexpr int bytes = gradient_bytes<columns, values>;
  const auto kernel = gradient_kernel<columns, exact, of_keys, values>;
  allow_shared_memory(reinterpret_cast<const void*>(kernel), bytes, what);
  const unsigned own_tiles = blocks_for(of_keys ? in.keys : in.queries, rows);
  const unsigned sequences = static_cast<unsigned>(in.batch * (of_keys ? in.key_heads : in.heads));
  kernel<<<own_tiles * sequences, block, bytes, stream>>>(in, to, to_values, own_tiles);
}

/// means[row, head] = dy . y, for every row of every head; dy and y [rows, heads * width], means [B,H,T].
static __global__ void __launch_bounds__(threads)
    mean_kernel(Operand dy, Operand y, int tokens, int heads, unsigned count, float* means) {
  const unsigned i = blockIdx.x * (threads / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (i >= count) return;
  const unsigned token = i % tokens, sequence = i / tokens;
  const std::size_t row = static_cast<std::size_t>(sequence / heads) * tokens + token;
  const float *up = dy.at(row, static_cast<int>(sequence % heads)),
              *out = y.at(row, static_cast<int>(sequence % heads));
  float sum = 0;
  for (int column = static_cast<int>(lane); column < dy.width; column += 32) sum += up[column] * out[column];
  sum = warp_sum(sum);
  if (lane == 0) means[i] = sum;
}

}  // namespace afterglow::device::tiles
