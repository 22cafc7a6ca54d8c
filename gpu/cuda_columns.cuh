// Sums over rows, for every column: the gradients of biases and weights that all rows share.
#pragma once
#include "core/tensor/tensor.h"
#include "gpu/cuda_device.cuh"
#include "gpu/cuda_launch.cuh"

namespace afterglow::device {

constexpr unsigned most_ranges = 64;  // ranges of rows; each leaves one partial sum a column

/// Sums value(row, column) over rows. A block takes a tile of columns and every so many rows; the last block of a tile
/// adds the partial sums.
template <class Value>
__global__ void __launch_bounds__(threads)
    column_sum_kernel(unsigned rows, unsigned columns, unsigned width, float* partials, unsigned* tickets, Sink out,
                      Value value) {
  await_previous();
  __shared__ float sums[threads];
  const unsigned lane = threadIdx.x % width, group = threadIdx.x / width, groups = threads / width;
  const unsigned column = blockIdx.x * width + lane;
  float sum = 0;
  if (column < columns) {
    const unsigned step = gridDim.y * groups;
#pragma unroll 4
    for (unsigned row = blockIdx.y * groups + group; row < rows; row += step) sum += value(row, column);
  }
  if (!out.wanted()) return;
  sums[threadIdx.x] = sum;
  for (unsigned half = groups / 2; half > 0; half /= 2) {
    __syncthreads();
    if (group < half) sums[threadIdx.x] += sums[threadIdx.x + half * width];
  }
  if (group == 0 && column < columns) partials[blockIdx.y * std::size_t{columns} + column] = sums[threadIdx.x];
  if (!is_last_block(&tickets[blockIdx.x], gridDim.y)) return;
  const unsigned first = blockIdx.x * width;
  sum_partials(partials, gridDim.y, columns, first, min(width, columns - first),
               [&](unsigned c, float total) { out.put(c, total); });
}

constexpr unsigned narrow_block = 1024, narrow_columns = 8, most_narrow_rows = 4096;

/// Hands the block's sums of eight columns, column after column with the thread, to finish(column, sum).
template <class Finish>
__device__ void finish_narrow_sums(float sum, unsigned columns, const Finish& finish) {
  __shared__ float sums[32][narrow_columns];
  for (unsigned offset = 16; offset >= narrow_columns; offset /= 2) sum += __shfl_xor_sync(full_warp, sum, offset);
  if (threadIdx.x % 32 < narrow_columns) sums[threadIdx.x / 32][threadIdx.x % 32] = sum;
  __syncthreads();
  if (threadIdx.x >= 32 * narrow_columns) return;
  const float total = warp_sum(sums[threadIdx.x % 32][threadIdx.x / 32]);
  const unsigned own = blockIdx.x * narrow_columns + threadIdx.x / 32;
  if (threadIdx.x % 32 == 0 && own < columns) finish(own, total);
}

/// The same for few rows, without partial sums: a block takes eight columns and all rows.
template <class Value>
__global__ void __launch_bounds__(narrow_block)
    narrow_sum_kernel(unsigned rows, unsigned columns, Sink out, Value value) {
  await_previous();
  constexpr unsigned step = narrow_block / narrow_columns;
  const unsigned column = blockIdx.x * narrow_columns + threadIdx.x % narrow_columns;
  float sum = 0;
  if (column < columns) {
#pragma unroll 8
    for (unsigned row = threadIdx.x / narrow_columns; row < rows; row += step) sum += value(row, column);
  }
  if (!out.wanted()) return;
  finish_narrow_sums(sum, columns, [&](unsigned c, float total) { out.put(c, total); });
}

/// `partials` holds most_ranges numbers a column.
template <class Value>
void column_sums(cudaStream_t stream, std::int64_t rows, std::int64_t columns, float* partials, unsigned* tickets,
                 const Grad& out, const Value& value) {
  if (columns == 0) return;
  if (rows <= most_narrow_rows) {
    launch(narrow_sum_kernel<Value>, blocks_for(columns, narrow_columns), narrow_block, 0, stream,
           static_cast<unsigned>(rows), static_cast<unsigned>(columns), sink_of(out), value);
    return;
  }
  unsigned width = 4;
  while (width < columns && width < 32) width *= 2;
  const unsigned ranges = rows > 0 ? at_most(blocks_for(rows, threads / width * 4), most_ranges) : 1;
  launch(column_sum_kernel<Value>, dim3(blocks_for(columns, width), ranges), threads, 0, stream,
         static_cast<unsigned>(rows), static_cast<unsigned>(columns), width, partials, tickets, sink_of(out), value);
}

}  // namespace afterglow::device
