// Column sums: out[c] = sum over rows of value(row, c), the gradients of biases and of weights that all rows share.
// With many rows each block sums a range of rows into a partial sum a column and the last block of a tile adds the
// partial sums in order. With few rows one block sums all rows of eight columns.
#pragma once
#include "gpu/runtime/kernel.cuh"

namespace afterglow::device {

constexpr unsigned max_ranges = 64;  // ranges of rows; each range gives one partial sum a column
constexpr unsigned max_column_sums = 5;

struct ColumnSums {
  unsigned count = 0, max_columns = 0;
  unsigned columns[max_column_sums];
  unsigned first[max_column_sums];  // of the sum's columns in rows of partial sums
  Sink out[max_column_sums];
  void add(std::int64_t width, const Grad& to, unsigned place = 0) {
    if (!to.wanted()) return;
    columns[count] = unsigned(width);
    first[count] = place;
    out[count++] = sink_of(to);
    max_columns = columns[count - 1] > max_columns ? columns[count - 1] : max_columns;
  }
};

/// Sums value(which, row, column) over rows. Grid: (tiles of columns, ranges of rows, sums). The last block of a tile
/// adds the partial sums.
template <class Value>
__global__ void __launch_bounds__(threads) column_sum_kernel(unsigned rows, ColumnSums sums_of, unsigned width,
                                                             float* partials, unsigned* tickets, Value value) {
  wait_for_previous_kernel();
  __shared__ float sums[threads];
  const unsigned which = blockIdx.z, columns = sums_of.columns[which], first = blockIdx.x * width;
  if (first >= columns) return;
  const unsigned lane = threadIdx.x % width, group = threadIdx.x / width, groups = threads / width;
  const unsigned column = first + lane;
  float sum = 0;
  if (column < columns) {
    const unsigned step = gridDim.y * groups;
#pragma unroll 4
    for (unsigned row = blockIdx.y * groups + group; row < rows; row += step) sum += value(which, row, column);
  }
  partials += std::size_t{which} * max_ranges * sums_of.max_columns;
  sums[threadIdx.x] = sum;
  for (unsigned half = groups / 2; half > 0; half /= 2) {
    __syncthreads();
    if (group < half) sums[threadIdx.x] += sums[threadIdx.x + half * width];
  }
  if (group == 0 && column < columns) partials[blockIdx.y * std::size_t{columns} + column] = sums[threadIdx.x];
  if (!is_last_block(&tickets[which * gridDim.x + blockIdx.x], gridDim.y)) return;
  sum_partials(partials, gridDim.y, columns, first, min(width, columns - first),
               [&](unsigned c, float total) { sums_of.out[which].put(c, total); });
}

constexpr unsigned narrow_block = 1024, narrow_columns = 8, max_narrow_rows = 4096;

/// Calls body with the number of rounds, as a compile-time constant, in which narrow_block / rounds threads do the work
/// of narrow_block. While several back ends share the GPU, a block of 1,024 threads waits until a multiprocessor is
/// empty.
template <class Body>
void with_rounds(const Body& body) {
  with_either<4u, 1u>(is_gpu_shared(), body);
}

/// Adds, over the narrow_block threads of all rounds, the sums of eight columns, or of eight times `width` neighbouring
/// ones, and calls finish(column, sum). Neighbouring threads hold neighbouring columns; sums[r] belongs to the thread
/// that a full block would have at threadIdx.x + r * blockDim.x.
template <unsigned rounds, unsigned width, class Finish>
__device__ void finish_narrow_sums(const float (&sums)[rounds][width], unsigned columns, const Finish& finish) {
  constexpr unsigned block = narrow_block / rounds, columns_of_block = narrow_columns * width;
  __shared__ float of_warps[32][columns_of_block + 1];
  unrolled<rounds, width>([&](unsigned round, unsigned e) {
    float sum = sums[round][e];
    for (unsigned offset = 16; offset >= narrow_columns; offset /= 2) sum += __shfl_xor_sync(full_warp, sum, offset);
    const unsigned warp = (round * block + threadIdx.x) / 32;
    if (threadIdx.x % 32 < narrow_columns) of_warps[warp][threadIdx.x % 32 * width + e] = sum;
  });
  __syncthreads();
  for (unsigned column = threadIdx.x / 32; column < columns_of_block; column += block / 32) {
    const float total = warp_sum(of_warps[threadIdx.x % 32][column]);
    const unsigned own = blockIdx.x * columns_of_block + column;
    if (threadIdx.x % 32 == 0 && own < columns) finish(own, total);
  }
}

/// The same for few rows, without partial sums: a block sums all rows of eight columns.
template <class Value>
__global__ void __launch_bounds__(narrow_block) narrow_sum_kernel(unsigned rows, ColumnSums sums_of, Value value) {
  wait_for_previous_kernel();
  constexpr unsigned step = narrow_block / narrow_columns;
  const unsigned which = blockIdx.y, columns = sums_of.columns[which];
  if (blockIdx.x * narrow_columns >= columns) return;
  const unsigned column = blockIdx.x * narrow_columns + threadIdx.x % narrow_columns;
  float sum = 0;
  if (column < columns) {
#pragma unroll 8
    for (unsigned row = threadIdx.x / narrow_columns; row < rows; row += step) sum += value(which, row, column);
  }
  finish_narrow_sums<1, 1>({{sum}}, columns, [&](unsigned c, float total) { sums_of.out[which].put(c, total); });
}

/// Sums value(which, row, column) over rows. Partial sums lie in the scratch memory behind the `used` numbers of the
/// caller; errors name the operation `what`.
template <class Value>
void column_sums_each(const CudaBackend& backend, const char* what, std::int64_t rows, const ColumnSums& sums,
                      const Value& value, std::size_t used = 0) {
  if (sums.max_columns == 0) return;
  if (rows <= max_narrow_rows)
    return launch(backend, what, narrow_sum_kernel<Value>,
                  dim3(blocks_for(sums.max_columns, narrow_columns), sums.count), narrow_block, unsigned(rows), sums,
                  value);
  unsigned width = 4;
  while (width < sums.max_columns && width < 32) width *= 2;
  const unsigned ranges = at_most(blocks_for(rows, threads / width * 4), max_ranges);
  float* const partials = backend.scratch(used + std::size_t{max_ranges} * sums.count * sums.max_columns) + used;
  launch(backend, what, column_sum_kernel<Value>, dim3(blocks_for(sums.max_columns, width), ranges, sums.count),
         threads, unsigned(rows), sums, width, partials, backend.tickets(), value);
}

/// Adds the partial sums that blocks left, rows of `width` numbers; `used` as above.
inline void add_partials(const CudaBackend& backend, const char* what, const float* partials, unsigned rows,
                         unsigned width, const ColumnSums& sums, std::size_t used = 0) {
  const auto value = [=] __device__(unsigned which, unsigned row, unsigned column) {
    return partials[row * std::size_t{width} + sums.first[which] + column];
  };
  column_sums_each(backend, what, rows, sums, value, used);
}

/// The same for one sum of value(row, column).
template <class Value>
void column_sums(const CudaBackend& backend, const char* what, std::int64_t rows, std::int64_t columns, const Grad& out,
                 const Value& value, std::size_t used = 0) {
  ColumnSums sums;
  sums.add(columns, out);
  const auto each = [value] __device__(unsigned, unsigned row, unsigned column) { return value(row, column); };
  column_sums_each(backend, what, rows, sums, each, used);
}

}  // namespace afterglow::device
