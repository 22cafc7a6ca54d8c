// Shared by the passes of the chunked scan. In a chunk
//     y_i = C_i . (e_i S) + sum over j <= i of m_ij (C_i . B_j) x_j + D x_i,     S' = e_last S + sum_j f_j x_j B_j^T
//     m_ij = exp(l_i - l_j) w_ij,     e_i = exp l_i,     f_j = exp(l_last - l_j) w_j
// where S is the state before the chunk, l the cumulative log decay from the chunk's first token on, w_j the whole
// weight of a token (dt and its late part) and w_jj = dt_j. A sequence of one chunk that starts without a state needs
// no state passing and no memory for paces and states: its kernels are `alone`.
// Everything is linear in the states, the columns of B and C, so kernels handle up to 64 of them: a scan with more runs
// in passes whose outputs and gradients are added in order. The state passing of all passes is one launch.
#pragma once
#include "core/io/error.h"
#include "gpu/ops/ssd/ssd_scan.cuh"
#include "gpu/runtime/launch.cuh"
#include "gpu/tile/bf16_tiles.cuh"
#include "gpu/tile/lanes.cuh"

namespace afterglow::scan {

/// Step of a token and head. The cumulative log decay l (base 2) is the sum of `high` and `low`, because differences of
/// large sums matter.
struct alignas(16) Pace {
  float high, low, dt, whole;
};
__device__ inline float decay_between(const Pace& later, const Pace& earlier) {
  return device::power_of_two((later.high - earlier.high) + (later.low - earlier.low));
}
__device__ inline float decay_from_start(const Pace& pace) { return device::power_of_two(pace.high + pace.low); }

/// e and f of a token.
struct Edges {
  float start, leave;
};

constexpr int pass_states = 64;  // maximum of a pass
constexpr int max_states = 128;  // maximum of all passes
/// Sizes of the passes, from those with all states; and of one of them, since the last may have fewer states.
ScanSizes in_passes(ScanSizes s);
ScanSizes of_pass(ScanSizes s, int pass);

/// Layout in memory: paces and edges [B,H,chunks,64], then the states before chunks and, for the gradient, the flows
/// into chunks from later ones, each [passes,B,H,chunks,width,N] with width and N rounded up to kernel sizes. They have
/// the type of the products' operands.
struct ChunkPaces {
  Pace* paces = nullptr;
  Edges* edges = nullptr;
};
template <class T>
struct ChunkArraysOf : ChunkPaces {
  T *states = nullptr, *flows = nullptr;
};
using ChunkArrays = ChunkArraysOf<float>;

__device__ inline std::size_t chunk_index(const ScanSizes& s, int b, int h, int c) {
  return (std::size_t(b) * s.heads + h) * s.chunks + c;
}
/// The index over all passes.
__device__ inline std::size_t chunk_index(const ScanSizes& s, int pass, int b, int h, int c) {
  return chunk_index(s, pass * s.batch + b, h, c);
}

/// One warp loads the weights and log decays of a head's chunk, two tokens a lane.
__device__ inline void load_steps(const ScanSizes& s, const ScanSteps& in, int b, int h, int c, Pace (&own)[2],
                                  double (&log_decay)[2]) {
  const int lane = int(threadIdx.x) % 32;
  const bool lagged = in.lag.data != nullptr;
  const double rate = in.A_log != nullptr ? exp(double(in.A_log[h])) : 0.0;
  for (int i = 0; i < 2; ++i) {
    const int t = c * chunk + 2 * lane + i;
    const std::size_t row = std::size_t(b) * s.length + t;
    const bool inside = t < s.length;
    own[i].dt = !inside ? 0.0f : in.dt.data != nullptr ? in.dt.at(row, h) : 1.0f;
    own[i].whole = own[i].dt + (lagged && t + 1 < s.length ? in.lag.at(row + 1, h) : 0.0f);
    log_decay[i] = !lagged ? -rate * own[i].dt : inside ? in.log_decay.at(row, h) : 0.0f;
  }
}

/// One warp sums the log decays of a chunk, two tokens a lane.
__device__ inline void sum_decays(const double (&log_decay)[2], Pace (&own)[2]) {
  constexpr double to_base_two = 1.4426950408889634;
  const double own_sum = log_decay[0] + log_decay[1], sum = device::sum_along_lanes(own_sum, int(threadIdx.x) % 32);
  const double sums[2] = {(sum - own_sum + log_decay[0]) * to_base_two, sum * to_base_two};
  for (int i = 0; i < 2; ++i) {
    own[i].high = float(sums[i]);
    own[i].low = float(sums[i] - own[i].high);
  }
}

/// One warp writes the paces, whose weights are set, and the edges of a chunk from `at` on, two tokens a lane.
__device__ inline void put_paces(Pace (&own)[2], const double (&log_decay)[2], const ChunkPaces& to, std::size_t at) {
  sum_decays(log_decay, own);
  const Pace last{__shfl_sync(device::full_warp, own[1].high, 31), __shfl_sync(device::full_warp, own[1].low, 31), 0,
                  0};
  const Edges edges[2] = {{decay_from_start(own[0]), decay_between(last, own[0]) * own[0].whole},
                          {decay_from_start(own[1]), decay_between(last, own[1]) * own[1].whole}};
  device::wait_for_previous_kernel();  // everything was computed before
  for (int i = 0; i < 2; ++i) {
    to.paces[at + i] = own[i];
    to.edges[at + i] = edges[i];
  }
}

/// One warp computes the paces of a head in a sequence of one chunk.
__device__ inline void find_own_paces(const ScanSizes& s, const ScanSteps& in, int b, int h, Pace (&to)[chunk]) {
  const int lane = int(threadIdx.x) % 32;
  Pace own[2];
  double log_decay[2];
  load_steps(s, in, b, h, 0, own, log_decay);
  sum_decays(log_decay, own);
  for (int i = 0; i < 2; ++i) to[2 * lane + i] = own[i];
}

/// Sizes that kernels are instantiated for.
struct ChunkShape {
  int width, states;  // channels of a tile, 32 or 64; 16, 32 or 64
  int tiles;          // tiles of channels
};
ChunkShape shape_for(const ScanSizes& s);

inline std::int64_t chunks_of(const ScanSizes& s) { return std::int64_t{s.batch} * s.heads * s.chunks; }
/// Numbers of the states of a pass.
inline std::int64_t state_numbers(const ScanSizes& s) {
  const ChunkShape shape = shape_for(s);
  return chunks_of(s) * shape.tiles * shape.width * shape.states;
}
/// With or without room for the flows; chunk_numbers returns the size in floats.
template <class T = float>
std::int64_t chunk_numbers(const ScanSizes& s, bool with_flows) {
  const std::int64_t sets = (with_flows ? 2 : 1) * s.passes;
  return chunks_of(s) * 6 * chunk + sets * state_numbers(s) * std::int64_t{sizeof(T)} / 4;
}
template <class T = float>
ChunkArraysOf<T> chunk_arrays(const ScanSizes& s, float* memory, bool with_flows) {
  ChunkArraysOf<T> arrays;
  arrays.paces = reinterpret_cast<Pace*>(memory);
  arrays.edges = reinterpret_cast<Edges*>(arrays.paces + chunks_of(s) * chunk);
  arrays.states = reinterpret_cast<T*>(memory + chunks_of(s) * chunk * 6);
  if (with_flows) arrays.flows = arrays.states + s.passes * state_numbers(s);
  return arrays;
}
/// chunk_numbers for the stored type of the inputs.
std::int64_t stored_chunk_numbers(const ScanInputs& in, bool with_flows);

/// A block's work: one group of one chunk, and a range of its units (a unit is a tile of channels of a head).
struct Span {
  int b, c, group, begin, end, part;  // part: index among the ranges of all groups
  __device__ Span(const ScanSizes& s, int tiles, int ranges) {
    int rest = int(blockIdx.x);
    const int range = rest % ranges, units = s.group * tiles;
    rest /= ranges;
    group = rest % s.groups;
    rest /= s.groups;
    c = rest % s.chunks;
    b = rest / s.chunks;
    part = group * ranges + range;
    begin = range * units / ranges;
    end = (range + 1) * units / ranges;
  }
};

/// The number of ranges of units that gives about `blocks` blocks, if there are as many units.
int ranges_for(const ScanSizes& s, int blocks);

// One warp for each chunk of a head, two tokens a lane.
template <class Steps>
static __global__ void __launch_bounds__(device::threads)
    pace_kernel(ScanSizes s, Steps in, ChunkPaces to, bool may_read_early) {
  if (!may_read_early) device::wait_for_previous_kernel();
  const int lane = int(threadIdx.x) % 32;
  std::size_t rest = (std::size_t(blockIdx.x) * device::threads + threadIdx.x) / 32;
  const int h = int(rest % s.heads);
  rest /= s.heads;
  const int c = int(rest % s.chunks), b = int(rest / s.chunks);
  if (b >= s.batch) return device::wait_for_previous_kernel();
  Pace own[2];
  double log_decay[2];
  load_steps(s, in, b, h, c, own, log_decay);
  put_paces(own, log_decay, to, chunk_index(s, b, h, c) * chunk + 2 * lane);
}
/// `may_read_early`: the inputs may be read before the previous kernel has ended.
template <class Steps>
void find_paces(cudaStream_t stream, const ScanSizes& s, const Steps& in, const ChunkPaces& to, bool may_read_early) {
  const unsigned blocks = device::blocks_for(std::int64_t{s.batch} * s.heads * s.chunks, device::threads / 32);
  device::launch(pace_kernel<Steps>, blocks, device::threads, 0, stream, s, in, to, may_read_early);
}

/// Partial sums of gradients in memory with room for part_numbers.
ScanParts chunk_parts(const ScanSizes& s, float* memory, int kinds);
std::int64_t part_numbers(const ScanSizes& s, int kinds);
/// Destinations of dB and dC for blocks that share them with no others; null: they go to the parts.
template <class T>
struct StraightRows {
  Rows<T> B, C;
  __host__ __device__ bool any() const { return B.data != nullptr || C.data != nullptr; }
};
template <class T>
StraightRows<T> of_pass(const ScanSizes& s, int pass, const StraightRows<T>& all) {
  return {from_column(all.B, pass * s.states), from_column(all.C, pass * s.states)};
}
/// Destination of the gradient of x, to which all passes add.
template <class T>
SinkOf<T> of_pass(int pass, SinkOf<T> all) {
  all.accumulate |= pass > 0;
  return all;
}

/// Direction of the inter-chunk state passing, for all passes: forward writes states, backward writes flows.
enum class Directions { forward, backward, both };

/// The chunked scan of all passes, or of one.
template <class T>
struct ChunkedScan {
  cudaStream_t stream;
  ScanSizes s;
  ScanArraysOf<T> in;
  bool exact;
  ChunkArraysOf<T> memory;

  /// D does not depend on states and belongs to the first pass.
  ChunkedScan of_pass(int pass) const {
    ChunkedScan one = *this;
    one.s = scan::of_pass(s, pass);
    one.in.B = from_column(in.B, pass * s.states);
    one.in.C = from_column(in.C, pass * s.states);
    if (pass > 0) one.in.D = nullptr;
    one.memory.states += pass * state_numbers(s);
    if (memory.flows != nullptr) one.memory.flows += pass * state_numbers(s);
    return one;
  }
  void run_state_pass(Directions directions, float* state, bool resume) const;
  /// The outputs of all passes, times `scale`, from paces and states.
  void answer(float scale, T* y) const;
  /// The gradients of one pass from its paces, states and flows. `strict`: tokens do not contribute to their own
  /// output, and B and C are the same numbers, whose gradient is written as that of B. For bfloat16 nothing is exact.
  void differentiate(bool strict, const ScanParts& parts, const StraightRows<T>& rows, const SinkOf<T>& dx) const;
};
template <>
void ChunkedScan<float>::differentiate(bool, const ScanParts&, const StraightRows<float>&, const Sink&) const;
template <>
void ChunkedScan<Bf16>::differentiate(bool, const ScanParts&, const StraightRows<Bf16>&, const SinkOf<Bf16>&) const;

/// Calls body(width, states, exact) with the kernel sizes as types; bfloat16 is never exact.
template <class T = float, class Body>
void with_shape(const ScanSizes& s, bool exact, const Body& body) {
  const ChunkShape shape = shape_for(s);
  device::with_capacity<32, 64>(shape.width, [&](auto width) {
    device::with_capacity<16, 32, 64>(shape.states, [&](auto states) {
      device::with_exact<T>(exact, [&](auto is_exact) { body(width, states, is_exact); });
    });
  });
}

}  // namespace afterglow::scan
