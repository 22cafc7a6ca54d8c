// Embedding and cross-entropy.
#include "gpu/cuda_backend.h"
#include "gpu/cuda_device.cuh"
#include "gpu/cuda_launch.cuh"

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

// A block owns one row of the table, finds the places of its token in order, and adds their gradients in that order.
__global__ void __launch_bounds__(threads)
    embedding_backward_kernel(const int* tokens, Rows<float> dy, unsigned count, Sink dtable) {
  await_previous();
  __shared__ unsigned places[threads];
  __shared__ unsigned warp_hits[warps];
  const int token = static_cast<int>(blockIdx.x);
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned columns = dtable.rows.columns;
  for (unsigned column_base = 0; column_base < columns; column_base += threads) {
    const unsigned column = column_base + threadIdx.x;
    float sum = 0;
    for (unsigned begin = 0; begin < count; begin += threads) {
      const unsigned row = begin + threadIdx.x;
      const bool hit = row < count && tokens[row] == token;
      const unsigned votes = __ballot_sync(full_warp, hit);
      __syncthreads();
      if (lane == 0) warp_hits[warp] = __popc(votes);
      __syncthreads();
      unsigned before = 0, hits = 0;
      for (unsigned other = 0; other < warps; ++other) {
        if (other < warp) before += warp_hits[other];
        hits += warp_hits[other];
      }
      if (hit) places[before + __popc(votes & ((1u << lane) - 1u))] = row;
      __syncthreads();
      if (column < columns) {
        for (unsigned i = 0; i < hits; ++i) sum += dy.at(places[i], column);
      }
    }
    if (column < columns) dtable.put(std::size_t{blockIdx.x}, column, sum);
  }
}

struct EntropyTargets {
  const int* targets;
  unsigned rows, columns;
};

// A warp takes a row: softmax, the loss of its target, and whether the largest logit (the first of equals) is it.
__global__ void __launch_bounds__(threads)
    cross_entropy_kernel(Rows<float> logits, EntropyTargets in, Rows<float> probabilities, float* losses, int* hits,
                         unsigned* ticket, float* loss, int* correct, int* counted) {
  await_previous();
  const unsigned row = blockIdx.x * warps + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row < in.rows) {
    float largest = -INFINITY;
    unsigned place = in.columns;
    for (unsigned column = lane; column < in.columns; column += 32) {
      const float value = logits.at(row, column);
      if (value > largest) {
        largest = value;
        place = column;
      }
    }
    for (int offset = 16; offset > 0; offset /= 2) {
      const float other = __shfl_xor_sync(full_warp, largest, offset);
      const unsigned other_place = __shfl_xor_sync(full_warp, place, offset);
      if (other > largest || (other == largest && other_place < place)) {
        largest = other;
        place = other_place;
      }
    }
    float sum = 0;
    for (unsigned column = lane; column < in.columns; column += 32) sum += expf(logits.at(row, column) - largest);
    sum = warp_sum(sum);
    const float inverse = 1.0f / sum;
    for (unsigned column = lane; column < in.columns; column += 32) {
      probabilities.at(row, column) = expf(logits.at(row, column) - largest) * inverse;
    }
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
