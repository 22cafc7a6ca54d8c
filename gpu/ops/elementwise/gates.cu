// Gates of recurrent layers on rows [rows, columns]: the log decay y = -exp(A_log) softplus(x + bias), rows times one
// factor each, and routers. Memory-bound. Grid: an element a thread, or a warp a row for a factor's gradient.
#include "gpu/tile/columns.cuh"
#include "gpu/tile/map.cuh"

namespace afterglow {

using namespace device;

namespace {

/// y = -exp(A_log) softplus(x + bias).
struct DecayInputs {
  Rows<float> x, dy;
  const float *A_log, *bias;
  unsigned sharing;  // columns of a rate
  __device__ float rate(unsigned column) const { return -expf(A_log[column / sharing]); }
  __device__ float slope(std::size_t row, unsigned column) const {
    return dy.at(row, column) * rate(column) * sigmoid(x.at(row, column) + bias[column]);
  }
};

DecayInputs decay_inputs(const Tensor& x, const Tensor& A_log, const Tensor& bias, const Tensor& dy) {
  return {rows_of(x), rows_of(dy), A_log.as<float>(), bias.as<float>(), unsigned(x.columns() / A_log.elements())};
}

void sum_rates(const CudaBackend& backend, const DecayInputs& in, std::int64_t rows, const Grad& dA_log) {
  const std::int64_t columns = in.x.columns;
  float* const of_columns = backend.scratch(std::size_t((max_ranges + 1) * columns)) + max_ranges * columns;
  const Grad to = in.sharing == 1 ? dA_log : Grad{Tensor(of_columns, {columns}, DType::f32), false};
  column_sums(backend, "log_decay_backward", rows, columns, to, [in] __device__(unsigned row, unsigned column) {
    return in.dy.at(row, column) * in.rate(column) * softplus(in.x.at(row, column) + in.bias[column]);
  });
  if (in.sharing == 1) return;
  map_rows(backend, "log_decay_backward", dA_log.tensor.elements(),
           [=, sharing = in.sharing, out = sink_of(dA_log)] __device__(unsigned i, unsigned lane) {
             float sum = 0;
             for (unsigned k = lane; k < sharing; k += 32) sum += of_columns[i * sharing + k];
             sum = warp_sum(sum);
             if (lane == 0) out.put(i, sum);
           });
}

template <class T>
void put_products(const CudaBackend& backend, std::int64_t count, const Rows<T>& x, const float* factor, float offset,
                  const Rows<T>& y) {
  map(backend, "multiply_rows", count,
      [=] __device__(unsigned i) { y[i] = static_cast<T>(float(x[i]) * (factor[i / x.columns] + offset)); });
}

template <class T>
void put_product_slopes(const CudaBackend& backend, const Tensor& x, const float* factor, float offset,
                        const Tensor& dy, const SinkOf<T>& dx, const Sink& dfactor) {
  map_rows(backend, "multiply_rows_backward", x.rows(),
           [=, x = rows_of<const T>(x), dy = rows_of<const T>(dy)] __device__(unsigned row, unsigned lane) {
             float sum = 0;
             for (unsigned column = lane; column < x.columns; column += 32) {
               const auto upstream = float(dy.at(row, column));
               sum += upstream * float(x.at(row, column));
               if (dx.wanted()) dx.put(row, column, upstream * (factor[row] + offset));
             }
             sum = warp_sum(sum);
             if (lane == 0 && dfactor.wanted()) dfactor.put(row, sum);
           });
}

}  // namespace

// One thread computes one row of a router: experts are few next to the width of their matrices.
void CudaBackend::route(const Tensor& x, const Tensor& bias, const Router& router, const Tensor& y) {
  const std::int64_t experts = x.columns();
  map(*this, "route", x.rows(),
      [=, from = x.as<float>(), offset = bias.as<float>(), to = y.as<float>()] __device__(unsigned row) {
        route_row<float>(router, experts, from + row * experts, offset, to + row * experts);
      });
}

void CudaBackend::route_backward(const Tensor& x, const Router& router, const Tensor& y, const Tensor& dy,
                                 const Grad& dx) {
  if (!dx.wanted()) return;
  const std::int64_t experts = x.columns();
  map(*this, "route_backward", x.rows(),
      [=, from = x.as<float>(), given = y.as<float>(), up = dy.as<float>(), to = sink_of(dx)] __device__(unsigned row) {
        const std::size_t at = row * experts;
        route_row_backward<float>(router, experts, from + at, given + at, up + at,
                                  [&](std::int64_t e, float slope) { to.put(row, unsigned(e), slope); });
      });
}

void CudaBackend::log_decay(const Tensor& x, const Tensor& A_log, const Tensor& bias, const Tensor& y) {
  if (x.elements() == 0) return;
  const DecayInputs in = decay_inputs(x, A_log, bias, {});
  map(*this, "log_decay", x.elements(), [in, to = rows_of(y)] __device__(unsigned i) {
    const unsigned row = i / to.columns, column = i % to.columns;
    to.at(row, column) = in.rate(column) * softplus(in.x.at(row, column) + in.bias[column]);
  });
}

void CudaBackend::log_decay_backward(const Tensor& x, const Tensor& A_log, const Tensor& bias, const Tensor& dy,
                                     const Grad& dx, const Grad& dA_log, const Grad& dbias) {
  const DecayInputs in = decay_inputs(x, A_log, bias, dy);
  if (dA_log.wanted() || dbias.wanted()) {
    const SideStream side(*this);
    if (dA_log.wanted()) sum_rates(*this, in, x.rows(), dA_log);
    column_sums(*this, "log_decay_backward", x.rows(), x.columns(), dbias,
                [in] __device__(unsigned row, unsigned column) { return in.slope(row, column); });
  }
  if (dx.wanted())
    map(*this, "log_decay_backward", x.elements(), [in, to = sink_of(dx)] __device__(unsigned i) {
      const unsigned row = i / in.x.columns, column = i % in.x.columns;
      to.put(std::size_t{row}, column, in.slope(row, column));
    });
}

void CudaBackend::multiply_rows(const Tensor& x, const Tensor& factor, double offset, const Tensor& y) {
  with_stored_type(x, [&]<class T>(T) {
    put_products(*this, x.elements(), rows_of<T>(x), factor.as<float>(), float(offset), rows_of<T>(y));
  });
}

void CudaBackend::multiply_rows_backward(const Tensor& x, const Tensor& factor, double offset, const Tensor& dy,
                                         const Grad& dx, const Grad& dfactor) {
  with_stored_type(x, [&]<class T>(T) {
    put_product_slopes(*this, x, factor.as<float>(), float(offset), dy, sink_of<T>(dx), sink_of(dfactor));
  });
}

}  // namespace afterglow
