// Rows of an embedding and their gradient, dtable_w = sum over positions of word w of dy; cross-entropy -log
// softmax(l)_t with p - [target] as its gradient. Grid: a block a word; a warp a row of logits, or a block a row of a
// wide vocabulary.
#include "gpu/tile/map.cuh"

namespace afterglow {

using namespace device;

namespace {

constexpr unsigned gathered = 4;  // columns of a lane, a warp's width apart

/// T is the stored type of a.
template <class T>
__global__ void __launch_bounds__(threads)
    gather_rows_kernel(const int* places, Rows<T> a, Rows<float> b, Rows<float> y, unsigned count) {
  wait_for_previous_kernel();
  const unsigned row = blockIdx.x * warps + threadIdx.x / 32;
  if (row >= count) return;
  const int place = places[row];
  unrolled<gathered>([&](unsigned k) {
    const unsigned column = (blockIdx.y * gathered + k) * 32 + threadIdx.x % 32;
    if (column >= a.columns) return;
    float sum = place >= 0 ? float(a.at(place, column)) : 0.0f;
    if (place >= 0 && b.data != nullptr) sum += b.at(place, column);
    y.at(row, column) = sum;
  });
}

constexpr unsigned scanned = 128;       // tokens that a warp compares at a time
constexpr unsigned max_hits = 16;       // rows whose loads are in flight
constexpr unsigned large_table = 4096;  // words: most of them do not occur in a batch

// A block owns one row of the table. Each warp compares every eighth piece of the tokens, lists the positions of its
// token in order and adds their gradients in that order; the sums of the warps are added in order. `together`: columns
// of a lane, a warp's width apart. `occurring`: a bit for each word, or null.
template <unsigned together>
__global__ void __launch_bounds__(threads) embedding_backward_kernel(const int* tokens, Rows<float> dy, unsigned count,
                                                                     const unsigned* occurring, Sink dtable) {
  wait_for_previous_kernel();
  __shared__ unsigned places[warps][scanned];
  __shared__ float sums[warps][32 * together];
  const int token = int(blockIdx.x);
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned columns = dtable.rows.columns;
  if (occurring != nullptr && (occurring[token / 32] >> (token % 32) & 1u) == 0) {
    for (unsigned column = threadIdx.x; column < columns && !dtable.accumulate; column += threads)
      dtable.put(std::size_t{blockIdx.x}, column, 0.0f);
    return;
  }
  for (unsigned first = 0; first < columns; first += 32 * together) {
    float sum[together] = {};
    for (unsigned begin = warp * scanned; begin < count; begin += warps * scanned) {
      int found[scanned / 32];
      unrolled<scanned / 32>([&](unsigned k) {
        const unsigned row = begin + 32 * k + lane;
        found[k] = row < count ? tokens[row] : -1;
      });
      unsigned hits = 0;
      unrolled<scanned / 32>([&](unsigned k) {
        const unsigned votes = __ballot_sync(full_warp, found[k] == token);
        if (found[k] == token) places[warp][hits + __popc(votes & ((1u << lane) - 1u))] = begin + 32 * k + lane;
        hits += __popc(votes);
      });
      __syncwarp();
#pragma unroll max_hits
      for (unsigned i = 0; i < hits; ++i) {
        const unsigned row = places[warp][i];
        unrolled<together>([&](unsigned k) {
          const unsigned column = first + lane + 32 * k;
          if (column < columns) sum[k] += dy.at(row, column);
        });
      }
      __syncwarp();
    }
    unrolled<together>([&](unsigned k) { sums[warp][lane + 32 * k] = sum[k]; });
    __syncthreads();
    for (unsigned own = threadIdx.x; own < 32 * together && first + own < columns; own += threads) {
      float total = 0;
      unrolled<warps>([&](unsigned other) { total += sums[other][own]; });
      dtable.put(std::size_t{blockIdx.x}, first + own, total);
    }
    __syncthreads();
  }
}

struct EntropyTargets {
  const int* targets;
  unsigned rows, columns;
};

__device__ void mean_of_rows(const float* losses, const int* hits, unsigned rows, float* loss, int* correct,
                             int* counted) {
  __shared__ float sums[32];
  __shared__ int counts[32];
  float total = 0;
  int right = 0, used = 0;
  for (unsigned i = threadIdx.x; i < rows; i += threads) {
    total += losses[i];
    used += hits[i] & 1;
    right += hits[i] >> 1;
  }
  total = block_sum(total, sums);
  right = block_sum(right, counts);
  used = block_sum(used, counts);
  if (threadIdx.x == 0) {
    *loss = used > 0 ? total / float(used) : 0.0f;
    *correct = right;
    *counted = used;
  }
}

/// The largest number seen, the first of equals, and its column.
struct Largest {
  float number;
  unsigned column;
  __device__ void take(const Largest& other) {
    if (other.number > number || (other.number == number && other.column < column)) *this = other;
  }
  /// Afterwards every lane has the warp's.
  __device__ void share_in_warp() {
    for (int offset = 16; offset > 0; offset /= 2)
      take({__shfl_xor_sync(full_warp, number, offset), __shfl_xor_sync(full_warp, column, offset)});
  }
};

constexpr unsigned held_logits = 4;

// One warp a row: softmax, the loss of its target, and whether the largest logit (the first of equals) is the target's.
__global__ void __launch_bounds__(threads)
    cross_entropy_kernel(Rows<float> logits, EntropyTargets in, Rows<float> probabilities, float* losses, int* hits,
                         unsigned* ticket, float* loss, int* correct, int* counted) {
  wait_for_previous_kernel();
  const unsigned row = blockIdx.x * warps + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row < in.rows) {
    // A lane holds its first logits, all loaded at once; only longer rows are read again.
    float held[held_logits];
    unrolled<held_logits>([&](unsigned k) {
      const unsigned column = lane + 32 * k;
      held[k] = column < in.columns ? logits.at(row, column) : 0.0f;
    });
    const int target = in.targets[row];
    const float of_target = target >= 0 ? logits.at(row, target) : 0.0f;
    const auto each = [&](const auto& visit) {
      unrolled<held_logits>([&](unsigned k) {
        if (lane + 32 * k < in.columns) visit(lane + 32 * k, held[k]);
      });
      for (unsigned column = lane + 32 * held_logits; column < in.columns; column += 32) {
        visit(column, logits.at(row, column));
      }
    };
    Largest top{-INFINITY, in.columns};
    each([&](unsigned column, float value) {
      if (value > top.number) top = {value, column};
    });
    top.share_in_warp();
    const float largest = top.number;
    float sum = 0;
    each([&](unsigned, float value) { sum += expf(value - largest); });
    sum = warp_sum(sum);
    const float inverse = 1.0f / sum;
    each([&](unsigned column, float value) { probabilities.at(row, column) = expf(value - largest) * inverse; });
    if (lane == 0) {
      losses[row] = target >= 0 ? logf(sum) + largest - of_target : 0.0f;
      hits[row] = target < 0 ? 0 : (int(top.column) == target ? 3 : 1);  // bit 0: counts, bit 1: right
    }
  }
  if (is_last_block(ticket, gridDim.x)) mean_of_rows(losses, hits, in.rows, loss, correct, counted);
}

constexpr unsigned answering_threads = 1024;

// One block; a thread a row, so that a warp's votes give each row's rank.
__global__ void __launch_bounds__(answering_threads)
    answered_rows_kernel(const int* targets, unsigned rows, int* places, int* own, unsigned room, int* ranks) {
  wait_for_previous_kernel();
  __shared__ unsigned counts[answering_threads / 32];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  unsigned found = 0;
  for (unsigned begin = 0; begin < rows; begin += answering_threads) {
    const unsigned row = begin + threadIdx.x;
    const int target = row < rows ? targets[row] : -1;
    const unsigned votes = __ballot_sync(full_warp, target >= 0);
    if (lane == 0) counts[warp] = __popc(votes);
    __syncthreads();
    unsigned place = found + __popc(votes & ((1u << lane) - 1u));
    for (unsigned other = 0; other < answering_threads / 32; ++other) {
      if (other < warp) place += counts[other];
      found += counts[other];
    }
    const bool has_place = target >= 0 && place < room;
    if (has_place) {
      places[place] = int(row);
      own[place] = target;
    }
    if (row < rows) ranks[row] = has_place ? int(place) : -1;
    __syncthreads();
  }
  for (unsigned i = found + threadIdx.x; i < room; i += answering_threads) {
    places[i] = -1;
    own[i] = -1;
  }
}

constexpr unsigned row_threads = 1024;  // of a block, for a row of a wide vocabulary
constexpr unsigned ahead = 8;           // loads in flight

/// The maximum over a block's threads, the first of equals, returned to every thread.
__device__ void find_largest(Largest& own) {
  __shared__ Largest of_warps[row_threads / 32];
  own.share_in_warp();
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = own;
  __syncthreads();
  for (const Largest& of_warp : of_warps) own.take(of_warp);
}

// One block a row, which stays in shared memory if it fits (`is_held`), so that it is read once and written once.
__global__ void __launch_bounds__(row_threads)
    cross_entropy_rows_kernel(Rows<float> logits, EntropyTargets in, bool to_gradients, bool is_held, float* losses,
                              int* hits) {
  wait_for_previous_kernel();
  extern __shared__ float held[];
  __shared__ float sums[32];
  float* row = &logits.at(blockIdx.x, 0);
  const int target = in.targets[blockIdx.x];
  if (target < 0) {
    for (unsigned column = threadIdx.x; to_gradients && column < in.columns; column += row_threads) row[column] = 0;
    if (threadIdx.x == 0) {
      losses[blockIdx.x] = 0;
      hits[blockIdx.x] = 0;
    }
    return;
  }
  const float own = row[target];
  Largest top{-INFINITY, in.columns};
  for (unsigned begin = threadIdx.x; begin < in.columns; begin += ahead * row_threads) {
    float some[ahead];
    unrolled<ahead>([&](unsigned k) {
      const unsigned column = begin + k * row_threads;
      some[k] = column < in.columns ? row[column] : -INFINITY;
    });
    unrolled<ahead>([&](unsigned k) {
      const unsigned column = begin + k * row_threads;
      if (column >= in.columns) return;
      if (is_held) held[column] = some[k];
      if (some[k] > top.number) top = {some[k], column};
    });
  }
  find_largest(top);
  const float largest = top.number;
  // Every thread reads what it wrote itself.
  const float* from = is_held ? held : row;
  float sum = 0;
  for (unsigned column = threadIdx.x; column < in.columns; column += row_threads) sum += expf(from[column] - largest);
  sum = block_sum(sum, sums);
  if (threadIdx.x == 0) {
    losses[blockIdx.x] = logf(sum) + largest - own;
    hits[blockIdx.x] = int(top.column) == target ? 3 : 1;
  }
  if (!to_gradients) return;
  const float inverse = 1.0f / sum;
  for (unsigned column = threadIdx.x; column < in.columns; column += row_threads) {
    const float hit = int(column) == target ? 1.0f : 0.0f;
    row[column] = expf(from[column] - largest) * inverse - hit;
  }
}

__global__ void __launch_bounds__(threads)
    cross_entropy_mean_kernel(const float* losses, const int* hits, unsigned rows, float* loss, int* correct,
                              int* counted) {
  wait_for_previous_kernel();
  mean_of_rows(losses, hits, rows, loss, correct, counted);
}

// `width`: neighbouring numbers of a thread.
template <unsigned width>
void scale_sums(const CudaBackend& backend, const Rows<float>& sums, std::int64_t count, const float* dloss,
                const int* counted, const Sink& out) {
  map(backend, "cross_entropy_scale", count / width, [=, across = sums.columns / width] __device__(unsigned i) {
    const unsigned row = i / across, column = i % across * width;
    auto piece = Piece<width>::of(sums, row, column, true);
    const int used = *counted;
    const float factor = used > 0 ? *dloss / float(used) : 0.0f;
    unrolled<width>([&](unsigned e) { piece.v[e] = used > 0 ? factor * piece.v[e] : 0.0f; });
    piece.put(out, row, column);
  });
}

}  // namespace

void CudaBackend::gather_rows(const Tensor& places, const Tensor& a, const Tensor& b, const Tensor& y) {
  const auto count = unsigned(places.elements());
  if (count == 0) return;
  const dim3 grid(blocks_for(count, warps), blocks_for(a.columns(), 32 * gathered));
  with_stored_type(a, [&]<class T>(T) {
    launch(*this, "gather_rows", gather_rows_kernel<T>, grid, threads, places.as<int>(), rows_of<T>(a), rows_of(b),
           rows_of(y), count);
  });
}

void CudaBackend::embedding_backward(const Tensor& tokens, const Tensor& dy, const Grad& dtable) {
  if (!dtable.wanted()) return;
  products_.launch_kept_gradients();  // a collected gradient of a head that shares the table comes first
  const auto words = unsigned(dtable.tensor.rows()), count = unsigned(tokens.elements());
  unsigned* occurring = nullptr;
  if (words >= large_table && count > 0) {
    const std::size_t bits = blocks_for(words, 32);
    occurring = reinterpret_cast<unsigned*>(scratch(bits));
    check_cuda(cudaMemsetAsync(occurring, 0, bits * sizeof(unsigned), stream()), "clearing the words that occur");
    map(*this, "embedding_backward", count, [occurring, token = tokens.as<int>()] __device__(unsigned i) {
      atomicOr(occurring + token[i] / 32, 1u << (token[i] % 32));
    });
  }
  const auto kernel = dtable.tensor.columns() <= 128 ? embedding_backward_kernel<4> : embedding_backward_kernel<16>;
  launch(*this, "embedding_backward", kernel, words, threads, tokens.as<int>(), rows_of(dy), count, occurring,
         sink_of(dtable));
}

void CudaBackend::cross_entropy(const Tensor& logits, const Tensor& targets, const Tensor& probabilities,
                                const Tensor& loss, const Tensor& correct, const Tensor& counted) {
  const EntropyTargets in{targets.as<int>(), unsigned(logits.rows()), unsigned(logits.columns())};
  float* losses = scratch(2 * std::size_t{in.rows});
  const unsigned blocks = in.rows > 0 ? blocks_for(in.rows, warps) : 1;
  launch(*this, "cross_entropy", cross_entropy_kernel, blocks, threads, rows_of(logits), in, rows_of(probabilities),
         losses, reinterpret_cast<int*>(losses + in.rows), tickets_, loss.as<float>(), correct.as<int>(),
         counted.as<int>());
}

void CudaBackend::cross_entropy_backward(const Tensor& probabilities, const Tensor& targets, const Tensor& counted,
                                         const Tensor& dloss, const Grad& dlogits) {
  if (!dlogits.wanted() || probabilities.elements() == 0) return;
  map_rows(*this, "cross_entropy_backward", probabilities.rows(),
           [p = rows_of(probabilities), wanted = targets.as<int>(), used = counted.as<int>(),
            upstream = dloss.as<float>(), to = sink_of(dlogits)] __device__(unsigned row, unsigned lane) {
             const int target = wanted[row], rows = *used;
             const float factor = target >= 0 && rows > 0 ? *upstream / float(rows) : 0.0f;
             for (unsigned column = lane; column < p.columns; column += 32) {
               const float hit = int(column) == target ? 1.0f : 0.0f;
               to.put(row, column, factor == 0.0f ? 0.0f : factor * (p.at(row, column) - hit));
             }
           });
}

void CudaBackend::answered_rows(const Tensor& targets, const Tensor& places, const Tensor& own, const Tensor& ranks) {
  launch(*this, "answered_rows", answered_rows_kernel, 1, answering_threads, targets.as<int>(),
         unsigned(targets.elements()), places.as<int>(), own.as<int>(), unsigned(places.elements()), ranks.as<int>());
}

void CudaBackend::cross_entropy_rows(const Tensor& logits, const Tensor& targets, bool to_gradients,
                                     const Tensor& losses, const Tensor& hits) {
  if (logits.elements() == 0) return;
  const EntropyTargets in{targets.as<int>(), unsigned(logits.rows()), unsigned(logits.columns())};
  constexpr int of_block = 1024;  // the kernel's other shared memory
  const std::int64_t row_bytes = logits.columns() * std::int64_t(sizeof(float));
  const bool is_held = row_bytes <= max_shared_memory() - of_block;
  const int bytes = is_held ? int(row_bytes) : 0;
  launch("cross_entropy_rows", cross_entropy_rows_kernel, in.rows, row_threads, std::size_t(bytes), stream(),
         rows_of(logits), in, to_gradients, is_held, losses.as<float>(), hits.as<int>());
  launched("cross_entropy_rows");
}

void CudaBackend::cross_entropy_mean(const Tensor& losses, const Tensor& hits, const Tensor& loss,
                                     const Tensor& correct, const Tensor& counted) {
  launch(*this, "cross_entropy_mean", cross_entropy_mean_kernel, 1, threads, losses.as<float>(), hits.as<int>(),
         unsigned(losses.elements()), loss.as<float>(), correct.as<int>(), counted.as<int>());
}

void CudaBackend::cross_entropy_scale(const Tensor& sums, const Tensor& dloss, const Tensor& counted, const Grad& out) {
  if (!out.wanted() || sums.elements() == 0) return;
  const Rows<float> from = rows_of(sums);
  const Sink to = sink_of(out);
  with_either<4u, 1u>(from.columns % 4 == 0 && in_pieces<4>(from) && in_pieces<4>(to.rows), [&](auto width) {
    scale_sums<width>(*this, from, sums.elements(), dloss.as<float>(), counted.as<int>(), to);
  });
}

}  // namespace afterglow
