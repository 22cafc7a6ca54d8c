// Shared by chunked gated linear attention (gla_chunks.cu, which has the equations) and the delta rule with a decay for
// every channel (kda_chunks.cu): its passes and their memory layout.
#pragma once
#include "core/backend/delta.h"
#include "gpu/ops/ssd/ssd_chunks.cuh"

namespace afterglow::scan {

constexpr int sub_chunk = 16, sub_chunks = chunk / sub_chunk;  // a warp has one sub-chunk as rows
constexpr int gla_pair_blocks = 3;                             // of a multiprocessor
constexpr int max_piece_width = 64;                            // keys, or channels of the values

// Wide heads are halved into pieces of at most 64 keys and values, which the passes treat as heads: [B,T,H,K] is
// [B,T,heads,keys]. Everything is linear in the pieces of keys and independent between those of values. The keys of
// piece h meet the values of all pieces of their head: in round r those of piece h ^ r, so that each comes once a
// round.
struct GlaSizes {
  int batch, length, heads, keys, width, chunks, units;
  int halvings;
  float scale;
  bool strict;  // a token does not contribute to its own output
  __host__ __device__ int pieces() const { return 1 << halvings; }
};

/// T is the stored type of tokens.
template <class T>
struct GlaArrays {
  const T *q, *k, *v, *dy;
  const float *g, *beta;  // beta [B,T,H] or null
  /// The factor of a key of a row of [B,T,H] (whole heads) when it writes.
  __device__ float weight(std::size_t row) const { return beta != nullptr ? beta[row] : 1.0f; }
};

/// A unit is a chunk of a head; `size` is that of the kernel, at least the width of keys and of values.
struct GlaMemory {
  float* sums;             // [units,64,size]: l, cumulative log decay from the sub-chunk's first token on
  float *queries, *keys;   // [units,64,size]: Q and K
  float* recalls;          // [units,64,size], or null: R, the keys as queries
  float *fades, *reach;    // [units,4,size]: f of each sub-chunk; 1 / f, and 0 where it is steep
  float *enters, *leaves;  // [units,4,size]: products of f before the sub-chunk in the chunk, and after it
  float* steep;            // [units,4]: the first number is 1 if any sub-chunk is steep, otherwise 0
  float *states, *flows;   // [pieces,units,size,size]: S and F, a row for each channel of the values
};

/// Offset of the state, or flow, of a unit's keys with the values of a round.
template <int size>
__device__ std::size_t met_at(const GlaSizes& s, int round, std::size_t unit) {
  return (std::size_t(round) * s.units + unit) * size * size;
}

struct Unit {
  int b, h, c, count;
  std::size_t index, row;  // of the first token of [B,T]
  __device__ Unit(const GlaSizes& s, int unit) : c(unit % s.chunks), index(std::size_t(unit)) {
    const int pair = unit / s.chunks;
    b = pair / s.heads;
    h = pair % s.heads;
    count = min(chunk, s.length - c * chunk);
    row = std::size_t(b) * s.length + std::size_t(c) * chunk;
  }
  /// The same chunk of the head that this one meets in a round.
  __device__ Unit met_in(const GlaSizes& s, int round) const {
    Unit other = *this;
    other.h = h ^ round;
    other.index = index - h * s.chunks + other.h * s.chunks;
    return other;
  }
  /// Row of token t of the chunk in [B,T,heads], its offset in [B,T,heads,width], and its row of whole heads [B,T,H].
  __device__ std::size_t at(const GlaSizes& s, int t) const { return (row + t) * s.heads + h; }
  __device__ std::size_t at(const GlaSizes& s, int t, int width) const { return at(s, t) * width; }
  __device__ std::size_t at_whole(const GlaSizes& s, int t) const { return at(s, t) >> s.halvings; }
  template <class T>
  __device__ StripOf<T> strip(const GlaSizes& s, const T* data, int width) const {
    return {data + at(s, 0, width), std::size_t(s.heads) * width, count, width};
  }
};

/// The unit of a whole head's first piece, from the chunk's index among all whole heads; the units of its other pieces
/// follow `chunks` apart.
__device__ inline int first_piece(const GlaSizes& s, int whole) {
  return whole / s.chunks * (s.chunks << s.halvings) + whole % s.chunks;
}

/// Begins to copy tokens. bfloat16 goes to the second half of the destination, where `widen` converts it.
template <int rows, int columns, class T>
__device__ void fetch_tokens(const SharedMatrix<columns>& to, const StripOf<T>& from) {
  if constexpr (std::is_same_v<T, float>) {
    fetch<rows>(to, from);
  } else {
    fetch<rows>(SharedMatrix<columns, Bf16>{reinterpret_cast<Bf16*>(to.data) + rows * columns}, from);
  }
}

/// Converts the bfloat16 tokens of fetch_tokens to float: each thread reads what it fetched; includes barriers.
template <class T, int rows, int columns>
__device__ void widen(const SharedMatrix<columns>& m) {
  if constexpr (std::is_same_v<T, Bf16>) {
    constexpr int pieces = columns / 8, step = block_threads / pieces, rounds = rows / step;
    const SharedMatrix<columns, Bf16> stored{reinterpret_cast<Bf16*>(m.data) + rows * columns};
    const int row = int(threadIdx.x) / pieces, column = int(threadIdx.x) % pieces * 8;
    device::Piece<8> own[rounds];
    device::unrolled<rounds>([&](int i) { own[i] = device::Piece<8>::of(&stored.at(row + i * step, column), true); });
    __syncthreads();
#pragma unroll
    for (int i = 0; i < rounds; ++i)
#pragma unroll
      for (int half = 0; half < 8; half += 4)
        reinterpret_cast<float4&>(m.at(row + i * step, column + half)) =
            make_float4(own[i].v[half], own[i].v[half + 1], own[i].v[half + 2], own[i].v[half + 3]);
    __syncthreads();
  }
}

/// The block begins to copy rows of the kernels' own memory, `stride` apart; or `part` numbers of each to columns from
/// `first` on.
template <int rows, int block = block_threads, int part = 0, int columns>
__device__ void fetch_own(const SharedMatrix<columns>& to, const float* from, int stride, int first = 0) {
  constexpr int pieces = (part > 0 ? part : columns) / 4, step = block / pieces;
  const int thread = hidden_thread(), row = thread / pieces, column = thread % pieces * 4;
  float* place = &to.at(row, first + column);
  from += row * stride + column;
#pragma unroll
  for (int i = 0; i < rows; i += step) device::tiles::copy_piece(place + i * columns, from + i * stride, true);
}

/// The decays of a chunk's sub-chunks, a row each.
template <int size>
struct Decays {
  float fades[sub_chunks * size], reach[sub_chunks * size],
      edges[sub_chunks * size];  // edges: enters, or leaves when backward

  __device__ void start(const GlaMemory& from, std::size_t unit, bool backward) {
    constexpr int pieces = sub_chunks * size / 4;
    const std::size_t at = unit * sub_chunks * size + 4 * threadIdx.x;
    if (threadIdx.x >= pieces) return;
    device::tiles::copy_piece(fades + 4 * threadIdx.x, from.fades + at, true);
    device::tiles::copy_piece(reach + 4 * threadIdx.x, from.reach + at, true);
    device::tiles::copy_piece(edges + 4 * threadIdx.x, (backward ? from.leaves : from.enters) + at, true);
  }
  /// A row of ones: nothing precedes the first sub-chunk, and nothing follows the last.
  __device__ const float* ones(bool backward) const { return edges + (backward ? sub_chunks - 1 : 0) * size; }
};

/// Left operand: 16 rows from `first` on with columns times two factors, summed along them.
template <int columns>
struct FadedRows {
  using Numbers = float[4];
  static constexpr int eights = 1;
  LeftRows<columns> rows;
  const float *one, *other;
  __device__ FadedRows(const SharedMatrix<columns>& m, int first, const float* factors, const float* others)
      : rows(m, first), one(factors + hidden_thread() % 4), other(others + hidden_thread() % 4) {}
  __device__ void load(int k, float (&value)[4]) const {
    rows.load(k, value);
    device::unrolled<4>([&](int i) { value[i] *= one[8 * k + i / 2 * 4] * other[8 * k + i / 2 * 4]; });
  }
};

/// Adds A of a warp's rows to `met`: of its queries `own` and earlier keys, or when backward of its keys and later
/// queries.
template <bool exact, bool backward, int size>
__device__ void meet_faded(const SharedMatrix<size>& own, const SharedMatrix<size>& others, const ThreadPosition& p,
                           const Decays<size>& decays, float (&met)[chunk / 8][4]) {
  const float* ones = decays.ones(backward);
  device::unrolled<sub_chunks>([&](int part) {
    const int apart = backward ? part - p.warp : p.warp - part;
    if (apart < 0) return;
    const auto faded_by = [&](int away) { return decays.fades + (backward ? p.warp + away : p.warp - away) * size; };
    const float* one = apart == 0 ? decays.reach + p.warp * size : apart == 1 ? ones : faded_by(1);
    const auto product =
        multiply<exact, 2>(0, size / 8, FadedRows<size>(own, 16 * p.warp, one, apart == 3 ? faded_by(2) : ones),
                           RightRows<size, 2>(others, 16 * part));
    device::unrolled<2, 4>([&](int n, int i) {
      const int beyond = 16 * part + 8 * n + p.column() + i % 2 - (p.row() + i / 2 * 8);
      if (backward ? beyond >= 0 : beyond <= 0) met[2 * part + n][i] += product.of(n, i);
    });
  });
}

constexpr float min_log = -40.0f;  // of a decay, base 2: the rest is below float32 precision

/// NaN stays NaN.
__device__ inline float base_two_log(float g) {
  const float log = 1.4426950408889634f * g;
  return log < min_log ? min_log : log;
}

/// Whether a channel is steep in any sub-chunk of a unit; `reach` is the unit's.
__device__ inline bool is_steep(const float* reach, int size, int channel) {
  bool any = false;
  for (int part = 0; part < sub_chunks; ++part) any |= reach[part * size + channel] == 0;
  return any;
}

/// One channel of a chunk; tokens of sub-chunks where it is not steep count as zero.
struct SteepChannel {
  float q[chunk], k[chunk], decay[chunk];  // decay: from the previous token to this one
  float queries[chunk], keys[chunk];       // parts of the sum in a decay's gradient

  template <class T>
  __device__ void read(const GlaSizes& s, const GlaArrays<T>& in, const Unit& unit, const float* reach, int size,
                       int channel) {
    __syncthreads();
    for (int t = int(threadIdx.x); t < chunk; t += block_threads) {
      const std::size_t from = unit.at(s, t, s.keys) + channel;
      const bool counts = t < unit.count && reach[t / sub_chunk * size + channel] == 0;
      q[t] = counts ? float(in.q[from]) : 0.0f;
      k[t] = counts ? in.weight(unit.at_whole(s, t)) * float(in.k[from]) : 0.0f;
      decay[t] = counts ? device::power_of_two(base_two_log(in.g[from])) : 1.0f;
    }
    __syncthreads();
  }
};
__device__ inline int end_of_sub_chunk(int t) { return (t / sub_chunk + 1) * sub_chunk; }

/// Numbers of a token and an earlier one.
using Pairs = float[chunk][chunk + 1];

__device__ inline void meet_in_channel(const SteepChannel& of, Pairs& met) {
  const int j = int(threadIdx.x);
  if (j >= chunk) return;
  float held = of.k[j];
  for (int t = j; t < end_of_sub_chunk(j); ++t) {
    if (t > j) held *= of.decay[t];
    met[t][j] = fmaf(of.q[t], held, met[t][j]);
  }
}

/// Two neighbours of a row, of which those before `width` count.
template <class T>
__device__ void put_two(const SinkOf<T>& to, std::size_t row, int column, int width, float2 value) {
  T* place = &to.rows.at(row, unsigned(column));
  if (column + 1 < width && reinterpret_cast<std::uintptr_t>(place) % (2 * sizeof(T)) == 0)
    return device::store_two(place, to.accumulate, value.x, value.y);
  if (column < width) to.put(row, unsigned(column), value.x);
  if (column + 1 < width) to.put(row, unsigned(column) + 1, value.y);
}

GlaSizes gla_sizes_of(const DeltaInputs& in);
inline int gla_size(const GlaSizes& s) { return s.keys <= 32 && s.width <= 32 ? 32 : 64; }
inline std::int64_t flow_numbers(const GlaSizes& s) {
  return std::int64_t{s.units} * s.pieces() * gla_size(s) * gla_size(s);
}
/// Rows of whole heads as rows of their pieces.
template <class T>
SinkOf<T> by_pieces(const GlaSizes& s, SinkOf<T> sink) {
  sink.rows.columns >>= s.halvings;
  sink.rows.stride >>= s.halvings;
  return sink;
}
template <class T>
GlaArrays<T> gla_arrays_of(const DeltaInputs& in, const Tensor& dy) {
  const auto stored = [](const Tensor& tensor) { return device::rows_of<T>(tensor).data; };
  return {stored(in.q), stored(in.k), stored(in.v), stored(dy), in.g.as<float>(), in.beta.as<float>()};
}
/// In memory with room for `gla_memory`, without flows and recalls.
GlaMemory gla_memory_of(const GlaSizes& s, float* memory);

/// Calls body(size, exact) with the kernel size as a type; bfloat16 is never exact.
template <class T, class Body>
void with_gla_size(const GlaSizes& s, bool exact, const Body& body) {
  device::with_capacity<32, 64>(
      gla_size(s), [&](auto size) { device::with_exact<T>(exact, [&](auto is_exact) { body(size, is_exact); }); });
}

/// The passes, in the order in which they depend on one another.
template <class T>
struct GlaPasses {
  cudaStream_t stream;
  GlaSizes s;
  bool exact;
  GlaArrays<T> in;
  GlaMemory to;

  /// Decays, and queries and keys times decays.
  void prepare() const;
  /// Inter-chunk state passing: states, flows or both, of all rounds. If `state` is not null it receives the last
  /// state, and is the first one with `resume`. Outputs here and below are stored by whole heads.
  void run_state_pass(Directions directions, float* state, bool resume) const;
  void answer(const Tensor& y) const;
  void values_backward(const SinkOf<T>& dv) const;
  /// dq, dk and dg.
  void query_key_gradients(const DeltaGrads& out) const;
  /// Adds the steep channels' parts to the outputs, or to the gradients.
  void add_steep(const Tensor& y) const;
  void add_steep_backward(const SinkOf<T>& dv, const DeltaGrads& out) const;
};

}  // namespace afterglow::scan
