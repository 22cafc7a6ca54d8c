// The gradient of the long scan. The state passing first computes the states before chunks and the flows F into them
// from later chunks; then a block loops over the heads of a chunk and keeps dB and dC in registers. With the names of
// ssd_chunks.cuh, G = C B^T and K = dy x^T,
//     dx_j = sum_i m_ij G_ij dy_i + f_j F B_j + D dy_j
//     dB_j = sum_i m_ij K_ij C_i + f_j F^T x_j,     dC_i = sum_j m_ij K_ij B_j + e_i S^T dy_i
// and the log decay at t receives every path from a token before t to an output at or after t: paths that end at i
// count for all t up to i, those that begin at j no longer for t up to j. The sums over paths leave out terms that
// would cancel. Grid: a block a chunk and range of the heads that share B and C.
#include "gpu/ops/ssd/chunk_gradient.cuh"
#include "gpu/tile/lanes.cuh"

namespace afterglow::scan {

using namespace device;

namespace {

struct PathSums : TokenSums {
  float across[4][chunk];  // weighted paths inside from before to here or later, by the warp of the tokens where they
                           // begin
  float through[4];        // paths through the whole chunk, by warp

  template <bool alone>
  __device__ void put(const Pace* paces, const ScanSizes& s, const ScanSteps& in, const ScanParts& out,
                      const StepsPosition& at) const {
    const int lane = int(threadIdx.x) % 32;
    float inside[2];
    for (int i = 0; i < 2; ++i) {
      const int t = 2 * lane + i;
      inside[i] = (across[0][t] + across[1][t]) + (across[2][t] + across[3][t]);
    }
    put_steps<alone>(*this, inside, lane < 4 ? through[lane] : 0.0f, paces, s, in, out, at);
  }
};

/// The gradient of x overwrites x, and the weighted products of gradients and inputs overwrite F. With `alone` there
/// are neither S nor F.
template <int width, int states, bool alone>
struct GradientMemory {
  static constexpr int more = chunk * chunk - width * states;
  float B[chunk * states], C[chunk * states];
  float x[chunk * width], dy[chunk * width];
  float S[alone ? 4 : width * states], F[width * states], behind_F[more > 0 ? more : 4];
  Pace paces[2][chunk];
  PathSums sums;
};

/// The sum over the four lanes that follow this one.
__device__ float sum_behind(float x) {
  const int pair = int(threadIdx.x) % 4;
  const float one = __shfl_down_sync(full_warp, x, 1, 4), two = __shfl_down_sync(full_warp, x, 2, 4),
              three = __shfl_down_sync(full_warp, x, 3, 4);
  return ((pair < 3 ? one : 0.0f) + (pair < 2 ? two : 0.0f)) + (pair < 1 ? three : 0.0f);
}

/// Writes the 16 rows of a warp from row `top` on, up to row `count` and column `left`.
template <int width>
__device__ void put_rows(const SharedMatrix<width>& from, int top, int count, int left, const Sink& to, std::size_t row,
                         unsigned column) {
  const int lane = int(threadIdx.x) % 32;
  float* const begin = &to.rows.at(row, column);
  if (left % 4 == 0 && to.rows.stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(begin) % 16 == 0) {
#pragma unroll 4
    for (int i = lane * 4; i < 16 * width; i += 128) {
      const int t = top + i / width;
      if (t >= count || i % width >= left) continue;
      float* const place = begin + t * to.rows.stride + i % width;
      Piece<4> value = Piece<4>::of(&from.at(t, i % width), true);
      if (to.accumulate) {
        const Piece<4> old = Piece<4>::of(place, true);
        unrolled<4>([&](int e) { value.v[e] += old.v[e]; });
      }
      value.store(place);
    }
    return;
  }
#pragma unroll 1
  for (int i = lane; i < 16 * width; i += 32) {
    const int t = top + i / width, own = i % width;
    if (t < count && own < left) to.put(row + t, column + unsigned(own), from.at(t, own));
  }
}

constexpr int gradient_blocks = 2;  // of a multiprocessor

template <int width, int states, bool exact, bool alone>
__global__ void __launch_bounds__(block_threads, gradient_blocks)
    gradient_kernel(ScanSizes s, ScanArrays in, ChunkArrays from, ScanParts out, StraightRows<float> straight,
                    bool strict, Sink dx) {
  wait_for_previous_kernel();
  constexpr int state_tiles = states / 8, together = state_tiles < 4 ? state_tiles : 4, steps = chunk / 8;
  extern __shared__ float4 memory[];
  auto& m = *reinterpret_cast<GradientMemory<width, states, alone>*>(memory);
  const SharedMatrix<states> B{m.B}, C{m.C}, S{m.S}, F{m.F};
  const SharedMatrix<width> x{m.x}, dy{m.dy}, &made = x;  // overwrites x
  const SharedMatrix<chunk> weighed{m.F};                 // overwrites F
  const int tiles = out.tiles;
  const Span span(s, tiles, out.sharers);
  const ThreadPosition p;
  const int top = 16 * p.warp, begin = 2 * p.warp, count = min(chunk, s.length - span.c * chunk);
  const std::size_t row = std::size_t(span.b) * s.length + std::size_t(span.c) * chunk;
  const unsigned shared = unsigned(span.group * s.group_states);
  const auto finish = [&](int unit) {
    if (unit < span.begin) return;
    m.sums.template put<alone>(m.paces[unit % 2], s, in, out,
                               {span.b, span.c, span.group * s.group + unit / tiles, unit % tiles, count});
  };
  // Begins to copy a unit; one warp meanwhile finishes the previous one.
  const auto start = [&](int unit) {
    const int h = span.group * s.group + unit / tiles, first = unit % tiles * width;
    const std::size_t index = chunk_index(s, span.b, h, span.c), at = (index * tiles + unit % tiles) * width * states;
    const std::size_t dense = std::size_t(s.heads) * s.width;
    const unsigned column = unsigned(h * s.width + first);
    if constexpr (!alone) {
      fetch<width>(F, {from.flows + at, std::size_t{states}, width, states});
      fetch<width>(S, {from.states + at, std::size_t{states}, width, states});
    }
    fetch<chunk>(x, {&in.x.at(row, column), in.x.stride, count, s.width - first});
    fetch<chunk>(dy, {in.dy + row * dense + column, dense, count, s.width - first});
    if (p.warp == unit % 4) {
      finish(unit - 1);
      if constexpr (!alone) {
        for (int t = p.lane; t < chunk; t += 32)
          __pipeline_memcpy_async(&m.paces[unit % 2][t], &from.paces[index * chunk + t], 16);
      }
    }
    commit();
    if (alone && p.warp == 0) find_own_paces(s, in, span.b, h, m.paces[unit % 2]);
  };
  fetch<chunk>(B, {&in.B.at(row, shared), in.B.stride, count, s.own_states});
  fetch<chunk>(C, {&in.C.at(row, shared), in.C.stride, count, s.own_states});
  if constexpr (!alone) {  // otherwise all operands arrive together
    commit();
    wait<0>();
    __syncthreads();
  }

  // Products of the warp's tokens j (rows) with all tokens i (columns); tokens before j do not count.
  const auto meet = [&](auto numbers, int half, const auto& rows, const auto& columns, float(&met)[steps][4]) {
    const auto part = multiply<exact, 4>(0, numbers() / 8, LeftRows<numbers()>(rows, top),
                                         RightRows<numbers(), 4>(columns, 32 * half));
    unrolled<4, 4>([&](int n, int i) { met[4 * half + n][i] = part.of(n, i); });
  };
  float gram[steps][4];
  const auto meet_all = [&] {
    unrolled<2>([&](int half) { meet(std::integral_constant<int, states>{}, half, B, C, gram); });
  };
  if (!alone) meet_all();
  float dB[state_tiles][4] = {}, dC[state_tiles][4] = {};
  const float answers_itself = strict ? 0.0f : 1.0f;

#pragma unroll 1
  for (int unit = span.begin; unit < span.end; ++unit) {
    const int h = span.group * s.group + unit / tiles, first = unit % tiles * width;
    __syncthreads();
    start(unit);
    wait<0>();
    __syncthreads();
    if (alone && unit == span.begin) meet_all();
    const Pace* paces = m.paces[unit % 2];
    PathSums& sums = m.sums;

    const Pace own[2] = {paces[p.row()], paces[p.row() + 8]}, last = paces[chunk - 1];
    const float leaving[2] = {decay_between(last, own[0]), decay_between(last, own[1])};

    float met[steps][4];  // K; weights overwrite it
    unrolled<2>([&](int half) {
      if (32 * half + 32 <= top) return;
      meet(std::integral_constant<int, width>{}, half, x, dy, met);
    });
#pragma unroll
    for (int n = 0; n < (alone ? 0 : state_tiles); n += together) {
      const auto part = multiply<exact, together>(0, width / 8, LeftRows<width>(x, top),
                                                  RightColumns<states, together, false>(F, 8 * n));
      unrolled<together, 4>(
          [&](int k, int i) { dB[n + k][i] = fmaf(leaving[i / 2] * own[i / 2].whole, part.of(k, i), dB[n + k][i]); });
    }
    float through = 0;
#pragma unroll 2
    for (int i = int(threadIdx.x) * 4; i < (alone ? 0 : width * states); i += block_threads * 4) {
      const Piece<4> a = Piece<4>::of(&S.data[i], true), b = Piece<4>::of(&F.data[i], true);
      through += (a.v[0] * b.v[0] + a.v[1] * b.v[1]) + (a.v[2] * b.v[2] + a.v[3] * b.v[3]);
    }
    through = warp_sum(through);
    const float skip = in.D != nullptr ? in.D[h] : 0.0f;
    float leaves[2] = {}, skips[2] = {};
    __syncwarp();
    const OwnRow<width> inputs[2] = {{x, p.row()}, {x, p.row() + 8}}, above[2] = {{dy, p.row()}, {dy, p.row() + 8}};
    const OwnRow<width>(&making)[2] = inputs;
    // First the part of the gradient without other tokens' weights, which may overwrite x.
#pragma unroll 1
    for (int half = 0; half < width / 32; ++half) {
      const auto part =
          multiply<exact, 4>(0, alone ? 0 : states / 8, LeftRows<states>(B, top), RightRows<states, 4>(F, 32 * half));
      unrolled<4, 2>([&](int n, int r) {
        const float2 input = inputs[r].at(4 * half + n), from_above = above[r].at(4 * half + n);
        leaves[r] = fmaf(part.of(n, 2 * r), input.x, fmaf(part.of(n, 2 * r + 1), input.y, leaves[r]));
        skips[r] = fmaf(input.x, from_above.x, fmaf(input.y, from_above.y, skips[r]));
        const float weight = leaving[r] * own[r].whole;
        making[r].at(4 * half + n) = make_float2(fmaf(weight, part.of(n, 2 * r), skip * from_above.x),
                                                 fmaf(weight, part.of(n, 2 * r + 1), skip * from_above.y));
      });
    }
    __syncthreads();  // F is overwritten
    float* weighed_at[2][2];
    unrolled<2, 2>([&](int e, int r) { weighed_at[e][r] = &weighed.at(p.column() + e, p.row() + 8 * r); });
    float begins[2] = {}, behind[2] = {}, across[2 * steps];
#pragma unroll
    for (int n = steps - 1; n >= 0; --n) {
      across[2 * n] = across[2 * n + 1] = 0.0f;
      if (n < begin) continue;
      const int i = 8 * n + p.column();
      const Pace later[2] = {paces[i], paces[i + 1]};
      unrolled<2>([&](int r) {
        const int j = p.row() + 8 * r;
        float paths[2];
        unrolled<2>([&](int e) {
          const float product = met[n][2 * r + e], own_gram = gram[n][2 * r + e];
          const float decay = i + e > j ? decay_between(later[e], own[r]) : 0.0f;
          const float weight = i + e == j ? answers_itself * own[r].dt : decay * own[r].whole;
          const float path = decay * own_gram * product;
          begins[r] += path;
          paths[e] = path * own[r].whole;
          if (i + e == j) sums.own[j] = own_gram * product;
          weighed_at[e][r][8 * n * chunk] = weight * product;
          met[n][2 * r + e] = weight * own_gram;
        });
        // Of paths that begin at j: those that end at i + 1 or later, and at i or later.
        const float after = behind[r] + sum_behind(paths[0] + paths[1]), second = after + paths[1];
        if (i >= j) across[2 * n + 1] += second;
        if (i > j) across[2 * n] += second + paths[0];
        behind[r] = __shfl_sync(full_warp, second + paths[0], p.lane - p.pair);
      });
    }
    unrolled<2>([&](int r) {
      const float begun = tiles::quad_sum(begins[r]), left = tiles::quad_sum(leaves[r]) * leaving[r],
                  skipped = tiles::quad_sum(skips[r]);
      if (p.pair != 0) return;
      sums.begins[p.row() + 8 * r] = begun;
      sums.leaves[p.row() + 8 * r] = left;
      sums.skips[p.row() + 8 * r] = skipped;
    });
    const int summed = share_sums<16, 4>(across);
    unrolled<2>([&](int i) {
      const int number = summed + i;
      sums.across[p.warp][number / 2 * 8 + p.column() + number % 2] = across[i];
    });
    if (p.lane == 0) sums.through[p.warp] = through;

#pragma unroll 1
    for (int half = 0; half < width / 32; ++half) {
      const auto part = multiply<exact, 4>(begin, steps, met, RightColumns<width, 4, true>(dy, 32 * half));
      unrolled<4, 2>([&](int n, int r) {
        float2& place = making[r].at(4 * half + n);
        place = make_float2(place.x + part.of(n, 2 * r), place.y + part.of(n, 2 * r + 1));
      });
    }
    __syncwarp();
    if (dx.wanted()) put_rows(made, top, count, s.width - first, dx, row, unsigned(h * s.width + first));
    __syncthreads();

    float enters[2] = {};
    const float starts[2] = {decay_from_start(own[0]), decay_from_start(own[1])};
#pragma unroll
    for (int n = 0; n < state_tiles; n += together) {
      const auto of_B = multiply<exact, together>(begin, steps, LeftColumns<chunk>(weighed, top),
                                                  RightColumns<states, together, false>(C, 8 * n));
      unrolled<together, 4>([&](int k, int i) { dB[n + k][i] += of_B.of(k, i); });
      const auto of_C = multiply<exact, together>(0, begin + 2, LeftRows<chunk>(weighed, top),
                                                  RightColumns<states, together, false>(B, 8 * n));
      unrolled<together, 4>([&](int k, int i) { dC[n + k][i] += of_C.of(k, i); });
      if (alone) continue;
      const auto of_S = multiply<exact, together>(0, width / 8, LeftRows<width>(dy, top),
                                                  RightColumns<states, together, false>(S, 8 * n));
      unrolled<together, 2>([&](int k, int r) {
        const float2 query = C.two(p.row() + 8 * r, 8 * (n + k) + p.column());
        const float low = starts[r] * of_S.of(k, 2 * r), high = starts[r] * of_S.of(k, 2 * r + 1);
        enters[r] = fmaf(low, query.x, fmaf(high, query.y, enters[r]));
        dC[n + k][2 * r] += low;
        dC[n + k][2 * r + 1] += high;
      });
    }
    unrolled<2>([&](int r) {
      const float entered = tiles::quad_sum(enters[r]);
      if (p.pair == 0) sums.enters[p.row() + 8 * r] = entered;
    });
  }
  __syncthreads();

  if (strict) {  // B and C are the same numbers
    unrolled<state_tiles, 4>([&](int n, int i) { dB[n][i] += dC[n][i]; });
  }
  if (straight.any()) {  // a part is a group
    put_straight(dB, straight.B, s, row, span.part, count);
    put_straight(dC, straight.C, s, row, span.part, count);
  } else {
    put_shared(dB, dC, !strict, s, out, row, span.part, count);
  }
  if (p.warp == 0) finish(span.end - 1);
}

constexpr int min_blocks = 256;  // minimum, if there are as many units: two a multiprocessor

std::int64_t shared_numbers(const ScanSizes& s) {
  return std::int64_t{s.batch} * s.length * s.groups * ranges_for(s, min_blocks) * 2 * s.states;
}
std::int64_t step_numbers(const ScanSizes& s, int kinds) {
  return std::int64_t{s.batch} * s.length * s.heads * shape_for(s).tiles * kinds;
}

template <bool alone>
void launch_gradient(const ChunkedScan<float>& scan, bool strict, const ScanParts& parts,
                     const StraightRows<float>& rows, const Sink& dx) {
  const ScanSizes& s = scan.s;
  with_shape(s, scan.exact, [&](auto width, auto states, auto is_exact) {
    constexpr int bytes = sizeof(GradientMemory<width(), states(), alone>);
    const unsigned blocks = unsigned(s.batch * s.chunks * s.groups * parts.sharers);
    launch("ssd_scan_backward", gradient_kernel<width(), states(), is_exact(), alone>, blocks, block_threads, bytes,
           scan.stream, s, scan.in, scan.memory, parts, rows, strict, dx);
  });
}

/// Destinations of dB and dC when blocks write them directly: a block has all of a group, nothing is added, and rows
/// are whole vectors. The parts then have none of them.
template <class T>
StraightRows<T> straight_rows(const ScanSizes& s, const ScanGrads& out, ScanParts& parts) {
  const StraightRows<T> rows{sink_of<T>(out.B).rows, sink_of<T>(out.C).rows};
  const bool are_whole = s.states % 8 == 0 && s.group_states % 8 == 0 && in_pieces<8>(rows.B) && in_pieces<8>(rows.C);
  if (parts.sharers > 1 || out.B.accumulate || out.C.accumulate || !are_whole || !rows.any()) return {};
  parts.shared = nullptr;
  return rows;
}

}  // namespace

std::int64_t part_numbers(const ScanSizes& s, int kinds) {
  const std::int64_t numbers =
      shared_numbers(s) + step_numbers(s, kinds) + std::int64_t{2} * s.heads * s.batch * s.chunks * shape_for(s).tiles;
  return (numbers + 3) / 4 * 4;  // the next array is read by fours
}

ScanParts chunk_parts(const ScanSizes& s, float* memory, int kinds) {
  const int tiles = shape_for(s).tiles;
  float* steps = memory + shared_numbers(s);
  return {memory, steps, steps + step_numbers(s, kinds), ranges_for(s, min_blocks), tiles, s.batch * s.chunks * tiles,
          kinds};
}

template <>
void ChunkedScan<float>::differentiate(bool strict, const ScanParts& parts, const StraightRows<float>& rows,
                                       const Sink& dx) const {
  launch_gradient<false>(*this, strict, parts, rows, dx);
}

std::int64_t alone_workspace(const ScanInputs& in) { return part_numbers(sizes_of(in, chunk), kinds_of(in)); }

void scan_alone_backward(cudaStream_t stream, const ScanInputs& in, bool exact, const Tensor& dy, float* workspace,
                         const ScanGrads& out) {
  const ScanSizes s = sizes_of(in, chunk);
  ScanParts parts = chunk_parts(s, workspace, kinds_of(in));
  const auto straight = straight_rows<float>(s, out, parts);
  ChunkedScan<float> scan{stream, s, arrays_of(in), exact, {}};
  scan.in.dy = dy.as<float>();
  launch_gradient<true>(scan, false, parts, straight, sink_of(out.x));
  sum_parts(stream, s, in, parts, 0, out);
}

std::int64_t chunk_workspace(const ScanInputs& in) {
  const ScanSizes s = in_passes(sizes_of(in, chunk));
  return stored_chunk_numbers(in, true) + part_numbers(s, kinds_of(in));
}

void scan_by_chunks_backward(cudaStream_t stream, const ScanInputs& in, bool exact, const Tensor& dy, float* workspace,
                             const ScanGrads& out) {
  const ScanSizes s = in_passes(sizes_of(in, chunk));
  with_stored_type(in.x, [&]<class T>(T) {
    ChunkedScan<T> scan{stream, s, arrays_of<T>(in), exact, chunk_arrays<T>(s, workspace, true)};
    scan.in.dy = rows_of<T>(dy).data;
    ScanParts parts = chunk_parts(s, workspace + chunk_numbers<T>(s, true), kinds_of(in));
    const auto straight = straight_rows<T>(s, out, parts);
    find_paces<ScanSteps>(stream, s, scan.in, scan.memory, true);  // the forward pass has read them all
    scan.run_state_pass(Directions::both, nullptr, false);
    for (int pass = 0; pass < s.passes; ++pass) {
      const ChunkedScan<T> one = scan.of_pass(pass);
      one.differentiate(false, parts, of_pass(s, pass, straight), of_pass(pass, sink_of<T>(out.x)));
      sum_parts(stream, one.s, in, parts, pass, out);
    }
  });
}

}  // namespace afterglow::scan
