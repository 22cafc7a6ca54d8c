// Kernels that have no implementation yet; each goes when its family file arrives.
#include "core/backend/cpu_backend.h"
#include "core/io/error.h"

namespace afterglow {

namespace {
[[noreturn]] void pending() { throw Error(ExitCode::failure, "this kernel is not implemented yet"); }
}  // namespace

void CpuBackend::rms_norm(const Tensor&, const Tensor&, double, const Tensor&, const Tensor&) { pending(); }
void CpuBackend::rms_norm_backward(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Grad&,
                                   const Grad&) {
  pending();
}
void CpuBackend::gated_rms_norm(const Tensor&, const Tensor&, const Tensor&, double, const Tensor&, const Tensor&) {
  pending();
}
void CpuBackend::gated_rms_norm_backward(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                         const Grad&, const Grad&, const Grad&) {
  pending();
}
void CpuBackend::embedding(const Tensor&, const Tensor&, const Tensor&) { pending(); }
void CpuBackend::embedding_backward(const Tensor&, const Tensor&, const Grad&) { pending(); }
void CpuBackend::cross_entropy(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                               const Tensor&) {
  pending();
}
void CpuBackend::cross_entropy_backward(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Grad&) {
  pending();
}
void CpuBackend::rotary(const Tensor&, double, std::int64_t, bool, const Grad&) { pending(); }
void CpuBackend::causal_conv(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&) {
  pending();
}
void CpuBackend::causal_conv_backward(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Grad&,
                                      const Grad&, const Grad&) {
  pending();
}
void CpuBackend::causal_attention(const Tensor&, const Tensor&, const Tensor&, double, const Tensor&, const Tensor&) {
  pending();
}
void CpuBackend::causal_attention_backward(const Tensor&, const Tensor&, const Tensor&, double, const Tensor&,
                                           const Tensor&, const Tensor&, const Grad&, const Grad&, const Grad&) {
  pending();
}
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
void CpuBackend::gradient_norms(const Tensor&, const Tensor&, const Tensor&, const Tensor&) { pending(); }
void CpuBackend::adamw(const AdamwTensors&) { pending(); }
std::int64_t CpuBackend::first_non_finite(const Tensor&) { pending(); }

}  // namespace afterglow
