// Gated linear attention by chunks of 64 tokens: a decay for every channel of the keys. With l the sum of its
// logarithms from the chunk's first token on, S the state before the chunk and F the flow into its end from behind,
//
//     y_t = scale ((q_t e^l_t) . S + sum over j <= t of A_tj v_j),   A_tj = sum over channels of q_t k_j e^(l_t - l_j)
//     S' = e^l_last S + sum_j (k_j e^(l_last - l_j)) v_j^T
//     dv_j = scale ((k_j e^(l_last - l_j)) . F + sum over t >= j of A_tj dy_t)
//     dq_t = scale (e^l_t (S dy_t) + sum over j <= t of w_tj k_j e^(l_t - l_j)),   w_tj = dy_t . v_j
//     dk_j = scale (e^(l_last - l_j) (F v_j) + sum over t >= j of w_tj q_t e^(l_t - l_j))
//     dg_t = sum over s >= t of (q_s dq_s - k_s dk_s) + rows of S' F, where what a token gives itself cancels: it is
//     left
//            out of both, so that little is left of much
//
// A chunk is four sub-chunks. Tokens of different ones meet in products of queries and keys that carry their decay to a
// border between them, so that no exponent is above zero: the middle of the chunk for those of its two halves ("far"),
// the border inside a half for the others ("near"). Tokens of one sub-chunk meet number by number. Logarithms are to
// base 2 and summed from the first token of a sub-chunk on, so that small differences are not those of large numbers.
// tests/core/ops/gla_chunks_test.cpp is the same in plain loops.
#include "gpu/cuda_backend.h"
#include "gpu/scan/gla_chunks.cuh"
#include "gpu/scan/ssd_chunks.cuh"

namespace afterglow::scan {

using namespace device;
using device::tiles::commit;
using device::tiles::wait;

namespace {

constexpr int sub_chunk = 16, sub_chunks = chunk / sub_chunk;  // a warp has one as rows
constexpr int gla_walk_width = 32;                             // channels of the values of a block that walks
constexpr int gla_walk_blocks = 4, gla_pair_blocks = 3;        // that a multiprocessor holds
constexpr int shortest_gla = 128;                              // tokens
constexpr float least_log = -40.0f;  // of a decay, to base 2: what remains is less than float32 keeps beside a token

struct GlaSizes {
  int batch, length, heads, keys, width, chunks;
  float scale;
};

struct GlaArrays {
  const float *q, *k, *v, *g, *dy;
};

/// A unit is a chunk of a head; `size` is what kernels are made for, at least the width of keys and of values.
struct GlaMemory {
  float* sums;            // [units,64,size]: logarithms of the decay, from the sub-chunk's first token on
  float *queries, *keys;  // [units,64,size]: q e^l, k e^(l_last - l)
  float* fades;           // [units,size]: e^l_last
  float *states, *flows;  // [units,size,size]: S and F, a row for each channel of the values
  float *dq, *dk;         // [units,64,size]: without scale and what a token gives itself
  float* own;             // [units,64]: w_tt
};

/// Where a block's chunk lies.
struct Unit {
  int b, h, c, count;
  std::size_t index, row;  // of the first token of [B,T]
  __device__ Unit(const GlaSizes& s, int unit) : c(unit % s.chunks), index(static_cast<std::size_t>(unit)) {
    const int pair = unit / s.chunks;
    b = pair / s.heads;
    h = pair % s.heads;
    count = min(chunk, s.length - c * chunk);
    row = static_cast<std::size_t>(b) * s.length + static_cast<std::size_t>(c) * chunk;
  }
  /// Of a number of token t of the chunk, where a head has `width`.
  __device__ std::size_t at(const GlaSizes& s, int t, int width) const { return ((row + t) * s.heads + h) * width; }
  __device__ Strip strip(const GlaSizes& s, const float* data, int width) const {
    return {data + at(s, 0, width), static_cast<std::size_t>(s.heads) * width, count, width};
  }
};

/// What is no number stays none.
__device__ inline float base_two_log(float g) {
  const float log = 1.4426950408889634f * g;
  return log < least_log ? least_log : log;
}

// A thread a channel of a sub-chunk.
template <int size>
__global__ void __launch_bounds__(sub_chunks* size) gla_prepare_kernel(GlaSizes s, GlaArrays in, GlaMemory to) {
  await_previous();
  __shared__ float totals[sub_chunks][size];
  const Unit unit(s, static_cast<int>(blockIdx.x));
  const int channel = static_cast<int>(threadIdx.x) % size, part = static_cast<int>(threadIdx.x) / size;
  const int first = part * sub_chunk;
  const auto inside = [&](int i) { return first + i < unit.count && channel < s.keys; };
  float sums[sub_chunk];
#pragma unroll
  for (int i = 0; i < sub_chunk; ++i)
    sums[i] = inside(i) ? base_two_log(in.g[unit.at(s, first + i, s.keys) + channel]) : 0.0f;
  double sum = 0;
#pragma unroll
  for (int i = 0; i < sub_chunk; ++i) {
    sum += sums[i];
    sums[i] = static_cast<float>(sum);
  }
  totals[part][channel] = sums[sub_chunk - 1];
  __syncthreads();
  float before = 0, behind = 0;
#pragma unroll
  for (int other = 0; other < sub_chunks; ++other) {
    if (other < part) before += totals[other][channel];
    if (other > part) behind += totals[other][channel];
  }
#pragma unroll
  for (int i = 0; i < sub_chunk; ++i) {
    const std::size_t from = unit.at(s, first + i, s.keys) + channel;
    const std::size_t at = (unit.index * chunk + first + i) * size + channel;
    to.sums[at] = sums[i];
    to.queries[at] = inside(i) ? in.q[from] * power_of_two(before + sums[i]) : 0.0f;
    to.keys[at] = inside(i) ? in.k[from] * power_of_two(sums[sub_chunk - 1] - sums[i] + behind) : 0.0f;
  }
  if (part == 0) to.fades[unit.index * size + channel] = power_of_two(sums[sub_chunk - 1] + behind);
}

// The states before all chunks (way 0), or the flows from behind into them (1), of 32 channels of a head's values.
template <int size, bool exact>
__global__ void __launch_bounds__(block_threads, gla_walk_blocks)
    gla_walk_kernel(GlaSizes s, GlaArrays in, GlaMemory to, int walkers, int way, float* state, bool resume) {
  await_previous();
  constexpr int warp_states = size / 2, tiles = warp_states / 8;
  struct Stage {
    float u[chunk * gla_walk_width], v[chunk * size], fades[size];
  };
  extern __shared__ float4 memory[];
  Stage* stages = reinterpret_cast<Stage*>(memory);
  const bool back = way + static_cast<int>(blockIdx.y) == 1;
  const int pair = static_cast<int>(blockIdx.x) / walkers;
  const int first = static_cast<int>(blockIdx.x) % walkers * gla_walk_width;
  const auto place = [&](int i) { return pair * s.chunks + (back ? s.chunks - 1 - i : i); };
  const auto start = [&](int i) {
    if (i < s.chunks) {
      const Unit unit(s, place(i));
      Stage& stage = stages[i % 2];
      Strip values = unit.strip(s, back ? in.dy : in.v, s.width);
      values.data += first;
      values.width = max(s.width - first, 0);
      fetch<chunk>(Matrix<gla_walk_width>{stage.u}, values);
      fetch<chunk>(Matrix<size>{stage.v},
                   {(back ? to.queries : to.keys) + unit.index * chunk * size, std::size_t{size}, chunk, size});
      if (threadIdx.x < size)
        __pipeline_memcpy_async(&stage.fades[threadIdx.x], &to.fades[unit.index * size + threadIdx.x], 4);
    }
    commit();
  };
  start(0);

  const Place p;
  const int channel = p.warp % 2 * 16, number = p.warp / 2 * warp_states;
  const int own_channel = first + channel + p.quad, own_state = number + p.column();
  const auto each = [&](const auto& visit) {
#pragma unroll
    for (int n = 0; n < tiles; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) visit(n, i, own_channel + i / 2 * 8, own_state + 8 * n + i % 2);
  };
  float* kept = state + static_cast<std::size_t>(pair) * s.keys * s.width;
  float now[tiles][4] = {};
  if (resume && !back) {
    each([&](int n, int i, int channel_of, int state_of) {
      if (channel_of < s.width && state_of < s.keys) now[n][i] = kept[state_of * s.width + channel_of];
    });
  }
  for (int i = 0; i < s.chunks; ++i) {
    wait<0>();
    __syncthreads();
    start(i + 1);
    Stage& stage = stages[i % 2];
    float* out = (back ? to.flows : to.states) + static_cast<std::size_t>(place(i)) * size * size;
#pragma unroll
    for (int n = 0; n < tiles; ++n)
#pragma unroll
      for (int r = 0; r < 2; ++r)
        reinterpret_cast<float2&>(out[(own_channel + 8 * r) * size + own_state + 8 * n]) =
            make_float2(now[n][2 * r], now[n][2 * r + 1]);
    const auto product =
        multiply<exact, tiles, 4>(0, chunk / 8, LeftColumns<gla_walk_width>(Matrix<gla_walk_width>{stage.u}, channel),
                                  RightColumns<size, tiles, false>(Matrix<size>{stage.v}, number));
    each(
        [&](int n, int k, int, int state_of) { now[n][k] = fmaf(stage.fades[state_of], now[n][k], product.of(n, k)); });
  }
  if (state == nullptr || back) return;
  each([&](int n, int i, int channel_of, int state_of) {
    if (channel_of < s.width && state_of < s.keys) kept[state_of * s.width + channel_of] = now[n][i];
  });
}

template <int size>
__device__ float total_of(const Matrix<size>& sums, int part, int channel) {
  return sums.at(part * sub_chunk + sub_chunk - 1, channel);
}

// Queries with their decay from a border, by the whole block and in place. Rows 16 to 31: from their near border, 32 to
// 63: from the middle, 0 to 15: the last sub-chunk's from its near one.
template <int size>
__device__ void carry_queries(const Matrix<size>& q, const Matrix<size>& sums) {
  for (int i = static_cast<int>(threadIdx.x); i < sub_chunk * size; i += block_threads) {
    const int t = i / size, channel = i % size;
    q.at(16 + t, channel) *= power_of_two(sums.at(16 + t, channel));
    q.at(32 + t, channel) *= power_of_two(sums.at(32 + t, channel));
    const float last = q.at(48 + t, channel), sum = sums.at(48 + t, channel);
    q.at(t, channel) = last * power_of_two(sum);
    q.at(48 + t, channel) = last * power_of_two(sum + total_of(sums, 2, channel));
  }
}

// Keys with their decay to a border. Rows 0 to 31: to the middle, 32 to 47: to their near border, 48 to 63: the first
// sub-chunk's to its near one.
template <int size>
__device__ void carry_keys(const Matrix<size>& k, const Matrix<size>& sums) {
  for (int i = static_cast<int>(threadIdx.x); i < sub_chunk * size; i += block_threads) {
    const int t = i / size, channel = i % size;
    const float first = k.at(t, channel), left = total_of(sums, 0, channel) - sums.at(t, channel);
    k.at(48 + t, channel) = first * power_of_two(left);
    k.at(t, channel) = first * power_of_two(left + total_of(sums, 1, channel));
    k.at(16 + t, channel) *= power_of_two(total_of(sums, 1, channel) - sums.at(16 + t, channel));
    k.at(32 + t, channel) *= power_of_two(total_of(sums, 2, channel) - sums.at(32 + t, channel));
  }
}

template <int size>
__device__ float4 four_at(const Matrix<size>& m, int row, int column) {
  return *reinterpret_cast<const float4*>(&m.at(row, column));
}

/// Sum of a b 2^(later - earlier) over four channels.
__device__ inline float faded_product(const float4& a, const float4& b, const float4& later, const float4& earlier) {
  return fmaf(a.x * b.x, power_of_two(later.x - earlier.x), a.y * b.y * power_of_two(later.y - earlier.y)) +
         fmaf(a.z * b.z, power_of_two(later.z - earlier.z), a.w * b.w * power_of_two(later.w - earlier.w));
}

/// A of a warp's own sub-chunk: a row is a query (back: a key), a column what it meets. Rows as in Place.
template <int size, bool back>
__device__ void meet_in_sub_chunk(const Matrix<size>& rows, const Matrix<size>& others, const Matrix<size>& sums,
                                  const Place& p, float (&met)[2][4]) {
#pragma unroll 1
  for (int channel = 0; channel < size; channel += 4) {
    float4 own[2], own_sums[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      own[r] = four_at(rows, p.row() + 8 * r, channel);
      own_sums[r] = four_at(sums, p.row() + 8 * r, channel);
    }
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int j = sub_chunk * p.warp + 8 * n + p.column() + e;
        const float4 other = four_at(others, j, channel), other_sums = four_at(sums, j, channel);
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          if (back ? n < r : n > r) continue;  // the wrong side of the diagonal
          met[n][2 * r + e] += back ? faded_product(own[r], other, other_sums, own_sums[r])
                                    : faded_product(own[r], other, own_sums[r], other_sums);
        }
      }
  }
#pragma unroll
  for (int n = 0; n < 2; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = p.quad + i / 2 * 8, column = 8 * n + p.column() + i % 2;
      if (back ? column < row : column > row) met[n][i] = 0;
    }
}

/// The products of a warp's rows with the tokens of other sub-chunks: `far` are tiles 0 to 3 (back: 4 to 7), `near`
/// two.
template <bool exact, int size, class Far, class Near>
__device__ void meet_others(bool has_far, bool has_near, const LeftRows<size>& far_rows,
                            const RightRows<size, 4>& far_others, const LeftRows<size>& near_rows,
                            const RightRows<size, 2>& near_others, const Far& take_far, const Near& take_near) {
  if (has_far) {
    const auto far = multiply<exact, 4>(0, size / 8, far_rows, far_others);
#pragma unroll
    for (int n = 0; n < 4; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) take_far(n, i, far.of(n, i));
  }
  if (has_near) {
    const auto near = multiply<exact, 2>(0, size / 8, near_rows, near_others);
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) take_near(n, i, near.of(n, i));
  }
}

// The answers of one chunk, or from behind the gradients of its values: rows of A times values, or of its transpose
// times dy, and what the state, or the flow, gives.
template <int size, bool exact, bool back>
__global__ void __launch_bounds__(block_threads, gla_pair_blocks)
    gla_mix_kernel(GlaSizes s, GlaArrays in, GlaMemory from, Sink out) {
  await_previous();
  struct Memory {
    float q[chunk * size], k[chunk * size], sums[chunk * size], x[chunk * size];
  };
  extern __shared__ float4 memory[];
  Memory& m = *reinterpret_cast<Memory*>(memory);
  const Matrix<size> q{m.q}, k{m.k}, sums{m.sums}, x{m.x};
  const Matrix<size> carried{m.sums};  // q e^l or k e^(l_last - l), when the sums are no longer needed
  const Matrix<size> S{m.k};           // when the tokens have met
  const Unit unit(s, static_cast<int>(blockIdx.x));
  const std::size_t numbers = unit.index * chunk * size;
  fetch<chunk>(q, unit.strip(s, in.q, s.keys));
  fetch<chunk>(k, unit.strip(s, in.k, s.keys));
  fetch<chunk>(sums, {from.sums + numbers, std::size_t{size}, chunk, size});
  commit();
  fetch<chunk>(x, unit.strip(s, back ? in.dy : in.v, s.width));
  commit();
  wait<1>();
  __syncthreads();

  const Place p;
  float met[2][4] = {};
  meet_in_sub_chunk<size, back>(back ? k : q, back ? q : k, sums, p, met);
  float weights[chunk / 8][4] = {};
#pragma unroll
  for (int n = 0; n < chunk / 8; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (n / 2 == p.warp) weights[n][i] = met[n % 2][i];
  __syncthreads();
  carry_queries(q, sums);
  carry_keys(k, sums);
  __syncthreads();
  fetch<chunk>(carried, {(back ? from.keys : from.queries) + numbers, std::size_t{size}, chunk, size});
  commit();

  const int top = 16 * p.warp;
  if constexpr (back) {
    const bool is_first = p.warp == 0;
    meet_others<exact, size>(
        p.warp < 2, p.warp % 2 == 0, LeftRows<size>(k, top), RightRows<size, 4>(q, 32),
        LeftRows<size>(k, is_first ? 48 : 32), RightRows<size, 2>(q, is_first ? 16 : 0),
        [&](int n, int i, float value) { weights[4 + n][i] = value; },
        [&](int n, int i, float value) { (is_first ? weights[2 + n][i] : weights[6 + n][i]) = value; });
  } else {
    const bool is_second = p.warp == 1;
    meet_others<exact, size>(
        p.warp >= 2, p.warp % 2 == 1, LeftRows<size>(q, top), RightRows<size, 4>(k, 0),
        LeftRows<size>(q, is_second ? 16 : 0), RightRows<size, 2>(k, is_second ? 48 : 32),
        [&](int n, int i, float value) { weights[n][i] = value; },
        [&](int n, int i, float value) { (is_second ? weights[n][i] : weights[4 + n][i]) = value; });
  }
  wait<1>();
  __syncthreads();
  fetch<size>(S, {(back ? from.flows : from.states) + unit.index * size * size, std::size_t{size}, size, size});
  commit();

  const int begin = back ? 2 * p.warp : 0, end = back ? chunk / 8 : 2 * p.warp + 2;
#pragma unroll 1
  for (int half = 0; half < size / 32; ++half) {
    const auto inside = multiply<exact, 4>(begin, end, weights, RightColumns<size, 4, true>(x, 32 * half));
    if (half == 0) {
      wait<0>();
      __syncthreads();
    }
    const auto outside =
        multiply<exact, 4>(0, size / 8, LeftRows<size>(carried, top), RightRows<size, 4>(S, 32 * half));
#pragma unroll
    for (int n = 0; n < 4; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int t = p.row() + i / 2 * 8, column = 32 * half + 8 * n + p.column() + i % 2;
        if (t >= unit.count || column >= s.width) continue;
        out.put(static_cast<unsigned>(unit.at(s, t, s.width) + column), s.scale * (outside.of(n, i) + inside.of(n, i)));
      }
  }
}

/// What the tokens of a sub-chunk give each other, a thread a channel: sums over earlier tokens (back: later ones) of
/// weights times keys (queries), which fade from token to token. `to`: rows of `size` numbers.
template <int size, bool back>
__device__ void sum_in_sub_chunk(const float (&weights)[sub_chunk][sub_chunk], const float (&decays)[sub_chunk],
                                 const Matrix<size>& others, float* to, int first, int channel) {
  float held[sub_chunk];
#pragma unroll
  for (int step = 0; step < sub_chunk; ++step) {
    const int t = back ? sub_chunk - 1 - step : step;
    const float decay = back ? decays[t + 1 < sub_chunk ? t + 1 : 0] : decays[t];
    float sum = 0;
#pragma unroll
    for (int done = 0; done < step; ++done) {
      const int j = back ? sub_chunk - 1 - done : done;
      held[j] *= decay;
      sum = fmaf(weights[t][j], held[j], sum);
    }
    held[t] = others.at(first + t, channel);
    to[t * size + channel] = sum;
  }
}

// Gradients of one chunk's queries, or back of its keys: weights w times what they met, and what the state, or the
// flow, gives. What a token gives itself is left out.
template <int size, bool exact, bool back>
__global__ void __launch_bounds__(block_threads, gla_pair_blocks)
    gla_turn_kernel(GlaSizes s, GlaArrays in, GlaMemory to) {
  await_previous();
  struct Memory {
    float left[chunk * size], right[chunk * size], others[chunk * size], sums[chunk * size];
    float weights[sub_chunks][sub_chunk][sub_chunk];
  };
  extern __shared__ float4 memory[];
  Memory& m = *reinterpret_cast<Memory*>(memory);
  const Matrix<size> left{m.left}, right{m.right}, others{m.others}, sums{m.sums};
  const Matrix<size> S{m.right};  // when the weights are there
  const Unit unit(s, static_cast<int>(blockIdx.x));
  fetch<chunk>(left, unit.strip(s, back ? in.v : in.dy, s.width));
  fetch<chunk>(right, unit.strip(s, back ? in.dy : in.v, s.width));
  fetch<chunk>(others, unit.strip(s, back ? in.q : in.k, s.keys));
  fetch<chunk>(sums, {to.sums + unit.index * chunk * size, std::size_t{size}, chunk, size});
  commit();
  wait<0>();
  __syncthreads();

  const Place p;
  const int top = 16 * p.warp;
  float weights[chunk / 8][4] = {};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (back ? half < p.warp / 2 : half > p.warp / 2) continue;  // the wrong side of the diagonal
    const auto part = multiply<exact, 4>(0, size / 8, LeftRows<size>(left, top), RightRows<size, 4>(right, 32 * half));
#pragma unroll
    for (int n = 0; n < 4; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = p.row() + i / 2 * 8, column = 32 * half + 8 * n + p.column() + i % 2;
        weights[4 * half + n][i] = (back ? column > row : column < row) ? part.of(n, i) : 0.0f;
        if (!back && column == row) to.own[unit.index * chunk + row] = part.of(n, i);
      }
  }
#pragma unroll
  for (int n = 0; n < chunk / 8; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (n / 2 == p.warp) m.weights[p.warp][p.quad + i / 2 * 8][n % 2 * 8 + p.column() + i % 2] = weights[n][i];
  __syncthreads();
  fetch<size>(S, {(back ? to.flows : to.states) + unit.index * size * size, std::size_t{size}, size, size});
  commit();
  float* result = (back ? to.dk : to.dq) + unit.index * chunk * size;
  for (int i = static_cast<int>(threadIdx.x); i < sub_chunks * size; i += block_threads) {
    const int part = i / size, channel = i % size, first = part * sub_chunk;
    float decays[sub_chunk];
#pragma unroll
    for (int t = 0; t < sub_chunk; ++t) {
      const bool valid = first + t < unit.count && channel < s.keys;
      decays[t] = valid ? power_of_two(base_two_log(in.g[unit.at(s, first + t, s.keys) + channel])) : 1.0f;
    }
    sum_in_sub_chunk<size, back>(m.weights[part], decays, others, result + first * size, first, channel);
  }
  __syncthreads();
  if constexpr (back) {
    carry_queries(others, sums);
  } else {
    carry_keys(others, sums);
  }
  wait<0>();
  __syncthreads();

  const bool has_far = back ? p.warp < 2 : p.warp >= 2, has_near = back ? p.warp % 2 == 0 : p.warp % 2 == 1;
  // Rows of `others` that near weights meet, less the number of the first such token.
  const int shift = back ? (p.warp == 0 ? 0 : -48) : (p.warp == 1 ? 48 : 0);
  const int near_step = back ? (p.warp == 0 ? 2 : 6) : (p.warp == 1 ? 0 : 4), far_step = back ? 4 : 0;
#pragma unroll 1
  for (int half = 0; half < size / 32; ++half) {
    float total[4][4];
    // 2^x of what the state, far and near tokens give, where `x` of a number counts from the near border.
    const auto add = [&](const auto& product, const auto& exponent, bool is_first) {
#pragma unroll
      for (int n = 0; n < 4; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int channel = 32 * half + 8 * n + p.column() + e;
          const float beyond = exponent(channel), own_total = total_of(sums, p.warp, channel);
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            const float sum = sums.at(p.row() + 8 * r, channel);
            const float weight = power_of_two((back ? own_total - sum : sum) + beyond);
            const float value = weight * product.of(n, 2 * r + e);
            total[n][2 * r + e] = is_first ? value : total[n][2 * r + e] + value;
          }
        }
    };
    add(
        multiply<exact, 4>(0, size / 8, LeftRows<size>(left, top), RightColumns<size, 4, false>(S, 32 * half)),
        [&](int channel) {
          float sum = 0;
#pragma unroll
          for (int part = 0; part < sub_chunks; ++part)
            if (back ? part > p.warp : part < p.warp) sum += total_of(sums, part, channel);
          return sum;
        },
        true);
    if (has_far) {
      add(
          multiply<exact, 4>(far_step, far_step + 4, weights, RightColumns<size, 4, true>(others, 32 * half)),
          [&](int channel) {
            const bool is_outer = back ? p.warp == 0 : p.warp == 3;
            return is_outer ? total_of(sums, back ? 1 : 2, channel) : 0.0f;
          },
          false);
    }
    if (has_near) {
      const Matrix<size> shifted{m.others + shift * size};
      add(
          multiply<exact, 4>(near_step, near_step + 2, weights, RightColumns<size, 4, true>(shifted, 32 * half)),
          [](int) { return 0.0f; }, false);
    }
#pragma unroll
    for (int n = 0; n < 4; ++n)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int column = 32 * half + 8 * n;
        auto& place = reinterpret_cast<float2&>(result[(p.row() + 8 * r) * size + column + p.column()]);
        place = make_float2(total[n][2 * r] + place.x, total[n][2 * r + 1] + place.y);
      }
  }
}

// dq, dk and dg, a thread a channel of a sub-chunk.
template <int size>
__global__ void __launch_bounds__(sub_chunks* size)
    gla_finish_kernel(GlaSizes s, GlaArrays in, GlaMemory from, Sink dq, Sink dk, Sink dg) {
  await_previous();
  __shared__ float paths[sub_chunks][size], borders[sub_chunks][size];
  const Unit unit(s, static_cast<int>(blockIdx.x));
  const int channel = static_cast<int>(threadIdx.x) % size, part = static_cast<int>(threadIdx.x) / size;
  const int first = part * sub_chunk;
  float path[sub_chunk], all = 0, border = 0;
#pragma unroll
  for (int t = sub_chunk - 1; t >= 0; --t) {
    const std::size_t token = unit.index * chunk + first + t;
    const bool valid = first + t < unit.count && channel < s.keys;
    const std::size_t at = unit.at(s, first + t, s.keys) + channel;
    const float q = valid ? in.q[at] : 0.0f, k = valid ? in.k[at] : 0.0f;
    const float to_q = from.dq[token * size + channel], to_k = from.dk[token * size + channel];
    all += q * to_q - k * to_k;
    path[t] = all;
    if (!valid) continue;
    const float own = from.own[token];
    if (dq.wanted()) dq.put(static_cast<unsigned>(at), s.scale * fmaf(own, k, to_q));
    if (dk.wanted()) dk.put(static_cast<unsigned>(at), s.scale * fmaf(own, q, to_k));
  }
  if (!dg.wanted()) return;
  if (unit.c + 1 < s.chunks) {  // nothing flows into the last
    constexpr int each = size / sub_chunks;
    const float* state = from.states + ((unit.index + 1) * size + part * each) * size + channel;
    const float* flow = from.flows + (unit.index * size + part * each) * size + channel;
#pragma unroll
    for (int i = 0; i < each; ++i) border = fmaf(state[i * size], flow[i * size], border);
  }
  paths[part][channel] = all;
  borders[part][channel] = border;
  __syncthreads();
  float behind = 0;
#pragma unroll
  for (int other = sub_chunks - 1; other >= 0; --other) behind += borders[other][channel];
#pragma unroll
  for (int other = sub_chunks - 1; other >= 0; --other)
    if (other > part) behind += paths[other][channel];
#pragma unroll
  for (int t = 0; t < sub_chunk; ++t) {
    if (first + t < unit.count && channel < s.keys)
      dg.put(static_cast<unsigned>(unit.at(s, first + t, s.keys) + channel), s.scale * (path[t] + behind));
  }
}

GlaSizes gla_sizes_of(const DeltaInputs& in) {
  const Shape& q = in.q.shape;
  return {static_cast<int>(q[0]),      static_cast<int>(q[1]),          static_cast<int>(q[2]),
          static_cast<int>(q[3]),      static_cast<int>(in.v.shape[3]), static_cast<int>((q[1] + chunk - 1) / chunk),
          static_cast<float>(in.scale)};
}

GlaArrays gla_arrays_of(const DeltaInputs& in, const Tensor& dy) {
  return {in.q.as<float>(), in.k.as<float>(), in.v.as<float>(), in.g.as<float>(), dy.as<float>()};
}

int gla_size(const GlaSizes& s) { return s.keys <= 32 && s.width <= 32 ? 32 : 64; }
std::int64_t gla_units(const GlaSizes& s) { return std::int64_t{s.batch} * s.heads * s.chunks; }

/// `workspace`: for the gradients, or null.
GlaMemory gla_memory_of(const GlaSizes& s, float* memory, float* workspace) {
  const auto units = static_cast<std::size_t>(gla_units(s)), size = static_cast<std::size_t>(gla_size(s));
  const auto take = [&](std::size_t numbers) { return std::exchange(memory, memory + units * numbers); };
  GlaMemory m{};
  for (float** tokens : {&m.sums, &m.queries, &m.keys}) *tokens = take(chunk * size);
  m.fades = take(size);
  m.states = take(size * size);
  if (workspace == nullptr) return m;
  memory = workspace;
  m.flows = take(size * size);
  m.dq = take(chunk * size);
  m.dk = take(chunk * size);
  m.own = take(chunk);
  return m;
}

/// Calls body(size, exact) with what kernels are made for as types.
template <class Body>
void with_gla_size(const GlaSizes& s, bool exact, const Body& body) {
  const auto with_size = [&](auto size) {
    if (exact) return body(size, std::true_type{});
    body(size, std::false_type{});
  };
  if (gla_size(s) == 32) return with_size(std::integral_constant<int, 32>{});
  with_size(std::integral_constant<int, 64>{});
}

void gla_prepare(cudaStream_t stream, const GlaSizes& s, const GlaArrays& in, const GlaMemory& to) {
  const auto units = static_cast<unsigned>(gla_units(s));
  with_gla_size(s, true, [&](auto size, auto) {
    launch(gla_prepare_kernel<size()>, units, sub_chunks * size(), 0, stream, s, in, to);
  });
}

void gla_walk(cudaStream_t stream, const GlaSizes& s, const GlaArrays& in, bool exact, const GlaMemory& to, Ways ways,
              float* state, bool resume) {
  with_gla_size(s, exact, [&](auto size, auto is_exact) {
    const auto kernel = gla_walk_kernel<size(), is_exact()>;
    constexpr int bytes = 2 * 4 * (chunk * (gla_walk_width + size()) + size());
    allow_shared_memory(reinterpret_cast<const void*>(kernel), bytes, "gla");
    constexpr int walkers = size() / gla_walk_width;
    const dim3 grid(static_cast<unsigned>(s.batch * s.heads * walkers), ways == Ways::both ? 2 : 1);
    launch(kernel, grid, block_threads, bytes, stream, s, in, to, walkers, ways == Ways::back ? 1 : 0, state, resume);
  });
}

template <bool back>
void gla_mix(cudaStream_t stream, const GlaSizes& s, const GlaArrays& in, bool exact, const GlaMemory& from,
             const Sink& out) {
  with_gla_size(s, exact, [&](auto size, auto is_exact) {
    const auto kernel = gla_mix_kernel<size(), is_exact(), back>;
    constexpr int bytes = 4 * 4 * chunk * size();
    allow_shared_memory(reinterpret_cast<const void*>(kernel), bytes, "gla");
    launch(kernel, static_cast<unsigned>(gla_units(s)), block_threads, bytes, stream, s, in, from, out);
  });
}

template <bool back>
void gla_turn(cudaStream_t stream, const GlaSizes& s, const GlaArrays& in, bool exact, const GlaMemory& to) {
  with_gla_size(s, exact, [&](auto size, auto is_exact) {
    const auto kernel = gla_turn_kernel<size(), is_exact(), back>;
    constexpr int bytes = 4 * (4 * chunk * size() + chunk * sub_chunk);
    allow_shared_memory(reinterpret_cast<const void*>(kernel), bytes, "gla");
    launch(kernel, static_cast<unsigned>(gla_units(s)), block_threads, bytes, stream, s, in, to);
  });
}

}  // namespace

bool is_chunked_gla(const DeltaInputs& in) {
  return !in.beta.defined() && in.g.defined() && in.g.shape.rank() == 4 && in.q.shape[1] >= shortest_gla &&
         in.q.shape[3] <= 64 && in.v.shape[3] <= 64;
}

std::int64_t gla_memory(const DeltaInputs& in) {
  const GlaSizes s = gla_sizes_of(in);
  const std::int64_t size = gla_size(s);
  return gla_units(s) * (3 * chunk * size + size + size * size);
}

std::int64_t gla_workspace(const DeltaInputs& in) {
  const GlaSizes s = gla_sizes_of(in);
  const std::int64_t size = gla_size(s);
  return (in.kept.defined() ? 0 : gla_memory(in)) + gla_units(s) * (size * size + 2 * chunk * size + chunk);
}

void gla_by_chunks(cudaStream_t stream, const DeltaInputs& in, bool exact, float* memory, const Tensor& y,
                   const Tensor& state, bool resume) {
  const GlaSizes s = gla_sizes_of(in);
  const GlaArrays arrays = gla_arrays_of(in, {});
  const GlaMemory to = gla_memory_of(s, memory, nullptr);
  gla_prepare(stream, s, arrays, to);
  gla_walk(stream, s, arrays, exact, to, Ways::forward, state.as<float>(), resume);
  gla_mix<false>(stream, s, arrays, exact, to, sink_of({y, false}));
}

void gla_by_chunks_backward(cudaStream_t stream, const DeltaInputs& in, bool exact, const Tensor& dy, float* workspace,
                            const DeltaGrads& out) {
  const GlaSizes s = gla_sizes_of(in);
  const GlaArrays arrays = gla_arrays_of(in, dy);
  const bool is_kept = in.kept.defined();
  const GlaMemory to = is_kept ? gla_memory_of(s, in.kept.as<float>(), workspace)
                               : gla_memory_of(s, workspace, workspace + gla_memory(in));
  if (!is_kept) gla_prepare(stream, s, arrays, to);
  gla_walk(stream, s, arrays, exact, to, is_kept ? Ways::back : Ways::both, nullptr, false);
  if (out.v.wanted()) gla_mix<true>(stream, s, arrays, exact, to, sink_of(out.v));
  if (!out.q.wanted() && !out.k.wanted() && !out.g.wanted()) return;
  gla_turn<false>(stream, s, arrays, exact, to);
  gla_turn<true>(stream, s, arrays, exact, to);
  with_gla_size(s, exact, [&](auto size, auto) {
    launch(gla_finish_kernel<size()>, static_cast<unsigned>(gla_units(s)), sub_chunks * size(), 0, stream, s, arrays,
           to, sink_of(out.q), sink_of(out.k), sink_of(out.g));
  });
}

}  // namespace afterglow::scan
