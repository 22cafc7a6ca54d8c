// Kernels that have no implementation yet; each goes when its family file arrives.
#include "core/backend/cpu_backend.h"
#include "core/io/error.h"

namespace afterglow {

namespace {
[[noreturn]] void pending() { throw Error(ExitCode::failure, "this kernel is not implemented yet"); }
}  // namespace

void CpuBackend::ssd_scan(const ScanInputs&, const Tensor&, const Tensor&, bool) { pending(); }
void CpuBackend::ssd_scan_backward(const ScanInputs&, const Tensor&, const Tensor&, const ScanGrads&) { pending(); }
std::int64_t CpuBackend::ssd_scan_workspace(const ScanInputs&) const { pending(); }
void CpuBackend::ridge_readout(const RidgeConfig&, const RidgeInputs&, const RidgeSaved&, const Tensor&) { pending(); }
void CpuBackend::ridge_readout_backward(const RidgeConfig&, const RidgeInputs&, const RidgeSaved&, const Tensor&,
                                        const Tensor&, const RidgeGrads&) {
  pending();
}
std::int64_t CpuBackend::ridge_readout_workspace(const RidgeConfig&, const RidgeInputs&) const { pending(); }
void CpuBackend::ridge_step(const RidgeConfig&, const RidgeInputs&, const RidgeState&, const RidgeSaved&,
                            const Tensor&) {
  pending();
}
void CpuBackend::koopman_modes(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&) { pending(); }
void CpuBackend::koopman_modes_backward(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                        const Grad&, const Grad&, const Grad&, const Grad&) {
  pending();
}

}  // namespace afterglow
