// Exact float32 products of moderate size, where cuBLAS leaves most of the GPU idle: the matrices of a training step
// have about a thousand rows and a few hundred columns. Small tiles fill the GPU, and groups of threads share the depth
// of a tile; their sums are added in a fixed order.
#include "gpu/cuda_backend.h"
#include "gpu/cuda_device.cuh"
#include "gpu/cuda_launch.cuh"

namespace afterglow {

using namespace device;

namespace {

constexpr unsigned tile = 32;          // rows and columns of a block's result
constexpr unsigned most_blocks = 640;  // beyond that the GPU is full and cuBLAS' larger tiles win
constexpr unsigned wide_blocks = 200;  // from here on small blocks win
constexpr unsigned across = tile / 4;  // threads along a side of the tile; each holds 4 x 4 numbers

/// How a block works through the depth: `groups` of 64 threads share a slab, `stages` slabs are in flight.
struct Deep {  // many groups for few tiles
  static constexpr unsigned groups = 4, slab = 128, stages = 2;
};
struct Wide {  // small blocks for many tiles
  static constexpr unsigned groups = 2, slab = 32, stages = 4;
};

struct Matrix {
  const float* data;
  unsigned stride;
  bool vector;  // 16-byte loads are possible
};

struct Product {
  Matrix a, b;
  unsigned rows, columns, depth;
  float alpha, beta;
  float* c;
  unsigned c_stride;
};

/// One slab of an operand in shared memory. Where lines run along the depth in memory (`deep`) they do here, else there
/// is a row for each depth. Rows of 16 bytes begin in different banks.
template <bool deep, unsigned slab>
struct Slab {
  static constexpr unsigned inner = deep ? slab : tile, outer = deep ? tile : slab, padded = inner + 4;
  static constexpr unsigned elements = outer * padded;

  /// Brings lines [first, first + tile) for depths [from, from + slab); what lies outside becomes zero.
  __device__ static void load(const Matrix& m, float* to, unsigned first, unsigned lines, unsigned from,
                              unsigned depth) {
    const unsigned inner_first = deep ? from : first, outer_first = deep ? first : from;
    const unsigned inner_end = deep ? depth : lines, outer_end = deep ? lines : depth;
    const unsigned width = m.vector ? 4 : 1, pieces = inner / width;
    for (unsigned i = threadIdx.x; i < outer * pieces; i += blockDim.x) {
      const unsigned o = i / pieces, n = i % pieces * width;
      const bool inside = outer_first + o < outer_end && inner_first + n < inner_end;
      const unsigned count = inside ? min(width, inner_end - inner_first - n) : 0;
      const float* source = inside ? m.data + std::size_t{outer_first + o} * m.stride + inner_first + n : m.data;
      const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to + o * padded + n));
      if (m.vector) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(source), "r"(count * 4));
      } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(source), "r"(count * 4));
      }
    }
  }

  /// Which line the i-th of a thread is.
  __device__ static unsigned line(unsigned thread, unsigned i) { return deep ? thread + across * i : 4 * thread + i; }

  /// Four depths of a thread's four lines.
  __device__ static void fetch(const float* data, unsigned thread, unsigned depth, float (&out)[4][4]) {
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      const float4 four = *reinterpret_cast<const float4*>(deep ? data + line(thread, i) * padded + depth
                                                                : data + (depth + i) * padded + 4 * thread);
      const float values[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (unsigned j = 0; j < 4; ++j) (deep ? out[i][j] : out[j][i]) = values[j];
    }
  }
};

template <class Plan, bool a_deep, bool b_deep>
constexpr unsigned product_bytes() {
  constexpr unsigned slabs = Plan::stages * (Slab<a_deep, Plan::slab>::elements + Slab<b_deep, Plan::slab>::elements);
  constexpr unsigned sums = Plan::groups * tile * (tile + 1);
  return (slabs > sums ? slabs : sums) * sizeof(float);
}

template <class Plan, bool a_deep, bool b_deep>
__global__ void __launch_bounds__(Plan::groups* across* across) product_kernel(Product p) {
  await_previous();
  using A = Slab<a_deep, Plan::slab>;
  using B = Slab<b_deep, Plan::slab>;
  extern __shared__ __align__(16) float memory[];
  const unsigned row = blockIdx.y * tile, column = blockIdx.x * tile;
  const unsigned group = threadIdx.x / (across * across), y = threadIdx.x / across % across, x = threadIdx.x % across;
  const unsigned count = (p.depth + Plan::slab - 1) / Plan::slab;
  const auto stage = [&](unsigned index) { return memory + index % Plan::stages * (A::elements + B::elements); };
  const auto bring = [&](unsigned index) {
    if (index < count) {
      A::load(p.a, stage(index), row, p.rows, index * Plan::slab, p.depth);
      B::load(p.b, stage(index) + A::elements, column, p.columns, index * Plan::slab, p.depth);
    }
    asm volatile("cp.async.commit_group;");
  };
  for (unsigned i = 0; i + 1 < Plan::stages; ++i) bring(i);
  float sum[4][4] = {};
  for (unsigned i = 0; i < count; ++i) {
    asm volatile("cp.async.wait_group %0;" ::"n"(Plan::stages - 2));
    __syncthreads();
    bring(i + Plan::stages - 1);
#pragma unroll 4
    for (unsigned part = 0; part < Plan::slab / Plan::groups; part += 4) {
      const unsigned depth = group * (Plan::slab / Plan::groups) + part;
      float a[4][4], b[4][4];  // [line][depth]
      A::fetch(stage(i), y, depth, a);
      B::fetch(stage(i) + A::elements, x, depth, b);
#pragma unroll
      for (unsigned k = 0; k < 4; ++k) {
#pragma unroll
        for (unsigned r = 0; r < 4; ++r) {
#pragma unroll
          for (unsigned c = 0; c < 4; ++c) sum[r][c] = fmaf(a[r][k], b[c][k], sum[r][c]);
        }
      }
    }
  }
  asm volatile("cp.async.wait_group 0;");
  __syncthreads();
  // The groups leave their sums, then a warp adds a row in the order of the groups.
  auto* sums = reinterpret_cast<float(*)[tile][tile + 1]>(memory);
#pragma unroll
  for (unsigned r = 0; r < 4; ++r) {
#pragma unroll
    for (unsigned c = 0; c < 4; ++c) sums[group][A::line(y, r)][B::line(x, c)] = sum[r][c];
  }
  __syncthreads();
  const unsigned lane = threadIdx.x % tile;
  if (column + lane >= p.columns) return;
  for (unsigned r = threadIdx.x / tile; r < tile && row + r < p.rows; r += blockDim.x / tile) {
    float total = sums[0][r][lane];
#pragma unroll
    for (unsigned g = 1; g < Plan::groups; ++g) total += sums[g][r][lane];
    float& place = p.c[std::size_t{row + r} * p.c_stride + column + lane];
    place = p.beta == 0.0f ? p.alpha * total : fmaf(p.beta, place, p.alpha * total);
  }
}

template <class Plan, bool a_deep, bool b_deep>
void launch_product(cudaStream_t stream, const Product& p) {
  constexpr unsigned bytes = product_bytes<Plan, a_deep, b_deep>();
  static const bool allowed = [] {
    allow_shared_memory(reinterpret_cast<const void*>(product_kernel<Plan, a_deep, b_deep>), bytes, "a product");
    return true;
  }();
  (void)allowed;
  const dim3 grid(blocks_for(p.columns, tile), blocks_for(p.rows, tile));
  launch(product_kernel<Plan, a_deep, b_deep>, grid, Plan::groups * across * across, bytes, stream, p);
}

Matrix matrix_of(const Tensor& tensor) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(tensor.data) % 16 == 0 && tensor.row_stride % 4 == 0;
  return {tensor.as<float>(), static_cast<unsigned>(tensor.row_stride), aligned};
}

}  // namespace

// With a transposed first operand, as in the gradients of weights, the depth is the number of rows: cuBLAS splits it
// well.
bool CudaBackend::small_product(bool transpose_a, bool transpose_b, double alpha, const Tensor& a, const Tensor& b,
                                double beta, const Tensor& c) {
  const auto rows = static_cast<unsigned>(c.rows()), columns = static_cast<unsigned>(c.columns());
  const unsigned blocks = blocks_for(rows, tile) * blocks_for(columns, tile);
  if (transpose_a || blocks > most_blocks || a.columns() == 0) return false;
  const Product p{matrix_of(a),
                  matrix_of(b),
                  rows,
                  columns,
                  static_cast<unsigned>(a.columns()),
                  static_cast<float>(alpha),
                  static_cast<float>(beta),
                  c.as<float>(),
                  static_cast<unsigned>(c.row_stride)};
  if (blocks > wide_blocks && transpose_b) {
    launch_product<Wide, true, true>(stream(), p);
  } else if (blocks > wide_blocks) {
    launch_product<Wide, true, false>(stream(), p);
  } else if (transpose_b) {
    launch_product<Deep, true, true>(stream(), p);
  } else {
    launch_product<Deep, true, false>(stream(), p);
  }
  launched("product");
  return true;
}

}  // namespace afterglow
