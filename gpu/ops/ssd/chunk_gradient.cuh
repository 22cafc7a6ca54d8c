// Shared by the gradients of the chunked scan for float32 (ssd_chunks_backward.cu) and bfloat16
// (ssd_chunks_backward_narrow.cu): the steps' gradients, from sums over the paths of each token.
#pragma once
#include "gpu/ops/ssd/ssd_chunks.cuh"
#include "gpu/tile/tiles.cuh"

namespace afterglow::scan {

/// Sums for every token of one unit, from which the steps' gradients are made. Paths inside the chunk are counted
/// without the weight of the token at which they begin.
struct TokenSums {
  float begins[chunk];  // paths inside that begin here and end later
  float own[chunk];     // the token's own output
  float leaves[chunk];  // paths that begin here and leave the chunk
  float enters[chunk];  // paths that enter the chunk and end here
  float skips[chunk];   // dy x
};

/// The unit: a tile of channels of a head, in a chunk with `count` tokens.
struct StepsPosition {
  int b, c, h, tile, count;
};

/// Writes the gradients of the steps of a unit's tokens; one warp calls, with two tokens a lane. `inside`: for each
/// token the weighted paths inside the chunk from before it to it or later; `through`: this lane's part of the paths
/// through the whole chunk. With `alone` no path enters or leaves.
template <bool alone>
__device__ void put_steps(const TokenSums& sums, const float (&inside)[2], float through, const Pace* paces,
                          const ScanSizes& s, const ScanSteps& in, const ScanParts& out, const StepsPosition& at) {
  const int lane = int(threadIdx.x) % 32;
  const float rate = in.A_log != nullptr ? expf(in.A_log[at.h]) : 0.0f;
  double passing[2], entered = 0, skipped = 0, of_rate = 0;
  for (int i = 0; i < 2; ++i) {
    const int t = 2 * lane + i;
    passing[i] = double(paces[t].whole) * sums.leaves[t] - sums.enters[t];
    entered += sums.enters[t];
    skipped += sums.skips[t];
  }
  // Paths that entered the chunk and end here or later, that began before and leave, and that pass through.
  const double passed = passing[0] + passing[1];
  double outside = alone ? 0
                         : device::warp_sum(entered + through * decay_from_start(paces[chunk - 1])) +
                               (device::sum_along_lanes(passed, lane) - passed);
  const std::size_t part = std::size_t(at.h) * out.tiles + at.tile;
  for (int i = 0; i < 2; ++i) {
    const int t = 2 * lane + i;
    const double dlog = inside[i] + outside;
    of_rate -= dlog * paces[t].dt;
    if (t < at.count) {
      const std::size_t row = std::size_t(at.b) * s.length + at.c * chunk + t;
      float* to = out.steps + (row * s.heads * out.tiles + part) * out.kinds;
      const float later = sums.begins[t] + sums.leaves[t];
      to[0] = sums.own[t] + later - rate * float(dlog);
      if (out.kinds > 1) {
        to[1] = float(dlog);
        to[2] = later;
      }
    }
    if (!alone) outside += passing[i];
  }
  of_rate = device::warp_sum(of_rate);
  skipped = device::warp_sum(skipped);
  if (lane != 0) return;
  float* to = out.scalars + (std::size_t(at.b) * s.chunks + at.c) * out.tiles + at.tile;
  to[at.h * 2 * std::size_t(out.several)] = float(rate * of_rate);
  to[(at.h * 2 + 1) * std::size_t(out.several)] = float(skipped);
}

/// Stores a block's dB or dC in the rows of the gradient, for the 16 rows of each warp from `row` on.
template <int state_tiles, class T>
__device__ void put_straight(const float (&sums)[state_tiles][4], const Rows<T>& to, const ScanSizes& s,
                             std::size_t row, int group, int count) {
  if (to.data == nullptr) return;
  const ThreadPosition p;
  device::unrolled<2>([&](int r) {
    const int t = p.row() + 8 * r, left = t < count ? s.states : 0;
    const auto two = [&](int n) { return make_float2(sums[n][2 * r], sums[n][2 * r + 1]); };
    T* own = &to.at(row + t, unsigned(group * s.group_states));
    if constexpr (std::is_same_v<T, Bf16>) {
      store_row<state_tiles>(own, left, two);
    } else {
      device::unrolled<state_tiles>([&](int n) {
        if (8 * n < left) reinterpret_cast<float2&>(own[8 * n + p.column()]) = two(n);
      });
    }
  });
}

/// Stores a block's dB and, with `both`, dC in the parts, for the 16 rows of each warp from `row` on.
template <int state_tiles>
__device__ void put_shared(const float (&dB)[state_tiles][4], const float (&dC)[state_tiles][4], bool both,
                           const ScanSizes& s, const ScanParts& out, std::size_t row, int part, int count) {
  const ThreadPosition p;
  const std::size_t sharers = std::size_t(s.groups) * out.sharers;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int t = p.row() + 8 * r;
    if (t >= count) continue;
    float* to = out.shared + ((row + t) * sharers + part) * 2 * s.states + p.column();
    const auto put = [&](float* to_tile, const float(&sums)[4], int left) {
      if (left > 1 && s.states % 2 == 0) {
        *reinterpret_cast<float2*>(to_tile) = make_float2(sums[2 * r], sums[2 * r + 1]);
      } else {
        if (left > 0) to_tile[0] = sums[2 * r];
        if (left > 1) to_tile[1] = sums[2 * r + 1];
      }
    };
    device::unrolled<state_tiles>([&](int n) {
      const int left = s.states - p.column() - 8 * n;
      put(to + 8 * n, dB[n], left);
      if (both) put(to + s.states + 8 * n, dC[n], left);
    });
  }
}

}  // namespace afterglow::scan
