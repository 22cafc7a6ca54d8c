// Gradient norms, one AdamW step over all parameters, w = w (1 - rate decay) - rate m / (sqrt(v) + eps) with corrected
// moments m and v, and the search for non-finite numbers. Memory-bound: AdamW reads four arrays and writes three. Grid:
// (blocks of a slice, slices), or eight parameters a thread.
#include "gpu/runtime/kernel.cuh"

namespace afterglow {

using namespace device;

namespace {

// Blocks of a slice; with many gradients some slices are long.
constexpr unsigned few_parts = 32, many_parts = 256;
constexpr std::int64_t many_gradients = std::int64_t{1} << 22;

constexpr unsigned norm_loads = 4;  // 16-byte loads that a thread has in flight

__device__ double square(float x) { return double(x) * x; }

// Squares are added in float64: each block sums a part of a slice, then the last block adds the parts, one warp a
// slice.
__global__ void __launch_bounds__(threads) norms_kernel(const float* gradients, const double* offsets, double* parts,
                                                        float* norms, float* total, unsigned* ticket) {
  wait_for_previous_kernel();
  __shared__ double sums[32];
  const auto begin = std::size_t(offsets[blockIdx.y]);
  const auto end = std::size_t(offsets[blockIdx.y + 1]);
  double sum = 0;
  const std::size_t step = 4 * std::size_t{gridDim.x} * threads;
  for (std::size_t i = begin + 4 * (blockIdx.x * threads + threadIdx.x); i < end; i += norm_loads * step) {
    float4 g[norm_loads];
    unrolled<norm_loads>([&](unsigned k) {
      g[k] = i + k * step < end ? *reinterpret_cast<const float4*>(gradients + i + k * step) : float4{};
    });
    unrolled<norm_loads>([&](unsigned k) { sum += square(g[k].x) + square(g[k].y) + square(g[k].z) + square(g[k].w); });
  }
  sum = block_sum(sum, sums);
  if (threadIdx.x == 0) parts[blockIdx.y * gridDim.x + blockIdx.x] = sum;
  if (!is_last_block(ticket, gridDim.x * gridDim.y)) return;
  double all = 0;
  for (unsigned slice = threadIdx.x / 32; slice < gridDim.y; slice += threads / 32) {
    double own = 0;
    for (unsigned part = threadIdx.x % 32; part < gridDim.x; part += 32) own += parts[slice * gridDim.x + part];
    const double squares = warp_sum(own);
    if (threadIdx.x % 32 == 0) {
      norms[slice] = float(sqrt(squares));
      all += squares;
    }
  }
  all = block_sum(all, sums);
  if (threadIdx.x == 0) *total = float(sqrt(all));
}

struct AdamwArrays {
  float *weights, *first, *second;
  const float* gradients;
  const std::uint8_t* decays;
  const double* hyperparameters;
  int* step;
  const float* norm;
  unsigned count;
  bool may_read_early;  // everything but the norm may be read before the previous kernel has ended
};

/// A step's factors from the hyperparameters, computed once per block in float64.
struct AdamwFactors {
  float clip, beta1, beta2, rest1, rest2, epsilon, rate, root, shrink;
};

/// base^exponent by squaring: much faster than `pow`, and the block waits for it.
__device__ double power(double base, int exponent) {
  double result = 1.0;
  for (; exponent > 0; exponent /= 2, base *= base) {
    if (exponent % 2 == 1) result *= base;
  }
  return result;
}

/// Everything but `clip`, computed by the first warp, whose first two lanes compute one power each.
__device__ AdamwFactors adamw_factors(const double* h, int step) {
  const double rest = 1.0 - power(h[1 + threadIdx.x % 2], step);
  const double own = threadIdx.x % 2 == 0 ? h[0] / rest : 1.0 / sqrt(rest);
  return {1.0f,
          float(h[1]),
          float(h[2]),
          float(1.0 - h[1]),
          float(1.0 - h[2]),
          float(h[3]),
          float(__shfl_sync(full_warp, own, 0)),
          float(__shfl_sync(full_warp, own, 1)),
          float(1.0 - h[0] * h[4])};
}

__device__ float clip_factor(double limit, float norm) {
  return float(limit > 0 ? fmin(1.0, limit / (double(norm) + 1e-6)) : 1.0);
}

constexpr unsigned adamw_fours = 2;  // of a thread at a time
constexpr unsigned adamw_block = 4 * adamw_fours * threads;
constexpr unsigned adamw_neighbours = 4;  // so that the blocks of a small model all run at once

struct AdamwNumbers {
  using P = Piece<4>;  // parameters are padded to whole blocks
  P gradient[adamw_fours], first[adamw_fours], second[adamw_fours], weight[adamw_fours];
  bool decays[adamw_fours];

  __device__ static std::size_t place(std::size_t begin, unsigned k) { return begin + 4 * (k * threads + threadIdx.x); }
  __device__ void load(const AdamwArrays& in, std::size_t begin) {
    unrolled<adamw_fours>([&](unsigned k) {
      const std::size_t i = place(begin, k);
      gradient[k] = P::of(in.gradients + i, i < in.count);
      first[k] = P::of(in.first + i, i < in.count);
      second[k] = P::of(in.second + i, i < in.count);
      weight[k] = P::of(in.weights + i, i < in.count);
      decays[k] = i < in.count && in.decays[i / parameter_block] != 0;
    });
  }
  __device__ void update(const AdamwArrays& in, std::size_t begin, const AdamwFactors& f) {
#pragma unroll
    for (unsigned k = 0; k < adamw_fours; ++k) {
      const std::size_t i = place(begin, k);
      if (i >= in.count) break;
      const float kept = decays[k] ? f.shrink : 1.0f;
      unrolled<4>([&](unsigned e) {
        const float g = gradient[k].v[e] * f.clip;
        const float mean = f.beta1 * first[k].v[e] + f.rest1 * g;
        const float square = f.beta2 * second[k].v[e] + f.rest2 * g * g;
        first[k].v[e] = mean;
        second[k].v[e] = square;
        weight[k].v[e] = weight[k].v[e] * kept - f.rate * mean / (sqrtf(square) * f.root + f.epsilon);
      });
      first[k].store(in.first + i);
      second[k].store(in.second + i);
      weight[k].store(in.weights + i);
    }
  }
};

// Everything that does not depend on the norm happens before the previous kernel, which computes it, has ended.
__global__ void __launch_bounds__(threads, adamw_neighbours) adamw_kernel(AdamwArrays in, unsigned* ticket) {
  if (!in.may_read_early) wait_for_previous_kernel();
  __shared__ AdamwFactors f;
  const std::size_t start = std::size_t{blockIdx.x} * adamw_block, step = std::size_t{gridDim.x} * adamw_block;
  AdamwNumbers numbers;
  numbers.load(in, start);
  AdamwFactors found;
  if (threadIdx.x < 32) found = adamw_factors(in.hyperparameters, *in.step + 1);
  wait_for_previous_kernel();
  const float norm = *in.norm;
  if (threadIdx.x == 0) {
    found.clip = clip_factor(in.hyperparameters[5], norm);
    f = found;
  }
  __syncthreads();
  for (std::size_t begin = start; isfinite(norm) && begin < in.count; begin += step) {
    if (begin != start) numbers.load(in, begin);
    numbers.update(in, begin, f);
  }
  // Every block reads the counter, so only the last one increments it.
  if (is_last_block(ticket, gridDim.x) && threadIdx.x == 0 && isfinite(norm)) *in.step += 1;
}

__global__ void __launch_bounds__(threads) non_finite_kernel(Rows<float> x, unsigned count, unsigned long long* found) {
  wait_for_previous_kernel();
  for (std::size_t i = blockIdx.x * threads + threadIdx.x; i < count; i += gridDim.x * threads) {
    if (!isfinite(x[unsigned(i)])) {
      atomicMin(found, static_cast<unsigned long long>(i));
      return;
    }
  }
}

}  // namespace

void CudaBackend::gradient_norms(const Tensor& gradients, const Tensor& offsets, const Tensor& norms,
                                 const Tensor& total) {
  const auto slices = unsigned(norms.elements());
  if (slices == 0) {
    fill(total, 0.0);
    return;
  }
  const unsigned slice_parts = gradients.elements() < many_gradients ? few_parts : many_parts;
  auto* parts = reinterpret_cast<double*>(scratch(2 * std::size_t{slices} * slice_parts));
  launch(*this, "gradient_norms", norms_kernel, dim3(slice_parts, slices), threads, gradients.as<float>(),
         offsets.as<double>(), parts, norms.as<float>(), total.as<float>(), tickets_);
  context_->launches_at_norm = context_->launches;
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
                       unsigned(tensors.weights.elements()),
                       context_->launches == context_->launches_at_norm};
  const unsigned blocks = in.count > 0 ? at_most(blocks_for(in.count, adamw_block), 1024) : 1;
  launch(*this, "adamw", adamw_kernel, blocks, threads, in, tickets_);
}

std::int64_t CudaBackend::first_non_finite(const Tensor& x) {
  if (x.dtype != DType::f32 || x.elements() == 0) return -1;
  check_cuda(cudaMemsetAsync(found_, 0xff, sizeof(std::int64_t), stream()), "clearing the answer");
  const unsigned blocks = at_most(blocks_for(x.elements(), threads), 4096);
  launch(*this, "first_non_finite", non_finite_kernel, blocks, threads, rows_of(x), unsigned(x.elements()),
         reinterpret_cast<unsigned long long*>(found_));
  std::int64_t answer = -1;
  check_cuda(cudaMemcpyAsync(&answer, found_, sizeof(answer), cudaMemcpyDeviceToHost, stream()), "reading the answer");
  synchronize();
  return answer;
}

}  // namespace afterglow
