// Projections of a few rows, y[t, n] = sum over k of x[t, k] w[n, k] + bias[n], as decoding token by token has them.
// Memory-bound: a warp reads a row of w once, with several loads of four numbers in flight, and multiplies it by all
// rows of x, in float32 arithmetic in every precision, with the same bits however the numbers of w are stored. Grid:
// (eight outputs, projections).
#include <algorithm>

#include "gpu/ops/product/product.cuh"
#include "gpu/runtime/kernel.cuh"

namespace afterglow {

using namespace device;

namespace {

constexpr unsigned max_rows = 4;  // of x
template <class T>
constexpr unsigned ahead = 24 / sizeof(T);  // loads of a lane in flight

/// T is the stored type of w.
template <class T>
struct FewRows {
  Rows<T> w[max_products];
  Rows<float> y[max_products];
  const float* bias[max_products];
  unsigned outputs[max_products];
};

// `may_read_early`: the weights may be read before the previous kernel has ended.
template <unsigned rows, class T>
__global__ void __launch_bounds__(threads)
    few_rows_kernel(Rows<float> x, unsigned count, const __grid_constant__ FewRows<T> all, bool may_read_early) {
  if (!may_read_early) wait_for_previous_kernel();
  using P = Piece<4>;
  const unsigned which = blockIdx.y, n = blockIdx.x * warps + threadIdx.x / 32, first = threadIdx.x % 32 * 4;
  const bool inside = n < all.outputs[which];
  Stored<T, 4> w[ahead<T>];
  const auto read = [&](unsigned begin) {
    unrolled<ahead<T>>([&](unsigned k) {
      w[k] = Stored<T, 4>::of(all.w[which], n, begin + 128 * k, inside && begin + 128 * k < x.columns);
    });
  };
  read(first);
  wait_for_previous_kernel();
  float sums[rows] = {};
  for (unsigned begin = first; begin < x.columns; begin += 128 * ahead<T>) {
    if (begin != first) read(begin);
    unrolled<rows, ahead<T>>([&](unsigned t, unsigned k) {
      const unsigned column = begin + 128 * k;
      sums[t] += product_of(P::of(w[k]), P::of(x, t, column, t < count && column < x.columns));
    });
  }
  unrolled<rows>([&](unsigned t) {
    const float sum = warp_sum(sums[t]), *bias = all.bias[which];
    if (threadIdx.x % 32 == t && t < count && inside) all.y[which].at(t, n) = sum + (bias != nullptr ? bias[n] : 0.0f);
  });
}

/// Whether rows can be read by fours.
bool in_fours(const Tensor& matrix) {
  return reinterpret_cast<std::uintptr_t>(matrix.data) % (4 * size_of(matrix.dtype)) == 0 && matrix.row_stride % 4 == 0;
}

}  // namespace

bool few_row_projections(const CudaBackend& backend, const Tensor& x, std::span<const Tensor> weights,
                         std::span<const Tensor> biases, std::span<const Tensor> results) {
  const auto reads = [&](const Tensor& weight) { return weight.dtype == weights.front().dtype && in_fours(weight); };
  if (x.rows() > max_rows || weights.size() > max_products || x.columns() % 4 != 0 || x.elements() == 0 ||
      is_narrow(x) || !in_fours(x) || !std::all_of(weights.begin(), weights.end(), reads) || is_narrow(results.front()))
    return false;
  with_stored_type(weights.front(), [&]<class T>(T) {
    FewRows<T> all{};
    std::int64_t outputs = 0;
    bool are_pinned = true;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      all.w[i] = rows_of<T>(weights[i]);
      all.y[i] = rows_of(results[i]);
      all.bias[i] = i < biases.size() ? biases[i].as<float>() : nullptr;
      all.outputs[i] = unsigned(weights[i].rows());
      outputs = std::max(outputs, weights[i].rows());
      are_pinned = are_pinned && backend.is_pinned(weights[i].as<float>());
    }
    with_either<1u, max_rows>(x.rows() == 1, [&](auto rows) {
      launch(backend, "projections of a few rows", few_rows_kernel<rows, T>,
             dim3(blocks_for(outputs, warps), unsigned(weights.size())), threads, rows_of(x), unsigned(x.rows()), all,
             are_pinned);
    });
  });
  return true;
}

}  // namespace afterglow
