// y = x / (|x| + eps) for rows [rows, columns], and dx = dy / (|x| + eps) - x (x . dy) / (|x| (|x| + eps)^2).
// Memory-bound. Grid: a warp a row, or 8 or 16 lanes a short one.
#include <type_traits>

#include "gpu/ops/norm/unit_slope.cuh"
#include "gpu/runtime/kernel.cuh"

namespace afterglow {

using namespace device;

namespace {

/// A row of `lanes` lanes, each of which takes `width` neighbouring numbers at a time and holds the first of them.
template <unsigned lanes, unsigned width>
struct OwnRow {
  using P = Piece<width>;
  unsigned row, first;
  bool inside, holds;
  __device__ OwnRow(unsigned rows, unsigned columns)
      : row((blockIdx.x * threads + threadIdx.x) / lanes),
        first(threadIdx.x % lanes * width),
        inside(row < rows),
        holds(inside && first < columns) {}
  __device__ P held(const Rows<float>& of) const { return P::of(of, row, first, holds); }
  /// Calls visit(column) for the columns that are not held.
  template <class Visit>
  __device__ void each_other(unsigned columns, const Visit& visit) const {
    for (unsigned column = first + lanes * width; inside && column < columns; column += lanes * width) visit(column);
  }
};

template <unsigned lanes, unsigned width>
__global__ void __launch_bounds__(threads)
    unit_norm_kernel(Rows<float> x, unsigned rows, float eps, Rows<float> y, float* norms) {
  wait_for_previous_kernel();
  using P = Piece<width>;
  const OwnRow<lanes, width> own(rows, x.columns);
  const P held = own.held(x);
  float sum = product_of(held, held);
  own.each_other(x.columns, [&](unsigned column) {
    const P other = P::of(x, own.row, column, true);
    sum += product_of(other, other);
  });
  const float norm = sqrtf(sum_of_lanes<lanes>(sum)), inverse = 1.0f / (norm + eps);
  if (own.inside && own.first == 0) norms[own.row] = norm;
  const auto write = [&](unsigned column, P piece) {
    unrolled<width>([&](unsigned e) { piece.v[e] *= inverse; });
    piece.store(&y.at(own.row, column));
  };
  if (own.holds) write(own.first, held);
  own.each_other(x.columns, [&](unsigned column) { write(column, P::of(x, own.row, column, true)); });
}

template <unsigned lanes, unsigned width>
__global__ void __launch_bounds__(threads)
    unit_norm_backward_kernel(Rows<float> x, Rows<float> dy, unsigned rows, float eps, const float* norms, Sink dx) {
  wait_for_previous_kernel();
  using P = Piece<width>;
  const OwnRow<lanes, width> own(rows, x.columns);
  const P held = own.held(x), above = own.held(dy);
  float sum = product_of(held, above);
  own.each_other(x.columns, [&](unsigned column) {
    sum += product_of(P::of(x, own.row, column, true), P::of(dy, own.row, column, true));
  });
  const UnitSlope slope(own.inside ? norms[own.row] : 0.0f, sum_of_lanes<lanes>(sum), eps);
  const auto write = [&](unsigned column, const P& of_x, const P& of_dy) {
    P gradient;
    unrolled<width>([&](unsigned e) { gradient.v[e] = slope.of(of_x.v[e], of_dy.v[e]); });
    gradient.put(dx, own.row, column);
  };
  if (own.holds) write(own.first, held, above);
  own.each_other(x.columns, [&](unsigned column) {
    write(column, P::of(x, own.row, column, true), P::of(dy, own.row, column, true));
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
