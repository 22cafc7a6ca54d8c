// The gradient of the long scan for bfloat16, with the equations and names of ssd_chunks_backward.cu. To need few
// registers it takes a unit's later tokens sixteen at a time. Plain sums are products with ones, and a token's products
// with itself are the diagonal of a product. The next unit is copied while a block works on one. Grid as there.
#include "gpu/ops/ssd/chunk_gradient.cuh"

namespace afterglow::scan {

using namespace device;
using device::tiles::mma_bf16;

namespace {

constexpr int gradient_blocks = 2;  // of a multiprocessor
constexpr int stages = 2;           // units in the pipeline, the current one included
constexpr int warps = block_threads / 32, own_tokens = 16;

struct PathSums : TokenSums {
  float block[chunk];              // weighted paths from before here to here or later that begin at tokens of its warp
  float beyond[warps - 1][chunk];  // those that end here, by the earlier warp of the tokens where they begin
  float through[chunk];            // paths through the whole chunk, by channel

  /// `width`: channels of a unit.
  __device__ void put(int width, const Pace* paces, const ScanSizes& s, const ScanSteps& in, const ScanParts& out,
                      const StepsPosition& at) const {
    const int lane = int(threadIdx.x) % 32, warp = 2 * lane / own_tokens;
    float inside[2] = {block[2 * lane], block[2 * lane + 1]};
#pragma unroll
    for (int from = 0; from + 1 < warps; ++from) {
      const bool counts = from < warp;
      const float2 ends = counts ? reinterpret_cast<const float2*>(beyond[from])[lane] : float2{};
      const float later = sum_along_lanes<true>(ends.x + ends.y, lane);
      const float behind = __shfl_down_sync(full_warp, later, 1);
      if (counts) {
        inside[0] += later;
        inside[1] += ends.y + (lane < 31 ? behind : 0.0f);
      }
    }
    const float passes = lane < width / 2 ? through[2 * lane] + through[2 * lane + 1] : 0.0f;
    put_steps<false>(*this, inside, passes, paces, s, in, out, at);
  }
};

/// Parts of eight tokens that the first `count` warps meet: each meets its own tokens and later ones.
constexpr __host__ __device__ int parts_behind(int count) { return count * (9 - count); }

template <int width, int states>
struct GradientMemory {
  struct Unit {
    Bf16 x[chunk * width], dy[chunk * width], S[width * states], F[width * states];
  };
  Bf16 B[chunk * states], C[chunk * states];
  Unit units[stages];
  float4 gram[parts_behind(warps) * 32];     // G, the entries that each lane meets
  float4 weighed[parts_behind(warps) * 32];  // weighted products of gradients and inputs, summed over units
  Pace paces[stages][chunk];
  PathSums sums[stages];
};

/// Transposes an 8 x 8 matrix of which each lane has two neighbours of a row.
__device__ std::uint32_t transposed(std::uint32_t two) {
  std::uint32_t result;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(two));
  return result;
}

/// The diagonal of a product of 16 rows with 16 columns: rows row and row + 8 of the lanes with has_diagonal().
__device__ bool has_diagonal(const ThreadPosition& p) { return p.pair == p.quad / 2; }
__device__ float2 diagonal(const ThreadPosition& p, const ProductTile<false, 2>& product) {
  const bool odd = p.quad % 2 != 0;
  return make_float2(odd ? product.of(0, 1) : product.of(0, 0), odd ? product.of(1, 3) : product.of(1, 2));
}

/// Little is unrolled, since sums fill the registers.
template <int tiles, class Left, class Right>
__device__ ProductTile<false, tiles> multiply_narrow(int begin, int end, const Left& left, const Right& right) {
  return multiply<false, tiles, 2, 2>(begin, end, left, right);
}

// `strict` as in ChunkedScan::differentiate.
template <int width, int states, bool strict>
__global__ void __launch_bounds__(block_threads, gradient_blocks)
    narrow_gradient_kernel(ScanSizes s, ScanArraysOf<Bf16> in, ChunkArraysOf<Bf16> from, ScanParts out,
                           StraightRows<Bf16> straight, SinkOf<Bf16> dx) {
  wait_for_previous_kernel();
  constexpr int state_tiles = states / 8, together = state_tiles < 4 ? state_tiles : 4;
  extern __shared__ float4 memory[];
  auto& m = *reinterpret_cast<GradientMemory<width, states>*>(memory);
  using Rows = SharedMatrix<width, Bf16>;
  using States = SharedMatrix<states, Bf16>;
  const States B{m.B}, C{m.C};
  const int tiles = out.tiles;
  const Span span(s, tiles, out.sharers);
  const ThreadPosition p;
  const int top = own_tokens * p.warp, count = min(chunk, s.length - span.c * chunk);
  const std::size_t row = std::size_t(span.b) * s.length + std::size_t(span.c) * chunk;
  const unsigned shared = unsigned(span.group * s.group_states);
  const auto head_of = [&](int unit) { return span.group * s.group + unit / tiles; };
  const auto finish = [&](int unit) {
    if (unit < span.begin) return;
    m.sums[unit % stages].put(width, m.paces[unit % stages], s, in, out,
                              {span.b, span.c, head_of(unit), unit % tiles, count});
  };
  // Begins to copy a unit; the warp with the fewest later tokens meanwhile finishes the unit that it replaces.
  const auto start = [&](int unit) {
    auto& to = m.units[unit % stages];
    const int h = head_of(unit), first = unit % tiles * width;
    const std::size_t index = chunk_index(s, span.b, h, span.c), at = (index * tiles + unit % tiles) * width * states;
    const std::size_t dense = std::size_t(s.heads) * s.width;
    const unsigned column = unsigned(h * s.width + first);
    if (unit < span.end) {
      fetch<width>(States{to.F}, {from.flows + at, std::size_t{states}, width, states});
      fetch<width>(States{to.S}, {from.states + at, std::size_t{states}, width, states});
      fetch<chunk>(Rows{to.x}, {&in.x.at(row, column), in.x.stride, count, s.width - first});
      fetch<chunk>(Rows{to.dy}, {in.dy + row * dense + column, dense, count, s.width - first});
    }
    if (p.warp == warps - 1) {
      finish(unit - stages);
      __syncwarp();
      for (int t = p.lane; t < chunk && unit < span.end; t += 32)
        __pipeline_memcpy_async(&m.paces[unit % stages][t], &from.paces[index * chunk + t], 16);
    }
    commit();
  };
  fetch<chunk>(B, {&in.B.at(row, shared), in.B.stride, count, s.own_states});
  fetch<chunk>(C, {&in.C.at(row, shared), in.C.stride, count, s.own_states});
  commit();
  start(span.begin);
  wait<1>();
  __syncthreads();

  // Rows are the warp's tokens j; columns are tokens i from 16 `step` on, none before j's sixteen.
  const auto place_of = [&](int step, int n) { return (parts_behind(p.warp) + 2 * (step - p.warp) + n) * 32 + p.lane; };
#pragma unroll 1
  for (int step = p.warp; step < warps; ++step) {
    const auto part = multiply_narrow<2>(0, state_tiles, LeftRows<states, Bf16>(B, top),
                                         RightRows<states, 2, Bf16>(C, own_tokens * step));
    unrolled<2>([&](int n) {
      m.gram[place_of(step, n)] = make_float4(part.of(n, 0), part.of(n, 1), part.of(n, 2), part.of(n, 3));
      m.weighed[place_of(step, n)] = float4{};
    });
  }
  // The left operand that sums over a warp's tokens j up to j', row by row.
  constexpr std::uint32_t one = 0x3f80, two_ones = one << 16 | one;
  const std::uint32_t ones_up_to = (p.column() <= p.quad ? one : 0) | (p.column() < p.quad ? one << 16 : 0);
  const std::uint32_t up_to[4] = {ones_up_to, two_ones, 0, ones_up_to};
  float dB[state_tiles][4] = {}, dC[state_tiles][4] = {};

#pragma unroll 1
  for (int unit = span.begin; unit < span.end; ++unit) {
    const int h = head_of(unit), first = unit % tiles * width;
    wait<0>();
    __syncthreads();
    start(unit + 1);
    auto& own_unit = m.units[unit % stages];
    const States S{own_unit.S}, F{own_unit.F};
    const Rows x{own_unit.x}, dy{own_unit.dy};
    const Pace* paces = m.paces[unit % stages];
    PathSums& sums = m.sums[unit % stages];
    const Pace own[2] = {paces[p.row()], paces[p.row() + 8]}, last = paces[chunk - 1];
    const float leaving[2] = {decay_between(last, own[0]), decay_between(last, own[1])};
    const float weights_behind[2] = {leaving[0] * own[0].whole, leaving[1] * own[1].whole};

    if (top < width) {
      const auto part =
          multiply_narrow<2>(0, state_tiles, LeftRows<states, Bf16>(S, top), RightRows<states, 2, Bf16>(F, top));
      const float2 through = diagonal(p, part);
      if (has_diagonal(p)) {
        sums.through[p.row()] = through.x;
        sums.through[p.row() + 8] = through.y;
      }
    }
    // Adds the product of channels with states (flows) to the gradient of C (B); returns its diagonal part, where a
    // token meets itself.
    const auto add_states = [&](const Rows& rows, const States& columns, const States& met, const float(&weight)[2],
                                float(&to)[state_tiles][4]) {
      Part<Bf16> rounded[state_tiles];
#pragma unroll
      for (int n = 0; n < state_tiles; n += together) {
        const auto part = multiply_narrow<together>(0, width / 8, LeftRows<width, Bf16>(rows, top),
                                                    RightColumns<states, together, false, Bf16>(columns, 8 * n));
        unrolled<together>([&](int k) {
          unrolled<4>([&](int i) { to[n + k][i] = fmaf(weight[i / 2], part.of(k, i), to[n + k][i]); });
          unrolled<2>([&](int r) { put_two(rounded[n + k], r, part.of(k, 2 * r), part.of(k, 2 * r + 1)); });
        });
      }
      return diagonal(p, multiply<false, 2>(0, state_tiles, rounded, RightRows<states, 2, Bf16>(met, top)));
    };
    const float2 leaves = add_states(x, F, B, weights_behind, dB);
    const float starts[2] = {decay_from_start(own[0]), decay_from_start(own[1])};
    const float2 enters = add_states(dy, S, C, starts, dC);
    if (has_diagonal(p)) {
      sums.leaves[p.row()] = leaving[0] * leaves.x;
      sums.leaves[p.row() + 8] = leaving[1] * leaves.y;
      sums.enters[p.row()] = starts[0] * enters.x;
      sums.enters[p.row() + 8] = starts[1] * enters.y;
    }

    // The gradient of x, starting with the flow from later chunks.
    constexpr int halves = width / 32;
    ProductTile<false, 4> to_x[halves];
    unrolled<halves>([&](int half) {
      to_x[half] =
          multiply_narrow<4>(0, state_tiles, LeftRows<states, Bf16>(B, top), RightRows<states, 4, Bf16>(F, 32 * half));
      unrolled<4, 4>([&](int n, int i) { to_x[half].sum[n][i] *= weights_behind[i / 2]; });
    });
    const float skip = in.D != nullptr ? in.D[h] : 0.0f;
    float begins[2] = {}, across[2] = {};
    const auto meet = [&](auto is_own, int step) {
      const auto met = multiply_narrow<2>(0, width / 8, LeftRows<width, Bf16>(x, top),
                                          RightRows<width, 2, Bf16>(dy, own_tokens * step));
      Part<Bf16> weights[2];
      unrolled<2>([&](int n) {
        const int i = own_tokens * step + 8 * n + p.column();
        const Pace later[2] = {paces[i], paces[i + 1]};
        const float4 gram = m.gram[place_of(step, n)];
        const float grams[4] = {gram.x, gram.y, gram.z, gram.w};
        float products[4];
        Part<Bf16> paths;
        unrolled<2>([&](int r) {
          const int j = p.row() + 8 * r;
          float weight[2], path[2];
          unrolled<2>([&](int e) {
            const int number = 2 * r + e;
            const float product = met.of(n, number);
            const float decay = !is_own() || i + e > j ? decay_between(later[e], own[r]) : 0.0f;
            const float unweighed = decay * grams[number];
            begins[r] = fmaf(unweighed, product, begins[r]);
            weight[e] = unweighed * own[r].whole;
            path[e] = weight[e] * product;
            products[number] = decay * own[r].whole * product;
            if (is_own() && i + e == j) {
              sums.own[j] = grams[number] * product;
              sums.skips[j] = product;
              weight[e] = strict ? 0.0f : fmaf(own[r].dt, grams[number], skip);
              products[number] = strict ? 0.0f : own[r].dt * product;
            }
          });
          put_two(weights[n], r, weight[0], weight[1]);
          put_two(paths, r, path[0], path[1]);
        });
        float4& sum = m.weighed[place_of(step, n)];
        sum = make_float4(sum.x + products[0], sum.y + products[1], sum.z + products[2], sum.w + products[3]);
        // Of paths that begin at j' or before, those that end at i: they count for the tokens from j' + 1 to i.
        float ends[4] = {};
        mma_bf16(ends, up_to, transposed(paths[0]), transposed(paths[1]));
        unrolled<4>([&](int k) {
          if (!is_own() || 8 * n + p.column() + k % 2 > p.quad + k / 2 * 8) across[k / 2] += ends[k];
        });
        if (!is_own() && p.quad == 7)
          *reinterpret_cast<float2*>(&sums.beyond[p.warp][i]) = make_float2(ends[2], ends[3]);
      });
      unrolled<halves>([&](int half) {
        std::uint32_t left[4], right[4][2];
        take(weights, left);
        RightColumns<width, 4, true, Bf16>(dy, 32 * half).load(2 * step, right);
        to_x[half].add(left, right);
      });
    };
    meet(std::true_type{}, p.warp);
#pragma unroll 1
    for (int step = p.warp + 1; step < warps; ++step) meet(std::false_type{}, step);
    unrolled<2>([&](int r) {
      const int next = p.quad + 8 * r + 1;
      const float begun = tiles::quad_sum(begins[r]), crossed = tiles::quad_sum(across[r]);
      if (p.pair != 0) return;
      sums.begins[p.row() + 8 * r] = begun;
      sums.block[top + next % own_tokens] = next < own_tokens ? crossed : 0.0f;
    });
    if (dx.wanted()) {
      const unsigned column = unsigned(h * s.width + first);
      const bool in_vectors =
          dx.rows.stride % 8 == 0 && reinterpret_cast<std::uintptr_t>(&dx.rows.at(row, column)) % 16 == 0;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int t = p.row() + 8 * r, left = t < count ? s.width - first : 0;
        const auto two = [&](int n) {
          const auto& sum = to_x[n / 4].sum[n % 4];
          return make_float2(sum[2 * r], sum[2 * r + 1]);
        };
        if (in_vectors) {
          put_row<width / 8>(&dx.rows.at(row + t, column), left, dx.accumulate, two);
          continue;
        }
        unrolled<width / 8>([&](int n) {
          if (8 * n >= left) return;
          const unsigned own_column = column + unsigned(8 * n + p.column());
          const float2 both = two(n);
          dx.put(row + t, own_column, both.x);
          dx.put(row + t, own_column + 1, both.y);
        });
      }
    }
  }
  __syncthreads();
  const SharedMatrix<chunk, Bf16> weighed{m.units[0].x};
#pragma unroll 1
  for (int step = p.warp; step < warps; ++step) {
    unrolled<2>([&](int n) {
      const float4 sum = m.weighed[place_of(step, n)];
      const int i = own_tokens * step + 8 * n + p.column();
      weighed.at(i, p.row()) = sum.x;
      weighed.at(i + 1, p.row()) = sum.y;
      weighed.at(i, p.row() + 8) = sum.z;
      weighed.at(i + 1, p.row() + 8) = sum.w;
    });
  }
  __syncthreads();
  const int begin = 2 * p.warp;
#pragma unroll
  for (int n = 0; n < state_tiles; n += together) {
    const auto of_B = multiply_narrow<together>(begin, chunk / 8, LeftColumns<chunk, Bf16>(weighed, top),
                                                RightColumns<states, together, false, Bf16>(C, 8 * n));
    const auto of_C = multiply_narrow<together>(0, begin + 2, LeftRows<chunk, Bf16>(weighed, top),
                                                RightColumns<states, together, false, Bf16>(B, 8 * n));
    unrolled<together, 4>([&](int k, int i) {
      dB[n + k][i] += of_B.of(k, i);
      dC[n + k][i] += of_C.of(k, i);
      if (strict) dB[n + k][i] += dC[n + k][i];
    });
  }
  if (straight.any()) {  // a part is a group
    put_straight(dB, straight.B, s, row, span.part, count);
    put_straight(dC, straight.C, s, row, span.part, count);
  } else {
    put_shared(dB, dC, !strict, s, out, row, span.part, count);
  }
  for (int unit = max(span.begin, span.end - stages + 1); unit < span.end; ++unit) {
    if (p.warp == warps - 1) finish(unit);
  }
}

}  // namespace

template <>
void ChunkedScan<Bf16>::differentiate(bool strict, const ScanParts& parts, const StraightRows<Bf16>& rows,
                                      const SinkOf<Bf16>& dx) const {
  with_shape<Bf16>(s, false, [&](auto width, auto states, auto) {
    const auto kernel =
        strict ? narrow_gradient_kernel<width(), states(), true> : narrow_gradient_kernel<width(), states(), false>;
    constexpr int bytes = sizeof(GradientMemory<width(), states()>);
    const unsigned blocks = unsigned(s.batch * s.chunks * s.groups * parts.sharers);
    launch("ssd_scan_backward", kernel, blocks, block_threads, bytes, stream, s, in, memory, parts, rows, dx);
  });
}

}  // namespace afterglow::scan
