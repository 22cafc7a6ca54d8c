// Kernels that are not there yet.
#include "core/io/error.h"
#include "gpu/cuda_backend.h"

namespace afterglow {

namespace {

[[noreturn]] void pending(const char* kernel) {
  throw Error(ExitCode::failure, std::string(kernel) + " is not there yet");
}

}  // namespace

void CudaBackend::chebyshev_readout(const ChebyshevConfig&, const ChebyshevInputs&, const ChebyshevSaved&,
                                    const Tensor&) {
  pending("chebyshev_readout");
}
void CudaBackend::chebyshev_readout_backward(const ChebyshevConfig&, const ChebyshevInputs&, const ChebyshevSaved&,
                                             const Tensor&, const Tensor&, const ChebyshevGrads&) {
  pending("chebyshev_readout_backward");
}
std::int64_t CudaBackend::chebyshev_readout_workspace(const ChebyshevConfig&, const ChebyshevInputs&) const {
  pending("chebyshev_readout_workspace");
}
void CudaBackend::chebyshev_step(const ChebyshevConfig&, const ChebyshevInputs&, const ChebyshevState&,
                                 const ChebyshevSaved&, const Tensor&) {
  pending("chebyshev_step");
}
void CudaBackend::trapezoid_scan(const TrapezoidInputs&, const Tensor&, const Tensor&, bool) {
  pending("trapezoid_scan");
}
void CudaBackend::trapezoid_scan_backward(const TrapezoidInputs&, const Tensor&, const Tensor&, const TrapezoidGrads&) {
  pending("trapezoid_scan_backward");
}
std::int64_t CudaBackend::trapezoid_scan_workspace(const TrapezoidInputs&) const {
  pending("trapezoid_scan_workspace");
}

}  // namespace afterglow
