// The SKA core, forward: sums over pieces of the sequence, prefix sums over groups, then for every group the whitening,
// A_w, sigma, F and the readout y = E q with E = (eta / m) F A^K L^-1. All matrices of a group live in shared memory.
// With one group everything is one launch.
#include "gpu/cuda_backend.h"
#include "gpu/cuda_launch.cuh"
#include "gpu/cuda_ridge.cuh"

namespace afterglow {

using namespace device;

namespace {

/// The largest key norm of a piece and where it is (-1: no key).
struct LargestKey {
  float norm = 0;
  int index = -1;
  __device__ void see(float other, int place) {
    if (other > norm || (other == norm && place >= 0 && index >= 0 && place < index)) {
      norm = other;
      index = place;
    }
  }
};

/// Sums over the tokens of one piece.
template <int W>
struct PieceSums {
  ColumnsColumns<W> G, M, C;
  LargestKey key;
};

template <int W>
constexpr int gather_bytes = (2 * Grid<W>::size + Grid<W>::stride) * 4;

/// Keys of positions first - 1 .. first + width - 1 (row 0 is the one before) and values of the same without it. Keys
/// that the mask leaves out are zero, and with them everything they would contribute.
template <int W>
__device__ void load_tokens(const RidgeShape& s, const RidgePointers& in, int pair, int first, int end, float* keys,
                            float* values) {
  constexpr int width = Grid<W>::width, stride = Grid<W>::stride;
  const auto key = [&](int t) -> const float* {
    if (t < 0 || t >= end) return nullptr;
    if (in.mask != nullptr && in.mask[pair / s.heads * s.length + t] == 0) return nullptr;
    return in.z + s.token(pair, t) * s.rank;
  };
  load_rows<W>(keys + stride, s.rank, [&](int row) { return key(first + row); });
  const float* before = key(first - 1);
  for (int i = static_cast<int>(threadIdx.x); i < width; i += threads) {
    keys[i] = before != nullptr && i < s.rank ? before[i] : 0.0f;
  }
  load_rows<W>(values, s.width,
               [&](int row) { return first + row < end ? in.v + s.token(pair, first + row) * s.width : nullptr; });
}

/// The largest key of the tile in `keys` (whose row 0 is the position before `first`).
template <int W>
__device__ void see_keys(LargestKey& largest, const float* keys, int first, int end) {
  constexpr int width = Grid<W>::width, lanes = threads / width;
  __shared__ float norms[width];
  const int row = static_cast<int>(threadIdx.x) / lanes, lane = static_cast<int>(threadIdx.x) % lanes;
  float sum = 0;
  for (int i = lane; i < width; i += lanes) {
    const float value = keys[(row + 1) * Grid<W>::stride + i];
    sum += value * value;
  }
  for (int offset = lanes / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(full_warp, sum, offset);
  if (lane == 0) norms[row] = sqrtf(sum);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x) % 32; i < width && first + i < end; i += 32) {
    if (norms[i] > 0) largest.see(norms[i], first + i);
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    const float norm = __shfl_xor_sync(full_warp, largest.norm, offset);
    const int index = __shfl_xor_sync(full_warp, largest.index, offset);
    largest.see(norm, index);
  }
}

template <int W>
__device__ void gather(PieceSums<W>& sums, const RidgeShape& s, const RidgePointers& in, int pair, int begin, int end,
                       float* keys, float* values) {
  constexpr int width = Grid<W>::width, stride = Grid<W>::stride;
  const int tx = static_cast<int>(threadIdx.x) % 16, ty = static_cast<int>(threadIdx.x) / 16;
  sums.G.clear();
  sums.M.clear();
  sums.C.clear();
  for (int first = begin; first < end; first += width) {
    __syncthreads();
    load_tokens<W>(s, in, pair, first, end, keys, values);
    __syncthreads();
    see_keys<W>(sums.key, keys, first, end);
    float before[W];
    load_vector<W>(before, keys + W * tx);
    const int count = min(width, end - first);
#pragma unroll 2
    for (int t = 0; t < count; ++t) {
      float left[W], now[W], value[W];
      load_vector<W>(left, keys + (t + 1) * stride + W * ty);
      load_vector<W>(now, keys + (t + 1) * stride + W * tx);
      load_vector<W>(value, values + t * stride + W * ty);
#pragma unroll
      for (int i = 0; i < W; ++i)
#pragma unroll
        for (int j = 0; j < W; ++j) {
          sums.G.v[i][j] += left[i] * now[j];
          sums.M.v[i][j] += left[i] * before[j];
          sums.C.v[i][j] += value[i] * now[j];
        }
#pragma unroll
      for (int j = 0; j < W; ++j) before[j] = now[j];
    }
  }
}

template <int W>
__device__ void store_sums(const PieceSums<W>& sums, const RidgeShape& s, const RidgePointers& out, std::size_t entry,
                           float inverse) {
  sums.G.store_global(out.G + entry * s.square(), s.rank, s.rank, inverse * inverse);
  sums.M.store_global(out.M + entry * s.square(), s.rank, s.rank, inverse * inverse);
  sums.C.store_global(out.C + entry * s.tall(), s.width, s.rank, inverse);
}

/// Largest keys of the pieces, between two launches.
struct PieceKeys {
  float* norms;
  int* indices;
};

// Raw sums of every piece, stored where the group that they first contribute to has its statistics.
template <int W>
__global__ void __launch_bounds__(threads) gather_kernel(RidgeShape s, RidgePointers in, PieceKeys found) {
  await_previous();
  extern __shared__ float4 memory[];
  float* shared = reinterpret_cast<float*>(memory);
  const int piece = static_cast<int>(blockIdx.x), pair = static_cast<int>(blockIdx.y);
  PieceSums<W> sums;
  const int begin = s.first(piece);
  gather<W>(sums, s, in, pair, begin, begin + s.count(piece), shared, shared + Grid<W>::size + Grid<W>::stride);
  const std::size_t base = static_cast<std::size_t>(pair) * s.groups;
  if (threadIdx.x == 0) {
    found.norms[base + piece] = sums.key.norm;
    found.indices[base + piece] = sums.key.index;
  }
  const int group = s.exclusive ? piece + 1 : piece;
  if (group < s.groups) store_sums<W>(sums, s, in, base + group, 1.0f);
}

// Running sums over groups, divided by the group's m. A thread owns one number of G, M or C.
__global__ void __launch_bounds__(threads) prefix_kernel(RidgeShape s, RidgePointers out, PieceKeys found) {
  await_previous();
  constexpr int ahead = 8;
  const int number = static_cast<int>(blockIdx.x) * threads + static_cast<int>(threadIdx.x);
  const std::size_t base = static_cast<std::size_t>(blockIdx.y) * s.groups;
  if (number >= 2 * s.square() + s.tall()) return;
  const bool is_G = number < s.square(), is_M = !is_G && number < 2 * s.square();
  const std::size_t stride = is_G || is_M ? s.square() : s.tall();
  float* place = is_G   ? out.G + base * stride + number
                 : is_M ? out.M + base * stride + number - s.square()
                        : out.C + base * stride + number - 2 * s.square();
  LargestKey key;
  if (!s.running) {
    for (int g = 0; g < s.groups; ++g) key.see(found.norms[base + g], found.indices[base + g]);
  }
  float sum = 0;
  for (int begin = 0; begin < s.groups; begin += ahead) {
    float raw[ahead];
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
      const int g = begin + i;
      raw[i] = g < s.groups && !(s.exclusive && g == 0) ? place[g * stride] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
      const int g = begin + i;
      if (g >= s.groups) break;
      const int newest = s.exclusive ? g - 1 : g;
      if (s.running && newest >= 0) key.see(found.norms[base + newest], found.indices[base + newest]);
      const float m = fmaxf(key.norm, smallest_scale), inverse = 1.0f / m;
      sum += raw[i];
      place[g * stride] = sum * (is_G || is_M ? inverse * inverse : inverse);
      if (number == 0) {
        out.m[base + g] = m;
        out.m_index[base + g] = key.norm >= smallest_scale ? key.index : -1;
      }
    }
  }
}

/// |A v| after some normalised steps v <- A^T A v from ones / sqrt(r).
template <int W>
__device__ float largest_singular_value(const float* A, int rank, int iterations) {
  constexpr int width = Grid<W>::width, stride = Grid<W>::stride, lanes = threads / width;
  __shared__ __align__(16) float v[width];
  __shared__ float u[width], parts[lanes][width];
  const int row = static_cast<int>(threadIdx.x) / lanes, lane = static_cast<int>(threadIdx.x) % lanes;
  const int column = static_cast<int>(threadIdx.x) % width, part = static_cast<int>(threadIdx.x) / width;
  if (threadIdx.x < width) v[threadIdx.x] = static_cast<int>(threadIdx.x) < rank ? rsqrtf(static_cast<float>(rank)) : 0;
  __syncthreads();
  for (int i = 0;; ++i) {
    float sum = 0;
#pragma unroll
    for (int k = 4 * lane; k < width; k += 4 * lanes) {
      const float4 a = *reinterpret_cast<const float4*>(A + row * stride + k);
      const float4 x = *reinterpret_cast<const float4*>(v + k);
      sum += a.x * x.x + a.y * x.y + a.z * x.z + a.w * x.w;
    }
#pragma unroll
    for (int offset = lanes / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(full_warp, sum, offset);
    if (lane == 0) u[row] = sum;
    __syncthreads();
    if (i == iterations) break;
    sum = 0;
#pragma unroll
    for (int k = part; k < width; k += lanes) sum += A[k * stride + column] * u[k];
    parts[part][column] = sum;
    __syncthreads();
    float next[width / 32], square = 0;
#pragma unroll
    for (int j = 0; j < width / 32; ++j) {
      next[j] = 0;
#pragma unroll
      for (int k = 0; k < lanes; ++k) next[j] += parts[k][threadIdx.x % 32 + 32 * j];
      square += next[j] * next[j];
    }
    square = warp_sum(square);
    const float inverse = square > 0 ? 1.0f / sqrtf(square) : 0.0f;
    if (threadIdx.x < 32) {
#pragma unroll
      for (int j = 0; j < width / 32; ++j) v[threadIdx.x + 32 * j] = next[j] * inverse;
    }
    __syncthreads();
  }
  float square = 0;
#pragma unroll
  for (int j = 0; j < width / 32; ++j) square += u[threadIdx.x % 32 + 32 * j] * u[threadIdx.x % 32 + 32 * j];
  return sqrtf(warp_sum(square));
}

template <int W>
constexpr int group_bytes = (3 * Grid<W>::size + Grid<W>::stride + 5 * Grid<W>::width) * 4;

// One group: whitening, A_w, sigma, F, and the answers to its queries. With `single` the statistics are gathered here.
template <int W, bool single>
__global__ void __launch_bounds__(threads, W == 4 ? 3 : 4) group_kernel(RidgeShape s, RidgePointers in, float* y) {
  await_previous();
  constexpr int width = Grid<W>::width, size = Grid<W>::size;
  extern __shared__ float4 memory[];
  float* exchange = reinterpret_cast<float*>(memory);
  float *inverse = exchange + 5 * width, *A = inverse + size, *F = A + size;
  const int g = static_cast<int>(blockIdx.x), pair = static_cast<int>(blockIdx.y), head = pair % s.heads;
  const std::size_t entry = static_cast<std::size_t>(pair) * s.groups + g;
  if (single) {
    PieceSums<W> sums;
    gather<W>(sums, s, in, pair, 0, s.length, inverse, A + Grid<W>::stride);
    const float m = fmaxf(sums.key.norm, smallest_scale);
    store_sums<W>(sums, s, in, entry, 1.0f / m);
    if (threadIdx.x == 0) {
      in.m[entry] = m;
      in.m_index[entry] = sums.key.norm >= smallest_scale ? sums.key.index : -1;
    }
    __syncthreads();
  }
  clear_matrix<W>(inverse);
  load_matrix<W>(A, in.M + entry * s.square(), s.rank, s.rank);
  load_matrix<W>(F, in.C + entry * s.tall(), s.width, s.rank);
  const int tries = whiten<W>(in.G + entry * s.square(), s.ridge, s.rank, in.L + entry * s.square(), inverse, exchange);
  const int depth = padded(s.rank);
  {
    RowsColumns<W> half;
    half.clear();
    multiply<W>(half, inverse, A, depth);
    half.replace(A);
    RowsRows<W> whole;
    whole.clear();
    multiply<W>(whole, A, inverse, depth);
    whole.replace(A);
    whole.store_global(in.A_w + entry * s.square(), s.rank, s.rank);
    RowsRows<W> readout;
    readout.clear();
    multiply<W>(readout, F, inverse, depth);
    readout.replace(F);
    readout.store_global(in.F + entry * s.tall(), s.width, s.rank);
  }
  const float sigma = largest_singular_value<W>(A, s.rank, s.iterations);
  if (threadIdx.x == 0) {
    in.sigma[entry] = sigma;
    in.jitter[entry] = static_cast<float>(tries);
  }
  const float scale = (1.0f + 0.5f * sigmoid(in.gamma_raw[head])) / fmaxf(sigma, 1.0f);
  const float gain = in.eta[head] / in.m[entry];
  for (int k = 0; k < s.power; ++k) {
    RowsColumns<W> next;
    next.clear();
    multiply<W>(next, F, A, depth);
    next.replace(F, scale);
  }
  RowsColumns<W> E;
  E.clear();
  multiply<W>(E, F, inverse, depth);
  E.replace(F, gain);
  const int end = s.first(g) + s.count(g);
  for (int first = s.first(g); first < end; first += width) {
    load_rows<W>(A, s.rank,
                 [&](int row) { return first + row < end ? in.q + s.token(pair, first + row) * s.rank : nullptr; });
    __syncthreads();
    RowsRows<W> answers;
    answers.clear();
    multiply<W>(answers, A, F, depth);
    answers.each([&](int row, int column, float value) {
      if (first + row < end && column < s.width) y[s.token(pair, first + row) * s.width + column] = value;
    });
    __syncthreads();
  }
}

template <int W>
void launch_groups(cudaStream_t stream, const RidgeShape& s, const RidgePointers& in, float* y, bool single) {
  const dim3 grid(static_cast<unsigned>(s.groups), static_cast<unsigned>(s.batch * s.heads));
  const auto kernel = single ? group_kernel<W, true> : group_kernel<W, false>;
  allow_shared_memory(reinterpret_cast<const void*>(kernel), group_bytes<W>, "ridge_readout");
  launch(kernel, grid, threads, group_bytes<W>, stream, s, in, y);
}

template <int W>
void launch_gather(cudaStream_t stream, const RidgeShape& s, const RidgePointers& in, const PieceKeys& found) {
  const dim3 grid(static_cast<unsigned>(s.groups), static_cast<unsigned>(s.batch * s.heads));
  allow_shared_memory(reinterpret_cast<const void*>(gather_kernel<W>), gather_bytes<W>, "ridge_readout statistics");
  launch(gather_kernel<W>, grid, threads, gather_bytes<W>, stream, s, in, found);
}

struct StatePointers {
  float *G, *M, *C, *previous, *m;
};

// One token: the older statistics shrink when the scale m grows.
__global__ void __launch_bounds__(threads) state_kernel(RidgeShape s, RidgePointers io, StatePointers state) {
  await_previous();
  __shared__ float sums[32];
  const std::size_t pair = blockIdx.x;
  const float *key = io.z + pair * s.rank, *value = io.v + pair * s.width;
  float *G = state.G + pair * s.square(), *M = state.M + pair * s.square(), *C = state.C + pair * s.tall();
  float* previous = state.previous + pair * s.rank;
  float square = 0;
  for (int i = static_cast<int>(threadIdx.x); i < s.rank; i += threads) square += key[i] * key[i];
  const float old_scale = state.m[pair], length = sqrtf(block_sum(square, sums));
  const float m = fmaxf(fmaxf(old_scale, length), smallest_scale), shrink = old_scale / m, inverse = 1.0f / m;
  for (int i = static_cast<int>(threadIdx.x); i < s.square(); i += threads) {
    const float now = key[i / s.rank] * inverse;
    G[i] = shrink * shrink * G[i] + now * (key[i % s.rank] * inverse);
    M[i] = shrink * shrink * M[i] + now * (shrink * previous[i % s.rank]);
    io.G[pair * s.square() + i] = G[i];
    io.M[pair * s.square() + i] = M[i];
  }
  for (int i = static_cast<int>(threadIdx.x); i < s.tall(); i += threads) {
    C[i] = shrink * C[i] + value[i / s.rank] * (key[i % s.rank] * inverse);
    io.C[pair * s.tall() + i] = C[i];
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < s.rank; i += threads) previous[i] = key[i] * inverse;
  if (threadIdx.x == 0) {
    state.m[pair] = m;
    io.m[pair] = m;
    io.m_index[pair] = -1;
  }
}

}  // namespace

void CudaBackend::ridge_readout(const RidgeConfig& config, const RidgeInputs& in, const RidgeSaved& saved,
                                const Tensor& y) {
  const RidgeShape s = ridge_shape(config, in);
  const RidgePointers pointers = ridge_pointers(config, in, saved);
  if (y.elements() == 0) return;
  const bool single = s.groups == 1 && !s.exclusive;
  if (!single) {
    const std::size_t pieces = static_cast<std::size_t>(s.batch) * s.heads * s.groups;
    float* norms = scratch(2 * pieces);
    const PieceKeys found{norms, reinterpret_cast<int*>(norms + pieces)};
    with_grid(
        s, [&] { launch_gather<2>(stream(), s, pointers, found); },
        [&] { launch_gather<4>(stream(), s, pointers, found); });
    launched("ridge_readout statistics");
    const dim3 grid(blocks_for(2 * s.square() + s.tall(), threads), static_cast<unsigned>(s.batch * s.heads));
    launch(prefix_kernel, grid, threads, 0, stream(), s, pointers, found);
    launched("ridge_readout prefix sums");
  }
  with_grid(
      s, [&] { launch_groups<2>(stream(), s, pointers, y.as<float>(), single); },
      [&] { launch_groups<4>(stream(), s, pointers, y.as<float>(), single); });
  launched("ridge_readout");
}

void CudaBackend::ridge_step(const RidgeConfig& config, const RidgeInputs& in, const RidgeState& state,
                             const RidgeSaved& saved, const Tensor& y) {
  RidgeConfig one = config;
  one.mode = RidgeConfig::Mode::recurrent;
  const RidgeShape s = ridge_shape(one, in);
  const RidgePointers pointers = ridge_pointers(one, in, saved);
  if (y.elements() == 0) return;
  launch(state_kernel, static_cast<unsigned>(s.batch * s.heads), threads, 0, stream(), s, pointers,
         StatePointers{state.G.as<float>(), state.M.as<float>(), state.C.as<float>(), state.previous_key.as<float>(),
                       state.m.as<float>()});
  launched("ridge_step");
  with_grid(
      s, [&] { launch_groups<2>(stream(), s, pointers, y.as<float>(), false); },
      [&] { launch_groups<4>(stream(), s, pointers, y.as<float>(), false); });
  launched("ridge_step readout");
}

}  // namespace afterglow
