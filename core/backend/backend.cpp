// Names of what a device may compute in, and what every back end may compute by other kernels of the list.
#include "core/backend/backend.h"

namespace afterglow {

const char* name_of(Precision precision) {
  static constexpr std::array names{"fp32", "tf32", "bf16"};
  return names[static_cast<std::size_t>(precision)];
}

void linear_backward_by_parts(Backend& backend, const LinearBackward& projections) {
  const auto& [dresults, weights, x, kept, dweights, dbiases, dx] = projections;
  {
    const SideStream side_stream(backend);
    backend.linear_gradients(dresults, x, dweights, dbiases);
  }
  if (dresults.size() > 1) return backend.gemm_sum(dresults, weights, dx);
  if (dx.wanted()) backend.gemm(false, false, 1.0, dresults[0], weights[0], dx.accumulate ? 1.0 : 0.0, dx.tensor);
}

}  // namespace afterglow
