// The bfloat16 kernels of Gated KalmaNet's core by warp groups.
#include "gpu/device/warpgroup.cuh"

namespace afterglow::device {
namespace units = warpgroup;
}

#include "gpu/chebyshev/chebyshev_backward.cuh"
#include "gpu/chebyshev/chebyshev_forward.cuh"
