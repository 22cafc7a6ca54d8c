// The gate of heads on the CPU: x silu(z), with or without RMS norm over each head.
#include <cmath>

#include "core/backend/cpu/cpu_backend.h"
#include "core/backend/cpu/dispatch.h"
#include "core/backend/cpu/segments.h"

namespace afterglow {
namespace {

template <class T>
T silu_slope(T x) {
  const T s = sigmoid(x);
  return s * (T{1} + x * (T{1} - s));
}

}  // namespace

void CpuBackend::gated_heads(const Tensor& x, const Tensor& z, const Tensor& weight, double eps, const Tensor& y,
                             const Tensor& inverse) {
  const std::int64_t heads = x.shape[2], width = x.columns();
  with_type(y, [&]<class T>(T) {
    pool_.for_ranges(z.rows(), row_grain(heads * width), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin * heads; i < end * heads; ++i) {
        const std::int64_t column = i % heads * width;
        const ArrayMap<T> in = whole_row<T>(x, i), gate(row_of<T>(z, i / heads) + column, width);
        ArrayMap<T> out = whole_row<T>(y, i);
        out = in * gate * gate.logistic();
        if (!weight.defined()) continue;
        const T scale = T{1} / std::sqrt(in.square().sum() / static_cast<T>(width) + static_cast<T>(eps));
        inverse.as<T>()[i] = scale;
        out *= scale * constant_row(weight.as<T>() + column % weight.elements(), width);
      }
    });
  });
}

void CpuBackend::gated_heads_backward(const Tensor& x, const Tensor& z, const Tensor& weight, const Tensor& inverse,
                                      const Tensor& dy, const Grad& dx, const Grad& dz, const Grad& dweight) {
  const std::int64_t heads = x.shape[2], width = x.columns();
  const std::int64_t weights = weight.defined() ? weight.elements() : heads * width;
  with_type(dy, [&]<class T>(T) {
    const auto rows = [&](std::int64_t begin, std::int64_t end, T* sums) {
      for (std::int64_t i = begin * heads; i < end * heads; ++i) {
        const std::int64_t row = i / heads, column = i % heads * width;
        const T *in = row_of<T>(x, i), *gate = row_of<T>(z, row) + column, *up = row_of<T>(dy, i);
        const std::int64_t first = column % weights;
        const T* w = weight.defined() ? weight.as<T>() + first : nullptr;
        const T scale = w ? inverse.as<T>()[i] : T{1};
        T pull = 0;
        for (std::int64_t p = 0; w && p < width; ++p) {
          const T to_normed = up[p] * gate[p] * sigmoid(gate[p]);
          pull += to_normed * w[p] * in[p];
          sums[first + p] += to_normed * in[p] * scale;
        }
        pull *= scale * scale * scale / static_cast<T>(width);
        for (std::int64_t p = 0; p < width; ++p) {
          const T factor = w ? w[p] * scale : T{1};
          if (dx.wanted())
            put(row_of<T>(dx.tensor, i) + p, up[p] * gate[p] * sigmoid(gate[p]) * factor - in[p] * pull, dx.accumulate);
          if (dz.wanted())
            put(row_of<T>(dz.tensor, row) + column + p, up[p] * in[p] * factor * silu_slope(gate[p]), dz.accumulate);
        }
      }
    };
    sum_over_rows<T>(pool_, z.rows(), weights, rows, [&](const ArrayMap<T>& total) { put_vector<T>(dweight, total); });
  });
}

}  // namespace afterglow
