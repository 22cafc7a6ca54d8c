// Gated linear attention, S_t = diag(e^g_t) S_{t-1} + k_t v_t^T, y_t = scale S_t^T q_t, by chunks of four sub-chunks of
// 16 tokens. l: log decay (base 2) summed from the sub-chunk's first token on; f = 2^l of its last token; S: the state
// before the chunk; F: its gradient behind the chunk; enter, leave: products of f before and after the sub-chunk.
//     Q_t = q_t 2^l_t, K_j = k_j f 2^-l_j, A_tj = Q_t . K_j times f between their sub-chunks, 1 / f within one
//     y_t = scale (Q_t . enter S + sum over j <= t of A_tj v_j),   S' = enter f leave S + sum_j leave K_j v_j^T
//     dv_j = scale (K_j . leave F + sum over t >= j of A_tj dy_t),   w_tj = dy_t . v_j
//     dq_t = scale 2^l_t (X_t + w_tt K_t / f),   X_t = enter S dy_t + sum over j < t of w_tj K_j, decayed as in A
//     dk_j = scale f 2^-l_j (Y_j + w_jj Q_j / f),   Y_j = leave F v_j + sum over t > j of w_tj Q_t, decayed as in A
//     dg_t = sum over s >= t of (Q_s X_s - K_s Y_s) + rows of S' F
// Grid: a block a chunk of a head, or of a piece of a wide one (gla_passes.cuh). Plain loops: gla_chunks_test.cpp.
#include <algorithm>

#include "gpu/ops/delta/delta_chunks.cuh"
#include "gpu/ops/gla/gla_passes.cuh"

namespace afterglow::scan {

using namespace device;

namespace {

constexpr int half_keys = 32;             // channels that the gradient handles at once
constexpr int gla_state_pass_width = 32;  // channels of the values of a state-passing block
constexpr int gla_state_pass_stages = 4;  // chunks in its pipeline, one less with less shared memory
constexpr int gla_state_pass_blocks = 2;  // of a multiprocessor
constexpr int steep_blocks = 512;         // minimum for the search for steep channels
constexpr int min_gla_tokens = 128;       // tokens
constexpr int max_pieces = 4;             // of a head
constexpr float min_steep_log =
    -48.0f;  // sum of logarithms over a sub-chunk, so that 1 / f times a number stays finite

/// 2^x, as exact for long sums as for short ones.
__device__ inline float power_of_two(double x) {
  const float high = float(x);
  return device::power_of_two(high) * fmaf(0.6931471805599453f, float(x - high), 1.0f);
}

// One thread for each channel of a sub-chunk. `corrects`: with beta, and also keys as queries.
template <int size, bool corrects, class T>
__global__ void __launch_bounds__(sub_chunks* size) gla_prepare_kernel(GlaSizes s, GlaArrays<T> in, GlaMemory to) {
  wait_for_previous_kernel();
  __shared__ double totals[sub_chunks][size];
  const Unit unit(s, int(blockIdx.x));
  const int channel = int(threadIdx.x) % size, part = int(threadIdx.x) / size;
  const int first = part * sub_chunk;
  float logs[sub_chunk], q[sub_chunk], k[sub_chunk], weights[corrects ? sub_chunk : 1];
  unrolled<sub_chunk>([&](int i) {
    const bool inside = first + i < unit.count && channel < s.keys;
    const std::size_t from = unit.at(s, first + i, s.keys) + channel;
    logs[i] = inside ? base_two_log(in.g[from]) : 0.0f;
    q[i] = inside ? float(in.q[from]) : 0.0f;
    k[i] = inside ? float(in.k[from]) : 0.0f;
    if constexpr (corrects) weights[i] = inside ? in.beta[unit.at_whole(s, first + i)] : 0.0f;
  });
  double total = 0;
  unrolled<sub_chunk>([&](int i) { total += logs[i]; });
  totals[part][channel] = total;
  __syncthreads();
  double before = 0, behind = 0;
  unrolled<sub_chunks>([&](int other) {
    if (other < part) before += totals[other][channel];
    if (other > part) behind += totals[other][channel];
  });
  double sum = 0;
  unrolled<sub_chunk>([&](int i) {
    sum += logs[i];
    const std::size_t at = (unit.index * chunk + first + i) * size + channel;
    to.sums[at] = float(sum);
    const float entered = power_of_two(sum);
    to.queries[at] = q[i] * entered;
    if constexpr (corrects) {
      to.recalls[at] = k[i] * entered;
      k[i] *= weights[i];
    }
    to.keys[at] = k[i] * power_of_two(total - sum);
  });
  const bool is_steep = total < min_steep_log;
  const std::size_t at = (unit.index * sub_chunks + part) * size + channel;
  to.fades[at] = power_of_two(total);
  to.reach[at] = is_steep ? 0.0f : power_of_two(-total);
  to.enters[at] = power_of_two(before);
  to.leaves[at] = power_of_two(behind);
  const bool any = __syncthreads_or(is_steep);
  if (threadIdx.x == 0) to.steep[4 * unit.index] = any ? 1.0f : 0.0f;
}

// The states before all chunks (direction 0), or the flows from later chunks into them (1), of 32 channels of the
// values that a head meets in a round.
template <int size, bool exact, int state_pass_stages, class T>
__global__ void __launch_bounds__(block_threads, gla_state_pass_blocks)
    gla_state_pass_kernel(GlaSizes s, GlaArrays<T> in, GlaMemory to, int strips, int direction, float* state,
                          bool resume) {
  wait_for_previous_kernel();
  constexpr int warp_states = size / 2, tiles = warp_states / 8;
  struct Stage {
    float u[chunk * gla_state_pass_width], v[chunk * size], fades[sub_chunks * size];
  };
  extern __shared__ float4 memory[];
  Stage* stages = reinterpret_cast<Stage*>(memory);
  const bool backward = direction + int(blockIdx.y) == 1;
  const int round = int(blockIdx.z);
  const int pair = int(blockIdx.x) / strips;
  const int first = int(blockIdx.x) % strips * gla_state_pass_width;
  const auto place = [&](int i) { return pair * s.chunks + (backward ? s.chunks - 1 - i : i); };
  const auto start = [&](int i) {
    if (i < s.chunks) {
      const Unit unit(s, place(i));
      Stage& stage = stages[i % state_pass_stages];
      StripOf<T> values = unit.met_in(s, round).strip(s, backward ? in.dy : in.v, s.width);
      values.data += first;
      values.width = max(s.width - first, 0);
      fetch_tokens<chunk>(SharedMatrix<gla_state_pass_width>{stage.u}, values);
      fetch<chunk>(SharedMatrix<size>{stage.v},
                   {(backward ? to.queries : to.keys) + unit.index * chunk * size, std::size_t{size}, chunk, size});
      if (threadIdx.x < size)
        device::tiles::copy_piece(&stage.fades[4 * threadIdx.x], to.fades + 4 * (unit.index * size + threadIdx.x),
                                  true);
    }
    commit();
  };
  for (int i = 0; i + 1 < state_pass_stages; ++i) start(i);

  const ThreadPosition p;
  const int channel = p.warp % 2 * 16, number = p.warp / 2 * warp_states;
  const int own_channel = first + channel + p.quad, own_state = number + p.column();
  const auto each = [&](const auto& visit) {
    unrolled<tiles, 4>([&](int n, int i) { visit(n, i, own_channel + i / 2 * 8, own_state + 8 * n + i % 2); });
  };
  const int row = s.width << s.halvings;
  float* kept = state + std::size_t(pair) * s.keys * row + ((pair ^ round) % s.pieces()) * s.width;
  float now[tiles][4] = {};
  if (resume && !backward) {
    each([&](int n, int i, int channel_of, int state_of) {
      if (channel_of < s.width && state_of < s.keys) now[n][i] = kept[state_of * row + channel_of];
    });
  }
  for (int i = 0; i < s.chunks; ++i) {
    wait<state_pass_stages - 2>();
    __syncthreads();
    start(i + state_pass_stages - 1);
    Stage& stage = stages[i % state_pass_stages];
    widen<T, chunk>(SharedMatrix<gla_state_pass_width>{stage.u});
    float* out = (backward ? to.flows : to.states) + met_at<size>(s, round, place(i));
    unrolled<tiles, 2>([&](int n, int r) {
      reinterpret_cast<float2&>(out[(own_channel + 8 * r) * size + own_state + 8 * n]) =
          make_float2(now[n][2 * r], now[n][2 * r + 1]);
    });
    const LeftColumns<gla_state_pass_width> left(SharedMatrix<gla_state_pass_width>{stage.u}, channel);
    const RightColumns<size, tiles, false> right(SharedMatrix<size>{stage.v}, number);
#pragma unroll 1
    for (int step = 0; step < sub_chunks; ++step) {
      const int part = backward ? sub_chunks - 1 - step : step;
      const auto product = multiply<exact, tiles>(2 * part, 2 * part + 2, left, right);
      each([&](int n, int k, int, int state_of) {
        now[n][k] = fmaf(stage.fades[part * size + state_of], now[n][k], product.of(n, k));
      });
    }
  }
  if (state == nullptr || backward) return;
  each([&](int n, int i, int channel_of, int state_of) {
    if (channel_of < s.width && state_of < s.keys) kept[state_of * row + channel_of] = now[n][i];
  });
}

/// Products of the 16 rows of `left` that a warp owns with the rows of `right` up to the same token; when `backward`
/// with the rows of later tokens, and with `diagonal` of the same token too.
template <bool exact, int size, bool backward, bool diagonal>
__device__ void meet(const SharedMatrix<size>& left, const SharedMatrix<size>& right, const ThreadPosition& p,
                     float (&met)[chunk / 8][4]) {
  unrolled<2>([&](int half) {
    if (backward ? half < p.warp / 2 : half > p.warp / 2) return;  // the wrong side of the diagonal
    const auto part =
        multiply<exact, 4>(0, size / 8, LeftRows<size>(left, 16 * p.warp), RightRows<size, 4>(right, 32 * half));
    unrolled<4, 4>([&](int n, int i) {
      const int beyond = 32 * half + 8 * n + p.column() + i % 2 - (p.row() + i / 2 * 8);
      if (backward ? beyond > -int{diagonal} : beyond <= 0) met[4 * half + n][i] = part.of(n, i);
    });
  });
}

/// sum += w times the rows of `right` of earlier tokens (when `backward` of later ones), one sub-chunk after the other.
/// `sum` enters with the part from outside the chunk, which decays in every sub-chunk that it passes.
template <bool exact, bool backward>
__device__ void gather(const float (&w)[chunk / 8][4], const ThreadPosition& p, const SharedMatrix<half_keys>& right,
                       const float* fades, const float* reach, float (&sum)[4][4]) {
  const RightColumns<half_keys, 4, true> columns(right, 0);
#pragma unroll
  for (int step = 0; step < sub_chunks; ++step) {
    const int part = backward ? sub_chunks - 1 - step : step;
    if (backward ? part < p.warp : part > p.warp) continue;
    ProductTile<exact, 4> product;
#pragma unroll
    for (int k = 2 * part; k < 2 * part + 2; ++k) {
      float side[1][4], left[4];
      unrolled<4>([&](int i) {
        const int beyond = 8 * k + p.column() + i % 2 - (p.row() + i / 2 * 8);
        side[0][i] = (backward ? beyond > 0 : beyond < 0) ? w[k][i] : 0.0f;
      });
      take(side, left);
      float numbers[4][2];
      columns.load(k, numbers);
      product.add(left, numbers);
    }
    const bool is_own = part == p.warp;
    const float* factors = (is_own ? reach : fades) + part * half_keys + p.column();
    unrolled<4, 4>([&](int n, int i) {
      const float factor = factors[8 * n + i % 2];
      sum[n][i] = is_own ? fmaf(factor, product.of(n, i), sum[n][i]) : fmaf(factor, sum[n][i], product.of(n, i));
    });
  }
}

// The outputs of one chunk, or when backward the gradients of its values: rows of A times values, or of its transpose
// times dy, plus the part of the state, or the flow. `whole`: heads are one piece; otherwise A and the states' parts
// are summed over the pieces of the keys.
template <int size, bool exact, bool backward, bool whole, class T>
__global__ void __launch_bounds__(block_threads, exact && !whole ? 2 : gla_pair_blocks)
    gla_mix_kernel(GlaSizes s, GlaArrays<T> in, GlaMemory from, SinkOf<T> out) {
  wait_for_previous_kernel();
  struct Memory {
    float own[chunk * size], others[chunk * size], x[chunk * size], state[size * size];
    Decays<size> decays;
  };
  extern __shared__ float4 memory[];
  Memory& m = *reinterpret_cast<Memory*>(memory);
  const SharedMatrix<size> own{m.own}, others{m.others}, x{m.x}, S{m.state};
  const Unit unit(s, int(blockIdx.x));
  const auto start = [&](int round) {
    const std::size_t keys = unit.met_in(s, round).index, tokens = keys * chunk * size;
    fetch_own<chunk>(own, (backward ? from.keys : from.queries) + tokens, size);
    fetch_own<chunk>(others, (backward ? from.queries : from.keys) + tokens, size);
    m.decays.start(from, keys, backward);
    commit();
    if (round == 0) fetch_tokens<chunk>(x, unit.strip(s, backward ? in.dy : in.v, s.width));
    fetch_own<size>(S, (backward ? from.flows : from.states) + met_at<size>(s, round, keys), size);
    commit();
  };
  const ThreadPosition p;
  float weights[chunk / 8][4] = {};
  const auto meet_keys = [&] {
    wait<1>();
    __syncthreads();
    meet_faded<exact, backward>(own, others, p, m.decays, weights);
    wait<0>();
    __syncthreads();
  };
  const auto of_state = [&](int half) {
    return multiply<exact, 4>(
        0, size / 8, FadedRows<size>(own, 16 * p.warp, m.decays.edges + p.warp * size, m.decays.ones(backward)),
        RightRows<size, 4>(S, 32 * half));
  };
  const auto put = [&](int half, const auto& find_outside) {
    const int begin = backward ? 2 * p.warp : 0, end = backward ? chunk / 8 : 2 * p.warp + 2;
    const auto inside = multiply<exact, 4>(begin, end, weights, RightColumns<size, 4, true>(x, 32 * half));
    const auto outside = find_outside(half);
    unrolled<4, 2>([&](int n, int r) {
      const int t = p.row() + 8 * r;
      const auto sum = [&](int e) { return s.scale * (outside.of(n, 2 * r + e) + inside.of(n, 2 * r + e)); };
      if (t < unit.count)
        put_two(out, unit.at(s, t), 32 * half + 8 * n + p.column(), s.width, make_float2(sum(0), sum(1)));
    });
  };
  if constexpr (whole) {
    start(0);
    meet_keys();
    widen<T, chunk>(x);
#pragma unroll 1
    for (int half = 0; half < size / 32; ++half) put(half, of_state);
  } else {
    ProductTile<false, 4> outside[size / 32];
#pragma unroll 1
    for (int round = 0; round < s.pieces(); ++round) {
      start(round);
      meet_keys();
      unrolled<size / 32>([&](int half) {
        const auto more = of_state(half);
        unrolled<4, 4>([&](int n, int i) { outside[half].sum[n][i] += more.of(n, i); });
      });
      __syncthreads();
    }
    widen<T, chunk>(x);
    unrolled<size / 32>([&](int half) { put(half, [&](int of) { return outside[of]; }); });
  }
}

template <class T>
__device__ void put_rows(const SinkOf<T>& to, const SharedMatrix<half_keys>& from, const GlaSizes& s, const Unit& unit,
                         int first) {
  constexpr int pieces = half_keys / 4;
  const int own = int(threadIdx.x) % pieces * 4, channel = first + own;
#pragma unroll
  for (int i = 0; i < chunk; i += block_threads / pieces) {
    const int t = i + int(threadIdx.x) / pieces;
    if (t >= unit.count) break;
    const auto four = Piece<4>::of(&from.at(t, own), true);
    if (channel + 4 <= s.keys && s.keys % 4 == 0) {
      four.put(to, unsigned(unit.at(s, t)), unsigned(channel));
      continue;
    }
    unrolled<4>([&](int e) {
      if (channel + e < s.keys) to.put(unit.at(s, t), unsigned(channel + e), four.v[e]);
    });
  }
}

// The gradients of one chunk's queries, keys and decays from the values of a round, 32 channels at a time.
template <int size, bool exact, class T>
__global__ void __launch_bounds__(block_threads, exact ? 2 : gla_pair_blocks)
    gla_query_key_kernel(GlaSizes s, GlaArrays<T> in, GlaMemory from, int round, SinkOf<T> dq, SinkOf<T> dk, Sink dg) {
  wait_for_previous_kernel();
  struct Memory {
    float dy[chunk * size], v[chunk * size];
    float state[size * half_keys], flow[size * half_keys];
    float queries[chunk * half_keys], keys[chunk * half_keys], sums[chunk * half_keys];
    float totals[sub_chunks][half_keys];  // of sums
    float fades[sub_chunks][half_keys], reach[sub_chunks][half_keys];
    float paths[sub_chunks][half_keys], borders[sub_chunks][half_keys];  // of dg
    float own[chunk];                                                    // w_tt
  };
  extern __shared__ float4 memory[];
  Memory& m = *reinterpret_cast<Memory*>(memory);
  const SharedMatrix<size> dy{m.dy}, v{m.v};
  const SharedMatrix<half_keys> Q{m.queries}, K{m.keys}, S{m.state}, F{m.flow}, sums{m.sums};
  const Unit unit(s, int(blockIdx.x));
  const ThreadPosition p;
  const int thread = int(threadIdx.x), part = thread / half_keys, own_channel = thread % half_keys;
  const std::size_t tokens = unit.index * chunk * size, states = met_at<size>(s, round, unit.index);
  const auto start_states = [&](int first) {
    fetch_own<size>(S, from.states + states + first, size);
    fetch_own<size>(F, from.flows + states + first, size);
  };
  const auto start_tokens = [&](int first) {
    fetch_own<chunk>(Q, from.queries + tokens + first, size);
    fetch_own<chunk>(K, from.keys + tokens + first, size);
    fetch_own<chunk>(sums, from.sums + tokens + first, size);
    const float* last = from.sums + tokens + first + (part * sub_chunk + sub_chunk - 1) * size;
    __pipeline_memcpy_async(&m.totals[part][own_channel], last + own_channel, 4);
    const std::size_t decay = (unit.index * sub_chunks + part) * size + first + own_channel;
    __pipeline_memcpy_async(&m.fades[part][own_channel], from.fades + decay, 4);
    __pipeline_memcpy_async(&m.reach[part][own_channel], from.reach + decay, 4);
    commit();
  };
  const Unit values = unit.met_in(s, round);
  fetch_tokens<chunk>(dy, values.strip(s, in.dy, s.width));
  fetch_tokens<chunk>(v, values.strip(s, in.v, s.width));
  commit();
  start_states(0);
  start_tokens(0);
  wait<1>();
  __syncthreads();
  widen<T, chunk>(dy);
  widen<T, chunk>(v);

  float w[chunk / 8][4];  // of pairs: a row's token is the later one before the diagonal, the earlier one behind it
  meet<exact, size, false, true>(dy, v, p, w);
  meet<exact, size, true, false>(v, dy, p, w);
  unrolled<chunk / 8, 4>([&](int n, int i) {
    const int row = p.row() + i / 2 * 8;
    if (8 * n + p.column() + i % 2 == row) m.own[row] = s.strict ? 0.0f : w[n][i];
  });

#pragma unroll 1
  for (int first = 0; first < size; first += half_keys) {
    wait<0>();
    __syncthreads();
    const ThreadPosition own(hidden_thread());
    const int part = own.warp, own_channel = own.lane;
    float border = 0;             // rows of S' F
    if (unit.c + 1 < s.chunks) {  // no flow enters the last chunk
      constexpr int each = size / sub_chunks;
      const float* state = from.states + states + size * size + part * each * size + first + own_channel;
      unrolled<each>([&](int i) { border = fmaf(state[i * size], F.at(part * each + i, own_channel), border); });
    }
    m.borders[part][own_channel] = border;
    float x[4][4], y[4][4];
    const auto take = [&](float(&to)[4][4], const SharedMatrix<size>& left, const SharedMatrix<half_keys>& right) {
      const auto outside = multiply<exact, 4>(0, size / 8, LeftRows<size>(left, 16 * own.warp),
                                              RightColumns<half_keys, 4, false>(right, 0));
      unrolled<4, 4>([&](int n, int i) { to[n][i] = outside.of(n, i); });
    };
    take(x, dy, S);
    gather<exact, false>(w, own, K, m.fades[0], m.reach[0], x);
    take(y, v, F);
    gather<exact, true>(w, own, Q, m.fades[0], m.reach[0], y);
    __syncthreads();
    if (first + half_keys < size) start_states(first + half_keys);

    // dq, dk and the summands of dg overwrite Q, K and sums.
    unrolled<4>([&](int n) {
      const int column = 8 * n + own.column();
      unrolled<2>([&](int r) {
        const int t = own.row() + 8 * r;
        float2 &of_q = Q.two(t, column), &of_k = K.two(t, column), &of_g = sums.two(t, column);
        const float q[2] = {of_q.x, of_q.y}, k[2] = {of_k.x, of_k.y}, sum[2] = {of_g.x, of_g.y};
        float to[3][2];
        unrolled<2>([&](int e) {
          const float to_q = x[n][2 * r + e], to_k = y[n][2 * r + e], itself = m.reach[own.warp][column + e] * m.own[t];
          to[0][e] = s.scale * device::power_of_two(sum[e]) * fmaf(itself, k[e], to_q);
          to[1][e] = s.scale * device::power_of_two(m.totals[own.warp][column + e] - sum[e]) * fmaf(itself, q[e], to_k);
          to[2][e] = q[e] * to_q - k[e] * to_k;
        });
        of_q = make_float2(to[0][0], to[0][1]);
        of_k = make_float2(to[1][0], to[1][1]);
        of_g = make_float2(to[2][0], to[2][1]);
      });
    });
    __syncthreads();
    if (dq.wanted()) put_rows(dq, Q, s, unit, first);
    if (dk.wanted()) put_rows(dk, K, s, unit, first);
    float path[sub_chunk + 1] = {};
#pragma unroll
    for (int t = sub_chunk - 1; t >= 0; --t) path[t] = path[t + 1] + sums.at(part * sub_chunk + t, own_channel);
    m.paths[part][own_channel] = path[0];
    __syncthreads();
    if (first + half_keys < size) start_tokens(first + half_keys);
    if (!dg.wanted() || first + own_channel >= s.keys) continue;
    float rest = 0;
    unrolled<sub_chunks>([&](int other) { rest += m.borders[other][own_channel]; });
#pragma unroll
    for (int other = sub_chunks - 1; other > 0; --other)
      if (other > part) rest += m.paths[other][own_channel];
    unrolled<sub_chunk>([&](int t) {
      const int token = part * sub_chunk + t;
      if (token < unit.count) dg.put(unit.at(s, token), unsigned(first + own_channel), s.scale * (path[t] + rest));
    });
  }
}

// 1 / f overflows for a channel that decays almost fully within a sub-chunk. Such a channel is called steep there: its
// 1 / f counts as zero above, and the kernel below adds the pairs of tokens of the sub-chunk one by one in float32, a
// block for a chunk of a whole head and a thread a token. States and flows treat it like any other channel. Most models
// have none.

template <class T>
struct SteepGradients {
  SinkOf<T> dq, dk;
  Sink dg;
};

/// dq, dk and dg of a channel: w of pairs times the numbers they met.
template <class T>
__device__ void add_channel_gradients(const GlaSizes& s, const Unit& unit, int channel, SteepChannel& of,
                                      const Pairs& w, const SteepGradients<T>& out) {
  const int t = int(threadIdx.x) % chunk;
  const bool is_query = threadIdx.x < chunk;
  float sum = 0, decay = 1;
  if (is_query) {
    for (int j = t - 1; j >= end_of_sub_chunk(t) - sub_chunk; --j) {
      decay *= of.decay[j + 1];
      sum = fmaf(w[t][j], of.k[j] * decay, sum);
    }
  } else {
    for (int later = t + 1; later < end_of_sub_chunk(t); ++later) {
      decay *= of.decay[later];
      sum = fmaf(w[later][t], of.q[later] * decay, sum);
    }
  }
  (is_query ? of.queries : of.keys)[t] = (is_query ? of.q : of.k)[t] * sum;
  const std::size_t at = unit.at(s, t);
  const SinkOf<T>& to = is_query ? out.dq : out.dk;
  // Queries before keys, whose gradients may be one tensor.
  for (const bool queries : {true, false}) {
    if (is_query == queries && t < unit.count && to.wanted())
      to.put(at, unsigned(channel), s.scale * fmaf(w[t][t], (is_query ? of.k : of.q)[t], sum));
    __syncthreads();
  }
  if (!is_query || t >= unit.count || !out.dg.wanted()) return;
  float path = 0;
  for (int later = end_of_sub_chunk(t) - 1; later >= t; --later) path += of.queries[later] - of.keys[later];
  out.dg.put(at, unsigned(channel), s.scale * path);
}

template <int size>
__device__ float product_of_rows(const SharedMatrix<size>& a, int row_a, const SharedMatrix<size>& b, int row_b) {
  float sum = 0;
  for (int i = 0; i < size; i += 4) {
    const float4 x = reinterpret_cast<const float4&>(a.at(row_a, i)),
                 y = reinterpret_cast<const float4&>(b.at(row_b, i));
    sum += x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
  }
  return sum;
}

template <int size>
struct SteepMemory {
  float v[chunk * size], dy[chunk * size];
  Pairs met, w;
  SteepChannel channel;
};

/// Of a unit's keys and the values that they meet in a round. `to`: y, or dv when backward.
template <int size, bool backward, class T>
__device__ void add_steep_pairs_of(const GlaSizes& s, const GlaArrays<T>& in, const GlaMemory& from, const Unit& unit,
                                   int round, SteepMemory<size>& m, const SinkOf<T>& to,
                                   const SteepGradients<T>& gradients) {
  const SharedMatrix<size> v{m.v}, dy{m.dy};
  const int thread = int(threadIdx.x);
  const Unit values = unit.met_in(s, round);
  const float* reach = from.reach + unit.index * sub_chunks * size;
  __syncthreads();
  fetch_tokens<chunk>(v, values.strip(s, in.v, s.width));
  if constexpr (backward) fetch_tokens<chunk>(dy, values.strip(s, in.dy, s.width));
  commit();
  wait<0>();
  __syncthreads();
  widen<T, chunk>(v);
  if constexpr (backward) widen<T, chunk>(dy);
  for (int pair = thread; pair < chunk * chunk; pair += block_threads) {
    const int t = pair / chunk, j = pair % chunk;
    m.met[t][j] = 0;
    if constexpr (backward) m.w[t][j] = j < t || (j == t && !s.strict) ? product_of_rows(dy, t, v, j) : 0.0f;
  }
  for (int channel = 0; channel < s.keys; ++channel) {
    if (!is_steep(reach, size, channel)) continue;
    m.channel.read(s, in, unit, reach, size, channel);
    meet_in_channel(m.channel, m.met);
    if constexpr (backward) add_channel_gradients(s, unit, channel, m.channel, m.w, gradients);
  }
  __syncthreads();
  if (!to.wanted()) return;
  const int column = thread % size;
  for (int row = thread / size; row < unit.count && column < s.width; row += block_threads / size) {
    float sum = 0;
    for (int other = backward ? row : 0; other < (backward ? unit.count : row + 1); ++other)
      sum = fmaf(backward ? m.met[other][row] : m.met[row][other], (backward ? dy : v).at(other, column), sum);
    to.put(values.at(s, row), unsigned(column), s.scale * sum);
  }
}

template <int size, bool backward, class T>
__global__ void __launch_bounds__(block_threads)
    gla_steep_kernel(GlaSizes s, GlaArrays<T> in, GlaMemory from, SinkOf<T> to, SteepGradients<T> gradients) {
  wait_for_previous_kernel();
  extern __shared__ float4 memory[];
  auto& m = *reinterpret_cast<SteepMemory<size>*>(memory);
  const auto whole_of = [&](int i) { return int(blockIdx.x) + i * int(gridDim.x); };
  const auto is_any_steep = [&](int first) {
    bool any = false;
    for (int piece = 0; piece < s.pieces(); ++piece) any |= from.steep[4 * (first + piece * s.chunks)] != 0;
    return any;
  };
  const int candidate = whole_of(int(threadIdx.x) % 32);
  unsigned found =
      __ballot_sync(full_warp, candidate < s.units >> s.halvings && is_any_steep(first_piece(s, candidate)));
  for (; found != 0; found &= found - 1) {
    const int first = first_piece(s, whole_of(__ffs(int(found)) - 1));
    for (int piece = 0; piece < s.pieces(); ++piece) {
      const Unit unit(s, first + piece * s.chunks);
      if (from.steep[4 * unit.index] == 0) continue;
      for (int round = 0; round < s.pieces(); ++round)
        add_steep_pairs_of<size, backward>(s, in, from, unit, round, m, to, gradients);
    }
  }
}

template <class T>
SinkOf<T> adding_to(const SinkOf<T>& sink) {
  return {sink.rows, true};
}

/// `to`: y, or dv with gradients.
template <bool backward, class T>
void add_steep_pairs(const GlaPasses<T>& passes, const SinkOf<T>& to, const SteepGradients<T>& gradients) {
  with_gla_size<T>(passes.s, false, [&](auto size, auto) {
    constexpr int bytes = sizeof(SteepMemory<size()>);
    const auto units = unsigned(passes.s.units >> passes.s.halvings);
    const unsigned grid = std::max(at_most(units, steep_blocks), blocks_for(units, 32));
    launch("gla", gla_steep_kernel<size(), backward, T>, grid, block_threads, bytes, passes.stream, passes.s, passes.in,
           passes.to, by_pieces(passes.s, adding_to(to)), gradients);
  });
}

template <bool backward, class T>
void mix(const GlaPasses<T>& passes, const SinkOf<T>& out) {
  with_gla_size<T>(passes.s, passes.exact, [&](auto size, auto is_exact) {
    const auto mix_with = [&](auto kernel) {
      constexpr int bytes = 4 * (4 * chunk * size() + 3 * sub_chunks * size());
      launch("gla", kernel, unsigned(passes.s.units), block_threads, bytes, passes.stream, passes.s, passes.in,
             passes.to, by_pieces(passes.s, out));
    };
    if constexpr (size() == max_piece_width) {
      if (passes.s.halvings > 0) return mix_with(gla_mix_kernel<size(), is_exact(), backward, false, T>);
    }
    mix_with(gla_mix_kernel<size(), is_exact(), backward, true, T>);
  });
}

}  // namespace

template <class T>
void GlaPasses<T>::prepare() const {
  with_gla_size<T>(s, false, [&](auto size, auto) {
    const auto kernel = in.beta != nullptr ? gla_prepare_kernel<size(), true, T> : gla_prepare_kernel<size(), false, T>;
    launch(kernel, unsigned(s.units), sub_chunks * size(), 0, stream, s, in, to);
  });
}

template <class T>
void GlaPasses<T>::run_state_pass(Directions directions, float* state, bool resume) const {
  with_gla_size<T>(s, exact, [&](auto size, auto is_exact) {
    constexpr int stage_bytes = 4 * (chunk * (gla_state_pass_width + size()) + sub_chunks * size());
    const bool has_room = max_shared_memory() >= gla_state_pass_stages * stage_bytes;
    with_either<gla_state_pass_stages, gla_state_pass_stages - 1>(has_room, [&](auto stages) {
      constexpr int bytes = stages() * stage_bytes;
      constexpr int strips = size() / gla_state_pass_width;
      const dim3 grid(unsigned(s.batch * s.heads * strips), directions == Directions::both ? 2 : 1,
                      unsigned(s.pieces()));
      launch("gla", gla_state_pass_kernel<size(), is_exact(), stages(), T>, grid, block_threads, bytes, stream, s, in,
             to, strips, directions == Directions::backward ? 1 : 0, state, resume);
    });
  });
}

template <class T>
void GlaPasses<T>::answer(const Tensor& y) const {
  mix<false>(*this, sink_of<T>({y, false}));
}

template <class T>
void GlaPasses<T>::values_backward(const SinkOf<T>& dv) const {
  mix<true>(*this, dv);
}

template <class T>
void GlaPasses<T>::query_key_gradients(const DeltaGrads& out) const {
  with_gla_size<T>(s, exact, [&](auto size, auto is_exact) {
    constexpr int bytes =
        4 * (2 * chunk * size() + 2 * size() * half_keys + 3 * chunk * half_keys + 5 * sub_chunks * half_keys + chunk);
    for (int round = 0; round < s.pieces(); ++round) {
      const auto sink = [&](const auto& whole) {
        const auto pieces = by_pieces(s, whole);
        return round == 0 ? pieces : adding_to(pieces);
      };
      launch("gla", gla_query_key_kernel<size(), is_exact(), T>, unsigned(s.units), block_threads, bytes, stream, s, in,
             to, round, sink(sink_of<T>(out.q)), sink(sink_of<T>(out.k)), sink(sink_of(out.g)));
    }
  });
}

template <class T>
void GlaPasses<T>::add_steep(const Tensor& y) const {
  add_steep_pairs<false>(*this, sink_of<T>({y, false}), {});
}

template <class T>
void GlaPasses<T>::add_steep_backward(const SinkOf<T>& dv, const DeltaGrads& out) const {
  const auto sink = [&](const auto& whole) { return by_pieces(s, adding_to(whole)); };
  add_steep_pairs<true>(*this, dv, {sink(sink_of<T>(out.q)), sink(sink_of<T>(out.k)), sink(sink_of(out.g))});
}

template struct GlaPasses<float>;
template struct GlaPasses<Bf16>;

GlaSizes gla_sizes_of(const DeltaInputs& in) {
  const Shape& q = in.q.shape;
  const std::int64_t chunks = (q[1] + chunk - 1) / chunk, width = in.v.shape[3];
  int halvings = 0;
  while (std::max(q[3], width) > std::int64_t{max_piece_width} << halvings) ++halvings;
  const std::int64_t heads = q[2] << halvings;
  const auto units = int(q[0] * heads * chunks), keys = int(q[3] >> halvings), values = int(width >> halvings);
  return {int(q[0]), int(q[1]), int(heads), keys, values, int(chunks), units, halvings, float(in.scale), false};
}

GlaMemory gla_memory_of(const GlaSizes& s, float* memory) {
  const auto units = std::size_t(s.units), size = std::size_t(gla_size(s));
  const auto take = [&](std::size_t numbers) { return std::exchange(memory, memory + units * numbers); };
  GlaMemory m{};
  for (float** tokens : {&m.sums, &m.queries, &m.keys}) *tokens = take(chunk * size);
  for (float** decays : {&m.fades, &m.reach, &m.enters, &m.leaves}) *decays = take(sub_chunks * size);
  m.steep = take(4);
  m.states = take(size * size * std::size_t(s.pieces()));
  return m;
}

bool fits_gla(const DeltaInputs& in) {
  const std::int64_t keys = in.q.shape[3], width = in.v.shape[3];
  if (in.g.shape.rank() != 4 || in.q.shape[1] < min_gla_tokens || std::max(keys, width) > max_pieces * max_piece_width)
    return false;
  const GlaSizes s = gla_sizes_of(in);
  if (s.halvings == 0) return true;
  // Values in bfloat16 are read in whole vectors.
  return keys % s.pieces() == 0 && width % s.pieces() == 0 && s.width % int(max_piece<Bf16>) == 0;
}

namespace {

std::int64_t gla_memory(const DeltaInputs& in) {
  const GlaSizes s = gla_sizes_of(in);
  const std::int64_t size = gla_size(s);
  return std::int64_t{s.units} * (3 * chunk * size + 4 * sub_chunks * size + 4) + flow_numbers(s);
}

std::int64_t gla_workspace(const DeltaInputs& in) {
  return (in.kept.defined() ? 0 : gla_memory(in)) + flow_numbers(gla_sizes_of(in));
}

void gla_by_chunks(cudaStream_t stream, const DeltaInputs& in, bool exact, float* memory, const Tensor& y,
                   const Tensor& state, bool resume) {
  const GlaSizes s = gla_sizes_of(in);
  with_stored_type(in.q, [&]<class T>(T) {
    const GlaPasses<T> passes{stream, s, exact, gla_arrays_of<T>(in, {}), gla_memory_of(s, memory)};
    passes.prepare();
    passes.run_state_pass(Directions::forward, state.as<float>(), resume);
    passes.answer(y);
    passes.add_steep(y);
  });
}

void gla_by_chunks_backward(cudaStream_t stream, const DeltaInputs& in, bool exact, const Tensor& dy, float* workspace,
                            const DeltaGrads& out) {
  const GlaSizes s = gla_sizes_of(in);
  const bool is_kept = in.kept.defined();
  with_stored_type(in.q, [&]<class T>(T) {
    GlaPasses<T> passes{stream, s, exact, gla_arrays_of<T>(in, dy),
                        gla_memory_of(s, is_kept ? in.kept.as<float>() : workspace)};
    passes.to.flows = is_kept ? workspace : workspace + gla_memory(in);
    if (!is_kept) passes.prepare();
    passes.run_state_pass(is_kept ? Directions::backward : Directions::both, nullptr, false);
    if (out.v.wanted()) passes.values_backward(sink_of<T>(out.v));
    if (out.q.wanted() || out.k.wanted() || out.g.wanted()) passes.query_key_gradients(out);
    passes.add_steep_backward(sink_of<T>(out.v), out);
  });
}

}  // namespace

const ChunkedRule gla_rule{gla_memory, gla_workspace, gla_by_chunks, gla_by_chunks_backward};

}  // namespace afterglow::scan
