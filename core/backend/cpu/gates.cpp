// Gates of recurrent layers on the CPU: the logarithm of a forget gate, and one factor for each row.
#include <cmath>

#include "core/backend/cpu/cpu_backend.h"
#include "core/backend/cpu/segments.h"

namespace afterglow {
namespace {

template <class T>
T softplus_of(T x) {
  return std::max(x, T{0}) + std::log1p(std::exp(-std::abs(x)));
}

}  // namespace

void CpuBackend::route(const Tensor& x, const Tensor& bias, const Router& router, const Tensor& y) {
  for_typed_rows(pool_, x, x.rows(), x.columns(), [&]<class T>(T, std::int64_t row) {
    route_row<T>(router, x.columns(), row_of<T>(x, row), bias.defined() ? bias.as<T>() : nullptr, row_of<T>(y, row));
  });
}

void CpuBackend::route_backward(const Tensor& x, const Router& router, const Tensor& y, const Tensor& dy,
                                const Grad& dx) {
  if (!dx.wanted()) return;
  for_typed_rows(pool_, x, x.rows(), x.columns(), [&]<class T>(T, std::int64_t row) {
    T* out = row_of<T>(dx.tensor, row);
    route_row_backward<T>(router, x.columns(), row_of<T>(x, row), row_of<T>(y, row), row_of<T>(dy, row),
                          [&](std::int64_t e, T slope) { out[e] = dx.accumulate ? out[e] + slope : slope; });
  });
}

void CpuBackend::log_decay(const Tensor& x, const Tensor& A_log, const Tensor& bias, const Tensor& y) {
  const std::int64_t n = x.columns(), sharing = n / A_log.elements();
  for_typed_rows(pool_, y, x.rows(), n, [&]<class T>(T, std::int64_t row) {
    const T* in = row_of<T>(x, row);
    T* out = row_of<T>(y, row);
    for (std::int64_t j = 0; j < n; ++j)
      out[j] = -std::exp(A_log.as<T>()[j / sharing]) * softplus_of(in[j] + bias.as<T>()[j]);
  });
}

void CpuBackend::log_decay_backward(const Tensor& x, const Tensor& A_log, const Tensor& bias, const Tensor& dy,
                                    const Grad& dx, const Grad& dA_log, const Grad& dbias) {
  const std::int64_t n = x.columns(), rates = A_log.elements(), sharing = n / rates;
  with_type(dy, [&]<class T>(T) {
    const auto add_rows = [&](std::int64_t begin, std::int64_t end, T* sums) {
      for (std::int64_t row = begin; row < end; ++row) {
        const T *in = row_of<T>(x, row), *upstream = row_of<T>(dy, row);
        T* out = dx.wanted() ? row_of<T>(dx.tensor, row) : nullptr;
        for (std::int64_t j = 0; j < n; ++j) {
          const T sum = in[j] + bias.as<T>()[j], rate = -std::exp(A_log.as<T>()[j / sharing]);
          const T slope = upstream[j] * rate / (T{1} + std::exp(-sum));
          sums[j / sharing] += upstream[j] * rate * softplus_of(sum);
          sums[rates + j] += slope;
          if (out) out[j] = dx.accumulate ? out[j] + slope : slope;
        }
      }
    };
    sum_over_rows<T>(pool_, x.rows(), rates + n, add_rows, [&](const ArrayMap<T>& total) {
      put_vector<T>(dA_log, total.head(rates));
      put_vector<T>(dbias, total.tail(n));
    });
  });
}

void CpuBackend::multiply_rows(const Tensor& x, const Tensor& factor, double offset, const Tensor& y) {
  for_typed_rows(pool_, x, x.rows(), x.columns(), [&]<class T>(T, std::int64_t row) {
    whole_row<T>(y, row) = whole_row<T>(x, row) * (factor.as<T>()[row] + static_cast<T>(offset));
  });
}

void CpuBackend::multiply_rows_backward(const Tensor& x, const Tensor& factor, double offset, const Tensor& dy,
                                        const Grad& dx, const Grad& dfactor) {
  for_typed_rows(pool_, x, x.rows(), x.columns(), [&]<class T>(T, std::int64_t row) {
    const ArrayMap<T> upstream = whole_row<T>(dy, row);
    put_row<T>(dx, row, upstream * (factor.as<T>()[row] + static_cast<T>(offset)));
    if (!dfactor.wanted()) return;
    put_into(dfactor.tensor.as<T>()[row], (upstream * whole_row<T>(x, row)).sum(), dfactor.accumulate);
  });
}

}  // namespace afterglow
