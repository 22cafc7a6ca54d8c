// Large fp32 projections and products on warp groups: x = s (big + rest) for each 64 x 64 square with its scale s, and
// x y = s s' (big big' + big rest' + rest big'). Splits matrices into such squares (split.cuh), a block each;
// hopper/product/ multiplies them.
#include <algorithm>
#include <utility>

#include "gpu/ops/product/split.cuh"
#include "gpu/runtime/kernel.cuh"
#include "gpu/tile/tiles.cuh"

namespace afterglow {
namespace device {
namespace {

constexpr unsigned fours = square / 4, held = square * fours / threads;  // of a row, and of a thread

// One block splits one square; sixteen threads a row.
__global__ void __launch_bounds__(threads) split_kernel(const __grid_constant__ Splittings all) {
  wait_for_previous_kernel();
  unsigned matrix = 0;
  while (matrix + 1 < all.count && blockIdx.x >= all.of[matrix + 1].first_block) ++matrix;
  const Splitting& own = all.of[matrix];
  const unsigned index = blockIdx.x - own.first_block, down = index / own.across, right = index % own.across;
  const unsigned first = threadIdx.x / fours, four = threadIdx.x % fours;
  float4 numbers[held];
  float peak = 0;
  unrolled<held>([&](unsigned i) {
    const unsigned row = down * square + first + i * (threads / fours);
    numbers[i] = read_four(own.from, own.stride, own.rows, own.columns, row, right * fours + four);
    peak = fmaxf(peak, largest(numbers[i]));
  });
  __shared__ float of_warps[threads / 32];
  const tiles::Scale scale(block_max(peak, of_warps));
  const std::size_t place = std::size_t{down} * own.to.across + right;
  if (threadIdx.x == 0) own.to.scales[place] = scale.down;
  unsigned char* const to = own.to.squares + place * square_bytes;
  unrolled<held>([&](unsigned i) {
    const unsigned row = first + i * (threads / fours);
    const float4& v = numbers[i];
    std::uint32_t big[2], rest[2];
    tiles::split(v.x * scale.up, v.y * scale.up, big[0], rest[0]);
    tiles::split(v.z * scale.up, v.w * scale.up, big[1], rest[1]);
    unsigned char* const own_place = to + row * (2 * square) + ((8 * four) ^ (row % 8 * 16));
    *reinterpret_cast<uint2*>(own_place) = make_uint2(big[0], big[1]);
    *reinterpret_cast<uint2*>(own_place + plane_bytes) = make_uint2(rest[0], rest[1]);
  });
}

/// Results whose partial sums lie one behind the other.
struct SharedResults {
  Sink to[max_products];
};

__global__ void __launch_bounds__(threads)
    add_shares_kernel(const __grid_constant__ SplitProducts p, const __grid_constant__ SharedResults results) {
  wait_for_previous_kernel();
  const SplitProduct& own = p.of[blockIdx.y];
  const unsigned count = own.rows * own.stride;
  for (unsigned i = blockIdx.x * threads + threadIdx.x; i < count; i += gridDim.x * threads) {
    float sum = 0;
#pragma unroll 8
    for (unsigned share = 0; share < p.shares; ++share) sum += own.c[std::size_t{share} * count + i];
    results.to[blockIdx.y].put(i, sum);
  }
}

}  // namespace

void Splittings::add(const Tensor& matrix, const SplitMatrix& to) {
  Splitting& next = of[count++];
  next.from = matrix.as<const float4>();
  next.to = to;
  next.rows = unsigned(matrix.rows());
  next.columns = unsigned(matrix.columns());
  next.stride = unsigned(matrix.row_stride / 4);
  next.first_block = blocks;
  next.across = unsigned(squares_for(matrix.columns()));
  blocks += next.across * unsigned(squares_for(matrix.rows()));
}

void SplitProducts::add(const SplitMatrix& a, const SplitMatrix& b, std::int64_t rows, std::int64_t columns, float* c,
                        std::int64_t stride, bool accumulate) {
  SplitProduct& next = of[count++];
  next.a = a;
  next.b = b;
  next.c = c;
  next.rows = unsigned(rows);
  next.columns = unsigned(columns);
  next.stride = unsigned(stride);
  next.accumulate = accumulate;
  next.first_tile = tiles;
  next.down = unsigned((squares_for(rows) + 1) / 2);
  tiles += next.down * TileSquares::count_for(unsigned(squares_for(columns)));
}

}  // namespace device

namespace {

using namespace device;

// Multiplications of projections, which are not compared with other kernels, and of a product that own tiles refused.
constexpr std::int64_t min_products = std::int64_t{1} << 31, min_single_product = std::int64_t{1} << 29;
constexpr std::int64_t full = 128;                                           // tiles of results that fill the GPU
constexpr unsigned max_shares = 16, min_share = 8;                           // of a depth, in squares
constexpr std::int64_t max_tiled_results = 1 << 22, max_tiled_depth = 4096;  // of products for own tiles (product.cu)
constexpr std::int64_t max_shared = 1 << 22;  // numbers of a single product's shares, in the scratch memory

std::int64_t squares_of_all(std::span<const Tensor> weights) {
  std::int64_t squares = 0;
  for (const Tensor& weight : weights) squares += squares_for(weight.rows());
  return squares;
}

/// Bytes of squares and their scales, in multiples of 1024.
std::size_t bytes_of_split(std::int64_t squares) {
  const auto count = std::size_t(squares);
  return count * square_bytes + (count * sizeof(float) + 1023) / 1024 * 1024;
}

bool can_split(std::span<const Tensor> matrices) {
  return std::all_of(matrices.begin(), matrices.end(), [](const Tensor& matrix) {
    return matrix.dtype == DType::f32 && reinterpret_cast<std::uintptr_t>(matrix.data) % 16 == 0 &&
           matrix.row_stride % 4 == 0 && matrix.elements() < std::int64_t{1} << 32;
  });
}
bool can_store(const Tensor& result) {
  return result.dtype == DType::f32 && reinterpret_cast<std::uintptr_t>(result.data) % 8 == 0 &&
         result.row_stride % 2 == 0 && result.columns() % 2 == 0;
}
/// Whether the gradient is contiguous, as its partial sums are.
bool can_gather(const Grad& gradient) {
  return !gradient.wanted() || (gradient.tensor.contiguous() && can_store(gradient.tensor));
}

std::int64_t tiles_of(std::int64_t down, std::int64_t across) {
  return (down + 1) / 2 * TileSquares::count_for(unsigned(across));
}

/// How many blocks should share the depth of each tile, in squares.
unsigned shares_of(std::int64_t tiles, std::int64_t depth) {
  return fullest_shares(tiles, std::min<std::int64_t>(max_shares, depth / min_share));
}
/// For the gradients of these weights, and for that of x.
unsigned shares_of_weights(const Tensor& x, std::span<const Tensor> weights) {
  std::int64_t tiles = 0;
  for (const Tensor& weight : weights) tiles += tiles_of(squares_for(weight.rows()), squares_for(x.columns()));
  return shares_of(tiles, squares_for(x.rows()));
}
unsigned shares_of_input(const Tensor& x, std::span<const Tensor> weights) {
  return shares_of(tiles_of(squares_for(x.rows()), squares_for(x.columns())), squares_of_all(weights));
}

/// Multiplies; with a shared depth each share goes to `memory`, and a second kernel adds the shares to the results.
void multiply_shared(CudaBackend& backend, SplitProducts& products, const SharedResults& results, float* memory,
                     bool a_deep, bool b_deep = false) {
  if (products.count == 0) return;
  if (products.shares > 1) {
    for (unsigned i = 0; i < products.count; ++i) {
      SplitProduct& product = products.of[i];
      product.accumulate = false;
      product.stride = product.columns;
      product.c = std::exchange(memory, memory + std::size_t{products.shares} * product.rows * product.columns);
    }
  }
  if constexpr (hopper_product) multiply_split(backend.stream(), products, a_deep, b_deep);
  if (products.shares > 1)
    launch(add_shares_kernel, dim3(4 * multiprocessors(), products.count), threads, 0, backend.stream(), products,
           results);
  backend.launched("large product");
}

/// Memory for split matrices, one behind the other.
struct SplitMemory {
  unsigned char* next;
  SplitMatrix take(std::int64_t down, std::int64_t across) {
    const auto squares = std::size_t(down * across);
    const SplitMatrix matrix{next, reinterpret_cast<float*>(next + squares * square_bytes), unsigned(across)};
    next += bytes_of_split(down * across);
    return matrix;
  }
};

void split(CudaBackend& backend, const Splittings& all) {
  launch(backend, "splitting", split_kernel, all.blocks, threads, all);
}

struct SplitOperands {
  Splittings all;
  SplitMatrix input, weights, gradients;
  float *of_weights = nullptr, *of_input = nullptr;  ///< shares of gradients

  /// `backward`: includes the gradients' operands and the shares of the weights' gradients.
  static std::size_t bytes(const Tensor& x, std::span<const Tensor> of, bool backward) {
    const std::int64_t rows = squares_for(x.rows()), columns = squares_for(x.columns()), outputs = squares_of_all(of);
    const std::size_t forward = bytes_of_split(rows * columns) + bytes_of_split(outputs * columns);
    if (!backward) return forward;
    return forward + bytes_of_split(rows * outputs) +
           sizeof(float) * (numbers_of_weights(x, of) + numbers_of_input(x, of));
  }
  SplitOperands(CudaBackend& backend, const Tensor& x, std::span<const Tensor> of,
                std::span<const Tensor> dresults = {}) {
    SplitMemory memory{static_cast<unsigned char*>(backend.operand_memory(bytes(x, of, !dresults.empty())))};
    input = memory.take(squares_for(x.rows()), squares_for(x.columns()));
    weights = memory.take(squares_of_all(of), squares_for(x.columns()));
    if (!dresults.empty()) {
      gradients = memory.take(squares_for(x.rows()), squares_of_all(of));
      of_weights = reinterpret_cast<float*>(memory.next);
      of_input = of_weights + numbers_of_weights(x, of);
    }
    all.add(x, input);
    for (std::int64_t first = 0; const Tensor& weight : of) {
      all.add(weight, weights.from(first, 0));
      first += squares_for(weight.rows());
    }
    for (std::int64_t first = 0; const Tensor& gradient : dresults) {
      all.add(gradient, gradients.from(0, first));
      first += squares_for(gradient.columns());
    }
    split(backend, all);
  }

 private:
  static std::size_t numbers_of_weights(const Tensor& x, std::span<const Tensor> of) {
    return shares_of_weights(x, of) * std::size_t(rows_of_all(of) * x.columns());
  }
  static std::size_t numbers_of_input(const Tensor& x, std::span<const Tensor> of) {
    const unsigned shares = shares_of_input(x, of);
    return shares > 1 ? shares * std::size_t(x.elements()) : 0;
  }
};

/// dweights[i] = dresults[i]^T x.
void multiply_gradients(CudaBackend& backend, const SplitOperands& operands, const LinearBackward& projections) {
  SplitProducts products;
  SharedResults results;
  products.depth = unsigned(squares_for(projections.x.rows()));
  products.shares = shares_of_weights(projections.x, projections.weights);
  const std::int64_t inputs = projections.x.columns();
  for (std::int64_t first = 0, i = 0; const Tensor& weight : projections.weights) {
    const Grad& gradient = projections.dweights[std::size_t(i++)];
    if (gradient.wanted()) {
      results.to[products.count] = sink_of(gradient);
      products.add(operands.gradients.from(0, first), operands.input, weight.rows(), inputs,
                   gradient.tensor.as<float>(), inputs, gradient.accumulate);
    }
    first += squares_for(weight.rows());
  }
  multiply_shared(backend, products, results, operands.of_weights, false);
}

}  // namespace

bool ProductPlanner::splits_projections(const Tensor& x, std::span<const Tensor> weights) const {
  return backend_.precision() == Precision::fp32 && splits_operands() && weights.size() <= max_products &&
         x.elements() * rows_of_all(weights) >= min_products &&
         tiles_of(squares_for(x.rows()), squares_of_all(weights)) >= full && can_split({&x, 1}) && can_split(weights);
}

std::size_t ProductPlanner::split_operands(const Tensor& x, std::span<const Tensor> weights) const {
  return splits_projections(x, weights) ? SplitOperands::bytes(x, weights, true) : 0;
}

bool ProductPlanner::project_split(const Tensor& x, std::span<const Tensor> weights, std::span<const Tensor> results) {
  if (!splits_projections(x, weights) || !std::all_of(results.begin(), results.end(), can_store)) return false;
  const SplitOperands operands(backend_, x, weights);
  SplitProducts products;
  products.depth = operands.input.across;
  for (std::int64_t first = 0; const Tensor& result : results) {
    products.add(operands.input, operands.weights.from(first, 0), x.rows(), result.columns(), result.as<float>(),
                 result.row_stride, false);
    first += squares_for(result.columns());
  }
  if constexpr (hopper_product) multiply_split(backend_.stream(), products, true, true);
  backend_.launched("large product");
  return true;
}

std::size_t ProductPlanner::split_product_operands(const Tensor& a, const Tensor& b, std::int64_t depth) const {
  if (backend_.precision() != Precision::fp32 || !splits_operands() || depth == 0) return 0;
  const std::int64_t results = a.elements() / depth * (b.elements() / depth);
  if (results * depth < min_single_product || (results <= max_tiled_results && depth <= max_tiled_depth)) return 0;
  return bytes_of_split(squares_for(a.rows()) * squares_for(a.columns())) +
         bytes_of_split(squares_for(b.rows()) * squares_for(b.columns()));
}

bool ProductPlanner::split_product(bool transpose_a, bool transpose_b, const Tensor& a, const Tensor& b,
                                   const Grad& c) {
  const std::int64_t depth = transpose_a ? a.rows() : a.columns(), rows = c.tensor.rows(), columns = c.tensor.columns();
  const std::size_t bytes = split_product_operands(a, b, depth);
  const Tensor operands[] = {a, b};
  if (bytes == 0 || (transpose_a && transpose_b) || !can_split(operands) || !can_store(c.tensor)) return false;
  SplitMemory memory{static_cast<unsigned char*>(backend_.operand_memory(bytes))};
  Splittings all;
  SplitMatrix matrices[2];
  for (int i = 0; i < 2; ++i) {
    matrices[i] = memory.take(squares_for(operands[i].rows()), squares_for(operands[i].columns()));
    all.add(operands[i], matrices[i]);
  }
  split(backend_, all);
  SplitProducts products;
  products.depth = unsigned(squares_for(depth));
  products.shares = std::min(shares_of(tiles_of(squares_for(rows), squares_for(columns)), products.depth),
                             unsigned(std::max<std::int64_t>(max_shared / (rows * columns), 1)));
  products.add(matrices[0], matrices[1], rows, columns, c.tensor.as<float>(), c.tensor.row_stride, c.accumulate);
  float* const shares = products.shares > 1 ? backend_.scratch(products.shares * std::size_t(rows * columns)) : nullptr;
  multiply_shared(backend_, products, {{sink_of(c)}}, shares, !transpose_a, transpose_b);
  return true;
}

bool CudaBackend::linear_backward_split(const LinearBackward& projections) {
  const auto& [dresults, weights, x, kept, dweights, dbiases, dx] = projections;
  if (!products_.splits_projections(x, weights) || !can_split(dresults) || !are_apart(dweights) ||
      !std::all_of(dweights.begin(), dweights.end(), can_gather) || (dx.wanted() && !can_store(dx.tensor)))
    return false;
  const SplitOperands operands(*this, x, weights, dresults);
  {
    const SideStream side(*this);
    side_reads_operands_ = true;
    multiply_gradients(*this, operands, projections);
    sum_biases(dresults, dbiases);
  }
  if (!dx.wanted()) return true;
  SplitProducts products;
  SharedResults results{{sink_of(dx)}};
  products.depth = operands.gradients.across;
  products.shares = shares_of_input(x, weights);
  products.add(operands.gradients, operands.weights, x.rows(), x.columns(), dx.tensor.as<float>(), dx.tensor.row_stride,
               dx.accumulate);
  multiply_shared(*this, products, results, operands.of_input, true);
  return true;
}

}  // namespace afterglow
