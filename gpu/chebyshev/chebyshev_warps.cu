// The bfloat16 kernels of Gated KalmaNet's core by single warps, on GPUs without warp groups and for heads
// 32 wide.
#include "gpu/device/warp_products.cuh"

namespace afterglow::device {
namespace units = warp_products;
}

#include "gpu/chebyshev/chebyshev_backward.cuh"
#include "gpu/chebyshev/chebyshev_forward.cuh"
