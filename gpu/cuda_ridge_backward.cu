// The SKA core, backward. Every group on its own first: from dy to the gradients of its queries, its raw statistics,
// its scale m, eta and gamma. Then suffix sums over the groups that a piece contributes to, and from them keys and
// values.
//
// With E = (eta / m) F A^K L^-1, A = s A_w, s = gamma / max(sigma, 1), y = E q:
//   dE = sum dy q^T, dq = E^T dy; with F_k = F A^k: dF_K = (eta / m) dE L^-T, dA = sum F_{k-1}^T dF_k,
//   dF_{k-1} = dF_k A^T; dA_w = s dA.
//   dM = L^-T dA_w L^-1, dC = dF_0 L^-1.
//   Everything that reaches G goes through L. Its lower half is Phi(L^T dL) = -Phi(N) with
//   N = F_K^T dF_K + dF_0^T F_0 + dA_w A_w^T + dA_w^T A_w, and dG = -1/2 L^-T sym(N) L^-1, where sym mirrors the lower
//   half of N. So dL itself is never formed.
#include "gpu/cuda_backend.h"
#include "gpu/cuda_launch.cuh"
#include "gpu/cuda_ridge.cuh"

namespace afterglow {

using namespace device;

namespace {

/// Gradients of the raw statistics of every group, then of every piece; [B,H,g,..].
struct RidgeWorkspace {
  float *G, *M, *C, *m, *eta, *gamma_raw;
};

struct RidgeSinks {
  Sink z, q, v, eta, gamma_raw;
};

template <int W>
constexpr int backward_bytes = (5 * Grid<W>::size + 5 * Grid<W>::width) * 4;

/// F_k = F (s A_w)^k into `to`.
template <int W>
__device__ void filtered(float* to, const float* F, const float* A, const RidgeShape& s, int k, float scale) {
  __syncthreads();
  load_matrix<W>(to, F, s.width, s.rank);
  __syncthreads();
  for (int i = 0; i < k; ++i) {
    RowsColumns<W> next;
    next.clear();
    multiply<W>(next, to, A, padded(s.rank));
    next.replace(to, scale);
  }
}

/// The lower half of a matrix in shared memory, mirrored.
template <int W>
__device__ void mirror_lower(float* matrix) {
  constexpr int width = Grid<W>::width, stride = Grid<W>::stride;
  for (int i = static_cast<int>(threadIdx.x); i < width * width; i += threads) {
    const int row = i / width, column = i % width;
    if (column > row) matrix[row * stride + column] = matrix[column * stride + row];
  }
}

/// One group on the way back; its matrices in shared memory.
template <int W>
struct GroupReverse {
  RidgeShape s;
  RidgePointers in;
  RidgeWorkspace out;
  std::size_t entry;
  int pair, first, end, depth;
  float *exchange, *inverse, *A, *F, *left, *right;
  float scale, gain, eta;
  float overlap = 0, slope = 0, trace = 0, readout = 0;  // this thread's shares of sums over matrices

  __device__ void load_queries(float* to, int begin) const {
    load_rows<W>(to, s.rank,
                 [&](int row) { return begin + row < end ? in.q + s.token(pair, begin + row) * s.rank : nullptr; });
  }
  __device__ void load_upstream(float* to, const float* dy, int begin) const {
    load_rows<W>(to, s.width,
                 [&](int row) { return begin + row < end ? dy + s.token(pair, begin + row) * s.width : nullptr; });
  }

  /// dE into `left`, dq out. Leaves F_K in F. In between `left` holds E / eta, so that eta may be zero.
  __device__ void through_queries(const float* dy, const Sink& dq) {
    ColumnsColumns<W> dE;
    dE.clear();
    for (int begin = first; begin < end; begin += Grid<W>::width) {
      __syncthreads();
      load_queries(left, begin);
      load_upstream(right, dy, begin);
      __syncthreads();
      multiply<W>(dE, right, left, min(Grid<W>::width, padded(end - begin)));
    }
    filtered<W>(F, in.F + entry * s.tall(), A, s, s.power, scale);
    RowsColumns<W> E;
    E.clear();
    multiply<W>(E, F, inverse, depth);
    E.store(left, 1.0f / in.m[entry]);
    __syncthreads();
    overlap = dE.dot(left);
    if (dq.wanted()) answer_queries(dy, dq);
    dE.replace(left);
  }

  __device__ void answer_queries(const float* dy, const Sink& dq) {
    const bool kept = end - first <= Grid<W>::width;  // dy is still there
    for (int begin = first; begin < end; begin += Grid<W>::width) {
      if (!kept) {
        __syncthreads();
        load_upstream(right, dy, begin);
        __syncthreads();
      }
      RowsColumns<W> gradient;
      gradient.clear();
      multiply<W>(gradient, right, left, padded(s.width));
      gradient.each([&](int row, int column, float value) {
        if (begin + row < end && column < s.rank) {
          dq.put(static_cast<unsigned>(s.token(pair, begin + row) * s.rank + column), eta * value);
        }
      });
    }
  }

  /// From dE in `left` to dF_0 in `left`, F_0 in F, dA in the result, and the readout's part of N in `right`.
  __device__ ColumnsColumns<W> through_filter() {
    RowsRows<W> dF;
    dF.clear();
    multiply<W>(dF, left, inverse, depth);
    dF.replace(left, gain);
    ColumnsColumns<W> N;
    N.clear();
    multiply<W>(N, F, left, padded(s.width));
    N.store(right);
    ColumnsColumns<W> dA;
    dA.clear();
    for (int k = s.power; k > 0; --k) {
      filtered<W>(F, in.F + entry * s.tall(), A, s, k - 1, scale);
      multiply<W>(dA, F, left, padded(s.width));
      RowsRows<W> next;
      next.clear();
      multiply<W>(next, left, A, depth);
      next.replace(left, scale);
    }
    return dA;
  }

  /// dC, dM, dG. `left` holds dF_0, F holds F_0, `right` the readout's part of N.
  __device__ void to_statistics(const ColumnsColumns<W>& dA, float m) {
    __syncthreads();
    ColumnsColumns<W> part;
    part.clear();
    multiply<W>(part, left, F, padded(s.width));
    part.add_to(right);
    RowsColumns<W> dC;
    dC.clear();
    multiply<W>(dC, left, inverse, depth);
    dC.store_global(out.C + entry * s.tall(), s.width, s.rank, 1.0f / m);
    dC.each([&](int i, int j, float) { readout += left[i * Grid<W>::stride + j] * F[i * Grid<W>::stride + j]; });
    slope = dA.dot(A);
    dA.replace(F, scale);
    part.clear();
    multiply<W>(part, F, A, depth);
    part.add_to(right);
    __syncthreads();
    RowsRows<W> other;
    other.clear();
    multiply<W>(other, F, A, depth);
    other.add_to(right);
    __syncthreads();
    mirror_lower<W>(right);
    RowsColumns<W> half;
    half.clear();
    multiply<W>(half, F, inverse, depth);
    half.replace(F);
    ColumnsColumns<W> whole;
    whole.clear();
    multiply<W>(whole, inverse, F, depth);
    whole.store_global(out.M + entry * s.square(), s.rank, s.rank, 1.0f / (m * m));
    half.clear();
    multiply<W>(half, right, inverse, depth);
    half.replace(right);
    whole.clear();
    multiply<W>(whole, inverse, right, depth);
    whole.store_global(out.G + entry * s.square(), s.rank, s.rank, -0.5f / (m * m));
    const float* G = in.G + entry * s.square();
    whole.each([&](int i, int j, float value) {
      if (i < s.rank && j < s.rank) trace += -0.5f * value * G[i * s.rank + j];
    });
  }
};

__device__ inline float gamma_slope(float raw) {
  const float x = sigmoid(raw);
  return 0.5f * x * (1.0f - x);
}

/// Sums over sequences and groups, in order: a warp takes a head.
__device__ void sum_heads(const RidgeShape& s, const RidgeWorkspace& work, const RidgeSinks& out) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int head = static_cast<int>(threadIdx.x) / 32; head < s.heads; head += threads / 32) {
    float eta = 0, gamma = 0;
    for (int i = lane; i < s.batch * s.groups; i += 32) {
      const std::size_t entry = (static_cast<std::size_t>(i / s.groups) * s.heads + head) * s.groups + i % s.groups;
      eta += work.eta[entry];
      gamma += work.gamma_raw[entry];
    }
    eta = warp_sum(eta);
    gamma = warp_sum(gamma);
    if (lane == 0 && out.eta.wanted()) out.eta.put(static_cast<unsigned>(head), eta);
    if (lane == 0 && out.gamma_raw.wanted()) out.gamma_raw.put(static_cast<unsigned>(head), gamma);
  }
}

template <int W>
__global__ void __launch_bounds__(threads, 2)
    group_backward_kernel(RidgeShape s, RidgePointers in, const float* dy, RidgeWorkspace work, RidgeSinks out,
                          unsigned* ticket) {
  await_previous();
  constexpr int width = Grid<W>::width, size = Grid<W>::size;
  extern __shared__ float4 memory[];
  __shared__ float sums[32];
  float* shared = reinterpret_cast<float*>(memory);
  const int g = static_cast<int>(blockIdx.x), pair = static_cast<int>(blockIdx.y), head = pair % s.heads;
  const std::size_t entry = static_cast<std::size_t>(pair) * s.groups + g;
  float *inverse = shared + 5 * width, *A = inverse + size;
  const float m = in.m[entry], divisor = fmaxf(in.sigma[entry], 1.0f), raw = in.gamma_raw[head];
  GroupReverse<W> reverse{s,
                          in,
                          work,
                          entry,
                          pair,
                          s.first(g),
                          s.first(g) + s.count(g),
                          padded(s.rank),
                          shared,
                          inverse,
                          A,
                          A + size,
                          A + 2 * size,
                          A + 3 * size,
                          (1.0f + 0.5f * sigmoid(raw)) / divisor,
                          in.eta[head] / m,
                          in.eta[head]};
  clear_matrix<W>(inverse);
  load_matrix<W>(A, in.A_w + entry * s.square(), s.rank, s.rank);
  const float added = added_to_diagonal(s.ridge, static_cast<int>(in.jitter[entry]));
  factorise<W>(in.G + entry * s.square(), added, s.rank, nullptr, inverse, shared);
  reverse.through_queries(dy, out.q);
  const ColumnsColumns<W> dA = reverse.through_filter();
  reverse.to_statistics(dA, m);
  // E scales with eta / m, G and M with 1 / m^2, C with 1 / m; <dM, M> = <dA_w, A_w> and <dC, C> = <dF_0, F_0>.
  const float overlap = block_sum(reverse.overlap, sums), slope = block_sum(reverse.slope, sums);
  const float trace = block_sum(reverse.trace, sums), readout = block_sum(reverse.readout, sums);
  if (threadIdx.x == 0) {
    work.eta[entry] = overlap;
    work.gamma_raw[entry] = slope / divisor * gamma_slope(raw);
    work.m[entry] = -(2.0f * (trace + reverse.scale * slope) + readout + in.eta[head] * overlap) / m;
  }
  if (is_last_block(ticket, gridDim.x * gridDim.y)) sum_heads(s, work, out);
}

// From gradients by group to gradients by piece: sums over the groups that a piece contributes to.
__global__ void __launch_bounds__(threads) suffix_kernel(RidgeShape s, RidgeWorkspace work) {
  await_previous();
  constexpr int ahead = 8;
  const int number = static_cast<int>(blockIdx.x) * threads + static_cast<int>(threadIdx.x);
  const std::size_t base = static_cast<std::size_t>(blockIdx.y) * s.groups;
  if (number >= 2 * s.square() + s.tall()) return;
  const bool is_G = number < s.square(), is_M = !is_G && number < 2 * s.square();
  const std::size_t stride = is_G || is_M ? s.square() : s.tall();
  float* place = is_G   ? work.G + base * stride + number
                 : is_M ? work.M + base * stride + number - s.square()
                        : work.C + base * stride + number - 2 * s.square();
  float sum = 0;
  for (int end = s.groups; end > 0; end -= ahead) {
    float raw[ahead];
#pragma unroll
    for (int i = 0; i < ahead; ++i) raw[i] = end - 1 - i >= 0 ? place[(end - 1 - i) * stride] : 0.0f;
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
      const int g = end - 1 - i;
      if (g < 0) break;
      if (!s.exclusive) sum += raw[i];
      place[g * stride] = sum;
      if (s.exclusive) sum += raw[i];
    }
  }
}

template <int W>
constexpr int token_bytes = (3 * Grid<W>::size + 2 * Grid<W>::stride) * 4;

/// What m sends to the key of position t that attains it: sum of dm / m over the groups whose m it is.
__device__ inline float scale_gradient(const RidgeShape& s, const RidgePointers& in, const RidgeWorkspace& work,
                                       std::size_t base, int t) {
  float sum = 0;
  for (int g = 0; g < s.groups; ++g) {
    if (in.m_index[base + g] == t) sum += work.m[base + g] / in.m[base + g];
  }
  return sum;
}

// A tile of tokens of one piece: dz_t = 2 dG z_t + dM^T z_{t+1} + dM z_{t-1} + dC^T v_t, dv_t = dC z_t. A transition
// belongs to the piece of its later token, so the last token of a piece takes dM from the next piece.
template <int W>
__global__ void __launch_bounds__(threads)
    token_kernel(RidgeShape s, RidgePointers in, RidgeWorkspace work, RidgeSinks out) {
  await_previous();
  constexpr int width = Grid<W>::width, stride = Grid<W>::stride, size = Grid<W>::size;
  extern __shared__ float4 memory[];
  __shared__ float extra[width], along[width];
  float* keys = reinterpret_cast<float*>(memory);  // positions first - 1 .. first + width
  float *values = keys + size + 2 * stride, *matrix = values + size;
  const int tiles = (s.piece + width - 1) / width;
  const int piece = static_cast<int>(blockIdx.x) / tiles, pair = static_cast<int>(blockIdx.y);
  const int first = s.first(piece) + static_cast<int>(blockIdx.x) % tiles * width;
  const int piece_end = s.first(piece) + s.count(piece), count = min(width, piece_end - first);
  if (count <= 0) return;
  const std::size_t base = static_cast<std::size_t>(pair) * s.groups, entry = base + piece;
  const auto key = [&](int t) -> const float* {
    if (t < 0 || t >= s.length) return nullptr;
    if (in.mask != nullptr && in.mask[pair / s.heads * s.length + t] == 0) return nullptr;
    return in.z + s.token(pair, t) * s.rank;
  };
  load_rows<W>(keys + stride, s.rank, [&](int row) { return row < count ? key(first + row) : nullptr; });
  load_rows<W>(values, s.width,
               [&](int row) { return row < count ? in.v + s.token(pair, first + row) * s.width : nullptr; });
  load_matrix<W>(matrix, work.G + entry * s.square(), s.rank, s.rank);
  const bool piece_ends = first + count == piece_end;
  const float *before = key(first - 1), *after = key(first + count);
  for (int i = static_cast<int>(threadIdx.x); i < width; i += threads) {
    keys[i] = before != nullptr && i < s.rank ? before[i] : 0.0f;
    along[i] = after != nullptr && i < s.rank ? after[i] : 0.0f;
  }
  __syncthreads();
  RowsColumns<W> dz;
  dz.clear();
  const int depth = padded(s.rank);
  multiply<W>(dz, keys + stride, matrix, depth);
#pragma unroll
  for (int i = 0; i < W; ++i)
#pragma unroll
    for (int j = 0; j < W; ++j) dz.v[i][j] *= 2.0f;
  __syncthreads();
  // The row behind the tile: the next token when it belongs to this piece; otherwise `extra` adds its share.
  for (int i = static_cast<int>(threadIdx.x); i < width; i += threads) {
    keys[(width + 1) * stride + i] = piece_ends ? 0.0f : along[i];
    float sum = 0;
    if (piece_ends && piece + 1 < s.groups && i < s.rank) {
      const float* dM = work.M + (entry + 1) * s.square();
#pragma unroll 4
      for (int k = 0; k < s.rank; ++k) sum += along[k] * dM[k * s.rank + i];
    }
    extra[i] = sum;
  }
  load_matrix<W>(matrix, work.M + entry * s.square(), s.rank, s.rank);
  __syncthreads();
  multiply<W>(dz, keys + 2 * stride, matrix, depth);
  {
    // dM z_{t-1} reads dM along its rows; the numbers meet dz, which is laid out differently, through shared memory.
    RowsRows<W> backward;
    backward.clear();
    multiply<W>(backward, keys, matrix, depth);
    backward.replace(matrix);
  }
#pragma unroll
  for (int i = 0; i < W; ++i)
#pragma unroll
    for (int j = 0; j < W; ++j) dz.v[i][j] += matrix[dz.row(i) * stride + dz.column(j)];
  __syncthreads();
  load_matrix<W>(matrix, work.C + entry * s.tall(), s.width, s.rank);
  for (int row = static_cast<int>(threadIdx.x); row < width; row += threads) {
    along[row] = row < count ? scale_gradient(s, in, work, base, first + row) : 0.0f;
  }
  __syncthreads();
  multiply<W>(dz, values, matrix, padded(s.width));
  if (out.z.wanted()) {
    dz.each([&](int row, int column, float value) {
      if (row >= count || column >= s.rank) return;
      const bool selected = key(first + row) != nullptr;
      if (row == count - 1) value += extra[column];
      value += along[row] * keys[(row + 1) * stride + column];
      out.z.put(static_cast<unsigned>(s.token(pair, first + row) * s.rank + column), selected ? value : 0.0f);
    });
  }
  if (out.v.wanted()) {
    RowsRows<W> dv;
    dv.clear();
    multiply<W>(dv, keys + stride, matrix, depth);
    dv.each([&](int row, int column, float value) {
      if (row < count && column < s.width) {
        out.v.put(static_cast<unsigned>(s.token(pair, first + row) * s.width + column), value);
      }
    });
  }
}

std::int64_t padded_elements(std::int64_t count) { return (count + 63) / 64 * 64; }

template <int W>
void launch_backward(cudaStream_t stream, const RidgeShape& s, const RidgePointers& in, const float* dy,
                     const RidgeWorkspace& work, const RidgeSinks& out, unsigned* ticket) {
  const auto pairs = static_cast<unsigned>(s.batch * s.heads);
  allow_shared_memory(reinterpret_cast<const void*>(group_backward_kernel<W>), backward_bytes<W>,
                      "ridge_readout_backward");
  launch(group_backward_kernel<W>, dim3(static_cast<unsigned>(s.groups), pairs), threads, backward_bytes<W>, stream, s,
         in, dy, work, out, ticket);
  if (!out.z.wanted() && !out.v.wanted()) return;
  if (s.groups > 1 || s.exclusive) {
    launch(suffix_kernel, dim3(blocks_for(2 * s.square() + s.tall(), threads), pairs), threads, 0, stream, s, work);
  }
  allow_shared_memory(reinterpret_cast<const void*>(token_kernel<W>), token_bytes<W>, "ridge_readout_backward tokens");
  const unsigned tiles = static_cast<unsigned>(s.groups) * blocks_for(s.piece, Grid<W>::width);
  const dim3 grid(tiles, pairs);
  if (out.v.wanted() && out.v.rows.data == out.z.rows.data) {
    // Values that are keys too: dv is written first and dz is added.
    launch(token_kernel<W>, grid, threads, token_bytes<W>, stream, s, in, work, RidgeSinks{{}, {}, out.v, {}, {}});
    launch(token_kernel<W>, grid, threads, token_bytes<W>, stream, s, in, work, RidgeSinks{out.z, {}, {}, {}, {}});
    return;
  }
  launch(token_kernel<W>, grid, threads, token_bytes<W>, stream, s, in, work, out);
}

}  // namespace

std::int64_t CudaBackend::ridge_readout_workspace(const RidgeConfig& config, const RidgeInputs& in) const {
  const RidgeShape s = ridge_shape(config, in);
  const std::int64_t entries = std::int64_t{s.batch} * s.heads * s.groups;
  return 2 * padded_elements(entries * s.square()) + padded_elements(entries * s.tall()) + 3 * padded_elements(entries);
}

void CudaBackend::ridge_readout_backward(const RidgeConfig& config, const RidgeInputs& in, const RidgeSaved& saved,
                                         const Tensor& dy, const Tensor& workspace, const RidgeGrads& out) {
  const RidgeShape s = ridge_shape(config, in);
  if (dy.elements() == 0) return;
  const RidgePointers pointers = ridge_pointers(config, in, saved);
  const std::int64_t entries = std::int64_t{s.batch} * s.heads * s.groups;
  RidgeWorkspace work{};
  work.G = workspace.as<float>();
  work.M = work.G + padded_elements(entries * s.square());
  work.C = work.M + padded_elements(entries * s.square());
  work.m = work.C + padded_elements(entries * s.tall());
  work.eta = work.m + padded_elements(entries);
  work.gamma_raw = work.eta + padded_elements(entries);
  const RidgeSinks sinks{sink_of(out.z), sink_of(out.q), sink_of(out.v), sink_of(out.eta), sink_of(out.gamma_raw)};
  with_grid(
      s, [&] { launch_backward<2>(stream(), s, pointers, dy.as<float>(), work, sinks, tickets_); },
      [&] { launch_backward<4>(stream(), s, pointers, dy.as<float>(), work, sinks, tickets_); });
  launched("ridge_readout_backward");
}

}  // namespace afterglow
