// y = x / (|x| + eps) for rows [rows, columns], and dx = dy / (|x| + eps) - x (x . dy) / (|x| (|x| + eps)^2).
// Memory-bound. Grid: a warp a row, or 8 or 16 lanes a short one.
#include <type_traits>

#include "gpu/ops/norm/unit_slope.cuh"
#include "gpu/runtime/kernel.cuh"

namespace afterglow {

using namespace device;

namespace {

/// A row of `lanes` lanes, each of which takes `width` neighbouring numbers at a time.
template <unsigned lanes, unsigned width>
struct OwnRow {
  unsigned row = (blockIdx.x * threads + threadIdx.x) / lanes, rows, columns;
  /// Calls visit(column) for the lane's columns; the second time the numbers are in the cache.
  template <class Visit>
  __device__ void each(const Visit& visit) const {
    for (unsigned column = threadIdx.x % lanes * width; row < rows && column < columns; column += lanes * width)
      visit(column);
  }
  __device__ Piece<width> of(const Rows<float>& from, unsigned column) const {
    return Piece<width>::of(from, row, column, true);
  }
};

template <unsigned lanes, unsigned width>
__global__ void __launch_bounds__(threads)
    unit_norm_kernel(Rows<float> x, unsigned rows, float eps, Rows<float> y, float* norms) {
  wait_for_previous_kernel();
  const OwnRow<lanes, width> own{.rows = rows, .columns = x.columns};
  float sum = 0;
  own.each([&](unsigned column) { sum += product_of(own.of(x, column), own.of(x, column)); });
  const float norm = sqrtf(sum_of_lanes<lanes>(sum)), inverse = 1.0f / (norm + eps);
  if (own.row < rows && threadIdx.x % lanes == 0) norms[own.row] = norm;
  own.each([&](unsigned column) {
    Piece<width> piece = own.of(x, column);
    unrolled<width>([&](unsigned e) { piece.v[e] *= inverse; });
    piece.store(&y.at(own.row, column));
  });
}

template <unsigned lanes, unsigned width>
__global__ void __launch_bounds__(threads)
    unit_norm_backward_kernel(Rows<float> x, Rows<float> dy, unsigned rows, float eps, const float* norms, Sink dx) {
  wait_for_previous_kernel();
  const OwnRow<lanes, width> own{.rows = rows, .columns = x.columns};
  float sum = 0;
  own.each([&](unsigned column) { sum += product_of(own.of(x, column), own.of(dy, column)); });
  const UnitSlope slope(own.row < rows ? norms[own.row] : 0.0f, sum_of_lanes<lanes>(sum), eps);
  own.each([&](unsigned column) {
    const Piece<width> of_x = own.of(x, column), of_dy = own.of(dy, column);
    Piece<width> gradient;
    unrolled<width>([&](unsigned e) { gradient.v[e] = slope.of(of_x.v[e], of_dy.v[e]); });
    gradient.put(dx, own.row, column);
  });
}

/// Calls body with the lanes of a row and the numbers of a lane at a time, as compile-time constants: few lanes for
/// short rows that can be read by fours (`whole`).
template <class Body>
void with_lanes(unsigned columns, bool whole, const Body& body) {
  if (!whole || columns % 4 != 0)
    return body(std::integral_constant<unsigned, 32>(), std::integral_constant<unsigned, 1>());
  with_capacity<8u, 16u, 32u>(columns / 4, [&](auto lanes) { body(lanes, std::integral_constant<unsigned, 4>()); });
}

}  // namespace

void CudaBackend::unit_norm(const Tensor& x, double eps, const Tensor& y, const Tensor& norms) {
  const auto rows = unsigned(x.rows());
  if (rows == 0) return;
  const Rows<float> in = rows_of(x), out = rows_of(y);
  with_lanes(in.columns, in_pieces<4>(in) && in_pieces<4>(out), [&](auto lanes, auto width) {
    launch(*this, "unit_norm", unit_norm_kernel<lanes, width>, blocks_for(rows, threads / lanes), threads, in, rows,
           float(eps), out, norms.as<float>());
  });
}

void CudaBackend::unit_norm_backward(const Tensor& x, double eps, const Tensor& norms, const Tensor& dy,
                                     const Grad& dx) {
  const auto rows = unsigned(x.rows());
  if (rows == 0 || !dx.wanted()) return;
  const Rows<float> in = rows_of(x), above = rows_of(dy);
  const Sink to = sink_of(dx);
  with_lanes(in.columns, in_pieces<4>(in) && in_pieces<4>(above) && in_pieces<4>(to.rows), [&](auto lanes, auto width) {
    launch(*this, "unit_norm_backward", unit_norm_backward_kernel<lanes, width>, blocks_for(rows, threads / lanes),
           threads, in, above, rows, float(eps), norms.as<float>(), to);
  });
}

}  // namespace afterglow
