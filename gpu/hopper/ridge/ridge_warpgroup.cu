// The SKA core's kernels over pieces of up to 64 tokens on warp groups: a block of four warps multiplies halves in
// shared memory (warpgroup_halves.cuh). Both kernels are memory-bound. Grid: (pieces, pairs of sequence and head).
#include "gpu/hopper/ridge/ridge_warpgroup.cuh"
#include "gpu/tile/lanes.cuh"

namespace afterglow::device {
namespace warpgroup {
namespace {

struct GatherNotes {
  Peaks<2> peaks;
  float norms[warps];
  int indices[warps];
};
constexpr int gather_bytes = 3 * HalfMatrix::bytes + int(sizeof(GatherNotes));

/// The largest key of the block's rows; thread 0 reads it after a barrier.
__device__ void find_largest(const HeldRows& keys, int first, GatherNotes& notes) {
  LargestKey largest;
  unrolled<held>([&](unsigned i) {
    const float4& four = keys.numbers[i];
    const float square = four.x * four.x + four.y * four.y + four.z * four.z + four.w * four.w;
    const float norm = sqrtf(sum_of_lanes<16>(square));
    if (norm > 0) largest.see(norm, first + int(HeldRows::row(i)));
  });
  const float norm = __shfl_xor_sync(full_warp, largest.norm, 16);
  const int index = __shfl_xor_sync(full_warp, largest.index, 16);
  largest.see(norm, index);
  if (threadIdx.x % 32 != 0) return;
  notes.norms[threadIdx.x / 32] = largest.norm;
  notes.indices[threadIdx.x / 32] = largest.index;
}

// Raw sums of a piece: G = sum z z^T, M = sum z_t z_{t-1}^T, C = sum v z^T, and its largest key.
template <class T>
__global__ void __launch_bounds__(threads, 4)
    gather_kernel(RidgeShape s, RidgePointers in, TokenArray<T> all_keys, TokenArray<T> all_values, PieceKeys found) {
  wait_for_previous_kernel();
  extern __shared__ __align__(1024) unsigned char memory[];
  const HalfMatrix keys{memory}, before{memory + HalfMatrix::bytes}, values{memory + 2 * HalfMatrix::bytes};
  auto& notes = *reinterpret_cast<GatherNotes*>(memory + 3 * HalfMatrix::bytes);
  const int piece = int(blockIdx.x), pair = int(blockIdx.y);
  const int first = s.first(piece), count = s.count(piece), group = s.exclusive ? piece + 1 : piece;
  const TokenRows key_rows(s, all_keys, pair, in.mask), value_rows(s, all_values, pair);
  HeldRows z, v;
  z.load(s.rank, [&](int row) { return row < count ? key_rows.at(first + row) : nullptr; });
  v.load(s.width, [&](int row) { return row < count ? value_rows.at(first + row) : nullptr; });
  float4 last = make_float4(0, 0, 0, 0);  // the key before the piece
  if (threadIdx.x < 16) {
    const T* key = key_rows.at(first - 1);
    const unsigned column = HeldRows::column();
    if (key != nullptr && int(column) < s.rank) last = four_of(key + column);
  }
  find_largest(z, first, notes);
  notes.peaks.put(0, fmaxf(z.peak(), largest(last)));
  notes.peaks.put(1, v.peak());
  __syncthreads();
  if (threadIdx.x == 0) {
    LargestKey largest;
    for (unsigned w = 0; w < warps; ++w) largest.see(notes.norms[w], notes.indices[w]);
    found.norms[std::size_t(pair) * s.groups + piece] = largest.norm;
    found.indices[std::size_t(pair) * s.groups + piece] = largest.index;
  }
  if (group >= s.groups) return;
  const tiles::Scale of_keys = notes.peaks.scale(0), of_values = notes.peaks.scale(1);
  z.store(keys, of_keys.up);
  v.store(values, of_values.up);
  unrolled<held>([&](unsigned i) {
    const unsigned row = HeldRows::row(i) + 1;
    if (row < 64 && int(row) < count) {
      before.put(row, HeldRows::column(), z.numbers[i], of_keys.up);
    } else if (row < 64) {
      before.put(row, HeldRows::column(), make_float4(0, 0, 0, 0), 1.0f);
    }
  });
  if (threadIdx.x < 16) before.put(0, HeldRows::column(), last, of_keys.up);
  fence_async_proxy();
  float G[8][4], M[8][4], C[8][4];
  begin_products();
  begin_multiply<true, true, true>(C, values, keys);
  begin_multiply<true, true, true>(M, keys, before);
  begin_multiply<true, true, true>(G, keys, keys);
  const std::size_t entry = std::size_t(pair) * s.groups + group;
  wait_for_groups<2>(C);
  store_sums(in.C + entry * s.tall(), C, s.width, s.rank, of_values.down * of_keys.down);
  wait_for_groups<1>(M);
  store_sums(in.M + entry * s.square(), M, s.rank, s.rank, of_keys.down * of_keys.down);
  wait_for_groups<0>(G);
  store_sums(in.G + entry * s.square(), G, s.rank, s.rank, of_keys.down * of_keys.down);
}

struct TokenNotes {
  Peaks<3> peaks;
  float along[64], extra[warps / 2][64];
};
constexpr int token_bytes = 3 * HalfMatrix::bytes + int(sizeof(TokenNotes));

/// The part of the next piece's dM in the last token of a piece: a transition belongs to the piece of its later token.
template <class T>
__device__ void take_from_next(const RidgeShape& s, const TokenRows<T>& keys, const RidgeWorkspace& work, int pair,
                               int piece, TokenNotes& notes) {
  const int column = int(threadIdx.x % 64), share = int(threadIdx.x / 64);
  const T* after = keys.at(s.first(piece) + s.count(piece));
  float sum = 0;
  if (piece + 1 < s.groups && after != nullptr && column < s.rank) {
    const float* dM = work.M + (std::size_t(pair) * s.groups + piece + 1) * s.square();
#pragma unroll 8
    for (int k = share; k < s.rank; k += int(warps / 2)) sum += float(after[k]) * dM[k * s.rank + column];
  }
  notes.extra[share][column] = sum;
}

/// sums += part, times the scales of its rows and `down` of its matrix.
__device__ __forceinline__ void add_scaled(Accumulators& sums, const Accumulators& part, const HalfRows& rows,
                                           float down) {
  each_constant<32>([&](auto i) {
    constexpr int n = i() / 4, e = i() % 4;
    sums[n][e] = fmaf(part[n][e], rows.down[e / 2] * down, sums[n][e]);
  });
}
// The tokens of a piece: dz_t = 2 dG z_t + dM^T z_{t+1} + dM z_{t-1} + dC^T v_t, dv_t = dC z_t.
template <bool exact, class T>
__global__ void __launch_bounds__(threads, 3)
    token_kernel(RidgeShape s, RidgePointers in, TokenArray<T> all_keys, TokenArray<T> all_values, RidgeWorkspace work,
                 TokenArray<T> to_keys, TokenArray<T> to_values) {
  wait_for_previous_kernel();
  extern __shared__ __align__(1024) unsigned char memory[];
  const HalfMatrix G{memory}, M{memory + HalfMatrix::bytes}, C{memory + 2 * HalfMatrix::bytes};
  auto& notes = *reinterpret_cast<TokenNotes*>(memory + 3 * HalfMatrix::bytes);
  const int piece = int(blockIdx.x), pair = int(blockIdx.y);
  const int first = s.first(piece), end = first + s.count(piece);
  const std::size_t base = std::size_t(pair) * s.groups, entry = base + piece;
  const TokenRows key_rows(s, all_keys, pair, in.mask), value_rows(s, all_values, pair);
  HeldRows dG, dM, dC;
  dG.load_matrix(work.G + entry * s.square(), s.rank, s.rank);
  dM.load_matrix(work.M + entry * s.square(), s.rank, s.rank);
  dC.load_matrix(work.C + entry * s.tall(), s.width, s.rank);
  take_from_next(s, key_rows, work, pair, piece, notes);
  if (threadIdx.x < 64)
    notes.along[threadIdx.x] = scale_gradient(s, in, work, base, first + int(threadIdx.x), first, end);
  const int own = first + int(threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4);
  RowNumbers numbers;  // of the next product
  const auto load_keys = [&](int shift) {
    const auto key = [&](int t) -> const T* { return t < end && t + shift < end ? key_rows.at(t + shift) : nullptr; };
    numbers.load(key(own), key(own + 8), unsigned(s.rank));
  };
  load_keys(0);
  notes.peaks.put(0, dG.peak());
  notes.peaks.put(1, dM.peak());
  notes.peaks.put(2, dC.peak());
  __syncthreads();
  const tiles::Scale of_G = notes.peaks.scale(0), of_M = notes.peaks.scale(1), of_C = notes.peaks.scale(2);
  dG.store(G, of_G.up);
  dM.store(M, of_M.up);
  dC.store(C, of_C.up);
  fence_async_proxy();
  Accumulators dz, part, dv;
  each_constant<32>([&](auto i) { dz[i() / 4][i() % 4] = 0; });
  HalfRows rows;
  rows.take(numbers);
  begin_products();
  begin_multiply<exact, false>(dv, rows, C);
  begin_multiply<exact, false>(part, rows, G);  // symmetric
  load_keys(1);
  wait_for_products<1>(dv);
  if (to_values.wanted()) {
    T* const place = to_values.at(s, pair, first);
    const float above = rows.down[0] * of_C.down, below = rows.down[1] * of_C.down;
    each_pair(dv, [&](int row, int column, float one, float two) {
      const float scale = row % 16 < 8 ? above : below;
      if (first + row < end && column < s.width)
        store_two(place + row * to_values.stride + column, to_values.accumulate, scale * one, scale * two);
    });
  }
  wait_for_products<0>(part);
  add_scaled(dz, part, rows, 2.0f * of_G.down);
  rows.take(numbers);
  begin_products();
  begin_multiply<exact, true>(part, rows, M);
  load_keys(-1);
  wait_for_products<0>(part);
  add_scaled(dz, part, rows, of_M.down);
  rows.take(numbers);
  begin_products();
  begin_multiply<exact, false>(part, rows, M);
  const auto value = [&](int t) -> const T* { return t < end ? value_rows.at(t) : nullptr; };
  numbers.load(value(own), value(own + 8), unsigned(s.width));
  wait_for_products<0>(part);
  add_scaled(dz, part, rows, of_M.down);
  rows.take(numbers);
  begin_products();
  begin_multiply<exact, true>(part, rows, C);
  wait_for_products<0>(part);
  add_scaled(dz, part, rows, of_C.down);
  if (!to_keys.wanted()) return;
  T* const place = to_keys.at(s, pair, first);
  each_pair(dz, [&](int row, int column, float one, float two) {
    if (first + row >= end || column >= s.rank) return;
    const T* key = key_rows.at(first + row);
    if (key == nullptr) {
      one = two = 0;
    } else {
      const float2 own_key = two_of(key + column);
      one += notes.along[row] * own_key.x;
      two += notes.along[row] * own_key.y;
      if (first + row == end - 1) {
        one += notes.extra[0][column] + notes.extra[1][column];
        two += notes.extra[0][column + 1] + notes.extra[1][column + 1];
      }
    }
    store_two(place + row * to_keys.stride + column, to_keys.accumulate, one, two);
  });
}

}  // namespace
}  // namespace warpgroup

void gather_on_warpgroups(const RidgeCall& call, const PieceKeys& found) {
  const auto& [stream, s, in, kept, exact] = call;
  with_stored_type(in.z, [&]<class T>(T) {
    launch("ridge_readout statistics", warpgroup::gather_kernel<T>, call.grid(), warpgroup::threads,
           warpgroup::gather_bytes, stream, s, kept, warpgroup::tokens_of<T>(s, in.z, s.rank),
           warpgroup::tokens_of<T>(s, in.v, s.width), found);
  });
}

void tokens_on_warpgroups(const RidgeCall& call, const RidgeWorkspace& work, const RidgeGrads& out) {
  const auto& [stream, s, in, kept, exact] = call;
  warpgroup::with_numbers(in, exact, [&]<bool is_exact, class T>() {
    launch("ridge_readout_backward tokens", warpgroup::token_kernel<is_exact, T>, call.grid(), warpgroup::threads,
           warpgroup::token_bytes, stream, s, kept, warpgroup::tokens_of<T>(s, in.z, s.rank),
           warpgroup::tokens_of<T>(s, in.v, s.width), work, warpgroup::gradient_of<T>(s, out.z, s.rank),
           warpgroup::gradient_of<T>(s, out.v, s.width));
  });
}

}  // namespace afterglow::device
