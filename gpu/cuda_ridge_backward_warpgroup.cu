// Every group of the SKA core on the way back, on warp groups: what cuda_ridge_backward.cu does, with its symbols.
// Matrices are split into halves once, when they are made, and not by every warp that reads them.
#include "gpu/cuda_backend.h"
#include "gpu/cuda_ridge_factor.cuh"
#include "gpu/cuda_ridge_warpgroup.cuh"

namespace afterglow::device {

namespace warpgroup {

namespace {

/// One group. Its matrices in shared memory: L^-1, A_w and two that change.
template <bool exact>
struct GroupReverse {
  RidgeShape s;
  RidgePointers in;
  RidgeWorkspace out;
  std::size_t entry;
  int pair, first, count;
  Peaks<1>& peaks;
  Scaled inverse, A, left, right;
  float m, scale, gain;
  float overlap = 0, slope = 0, trace = 0, readout = 0;  // this thread's shares of sums over matrices

  /// sums = factor a b; `always`: exact whatever the precision.
  template <bool always, bool a_by_columns, bool b_by_columns>
  __device__ __forceinline__ void multiply(Product& sums, const Scaled& a, const Scaled& b, float factor = 1.0f) const {
    warpgroup::multiply<exact || always, a_by_columns, b_by_columns>(sums, a, b, factor);
  }
  /// sum += a b
  template <bool a_by_columns, bool b_by_columns>
  __device__ __forceinline__ void add(Product& sum, const Scaled& a, const Scaled& b) const {
    Product part;
    const float scales = multiply_halves_of<exact, a_by_columns, b_by_columns>(part, a, b);
    add_product(sum, part, scales);
  }
  /// `to` = factor a b; it may be one of them.
  template <bool always, bool a_by_columns, bool b_by_columns>
  __device__ __forceinline__ void multiply_into(Scaled& to, const Scaled& a, const Scaled& b, float factor = 1.0f) {
    to.down = warpgroup::multiply_into < exact || always, a_by_columns, b_by_columns > (to.at, a, b, factor, peaks);
  }
  /// Matrices that change, from global memory.
  __device__ __forceinline__ void load(Scaled& to, const float* from, int rows, int columns, int stride) {
    to.down = load_into(to.at, from, rows, columns, stride, peaks);
  }
  __device__ __forceinline__ void gather(const float* dy, Product& dE) {
    invert();
    load(A, in.A_w + entry * s.square(), s.rank, s.rank, s.rank);
    load(left, in.q + s.token(pair, first) * s.rank, count, s.rank, s.heads * s.rank);
    load(right, dy + s.token(pair, first) * s.width, count, s.width, s.heads * s.width);
    multiply<false, true, true>(dE, right, left);
  }
  /// L^-1. The matrices that change serve as memory for L and its inverse in float32.
  __device__ __forceinline__ void invert() {
    auto *L = reinterpret_cast<float*>(left.at.memory), *full = reinterpret_cast<float*>(right.at.memory);
    HeldRows rows;
    rows.load_matrix(in.L + entry * s.square(), s.rank, s.rank);
#pragma unroll
    for (unsigned i = 0; i < held; ++i) {
      const int place = Grid<4>::place(static_cast<int>(HeldRows::row(i)), static_cast<int>(HeldRows::column()));
      *reinterpret_cast<float4*>(L + place) = rows.numbers[i];
      *reinterpret_cast<float4*>(full + place) = make_float4(0, 0, 0, 0);
    }
    __syncthreads();
    invert_diagonal<4>(L, full, 16 * ridge_warp(), s.rank);
    __syncthreads();
    complete_inverse<4>(L, full);
#pragma unroll
    for (unsigned i = 0; i < held; ++i)
      rows.numbers[i] = *reinterpret_cast<const float4*>(
          full + Grid<4>::place(static_cast<int>(HeldRows::row(i)), static_cast<int>(HeldRows::column())));
    peaks.put(0, rows.peak());
    __syncthreads();
    const tiles::Scale own = peaks.scale(0);
    rows.store(inverse.at, own.up);
    inverse.down = own.down;
    __syncthreads();
  }

  /// F_k = F (s A_w)^k into `left`, which nothing reads any more.
  __device__ __forceinline__ void filter(int k) {
    load(left, in.F + entry * s.tall(), s.width, s.rank, s.rank);
    for (int i = 0; i < k; ++i) multiply_into<false, false, true>(left, left, A, scale);
  }

  /// dq = (eta / m) dy F_K L^-1. `left` holds F_K, `right` dy; it is overwritten.
  __device__ __forceinline__ void answer_queries(const Sink& dq) {
    multiply_into<false, false, true>(right, right, left);
    Product gradient;
    multiply<true, false, true>(gradient, right, inverse, gain);
    const std::size_t first_number = s.token(pair, first) * s.rank;
    const int stride = s.heads * s.rank;
    each_pair(gradient, [&](int row, int column, float one, float two) {
      if (row < count && column < s.rank) put_pair(dq, first_number + row * stride + column, one, two);
    });
  }

  /// From dE to dF_0 in `right`, F_0 in `left`, dA; the readout's part of N.
  __device__ __forceinline__ void through_filter(const Product& dE, Product& N, Product& dA) {
    replace(peaks, right, dE);
    multiply_into<true, false, false>(right, right, inverse);
    overlap = dot(left, right) / m;  // not by way of the gain, so that eta may be zero
    right.down *= gain;
    multiply<false, true, true>(N, left, right);
    each_constant<32>([&](auto i) { dA[i() / 4][i() % 4] = 0; });
    for (int k = s.power; k > 0; --k) {
      filter(k - 1);
      add<true, true>(dA, left, right);
      multiply_into<false, false, false>(right, right, A, scale);
    }
    Product last;
    multiply<false, true, true>(last, right, left);
    add_product(N, last, 1.0f);
    each_pair(last, [&](int row, int column, float one, float two) {  // <dF_0, F_0>
      if (row == column) readout += one;
      if (row == column + 1) readout += two;
    });
  }

  /// dC, dM, dG. `right` holds dF_0, `left` may be overwritten.
  __device__ __forceinline__ void to_statistics(Product& N, const Product& dA) {
    Product values;
    multiply<true, false, true>(values, right, inverse, 1.0f / m);
    store_sums(out.C + entry * s.tall(), values, s.width, s.rank, 1.0f);
    replace(peaks, left, dA);
    slope = dot(left, A);
    left.down *= scale;
    add<true, true>(N, left, A);
    add<false, false>(N, left, A);
    // sym(N) is T + T^T: the lower half, and on the diagonal half of it.
    each_pair(N, [&](int row, int column, float& here, float& next) {
      here = row > column ? here : row == column ? 0.5f * here : 0.0f;
      next = row > column + 1 ? next : row == column + 1 ? 0.5f * next : 0.0f;
    });
    replace(peaks, right, N);
    // L^-T dA_w L^-1 and L^-T sym(N) L^-1
    Product whole, symmetric;
    multiply_into<true, false, true>(left, left, inverse);
    multiply<true, true, true>(whole, inverse, left, 1.0f / (m * m));
    store_sums(out.M + entry * s.square(), whole, s.rank, s.rank, 1.0f);
    Product& half = N;
    begin_products();
    begin_multiply<true, false, true>(half, right.at, inverse.at);
    begin_multiply<true, true, true>(half, right.at, inverse.at, true);
    await_product(half);
    replace(peaks, right, half, right.down * inverse.down);
    multiply<true, true, true>(symmetric, inverse, right, -0.5f);
    store_sums(out.G + entry * s.square(), symmetric, s.rank, s.rank, 1.0f / (m * m));
    const float* G = in.G + entry * s.square();
    each_pair(symmetric, [&](int row, int column, float first_number, float second_number) {
      if (row >= s.rank || column >= s.rank) return;
      const float2 own = *reinterpret_cast<const float2*>(G + row * s.rank + column);
      trace += first_number * own.x + second_number * own.y;
    });
  }
};

struct ReverseNotes {
  Peaks<1> peaks;
  float sums[32];
};
constexpr int reverse_bytes = 4 * HalfMatrix::bytes + static_cast<int>(sizeof(ReverseNotes));

template <bool exact>
__global__ void __launch_bounds__(threads, 3)
    group_backward_kernel(RidgeShape s, RidgePointers in, const float* dy, RidgeWorkspace work, RidgeSinks out,
                          unsigned* ticket) {
  await_previous();
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& notes = *reinterpret_cast<ReverseNotes*>(memory + 4 * HalfMatrix::bytes);
  const int g = static_cast<int>(blockIdx.x), pair = static_cast<int>(blockIdx.y), head = pair % s.heads;
  const std::size_t entry = static_cast<std::size_t>(pair) * s.groups + g;
  const float m = in.m[entry], divisor = fmaxf(in.sigma[entry], 1.0f), raw = in.gamma_raw[head];
  const auto matrix = [&](int i) { return Scaled{{memory + i * HalfMatrix::bytes}, 1.0f}; };
  GroupReverse<exact> reverse{s,
                              in,
                              work,
                              entry,
                              pair,
                              s.first(g),
                              s.count(g),
                              notes.peaks,
                              matrix(0),
                              matrix(1),
                              matrix(2),
                              matrix(3),
                              m,
                              (1.0f + 0.5f * sigmoid(raw)) / divisor,
                              in.eta[head] / m};
  Product dE, N, dA;
  reverse.gather(dy, dE);
  reverse.filter(s.power);
  if (out.q.wanted()) reverse.answer_queries(out.q);
  reverse.through_filter(dE, N, dA);
  reverse.to_statistics(N, dA);
  // E scales with eta / m, G and M with 1 / m^2, C with 1 / m; <dM, M> = <dA_w, A_w> and <dC, C> = <dF_0, F_0>.
  const float overlap = block_sum(reverse.overlap, notes.sums), slope = block_sum(reverse.slope, notes.sums);
  const float trace = block_sum(reverse.trace, notes.sums), readout = block_sum(reverse.readout, notes.sums);
  if (threadIdx.x == 0) {
    work.eta[entry] = overlap;
    work.gamma_raw[entry] = slope / divisor * gamma_slope(raw);
    work.m[entry] = -(2.0f * (trace + reverse.scale * slope) + readout + in.eta[head] * overlap) / m;
  }
  if (is_last_block(ticket, gridDim.x * gridDim.y)) sum_heads(s, work, out);
}

}  // namespace

}  // namespace warpgroup

void groups_back_on_warpgroups(cudaStream_t stream, const RidgeShape& s, const RidgePointers& in, const float* dy,
                               const RidgeWorkspace& work, const RidgeSinks& out, unsigned* ticket, bool exact) {
  const auto kernel = exact ? warpgroup::group_backward_kernel<true> : warpgroup::group_backward_kernel<false>;
  allow_shared_memory(reinterpret_cast<const void*>(kernel), warpgroup::reverse_bytes, "ridge_readout_backward");
  launch(kernel, dim3(static_cast<unsigned>(s.groups), static_cast<unsigned>(s.batch * s.heads)), warpgroup::threads,
         warpgroup::reverse_bytes, stream, s, in, dy, work, out, ticket);
}

}  // namespace afterglow::device
