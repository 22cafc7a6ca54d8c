// Shared by the kernels of Gated KalmaNet's core: sizes, a block's chunk, and exact products of matrices in shared
// memory (chebyshev_tile.cuh). The equations are in core/backend/cpu/chebyshev.h and cpu/chebyshev_backward.cpp. Panels
// [64,D] and states [D,D] are zero-padded to W = 16 J columns (J = 1, 2, 4, 8, so D is at most 128).
#pragma once
#include <cmath>

#include "core/backend/chebyshev.h"
#include "gpu/ops/chebyshev/chebyshev_tile.cuh"
#include "gpu/tile/device.cuh"

namespace afterglow::device {

static_assert(chunk_tokens == ChebyshevConfig::max_chunk);

struct ChebyshevShape {
  int batch, tokens, heads, width, chunks, iterations;
  float ridge, fixed_lambda, scale, alpha, log_floor;
  bool lambda_grad, decay_keys;

  __host__ __device__ int pieces() const { return batch * heads * chunks; }
  __host__ __device__ std::size_t square() const { return std::size_t(width) * width; }
  __device__ std::size_t row(int pair, int t) const {  ///< of [B,T,H,.] for pair = b heads + h
    return (std::size_t(pair / heads) * tokens + t) * heads + pair % heads;
  }
};

/// T is the stored type of queries, keys and values.
template <class T>
struct ChebyshevPointersOf {
  const T *q, *k, *v;
  const float *g, *alpha;  ///< may be null
  float *lambda, *fro, *x, *H, *S;
};
using ChebyshevPointers = ChebyshevPointersOf<float>;

inline ChebyshevShape chebyshev_shape(const ChebyshevConfig& config, const ChebyshevInputs& in) {
  ChebyshevShape s{};
  s.batch = int(in.q.shape[0]);
  s.tokens = int(in.q.shape[1]);
  s.heads = int(in.q.shape[2]);
  s.width = int(in.q.shape[3]);
  s.chunks = (s.tokens + chunk_tokens - 1) / chunk_tokens;
  s.iterations = config.iterations;
  s.ridge = float(config.ridge);
  s.fixed_lambda = float(config.fixed_lambda);
  s.scale = float(config.scale);
  s.alpha = float(config.alpha);
  s.log_floor = config.gate_floor > 0 ? float(std::log(config.gate_floor)) : -INFINITY;
  s.lambda_grad = config.lambda_grad;
  s.decay_keys = config.decay_keys;
  if (s.width > 128) {
    throw Error(ExitCode::failure, "the GPU's Gated KalmaNet takes heads up to 128 wide, and these are " +
                                       std::to_string(s.width) + "; use more heads or --device cpu");
  }
  return s;
}

template <class T = float>
ChebyshevPointersOf<T> chebyshev_pointers(const ChebyshevInputs& in, const ChebyshevSaved& saved) {
  const auto stored = [](const Tensor& t) { return rows_of<T>(t).data; };
  const auto of = [](const Tensor& t) { return t.as<float>(); };
  return {stored(in.q),     stored(in.k),  stored(in.v), of(in.g),    of(in.alpha),
          of(saved.lambda), of(saved.fro), of(saved.x),  of(saved.H), of(saved.S)};
}

/// Cumulative sums of log gates from the chunk's first token on; tokens beyond the end repeat the last sum.
struct Gates {
  float key[chunk_tokens], value[chunk_tokens];
};

struct ChunkPosition {
  int pair, index, first, count;
  __device__ ChunkPosition(const ChebyshevShape& s, int piece)
      : pair(piece / s.chunks),
        index(piece % s.chunks),
        first(index * chunk_tokens),
        count(min(chunk_tokens, s.tokens - first)) {}
};

/// The chunk of a block, and the rows of its tokens in [B,T,H,.].
struct ChunkRows : ChunkPosition {
  std::size_t first_row;
  int heads;
  __device__ ChunkRows(const ChebyshevShape& s, int piece)
      : ChunkPosition(s, piece), first_row(s.row(pair, first)), heads(s.heads) {}
  __device__ std::size_t row(int c) const { return first_row + std::size_t(c * heads); }
};

/// The first warp scans the recurrence s <- factor s + term over 64 pairs in shared memory, starting from `before`:
/// sums[i] is s after step i, in order or, when `backwards`, from the last to the first.
template <bool backwards>
__device__ inline void recur_over_chunk(const float* factors, const float* terms, float before, float* sums) {
  if (threadIdx.x >= 32) return;
  const int lane = int(threadIdx.x), first = backwards ? chunk_tokens - 1 - 2 * lane : 2 * lane,
            second = backwards ? first - 1 : first + 1;
  // Composes the steps of both tokens, then of all up to these.
  float factor = factors[first] * factors[second], term = factors[second] * terms[first] + terms[second];
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const float earlier_factor = __shfl_up_sync(full_warp, factor, offset),
                earlier_term = __shfl_up_sync(full_warp, term, offset);
    if (lane >= offset) {
      term += factor * earlier_term;
      factor *= earlier_factor;
    }
  }
  const float last = factor * before + term, up_to = __shfl_up_sync(full_warp, last, 1);
  sums[first] = factors[first] * (lane > 0 ? up_to : before) + terms[first];
  sums[second] = last;
}

/// Requires at least 64 threads; `gates` is complete after the barriers inside.
__device__ inline void load_gates(const ChebyshevShape& s, const float* g, const ChunkPosition& at, Gates& gates) {
  __syncthreads();
  const int c = int(threadIdx.x);
  float sum = 0;
  if (c < chunk_tokens) {
    if (g && c < at.count) sum = fmaxf(g[s.row(at.pair, at.first + c)], s.log_floor);
    sum = sum_along_lanes(sum, c % 32);
    gates.value[c] = sum;
  }
  __syncthreads();
  if (c >= 32 && c < chunk_tokens) gates.key[c] = sum + gates.value[31];
  if (c < 32) gates.key[c] = sum;
  __syncthreads();
  if (c < chunk_tokens) {
    gates.value[c] = gates.key[c];
    if (!s.decay_keys) gates.key[c] = 0.0f;
  }
  __syncthreads();
}

/// The steps |H_c|_F^2 = faded_c |H_{c-1}|_F^2 + term_c of a chunk, in shared memory.
struct SquareSteps {
  float faded[chunk_tokens], terms[chunk_tokens];

  /// From H_c k_c . k_c and |k_c|^2.
  __device__ void set(int c, const Gates& gates, float inner, float k2) {
    terms[c] = 2.0f * fmaxf(inner - k2 * k2, 0.0f) + k2 * k2;
    faded[c] = expf(2.0f * (gates.key[c] - (c > 0 ? gates.key[c - 1] : 0.0f)));
  }
};

/// Writes |H_c|_F and lambda_c of a chunk; `square` is this thread's part of |H|_F^2 before it. Includes barriers.
template <class T>
__device__ void put_norms(const ChebyshevShape& s, const ChebyshevPointersOf<T>& io, const ChunkPosition& at,
                          const SquareSteps& steps, float square) {
  __shared__ float squares[chunk_tokens], sums[32];
  square = block_sum(square, sums);
  __syncthreads();
  recur_over_chunk<false>(steps.faded, steps.terms, square, squares);
  __syncthreads();
  const int c = int(threadIdx.x);
  if (c < at.count) {
    const std::size_t row = s.row(at.pair, at.first + c);
    const float fro = sqrtf(squares[c]);
    io.fro[row] = fro;
    io.lambda[row] = s.fixed_lambda > 0.0f ? s.fixed_lambda : s.ridge * fro;
  }
  __syncthreads();
}

/// Fills a panel with value(row, column), and with zeros beyond the chunk's end and the head's width. There it still
/// evaluates value(0, 0): without branches the loads overlap.
template <int J, class Value>
__device__ void fill_panel(float* panel, int count, int width, const Value& value) {
  const int thread = scan::hidden_thread();
#pragma unroll 16
  for (int step = 0; step < chunk_tokens * Tile<J>::width / threads; ++step) {
    const int i = step * threads + thread, row = i / Tile<J>::width, column = i % Tile<J>::width;
    const bool inside = row < count && column < width;
    const float number = value(inside ? row : 0, inside ? column : 0);
    panel[row * Tile<J>::stride + column] = inside ? number : 0.0f;
  }
}
template <int J>
__device__ void load_panel(const ChebyshevShape& s, const ChunkRows& at, const float* from, float* panel) {
  fill_panel<J>(panel, at.count, s.width, [&](int row, int column) { return from[at.row(row) * s.width + column]; });
}
/// p = q + alpha (x - q).
__device__ inline float mixed(const ChebyshevShape& s, const ChebyshevPointers& io, std::size_t row, int column) {
  const float alpha = io.alpha ? io.alpha[row] : s.alpha, q = io.q[row * s.width + column];
  return q + alpha * (io.x[row * s.width + column] - q);
}
template <int J>
__device__ void load_mixed(const ChebyshevShape& s, const ChebyshevPointers& io, const ChunkRows& at, float* panel) {
  fill_panel<J>(panel, at.count, s.width, [&](int row, int column) { return mixed(s, io, at.row(row), column); });
}
/// Loads rows of [B,T,H,D] in the layout of a product.
template <int J>
__device__ void load_tile(const ChebyshevShape& s, const ChunkRows& at, const float* from, Tile<J>& tile) {
  tile.each([&](float& cell, int c, int column) {
    const bool inside = c < at.count && column < s.width;
    const float number = from[inside ? at.row(c) * s.width + column : 0];
    cell = inside ? number : 0.0f;
  });
}
template <int J>
__device__ void load_state(int width, const float* from, float* state) {
  const int thread = scan::hidden_thread();
#pragma unroll 16
  for (int step = 0; step < Tile<J>::width * Tile<J>::width / threads; ++step) {
    const int i = step * threads + thread, row = i / Tile<J>::width, column = i % Tile<J>::width;
    const bool inside = row < width && column < width;
    const float number = from[inside ? row * width + column : 0];
    state[row * Tile<J>::stride + column] = inside ? number : 0.0f;
  }
}

/// memory[c][i] = left_c . right_i for i <= c after weigh(scores), which must zero the rest. Includes barriers before
/// and after.
template <int J, class Weigh>
__device__ void put_scores(const float* left, const float* right, const Weigh& weigh, float* memory) {
  Scores scores;
  scores.clear();
  scores.add_to_diagonal(left, Tile<J>::stride, right, Tile<J>::stride, Tile<J>::width);
  __syncthreads();
  weigh(scores);
  scores.store(memory, Scores::stride);
  __syncthreads();
}
/// memory[c][i] = e^{gate_c - gate_i} factor (left_c . right_i) for i <= c, zero above. Includes barriers before and
/// after.
template <int J>
__device__ void masked_scores(const float* left, const float* right, const float* gate, float factor, float* memory) {
  const auto weigh = [&](Scores& scores) {
    scores.each([&](float& cell, int c, int i) { cell = i <= c ? factor * expf(gate[c] - gate[i]) * cell : 0.0f; });
  };
  put_scores<J>(left, right, weigh, memory);
}

/// += masked scores times the panel: row c sums over tokens up to c.
template <int J>
__device__ void add_past(const float* scores, const float* panel, Tile<J>& result) {
  result.template add_product<false, false>(scores, Scores::stride, panel, Tile<J>::stride,
                                            Tile<J>::first_row() + Tile<J>::warp_rows);
}
/// += masked scores, transposed, times the panel: row i sums over tokens from i on.
template <int J>
__device__ void add_future(const float* scores, const float* panel, Tile<J>& result) {
  const int first = Tile<J>::first_row();
  result.template add_product<true, false>(scores + first * Scores::stride, Scores::stride,
                                           panel + first * Tile<J>::stride, Tile<J>::stride, chunk_tokens - first);
}

/// result = factor e^{gate_c} in op(state).
template <int J, bool transpose_state>
__device__ void read_before(const float* in, const float* state, const float* gate, float factor, Tile<J>& result) {
  result.clear();
  result.template add_product<false, transpose_state>(in, Tile<J>::stride, state, Tile<J>::stride, Tile<J>::width);
  result.each([&](float& cell, int c, int) { cell *= factor * expf(gate[c]); });
}
/// The same, and the masked scores of `in` and `left` for `add_past`.
template <int J, bool transpose_state>
__device__ void read_state(const float* in, const float* state, const float* left, const float* gate, float factor,
                           float* scores, Tile<J>& result) {
  read_before<J, transpose_state>(in, state, gate, factor, result);
  masked_scores<J>(in, left, gate, factor, scores);
}

/// Calls body with the smallest J that holds the head, as a compile-time constant.
template <class Body>
void with_tiles(int width, const Body& body) {
  with_capacity<1, 2, 4, 8>((width + 15) / 16, body);
}

/// Bytes of shared memory for `panels` and `states` matrices and `squares` of scores.
template <int J>
constexpr int chebyshev_bytes(int panels, int states, int squares) {
  return 4 * (panels * Tile<J>::panel + states * Tile<J>::state + squares * Scores::panel);
}

/// Chebyshev iteration: row c of `x` solves (H_c + lambda_c I) x = right_c. `keys` [64,W] and `state` (the symmetric H
/// before the chunk) are filled; `iterate` [64,W], `scores` and `weights` are scratch.
template <int J>
__device__ void solve_chunk(const ChebyshevShape& s, const TokenNumbers& fro, const TokenNumbers& lambda,
                            const Gates& gates, const float* state, const float* keys, float* iterate, float* scores,
                            float* weights, const Tile<J>& right, Tile<J>& x) {
  constexpr int rows = Tile<J>::rows;
  float step[rows], omega[rows], rho[rows];
  Tile<J> before, product;
  unrolled<rows>([&](int i) {
    const float bound = fro[i] + 2.0f * lambda[i];
    step[i] = bound > 0.0f ? 2.0f / bound : 0.0f;
    rho[i] = bound > 0.0f ? fro[i] / bound : 0.0f;
    omega[i] = 2.0f;
    unrolled<Tile<J>::columns>([&](int j) {
      x.cell[i][j] = step[i] * right.cell[i][j];
      before.cell[i][j] = 0.0f;
    });
  });
  Scores own;
  own.each([&](float& cell, int c, int i) { cell = i <= c ? expf(gates.key[c] - gates.key[i]) : 0.0f; });
  own.store(weights, Scores::stride);  // read by this thread alone
  const auto weigh = [&](Scores& scores_of_iterate) {
    Scores by;
    by.load(weights, Scores::stride);
    unrolled<Scores::rows, Scores::columns>([&](int i, int j) { scores_of_iterate.cell[i][j] *= by.cell[i][j]; });
  };
  for (int iteration = 0; iteration < s.iterations; ++iteration) {
    __syncthreads();
    x.store(iterate, Tile<J>::stride);
    __syncthreads();
    read_before<J, true>(iterate, state, gates.key, 1.0f, product);
    put_scores<J>(iterate, keys, weigh, scores);
    add_past(scores, keys, product);
    x.load(iterate, Tile<J>::stride);  // reloaded, so that the products have the registers
    unrolled<rows>([&](int i) {
      omega[i] = 4.0f / (4.0f - rho[i] * rho[i] * omega[i]);
      unrolled<Tile<J>::columns>([&](int j) {
        const float now = x.cell[i][j];
        const float residual = product.cell[i][j] + lambda[i] * now - right.cell[i][j];
        x.cell[i][j] = now - omega[i] * step[i] * residual + (omega[i] - 1.0f) * (now - before.cell[i][j]);
        before.cell[i][j] = now;
      });
    });
  }
  __syncthreads();
}

__device__ inline void load_tile_norms(const ChebyshevShape& s, const ChebyshevPointers& io, const ChunkRows& at,
                                       TokenNumbers& fro, TokenNumbers& lambda) {
  unrolled<Scores::rows>([&](int i) {
    const int c = Scores::row(i);
    fro[i] = c < at.count ? io.fro[at.row(c)] : 0.0f;
    lambda[i] = c < at.count ? io.lambda[at.row(c)] : 0.0f;
  });
}

}  // namespace afterglow::device
