// The gradient of the long scan. States before chunks and flows into them from behind are walked first; then a block
// takes the heads of a chunk one after the other, and keeps what they add to dB and dC in registers. With the names of
// ssd_chunks.cuh, F the flow into a chunk from behind, G = C B^T and K = dy x^T,
//
//     dx_j = sum_i m_ij G_ij dy_i + f_j F B_j + D dy_j
//     dB_j = sum_i m_ij K_ij C_i + f_j F^T x_j,     dC_i = sum_j m_ij K_ij B_j + e_i S^T dy_i
//
// and the logarithm of the decay at t feels every path from a token before t to an answer at or behind t: what ends at
// i counts for all t up to i, what begins at j no more for those up to j. Sums of such paths leave out what would
// cancel.
#include "gpu/cuda_backend.h"
#include "gpu/scan/ssd_chunks.cuh"

namespace afterglow::scan {

using namespace device;
using device::tiles::commit;
using device::tiles::wait;

namespace {

/// Of every token, for one unit: sums that the steps' gradients are made of. Paths inside the chunk are counted without
/// the weight of the token that they begin at.
struct TokenSums {
  float across[4][chunk];  // weighed paths inside from before to here or later, by the warp of the tokens they begin at
  float begins[chunk];     // paths inside that begin here and end later
  float own[chunk];        // the token's own answer
  float leaves[chunk];     // paths that begin here and leave the chunk
  float enters[chunk];     // paths that come into the chunk and end here
  float skips[chunk];      // dy x
  float through[4];        // paths through the whole chunk, by warp
};

/// Parts of eight tokens that those of so many warps meet, which see their own tokens and later ones alone.
constexpr __host__ __device__ int parts_behind(int warps) { return warps * (9 - warps); }

/// K of a warp's tokens, and the weights that it makes room for where they are as wide.
template <int steps, class T>
struct Meeting {
  float met[steps][4];
  Part<T> rounded[steps];
  __device__ Part<T> (&weights())[steps] { return rounded; }
};
template <int steps>
struct Meeting<steps, float> {
  float met[steps][4];
  __device__ float (&weights())[steps][4] { return met; }
};

/// What a unit brings.
template <int width, int states, class T>
struct UnitMemory {
  T rows[2 * chunk * width];  // x, then dy
  T S[width * states], F[width * states];
};

/// As float x makes room for its own gradient, and F for the weighed products of gradients and inputs. As bfloat16 the
/// next unit is on its way while one is worked at, and weighed products are summed over units before they are
/// multiplied.
template <int width, int states, class T>
struct GradientMemory {
  static constexpr int stages = 2;
  T B[chunk * states], C[chunk * states];
  UnitMemory<width, states, T> units[stages];
  float made_here[chunk * width];
  Pace paces[2][chunk];
  float4 weighed[parts_behind(4) * 32];
  TokenSums sums[stages];
  __device__ float* made() { return made_here; }
};
template <int width, int states>
struct GradientMemory<width, states, float> {
  static constexpr int stages = 1, more = chunk * chunk - width * states;
  float B[chunk * states], C[chunk * states];
  UnitMemory<width, states, float> units[stages];
  float behind_F[more > 0 ? more : 4];
  Pace paces[2][chunk];
  TokenSums sums[stages];
  __device__ float* made() { return units[0].rows; }
};

/// Adds numbers over the lanes of a warp with the same `pair`, halving how many each lane holds: of sixteen a lane ends
/// with two of the sums, the first and second of `v`; returns the number of the first.
template <int offset = 16, int count>
__device__ int sum_over_quads(float (&v)[count]) {
  const bool upper = (threadIdx.x & offset) != 0;
  float half[count / 2];
#pragma unroll
  for (int i = 0; i < count / 2; ++i) {
    const float low = v[i], high = v[i + count / 2];
    half[i] = (upper ? high : low) + __shfl_xor_sync(full_warp, upper ? low : high, offset);
  }
  int first = upper ? count / 2 : 0;
  if constexpr (offset > 4) first += sum_over_quads<offset / 2>(half);
  v[0] = half[0];
  v[1] = half[1];
  return first;
}

/// The sum over the four lanes that share a row.
__device__ float sum_of_quad(float x) {
  x += __shfl_xor_sync(full_warp, x, 1);
  return x + __shfl_xor_sync(full_warp, x, 2);
}

/// The sum over those of the four lanes that are behind this one.
__device__ float sum_behind(float x) {
  const int pair = static_cast<int>(threadIdx.x) % 4;
  const float one = __shfl_down_sync(full_warp, x, 1, 4), two = __shfl_down_sync(full_warp, x, 2, 4),
              three = __shfl_down_sync(full_warp, x, 3, 4);
  return ((pair < 3 ? one : 0.0f) + (pair < 2 ? two : 0.0f)) + (pair < 1 ? three : 0.0f);
}

/// The sum of the lanes' numbers before this one's.
__device__ double sum_before(double value) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  double sum = value;
  for (int offset = 1; offset < 32; offset *= 2) {
    const double other = __shfl_up_sync(full_warp, sum, offset);
    if (lane >= offset) sum += other;
  }
  return sum - value;
}

__device__ double sum_of_warp(double value) {
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(full_warp, value, offset);
  return value;
}

/// Whose steps: a tile of channels of a head of a chunk with so many tokens.
struct StepsPlace {
  int b, c, h, tile, count;
};

/// What the steps of a unit's tokens receive; one warp, two tokens a lane.
__device__ void put_steps(const TokenSums& sums, const Pace* paces, const ScanSizes& s, const ScanSteps& in,
                          const ScanParts& out, const StepsPlace& at) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const float rate = in.A_log != nullptr ? expf(in.A_log[at.h]) : 0.0f;
  double inside[2], passing[2], entered = 0, skipped = 0, of_rate = 0;
  for (int i = 0; i < 2; ++i) {
    const int t = 2 * lane + i;
    inside[i] = (sums.across[0][t] + sums.across[1][t]) + (sums.across[2][t] + sums.across[3][t]);
    passing[i] = static_cast<double>(paces[t].whole) * sums.leaves[t] - sums.enters[t];
    entered += sums.enters[t];
    skipped += sums.skips[t];
  }
  const double through = (sums.through[0] + sums.through[1]) + (sums.through[2] + sums.through[3]);
  // What came into the chunk and ends here or later, what began before and leaves, what goes through.
  double outside =
      sum_of_warp(entered) + through * decay_from_start(paces[chunk - 1]) + sum_before(passing[0] + passing[1]);
  const std::size_t part = static_cast<std::size_t>(at.h) * out.tiles + at.tile;
  for (int i = 0; i < 2; ++i) {
    const int t = 2 * lane + i;
    const double dlog = inside[i] + outside;
    of_rate -= dlog * paces[t].dt;
    if (t < at.count) {
      const std::size_t row = static_cast<std::size_t>(at.b) * s.length + at.c * chunk + t;
      float* to = out.steps + (row * s.heads * out.tiles + part) * out.kinds;
      const float later = sums.begins[t] + sums.leaves[t];
      to[0] = sums.own[t] + later - rate * static_cast<float>(dlog);
      if (out.kinds > 1) {
        to[1] = static_cast<float>(dlog);
        to[2] = later;
      }
    }
    outside += passing[i];
  }
  of_rate = sum_of_warp(of_rate);
  skipped = sum_of_warp(skipped);
  if (lane != 0) return;
  float* to = out.scalars + (static_cast<std::size_t>(at.b) * s.chunks + at.c) * out.tiles + at.tile;
  to[at.h * 2 * static_cast<std::size_t>(out.several)] = static_cast<float>(rate * of_rate);
  to[(at.h * 2 + 1) * static_cast<std::size_t>(out.several)] = static_cast<float>(skipped);
}

/// Puts the 16 rows of a warp from row `top` on, of which `count` in all and `left` columns count.
template <int width, class T>
__device__ void put_rows(const Matrix<width>& from, int top, int count, int left, const SinkOf<T>& to, std::size_t row,
                         unsigned column) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  T* const begin = &to.rows.at(row, column);
  if (left % 4 == 0 && to.rows.stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(begin) % (4 * sizeof(T)) == 0) {
#pragma unroll 4
    for (int i = lane * 4; i < 16 * width; i += 128) {
      const int t = top + i / width;
      if (t >= count || i % width >= left) continue;
      T* const place = begin + t * to.rows.stride + i % width;
      Piece<4> value = Piece<4>::of(&from.at(t, i % width), true);
      if (to.accumulate) {
        const Piece<4> old = Piece<4>::of(place, true);
#pragma unroll
        for (int e = 0; e < 4; ++e) value.v[e] += old.v[e];
      }
      value.store(place);
    }
    return;
  }
#pragma unroll 1
  for (int i = lane; i < 16 * width; i += 32) {
    const int t = top + i / width, own = i % width;
    if (t < count && own < left) to.put(row + t, column + static_cast<unsigned>(own), from.at(t, own));
  }
}

constexpr int gradient_blocks = 2;  // that a multiprocessor holds

template <int width, int states, bool exact, class T>
__global__ void __launch_bounds__(block_threads, gradient_blocks)
    gradient_kernel(ScanSizes s, ScanArraysOf<T> in, ChunkArraysOf<T> from, ScanParts out, int ranges, bool strict,
                    SinkOf<T> dx) {
  await_previous();
  constexpr int state_tiles = states / 8, together = state_tiles < 4 ? state_tiles : 4, steps = chunk / 8;
  extern __shared__ float4 memory[];
  auto& m = *reinterpret_cast<GradientMemory<width, states, T>*>(memory);
  constexpr int stages = GradientMemory<width, states, T>::stages;
  constexpr bool sums_units = stages > 1;
  const Matrix<states, T> B{m.B}, C{m.C};
  const Matrix<width> made{m.made()};
  const int tiles = out.tiles;
  const Span span(s, tiles, ranges);
  const Place p;
  const int top = 16 * p.warp, begin = 2 * p.warp, count = min(chunk, s.length - span.c * chunk);
  const std::size_t row = static_cast<std::size_t>(span.b) * s.length + static_cast<std::size_t>(span.c) * chunk;
  const unsigned shared = static_cast<unsigned>(span.group * s.states);
  const auto finish = [&](int unit) {
    if (unit < span.begin) return;
    put_steps(m.sums[unit % stages], m.paces[unit % 2], s, in, out,
              {span.b, span.c, span.group * s.group + unit / tiles, unit % tiles, count});
  };
  // Brings a unit. One warp meanwhile ends the one before, or two before, whose paces may make room.
  const auto start = [&](int unit) {
    UnitMemory<width, states, T>& to = m.units[unit % stages];
    const int h = span.group * s.group + unit / tiles, first = unit % tiles * width;
    const std::size_t index = chunk_index(s, span.b, h, span.c), at = (index * tiles + unit % tiles) * width * states;
    const std::size_t dense = static_cast<std::size_t>(s.heads) * s.width;
    const unsigned column = static_cast<unsigned>(h * s.width + first);
    if (unit < span.end) {
      fetch<width>(Matrix<states, T>{to.F}, {from.flows + at, std::size_t{states}, width, states});
      fetch<width>(Matrix<states, T>{to.S}, {from.states + at, std::size_t{states}, width, states});
      fetch<chunk>(Matrix<width, T>{to.rows}, {&in.x.at(row, column), in.x.stride, count, s.width - first});
      fetch<chunk>(Matrix<width, T>{to.rows + chunk * width},
                   {in.dy + row * dense + column, dense, count, s.width - first});
    }
    if (p.warp == unit % 4) {
      finish(unit - stages);
      __syncwarp();
      for (int t = p.lane; t < chunk && unit < span.end; t += 32)
        __pipeline_memcpy_async(&m.paces[unit % 2][t], &from.paces[index * chunk + t], 16);
    }
    commit();
  };
  fetch<chunk>(B, {&in.B.at(row, shared), in.B.stride, count, s.states});
  fetch<chunk>(C, {&in.C.at(row, shared), in.C.stride, count, s.states});
  commit();
  if constexpr (stages > 1) start(span.begin);
  wait<stages - 1>();
  __syncthreads();

  // Of the tokens j of the warp as rows, of all tokens i as columns; those before j do not count.
  const auto meet = [&](auto numbers, int half, const auto& rows, const auto& columns, float(&met)[steps][4]) {
    const auto part = multiply<exact, 4>(0, numbers() / 8, LeftRows<numbers(), T>(rows, top),
                                         RightRows<numbers(), 4, T>(columns, 32 * half));
#pragma unroll
    for (int n = 0; n < 4; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) met[4 * half + n][i] = part.of(n, i);
  };
  float gram[steps][4];
#pragma unroll
  for (int half = 0; half < 2; ++half) meet(std::integral_constant<int, states>{}, half, B, C, gram);
  float dB[state_tiles][4] = {}, dC[state_tiles][4] = {};
  // What weighed products [i, j] give to the gradients of B and C, of states from 8 n on.
  const auto add_weighed = [&](int n, const Matrix<chunk, T>& weighed) {
    const auto of_B = multiply<exact, together>(begin, steps, LeftColumns<chunk, T>(weighed, top),
                                                RightColumns<states, together, false, T>(C, 8 * n));
#pragma unroll
    for (int k = 0; k < together; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i) dB[n + k][i] += of_B.of(k, i);
    const auto of_C = multiply<exact, together>(0, begin + 2, LeftRows<chunk, T>(weighed, top),
                                                RightColumns<states, together, false, T>(B, 8 * n));
#pragma unroll
    for (int k = 0; k < together; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i) dC[n + k][i] += of_C.of(k, i);
  };
  const float answers_itself = strict ? 0.0f : 1.0f;

#pragma unroll 1
  for (int unit = span.begin; unit < span.end; ++unit) {
    const int h = span.group * s.group + unit / tiles, first = unit % tiles * width;
    if constexpr (stages == 1) {
      __syncthreads();
      start(unit);
    }
    wait<0>();
    __syncthreads();
    if constexpr (stages > 1) start(unit + 1);
    UnitMemory<width, states, T>& own_unit = m.units[unit % stages];
    const Matrix<states, T> S{own_unit.S}, F{own_unit.F};
    const Matrix<width, T> x{own_unit.rows}, dy{own_unit.rows + chunk * width};
    const Pace* paces = m.paces[unit % 2];
    TokenSums& sums = m.sums[unit % stages];

    const Pace own[2] = {paces[p.row()], paces[p.row() + 8]}, last = paces[chunk - 1];
    const float leaving[2] = {decay_between(last, own[0]), decay_between(last, own[1])};

    Meeting<steps, T> meeting;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (32 * half + 32 <= top) continue;
      meet(std::integral_constant<int, width>{}, half, x, dy, meeting.met);
    }
#pragma unroll
    for (int n = 0; n < state_tiles; n += together) {
      const auto part = multiply<exact, together>(0, width / 8, LeftRows<width, T>(x, top),
                                                  RightColumns<states, together, false, T>(F, 8 * n));
#pragma unroll
      for (int k = 0; k < together; ++k)
#pragma unroll
        for (int i = 0; i < 4; ++i) dB[n + k][i] = fmaf(leaving[i / 2] * own[i / 2].whole, part.of(k, i), dB[n + k][i]);
    }
    float through = 0;
#pragma unroll 2
    for (int i = static_cast<int>(threadIdx.x) * 4; i < width * states; i += block_threads * 4) {
      const Piece<4> a = Piece<4>::of(&S.data[i], true), b = Piece<4>::of(&F.data[i], true);
      through += (a.v[0] * b.v[0] + a.v[1] * b.v[1]) + (a.v[2] * b.v[2] + a.v[3] * b.v[3]);
    }
    through = warp_sum(through);
    const float skip = in.D != nullptr ? in.D[h] : 0.0f;
    float leaves[2] = {}, skips[2] = {};
    __syncwarp();
    const OwnRow<width, T> inputs[2] = {{x, p.row()}, {x, p.row() + 8}}, above[2] = {{dy, p.row()}, {dy, p.row() + 8}};
    const OwnRow<width> making[2] = {{made, p.row()}, {made, p.row() + 8}};
    // First the part of the gradient that no other token's weight is in; x may make room for it.
#pragma unroll 1
    for (int half = 0; half < width / 32; ++half) {
      const auto part =
          multiply<exact, 4>(0, states / 8, LeftRows<states, T>(B, top), RightRows<states, 4, T>(F, 32 * half));
#pragma unroll
      for (int n = 0; n < 4; ++n)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const float2 input = inputs[r].at(4 * half + n), from_above = above[r].at(4 * half + n);
          leaves[r] = fmaf(part.of(n, 2 * r), input.x, fmaf(part.of(n, 2 * r + 1), input.y, leaves[r]));
          skips[r] = fmaf(input.x, from_above.x, fmaf(input.y, from_above.y, skips[r]));
          const float weight = leaving[r] * own[r].whole;
          making[r].at(4 * half + n) = make_float2(fmaf(weight, part.of(n, 2 * r), skip * from_above.x),
                                                   fmaf(weight, part.of(n, 2 * r + 1), skip * from_above.y));
        }
    }
    if constexpr (!sums_units) __syncthreads();  // F makes room
    const Matrix<chunk, T> weighed{own_unit.F};
    T* weighed_at[2][2];
#pragma unroll
    for (int e = 0; e < 2; ++e)
#pragma unroll
      for (int r = 0; r < 2; ++r) weighed_at[e][r] = &weighed.at(p.column() + e, p.row() + 8 * r);
    float begins[2] = {}, behind[2] = {}, across[2 * steps];
#pragma unroll
    for (int n = steps - 1; n >= 0; --n) {
      across[2 * n] = across[2 * n + 1] = 0.0f;
      if (n < begin) continue;
      const int i = 8 * n + p.column();
      const Pace later[2] = {paces[i], paces[i + 1]};
      [[maybe_unused]] float products[4];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int j = p.row() + 8 * r;
        float paths[2], own_weights[2];
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const float product = meeting.met[n][2 * r + e], meeting = gram[n][2 * r + e];
          const float decay = i + e > j ? decay_between(later[e], own[r]) : 0.0f;
          const float weight = i + e == j ? answers_itself * own[r].dt : decay * own[r].whole;
          const float path = decay * meeting * product;
          begins[r] += path;
          paths[e] = path * own[r].whole;
          if (i + e == j) sums.own[j] = meeting * product;
          if constexpr (sums_units) {
            products[2 * r + e] = weight * product;
          } else {
            weighed_at[e][r][8 * n * chunk] = weight * product;
          }
          own_weights[e] = weight * meeting;
        }
        put_two(meeting.weights()[n], r, own_weights[0], own_weights[1]);
        // Of paths that begin at j, those that end at i + 1 or later, and at i or later.
        const float after = behind[r] + sum_behind(paths[0] + paths[1]), second = after + paths[1];
        if (i >= j) across[2 * n + 1] += second;
        if (i > j) across[2 * n] += second + paths[0];
        behind[r] = __shfl_sync(full_warp, second + paths[0], p.lane - p.pair);
      }
      if constexpr (sums_units) {
        float4& sum = m.weighed[(parts_behind(p.warp) + n - begin) * 32 + p.lane];
        const float4 before = unit == span.begin ? float4{} : sum;
        sum =
            make_float4(before.x + products[0], before.y + products[1], before.z + products[2], before.w + products[3]);
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float begun = sum_of_quad(begins[r]), left = sum_of_quad(leaves[r]) * leaving[r],
                  skipped = sum_of_quad(skips[r]);
      if (p.pair != 0) continue;
      sums.begins[p.row() + 8 * r] = begun;
      sums.leaves[p.row() + 8 * r] = left;
      sums.skips[p.row() + 8 * r] = skipped;
    }
    const int summed = sum_over_quads(across);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int number = summed + i;
      sums.across[p.warp][number / 2 * 8 + p.column() + number % 2] = across[i];
    }
    if (p.lane == 0) sums.through[p.warp] = through;

#pragma unroll 1
    for (int half = 0; half < width / 32; ++half) {
      const auto part =
          multiply<exact, 4>(begin, steps, meeting.weights(), RightColumns<width, 4, true, T>(dy, 32 * half));
#pragma unroll
      for (int n = 0; n < 4; ++n)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          float2& place = making[r].at(4 * half + n);
          place = make_float2(place.x + part.of(n, 2 * r), place.y + part.of(n, 2 * r + 1));
        }
    }
    __syncwarp();
    if (dx.wanted()) put_rows(made, top, count, s.width - first, dx, row, static_cast<unsigned>(h * s.width + first));
    if constexpr (!sums_units) __syncthreads();

    float enters[2] = {};
    const float starts[2] = {decay_from_start(own[0]), decay_from_start(own[1])};
#pragma unroll
    for (int n = 0; n < state_tiles; n += together) {
      if constexpr (!sums_units) add_weighed(n, weighed);
      const auto of_S = multiply<exact, together>(0, width / 8, LeftRows<width, T>(dy, top),
                                                  RightColumns<states, together, false, T>(S, 8 * n));
#pragma unroll
      for (int k = 0; k < together; ++k)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const float2 query = C.two(p.row() + 8 * r, 8 * (n + k) + p.column());
          const float low = starts[r] * of_S.of(k, 2 * r), high = starts[r] * of_S.of(k, 2 * r + 1);
          enters[r] = fmaf(low, query.x, fmaf(high, query.y, enters[r]));
          dC[n + k][2 * r] += low;
          dC[n + k][2 * r + 1] += high;
        }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float entered = sum_of_quad(enters[r]);
      if (p.pair == 0) sums.enters[p.row() + 8 * r] = entered;
    }
  }
  __syncthreads();
  if constexpr (sums_units) {
    const Matrix<chunk, T> weighed{m.units[0].rows};
#pragma unroll
    for (int n = 0; n < steps; ++n) {
      if (n < begin) continue;
      const float4 sum = m.weighed[(parts_behind(p.warp) + n - begin) * 32 + p.lane];
      const int i = 8 * n + p.column();
      weighed.at(i, p.row()) = sum.x;
      weighed.at(i + 1, p.row()) = sum.y;
      weighed.at(i, p.row() + 8) = sum.z;
      weighed.at(i + 1, p.row() + 8) = sum.w;
    }
    __syncthreads();
#pragma unroll
    for (int n = 0; n < state_tiles; n += together) add_weighed(n, weighed);
  }

  const std::size_t sharers = static_cast<std::size_t>(s.groups) * ranges;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int t = p.row() + 8 * r;
    if (t >= count) continue;
    float* to = out.shared + ((row + t) * sharers + span.part) * 2 * s.states + p.column();
#pragma unroll
    for (int i = 0; i < 2 * state_tiles; ++i) {
      const int n = i / 2, e = i % 2, left = s.states - p.column();
      if (8 * n + e >= left) continue;
      to[8 * n + e] = dB[n][2 * r + e];
      to[s.states + 8 * n + e] = dC[n][2 * r + e];
    }
  }
  if (p.warp == 0) finish(span.end - 1);
}

constexpr int fewest_blocks = 512;  // at least so many, where there are as many units

std::int64_t shared_numbers(const ScanSizes& s) {
  return std::int64_t{s.batch} * s.length * s.groups * ranges_for(s, fewest_blocks) * 2 * s.states;
}
std::int64_t step_numbers(const ScanSizes& s, int kinds) {
  return std::int64_t{s.batch} * s.length * s.heads * shape_for(s).tiles * kinds;
}

}  // namespace

std::int64_t part_numbers(const ScanSizes& s, int kinds) {
  return shared_numbers(s) + step_numbers(s, kinds) +
         std::int64_t{2} * s.heads * s.batch * s.chunks * shape_for(s).tiles;
}

ScanParts chunk_parts(const ScanSizes& s, float* memory, int kinds) {
  const int tiles = shape_for(s).tiles;
  float* steps = memory + shared_numbers(s);
  return {
      memory, steps, steps + step_numbers(s, kinds), ranges_for(s, fewest_blocks), tiles, s.batch * s.chunks * tiles,
      kinds};
}

template <class T>
void differentiate_chunks(cudaStream_t stream, const ScanSizes& s, const ScanArraysOf<T>& in, bool exact,
                          const ChunkArraysOf<T>& from, bool strict, const ScanParts& parts, const SinkOf<T>& dx) {
  with_shape<T>(s, exact, [&](auto width, auto states, auto is_exact) {
    const auto kernel = gradient_kernel<width(), states(), is_exact(), T>;
    constexpr int bytes = sizeof(GradientMemory<width(), states(), T>);
    allow_shared_memory(reinterpret_cast<const void*>(kernel), bytes, "ssd_scan_backward");
    const unsigned blocks = static_cast<unsigned>(s.batch * s.chunks * s.groups * parts.sharers);
    launch(kernel, blocks, block_threads, bytes, stream, s, in, from, parts, parts.sharers, strict, dx);
  });
}

template void differentiate_chunks(cudaStream_t, const ScanSizes&, const ScanArrays&, bool, const ChunkArrays&, bool,
                                   const ScanParts&, const Sink&);

std::int64_t chunk_workspace(const ScanInputs& in) {
  const ScanSizes s = sizes_of(in, chunk);
  const std::int64_t numbers = in.x.dtype == DType::bf16 ? chunk_numbers<Brain>(s, true) : chunk_numbers(s, true);
  return numbers + part_numbers(s, kinds_of(in));
}

void scan_by_chunks_backward(cudaStream_t stream, const ScanInputs& in, bool exact, const Tensor& dy, float* workspace,
                             const ScanGrads& out) {
  const ScanSizes s = sizes_of(in, chunk);
  with_stored_type(in.x, [&](auto stored) {
    using T = decltype(stored);
    const auto kept = chunk_arrays<T>(s, workspace, true);
    const ScanParts parts = chunk_parts(s, workspace + chunk_numbers<T>(s, true), kinds_of(in));
    auto arrays = arrays_of<T>(in);
    arrays.dy = rows_of<T>(dy).data;
    find_paces(stream, s, arrays, kept);
    walk_chunks(stream, s, arrays, exact, kept, Ways::both, nullptr, false);
    differentiate_chunks(stream, s, arrays, exact, kept, false, parts, sink_of<T>(out.x));
    sum_parts(stream, s, in, parts, out);
  });
}

}  // namespace afterglow::scan
