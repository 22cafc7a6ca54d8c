// y = f(x), alpha x, a b, silu(a) b, x + bias, and sums over rows, on rows [rows, columns] with any stride.
// Memory-bound: each element is read and written once. Grid: an element or a vector of 16 bytes a thread (map.cuh).
#include <cuda_bf16.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "core/backend/element_type.h"
#include "gpu/ops/elementwise/step_sizes.cuh"
#include "gpu/ops/product/product.cuh"
#include "gpu/tile/columns.cuh"
#include "gpu/tile/map.cuh"

namespace afterglow {

using namespace device;

namespace {

__device__ float apply(Unary kind, float x) {
  switch (kind) {
    case Unary::silu:
      return silu(x);
    case Unary::sigmoid:
      return sigmoid(x);
    case Unary::softplus:
      return softplus(x);
    case Unary::tanh:
      return tanhf(x);
    case Unary::gelu:
      return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
    case Unary::exp:
      return expf(x);
    case Unary::relu:
      return fmaxf(x, 0.0f);
    case Unary::elu_plus_one:
      return x > 0.0f ? x + 1.0f : expf(x);
    case Unary::sine:
      return sinf(x);
  }
  return x;
}

__device__ float slope(Unary kind, float x, float y) {
  switch (kind) {
    case Unary::silu:
      return silu_slope(x);
    case Unary::sigmoid:
      return y * (1.0f - y);
    case Unary::softplus:
      return sigmoid(x);
    case Unary::tanh:
      return 1.0f - y * y;
    case Unary::gelu:
      return 0.5f * (1.0f + erff(x * 0.70710678118654752f)) + x * 0.39894228040143268f * expf(-0.5f * x * x);
    case Unary::exp:
      return y;
    case Unary::relu:
      return x > 0.0f ? 1.0f : 0.0f;
    case Unary::elu_plus_one:
      return fminf(y, 1.0f);
    case Unary::sine:
      return cosf(x);
  }
  return 1.0f;
}

/// T is the stored type; y may be x.
template <class T>
void put_biased(const CudaBackend& backend, const Tensor& x, const float* bias, const Tensor& y) {
  const auto from = rows_of<T>(x), to = rows_of<T>(y);
  map(backend, "add_bias", x.elements(),
      [=] __device__(unsigned i) { to[i] = static_cast<T>(float(from[i]) + bias[i % from.columns]); });
}

template <class T>
struct Matrices {
  Rows<T> of[max_column_sums];
  __device__ float operator()(unsigned which, unsigned row, unsigned column) const {
    return float(of[which].at(row, column));
  }
};

/// Calls body with the number of neighbours of a row that a thread takes, as a compile-time constant: 16 bytes if all
/// rows can be read so.
template <class T, class Body>
void with_neighbours(std::initializer_list<Rows<T>> matrices, const Body& body) {
  constexpr unsigned width = max_piece<T>;
  const bool whole = std::all_of(matrices.begin(), matrices.end(), [](const Rows<T>& rows) {
    return rows.data == nullptr || (rows.columns % width == 0 && in_pieces<width>(rows));
  });
  with_either<width, 1u>(whole, body);
}

/// y = silu(gate) value; T is the stored type.
template <unsigned width, class T>
void put_gated(const CudaBackend& backend, std::int64_t count, const Rows<T>& gate, const Rows<T>& value,
               const Rows<T>& y) {
  using P = Piece<width>;
  map(backend, "silu_multiply", count / width, [=, across = gate.columns / width] __device__(unsigned i) {
    const unsigned row = i / across, column = i % across * width;
    const P g = P::of(gate, row, column, true), v = P::of(value, row, column, true);
    P result;
    unrolled<width>([&](unsigned e) { result.v[e] = silu<T>(g.v[e]) * v.v[e]; });
    result.store(&y.at(row, column));
  });
}

template <unsigned width, class T>
void put_gated_slopes(const CudaBackend& backend, std::int64_t count, const Rows<T>& gate, const Rows<T>& value,
                      const Rows<T>& dy, const SinkOf<T>& to_gate, const SinkOf<T>& to_value) {
  using P = Piece<width>;
  map(backend, "silu_multiply_backward", count / width, [=, across = gate.columns / width] __device__(unsigned i) {
    const unsigned row = i / across, column = i % across * width;
    const P g = P::of(gate, row, column, true), v = P::of(value, row, column, true), up = P::of(dy, row, column, true);
    P dgate, dvalue;
    unrolled<width>([&](unsigned e) {
      const Silu gated = silu_with_slope<T>(g.v[e]);
      dgate.v[e] = up.v[e] * v.v[e] * gated.slope;
      dvalue.v[e] = up.v[e] * gated.value;
    });
    if (to_gate.wanted()) dgate.put(to_gate, row, column);
    if (to_value.wanted()) dvalue.put(to_value, row, column);
  });
}

template <class T>
void put_scaled(const CudaBackend& backend, const Tensor& a, float factor, const Grad& out) {
  const auto x = rows_of<T>(a);
  const SinkOf<T> to = sink_of<T>(out);
  map(backend, "scale", a.elements(), [=] __device__(unsigned i) { to.put(i, factor * float(x[i])); });
}

template <class T>
void put_products(const CudaBackend& backend, const Tensor& a, const Tensor& b, const Tensor& out) {
  const auto x = rows_of<T>(a), y = rows_of<T>(b), to = rows_of<T>(out);
  map(backend, "multiply", a.elements(),
      [=] __device__(unsigned i) { to[i] = static_cast<T>(float(x[i]) * float(y[i])); });
}

template <class T>
void put_product_slopes(const CudaBackend& backend, const Tensor& a, const Tensor& b, const Tensor& dout,
                        const Grad& da, const Grad& db) {
  const auto x = rows_of<T>(a), y = rows_of<T>(b), dy = rows_of<T>(dout);
  const SinkOf<T> to_a = sink_of<T>(da), to_b = sink_of<T>(db);
  map(backend, "multiply_backward", a.elements(), [=] __device__(unsigned i) {
    const auto up = float(dy[i]), left = float(x[i]), right = float(y[i]);
    if (to_a.wanted()) to_a.put(i, up * right);
    if (to_b.wanted()) to_b.put(i, up * left);
  });
}

template <class T>
void put_unary(const CudaBackend& backend, Unary kind, const Tensor& x, const Tensor& y) {
  const auto from = rows_of<T>(x);
  const auto to = rows_of(y);
  map(backend, "unary", x.elements(), [=] __device__(unsigned i) { to[i] = apply(kind, float(from[i])); });
}

template <class T>
void put_unary_slopes(const CudaBackend& backend, Unary kind, const Tensor& x, const Tensor& y, const Tensor& dy,
                      const Grad& dx) {
  const auto in = rows_of<T>(x);
  const auto result = rows_of(y), up = rows_of(dy);
  const SinkOf<T> to = sink_of<T>(dx);
  map(backend, "unary_backward", x.elements(),
      [=] __device__(unsigned i) { to.put(i, up[i] * slope(kind, float(in[i]), result[i])); });
}

template <class T>
void fill_with(const CudaBackend& backend, const Tensor& x, double value) {
  const auto to = rows_of<T>(x);
  map(backend, "fill", x.elements(), [to, value = static_cast<T>(value)] __device__(unsigned i) { to[i] = value; });
}

void round_numbers(const CudaBackend& backend, std::int64_t count, const Rows<float>& from, Bf16* to) {
  map(backend, "rounding to bfloat16", count, [=] __device__(unsigned i) { to[i] = __float2bfloat16_rn(from[i]); });
}

/// `count` numbers, whole vectors of eight.
void widen(const CudaBackend& backend, const Bf16* from, float* to, std::int64_t count) {
  map(backend, "widening weights", count / 8,
      [=] __device__(unsigned i) { Piece<8>::of(from + std::size_t{8} * i, true).store(to + std::size_t{8} * i); });
}

}  // namespace

void CudaBackend::fill(const Tensor& x, double value) {
  const bool is_beyond_kernels = x.elements() >= std::int64_t{1} << 32;  // all weights of a large model
  if (is_beyond_kernels && x.contiguous() && value == 0.0)
    return check_cuda(cudaMemsetAsync(x.data, 0, x.bytes(), stream()), "clearing memory");
  if (x.dtype == DType::bf16) {
    fill_with<Bf16>(*this, x, value);
  } else {
    with_element_type(x.dtype, [&](auto zero) { fill_with<decltype(zero)>(*this, x, value); });
  }
}

void CudaBackend::round_to_bf16(const Tensor& matrix, void* to) {
  round_numbers(*this, matrix.elements(), rows_of(matrix), static_cast<Bf16*>(to));
}

std::vector<Tensor> CudaBackend::widened(std::span<const Tensor> weights) {
  std::vector<Tensor> wide(weights.begin(), weights.end());
  std::size_t numbers = 0;
  for (const Tensor& weight : weights) numbers += is_narrow(weight) ? std::size_t(weight.elements()) : 0;
  auto* next = static_cast<float*>(grown(wide_weights_, numbers * sizeof(float)));
  for (Tensor& weight : wide) {
    if (!is_narrow(weight)) continue;
    const auto* from = weight.as<Bf16>();
    weight = Tensor(std::exchange(next, next + weight.elements()), weight.shape, DType::f32);
    widen(*this, from, weight.as<float>(), weight.elements());
  }
  return wide;
}

void CudaBackend::copy(const Tensor& destination, const Tensor& source) {
  const std::size_t element = size_of(source.dtype);
  const std::size_t width = std::size_t(source.columns()) * element;
  if (source.elements() == 0) return;
  if (source.contiguous() && destination.contiguous()) {
    check_cuda(cudaMemcpyAsync(destination.data, source.data, source.bytes(), cudaMemcpyDeviceToDevice, stream()),
               "copying on the GPU");
    return;
  }
  check_cuda(cudaMemcpy2DAsync(destination.data, std::size_t(destination.row_stride) * element, source.data,
                               std::size_t(source.row_stride) * element, width, std::size_t(source.rows()),
                               cudaMemcpyDeviceToDevice, stream()),
             "copying on the GPU");
}

void CudaBackend::accumulate(const Tensor& source, const Grad& destination) { scale(source, 1.0, destination); }

void CudaBackend::add(const Tensor& a, const Tensor& b, const Tensor& out) {
  const auto x = rows_of(a), y = rows_of(b), to = rows_of(out);
  map(*this, "add", a.elements(), [=] __device__(unsigned i) { to[i] = x[i] + y[i]; });
}

void CudaBackend::scale(const Tensor& a, double factor, const Grad& out) {
  if (!out.wanted()) return;
  with_stored_type(a, [&]<class T>(T) { put_scaled<T>(*this, a, float(factor), out); });
}

void CudaBackend::multiply(const Tensor& a, const Tensor& b, const Tensor& out) {
  with_stored_type(a, [&]<class T>(T) { put_products<T>(*this, a, b, out); });
}

void CudaBackend::multiply_backward(const Tensor& a, const Tensor& b, const Tensor& dout, const Grad& da,
                                    const Grad& db) {
  with_stored_type(a, [&]<class T>(T) { put_product_slopes<T>(*this, a, b, dout, da, db); });
}

void CudaBackend::unary(Unary kind, const Tensor& x, const Tensor& y) {
  with_stored_type(x, [&]<class T>(T) { put_unary<T>(*this, kind, x, y); });
}

void CudaBackend::unary_backward(Unary kind, const Tensor& x, const Tensor& y, const Tensor& dy, const Grad& dx) {
  if (!dx.wanted()) return;
  with_stored_type(x, [&]<class T>(T) { put_unary_slopes<T>(*this, kind, x, y, dy, dx); });
}

void CudaBackend::log_sigmoid(const Tensor& x, double factor, const Tensor& y) {
  const auto from = rows_of(x), to = rows_of(y);
  map(*this, "log_sigmoid", x.elements(),
      [=, f = float(factor)] __device__(unsigned i) { to[i] = -f * softplus(-from[i]); });
}

void CudaBackend::log_sigmoid_backward(const Tensor& x, double factor, const Tensor& dy, const Grad& dx) {
  if (!dx.wanted()) return;
  const auto from = rows_of(x), up = rows_of(dy);
  const Sink to = sink_of(dx);
  map(*this, "log_sigmoid_backward", x.elements(),
      [=, f = float(factor)] __device__(unsigned i) { to.put(i, f * up[i] * sigmoid(-from[i])); });
}

void CudaBackend::silu_multiply(const Tensor& a, const Tensor& b, const Tensor& y) {
  with_stored_type(a, [&]<class T>(T) {
    const auto gate = rows_of<T>(a), value = rows_of<T>(b), to = rows_of<T>(y);
    with_neighbours<T>({gate, value, to},
                       [&](auto width) { put_gated<width()>(*this, a.elements(), gate, value, to); });
  });
}

void CudaBackend::silu_multiply_backward(const Tensor& a, const Tensor& b, const Tensor& dout, const Grad& da,
                                         const Grad& db) {
  with_stored_type(a, [&]<class T>(T) {
    const auto gate = rows_of<T>(a), value = rows_of<T>(b), dy = rows_of<T>(dout);
    const auto to_gate = sink_of<T>(da), to_value = sink_of<T>(db);
    with_neighbours<T>({gate, value, dy, to_gate.rows, to_value.rows}, [&](auto width) {
      put_gated_slopes<width()>(*this, a.elements(), gate, value, dy, to_gate, to_value);
    });
  });
}

void CudaBackend::softplus_bias(const Tensor& x, const Tensor& bias, const StepRange& range, const Tensor& y) {
  with_stored_type(x, [&]<class T>(T) {
    map(*this, "softplus_bias", y.elements(), PutSizes<T>{StepSize<T>({x, bias, range}), rows_of(y)});
  });
}

void CudaBackend::softplus_bias_backward(const Tensor& x, const Tensor& bias, const StepRange& range, const Tensor& dy,
                                         const Grad& dx, const Grad& dbias) {
  with_stored_type(x, [&]<class T>(T) {
    const StepSlope<T> slope({x, bias, range}, dy);
    if (dbias.wanted()) {
      const SideStream side(*this);
      column_sums(*this, "softplus_bias_backward", x.rows(), x.columns(), dbias, slope);
    }
    if (dx.wanted()) map(*this, "softplus_bias_backward", x.elements(), PutSlopes<T>{slope, sink_of<T>(dx)});
  });
}

void CudaBackend::add_bias(const Tensor& x, const Tensor& bias, const Tensor& y) {
  with_stored_type(x, [&]<class T>(T) { put_biased<T>(*this, x, bias.as<float>(), y); });
}

void CudaBackend::add_biases(std::span<const Tensor> biases, std::span<const Tensor> results) {
  for (std::size_t i = 0; i < biases.size(); ++i) {
    if (biases[i].defined()) add_bias(results[i], biases[i], results[i]);
  }
}

void CudaBackend::sum_rows(const Tensor& x, const Grad& out) { sum_rows_each({&x, 1}, {&out, 1}); }

void CudaBackend::sum_rows_each(std::span<const Tensor> x, std::span<const Grad> out) {
  if (x.empty()) return;
  with_stored_type(x.front(), [&](auto stored) {
    ColumnSums sums;
    Matrices<decltype(stored)> from;
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (out[i].wanted()) from.of[sums.count] = rows_of<decltype(stored)>(x[i]);
      sums.add(x[i].columns(), out[i]);
    }
    column_sums_each(*this, "sum_rows", x.front().rows(), sums, from);
  });
}

}  // namespace afterglow
