// Division of every row by its length, on the CPU.
#include <cmath>

#include "core/backend/cpu/cpu_backend.h"
#include "core/backend/cpu/segments.h"

namespace afterglow {

void CpuBackend::unit_norm(const Tensor& x, double eps, const Tensor& y, const Tensor& norms) {
  for_typed_rows(pool_, x, x.rows(), x.columns(), [&]<class T>(T, std::int64_t r) {
    const ArrayMap<T> in = whole_row<T>(x, r);
    const T norm = std::sqrt(in.square().sum());
    whole_row<T>(y, r) = in / (norm + static_cast<T>(eps));
    norms.as<T>()[r] = norm;
  });
}

// d|x| = x . dx / |x|, so dx = dy / (|x| + eps) - x (x . dy) / (|x| (|x| + eps)^2).
void CpuBackend::unit_norm_backward(const Tensor& x, double eps, const Tensor& norms, const Tensor& dy,
                                    const Grad& dx) {
  if (!dx.wanted()) return;
  for_typed_rows(pool_, x, x.rows(), x.columns(), [&]<class T>(T, std::int64_t r) {
    const ArrayMap<T> in = whole_row<T>(x, r), upstream = whole_row<T>(dy, r);
    const T norm = norms.as<T>()[r], inverse = T{1} / (norm + static_cast<T>(eps));
    const T pull = norm > T{0} ? (in * upstream).sum() * inverse * inverse / norm : T{0};
    put_row<T>(dx, r, upstream * inverse - in * pull);
  });
}

}  // namespace afterglow
