// The long scan, forward pass (equations in ssd_chunks.cuh): pace_kernel sums decays inside chunks, state_pass_kernel
// passes the state from chunk to chunk and keeps the states between them, and answer_kernel computes the outputs of all
// chunks in parallel.
#include <algorithm>

#include "gpu/ops/ssd/ssd_chunks.cuh"

namespace afterglow::scan {

using namespace device;

namespace {

constexpr int state_pass_width = 32;  // channels of a state-passing block
// Sequences with at least min_chunked_tokens run by chunks; shorter ones, of at least one chunk, when the batch makes
// at least min_updates updates of states. The recurrence's time grows with the length; chunks cost a few launches.
constexpr int min_chunked_tokens = 256;
constexpr std::int64_t min_updates = std::int64_t{1} << 24;

constexpr int half_of_blocks = 100;  // with fewer wide tiles, twice as many narrow ones still run at once

constexpr int state_pass_blocks = 4;                // of a multiprocessor
constexpr std::size_t state_pass_room = 55 * 1024;  // bytes of shared memory for each of them
template <class T>
constexpr int answer_blocks = 4;
template <>
constexpr int answer_blocks<float> = 3;

/// Left operand of the state passing: channels of x times f, or of dy times e.
template <class T>
struct WeighedColumns {
  using Columns = LeftColumns<state_pass_width, T>;
  using Numbers = typename Columns::Numbers;
  static constexpr int eights = Columns::eights;
  Columns columns;
  const float* weights;  // of the first token; two numbers a token

  __device__ void load(int k, Numbers& value) const {
    columns.load(k, value);
    const int pair = int(threadIdx.x) % 4;
    const auto weight = [&](int token) { return weights[2 * (8 * k + token)]; };
    unrolled<4>([&](int i) {
      if constexpr (std::is_same_v<T, float>) {
        value[i] *= weight(pair + i / 2 * 4);
      } else {
        const int token = 2 * pair + i / 2 * 8;
        const float2 both = floats_of(value[i]);
        value[i] = bf16_pair(both.x * weight(token), both.y * weight(token + 1));
      }
    });
  }
};

template <int states, class T>
struct StatePassStage {
  T u[chunk * state_pass_width], v[chunk * states];
  Edges edges[chunk];

  __device__ void fetch(const StripOf<T>& of_u, const StripOf<T>& of_v, const Edges* of_tokens) {
    scan::fetch<chunk>(SharedMatrix<state_pass_width, T>{u}, of_u);
    scan::fetch<chunk>(SharedMatrix<states, T>{v}, of_v);
    if (threadIdx.x < chunk) __pipeline_memcpy_async(&edges[threadIdx.x], &of_tokens[threadIdx.x], 8);
  }
};

/// Stages of the pipeline, the current one included.
template <int states, class T>
constexpr int state_pass_stages = int(std::min(std::size_t{4}, state_pass_room / sizeof(StatePassStage<states, T>)));

/// The block's pass, opaque to the compiler: it recomputes what depends on it for each chunk; kept, it would fill the
/// registers.
__device__ int hidden_pass() {
  int pass = int(blockIdx.z);
  asm volatile("" : "+r"(pass));
  return pass;
}

// The states before all chunks (direction 0), or the flows from later chunks into them (1), of 32 channels of a head
// and a pass. Grid: (strips of channels of all heads, directions, passes).
template <int states, bool exact, class T>
__global__ void __launch_bounds__(block_threads, state_pass_blocks)
    state_pass_kernel(ScanSizes s, ScanArraysOf<T> in, ChunkArraysOf<T> to, int strips, int direction, float* state,
                      bool resume) {
  wait_for_previous_kernel();
  constexpr int warp_states = states / 2, tiles = warp_states / 8, stages = state_pass_stages<states, T>;
  extern __shared__ float4 memory[];
  auto* const stage_of = reinterpret_cast<StatePassStage<states, T>*>(memory);
  const bool backward = direction + int(blockIdx.y) == 1;
  const int pair = int(blockIdx.x) / strips, first = int(blockIdx.x) % strips * state_pass_width;
  const int b = pair / s.heads, h = pair % s.heads;
  const std::size_t row = std::size_t(b) * s.length;
  const auto place = [&](int i) { return backward ? s.chunks - 1 - i : i; };
  const auto own_states = [&] { return min(s.states, s.group_states - hidden_pass() * s.states); };
  const auto start = [&](int i) {
    if (i < s.chunks) {
      const int c = place(i), count = min(chunk, s.length - c * chunk), width = max(s.width - first, 0);
      const std::size_t begin = row + std::size_t(c) * chunk;
      const std::size_t stride = std::size_t(s.heads) * s.width;
      const unsigned column = unsigned(h * s.width + first);
      const unsigned shared = unsigned(h / s.group * s.group_states + hidden_pass() * s.states);
      stage_of[i % stages].fetch({backward ? in.dy + begin * stride + column : &in.x.at(begin, column),
                                  backward ? stride : in.x.stride, count, width},
                                 {backward ? &in.C.at(begin, shared) : &in.B.at(begin, shared),
                                  backward ? in.C.stride : in.B.stride, count, own_states()},
                                 to.edges + chunk_index(s, b, h, c) * chunk);
    }
    commit();
  };
  for (int i = 0; i + 1 < stages; ++i) start(i);

  const ThreadPosition p;
  const int channel = p.warp % 2 * 16, number = p.warp / 2 * warp_states;
  const int own_channel = first + channel + p.quad, own_state = number + p.column();
  const auto each = [&](const auto& visit) {
    unrolled<tiles, 4>([&](int n, int i) { visit(n, i, own_channel + i / 2 * 8, own_state + 8 * n + i % 2); });
  };
  float* kept = state + (std::size_t(b) * s.heads + h) * s.width * s.group_states + hidden_pass() * s.states;
  float now[tiles][4] = {};
  if (resume && !backward) {
    each([&](int n, int i, int channel_of, int state_of) {
      if (channel_of < s.width && state_of < own_states()) now[n][i] = kept[channel_of * s.group_states + state_of];
    });
  }
  for (int i = 0; i < s.chunks; ++i) {
    wait<stages - 2>();
    __syncthreads();
    start(i + stages - 1);
    StatePassStage<states, T>& stage = stage_of[i % stages];
    T* out = (backward ? to.flows : to.states) +
             chunk_index(s, hidden_pass(), b, h, place(i)) * strips * state_pass_width * states;
    const auto two = [&](int n, int r) { return make_float2(now[n][2 * r], now[n][2 * r + 1]); };
    if constexpr (std::is_same_v<T, Bf16>) {
      unrolled<2>([&](int r) {
        store_row<tiles>(&out[(own_channel + 8 * r) * states + number], warp_states, [&](int n) { return two(n, r); });
      });
    } else {
      // In this order stores are faster than row by row.
      unrolled<tiles, 2>([&](int n, int r) {
        reinterpret_cast<float2&>(out[(own_channel + 8 * r) * states + own_state + 8 * n]) = two(n, r);
      });
    }
    const WeighedColumns<T> left{{{stage.u}, channel}, backward ? &stage.edges->start : &stage.edges->leave};
    const RightColumns<states, tiles, false, T> right({stage.v}, number);
    const auto product = multiply<exact, tiles, 4>(0, chunk / 8, left, right);
    const float fade = stage.edges[chunk - 1].start;
    each([&](int n, int k, int, int) { now[n][k] = fmaf(fade, now[n][k], product.of(n, k)); });
  }
  if (state == nullptr || backward) return;
  each([&](int n, int i, int channel_of, int state_of) {
    if (channel_of < s.width && state_of < own_states()) kept[channel_of * s.group_states + state_of] = now[n][i];
  });
}

template <int width, int states, bool alone, class T>
struct AnswerMemory {
  T C[chunk * states], S_or_B[(alone ? chunk : width) * states], x[chunk * (states > width ? states : width)];
  Pace paces[chunk];
};

// The outputs of one chunk for a range of units that share B and C. `adds`: to those of earlier passes.
template <int width, int states, bool exact, bool alone, bool adds, class T>
__global__ void __launch_bounds__(block_threads, answer_blocks<T>)
    answer_kernel(ScanSizes s, ScanArraysOf<T> in, ChunkArraysOf<T> from, int tiles, int ranges, float scale, T* y) {
  wait_for_previous_kernel();
  extern __shared__ float4 memory[];
  auto& m = *reinterpret_cast<AnswerMemory<width, states, alone, T>*>(memory);
  const SharedMatrix<states, T> C{m.C}, S{m.S_or_B}, B{alone ? m.S_or_B : m.x};  // x overwrites B
  const SharedMatrix<width, T> x{m.x};
  const Span span(s, tiles, ranges);
  const ThreadPosition p;
  const int count = min(chunk, s.length - span.c * chunk), last = 2 * p.warp + 2;
  const std::size_t row = std::size_t(span.b) * s.length + std::size_t(span.c) * chunk;
  const unsigned shared = unsigned(span.group * s.group_states);
  fetch<chunk>(C, {&in.C.at(row, shared), in.C.stride, count, s.own_states});
  fetch<chunk>(B, {&in.B.at(row, shared), in.B.stride, count, s.own_states});
  if constexpr (!alone) {  // otherwise all operands arrive together
    commit();
    wait<0>();
    __syncthreads();
  }
  float gram[chunk / 8][4];
  const auto meet = [&] {
    unrolled<chunk / 32>([&](int half) {
      const auto part =
          multiply<exact, 4>(0, states / 8, LeftRows<states, T>(C, 16 * p.warp), RightRows<states, 4, T>(B, 32 * half));
      unrolled<4, 4>([&](int n, int i) { gram[4 * half + n][i] = part.of(n, i); });
    });
  };
  if constexpr (!alone) {
    meet();
    __syncthreads();
  }

  for (int unit = span.begin; unit < span.end; ++unit) {
    const int h = span.group * s.group + unit / tiles, first = unit % tiles * width;
    const std::size_t index = chunk_index(s, span.b, h, span.c);
    if constexpr (!alone) {
      const std::size_t at = (index * tiles + unit % tiles) * width * states;
      fetch<width>(S, {from.states + at, std::size_t{states}, width, states});
      if (threadIdx.x < chunk)
        __pipeline_memcpy_async(&m.paces[threadIdx.x], &from.paces[index * chunk + threadIdx.x], 16);
    }
    fetch<chunk>(x, {&in.x.at(row, unsigned(h * s.width + first)), in.x.stride, count, s.width - first});
    commit();
    if (alone && p.warp == 0) find_own_paces(s, in, span.b, h, m.paces);
    wait<0>();
    __syncthreads();
    if (alone && unit == span.begin) meet();

    const Pace own[2] = {m.paces[p.row()], m.paces[p.row() + 8]};
    Part<T> weights[chunk / 8];
#pragma unroll
    for (int n = 0; n < chunk / 8; ++n) {
      if (n >= last) continue;
      const int j = 8 * n + p.column();
      const Pace others[2] = {m.paces[j], m.paces[j + 1]};
      unrolled<2>([&](int r) {
        const int t = p.row() + 8 * r;
        const auto weight = [&](int e) {
          const Pace& other = others[e];
          const float between = j + e == t ? other.dt : decay_between(own[r], other) * other.whole;
          return j + e <= t ? between * gram[n][2 * r + e] : 0.0f;
        };
        put_two(weights[n], r, weight(0), weight(1));
      });
    }
    const float skip = in.D != nullptr ? in.D[h] : 0.0f;
    const float starts[2] = {decay_from_start(own[0]), decay_from_start(own[1])};
    const OwnRow<width, T> inputs[2] = {{x, p.row()}, {x, p.row() + 8}};
    T* out = y + ((row + p.row()) * s.heads + h) * s.width + first;
#pragma unroll 1
    for (int half = 0; half < width / 32; ++half) {
      const auto before = multiply<exact, 4>(0, alone ? 0 : states / 8, LeftRows<states, T>(C, 16 * p.warp),
                                             RightRows<states, 4, T>(S, 32 * half));
      const auto inside = multiply<exact, 4>(0, last, weights, RightColumns<width, 4, true, T>(x, 32 * half));
      const auto two = [&](int n, int r) {
        const float2 input = inputs[r].at(4 * half + n);
        const auto answer = [&](int e, float of_x) {
          return fmaf(starts[r], before.of(n, 2 * r + e), inside.of(n, 2 * r + e)) + skip * of_x;
        };
        return make_float2(scale * answer(0, input.x), scale * answer(1, input.y));
      };
      if constexpr (std::is_same_v<T, Bf16>) {
        unrolled<2>([&](int r) {
          const int left = p.row() + 8 * r < count ? s.width - first - 32 * half : 0;
          T* const to = out + std::size_t(8 * r) * s.heads * s.width + 32 * half;
          put_row<4>(to, left, adds, [&](int n) { return two(n, r); });
        });
      } else {
        unrolled<4, 2>([&](int n, int r) {
          const int column = 32 * half + 8 * n, left = s.width - (first + column + p.column());
          const float2 both = two(n, r);
          if (p.row() + 8 * r >= count || left <= 0) return;
          T* to = out + p.column() + std::size_t(8 * r) * s.heads * s.width + column;
          if (s.width % 2 == 0) {
            store_two(to, adds, both.x, both.y);
          } else {
            to[0] = adds ? to[0] + both.x : both.x;
            if (left > 1) to[1] = adds ? to[1] + both.y : both.y;
          }
        });
      }
    }
    __syncthreads();
  }
}

template <bool alone, bool adds, class T>
void launch_answers(const ChunkedScan<T>& scan, float scale, T* y) {
  const ScanSizes& s = scan.s;
  const int tiles = shape_for(s).tiles, ranges = ranges_for(s, answer_blocks<T> * 256);
  with_shape<T>(s, scan.exact, [&](auto width, auto states, auto is_exact) {
    constexpr bool adds_here = adds && states() == pass_states;  // a later pass has more than 32 states
    constexpr int bytes = sizeof(AnswerMemory<width(), states(), alone, T>);
    const unsigned blocks = unsigned(s.batch * s.chunks * s.groups * ranges);
    launch("ssd_scan", answer_kernel<width(), states(), is_exact(), alone, adds_here, T>, blocks, block_threads, bytes,
           scan.stream, s, scan.in, scan.memory, tiles, ranges, scale, y);
  });
}

}  // namespace

ChunkShape shape_for(const ScanSizes& s) {
  const bool are_few = s.chunks == 1 && s.batch * s.heads * ((s.width + 63) / 64) < half_of_blocks;
  const int width = s.width <= 32 || are_few ? 32 : 64;
  return {width, s.states <= 16 ? 16 : s.states <= 32 ? 32 : 64, (s.width + width - 1) / width};
}

ScanSizes in_passes(ScanSizes s) {
  s.passes = (s.group_states + pass_states - 1) / pass_states;
  s.states = s.own_states = (s.group_states + s.passes - 1) / s.passes;
  return s;
}

ScanSizes of_pass(ScanSizes s, int pass) {
  s.own_states = std::min(s.states, s.group_states - pass * s.states);
  return s;
}

int ranges_for(const ScanSizes& s, int blocks) {
  const int several = s.batch * s.chunks * s.groups, units = s.group * shape_for(s).tiles;
  return std::clamp((blocks + several - 1) / several, 1, units);
}

template <class T>
void ChunkedScan<T>::run_state_pass(Directions directions, float* state, bool resume) const {
  with_shape<T>(s, exact, [&](auto width, auto states, auto is_exact) {
    constexpr int bytes = state_pass_stages<states(), T> * sizeof(StatePassStage<states(), T>);
    const int strips = shape_for(s).tiles * (width() / state_pass_width);
    const dim3 grid(unsigned(s.batch * s.heads * strips), directions == Directions::both ? 2 : 1, unsigned(s.passes));
    launch("ssd_scan", state_pass_kernel<states(), is_exact(), T>, grid, block_threads, bytes, stream, s, in, memory,
           strips, directions == Directions::backward ? 1 : 0, state, resume);
  });
}

template <class T>
void ChunkedScan<T>::answer(float scale, T* y) const {
  launch_answers<false, false>(*this, scale, y);
  for (int pass = 1; pass < s.passes; ++pass) launch_answers<false, true>(of_pass(pass), scale, y);
}

template void ChunkedScan<float>::run_state_pass(Directions, float*, bool) const;
template void ChunkedScan<Bf16>::run_state_pass(Directions, float*, bool) const;
template void ChunkedScan<float>::answer(float, float*) const;
template void ChunkedScan<Bf16>::answer(float, Bf16*) const;

bool goes_by_chunks(const ScanInputs& in) {
  const ScanSizes s = sizes_of(in, chunk);
  const std::int64_t updates = std::int64_t{s.batch} * s.length * s.heads * s.width * s.states;
  return s.states <= max_states && (s.length >= min_chunked_tokens || (s.length >= chunk && updates >= min_updates));
}

bool stores_narrow(const ScanInputs& in) {
  const ScanSizes s = in_passes(sizes_of(in, chunk));
  return goes_by_chunks(in) && s.width % 8 == 0 && s.states % 8 == 0 && s.group_states % 8 == 0;
}

std::int64_t stored_chunk_numbers(const ScanInputs& in, bool with_flows) {
  const ScanSizes s = in_passes(sizes_of(in, chunk));
  return in.x.dtype == DType::bf16 ? chunk_numbers<Bf16>(s, with_flows) : chunk_numbers(s, with_flows);
}

bool is_one_chunk(const ScanInputs& in) {
  const ScanSizes s = sizes_of(in, chunk);
  return s.states <= pass_states && s.length <= chunk && !goes_by_chunks(in);
}

void scan_alone(cudaStream_t stream, const ScanInputs& in, bool exact, const Tensor& y) {
  launch_answers<true, false>(ChunkedScan<float>{stream, sizes_of(in, chunk), arrays_of(in), exact, {}}, 1.0f,
                              y.as<float>());
}

std::int64_t chunk_memory(const ScanInputs& in) { return stored_chunk_numbers(in, false); }

void scan_by_chunks(cudaStream_t stream, const ScanInputs& in, bool exact, float* memory, const Tensor& y,
                    const Tensor& state, bool resume) {
  const ScanSizes s = in_passes(sizes_of(in, chunk));
  with_stored_type(in.x, [&]<class T>(T) {
    const ChunkedScan<T> scan{stream, s, arrays_of<T>(in), exact, chunk_arrays<T>(s, memory, false)};
    find_paces<ScanSteps>(stream, s, scan.in, scan.memory, false);
    scan.run_state_pass(Directions::forward, state.as<float>(), resume);
    scan.answer(1.0f, y.as<T>());
  });
}

}  // namespace afterglow::scan
