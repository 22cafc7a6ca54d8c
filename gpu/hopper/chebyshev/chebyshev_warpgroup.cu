// The bfloat16 kernels of Gated KalmaNet's core by warp groups.
#include "gpu/hopper/warpgroup.cuh"

namespace afterglow::device {
namespace units = warpgroup;
}

#include "gpu/ops/chebyshev/chebyshev_backward.cuh"
