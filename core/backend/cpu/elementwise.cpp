// Elementwise kernels of the CPU back end. Where one tensor is passed as two inputs its two gradients share memory, so
// every gradient of a segment is complete before the next one begins.
#include <cmath>
#include <numbers>

#include "core/backend/cpu/cpu_backend.h"
#include "core/backend/cpu/segments.h"
#include "core/backend/element_type.h"

namespace afterglow {
namespace {

template <class T, class X>
auto softplus_of(const X& x) {
  return x.cwiseMax(T{0}) + (-x.abs()).exp().log1p();
}

template <class T>
T gelu_of(T x) {
  return T{0.5} * x * (T{1} + std::erf(x * static_cast<T>(1.0 / std::numbers::sqrt2)));
}
template <class T>
T gelu_slope(T x) {
  const T density = std::exp(T{-0.5} * x * x) * static_cast<T>(0.5 * std::numbers::inv_sqrtpi * std::numbers::sqrt2);
  return T{0.5} * (T{1} + std::erf(x * static_cast<T>(1.0 / std::numbers::sqrt2))) + x * density;
}

template <class T>
void unary_segment(Unary kind, const ArrayMap<T>& x, ArrayMap<T> y) {
  if (kind == Unary::silu) y = x * x.logistic();
  if (kind == Unary::sigmoid) y = x.logistic();
  if (kind == Unary::softplus) y = softplus_of<T>(x);
  if (kind == Unary::tanh) y = x.tanh();
  if (kind == Unary::gelu) y = x.unaryExpr(&gelu_of<T>);
  if (kind == Unary::exp) y = x.exp();
  if (kind == Unary::relu) y = x.cwiseMax(T{0});
  if (kind == Unary::elu_plus_one) y = x.cwiseMax(T{0}) + x.cwiseMin(T{0}).exp();
  if (kind == Unary::sine) y = x.sin();
}

template <class T>
Tile<T> unary_slope(Unary kind, const ArrayMap<T>& x, const ArrayMap<T>& y) {
  if (kind == Unary::silu) {
    Tile<T> s = x.logistic();
    s = s * (T{1} + x * (T{1} - s));
    return s;
  }
  if (kind == Unary::sigmoid) return y * (T{1} - y);
  if (kind == Unary::softplus) return x.logistic();
  if (kind == Unary::tanh) return T{1} - y.square();
  if (kind == Unary::gelu) return x.unaryExpr(&gelu_slope<T>);
  if (kind == Unary::exp) return y;
  if (kind == Unary::relu) return (x > T{0}).template cast<T>();
  if (kind == Unary::elu_plus_one) return y.cwiseMin(T{1});
  return x.cos();  // sine
}

}  // namespace

void CpuBackend::fill(const Tensor& x, double value) {
  with_element_type(x.dtype, [&]<class T>(T) {
    for_segments(pool_, {x}, [&](const Segment& s) { part<T>(x, s) = static_cast<T>(value); });
  });
}

void CpuBackend::copy(const Tensor& destination, const Tensor& source) {
  with_element_type(source.dtype, [&]<class T>(T) {
    for_segments(pool_, {destination, source}, [&](const Segment& s) { part<T>(destination, s) = part<T>(source, s); });
  });
}

void CpuBackend::accumulate(const Tensor& source, const Grad& destination) {
  if (!destination.wanted()) return;
  for_typed_segments(pool_, {source, destination.tensor},
                     [&]<class T>(T, const Segment& s) { put<T>(destination, s, part<T>(source, s)); });
}

void CpuBackend::add(const Tensor& a, const Tensor& b, const Tensor& out) {
  for_typed_segments(pool_, {out, a, b},
                     [&]<class T>(T, const Segment& s) { part<T>(out, s) = part<T>(a, s) + part<T>(b, s); });
}

void CpuBackend::scale(const Tensor& a, double factor, const Grad& out) {
  if (!out.wanted()) return;
  for_typed_segments(pool_, {a, out.tensor},
                     [&]<class T>(T, const Segment& s) { put<T>(out, s, static_cast<T>(factor) * part<T>(a, s)); });
}

void CpuBackend::log_sigmoid(const Tensor& x, double factor, const Tensor& y) {
  for_typed_segments(pool_, {x, y}, [&]<class T>(T, const Segment& s) {
    const Tile<T> opposite = -part<T>(x, s);
    part<T>(y, s) = static_cast<T>(-factor) * softplus_of<T>(opposite);
  });
}

void CpuBackend::log_sigmoid_backward(const Tensor& x, double factor, const Tensor& dy, const Grad& dx) {
  if (!dx.wanted()) return;
  for_typed_segments(pool_, {x, dy, dx.tensor}, [&]<class T>(T, const Segment& s) {
    const Tile<T> opposite = -part<T>(x, s);
    put<T>(dx, s, static_cast<T>(factor) * part<T>(dy, s) * opposite.logistic());
  });
}

void CpuBackend::multiply(const Tensor& a, const Tensor& b, const Tensor& out) {
  for_typed_segments(pool_, {out, a, b},
                     [&]<class T>(T, const Segment& s) { part<T>(out, s) = part<T>(a, s) * part<T>(b, s); });
}

void CpuBackend::multiply_backward(const Tensor& a, const Tensor& b, const Tensor& dout, const Grad& da,
                                   const Grad& db) {
  for_typed_segments(pool_, {dout, a, b, da.tensor, db.tensor}, [&]<class T>(T, const Segment& s) {
    put<T>(da, s, part<T>(dout, s) * part<T>(b, s));
    put<T>(db, s, part<T>(dout, s) * part<T>(a, s));
  });
}

void CpuBackend::unary(Unary kind, const Tensor& x, const Tensor& y) {
  for_typed_segments(pool_, {y, x},
                     [&]<class T>(T, const Segment& s) { unary_segment<T>(kind, part<T>(x, s), part<T>(y, s)); });
}

void CpuBackend::unary_backward(Unary kind, const Tensor& x, const Tensor& y, const Tensor& dy, const Grad& dx) {
  if (!dx.wanted()) return;
  for_typed_segments(pool_, {y, x, dy, dx.tensor}, [&]<class T>(T, const Segment& s) {
    put<T>(dx, s, part<T>(dy, s) * unary_slope<T>(kind, part<T>(x, s), part<T>(y, s)));
  });
}

void CpuBackend::silu_multiply(const Tensor& a, const Tensor& b, const Tensor& y) {
  for_typed_segments(pool_, {y, a, b}, [&]<class T>(T, const Segment& s) {
    const ArrayMap<T> gate = part<T>(a, s);
    part<T>(y, s) = gate * gate.logistic() * part<T>(b, s);
  });
}

void CpuBackend::silu_multiply_backward(const Tensor& a, const Tensor& b, const Tensor& dy, const Grad& da,
                                        const Grad& db) {
  for_typed_segments(pool_, {dy, a, b, da.tensor, db.tensor}, [&]<class T>(T, const Segment& s) {
    const ArrayMap<T> gate = part<T>(a, s), upstream = part<T>(dy, s);
    const Tile<T> sigma = gate.logistic();
    put<T>(da, s, upstream * part<T>(b, s) * sigma * (T{1} + gate * (T{1} - sigma)));
    put<T>(db, s, upstream * gate * sigma);
  });
}

void CpuBackend::softplus_bias(const Tensor& x, const Tensor& bias, const StepRange& range, const Tensor& y) {
  for_typed_row_segments(pool_, y, x.rows(), x.columns(), [&]<class T>(T, const Segment& s) {
    const Tile<T> sum = part<T>(x, s) + columns_of<T>(bias, s);
    part<T>(y, s) = softplus_of<T>(sum).cwiseMax(static_cast<T>(range.least)).cwiseMin(static_cast<T>(range.most));
  });
}

void CpuBackend::softplus_bias_backward(const Tensor& x, const Tensor& bias, const StepRange& range, const Tensor& dy,
                                        const Grad& dx, const Grad& dbias) {
  with_type(dy, [&]<class T>(T) {
    const auto rows = [&](std::int64_t begin, std::int64_t end, T* sums) {
      for (std::int64_t row = begin; row < end; ++row) {
        for (std::int64_t column = 0; column < x.columns(); column += segment_length) {
          const Segment s{row, column, std::min(segment_length, x.columns() - column)};
          const Tile<T> sum = part<T>(x, s) + columns_of<T>(bias, s);
          Tile<T> slope = part<T>(dy, s) * sum.logistic();
          if (range.least > 0) slope = (softplus_of<T>(sum) < static_cast<T>(range.least)).select(T{0}, slope);
          if (std::isfinite(range.most)) slope = (softplus_of<T>(sum) > static_cast<T>(range.most)).select(T{0}, slope);
          put<T>(dx, s, slope);
          ArrayMap<T>(sums + s.column, s.count) += slope;
        }
      }
    };
    sum_over_rows<T>(pool_, x.rows(), x.columns(), rows,
                     [&](const ArrayMap<T>& total) { put_vector<T>(dbias, total); });
  });
}

void CpuBackend::add_bias(const Tensor& x, const Tensor& bias, const Tensor& y) {
  for_typed_row_segments(pool_, y, x.rows(), x.columns(),
                         [&]<class T>(T, const Segment& s) { part<T>(y, s) = part<T>(x, s) + columns_of<T>(bias, s); });
}

void CpuBackend::sum_rows(const Tensor& x, const Grad& out) {
  if (!out.wanted()) return;
  with_type(x, [&]<class T>(T) {
    const auto rows = [&](std::int64_t begin, std::int64_t end, T* sums) {
      ArrayMap<T> total(sums, x.columns());
      for (std::int64_t row = begin; row < end; ++row) total += ArrayMap<T>(row_of<T>(x, row), x.columns());
    };
    sum_over_rows<T>(pool_, x.rows(), x.columns(), rows, [&](const ArrayMap<T>& total) { put_vector<T>(out, total); });
  });
}

}  // namespace afterglow
