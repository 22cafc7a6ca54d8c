// Kernels that have no implementation yet; each goes when its family file arrives.
#include "core/backend/cpu_backend.h"
#include "core/io/error.h"

namespace afterglow {

namespace {
[[noreturn]] void pending() { throw Error(ExitCode::failure, "this kernel is not implemented yet"); }
}  // namespace

void CpuBackend::koopman_modes(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&) { pending(); }
void CpuBackend::koopman_modes_backward(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                        const Grad&, const Grad&, const Grad&, const Grad&) {
  pending();
}

}  // namespace afterglow
