// Gradient norms, one AdamW step over all parameters, and the search for numbers that are not finite. Bound by memory:
// AdamW reads four arrays and writes three.
#include "gpu/cuda_backend.h"
#include "gpu/cuda_device.cuh"
#include "gpu/cuda_launch.cuh"

namespace afterglow {

using namespace device;

namespace {

constexpr unsigned slice_parts = 32;  // blocks that share a slice

// Squares are added in float64: first by blocks, each a part of a slice, then by the last block, slice after slice.
__global__ void __launch_bounds__(threads) norms_kernel(const float* gradients, const double* offsets, double* parts,
                                                        float* norms, float* total, unsigned* ticket) {
  await_previous();
  __shared__ double sums[32];
  const auto begin = static_cast<std::size_t>(offsets[blockIdx.y]);
  const auto end = static_cast<std::size_t>(offsets[blockIdx.y + 1]);
  double sum = 0;
#pragma unroll 4
  for (std::size_t i = begin + blockIdx.x * threads + threadIdx.x; i < end; i += slice_parts * threads) {
    const auto g = static_cast<double>(gradients[i]);
    sum += g * g;
  }
  sum = block_sum(sum, sums);
  if (threadIdx.x == 0) parts[blockIdx.y * slice_parts + blockIdx.x] = sum;
  if (!is_last_block(ticket, gridDim.x * gridDim.y)) return;
  double all = 0;
  for (unsigned slice = threadIdx.x; slice < gridDim.y; slice += threads) {
    double squares = 0;
#pragma unroll
    for (unsigned part = 0; part < slice_parts; ++part) squares += parts[slice * slice_parts + part];
    norms[slice] = static_cast<float>(sqrt(squares));
    all += squares;
  }
  all = block_sum(all, sums);
  if (threadIdx.x == 0) *total = static_cast<float>(sqrt(all));
}

struct AdamwArrays {
  float *weights, *first, *second;
  const float* gradients;
  const std::uint8_t* decays;
  const double* hyperparameters;
  int* step;
  const float* norm;
  unsigned count;
};

/// What one step needs of the hyperparameters; found once per block, in float64.
struct AdamwFactors {
  float clip, beta1, beta2, rest1, rest2, epsilon, rate, root, shrink;
};

__device__ AdamwFactors adamw_factors(const double* h, int step, float norm) {
  const double clip = h[5] > 0 ? fmin(1.0, h[5] / (static_cast<double>(norm) + 1e-6)) : 1.0;
  return {static_cast<float>(clip),
          static_cast<float>(h[1]),
          static_cast<float>(h[2]),
          static_cast<float>(1.0 - h[1]),
          static_cast<float>(1.0 - h[2]),
          static_cast<float>(h[3]),
          static_cast<float>(h[0] / (1.0 - pow(h[1], step))),
          static_cast<float>(1.0 / sqrt(1.0 - pow(h[2], step))),
          static_cast<float>(1.0 - h[0] * h[4])};
}

constexpr unsigned adamw_each = 4;  // parameters of a thread

// A thread loads its first numbers before the block's first thread has found the factors.
__global__ void __launch_bounds__(threads) adamw_kernel(AdamwArrays in, unsigned* ticket) {
  await_previous();
  __shared__ AdamwFactors f;
  const float norm = *in.norm;
  const unsigned first_place = blockIdx.x * threads * adamw_each + threadIdx.x;
  for (std::size_t begin = first_place; isfinite(norm) && begin < in.count + std::size_t{threads} * adamw_each;
       begin += std::size_t{gridDim.x} * threads * adamw_each) {
    float gradient[adamw_each], first[adamw_each], second[adamw_each], weight[adamw_each];
#pragma unroll
    for (unsigned k = 0; k < adamw_each; ++k) {
      const std::size_t i = begin + k * threads;
      if (i >= in.count) break;
      gradient[k] = in.gradients[i];
      first[k] = in.first[i];
      second[k] = in.second[i];
      weight[k] = in.weights[i];
    }
    if (begin == first_place) {
      if (threadIdx.x == 0) f = adamw_factors(in.hyperparameters, *in.step + 1, norm);
      __syncthreads();
    }
#pragma unroll
    for (unsigned k = 0; k < adamw_each; ++k) {
      const std::size_t i = begin + k * threads;
      if (i >= in.count) break;
      const float g = gradient[k] * f.clip;
      const float mean = f.beta1 * first[k] + f.rest1 * g;
      const float square = f.beta2 * second[k] + f.rest2 * g * g;
      in.first[i] = mean;
      in.second[i] = square;
      const float kept = in.decays[i / parameter_block] != 0 ? weight[k] * f.shrink : weight[k];
      in.weights[i] = kept - f.rate * mean / (sqrtf(square) * f.root + f.epsilon);
    }
  }
  // Every block reads the counter, so only the last one may move it on.
  if (is_last_block(ticket, gridDim.x) && threadIdx.x == 0 && isfinite(norm)) *in.step += 1;
}

__global__ void __launch_bounds__(threads) non_finite_kernel(Rows<float> x, unsigned count, unsigned long long* found) {
  await_previous();
  for (std::size_t i = blockIdx.x * threads + threadIdx.x; i < count; i += gridDim.x * threads) {
    if (!isfinite(x[static_cast<unsigned>(i)])) {
      atomicMin(found, static_cast<unsigned long long>(i));
      return;
    }
  }
}

}  // namespace

void CudaBackend::gradient_norms(const Tensor& gradients, const Tensor& offsets, const Tensor& norms,
                                 const Tensor& total) {
  const auto slices = static_cast<unsigned>(norms.elements());
  if (slices == 0) {
    fill(total, 0.0);
    return;
  }
  auto* parts = reinterpret_cast<double*>(scratch(2 * std::size_t{slices} * slice_parts));
  launch(norms_kernel, dim3(slice_parts, slices), threads, 0, stream(), gradients.as<float>(), offsets.as<double>(),
         parts, norms.as<float>(), total.as<float>(), tickets_);
  launched("gradient_norms");
}

void CudaBackend::adamw(const AdamwTensors& tensors) {
  const AdamwArrays in{tensors.weights.as<float>(),
                       tensors.first_moment.as<float>(),
                       tensors.second_moment.as<float>(),
                       tensors.gradients.as<float>(),
                       tensors.decay_mask.as<std::uint8_t>(),
                       tensors.hyperparameters.as<double>(),
                       tensors.step.as<int>(),
                       tensors.gradient_norm.as<float>(),
                       static_cast<unsigned>(tensors.weights.elements())};
  const unsigned blocks = in.count > 0 ? at_most(blocks_for(in.count, adamw_each * threads), 1024) : 1;
  launch(adamw_kernel, blocks, threads, 0, stream(), in, tickets_);
  launched("adamw");
}

std::int64_t CudaBackend::first_non_finite(const Tensor& x) {
  if (x.dtype != DType::f32 || x.elements() == 0) return -1;
  check_cuda(cudaMemsetAsync(found_, 0xff, sizeof(std::int64_t), stream()), "clearing the answer");
  const unsigned blocks = at_most(blocks_for(x.elements(), threads), 4096);
  launch(non_finite_kernel, blocks, threads, 0, stream(), rows_of(x), static_cast<unsigned>(x.elements()),
         reinterpret_cast<unsigned long long*>(found_));
  launched("first_non_finite");
  std::int64_t answer = -1;
  check_cuda(cudaMemcpyAsync(&answer, found_, sizeof(answer), cudaMemcpyDeviceToHost, stream()), "reading the answer");
  synchronize();
  return answer;
}

}  // namespace afterglow
