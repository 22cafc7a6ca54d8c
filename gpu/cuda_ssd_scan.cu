// The selective scan by its recurrence: a thread keeps four numbers of the state in registers, the threads of a group
// share a row of it. The gradient cuts the sequence into chunks: one launch walks it in both directions and leaves the
// states between chunks, one launch does all chunks side by side, one adds what heads share. By the trapezoidal rule a
// token enters once more, late: the state that is handed on holds it with both weights, its own answer with the first.
// Bound by latency: the steps of a sequence depend on each other, and each is a few instructions.
#include <cuda_pipeline.h>

#include "gpu/cuda_backend.h"
#include "gpu/cuda_device.cuh"

namespace afterglow {

using namespace device;

namespace {

constexpr int walkers = 128;   // threads of a block that walks along the sequence
constexpr int walk_tile = 32;  // tokens in shared memory at a time
constexpr int chunk = 16;      // tokens between kept states; their states fit in registers

struct ScanSizes {
  int batch, length, heads, groups, width, states;
  int chunks, group;  // chunks of a sequence; heads that share B and C
};

struct ScanArrays {
  Rows<float> x, dt, log_decay, lag, B, C;
  const float *A_log, *D, *dy;
};

struct Walk {
  int b, h, p, lane, state;  // this thread: batch, head, channel, place in its group, first of its four states
};

template <int lanes>
__device__ Walk walk_of(const ScanSizes& s, int block, int tile_width) {
  const int tiles = (s.width + tile_width - 1) / tile_width;
  const int pair = block / tiles, lane = static_cast<int>(threadIdx.x) % lanes;
  return {pair / s.heads, pair % s.heads, block % tiles * tile_width + static_cast<int>(threadIdx.x) / lanes, lane,
          4 * lane};
}

__device__ float rate_of(const ScanArrays& a, int h) { return a.A_log != nullptr ? expf(a.A_log[h]) : 0.0f; }

/// Tokens in shared memory: `first` is x or dy [steps][channels], then the rows of B or C it meets.
template <int lanes, int block, int steps>
struct ScanTile {
  static constexpr int channels = block / lanes, states = 4 * lanes;
  float u[steps][channels];
  float s[steps][states];
};

/// Starts the copy of tokens [begin, begin + steps); what lies outside stays as it was (zero).
template <int lanes, int block, int steps>
__device__ void fetch(ScanTile<lanes, block, steps>& to, const ScanSizes& s, const float* u, std::size_t u_stride,
                      int channel, const Rows<float>& states, int state, int begin) {
  using Tile = ScanTile<lanes, block, steps>;
  const auto valid = [&](int step) { return begin + step >= 0 && begin + step < s.length; };
  for (int i = static_cast<int>(threadIdx.x); i < steps * Tile::channels; i += block) {
    const int step = i / Tile::channels, c = i % Tile::channels;
    if (valid(step) && channel + c < s.width) {
      __pipeline_memcpy_async(&to.u[step][c], u + (begin + step) * u_stride + channel + c, 4);
    }
  }
  for (int i = static_cast<int>(threadIdx.x); i < steps * Tile::states; i += block) {
    const int step = i / Tile::states, n = i % Tile::states;
    if (valid(step) && n < s.states) {
      __pipeline_memcpy_async(&to.s[step][n], states.data + (begin + step) * states.stride + state + n, 4);
    }
  }
}

/// Per token and head: dt, the logarithm of the decay (read only where it is given), and with what weight the token
/// enters late.
template <int steps>
struct ScalarTile {
  float dt[steps], log_decay[steps], late[steps];
};

/// Starts the copy of tokens [begin, begin + steps), by the first threads of a block.
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

template <class T>
__device__ void zero(T& memory, int block) {
  float* words = reinterpret_cast<float*>(&memory);
  for (int i = static_cast<int>(threadIdx.x); i < static_cast<int>(sizeof(T) / 4); i += block) words[i] = 0.0f;
}

template <int lanes>
__device__ float sum_of_group(float x) {
#pragma unroll
  for (int offset = lanes / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(full_warp, x, offset);
  return x;
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

// Forward: the block's channels of one head, from the first token to the last.
template <int lanes, bool lagged>
__global__ void __launch_bounds__(walkers)
    scan_kernel(ScanSizes s, ScanArrays in, float* y, float* state, bool resume) {
  using Tile = ScanTile<lanes, walkers, walk_tile>;
  struct Buffer {
    Tile xB;
    float C[walk_tile][Tile::states];
    ScalarTile<walk_tile> scalars;
  };
  extern __shared__ float4 memory[];
  Buffer* buffers = reinterpret_cast<Buffer*>(memory);
  __shared__ float decays[walk_tile], steps[walk_tile];
  const Walk w = walk_of<lanes>(s, static_cast<int>(blockIdx.x), Tile::channels);
  const int channel = w.p - static_cast<int>(threadIdx.x) / lanes, group = w.h / s.group;
  const std::size_t row = static_cast<std::size_t>(w.b) * s.length;
  const float rate = rate_of(in, w.h), skip = in.D != nullptr ? in.D[w.h] : 0.0f;
  zero(buffers[0], walkers);
  zero(buffers[1], walkers);
  __syncthreads();
  const auto start = [&](int begin, Buffer& to) {
    fetch<lanes, walkers, walk_tile>(to.xB, s, &in.x.at(row, w.h * s.width), in.x.stride, channel,
                                     {&in.B.at(row, 0), 1, in.B.stride, false}, group * s.states, begin);
    for (int i = static_cast<int>(threadIdx.x); i < walk_tile * Tile::states; i += walkers) {
      const int step = i / Tile::states, n = i % Tile::states;
      if (begin + step < s.length && n < s.states) {
        __pipeline_memcpy_async(&to.C[step][n], &in.C.at(row + begin + step, group * s.states + n), 4);
      }
    }
    fetch<lagged>(to.scalars, s, in, row, w.h, begin);
    __pipeline_commit();
  };
  float h[4] = {};
  float* kept = state + ((static_cast<std::size_t>(w.b) * s.heads + w.h) * s.width + w.p) * s.states;
  if (resume && w.p < s.width) load_state(h, kept, s.states, w.state);
  start(0, buffers[0]);
  for (int begin = 0, turn = 0; begin < s.length; begin += walk_tile, turn ^= 1) {
    if (begin + walk_tile < s.length) {
      start(begin + walk_tile, buffers[turn ^ 1]);
      __pipeline_wait_prior(1);
    } else {
      __pipeline_wait_prior(0);
    }
    __syncthreads();
    const Buffer& tile = buffers[turn];
    if (threadIdx.x < walk_tile) {
      const float dt = in.dt.data != nullptr ? tile.scalars.dt[threadIdx.x] : 1.0f;
      steps[threadIdx.x] = dt;
      decays[threadIdx.x] = expf(lagged ? tile.scalars.log_decay[threadIdx.x] : -rate * dt);
    }
    __syncthreads();
    const int count = min(walk_tile, s.length - begin), p = static_cast<int>(threadIdx.x) / lanes;
#pragma unroll 4
    for (int step = 0; step < count; ++step) {
      const float x = tile.xB.u[step][p], input = x * steps[step], decay = decays[step];
      const float4 B = *reinterpret_cast<const float4*>(&tile.xB.s[step][w.state]);
      const float4 C = *reinterpret_cast<const float4*>(&tile.C[step][w.state]);
      h[0] = decay * h[0] + input * B.x;
      h[1] = decay * h[1] + input * B.y;
      h[2] = decay * h[2] + input * B.z;
      h[3] = decay * h[3] + input * B.w;
      const float out = sum_of_group<lanes>(h[0] * C.x + h[1] * C.y + h[2] * C.z + h[3] * C.w);
      if (lagged) {
        const float late = x * tile.scalars.late[step];
        h[0] += late * B.x;
        h[1] += late * B.y;
        h[2] += late * B.z;
        h[3] += late * B.w;
      }
      if (w.lane == 0 && w.p < s.width) {
        y[((row + begin + step) * s.heads + w.h) * s.width + w.p] = out + skip * x;
      }
    }
    __syncthreads();
  }
  if (state != nullptr && w.p < s.width) store_state(h, kept, s.states, w.state);
}

/// What the gradient keeps between its launches, in the caller's workspace.
struct ScanWorkspace {
  float *states, *flows;  // [B,H,chunks,P,N]: the state before a chunk, and what flows into it from behind
  float* shared;          // [B,T,H tiles,2N]: parts of dB and dC
  float* steps;           // [B,T,H tiles,kinds]: parts of d dt; lagged also of d log_decay and of d lag, a token early
  float* scalars;         // [H,2,B chunks tiles]: parts of dA_log and dD
};

template <bool lagged>
constexpr int step_kinds = lagged ? 3 : 1;

// The states before every chunk (blockIdx.y 0) and the flow from behind into every chunk (1). Both are the same walk,
// h <- decay h + u s^T: forward with dt x and B, backward with dy and C, where the decay acts after the kept moment.
template <int lanes, bool lagged>
__global__ void __launch_bounds__(walkers) scan_states_kernel(ScanSizes s, ScanArrays in, ScanWorkspace out) {
  using Tile = ScanTile<lanes, walkers, chunk>;
  struct Buffer {
    Tile us;
    ScalarTile<chunk> scalars;
  };
  __shared__ __align__(16) Buffer buffers[2];
  const bool back = blockIdx.y == 1;
  const Walk w = walk_of<lanes>(s, static_cast<int>(blockIdx.x), Tile::channels);
  const int channel = w.p - static_cast<int>(threadIdx.x) / lanes, group = w.h / s.group;
  const std::size_t row = static_cast<std::size_t>(w.b) * s.length;
  const float rate = rate_of(in, w.h);
  zero(buffers[0], walkers);
  zero(buffers[1], walkers);
  __syncthreads();
  const float* u = back ? in.dy + (row * s.heads + w.h) * s.width : &in.x.at(row, w.h * s.width);
  const std::size_t u_stride = back ? static_cast<std::size_t>(s.heads) * s.width : in.x.stride;
  const Rows<float> states = back ? Rows<float>{&in.C.at(row, 0), 1, in.C.stride, false}
                                  : Rows<float>{&in.B.at(row, 0), 1, in.B.stride, false};
  const auto start = [&](int c, Buffer& to) {
    fetch<lanes, walkers, chunk>(to.us, s, u, u_stride, channel, states, group * s.states, c * chunk);
    fetch<lagged>(to.scalars, s, in, row, w.h, c * chunk);
    __pipeline_commit();
  };
  const auto place = [&](int i) { return back ? s.chunks - 1 - i : i; };
  float* kept = back ? out.flows : out.states;
  float h[4] = {};
  start(place(0), buffers[0]);
  for (int i = 0; i < s.chunks; ++i) {
    const int c = place(i), begin = c * chunk;
    if (i + 1 < s.chunks) {
      start(place(i + 1), buffers[(i + 1) % 2]);
      __pipeline_wait_prior(1);
    } else {
      __pipeline_wait_prior(0);
    }
    __syncthreads();
    const Buffer& tile = buffers[i % 2];
    if (w.p < s.width) {
      const std::size_t at = ((static_cast<std::size_t>(w.b) * s.heads + w.h) * s.chunks + c) * s.width + w.p;
      store_state(h, kept + at * s.states, s.states, w.state);
    }
    const int count = min(chunk, s.length - begin), p = static_cast<int>(threadIdx.x) / lanes;
#pragma unroll 4
    for (int j = 0; j < count; ++j) {
      const int step = back ? count - 1 - j : j;
      const float dt = in.dt.data != nullptr ? tile.scalars.dt[step] : 1.0f;
      const float decay = expf(lagged ? tile.scalars.log_decay[step] : -rate * dt);
      const float before = back ? 1.0f : decay, after = back ? decay : 1.0f;
      const float input = tile.us.u[step][p] * (back ? 1.0f : lagged ? dt + tile.scalars.late[step] : dt);
      const float4 v = *reinterpret_cast<const float4*>(&tile.us.s[step][w.state]);
      h[0] = (before * h[0] + input * v.x) * after;
      h[1] = (before * h[1] + input * v.y) * after;
      h[2] = (before * h[2] + input * v.z) * after;
      h[3] = (before * h[3] + input * v.w) * after;
    }
    __syncthreads();
  }
}

/// Adds eight numbers over the channels of a warp. Halves change hands, so that a lane ends with 8 / (32 / lanes) of
/// the sums; `first` is the number of the first of them.
template <int lanes>
__device__ int sum_over_channels(float (&v)[8]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int first = 0, count = 8;
#pragma unroll
  for (int offset = 16; offset >= lanes; offset /= 2) {
    count /= 2;
    const bool upper = (lane & offset) != 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i >= count) break;
      const float low = v[i], high = v[i + count];
      v[i] = (upper ? high : low) + __shfl_xor_sync(full_warp, upper ? low : high, offset);
    }
    if (upper) first += count;
  }
  return first;
}

template <int lanes>
constexpr int chunk_block = lanes >= 16 ? 128 : 256;

template <int lanes, bool lagged>
struct ChunkMemory {
  static constexpr int block = chunk_block<lanes>, channels = block / lanes, states = 4 * lanes, warps = block / 32;
  float x[chunk][channels], dy[chunk][channels];
  float B[chunk][states], C[chunk][states];
  float dt[chunk], decay[chunk], late[chunk];
  float shared[warps][chunk][2 * states];
  float steps[warps][chunk][step_kinds<lagged>];
  float sums[32];
};

template <int lanes, bool lagged>
__device__ void load_chunk(ChunkMemory<lanes, lagged>& m, const ScanSizes& s, const ScanArrays& in, int b, int h,
                           int channel, int begin) {
  using Memory = ChunkMemory<lanes, lagged>;
  const std::size_t row = static_cast<std::size_t>(b) * s.length + begin;
  const int count = min(chunk, s.length - begin), group = h / s.group;
  for (int i = static_cast<int>(threadIdx.x); i < chunk * Memory::channels; i += Memory::block) {
    const int step = i / Memory::channels, c = i % Memory::channels;
    const bool inside = step < count && channel + c < s.width;
    m.x[step][c] = inside ? in.x.at(row + step, h * s.width + channel + c) : 0.0f;
    m.dy[step][c] = inside ? in.dy[((row + step) * s.heads + h) * s.width + channel + c] : 0.0f;
  }
  for (int i = static_cast<int>(threadIdx.x); i < chunk * Memory::states; i += Memory::block) {
    const int step = i / Memory::states, n = i % Memory::states;
    const bool inside = step < count && n < s.states;
    m.B[step][n] = inside ? in.B.at(row + step, group * s.states + n) : 0.0f;
    m.C[step][n] = inside ? in.C.at(row + step, group * s.states + n) : 0.0f;
  }
  if (threadIdx.x < chunk) {
    const bool inside = static_cast<int>(threadIdx.x) < count;
    const float dt = !inside ? 0.0f : in.dt.data != nullptr ? in.dt.at(row + threadIdx.x, h) : 1.0f;
    m.dt[threadIdx.x] = dt;
    m.decay[threadIdx.x] = expf(!lagged ? -rate_of(in, h) * dt : inside ? in.log_decay.at(row + threadIdx.x, h) : 0.0f);
    const bool enters_late = lagged && begin + static_cast<int>(threadIdx.x) + 1 < s.length;
    m.late[threadIdx.x] = enters_late && inside ? in.lag.at(row + threadIdx.x + 1, h) : 0.0f;
  }
}

// One chunk of one head's channels: the states again, kept in registers, then back through them.
template <int lanes, bool lagged>
__global__ void __launch_bounds__(chunk_block<lanes>)
    scan_chunk_kernel(ScanSizes s, ScanArrays in, ScanWorkspace work, Sink dx) {
  using Memory = ChunkMemory<lanes, lagged>;
  extern __shared__ float4 memory[];
  Memory& m = *reinterpret_cast<Memory*>(memory);
  const Walk w = walk_of<lanes>(s, static_cast<int>(blockIdx.x), Memory::channels);
  const int tiles = (s.width + Memory::channels - 1) / Memory::channels;
  const int tile = static_cast<int>(blockIdx.x) % tiles, begin = static_cast<int>(blockIdx.y) * chunk;
  const int p = static_cast<int>(threadIdx.x) / lanes, warp = static_cast<int>(threadIdx.x) / 32;
  const int count = min(chunk, s.length - begin);
  const std::size_t row = static_cast<std::size_t>(w.b) * s.length + begin;
  load_chunk(m, s, in, w.b, w.h, tile * Memory::channels, begin);
  const bool inside = w.p < s.width;
  float h[4] = {}, flow[4] = {};
  if (inside) {
    const std::size_t at = ((static_cast<std::size_t>(w.b) * s.heads + w.h) * s.chunks + blockIdx.y) * s.width + w.p;
    load_state(h, work.states + at * s.states, s.states, w.state);
    load_state(flow, work.flows + at * s.states, s.states, w.state);
  }
  __syncthreads();

  float before[chunk][4];
#pragma unroll
  for (int t = 0; t < chunk; ++t) {
    const float input = m.x[t][p] * (lagged ? m.dt[t] + m.late[t] : m.dt[t]), decay = m.decay[t];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      before[t][i] = h[i];
      h[i] = decay * h[i] + input * m.B[t][w.state + i];
    }
  }
  const float rate = rate_of(in, w.h), skip = in.D != nullptr ? in.D[w.h] : 0.0f;
  constexpr int kinds = step_kinds<lagged>;
  float to_steps[chunk][kinds], to_A_log = 0, to_D = 0;
#pragma unroll
  for (int t = chunk - 1; t >= 0; --t) {
    const float x = m.x[t][p], dy = m.dy[t][p], dt = m.dt[t], decay = m.decay[t];
    float v[8], along = 0, along_late = 0, dlog = 0;
    const float late = lagged ? m.late[t] : 0.0f;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float B = m.B[t][w.state + i];
      const float g = flow[i] + dy * m.C[t][w.state + i];
      v[i] = g * (x * dt);
      v[4 + i] = dy * (decay * before[t][i] + x * dt * B);
      along += g * B;
      if (lagged) {
        v[i] += flow[i] * (x * late);
        along_late += flow[i] * B;
      }
      flow[i] = decay * g;
      dlog += flow[i] * before[t][i];
    }
    const int first = sum_over_channels<lanes>(v);
#pragma unroll
    for (int i = 0; i < lanes / 4; ++i) {
      const int number = first + i;
      m.shared[warp][t][number / 4 * Memory::states + w.state + number % 4] = v[i];
    }
    to_steps[t][0] = along * x - rate * dlog;
    if (lagged) {
      to_steps[t][kinds / 2] = dlog;
      to_steps[t][kinds - 1] = along_late * x;
    }
    to_A_log -= rate * dt * dlog;
    along = sum_of_group<lanes>(dt * along + late * along_late);
    if (w.lane == 0) {
      to_D += dy * x;
      if (inside && t < count && dx.wanted()) dx.put(row + t, w.h * s.width + w.p, along + skip * dy);
    }
  }
#pragma unroll
  for (int t = 0; t < chunk; ++t) {
#pragma unroll
    for (int kind = 0; kind < kinds; ++kind) {
      const float sum = warp_sum(to_steps[t][kind]);
      if (threadIdx.x % 32 == 0) m.steps[warp][t][kind] = sum;
    }
  }
  to_A_log = block_sum(to_A_log, m.sums);
  to_D = block_sum(to_D, m.sums);  // its barriers also end the writing of m.shared and m.steps
  const int parts = s.heads * tiles, part = w.h * tiles + tile;
  for (int i = static_cast<int>(threadIdx.x); i < count * 2 * Memory::states; i += Memory::block) {
    const int t = i / (2 * Memory::states), number = i % (2 * Memory::states);
    const int n = number % Memory::states;
    float sum = 0;
    for (int other = 0; other < Memory::warps; ++other) sum += m.shared[other][t][number];
    if (n < s.states) {
      work.shared[((row + t) * parts + part) * 2 * s.states + number / Memory::states * s.states + n] = sum;
    }
  }
  if (static_cast<int>(threadIdx.x) < count * kinds) {
    const int t = static_cast<int>(threadIdx.x) / kinds, kind = static_cast<int>(threadIdx.x) % kinds;
    float sum = 0;
    for (int other = 0; other < Memory::warps; ++other) sum += m.steps[other][t][kind];
    work.steps[((row + t) * parts + part) * kinds + kind] = sum;
  }
  if (threadIdx.x == 0) {
    const std::size_t several = static_cast<std::size_t>(s.batch) * s.chunks * tiles;
    const std::size_t at = (static_cast<std::size_t>(w.b) * s.chunks + blockIdx.y) * tiles + tile;
    work.scalars[w.h * 2 * several + at] = to_A_log;
    work.scalars[(w.h * 2 + 1) * several + at] = to_D;
  }
}

struct ScanSinks {
  Sink dt, A_log, B, C, D, log_decay, lag;
};

/// The sum of one kind of step for one token and head. What belongs to lag was found at the token before it.
__device__ void put_step(const ScanSizes& s, const ScanSinks& out, int kind, std::size_t row, int h, float sum) {
  if (kind == 0 && out.dt.wanted()) out.dt.put(row, h, sum);
  if (kind == 1 && out.log_decay.wanted()) out.log_decay.put(row, h, sum);
  if (kind < 2 || !out.lag.wanted()) return;
  const int t = static_cast<int>(row % s.length);
  if (t == 0) out.lag.put(row, h, 0.0f);
  if (t + 1 < s.length) out.lag.put(row + 1, h, sum);
}

// Adds the parts: a block a head for dA_log and dD first, then a thread a number of dB, dC and of the steps.
template <int kinds>
__global__ void __launch_bounds__(threads) scan_sum_kernel(ScanSizes s, ScanWorkspace work, ScanSinks out, int tiles) {
  __shared__ float sums[32];
  const int parts = s.heads * tiles;
  if (static_cast<int>(blockIdx.x) < s.heads) {
    const int h = static_cast<int>(blockIdx.x);
    const std::size_t several = static_cast<std::size_t>(s.batch) * s.chunks * tiles;
    for (int which = 0; which < 2; ++which) {
      const float* from = work.scalars + (h * 2 + which) * several;
      float sum = 0;
      for (std::size_t i = threadIdx.x; i < several; i += threads) sum += from[i];
      sum = block_sum(sum, sums);
      const Sink& to = which == 0 ? out.A_log : out.D;
      if (threadIdx.x == 0 && to.wanted()) to.put(static_cast<unsigned>(h), sum);
    }
    return;
  }
  const std::size_t i = (blockIdx.x - s.heads) * std::size_t{threads} + threadIdx.x;
  const std::size_t rows = static_cast<std::size_t>(s.batch) * s.length;
  const int wide = s.groups * s.states, width = wide + kinds * s.heads;
  if (i >= rows * width) return;
  const std::size_t row = i / width;
  const int number = static_cast<int>(i % width);
  if (number >= wide) {
    const int h = (number - wide) % s.heads, kind = (number - wide) / s.heads;
    float sum = 0;
    for (int tile = 0; tile < tiles; ++tile) sum += work.steps[(row * parts + h * tiles + tile) * kinds + kind];
    put_step(s, out, kind, row, h, sum);
    return;
  }
  const int group = number / s.states, n = number % s.states, first = group * s.group * tiles;
  float to_B = 0, to_C = 0;
#pragma unroll 4
  for (int part = first; part < first + s.group * tiles; ++part) {
    const float* from = work.shared + (row * parts + part) * 2 * s.states + n;
    to_B += from[0];
    to_C += from[s.states];
  }
  // One thread, B first: B and C may be the same numbers.
  if (out.B.wanted()) out.B.put(row, number, to_B);
  if (out.C.wanted()) out.C.put(row, number, to_C);
}

ScanSizes sizes_of(const ScanInputs& in) {
  ScanSizes s{};
  s.batch = static_cast<int>(in.x.shape[0]);
  s.length = static_cast<int>(in.x.shape[1]);
  s.heads = in.heads;
  s.groups = in.groups;
  s.width = static_cast<int>(in.x.elements() / (std::int64_t{s.batch} * s.length * s.heads));
  s.states = static_cast<int>(in.B.elements() / (std::int64_t{s.batch} * s.length * s.groups));
  s.chunks = (s.length + chunk - 1) / chunk;
  s.group = s.heads / s.groups;
  return s;
}

ScanArrays arrays_of(const ScanInputs& in) {
  return {rows_of(in.x),
          in.dt.defined() ? rows_of(in.dt) : Rows<float>{},
          in.lag.defined() ? rows_of(in.log_decay) : Rows<float>{},
          in.lag.defined() ? rows_of(in.lag) : Rows<float>{},
          rows_of(in.B),
          rows_of(in.C),
          in.A_log.as<float>(),
          in.D.as<float>(),
          nullptr};
}

int lanes_for(int states) {
  if (states > 128) {
    throw Error(ExitCode::failure, "the GPU's scan takes at most 128 states a channel, and there are " +
                                       std::to_string(states) + "; use --device cpu");
  }
  return states <= 16 ? 4 : states <= 32 ? 8 : states <= 64 ? 16 : 32;
}

int tiles_for(const ScanSizes& s) {
  const int lanes = lanes_for(s.states), channels = (lanes >= 16 ? 128 : 256) / lanes;
  return (s.width + channels - 1) / channels;
}

std::int64_t state_elements(const ScanSizes& s) {
  return std::int64_t{s.batch} * s.heads * s.chunks * s.width * s.states;
}
int kinds_of(const ScanInputs& in) { return in.lag.defined() ? step_kinds<true> : step_kinds<false>; }
std::int64_t part_rows(const ScanSizes& s) { return std::int64_t{s.batch} * s.length * s.heads * tiles_for(s); }

template <int lanes, bool lagged>
void launch_scan(cudaStream_t stream, const ScanSizes& s, const ScanArrays& in, float* y, float* state, bool resume) {
  using Tile = ScanTile<lanes, walkers, walk_tile>;
  constexpr int bytes = 2 * (sizeof(Tile) + walk_tile * Tile::states * 4 + sizeof(ScalarTile<walk_tile>));
  allow_shared_memory(reinterpret_cast<const void*>(scan_kernel<lanes, lagged>), bytes, "ssd_scan");
  const unsigned tiles = blocks_for(s.width, Tile::channels);
  scan_kernel<lanes, lagged>
      <<<static_cast<unsigned>(s.batch * s.heads) * tiles, walkers, bytes, stream>>>(s, in, y, state, resume);
}

template <int lanes, bool lagged>
void launch_backward(cudaStream_t stream, const ScanSizes& s, const ScanArrays& in, const ScanWorkspace& work,
                     const Sink& dx) {
  const auto pairs = static_cast<unsigned>(s.batch * s.heads);
  scan_states_kernel<lanes, lagged>
      <<<dim3(pairs * blocks_for(s.width, walkers / lanes), 2), walkers, 0, stream>>>(s, in, work);
  constexpr int bytes = sizeof(ChunkMemory<lanes, lagged>);
  allow_shared_memory(reinterpret_cast<const void*>(scan_chunk_kernel<lanes, lagged>), bytes, "ssd_scan_backward");
  const dim3 grid(pairs * static_cast<unsigned>(tiles_for(s)), static_cast<unsigned>(s.chunks));
  scan_chunk_kernel<lanes, lagged><<<grid, chunk_block<lanes>, bytes, stream>>>(s, in, work, dx);
}

}  // namespace

void CudaBackend::ssd_scan(const ScanInputs& in, const Tensor& y, const Tensor& state, bool resume) {
  if (in.x.elements() == 0) return;
  const ScanSizes s = sizes_of(in);
  const ScanArrays arrays = arrays_of(in);
  const auto run = [&](auto kernel) { kernel(stream(), s, arrays, y.as<float>(), state.as<float>(), resume); };
  const bool lagged = in.lag.defined();
  switch (lanes_for(s.states)) {
    case 4:
      run(lagged ? launch_scan<4, true> : launch_scan<4, false>);
      break;
    case 8:
      run(lagged ? launch_scan<8, true> : launch_scan<8, false>);
      break;
    case 16:
      run(lagged ? launch_scan<16, true> : launch_scan<16, false>);
      break;
    default:
      run(lagged ? launch_scan<32, true> : launch_scan<32, false>);
  }
  launched("ssd_scan");
}

std::int64_t CudaBackend::ssd_scan_workspace(const ScanInputs& in) const {
  if (in.x.elements() == 0) return 1;
  const ScanSizes s = sizes_of(in);
  return 2 * state_elements(s) + part_rows(s) * (2 * s.states + kinds_of(in)) +
         std::int64_t{2} * s.heads * s.batch * s.chunks * tiles_for(s);
}

void CudaBackend::ssd_scan_backward(const ScanInputs& in, const Tensor& dy, const Tensor& workspace,
                                    const ScanGrads& out) {
  if (in.x.elements() == 0) return;
  const ScanSizes s = sizes_of(in);
  ScanArrays arrays = arrays_of(in);
  arrays.dy = dy.as<float>();
  ScanWorkspace work{};
  work.states = workspace.as<float>();
  work.flows = work.states + state_elements(s);
  work.shared = work.flows + state_elements(s);
  work.steps = work.shared + part_rows(s) * 2 * s.states;
  work.scalars = work.steps + part_rows(s) * kinds_of(in);
  const auto run = [&](auto kernels) { kernels(stream(), s, arrays, work, sink_of(out.x)); };
  const bool lagged = in.lag.defined();
  switch (lanes_for(s.states)) {
    case 4:
      run(lagged ? launch_backward<4, true> : launch_backward<4, false>);
      break;
    case 8:
      run(lagged ? launch_backward<8, true> : launch_backward<8, false>);
      break;
    case 16:
      run(lagged ? launch_backward<16, true> : launch_backward<16, false>);
      break;
    default:
      run(lagged ? launch_backward<32, true> : launch_backward<32, false>);
  }
  launched("ssd_scan_backward");
  const ScanSinks sinks{sink_of(out.dt), sink_of(out.A_log),     sink_of(out.B),  sink_of(out.C),
                        sink_of(out.D),  sink_of(out.log_decay), sink_of(out.lag)};
  const std::int64_t numbers = std::int64_t{s.batch} * s.length * (s.groups * s.states + kinds_of(in) * s.heads);
  const auto sum = lagged ? scan_sum_kernel<step_kinds<true>> : scan_sum_kernel<step_kinds<false>>;
  sum<<<static_cast<unsigned>(s.heads) + blocks_for(numbers, threads), threads, 0, stream()>>>(s, work, sinks,
                                                                                               tiles_for(s));
  launched("ssd_scan_backward sums");
}

}  // namespace afterglow
