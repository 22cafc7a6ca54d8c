// The backward pass of every group of the SKA core on warp groups, with the equations and symbols of ridge_backward.cu.
// Matrices are split into halves once, when they are made, and not by every warp that reads them. Grid: (groups, pairs
// of sequence and head).
#include "gpu/hopper/ridge/ridge_warpgroup.cuh"

namespace afterglow::device {
namespace warpgroup {
namespace {

/// One group. Matrices in shared memory: L^-1, A_w and two temporaries.
template <bool exact, class T>
struct GroupReverse {
  RidgeShape s;
  RidgePointers in;
  RidgeWorkspace out;
  std::size_t entry;
  int pair, first, count;
  Peaks<1>& peaks;
  Scaled inverse, A, left, right;
  float m, scale, gain;
  // This thread's parts of sums over matrices: <dE, E> without the gain, <dF_k, F_k> for k > 0 and for all k, <dG, G>.
  float overlap = 0, powers = 0, all = 0, trace = 0;

  /// sums = factor a b; `always`: exact in every precision.
  template <bool always, bool a_by_columns, bool b_by_columns>
  __device__ __forceinline__ void multiply(Accumulators& sums, const Scaled& a, const Scaled& b,
                                           float factor = 1.0f) const {
    warpgroup::multiply<exact || always, a_by_columns, b_by_columns>(sums, a, b, factor);
  }
  template <bool a_by_columns, bool b_by_columns>
  __device__ __forceinline__ void add(Accumulators& sum, const Scaled& a, const Scaled& b) const {
    Accumulators part;
    const float scales = multiply_halves_of<exact, a_by_columns, b_by_columns>(part, a, b);
    add_product(sum, part, scales);
  }
  /// `to` = factor a b; it may be one of them.
  template <bool always, bool a_by_columns, bool b_by_columns>
  __device__ __forceinline__ void multiply_into(Scaled& to, const Scaled& a, const Scaled& b, float factor = 1.0f) {
    constexpr bool fully = exact || always;
    to.down = warpgroup::multiply_into<fully, a_by_columns, b_by_columns>(to.at, a, b, factor, peaks);
  }
  /// From global memory; `always`: for products that are exact in every precision.
  template <bool always = false, class Number>
  __device__ __forceinline__ void load(Scaled& to, const Number* from, int rows, int columns, int stride) {
    constexpr bool fully = exact || always;
    to.down = load_into<fully>(to.at, from, rows, columns, stride, peaks);
  }
  __device__ __forceinline__ void gather(const TokenArray<T>& queries, const TokenArray<T>& dy, Accumulators& dE) {
    load<true>(inverse, in.inverse + entry * s.square(), s.rank, s.rank, s.rank);
    load(A, in.A_w + entry * s.square(), s.rank, s.rank, s.rank);
    load(left, queries.at(s, pair, first), count, s.rank, queries.stride);
    load(right, dy.at(s, pair, first), count, s.width, dy.stride);
    multiply<false, true, true>(dE, right, left);
  }

  /// F_k = F (s A_w)^k into `left`, which no thread reads any more.
  __device__ __forceinline__ void filter(int k) {
    load(left, in.F + entry * s.tall(), s.width, s.rank, s.rank);
    for (int i = 0; i < k; ++i) multiply_into<false, false, true>(left, left, A, scale);
  }

  /// dq = (eta / m) dy F_K L^-1. `left` holds F_K; `right` holds dy and is overwritten.
  __device__ __forceinline__ void answer_queries(const TokenArray<T>& dq) {
    multiply_into<false, false, true>(right, right, left);
    Accumulators gradient;
    multiply<true, false, true>(gradient, right, inverse, gain);
    T* const to = dq.at(s, pair, first);
    each_pair(gradient, [&](int row, int column, float one, float two) {
      if (row < count && column < s.rank) store_two(to + row * dq.stride + column, dq.accumulate, one, two);
    });
  }

  /// Computes dF_0 in `right`, F_0 in `left`, dA, and S = sum over k of F_k^T dF_k. The gradient of G through the
  /// whitening of F, M and E is -L^-T (S + S^T) L^-1 / 2: A^T dA and dA A^T are sums of the same products.
  __device__ __forceinline__ void through_filter(const Accumulators& dE, Accumulators& S, Accumulators& dA) {
    replace(peaks, right, dE);
    multiply_into<true, false, false>(right, right, inverse);
    overlap = dot<exact>(left, right) / m;  // not from the gain, so that eta may be zero
    right.down *= gain;
    multiply<false, true, true>(S, left, right);
    each_constant<32>([&](auto i) { dA[i() / 4][i() % 4] = 0; });
    for (int k = s.power; k > 0; --k) {
      filter(k - 1);
      add<true, true>(dA, left, right);
      multiply_into<false, false, false>(right, right, A, scale);
      if (k == 1) powers = diagonal(S);
      add<true, true>(S, left, right);
    }
    all = diagonal(S);
  }
  /// This thread's part of the sum over the diagonal.
  __device__ __forceinline__ static float diagonal(const Accumulators& product) {
    float sum = 0;
    each_pair(product, [&](int row, int column, float one, float two) {
      if (row == column) sum += one;
      if (row == column + 1) sum += two;
    });
    return sum;
  }

  /// dC, dM, dG. `right` holds dF_0; `left` may be overwritten.
  __device__ __forceinline__ void to_statistics(Accumulators& S, const Accumulators& dA) {
    Accumulators values;
    multiply<true, false, true>(values, right, inverse, 1.0f / m);
    store_sums(out.C + entry * s.tall(), values, s.width, s.rank, 1.0f);
    replace(peaks, left, dA, scale);
    replace(peaks, right, S);
    // L^-T dA_w L^-1 and -L^-T (S + S^T) L^-1 / 2
    multiply_into<true, false, true>(left, left, inverse);
    store_statistic(out.M, left, 1.0f);
    Accumulators& both = S;
    begin_products();
    begin_multiply<true, false, true>(both, right.at, inverse.at);
    begin_multiply<true, true, true>(both, right.at, inverse.at, true);
    wait_for_products<0>(both);
    replace(peaks, right, both, right.down * inverse.down);
    trace = store_statistic(out.G, right, -0.5f);
  }
  /// Stores the gradient factor L^-T a of G or M; returns its inner product with G.
  __device__ __forceinline__ float store_statistic(float* to, const Scaled& a, float factor) const {
    return multiply_to(to + entry * s.square(), inverse, a, factor, s.rank, 1.0f / (m * m), in.G + entry * s.square());
  }
};

struct ReverseNotes {
  Peaks<1> peaks;
  float sums[32];
};
constexpr int reverse_bytes = 4 * HalfMatrix::bytes + int(sizeof(ReverseNotes));

template <bool exact, class T>
__global__ void __launch_bounds__(threads, 3)
    group_backward_kernel(RidgeShape s, RidgePointers in, TokenArray<T> queries, TokenArray<T> dy, TokenArray<T> dq,
                          RidgeWorkspace work, RidgeSinks out, unsigned* ticket) {
  wait_for_previous_kernel();
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& notes = *reinterpret_cast<ReverseNotes*>(memory + 4 * HalfMatrix::bytes);
  const int g = int(blockIdx.x), pair = int(blockIdx.y), head = pair % s.heads;
  const std::size_t entry = std::size_t(pair) * s.groups + g;
  const float m = in.m[entry], raw = in.gamma_raw[head], gamma = s.gamma(raw);
  const auto matrix = [&](int i) { return Scaled{{memory + i * HalfMatrix::bytes}, 1.0f}; };
  const float scale = gamma / fmaxf(in.sigma[entry], 1.0f), gain = in.eta[head] / m;
  const int first = s.first(g), count = s.count(g);
  GroupReverse<exact, T> reverse{s,         in,        work,      entry,     pair, first, count, notes.peaks,
                                 matrix(0), matrix(1), matrix(2), matrix(3), m,    scale, gain};
  Accumulators dE, S, dA;
  reverse.gather(queries, dy, dE);
  reverse.filter(s.power);
  if (dq.wanted()) reverse.answer_queries(dq);
  reverse.through_filter(dE, S, dA);
  reverse.to_statistics(S, dA);
  // E scales with eta / m, G and M with 1 / m^2, C with 1 / m; <dM, M> = <dA_w, A_w>, which is the sum of <dF_k, F_k>
  // over k > 0, and <dC, C> = <dF_0, F_0>.
  const float overlap = block_sum(reverse.overlap, notes.sums), powers = block_sum(reverse.powers, notes.sums);
  const float trace = block_sum(reverse.trace, notes.sums), all = block_sum(reverse.all, notes.sums);
  if (threadIdx.x == 0) {
    work.eta[entry] = overlap;
    work.gamma_raw[entry] = powers / gamma * s.gamma_slope(raw);
    work.m[entry] = -(2.0f * trace + powers + all + in.eta[head] * overlap) / m;
  }
  if (is_last_block(ticket, gridDim.x * gridDim.y)) sum_heads(s, work, out);
}

}  // namespace
}  // namespace warpgroup

void groups_backward_on_warpgroups(const RidgeCall& call, const Tensor& dy, const RidgeWorkspace& work,
                                   const RidgeGrads& out, unsigned* ticket) {
  const auto& [stream, s, in, kept, exact] = call;
  const RidgeSinks of_heads{{}, {}, {}, sink_of(out.eta), sink_of(out.gamma_raw)};
  warpgroup::with_numbers(in, exact, [&]<bool is_exact, class T>() {
    launch("ridge_readout_backward", warpgroup::group_backward_kernel<is_exact, T>, call.grid(), warpgroup::threads,
           warpgroup::reverse_bytes, stream, s, kept, warpgroup::tokens_of<T>(s, in.q, s.rank),
           warpgroup::tokens_of<T>(s, dy, s.width), warpgroup::gradient_of<T>(s, out.q, s.rank), work, of_heads,
           ticket);
  });
}

}  // namespace afterglow::device
