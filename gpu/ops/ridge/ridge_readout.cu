// The SKA core, forward pass: statistics G = sum z z^T, M = sum z_t z_{t-1}^T, C = sum v z^T of each piece of the
// sequence, prefix sums over groups, then for each group G + eps I = L L^T, A_w = L^-1 M L^-T, F = C L^-T, sigma =
// |A_w|, and the readout y = E q with E = (eta / m) F (gamma / max(sigma, 1) A_w)^K L^-1. Grid: (pieces or groups,
// pairs of sequence and head). All matrices of a group live in shared memory. With one group everything is one launch.
#include "gpu/ops/ridge/ridge_factor.cuh"
#include "gpu/ops/ridge/ridge_pieces.cuh"
#include "gpu/tile/map.cuh"

namespace afterglow {

using namespace device;

namespace {

template <int W>
struct PieceSums {
  Product<W> G, M, C;
  LargestKey key;
};

/// Keys of a tile with the row before them, and values; then, where they are given, left factors.
template <int W>
constexpr int tile_numbers = 2 * Grid<W>::size + Grid<W>::width;
/// Memory of left factors behind so many tiles.
template <int W>
int left_bytes(const RidgePointers& in, int tiles) {
  return in.left == nullptr ? 0 : tiles * Grid<W>::size * 4;
}

/// Updates the largest key with the tile in `keys` (row 0 is the position before `first`); each lane of a warp looks at
/// some keys.
template <int W>
__device__ void see_keys(LargestKey& largest, const RidgeShape& s, const RidgePointers& in, int pair, const float* keys,
                         int first, int end) {
  constexpr int width = Grid<W>::width, lanes = ridge_threads<W> / width;
  __shared__ float norms[width];
  const int row = int(threadIdx.x) / lanes, lane = int(threadIdx.x) % lanes;
  float sum = 0;
#pragma unroll
  for (int i = 4 * lane; i < width; i += 4 * lanes) {
    const float4 value = *reinterpret_cast<const float4*>(keys + Grid<W>::place(row + 1, i));
    sum += value.x * value.x + value.y * value.y + value.z * value.z + value.w * value.w;
  }
  sum = sum_of_lanes<lanes>(sum);
  if (lane == 0) norms[row] = sqrtf(sum);
  if (lane == 0 && in.length != nullptr)
    norms[row] = first + row < end && key_at(s, in, pair, first + row) ? in.length[s.token(pair, first + row)] : 0.0f;
  __syncthreads();
  for (int i = ridge_lane(); i < width && first + i < end; i += 32) {
    if (norms[i] > 0) largest.see(norms[i], first + i);
  }
}

/// The sums over the tokens of a tile at once: they share operands and hide each other's latencies.
template <int W>
__device__ void sum_tile(PieceSums<W>& sums, const float* keys, const ByColumns& left, const float* values, int depth) {
  using P = Product<W>;
  sums.G.clear();
  sums.M.clear();
  sums.C.clear();
#pragma unroll 1
  for (int k = 0; k < depth; k += 8) {
    tiles::Fragment<true, 4> key[P::row_tiles], value[P::row_tiles];
    tiles::Fragment<true, 2> right[P::column_tiles], before[P::column_tiles];
    unrolled<P::row_tiles>([&](int i) {
      fetch<W>(key[i], left, P::first_row() + 16 * i, k);
      fetch<W>(value[i], ByColumns{values}, P::first_row() + 16 * i, k);
    });
    fetch<W>(right, ByColumns{keys, 1}, P::first_column(), k);
    fetch<W>(before, ByColumns{keys}, P::first_column(), k);
    tiles::multiply_fragments<true>(sums.G.v, key, right);
    tiles::multiply_fragments<true>(sums.M.v, key, before);
    tiles::multiply_fragments<true>(sums.C.v, value, right);
  }
}

/// `tiles`: room for two, one being copied while the other is added.
template <int W>
__device__ void gather(PieceSums<W>& sums, const RidgeShape& s, const RidgePointers& in, int pair, int begin, int end,
                       float* tiles) {
  constexpr int width = Grid<W>::width, values_behind = Grid<W>::size + width;
  const int tile = tile_numbers<W> + (in.left == nullptr ? 0 : Grid<W>::size);
  sums.G.clear();
  sums.M.clear();
  sums.C.clear();
  const auto bring = [&](int first, float* keys) {
    load_keys<W>(keys, s, in, pair, first, end);
    load_positions<W>(keys + values_behind, s, in.v, s.width, pair, first, end);
    load_left<W>(keys + tile_numbers<W>, s, in, pair, first, end);
  };
  bring(begin, tiles);
  float* keys = tiles;
  for (int first = begin; first < end; first += width) {
    wait_for_copies();
    float* const next = keys == tiles ? tiles + tile : tiles;
    if (first + width < end) bring(first + width, next);
    const float* values = keys + values_behind;
    see_keys<W>(sums.key, s, in, pair, keys, first, end);
    PieceSums<W> own;
    sum_tile(own, keys, in.left == nullptr ? ByColumns{keys, 1} : ByColumns{keys + tile_numbers<W>}, values,
             min(width, padded(end - first)));
    sums.G.add(own.G);
    sums.M.add(own.M);
    sums.C.add(own.C);
    keys = next;
  }
  sums.key = largest_of_warp(sums.key);
}

/// Stores a group's statistics; `through` is a matrix in shared memory that no thread reads.
template <int W>
__device__ void store_sums(const PieceSums<W>& sums, const RidgeShape& s, const RidgePointers& out, std::size_t entry,
                           float* through) {
  sums.G.replace(through);
  store_matrix<W>(out.G + entry * s.square(), through, s.rank, s.rank);
  sums.M.replace(through);
  store_matrix<W>(out.M + entry * s.square(), through, s.rank, s.rank);
  sums.C.replace(through);
  store_matrix<W>(out.C + entry * s.tall(), through, s.width, s.rank);
}

/// The sums of a piece that fits one tile.
template <int W>
__device__ LargestKey gather_tile(const RidgeShape& s, const RidgePointers& in, int pair, int piece, float* keys,
                                  float* values) {
  const int first = s.first(piece), count = s.count(piece), group = s.exclusive ? piece + 1 : piece;
  LargestKey key;
  load_keys<W>(keys, s, in, pair, first, first + count);
  load_positions<W>(values, s, in.v, s.width, pair, first, first + count);
  load_left<W>(keys + tile_numbers<W>, s, in, pair, first, first + count);
  wait_for_copies();
  see_keys<W>(key, s, in, pair, keys, first, first + count);
  key = largest_of_warp(key);
  if (group >= s.groups) return key;
  const std::size_t entry = std::size_t(pair) * s.groups + group;
  PieceSums<W> sums;
  sum_tile(sums, keys, in.left == nullptr ? ByColumns{keys, 1} : ByColumns{keys + tile_numbers<W>}, values,
           padded(count));
  store_sums<W>(sums, s, in, entry, values);
  return key;
}

template <int W>
__device__ LargestKey gather_tiles(const RidgeShape& s, const RidgePointers& in, int pair, int piece, float* tiles) {
  const int begin = s.first(piece), group = s.exclusive ? piece + 1 : piece;
  PieceSums<W> sums;
  gather<W>(sums, s, in, pair, begin, begin + s.count(piece), tiles);
  if (group < s.groups) store_sums<W>(sums, s, in, std::size_t(pair) * s.groups + group, tiles);
  return sums.key;
}

// Raw sums of every piece, stored at the first group that they contribute to.
template <int W, bool one_tile>
__global__ void __launch_bounds__(ridge_threads<W>, ridge_blocks<W>(one_tile&& W < 4 ? 3 : 2))
    gather_kernel(RidgeShape s, RidgePointers in, PieceKeys found) {
  wait_for_previous_kernel();
  extern __shared__ float4 memory[];
  float* keys = reinterpret_cast<float*>(memory);
  const int piece = int(blockIdx.x), pair = int(blockIdx.y);
  const LargestKey key = one_tile ? gather_tile<W>(s, in, pair, piece, keys, keys + Grid<W>::size + Grid<W>::width)
                                  : gather_tiles<W>(s, in, pair, piece, keys);
  if (threadIdx.x != 0) return;
  found.norms[std::size_t(pair) * s.groups + piece] = key.norm;
  found.indices[std::size_t(pair) * s.groups + piece] = key.index;
}

// Prefix sums over groups, divided by powers of the group's m.
template <class Number>
__global__ void __launch_bounds__(owner_threads) prefix_kernel(RidgeShape s, RidgePointers out, PieceKeys found) {
  wait_for_previous_kernel();
  const std::size_t base = std::size_t(blockIdx.y) * s.groups;
  const Owned<Number> owned(s, out.G, out.M, out.C, base);
  if (owned.place == nullptr) return;
  LargestKey key;
  if (!s.running) {
#pragma unroll 8
    for (int g = 0; g < s.groups; ++g) key.see(found.norms[base + g], found.indices[base + g]);
  }
  Number sum{};
  for (int begin = 0; begin < s.groups; begin += groups_ahead) {
    Number raw[groups_ahead];
    unrolled<groups_ahead>([&](int i) {
      const int g = begin + i;
      raw[i] = g < s.groups && !(s.exclusive && g == 0) ? owned.place[g * owned.stride] : Number{};
    });
#pragma unroll
    for (int i = 0; i < groups_ahead; ++i) {
      const int g = begin + i;
      if (g >= s.groups) break;
      const int newest = s.exclusive ? g - 1 : g;
      if (s.running && newest >= 0) key.see(found.norms[base + newest], found.indices[base + newest]);
      const float m = fmaxf(key.norm, min_scale), inverse = 1.0f / m;
      sum += raw[i];
      owned.place[g * owned.stride] = (owned.is_tall ? inverse : inverse * inverse) * sum;
      if (owned.is_first) {
        out.m[base + g] = m;
        out.m_index[base + g] = key.norm >= min_scale ? key.index : -1;
      }
    }
  }
}

template <int W, bool single>
constexpr int group_bytes = (single ? 2 * tile_numbers<W> : 3 * Grid<W>::size) * 4;

/// Gathers the statistics of the only group in this block: M also goes to `A`, G to `L`, and C is returned.
template <int W>
__device__ Product<W> gather_single(const RidgeShape& s, const RidgePointers& in, int pair, std::size_t entry,
                                    float* tiles, float* A, float* L, float& m) {
  PieceSums<W> sums;
  gather<W>(sums, s, in, pair, 0, s.length, tiles);
  m = fmaxf(sums.key.norm, min_scale);
  const float inverse = 1.0f / m;
  if (threadIdx.x == 0) {
    in.m[entry] = m;
    in.m_index[entry] = sums.key.norm >= min_scale ? sums.key.index : -1;
  }
  const auto keep = [&](const Product<W>& sum, float factor, float* to, float* memory, int rows) {
    sum.replace(to, factor);
    store_matrix<W>(memory, to, rows, s.rank);
  };
  Product<W> C;
  C.clear();
  C.add(sums.C, inverse);
  keep(C, 1.0f, L, in.C + entry * s.tall(), s.width);
  keep(sums.M, inverse * inverse, A, in.M + entry * s.square(), s.rank);
  keep(sums.G, inverse * inverse, L, in.G + entry * s.square(), s.rank);
  return C;
}

// One group: whitening, A_w, sigma, F, and y of its queries. With `single` the block gathers the statistics first.
// Statistics and whitening are always exact; filter and readout only if `exact`.
template <int W, bool single, bool exact>
__global__ void __launch_bounds__(ridge_threads<W>, ridge_blocks<W>(single || W == 4 ? 2 : 3))
    group_kernel(RidgeShape s, RidgePointers in, float* y) {
  wait_for_previous_kernel();
  constexpr int width = Grid<W>::width, size = Grid<W>::size;
  extern __shared__ float4 memory[];
  float* inverse = reinterpret_cast<float*>(memory);
  float *A = inverse + size, *F = A + size;
  const int g = int(blockIdx.x), pair = int(blockIdx.y), head = pair % s.heads;
  const std::size_t entry = std::size_t(pair) * s.groups + g;
  const float eta = in.eta[head], gamma = s.gamma(in.gamma_raw[head]);
  float m;
  [[maybe_unused]] Product<W> C;
  if constexpr (single) {
    C = gather_single<W>(s, in, pair, entry, inverse, A, F, m);
  } else {
    m = in.m[entry];
    load_matrix<W>(A, in.M + entry * s.square(), s.rank, s.rank);
  }
  const int tries =
      whiten<W>(in.G + entry * s.square(), single, s.ridge, s.rank, F, inverse, in.L + entry * s.square());
  if (in.inverse != nullptr) store_matrix<W>(in.inverse + entry * s.square(), inverse, s.rank, s.rank);
  if constexpr (single) {
    C.store(F);
  } else {
    load_matrix<W>(F, in.C + entry * s.tall(), s.width, s.rank);
  }
  const int depth = padded(s.rank);
  Product<W> result;
  multiply<true>(result, ByRows{inverse}, ByColumns{A}, depth);
  result.replace(A);
  wait_for_copies();
  Product<W> filtered;
  multiply_two<true>(result, Factors{ByRows{A}, ByRows{inverse}}, filtered, Factors{ByRows{F}, ByRows{inverse}}, depth);
  result.replace(A);
  filtered.store(F);
  __syncthreads();
  store_matrix<W>(in.A_w + entry * s.square(), A, s.rank, s.rank);
  store_matrix<W>(in.F + entry * s.tall(), F, s.width, s.rank);
  const float sigma = max_singular_value<W>(A, s.rank, s.iterations);
  if (threadIdx.x == 0) {
    in.sigma[entry] = sigma;
    in.jitter[entry] = float(tries);
  }
  const float scale = gamma / fmaxf(sigma, 1.0f), gain = eta / m;
  for (int k = 0; k < s.power; ++k) {
    multiply<exact>(result, ByRows{F}, ByColumns{A}, depth);
    result.replace(F, scale);
  }
  const int end = s.first(g) + s.count(g);
  load_positions<W>(A, s, in.q, s.rank, pair, s.first(g), end);
  multiply<true>(result, ByRows{F}, ByColumns{inverse}, depth);
  result.replace(F, gain);
  float *queries = A, *next = inverse;  // which no thread reads any more
  for (int first = s.first(g); first < end; first += width) {
    wait_for_copies();
    if (first + width < end) load_positions<W>(next, s, in.q, s.rank, pair, first + width, end);
    multiply<exact>(result, ByRows{queries}, ByRows{F}, depth);
    result.replace(queries);
    each_row<W>(queries, s.width, [&](int row, int column, auto numbers) {
      if (first + row >= end) return;
      *reinterpret_cast<decltype(numbers)*>(y + s.token(pair, first + row) * s.width + column) = numbers;
    });
    swap(queries, next);
  }
}

template <int W, bool single>
void launch_groups(const RidgeCall& call, const Tensor& y) {
  if constexpr (hopper_ridge && W == 4 && !single) {
    if (fits_warpgroups(call.s)) return groups_on_warpgroups(call, y);
  }
  const auto kernel = call.exact ? group_kernel<W, single, true> : group_kernel<W, single, false>;
  const int bytes = group_bytes<W, single> + left_bytes<W>(call.kept, single ? 2 : 0);
  launch("ridge_readout", kernel, call.grid(), ridge_threads<W>, bytes, call.stream, call.s, call.kept,
         rows_of(y).data);
}

template <int W>
void launch_gather(const RidgeCall& call, const PieceKeys& found) {
  if constexpr (hopper_ridge && W == 4) {
    if (fits_warpgroups(call.s)) return gather_on_warpgroups(call, found);
  }
  const bool one_tile = call.s.piece <= Grid<W>::width;
  const auto kernel = one_tile ? gather_kernel<W, true> : gather_kernel<W, false>;
  const int bytes = (one_tile ? 1 : 2) * tile_numbers<W> * 4 + left_bytes<W>(call.kept, one_tile ? 1 : 2);
  launch("ridge_readout statistics", kernel, call.grid(), ridge_threads<W>, bytes, call.stream, call.s, call.kept,
         found);
}

struct StatePointers {
  float *G, *M, *C, *previous, *m;
};

// A key of the recurrent form: earlier statistics shrink when the scale m grows.
__global__ void __launch_bounds__(threads) key_kernel(RidgeShape s, RidgePointers io, StatePointers state) {
  wait_for_previous_kernel();
  __shared__ float sums[32];
  const std::size_t pair = blockIdx.x;
  const float* key = io.z + pair * s.rank;
  const float* left = io.left != nullptr ? io.left + pair * s.rank : key;
  float *G = state.G + pair * s.square(), *M = state.M + pair * s.square(), *C = state.C + pair * s.tall();
  float* previous = state.previous + pair * s.rank;
  float square = 0;
  for (int i = int(threadIdx.x); i < s.rank; i += threads) square += key[i] * key[i];
  const float old_scale = state.m[pair], norm = sqrtf(block_sum(square, sums));
  const float length = io.length != nullptr ? io.length[pair] : norm;
  const float m = fmaxf(fmaxf(old_scale, length), min_scale), shrink = old_scale / m, inverse = 1.0f / m;
  for (int i = int(threadIdx.x); i < s.square(); i += threads) {
    const float now = left[i / s.rank] * inverse;
    G[i] = shrink * shrink * G[i] + now * (key[i % s.rank] * inverse);
    M[i] = shrink * shrink * M[i] + now * (shrink * previous[i % s.rank]);
  }
  for (int i = int(threadIdx.x); i < s.tall() && shrink != 1; i += threads) C[i] *= shrink;
  __syncthreads();
  for (int i = int(threadIdx.x); i < s.rank; i += threads) previous[i] = key[i] * inverse;
  if (threadIdx.x == 0) state.m[pair] = m;
}

RidgeShape shape_of(const RidgeConfig& config, const Shape& queries) {
  RidgeInputs in;
  in.z.shape = {queries[0], queries[1], queries[2], 1};
  in.v.shape = in.z.shape;
  return ridge_shape(config, in);
}

}  // namespace

// The scale of every query [B,T,H], from m of its group [B,H,g].
void CudaBackend::ridge_scales(const RidgeConfig& config, const RidgeSaved& saved, const Tensor& scales) {
  if (scales.elements() == 0) return;
  map(*this, "ridge_scales", scales.elements(),
      [s = shape_of(config, scales.shape), m = saved.m.as<float>(), to = scales.as<float>()] __device__(unsigned of) {
        const int i = int(of), t = i / s.heads % s.length;
        to[i] = 1.0f / m[(i / (s.length * s.heads) * s.heads + i % s.heads) * s.groups + t / s.piece];
      });
}

// A thread sums, for its token, over the queries of the groups whose m is its length.
void CudaBackend::ridge_scales_backward(const RidgeConfig& config, const RidgeSaved& saved, const Tensor& dscales,
                                        const Grad& dlength) {
  if (!dlength.wanted() || dscales.elements() == 0) return;
  map(*this, "ridge_scales_backward", dscales.elements(),
      [s = shape_of(config, dscales.shape), m = saved.m.as<float>(), m_index = saved.m_index.as<int>(),
       slopes = dscales.as<float>(), to = sink_of(dlength)] __device__(unsigned of) {
        const int i = int(of), t = i / s.heads % s.length, pair = i / (s.length * s.heads) * s.heads + i % s.heads;
        float sum = 0;
        for (int g = 0; g < s.groups; ++g) {
          const int entry = pair * s.groups + g;
          if (m_index[entry] != t) continue;
          for (int query = s.first(g); query < s.first(g) + s.count(g); ++query)
            sum -= slopes[s.token(pair, query)] / (m[entry] * m[entry]);
        }
        to.put(of, sum);
      });
}

void CudaBackend::ridge_readout(const RidgeConfig& config, const RidgeInputs& in, const RidgeSaved& saved,
                                const Tensor& y) {
  const RidgeShape s = ridge_shape(config, in);
  if (y.elements() == 0) return;
  const RidgeCall call{stream(), s, in, ridge_pointers(config, in, saved), precision_ == Precision::fp32};
  const bool single = s.groups == 1 && !s.exclusive;
  if (!single) {
    const std::size_t pieces = std::size_t(s.batch) * s.heads * s.groups;
    float* norms = scratch(2 * pieces);
    const PieceKeys found{norms, reinterpret_cast<int*>(norms + pieces)};
    with_grid(s, [&](auto W) { launch_gather<W()>(call, found); });
    launched("ridge_readout statistics");
    launch_owners(prefix_kernel<float4>, prefix_kernel<float>, stream(), s, call.kept, found);
    launched("ridge_readout prefix sums");
  }
  with_grid(s, [&](auto W) {
    with_either<true, false>(single, [&](auto is_single) { launch_groups<W(), is_single()>(call, y); });
  });
  launched("ridge_readout");
}

void CudaBackend::ridge_write_key(const RidgeInputs& in, const RidgeState& state) {
  const RidgeShape s = ridge_shape({}, in);
  launch(*this, "ridge_write_key", key_kernel, unsigned(s.batch * s.heads), threads, s, ridge_pointers({}, in, {}),
         StatePointers{state.G.as<float>(), state.M.as<float>(), state.C.as<float>(), state.previous_key.as<float>(),
                       state.m.as<float>()});
}

void CudaBackend::ridge_write_value(const Tensor& v, const RidgeState& state) {
  const unsigned rank = unsigned(state.previous_key.shape.last()), tall = rank * unsigned(v.shape.last());
  map(*this, "ridge_write_value", state.C.elements(),
      [rank, tall, value = v.as<float>(), key = state.previous_key.as<float>(),
       C = state.C.as<float>()] __device__(unsigned i) { C[i] += value[i / rank] * key[i / tall * rank + i % rank]; });
}

// The groups' kernel reads the state where it would read the only group's sums.
void CudaBackend::ridge_answer(const RidgeConfig& config, const RidgeInputs& in, const RidgeState&,
                               const RidgeSaved& saved, const Tensor& y) {
  const RidgeShape s = ridge_shape(config, in);
  const RidgeCall call{stream(), s, in, ridge_pointers(config, in, saved), precision_ == Precision::fp32};
  with_grid(s, [&](auto W) { launch_groups<W(), false>(call, y); });
  launched("ridge_answer");
}

}  // namespace afterglow
