// Embedding and cross-entropy.
#include "gpu/cuda_backend.h"
#include "gpu/device/device.cuh"
#include "gpu/device/launch.cuh"

namespace afterglow {

using namespace device;

namespace {

constexpr unsigned warps = threads / 32;

__global__ void __launch_bounds__(threads)
    embedding_kernel(const int* tokens, Rows<float> table, Rows<float> y, unsigned count) {
  await_previous();
  const unsigned row = blockIdx.x * warps + threadIdx.x / 32;
  if (row >= count) return;
  const int token = tokens[row];
  for (unsigned column = threadIdx.x % 32; column < table.columns; column += 32) {
    y.at(row, column) = table.at(token, column);
  }
}

constexpr unsigned scanned = 128;  // tokens that a warp looks through at a time
constexpr unsigned together = 4;   // columns of a lane, a warp's width apart
constexpr unsigned max_hits = 16;  // rows whose loads are in flight

// A block owns one row of the table. Each warp looks through every eighth piece of the tokens, lists the places of its
// token in order and adds their gradients in that order; the sums of the warps are added in order.
__global__ void __launch_bounds__(threads)
    embedding_backward_kernel(const int* tokens, Rows<float> dy, unsigned count, Sink dtable) {
  await_previous();
  __shared__ unsigned places[warps][scanned];
  __shared__ float sums[warps][32 * together];
  const int token = static_cast<int>(blockIdx.x);
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned columns = dtable.rows.columns;
  for (unsigned first = 0; first < columns; first += 32 * together) {
    float sum[together] = {};
    for (unsigned begin = warp * scanned; begin < count; begin += warps * scanned) {
      int found[scanned / 32];
#pragma unroll
      for (unsigned k = 0; k < scanned / 32; ++k) {
        const unsigned row = begin + 32 * k + lane;
        found[k] = row < count ? tokens[row] : -1;
      }
      unsigned hits = 0;
#pragma unroll
      for (unsigned k = 0; k < scanned / 32; ++k) {
        const unsigned votes = __ballot_sync(full_warp, found[k] == token);
        if (found[k] == token) places[warp][hits + __popc(votes & ((1u << lane) - 1u))] = begin + 32 * k + lane;
        hits += __popc(votes);
      }
      __syncwarp();
#pragma unroll max_hits
      for (unsigned i = 0; i < hits; ++i) {
        const unsigned row = places[warp][i];
#pragma unroll
        for (unsigned k = 0; k < together; ++k) {
          const unsigned column = first + lane + 32 * k;
          if (column < columns) sum[k] += dy.at(row, column);
        }
      }
      __syncwarp();
    }
#pragma unroll
    for (unsigned k = 0; k < together; ++k) sums[warp][lane + 32 * k] = sum[k];
    __syncthreads();
    const unsigned own = threadIdx.x, column = first + own;
    if (own < 32 * together && column < columns) {
      float total = 0;
#pragma unroll
      for (unsigned other = 0; other < warps; ++other) total += sums[other][own];
      dtable.put(std::size_t{blockIdx.x}, column, total);
    }
    __syncthreads();
  }
}

struct EntropyTargets {
  const int* targets;
  unsigned rows, columns;
};

constexpr unsigned held_logits = 4;

// A warp takes a row: softmax, the loss of its target, and whether the largest logit (the first of equals) is it.
__global__ void __launch_bounds__(threads)
    cross_entropy_kernel(Rows<float> logits, EntropyTargets in, Rows<float> probabilities, float* losses, int* hits,
                         unsigned* ticket, float* loss, int* correct, int* counted) {
  await_previous();
  const unsigned row = blockIdx.x * warps + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row < in.rows) {
    // A lane holds its first logits, all loaded at once; only what is longer is read again.
    float held[held_logits];
#pragma unroll
    for (unsigned k = 0; k < held_logits; ++k) {
      const unsigned column = lane + 32 * k;
      held[k] = column < in.columns ? logits.at(row, column) : 0.0f;
    }
    const auto each = [&](const auto& visit) {
#pragma unroll
      for (unsigned k = 0; k < held_logits; ++k) {
        if (lane + 32 * k < in.columns) visit(lane + 32 * k, held[k]);
      }
      for (unsigned column = lane + 32 * held_logits; column < in.columns; column += 32) {
        visit(column, logits.at(row, column));
      }
    };
    float largest = -INFINITY;
    unsigned place = in.columns;
    each([&](unsigned column, float value) {
      if (value > largest) {
        largest = value;
        place = column;
      }
    });
    for (int offset = 16; offset > 0; offset /= 2) {
      const float other = __shfl_xor_sync(full_warp, largest, offset);
      const unsigned other_place = __shfl_xor_sync(full_warp, place, offset);
      if (other > largest || (other == largest && other_place < place)) {
        largest = other;
        place = other_place;
      }
    }
    float sum = 0;
    each([&](unsigned, float value) { sum += expf(value - largest); });
    sum = warp_sum(sum);
    const float inverse = 1.0f / sum;
    each([&](unsigned column, float value) { probabilities.at(row, column) = expf(value - largest) * inverse; });
    if (lane == 0) {
      const int target = in.targets[row];
      losses[row] = target >= 0 ? logf(sum) + largest - logits.at(row, target) : 0.0f;
      hits[row] = target < 0 ? 0 : (static_cast<int>(place) == target ? 3 : 1);  // bit 0: counts, bit 1: right
    }
  }
  if (!is_last_block(ticket, gridDim.x)) return;
  __shared__ float sums[32];
  __shared__ int counts[32];
  float total = 0;
  int right = 0, used = 0;
  for (unsigned i = threadIdx.x; i < in.rows; i += threads) {
    total += losses[i];
    used += hits[i] & 1;
    right += hits[i] >> 1;
  }
  total = block_sum(total, sums);
  right = block_sum(right, counts);
  used = block_sum(used, counts);
  if (threadIdx.x == 0) {
    *loss = used > 0 ? total / static_cast<float>(used) : 0.0f;
    *correct = right;
    *counted = used;
  }
}

__global__ void __launch_bounds__(threads)
    cross_entropy_backward_kernel(Rows<float> probabilities, EntropyTargets in, const int* counted, const float* dloss,
                                  Sink dlogits) {
  await_previous();
  const unsigned row = blockIdx.x * warps + threadIdx.x / 32;
  if (row >= in.rows) return;
  const int target = in.targets[row], used = *counted;
  const float factor = target >= 0 && used > 0 ? *dloss / static_cast<float>(used) : 0.0f;
  for (unsigned column = threadIdx.x % 32; column < in.columns; column += 32) {
    const float hit = static_cast<int>(column) == target ? 1.0f : 0.0f;
    dlogits.put(row, column, factor == 0.0f ? 0.0f : factor * (probabilities.at(row, column) - hit));
  }
}

}  // namespace

void CudaBackend::embedding(const Tensor& tokens, const Tensor& table, const Tensor& y) {
  const auto count = static_cast<unsigned>(tokens.elements());
  if (count == 0) return;
  launch(embedding_kernel, blocks_for(count, warps), threads, 0, stream(), tokens.as<int>(), rows_of(table), rows_of(y),
         count);
  launched("embedding");
}

void CudaBackend::embedding_backward(const Tensor& tokens, const Tensor& dy, const Grad& dtable) {
  if (!dtable.wanted()) return;
  products_.launch_kept_gradients();  // that of a head that shares the table comes first, and the others are the last
  launch(embedding_backward_kernel, static_cast<unsigned>(dtable.tensor.rows()), threads, 0, stream(), tokens.as<int>(),
         rows_of(dy), static_cast<unsigned>(tokens.elements()), sink_of(dtable));
  launched("embedding_backward");
}

void CudaBackend::cross_entropy(const Tensor& logits, const Tensor& targets, const Tensor& probabilities,
                                const Tensor& loss, const Tensor& correct, const Tensor& counted) {
  const EntropyTargets in{targets.as<int>(), static_cast<unsigned>(logits.rows()),
                          static_cast<unsigned>(logits.columns())};
  float* losses = scratch(2 * std::size_t{in.rows});
  const unsigned blocks = in.rows > 0 ? blocks_for(in.rows, warps) : 1;
  launch(cross_entropy_kernel, blocks, threads, 0, stream(), rows_of(logits), in, rows_of(probabilities), losses,
         reinterpret_cast<int*>(losses + in.rows), tickets_, loss.as<float>(), correct.as<int>(), counted.as<int>());
  launched("cross_entropy");
}

void CudaBackend::cross_entropy_backward(const Tensor& probabilities, const Tensor& targets, const Tensor& counted,
                                         const Tensor& dloss, const Grad& dlogits) {
  if (!dlogits.wanted() || probabilities.elements() == 0) return;
  const EntropyTargets in{targets.as<int>(), static_cast<unsigned>(probabilities.rows()),
                          static_cast<unsigned>(probabilities.columns())};
  launch(cross_entropy_backward_kernel, blocks_for(in.rows, warps), threads, 0, stream(), rows_of(probabilities), in,
         counted.as<int>(), dloss.as<float>(), sink_of(dlogits));
  launched("cross_entropy_backward");
}

}  // namespace afterglow
