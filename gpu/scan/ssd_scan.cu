// The selective scan, h_t = decay_t h_{t-1} + dt_t x_t B_t^T, y_t = h_t C_t + D x_t. Long sequences and those of 17 to
// 64 tokens run by chunks (ssd_chunks.cu); the others, and scans that resume from a state, run the recurrence here. A
// thread keeps four states in registers, the threads of a group share one channel. The gradient splits the sequence
// into chunks: one launch scans it in both directions and keeps the states between chunks, one processes all chunks in
// parallel, one adds what heads share. In the trapezoidal rule a token enters a second time, late: the carried state
// holds it with both weights, its own output with the first. Latency-bound: the steps of a sequence depend on each
// other.
#include <cuda_pipeline.h>

#include "gpu/cuda_backend.h"
#include "gpu/device/lanes.cuh"
#include "gpu/device/launch.cuh"
#include "gpu/device/occupancy.h"
#include "gpu/scan/ssd_scan.cuh"

namespace afterglow {

using namespace device;
using namespace scan;

namespace {

constexpr int scan_threads = 128;  // threads that scan along the sequence, side by side over channels
constexpr int chunk = 16;          // tokens between kept states; their states fit in registers

struct ScanThread {
  int b, h, p, lane, state;  // batch, head, channel, lane in its group, first of its four states
};

/// The position of thread `own` among those that scan the block's channels.
template <int lanes>
__device__ ScanThread scan_thread_of(const ScanSizes& s, int block, int tile_width, int own) {
  const int tiles = (s.width + tile_width - 1) / tile_width;
  const int pair = block / tiles, lane = own % lanes;
  return {pair / s.heads, pair % s.heads, block % tiles * tile_width + own / lanes, lane, 4 * lane};
}

__device__ float rate_of(const ScanArrays& a, int h) { return a.A_log != nullptr ? expf(a.A_log[h]) : 0.0f; }

/// Tokens in shared memory: `u` is x or dy [steps][channels], `s` the rows of B or C.
template <int lanes, int steps>
struct ScanTile {
  static constexpr int channels = scan_threads / lanes, states = 4 * lanes;
  float u[steps][channels];
  float s[steps][states];
};

/// Rows of numbers: address, stride, and valid numbers of a row.
struct Strip {
  const float* data;
  std::size_t stride;
  int width;
};

/// The block begins to copy rows [begin, begin + steps); zeros outside [0, length) and the width.
template <int steps, int columns>
__device__ void fetch(float (&to)[steps][columns], const Strip& from, int begin, int length) {
  const bool fours =
      from.width % 4 == 0 && from.stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(from.data) % 16 == 0;
  const int each = fours ? 4 : 1;
  for (int i = static_cast<int>(threadIdx.x) * each; i < steps * columns; i += static_cast<int>(blockDim.x) * each) {
    const int step = i / columns, n = i % columns;
    const bool valid = begin + step >= 0 && begin + step < length && n < from.width;
    const float* source = valid ? from.data + (begin + step) * from.stride + n : from.data;
    if (fours) {
      __pipeline_memcpy_async(&to[step][n], source, 16, valid ? 0 : 16);
    } else {
      __pipeline_memcpy_async(&to[step][n], source, 4, valid ? 0 : 4);
    }
  }
}

/// Per token and head: dt, the log decay (read only if given), and the weight with which the token enters late.
template <int steps>
struct ScalarTile {
  float dt[steps], log_decay[steps], late[steps];
};

/// The first threads of a block begin to copy tokens [begin, begin + steps).
template <bool lagged, int steps>
__device__ void fetch(ScalarTile<steps>& to, const ScanSizes& s, const ScanArrays& in, std::size_t row, int h,
                      int begin) {
  const int step = static_cast<int>(threadIdx.x), t = begin + step;
  if (step >= steps || t >= s.length) return;
  if (in.dt.data != nullptr) __pipeline_memcpy_async(&to.dt[step], &in.dt.at(row + t, h), 4);
  if (!lagged) return;
  __pipeline_memcpy_async(&to.log_decay[step], &in.log_decay.at(row + t, h), 4);
  if (t + 1 < s.length) {
    __pipeline_memcpy_async(&to.late[step], &in.lag.at(row + t + 1, h), 4);
  } else {
    to.late[step] = 0.0f;
  }
}

__device__ void load_state(float (&h)[4], const float* from, int states, int first) {
#pragma unroll
  for (int i = 0; i < 4; ++i) h[i] = first + i < states ? from[first + i] : 0.0f;
}
__device__ void store_state(const float (&h)[4], float* to, int states, int first) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (first + i < states) to[first + i] = h[i];
  }
}

/// A token's data for all channels of a head, read at once: both weights, the decay, the sum of the weights.
struct alignas(16) Token {
  float dt, late, decay, whole;
};

__device__ float4 four_of(const float* numbers) { return *reinterpret_cast<const float4*>(numbers); }

constexpr int segments = 4;  // of a tile of tokens, computed in parallel
constexpr int segment = 16;  // tokens of each
constexpr int forward_tile = segments * segment;

// Forward pass of the block's channels of one head, one tile of tokens after the other. The threads of a segment first
// run the recurrence over the earlier tokens of the tile without output, in the same order as a single scan, so the
// bits do not depend on where tiles begin. A high_occupancy block runs that single scan.
template <int lanes, bool lagged, bool high_occupancy>
__global__ void __launch_bounds__(high_occupancy ? scan_threads : segments* scan_threads)
    scan_kernel(ScanSizes s, ScanArrays in, float* y, float* state, bool resume) {
  wait_for_previous_kernel();
  struct Buffer {
    ScanTile<lanes, forward_tile> xB;
    float C[forward_tile][4 * lanes];
    ScalarTile<forward_tile> scalars;
  };
  extern __shared__ float4 memory[];
  Buffer* buffers = reinterpret_cast<Buffer*>(memory);
  __shared__ Token tokens[forward_tile];
  __shared__ float4 carry[scan_threads];
  constexpr int last_part = high_occupancy ? 0 : segments - 1;
  const int own = static_cast<int>(threadIdx.x) % scan_threads, part = static_cast<int>(threadIdx.x) / scan_threads;
  const ScanThread w = scan_thread_of<lanes>(s, static_cast<int>(blockIdx.x), scan_threads / lanes, own);
  const int p = own / lanes, group = w.h / s.group;
  const std::size_t row = static_cast<std::size_t>(w.b) * s.length;
  const float rate = rate_of(in, w.h), skip = in.D != nullptr ? in.D[w.h] : 0.0f;
  const Strip x{&in.x.at(row, w.h * s.width + w.p - p), in.x.stride, s.width - (w.p - p)};
  const Strip B{&in.B.at(row, group * s.states), in.B.stride, s.states};
  const Strip C{&in.C.at(row, group * s.states), in.C.stride, s.states};
  const auto start = [&](int begin, Buffer& to) {
    fetch(to.xB.u, x, begin, s.length);
    fetch(to.xB.s, B, begin, s.length);
    fetch(to.C, C, begin, s.length);
    fetch<lagged>(to.scalars, s, in, row, w.h, begin);
    __pipeline_commit();
  };
  float* kept = state + ((static_cast<std::size_t>(w.b) * s.heads + w.h) * s.width + w.p) * s.states;
  float h[4] = {};
  if (part == 0) {
    if (resume && w.p < s.width) load_state(h, kept, s.states, w.state);
    carry[own] = make_float4(h[0], h[1], h[2], h[3]);
  }
  start(0, buffers[0]);
  for (int begin = 0, current = 0; begin < s.length; begin += forward_tile, current ^= 1) {
    if (begin + forward_tile < s.length) {
      start(begin + forward_tile, buffers[current ^ 1]);
      __pipeline_wait_prior(1);
    } else {
      __pipeline_wait_prior(0);
    }
    __syncthreads();
    const Buffer& tile = buffers[current];
    const int count = min(forward_tile, s.length - begin);
    if (threadIdx.x < forward_tile) {
      const int t = static_cast<int>(threadIdx.x);
      const float dt = in.dt.data != nullptr ? tile.scalars.dt[t] : 1.0f;
      const float late = lagged ? tile.scalars.late[t] : 0.0f;
      const float decay = expf(lagged ? tile.scalars.log_decay[t] : -rate * dt);
      tokens[t] = t < count ? Token{dt, late, decay, dt + late} : Token{0.0f, 0.0f, 1.0f, 0.0f};
    }
    __syncthreads();
    const auto add = [&](const float4& b, float decay, float input) {
      h[0] = fmaf(decay, h[0], input * b.x);
      h[1] = fmaf(decay, h[1], input * b.y);
      h[2] = fmaf(decay, h[2], input * b.z);
      h[3] = fmaf(decay, h[3], input * b.w);
    };
    const auto answer = [&](int first) {
      float answers[segment];
#pragma unroll
      for (int i = 0; i < segment; ++i) {
        const Token token = tokens[first + i];
        const float u = tile.xB.u[first + i][p];
        const float4 b = four_of(&tile.xB.s[first + i][w.state]), c = four_of(&tile.C[first + i][w.state]);
        add(b, token.decay, u * token.dt);
        answers[i] = h[0] * c.x + h[1] * c.y + h[2] * c.z + h[3] * c.w;
        if (lagged) add(b, 1.0f, u * token.late);
      }
      const int mine = first + share_sums<lanes / 2, 1>(answers);
      constexpr int held = segment > lanes ? segment / lanes : 1, holders = lanes > segment ? lanes / segment : 1;
      const bool writes = w.p < s.width && w.lane % holders == 0;
#pragma unroll
      for (int i = 0; i < held; ++i) {
        const int t = mine + i;
        if (writes && t < count) {
          y[((row + begin + t) * s.heads + w.h) * s.width + w.p] = answers[i] + skip * tile.xB.u[t][p];
        }
      }
    };
    if constexpr (high_occupancy) {
#pragma unroll 1
      for (int first = 0; first < forward_tile; first += segment) answer(first);
      __syncthreads();
    } else {
      const int first = part * segment;
      const float4 from = carry[own];
      h[0] = from.x;
      h[1] = from.y;
      h[2] = from.z;
      h[3] = from.w;
#pragma unroll 8
      for (int t = 0; t < first; ++t) {
        const Token token = tokens[t];
        const float u = tile.xB.u[t][p];
        const float4 b = four_of(&tile.xB.s[t][w.state]);
        add(b, token.decay, u * token.dt);
        if (lagged) add(b, 1.0f, u * token.late);
      }
      answer(first);
      __syncthreads();
      if (part == last_part) carry[own] = make_float4(h[0], h[1], h[2], h[3]);
    }
  }
  // Behind the last token decays are one and inputs zero, so the last segment ends with the last state.
  if (part == last_part && state != nullptr && w.p < s.width) store_state(h, kept, s.states, w.state);
}

/// Data between the launches of the gradient, in the caller's workspace.
struct ScanWorkspace {
  float *states, *flows;  // [B,H,chunks,P,N]: the state before a chunk, and the flow into it from later chunks
  ScanParts parts;
};

/// A token's step in the state scan: h <- decay h + (weight u) s^T.
struct StepPace {
  float decay, weight;
};

/// Of token t of a chunk; the backward scan applies the decay after the addition.
template <bool lagged>
__device__ StepPace pace_of(const ScalarTile<chunk>& scalars, int t, bool has_dt, float rate, bool backward) {
  const float dt = has_dt ? scalars.dt[t] : 1.0f;
  const float decay = expf(lagged ? scalars.log_decay[t] : -rate * dt);
  return {decay, backward ? decay : lagged ? dt + scalars.late[t] : dt};
}

/// Advances four states of a channel through the tokens of a chunk, from the last one when `backward`.
template <int lanes>
__device__ void scan_chunk(const ScanTile<lanes, chunk>& us, const StepPace* paces, bool backward, int p, int state,
                           float (&h)[4]) {
#pragma unroll
  for (int j = 0; j < chunk; ++j) {
    const int step = backward ? chunk - 1 - j : j;
    const StepPace pace = paces[step];
    const float input = us.u[step][p] * pace.weight;
    const float4 v = four_of(&us.s[step][state]);
    h[0] = fmaf(pace.decay, h[0], input * v.x);
    h[1] = fmaf(pace.decay, h[1], input * v.y);
    h[2] = fmaf(pace.decay, h[2], input * v.z);
    h[3] = fmaf(pace.decay, h[3], input * v.w);
  }
}

/// The states before every chunk (blockIdx.y 0) and the flows into every chunk from later ones (1). Both are the same
/// scan: forward with dt x and B, backward with dy and C, where the decay acts after the kept state.
template <int lanes, bool lagged>
__global__ void __launch_bounds__(scan_threads) scan_states_kernel(ScanSizes s, ScanArrays in, ScanWorkspace out) {
  wait_for_previous_kernel();
  struct Buffer {
    ScanTile<lanes, chunk> us;
    ScalarTile<chunk> scalars;
  };
  __shared__ __align__(16) Buffer buffers[2];
  __shared__ StepPace paces[chunk];
  const bool backward = blockIdx.y == 1;
  const ScanThread w =
      scan_thread_of<lanes>(s, static_cast<int>(blockIdx.x), scan_threads / lanes, static_cast<int>(threadIdx.x));
  const int p = static_cast<int>(threadIdx.x) / lanes, channel = w.p - p, group = w.h / s.group;
  const std::size_t row = static_cast<std::size_t>(w.b) * s.length;
  const float rate = rate_of(in, w.h);
  const Strip u{backward ? in.dy + (row * s.heads + w.h) * s.width + channel : &in.x.at(row, w.h * s.width + channel),
                backward ? static_cast<std::size_t>(s.heads) * s.width : in.x.stride, s.width - channel};
  const Strip states{backward ? &in.C.at(row, group * s.states) : &in.B.at(row, group * s.states),
                     backward ? in.C.stride : in.B.stride, s.states};
  const auto start = [&](int c, Buffer& to) {
    fetch(to.us.u, u, c * chunk, s.length);
    fetch(to.us.s, states, c * chunk, s.length);
    fetch<lagged>(to.scalars, s, in, row, w.h, c * chunk);
    __pipeline_commit();
  };
  const auto place = [&](int i) { return backward ? s.chunks - 1 - i : i; };
  float* kept = backward ? out.flows : out.states;
  float h[4] = {};
  start(place(0), buffers[0]);
  for (int i = 0; i < s.chunks; ++i) {
    const int c = place(i), count = min(chunk, s.length - c * chunk);
    if (i + 1 < s.chunks) {
      start(place(i + 1), buffers[(i + 1) % 2]);
      __pipeline_wait_prior(1);
    } else {
      __pipeline_wait_prior(0);
    }
    __syncthreads();
    const Buffer& tile = buffers[i % 2];
    if (threadIdx.x < chunk) {
      const int t = static_cast<int>(threadIdx.x);
      const StepPace pace = pace_of<lagged>(tile.scalars, t, in.dt.data != nullptr, rate, backward);
      paces[t] = t < count ? pace : StepPace{1.0f, 0.0f};
    }
    if (w.p < s.width) {
      const std::size_t at = ((static_cast<std::size_t>(w.b) * s.heads + w.h) * s.chunks + c) * s.width + w.p;
      store_state(h, kept + at * s.states, s.states, w.state);
    }
    __syncthreads();
    scan_chunk<lanes>(tile.us, paces, backward, p, w.state, h);
    __syncthreads();
  }
}

template <int lanes>
constexpr int chunk_block = lanes >= 16 ? 128 : 256;

template <int lanes, bool lagged>
struct ChunkMemory {
  static constexpr int block = chunk_block<lanes>, channels = block / lanes, states = 4 * lanes, warps = block / 32;
  float x[chunk][channels], dy[chunk][channels];
  float B[chunk][states], C[chunk][states];
  Token token[chunk];
  float shared[warps][chunk][2 * states];
  float steps[warps][chunk][step_kinds<lagged>];
  float to_A_log[warps], to_D[warps];
};

template <bool lagged, class Memory>
__device__ void load_chunk(Memory& m, const ScanSizes& s, const ScanArrays& in, int b, int h, int channel, int begin) {
  const std::size_t row = static_cast<std::size_t>(b) * s.length;
  const int group = h / s.group, width = s.width - channel;
  fetch(m.x, {&in.x.at(row, h * s.width + channel), in.x.stride, width}, begin, s.length);
  fetch(m.dy, {in.dy + (row * s.heads + h) * s.width + channel, static_cast<std::size_t>(s.heads) * s.width, width},
        begin, s.length);
  fetch(m.B, {&in.B.at(row, group * s.states), in.B.stride, s.states}, begin, s.length);
  fetch(m.C, {&in.C.at(row, group * s.states), in.C.stride, s.states}, begin, s.length);
  __pipeline_commit();
  if (threadIdx.x < chunk) {
    const int own = static_cast<int>(threadIdx.x), t = begin + own;
    const bool inside = t < s.length;
    const float dt = !inside ? 0.0f : in.dt.data != nullptr ? in.dt.at(row + t, h) : 1.0f;
    const float late = lagged && t + 1 < s.length ? in.lag.at(row + t + 1, h) : 0.0f;
    const float decay = expf(!lagged ? -rate_of(in, h) * dt : inside ? in.log_decay.at(row + t, h) : 0.0f);
    m.token[own] = {dt, late, decay, dt + late};
  }
  __pipeline_wait_prior(0);
  __syncthreads();
}

// One chunk of one head's channels: recomputes its states in registers, then goes backward through them.
template <int lanes, bool lagged>
__global__ void __launch_bounds__(chunk_block<lanes>)
    scan_chunk_kernel(ScanSizes s, ScanArrays in, ScanWorkspace work, Sink dx) {
  wait_for_previous_kernel();
  using Memory = ChunkMemory<lanes, lagged>;
  extern __shared__ float4 memory[];
  Memory& m = *reinterpret_cast<Memory*>(memory);
  const int own = static_cast<int>(threadIdx.x);
  const ScanThread w = scan_thread_of<lanes>(s, static_cast<int>(blockIdx.x), Memory::channels, own);
  const int tiles = (s.width + Memory::channels - 1) / Memory::channels;
  const int tile = static_cast<int>(blockIdx.x) % tiles, begin = static_cast<int>(blockIdx.y) * chunk;
  const int p = own / lanes, warp = own / 32;
  const int count = min(chunk, s.length - begin);
  const std::size_t row = static_cast<std::size_t>(w.b) * s.length + begin;
  const bool inside = w.p < s.width;
  const float rate = rate_of(in, w.h), skip = in.D != nullptr ? in.D[w.h] : 0.0f;
  constexpr int kinds = step_kinds<lagged>;
  const int parts = s.heads * tiles, part = w.h * tiles + tile;
  load_chunk<lagged>(m, s, in, w.b, w.h, tile * Memory::channels, begin);
  float h[4] = {}, flow[4] = {};
  if (inside) {
    const std::size_t at = ((static_cast<std::size_t>(w.b) * s.heads + w.h) * s.chunks + blockIdx.y) * s.width + w.p;
    load_state(h, work.states + at * s.states, s.states, w.state);
    load_state(flow, work.flows + at * s.states, s.states, w.state);
  }
  float before[chunk][4];
#pragma unroll
  for (int t = 0; t < chunk; ++t) {
    const Token token = m.token[t];
    const float input = m.x[t][p] * token.whole;
    const float4 four = four_of(&m.B[t][w.state]);
    const float B[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      before[t][k] = h[k];
      h[k] = token.decay * h[k] + input * B[k];
    }
  }
  float to_steps[chunk][kinds], to_A_log = 0, to_D = 0;
#pragma unroll
  for (int t = chunk - 1; t >= 0; --t) {
    const auto [dt, late, decay, whole] = m.token[t];
    const float x = m.x[t][p], dy = m.dy[t][p];
    const float4 fours[2] = {four_of(&m.B[t][w.state]), four_of(&m.C[t][w.state])};
    const float Bs[4] = {fours[0].x, fours[0].y, fours[0].z, fours[0].w};
    const float Cs[4] = {fours[1].x, fours[1].y, fours[1].z, fours[1].w};
    float v[8], along = 0, along_late = 0, dlog = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float B = Bs[k], g = flow[k] + dy * Cs[k];
      v[k] = g * (x * dt);
      v[4 + k] = dy * (decay * before[t][k] + x * dt * B);
      along += g * B;
      if (lagged) {
        v[k] += flow[k] * (x * late);
        along_late += flow[k] * B;
      }
      flow[k] = decay * g;
      dlog += flow[k] * before[t][k];
    }
    const int summed = share_sums<16, lanes>(v);
#pragma unroll
    for (int k = 0; k < lanes / 4; ++k) {
      const int number = summed + k;
      m.shared[warp][t][number / 4 * Memory::states + w.state + number % 4] = v[k];
    }
    to_steps[t][0] = along * x - rate * dlog;
    if (lagged) {
      to_steps[t][kinds / 2] = dlog;
      to_steps[t][kinds - 1] = along_late * x;
    }
    to_A_log -= rate * dt * dlog;
    along = sum_of_lanes<lanes>(lagged ? dt * along + late * along_late : dt * along);
    if (w.lane == 0) {
      to_D += dy * x;
      if (inside && t < count && dx.wanted()) dx.put(row + t, w.h * s.width + w.p, along + skip * dy);
    }
  }
#pragma unroll
  for (int kind = 0; kind < kinds; ++kind) {
    float of_kind[chunk];
#pragma unroll
    for (int t = 0; t < chunk; ++t) of_kind[t] = to_steps[t][kind];
    const int summed = share_sums<16, 1>(of_kind);
    if (threadIdx.x % 2 == 0) m.steps[warp][summed][kind] = of_kind[0];
  }
  to_A_log = warp_sum(to_A_log);
  to_D = warp_sum(to_D);
  if (threadIdx.x % 32 == 0) {
    m.to_A_log[warp] = to_A_log;
    m.to_D[warp] = to_D;
  }
  __syncthreads();
  for (int i = own; i < count * 2 * Memory::states; i += Memory::block) {
    const int t = i / (2 * Memory::states), number = i % (2 * Memory::states), n = number % Memory::states;
    float sum = 0;
#pragma unroll
    for (int other = 0; other < Memory::warps; ++other) sum += m.shared[other][t][number];
    if (n < s.states) {
      work.parts.shared[((row + t) * parts + part) * 2 * s.states + number / Memory::states * s.states + n] = sum;
    }
  }
  for (int i = own; i < count * kinds; i += Memory::block) {
    const int t = i / kinds, kind = i % kinds;
    float sum = 0;
#pragma unroll
    for (int other = 0; other < Memory::warps; ++other) sum += m.steps[other][t][kind];
    work.parts.steps[((row + t) * parts + part) * kinds + kind] = sum;
  }
  if (own == 0) {
    const std::size_t several = static_cast<std::size_t>(s.batch) * gridDim.y * tiles;
    const std::size_t at = (static_cast<std::size_t>(w.b) * gridDim.y + blockIdx.y) * tiles + tile;
    float sum_A_log = 0, sum_D = 0;
    for (int i = 0; i < Memory::warps; ++i) {
      sum_A_log += m.to_A_log[i];
      sum_D += m.to_D[i];
    }
    work.parts.scalars[w.h * 2 * several + at] = sum_A_log;
    work.parts.scalars[(w.h * 2 + 1) * several + at] = sum_D;
  }
}

int lanes_for(int states) {
  if (states > 128) {
    throw Error(ExitCode::failure, "the GPU's scan takes at most 128 states a channel, and there are " +
                                       std::to_string(states) + "; use --device cpu");
  }
  return states <= 16 ? 4 : states <= 32 ? 8 : states <= 64 ? 16 : 32;
}

int tiles_for(const ScanSizes& s) {
  const int lanes = lanes_for(s.states);
  const int channels = (lanes >= 16 ? chunk_block<16> : chunk_block<4>) / lanes;
  return (s.width + channels - 1) / channels;
}

std::int64_t state_elements(const ScanSizes& s) {
  return std::int64_t{s.batch} * s.heads * s.chunks * s.width * s.states;
}
std::int64_t part_rows(const ScanSizes& s) { return std::int64_t{s.batch} * s.length * s.heads * tiles_for(s); }

template <int lanes, bool lagged, bool high_occupancy>
void launch_scan(cudaStream_t stream, const ScanSizes& s, const ScanArrays& in, float* y, float* state, bool resume) {
  constexpr int buffer =
      sizeof(ScanTile<lanes, forward_tile>) + forward_tile * 16 * lanes + sizeof(ScalarTile<forward_tile>);
  const auto kernel = scan_kernel<lanes, lagged, high_occupancy>;
  allow_shared_memory(reinterpret_cast<const void*>(kernel), 2 * buffer, "ssd_scan");
  const unsigned blocks = static_cast<unsigned>(s.batch * s.heads) * blocks_for(s.width, scan_threads / lanes);
  launch(kernel, blocks, high_occupancy ? scan_threads : segments * scan_threads,
         s.length > forward_tile ? 2 * buffer : buffer, stream, s, in, y, state, resume);
}

template <int lanes, bool lagged>
void launch_backward(cudaStream_t stream, const ScanSizes& s, const ScanArrays& in, const ScanWorkspace& work,
                     const Sink& dx) {
  const dim3 sequences(static_cast<unsigned>(s.batch * s.heads) * blocks_for(s.width, scan_threads / lanes), 2);
  // Not an early launch: these few blocks would gather on multiprocessors that the previous kernel leaves first, and
  // run slower.
  scan_states_kernel<lanes, lagged><<<sequences, scan_threads, 0, stream>>>(s, in, work);
  using Memory = ChunkMemory<lanes, lagged>;
  const auto kernel = scan_chunk_kernel<lanes, lagged>;
  allow_shared_memory(reinterpret_cast<const void*>(kernel), sizeof(Memory), "ssd_scan_backward");
  const dim3 grid(static_cast<unsigned>(s.batch * s.heads * tiles_for(s)), static_cast<unsigned>(s.chunks));
  launch(kernel, grid, Memory::block, sizeof(Memory), stream, s, in, work, dx);
}

/// Calls body with the lanes of a channel, and whether there is a lag, as types.
template <class Body>
void with_kind(const ScanInputs& in, const ScanSizes& s, const Body& body) {
  const auto with_lag = [&](auto lanes) {
    if (in.lag.defined()) return body(lanes, std::true_type{});
    body(lanes, std::false_type{});
  };
  switch (lanes_for(s.states)) {
    case 4:
      return with_lag(std::integral_constant<int, 4>{});
    case 8:
      return with_lag(std::integral_constant<int, 8>{});
    case 16:
      return with_lag(std::integral_constant<int, 16>{});
    default:
      return with_lag(std::integral_constant<int, 32>{});
  }
}

}  // namespace

void CudaBackend::ssd_scan(const ScanInputs& in, const Tensor& y, const Tensor& state, bool resume) {
  if (in.x.elements() == 0) return;
  if (goes_by_chunks(in)) {
    auto* memory = static_cast<float*>(operand_memory(static_cast<std::size_t>(ssd_scan_operands(in))));
    scan_by_chunks(stream(), in, precision_ == Precision::fp32, memory, y, state, resume);
  } else if (is_one_chunk(in) && !state.defined()) {
    scan_alone(stream(), in, precision_ == Precision::fp32, y);
  } else {
    const ScanSizes s = sizes_of(in, chunk);
    const ScanArrays arrays = arrays_of(in);
    with_kind(in, s, [&](auto lanes, auto lagged) {
      const auto run = is_gpu_shared() ? launch_scan<lanes(), lagged(), true> : launch_scan<lanes(), lagged(), false>;
      run(stream(), s, arrays, y.as<float>(), state.as<float>(), resume);
    });
  }
  launched("ssd_scan");
}

bool CudaBackend::scans_narrow(const ScanInputs& in) const {
  return precision_ == Precision::bf16 && stores_narrow(in);
}

std::int64_t CudaBackend::ssd_scan_operands(const ScanInputs& in) const {
  return goes_by_chunks(in) ? chunk_memory(in) * static_cast<std::int64_t>(sizeof(float)) : 0;
}

std::int64_t CudaBackend::ssd_scan_workspace(const ScanInputs& in) const {
  if (in.x.elements() == 0) return 1;
  if (goes_by_chunks(in)) return chunk_workspace(in);
  if (is_one_chunk(in)) return alone_workspace(in);
  const ScanSizes s = sizes_of(in, chunk);
  return 2 * state_elements(s) + part_rows(s) * (2 * s.states + kinds_of(in)) +
         std::int64_t{2} * s.heads * s.batch * s.chunks * tiles_for(s);
}

void CudaBackend::ssd_scan_backward(const ScanInputs& in, const Tensor& dy, const Tensor& workspace,
                                    const ScanGrads& out) {
  if (in.x.elements() == 0) return;
  if (goes_by_chunks(in)) {
    scan_by_chunks_backward(stream(), in, precision_ == Precision::fp32, dy, workspace.as<float>(), out);
    launched("ssd_scan_backward");
    return;
  }
  if (is_one_chunk(in)) {
    scan_alone_backward(stream(), in, precision_ == Precision::fp32, dy, workspace.as<float>(), out);
    launched("ssd_scan_backward");
    return;
  }
  const ScanSizes s = sizes_of(in, chunk);
  ScanArrays arrays = arrays_of(in);
  arrays.dy = dy.as<float>();
  const int tiles = tiles_for(s);
  ScanWorkspace work{};
  work.states = workspace.as<float>();
  work.flows = work.states + state_elements(s);
  work.parts.shared = work.flows + state_elements(s);
  work.parts.steps = work.parts.shared + part_rows(s) * 2 * s.states;
  work.parts.scalars = work.parts.steps + part_rows(s) * kinds_of(in);
  work.parts.sharers = s.group * tiles;
  work.parts.tiles = tiles;
  work.parts.kinds = kinds_of(in);
  work.parts.several = s.batch * s.chunks * tiles;
  with_kind(in, s, [&](auto lanes, auto lagged) {
    launch_backward<lanes(), lagged()>(stream(), s, arrays, work, sink_of(out.x));
  });
  launched("ssd_scan_backward");
  sum_parts(stream(), s, in, work.parts, 0, out);
  launched("ssd_scan_backward sums");
}

}  // namespace afterglow
