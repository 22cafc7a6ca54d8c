// The forward pass of every group of the SKA core on warp groups, with the equations and symbols of ridge_readout.cu.
// Matrices are split into halves once, when they are made, and not by every warp that reads them. Grid: (groups, pairs
// of sequence and head).
#include "gpu/hopper/ridge/ridge_warpgroup.cuh"
#include "gpu/ops/ridge/ridge_factor.cuh"

namespace afterglow::device {
namespace warpgroup {
namespace {

constexpr int group_bytes = 3 * HalfMatrix::bytes + int(sizeof(Peaks<1>));

/// One group. Matrices in shared memory: L^-1, A_w and F; during the whitening the memory of A_w and F holds L and its
/// inverse in float32.
template <bool exact>
struct GroupForward {
  RidgeShape s;
  RidgePointers in;
  std::size_t entry;
  Peaks<1>& peaks;
  Scaled inverse, A, F;

  __device__ static float* floats(const Scaled& matrix) { return reinterpret_cast<float*>(matrix.at.memory); }
  __device__ static float4& four(float* matrix, unsigned i) {
    return *reinterpret_cast<float4*>(matrix + Grid<4>::place(int(HeldRows::row(i)), int(HeldRows::column())));
  }

  /// Computes L and L^-1; the number of additions to the diagonal counts as jitter.
  __device__ __forceinline__ void whiten() {
    float *L = floats(A), *full = floats(F);
    HeldRows rows;
    int tries = 0;
    for (; tries < max_tries; ++tries) {
      rows.load_matrix(in.G + entry * s.square(), s.rank, s.rank);
      __syncthreads();
      unrolled<held>([&](unsigned i) {
        four(L, i) = rows.numbers[i];
        four(full, i) = make_float4(0, 0, 0, 0);
      });
      __syncthreads();
      if (factorise_loaded<4, warps>(added_to_diagonal(s.ridge, tries), s.rank, L, full)) break;
    }
    if (threadIdx.x == 0) in.jitter[entry] = float(tries);
    store_factor(L);
    complete_inverse<4>(L, full);
    unrolled<held>([&](unsigned i) { rows.numbers[i] = four(full, i); });
    if (in.inverse != nullptr) rows.store_matrix(in.inverse + entry * s.square(), s.rank, s.rank);
    peaks.put(0, rows.peak());
    __syncthreads();
    const tiles::Scale own = peaks.scale(0);
    rows.store(inverse.at, own.up);
    inverse.down = own.down;
    __syncthreads();  // all threads have read the maxima before the next ones replace them
  }
  __device__ __forceinline__ void store_factor(float* L) const {
    const int column = int(HeldRows::column());
    unrolled<held>([&](unsigned i) {
      const int row = int(HeldRows::row(i));
      const float4 numbers = four(L, i);
      if (row >= s.rank || column >= s.rank) return;
      *reinterpret_cast<float4*>(in.L + entry * s.square() + row * s.rank + column) =
          make_float4(row >= column ? numbers.x : 0.0f, row > column ? numbers.y : 0.0f,
                      row > column + 1 ? numbers.z : 0.0f, row > column + 2 ? numbers.w : 0.0f);
    });
  }
  template <class T>
  __device__ __forceinline__ void load(Scaled& to, const T* from, int rows, int columns, int stride) {
    to.down = load_into(to.at, from, rows, columns, stride, peaks);
  }
  /// A_w = L^-1 M L^-T, and sigma. The memory of F receives A_w in float32.
  __device__ __forceinline__ float whiten_transitions() {
    load(A, in.M + entry * s.square(), s.rank, s.rank, s.rank);
    A.down = multiply_into<true, false, true>(A.at, inverse, A, 1.0f, peaks);
    Accumulators product;
    multiply<true, false, false>(product, A, inverse);
    replace(peaks, A, product);
    store_sums(in.A_w + entry * s.square(), product, s.rank, s.rank, 1.0f);
    float* full = floats(F);
    each_pair(product, [&](int row, int column, float one, float two) {
      *reinterpret_cast<float2*>(full + Grid<4>::place(row, column)) = make_float2(one, two);
    });
    __syncthreads();
    const float sigma = max_singular_value<4>(full, s.rank, s.iterations);
    if (threadIdx.x == 0) in.sigma[entry] = sigma;
    return sigma;
  }
  /// F = C L^-T, then E = gain F (scale A_w)^K L^-1 in its place.
  __device__ __forceinline__ void filter(float scale, float gain) {
    load(F, in.C + entry * s.tall(), s.width, s.rank, s.rank);
    Accumulators product;
    multiply<true, false, false>(product, F, inverse);
    replace(peaks, F, product);
    store_sums(in.F + entry * s.tall(), product, s.width, s.rank, 1.0f);
    for (int k = 0; k < s.power; ++k) F.down = multiply_into<exact, false, true>(F.at, F, A, scale, peaks);
    F.down = multiply_into<true, false, true>(F.at, F, inverse, gain, peaks);
  }
  /// y = q E^T for the queries of the group.
  template <class T>
  __device__ __forceinline__ void answer(const TokenArray<T>& queries, const TokenArray<T>& y, int pair, int first,
                                         int count) {
    load(A, queries.at(s, pair, first), count, s.rank, queries.stride);
    Accumulators product;
    multiply<exact, false, false>(product, A, F);
    T* const to = y.at(s, pair, first);
    each_pair(product, [&](int row, int column, float one, float two) {
      if (row < count && column < s.width) store_two(to + row * y.stride + column, false, one, two);
    });
  }
};

template <bool exact, class T>
__global__ void __launch_bounds__(threads, 4)
    group_kernel(RidgeShape s, RidgePointers in, TokenArray<T> queries, TokenArray<T> y) {
  wait_for_previous_kernel();
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& peaks = *reinterpret_cast<Peaks<1>*>(memory + 3 * HalfMatrix::bytes);
  const int g = int(blockIdx.x), pair = int(blockIdx.y), head = pair % s.heads;
  const int first = s.first(g), count = s.count(g);
  const std::size_t entry = std::size_t(pair) * s.groups + g;
  const auto matrix = [&](int i) { return Scaled{{memory + i * HalfMatrix::bytes}, 1.0f}; };
  GroupForward<exact> group{s, in, entry, peaks, matrix(0), matrix(1), matrix(2)};
  group.whiten();
  const float sigma = group.whiten_transitions();
  group.filter(s.gamma(in.gamma_raw[head]) / fmaxf(sigma, 1.0f), in.eta[head] / in.m[entry]);
  group.answer(queries, y, pair, first, count);
}

}  // namespace
}  // namespace warpgroup

void groups_on_warpgroups(const RidgeCall& call, const Tensor& y) {
  const auto& [stream, s, in, kept, exact] = call;
  warpgroup::with_numbers(in, exact, [&]<bool is_exact, class T>() {
    launch("ridge_readout", warpgroup::group_kernel<is_exact, T>, call.grid(), warpgroup::threads,
           warpgroup::group_bytes, stream, s, kept, warpgroup::tokens_of<T>(s, in.q, s.rank),
           warpgroup::tokens_of<T>(s, y, s.width));
  });
}

}  // namespace afterglow::device
