// Kernels that are not there yet.
#include "core/backend/cpu_backend.h"
#include "core/io/error.h"

namespace afterglow {

namespace {

[[noreturn]] void pending(const char* kernel) {
  throw Error(ExitCode::failure, std::string(kernel) + " is not there yet");
}

}  // namespace

void CpuBackend::chebyshev_readout(const ChebyshevConfig&, const ChebyshevInputs&, const ChebyshevSaved&,
                                   const Tensor&) {
  pending("chebyshev_readout");
}
void CpuBackend::chebyshev_readout_backward(const ChebyshevConfig&, const ChebyshevInputs&, const ChebyshevSaved&,
                                            const Tensor&, const Tensor&, const ChebyshevGrads&) {
  pending("chebyshev_readout_backward");
}
std::int64_t CpuBackend::chebyshev_readout_workspace(const ChebyshevConfig&, const ChebyshevInputs&) const {
  pending("chebyshev_readout_workspace");
}
void CpuBackend::chebyshev_step(const ChebyshevConfig&, const ChebyshevInputs&, const ChebyshevState&,
                                const ChebyshevSaved&, const Tensor&) {
  pending("chebyshev_step");
}

}  // namespace afterglow
