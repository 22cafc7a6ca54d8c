// The Koopman MLP's core: SiLU, damped rotations of pairs, optional gate. Bound by memory.
#include "gpu/cuda_backend.h"
#include "gpu/device/device.cuh"
#include "gpu/device/launch.cuh"

namespace afterglow {

using namespace device;

namespace {

constexpr unsigned pairs_per_block = 32, row_groups = threads / pairs_per_block, max_ranges = 64;

struct ModeInputs {
  Rows<float> lifted, gate, dz;
  const float *gamma, *omega;
  unsigned rows, pairs;
};

/// A mode's multiplier, pulled back onto the unit circle when it lies outside.
struct Mode {
  float gamma, omega, shrink;
  __device__ Mode(const ModeInputs& in, unsigned pair) : gamma(in.gamma[pair]), omega(in.omega[pair]) {
    const float modulus = sqrtf(gamma * gamma + omega * omega);
    shrink = modulus > 1.0f ? 1.0f / modulus : 1.0f;
    gamma *= shrink;
    omega *= shrink;
  }
};

__global__ void __launch_bounds__(threads) modes_kernel(ModeInputs in, Rows<float> z) {
  await_previous();
  const unsigned pair = blockIdx.y * pairs_per_block + threadIdx.x % pairs_per_block;
  const unsigned row = blockIdx.x * row_groups + threadIdx.x / pairs_per_block;
  if (pair >= in.pairs || row >= in.rows) return;
  const Mode mode(in, pair);
  const float u0 = silu(in.lifted.at(row, 2 * pair)), u1 = silu(in.lifted.at(row, 2 * pair + 1));
  float z0 = mode.gamma * u0 + mode.omega * u1, z1 = mode.gamma * u1 - mode.omega * u0;
  if (in.gate.data != nullptr) {
    z0 *= sigmoid(in.gate.at(row, 2 * pair));
    z1 *= sigmoid(in.gate.at(row, 2 * pair + 1));
  }
  z.at(row, 2 * pair) = z0;
  z.at(row, 2 * pair + 1) = z1;
}

struct ModeSinks {
  Sink lifted, gamma, omega, gate;
};

// One row of one pair; adds to the gradients of the (shrunk) multiplier.
__device__ void mode_backward(const ModeInputs& in, const Mode& mode, unsigned row, unsigned pair, const ModeSinks& out,
                              float& dgamma, float& domega) {
  const float x0 = in.lifted.at(row, 2 * pair), x1 = in.lifted.at(row, 2 * pair + 1);
  const float u0 = silu(x0), u1 = silu(x1);
  float d0 = in.dz.at(row, 2 * pair), d1 = in.dz.at(row, 2 * pair + 1);
  if (in.gate.data != nullptr) {
    const float g0 = sigmoid(in.gate.at(row, 2 * pair)), g1 = sigmoid(in.gate.at(row, 2 * pair + 1));
    if (out.gate.wanted()) {
      out.gate.put(row, 2 * pair, d0 * (mode.gamma * u0 + mode.omega * u1) * g0 * (1.0f - g0));
      out.gate.put(row, 2 * pair + 1, d1 * (mode.gamma * u1 - mode.omega * u0) * g1 * (1.0f - g1));
    }
    d0 *= g0;
    d1 *= g1;
  }
  dgamma += d0 * u0 + d1 * u1;
  domega += d0 * u1 - d1 * u0;
  if (out.lifted.wanted()) {
    out.lifted.put(row, 2 * pair, (mode.gamma * d0 - mode.omega * d1) * silu_slope(x0));
    out.lifted.put(row, 2 * pair + 1, (mode.omega * d0 + mode.gamma * d1) * silu_slope(x1));
  }
}

__global__ void __launch_bounds__(threads)
    modes_backward_kernel(ModeInputs in, float* partials, unsigned* tickets, ModeSinks out) {
  await_previous();
  __shared__ float sums[2][threads];
  const unsigned lane = threadIdx.x % pairs_per_block, group = threadIdx.x / pairs_per_block;
  const unsigned first = blockIdx.x * pairs_per_block, pair = first + lane;
  float dgamma = 0, domega = 0;
  if (pair < in.pairs) {
    const Mode mode(in, pair);
    for (unsigned row = blockIdx.y * row_groups + group; row < in.rows; row += gridDim.y * row_groups) {
      mode_backward(in, mode, row, pair, out, dgamma, domega);
    }
  }
  if (!out.gamma.wanted() && !out.omega.wanted()) return;
  sums[0][threadIdx.x] = dgamma;
  sums[1][threadIdx.x] = domega;
  __syncthreads();
  if (group < 2 && pair < in.pairs) {
    float sum = 0;
    for (unsigned other = 0; other < row_groups; ++other) sum += sums[group][other * pairs_per_block + lane];
    partials[(blockIdx.y * std::size_t{2} + group) * in.pairs + pair] = sum;
  }
  if (!is_last_block(&tickets[blockIdx.x], gridDim.y)) return;
  // lambda = raw / |raw| outside the circle: the gradient loses its radial part and shrinks.
  const unsigned last = min(first + pairs_per_block, in.pairs);
  if (threadIdx.x >= last - first) return;
  float to_gamma = 0, to_omega = 0;
#pragma unroll 8
  for (unsigned range = 0; range < gridDim.y; ++range) {
    to_gamma += partials[range * std::size_t{2} * in.pairs + pair];
    to_omega += partials[(range * std::size_t{2} + 1) * in.pairs + pair];
  }
  const Mode mode(in, pair);
  if (mode.shrink < 1.0f) {
    const float radial = to_gamma * mode.gamma + to_omega * mode.omega;
    to_gamma = mode.shrink * (to_gamma - radial * mode.gamma);
    to_omega = mode.shrink * (to_omega - radial * mode.omega);
  }
  if (out.gamma.wanted()) out.gamma.put(pair, to_gamma);
  if (out.omega.wanted()) out.omega.put(pair, to_omega);
}

ModeInputs mode_inputs(const Tensor& lifted, const Tensor& gamma, const Tensor& omega, const Tensor& gate) {
  return {rows_of(lifted),
          gate.defined() ? rows_of(gate) : Rows<float>{},
          {},
          gamma.as<float>(),
          omega.as<float>(),
          static_cast<unsigned>(lifted.rows()),
          static_cast<unsigned>(lifted.columns() / 2)};
}

}  // namespace

void CudaBackend::koopman_modes(const Tensor& lifted, const Tensor& gamma, const Tensor& omega, const Tensor& gate,
                                const Tensor& z) {
  const ModeInputs in = mode_inputs(lifted, gamma, omega, gate);
  if (in.rows == 0 || in.pairs == 0) return;
  const dim3 grid(blocks_for(in.rows, row_groups), blocks_for(in.pairs, pairs_per_block));
  launch(modes_kernel, grid, threads, 0, stream(), in, rows_of(z));
  launched("koopman_modes");
}

void CudaBackend::koopman_modes_backward(const Tensor& lifted, const Tensor& gamma, const Tensor& omega,
                                         const Tensor& gate, const Tensor& dz, const Grad& dlifted, const Grad& dgamma,
                                         const Grad& domega, const Grad& dgate) {
  ModeInputs in = mode_inputs(lifted, gamma, omega, gate);
  in.dz = rows_of(dz);
  if (in.rows == 0 || in.pairs == 0) return;
  const unsigned ranges = at_most(blocks_for(in.rows, row_groups * 8), max_ranges);
  const dim3 grid(blocks_for(in.pairs, pairs_per_block), ranges);
  launch(modes_backward_kernel, grid, threads, 0, stream(), in, scratch(2 * std::size_t{ranges} * in.pairs), tickets_,
         ModeSinks{sink_of(dlifted), sink_of(dgamma), sink_of(domega), sink_of(dgate)});
  launched("koopman_modes_backward");
}

}  // namespace afterglow
