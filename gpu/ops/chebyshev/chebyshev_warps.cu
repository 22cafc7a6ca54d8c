// The bfloat16 kernels of Gated KalmaNet's core by single warps, on GPUs without warp groups and for heads
// 32 wide.
#include "gpu/tile/warp_products.cuh"

namespace afterglow::device {
namespace units = warp_products;
}

#include "gpu/ops/chebyshev/chebyshev_backward.cuh"
