// Projections of a few rows, y[t, n] = sum over k of x[t, k] w[n, k] + bias[n], as decoding token by token has them.
// Memory-bound: a warp reads a row of w once, with several loads of 16 bytes in flight, and multiplies it by all rows
// of x, in float32 arithmetic in every precision. Grid: (eight outputs, projections).
#include <algorithm>

#include "gpu/ops/product/product.cuh"
#include "gpu/runtime/kernel.cuh"

namespace afterglow {

using namespace device;

namespace {

constexpr unsigned max_rows = 4, ahead = 6;  // of x; loads of a lane

struct FewRows {
  Rows<float> w[max_products], y[max_products];
  const float* bias[max_products];
  unsigned outputs[max_products];
};

// `may_read_early`: the weights may be read before the previous kernel has ended.
template <unsigned rows>
__global__ void __launch_bounds__(threads)
    few_rows_kernel(Rows<float> x, unsigned count, const __grid_constant__ FewRows all, bool may_read_early) {
  if (!may_read_early) wait_for_previous_kernel();
  using P = Piece<4>;
  const unsigned which = blockIdx.y, n = blockIdx.x * warps + threadIdx.x / 32, first = threadIdx.x % 32 * 4;
  const bool inside = n < all.outputs[which];
  P w[ahead];
  const auto read = [&](unsigned begin) {
    unrolled<ahead>(
        [&](unsigned k) { w[k] = P::of(all.w[which], n, begin + 128 * k, inside && begin + 128 * k < x.columns); });
  };
  read(first);
  wait_for_previous_kernel();
  float sums[rows] = {};
  for (unsigned begin = first; begin < x.columns; begin += 128 * ahead) {
    if (begin != first) read(begin);
    unrolled<rows, ahead>([&](unsigned t, unsigned k) {
      const unsigned column = begin + 128 * k;
      sums[t] += product_of(w[k], P::of(x, t, column, t < count && column < x.columns));
    });
  }
  unrolled<rows>([&](unsigned t) {
    const float sum = warp_sum(sums[t]), *bias = all.bias[which];
    if (threadIdx.x % 32 == t && t < count && inside) all.y[which].at(t, n) = sum + (bias != nullptr ? bias[n] : 0.0f);
  });
}

}  // namespace

bool few_row_projections(const CudaBackend& backend, const Tensor& x, std::span<const Tensor> weights,
                         std::span<const Tensor> biases, std::span<const Tensor> results) {
  const auto reads = [](const Tensor& matrix) { return matrix.dtype == DType::f32 && in_pieces<4>(rows_of(matrix)); };
  if (x.rows() > max_rows || weights.size() > max_products || x.columns() % 4 != 0 || x.elements() == 0 || !reads(x) ||
      !std::all_of(weights.begin(), weights.end(), reads) || results.front().dtype != DType::f32)
    return false;
  FewRows all{};
  std::int64_t outputs = 0;
  bool are_pinned = true;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    all.w[i] = rows_of(weights[i]);
    all.y[i] = rows_of(results[i]);
    all.bias[i] = i < biases.size() ? biases[i].as<float>() : nullptr;
    all.outputs[i] = unsigned(weights[i].rows());
    outputs = std::max(outputs, weights[i].rows());
    are_pinned = are_pinned && backend.is_pinned(weights[i].as<float>());
  }
  with_either<1u, max_rows>(x.rows() == 1, [&](auto rows) {
    launch(backend, "projections of a few rows", few_rows_kernel<rows>,
           dim3(blocks_for(outputs, warps), unsigned(weights.size())), threads, rows_of(x), unsigned(x.rows()), all,
           are_pinned);
  });
  return true;
}

}  // namespace afterglow
