// Large projections y_i = x w_i^T and their gradients with operands rounded to halves or bfloat16, multiplied by
// cuBLAS. Rounding takes one pass: a sample of the numbers gives a scale with headroom; when a number overflows it, a
// second kernel rounds its kind again. bfloat16 needs no scale. Grid: blocks in proportion to each matrix.
#include <algorithm>
#include <utility>

#include "gpu/ops/product/rounded.cuh"
#include "gpu/tile/map.cuh"

namespace afterglow {
namespace device {
namespace {

constexpr unsigned ahead = 4;     // loads in flight
constexpr unsigned together = 6;  // blocks of a multiprocessor

__device__ const Rounding& matrix_of_block(const Roundings& all, unsigned block) {
  unsigned i = 0;
  while (i + 1 < all.count && block >= all.of[i + 1].first_block) ++i;
  return all.of[i];
}

__device__ inline float4 read_four(const Rounding& own, unsigned row, unsigned four) {
  return device::read_four(own.from, own.from_stride, own.rows, own.columns, row, four);
}

/// Calls take(row, column, numbers) for every four numbers of this thread, columns counted in fours; calls meanwhile()
/// once while the first loads are in flight.
template <class Meanwhile, class Take>
__device__ void each_four(const Rounding& own, unsigned block, const Meanwhile& meanwhile, const Take& take) {
  const unsigned step = own.blocks * threads, first = (block - own.first_block) * threads + threadIdx.x;
  float4 fours[ahead];
  unsigned rows[ahead], columns[ahead];
  const auto read = [&](unsigned begin) {
    unrolled<ahead>([&](unsigned k) {
      const unsigned i = begin + k * step;
      rows[k] = own.across.quotient(i);
      columns[k] = i - rows[k] * own.across.divisor;
      if (i < own.count) fours[k] = read_four(own, rows[k], columns[k]);
    });
  };
  read(first);
  meanwhile();
  for (unsigned begin = first; begin < own.count; begin += ahead * step) {
    if (begin != first) read(begin);
    unrolled<ahead>([&](unsigned k) {
      if (begin + k * step < own.count) take(rows[k], columns[k], fours[k]);
    });
  }
}

/// A sample of the numbers of a kind, spread evenly over its matrices; the same in every block.
template <unsigned each>
struct Sample {
  float4 fours[each] = {};  // of a thread
  __device__ Sample(const Roundings& all, unsigned kind) {
    const unsigned width = (all.fours[kind] + each * threads - 1) / (each * threads);
#pragma unroll
    for (unsigned k = 0; k < each; ++k) {
      const unsigned share = k * threads + threadIdx.x;
      unsigned place = share * width + __umulhi(share * 2654435761u, width);
      for (unsigned i = 0; i < all.count; ++i) {
        const Rounding& own = all.of[i];
        if (unsigned(own.kind) != kind) continue;
        if (place < own.count) {
          const unsigned row = own.across.quotient(place);
          fours[k] = read_four(own, row, place - row * own.across.divisor);
          break;
        }
        place -= own.count;
      }
    }
  }
  /// The number that the kind's scale is made for: the largest of the sample times the headroom. Returned to the whole
  /// block.
  __device__ float bound(float room_above) const {
    __shared__ float of_warps[threads / 32];
    float peak = 0;
    for (const float4& four : fours) peak = fmaxf(peak, largest(four));
    __syncthreads();  // the maxima of the previous kind have been read
    return room_above * block_max(peak, of_warps);
  }
};

/// Stores the scales made for the given number of each kind; one thread calls.
__device__ void note_scales(const Roundings& all, const float (&bounds)[kinds]) {
  float downs[kinds];
  unrolled<kinds>([&](unsigned kind) {
    const RoundedScales* const before = all.before[kind];
    all.scales->down[kind] = downs[kind] = before != nullptr ? before->down[kind] : tiles::Scale(bounds[kind]).down;
  });
  unrolled<kinds>(
      [&](unsigned kind) { all.scales->product[kind] = downs[(kind + 1) % kinds] * downs[(kind + 2) % kinds]; });
  all.scales->zero = 0;
  all.scales->one = 1;
}

template <unsigned each>
__device__ void note_tried_scales(const Roundings& all) {
  float bounds[kinds];
  for (unsigned kind = 0; kind < kinds; ++kind)
    bounds[kind] = all.fours[kind] > 0 ? Sample<each>(all, kind).bound(all.room_above) : 0.0f;
  if (threadIdx.x == 0) note_scales(all, bounds);
}

__device__ void put_halves(const Rounding& own, float up, unsigned row, unsigned column, const float4& v) {
  own.to[std::size_t{row} * own.to_stride + column] =
      make_uint2(tiles::halves_of(v.x * up, v.y * up), tiles::halves_of(v.z * up, v.w * up));
}

constexpr float max_half = 65504;

// Rounds with the scale of a sample, `each` fours a thread, and reports numbers that overflow.
template <unsigned each>
__global__ void __launch_bounds__(threads, together) try_halves_kernel(Roundings all) {
  wait_for_previous_kernel();
  const Rounding& own = matrix_of_block(all, blockIdx.x);
  const auto kind = unsigned(own.kind);
  const Sample<each> sample(all, kind);
  float up = 0, peak = 0;
  each_four(
      own, blockIdx.x, [&] { up = tiles::Scale(sample.bound(all.room_above)).up; },
      [&](unsigned row, unsigned column, const float4& v) {
        put_halves(own, up, row, column, v);
        peak = fmaxf(peak, largest(v));
      });
  peak = warp_max(peak);
  if (threadIdx.x % 32 == 0 && !(peak * up <= max_half)) atomicMax(&all.board->too_large[kind], __float_as_uint(peak));
  if (blockIdx.x == 0) note_tried_scales<each>(all);
}

// Rounds kinds with overflows again; rarely needed.
template <unsigned each>
__global__ void __launch_bounds__(threads) check_halves_kernel(Roundings all) {
  wait_for_previous_kernel();
  float peaks[kinds];
  unrolled<kinds>([&](unsigned kind) { peaks[kind] = __uint_as_float(__ldcg(&all.board->too_large[kind])); });
  if (peaks[0] == 0 && peaks[1] == 0 && peaks[2] == 0) return;
  float bounds[kinds];
  for (unsigned kind = 0; kind < kinds; ++kind)
    bounds[kind] =
        peaks[kind] > 0 || all.fours[kind] == 0 ? peaks[kind] : Sample<each>(all, kind).bound(all.room_above);
  if (blockIdx.x == 0 && threadIdx.x == 0) note_scales(all, bounds);
  for (unsigned block = blockIdx.x; block < all.blocks; block += gridDim.x) {
    const Rounding& own = matrix_of_block(all, block);
    unrolled<kinds>([&](unsigned kind) {
      if (peaks[kind] == 0 || unsigned(own.kind) != kind) return;
      const float up = tiles::Scale(peaks[kind]).up;
      each_four(
          own, block, [] {},
          [&](unsigned row, unsigned column, const float4& v) { put_halves(own, up, row, column, v); });
    });
  }
  if (is_last_block(&all.board->ticket, gridDim.x) && threadIdx.x == 0) *all.board = {};
}

__global__ void __launch_bounds__(threads) round_to_bfloat16_kernel(Roundings all) {
  wait_for_previous_kernel();
  if (blockIdx.x == 0 && threadIdx.x < kinds) {
    all.scales->down[threadIdx.x] = all.scales->product[threadIdx.x] = 1;
    all.scales->zero = 0;
    all.scales->one = 1;
  }
  const Rounding& own = matrix_of_block(all, blockIdx.x);
  each_four(
      own, blockIdx.x, [] {},
      [&](unsigned row, unsigned column, const float4& v) {
        own.to[std::size_t{row} * own.to_stride + column] = make_uint2(bf16_pair(v.x, v.y), bf16_pair(v.z, v.w));
      });
}

/// Parts of a matrix, one below the other, that are copied to gradients.
struct Parts {
  const float* from = nullptr;
  unsigned first[max_products + 1] = {};  ///< numbers before each
  Sink to[max_products];
};

__global__ void __launch_bounds__(threads) hand_out_kernel(Parts parts) {
  wait_for_previous_kernel();
  const unsigned first = parts.first[blockIdx.y], count = parts.first[blockIdx.y + 1] - first;
  for (unsigned i = blockIdx.x * threads + threadIdx.x; i < count; i += gridDim.x * threads)
    parts.to[blockIdx.y].put(i, parts.from[first + i]);
}

}  // namespace

void Roundings::add(const Tensor& matrix, Kind kind, const Halves& to) {
  Rounding& next = of[count++];
  next.from = matrix.as<const float4>();
  next.to = static_cast<uint2*>(to.data);
  next.count = unsigned(to.rows * to.columns / 4);
  next.across = Division(unsigned(to.columns / 4));
  next.rows = unsigned(matrix.rows());
  next.columns = unsigned(matrix.columns());
  next.from_stride = unsigned(matrix.row_stride / 4);
  next.to_stride = unsigned(to.stride / 4);
  next.first_block = blocks;
  next.blocks = at_most(blocks_for(next.count, 2 * threads), together * multiprocessors());
  next.kind = kind;
  blocks += next.blocks;
  fours[unsigned(kind)] += next.count;
}

}  // namespace device

namespace {

using namespace device;

constexpr std::int64_t max_handed_out = std::int64_t{1}
                                        << 22;  // gradients that are computed as one product and then copied
// Smaller products do not repay rounding to halves: narrow inputs are memory-bound.
constexpr std::int64_t min_products = std::int64_t{1} << 27, min_depth = 384;
// In bf16 all products that own tiles refuse round their operands.
constexpr std::int64_t min_bf16_products = std::int64_t{1} << 26, min_bf16_depth = 64;
// Of all weights; fewer go to own tiles, in tf32 many more than in bf16.
constexpr std::int64_t min_rounded_weights = std::int64_t{1} << 23, min_bf16_weights = std::int64_t{1} << 20;
constexpr float room_above_weights = 1024;                  // weights of norms and decays are far larger than most
constexpr unsigned min_looked_at_well = 1 << 21;            // fours of all matrices; with fewer a thread samples one
constexpr std::int64_t min_padded = std::int64_t{1} << 20;  // numbers of a result whose rows are padded

/// Rounds up to whole vectors of 16-bit numbers.
std::int64_t padded(std::int64_t columns) { return (columns + 7) / 8 * 8; }

Halves stored_halves(const Tensor& matrix) {
  return {matrix.data, matrix.rows(), padded(matrix.columns()), matrix.row_stride};
}

/// Gradients stored rounded in common rows, as one matrix.
Tensor side_by_side(std::span<const Tensor> parts) {
  Tensor all = parts.front();
  std::int64_t columns = 0;
  for (const Tensor& part : parts) columns += part.columns();
  all.shape = {all.rows(), columns};
  return all;
}

/// Clears the padding of a gradient that is multiplied as stored.
void clear_padding(const CudaBackend& backend, const Tensor& gradient) {
  const auto columns = unsigned(gradient.columns()), stride = unsigned(gradient.row_stride);
  if (stride == columns) return;
  map(backend, "clearing padding", gradient.rows(), [=, to = gradient.as<Bf16>()] __device__(unsigned row) {
    for (unsigned column = columns; column < stride; ++column) to[row * std::size_t{stride} + column] = Bf16(0.0f);
  });
}

/// Whether rows can be read by fours, or, of a stored matrix, multiplied.
bool can_round(const Tensor& matrix) {
  return reinterpret_cast<std::uintptr_t>(matrix.data) % 16 == 0 &&
         matrix.row_stride % (is_narrow(matrix) ? 8 : 4) == 0 && matrix.elements() < std::int64_t{1} << 32;
}
bool can_round(std::span<const Tensor> matrices) {
  return std::all_of(matrices.begin(), matrices.end(), [](const Tensor& matrix) { return can_round(matrix); });
}

std::int64_t padded_rows(std::span<const Tensor> matrices) { return padded(rows_of_all(matrices)); }

std::size_t bytes_of_halves(std::int64_t rows, std::int64_t columns) {
  return (std::size_t(rows * columns) * sizeof(__half) + 255) / 256 * 256;
}

/// Size in floats of a rounded matrix with its scales.
std::int64_t numbers_of_rounded(std::int64_t rows, std::int64_t columns) {
  return std::int64_t((bytes_of_scales + bytes_of_halves(rows, columns)) / sizeof(float));
}

/// The result with the padding that a plan gave its rows; products may write it, since whole vectors are
/// faster.
Tensor with_padding(const Tensor& result) {
  const std::int64_t whole = padded(result.columns());
  if (result.row_stride != whole || whole == result.columns()) return result;
  return {result.data, {result.rows(), whole}, result.dtype};
}

struct Room {
  std::byte* next;
  RoundedScales* scales() { return reinterpret_cast<RoundedScales*>(std::exchange(next, next + bytes_of_scales)); }
  Halves halves(std::int64_t rows, std::int64_t columns) {
    return {std::exchange(next, next + bytes_of_halves(rows, columns)), rows, columns, columns};
  }
};

Halves some_rows(const Halves& of, std::int64_t first, std::int64_t count) {
  return {static_cast<__half*>(of.data) + first * of.stride, count, of.columns, of.stride};
}
Halves some_columns(const Halves& of, std::int64_t first, std::int64_t count) {
  return {static_cast<__half*>(of.data) + first, of.rows, count, of.stride};
}

void add_weights(Roundings& all, std::span<const Tensor> weights, const Halves& to) {
  std::int64_t row = 0;
  for (const Tensor& weight : weights) {
    all.add(weight, Kind::weight, some_rows(to, row, padded(weight.rows())));
    row += weight.rows();
  }
}
void add_gradients(Roundings& all, std::span<const Tensor> gradients, const Halves& to) {
  std::int64_t column = 0;
  for (const Tensor& gradient : gradients) {
    all.add(gradient, Kind::result, some_columns(to, column, padded(gradient.columns())));
    column += gradient.columns();
  }
}

/// These weights one below the other, as rounded for the step; without data when they were not rounded.
Halves rounded_before(const RoundedWeights& all, std::span<const Tensor> weights) {
  if (!all.cover(weights)) return {};
  Room room{all.rounded.as<std::byte>()};
  room.scales();
  const std::int64_t columns = weights[0].columns();
  auto* const data = static_cast<__half*>(room.halves(1, all.values.elements()).data);
  return {data + (weights[0].as<float>() - all.values.as<float>()), padded_rows(weights), columns, columns};
}

/// The operands of projections' backward pass, and the matrices to be rounded for it.
struct BackwardOperands {
  Roundings all;
  Halves gradients, weights, input;

  /// Includes room for operands that are stored rounded and need none.
  static std::size_t bytes(const Tensor& x, std::span<const Tensor> weights, const Tensor& kept) {
    const std::int64_t outputs = padded_rows(weights);
    return bytes_of_scales + bytes_of_halves(x.rows(), outputs) + bytes_of_halves(outputs, x.columns()) +
           (kept.defined() || is_narrow(x) ? 0 : bytes_of_halves(x.rows(), x.columns()));
  }
  /// `of_step`: the weights rounded once for the step.
  BackwardOperands(const LinearBackward& projections, const RoundedWeights& of_step, void* memory) {
    const std::int64_t outputs = padded_rows(projections.weights), rows = projections.x.rows(),
                       columns = projections.x.columns();
    Room room{static_cast<std::byte*>(memory)};
    all.scales = room.scales();
    weights = rounded_before(of_step, projections.weights);
    const bool is_rounded = weights.data != nullptr;
    if (is_rounded) {
      all.before[unsigned(Kind::weight)] = of_step.rounded.as<RoundedScales>();
    } else {
      weights = room.halves(outputs, columns);
    }
    if (is_narrow(projections.dresults[0])) {
      gradients = stored_halves(side_by_side(projections.dresults));
    } else {
      gradients = room.halves(rows, outputs);
      add_gradients(all, projections.dresults, gradients);
    }
    Room kept{projections.kept.as<std::byte>()};
    if (is_narrow(projections.x)) {
      input = stored_halves(projections.x);
      if (projections.kept.defined()) {
        RoundedScales* const of_kept = kept.scales();
        if (all.count == 0) all.scales = of_kept;
        weights = kept.halves(outputs, columns);
        return;
      }
    } else if (projections.kept.defined()) {
      all.before[unsigned(Kind::input)] = kept.scales();
      input = kept.halves(rows, columns);
    } else {
      input = room.halves(rows, columns);
      all.add(projections.x, Kind::input, input);
    }
    if (!is_rounded) add_weights(all, projections.weights, weights);
    if (all.count == 0) all.scales = of_step.rounded.as<RoundedScales>();
  }
};

}  // namespace

void ProductPlanner::round_operands(Roundings& all) {
  if (all.count == 0) return;
  if (backend_.precision() == Precision::bf16) {
    return launch(backend_, "rounding to bfloat16", round_to_bfloat16_kernel, all.blocks, threads, all);
  }
  all.board = reinterpret_cast<RoundingBoard*>(backend_.tickets());
  // Small matrices have as many blocks, which would sample more numbers than they round.
  with_either<1u, 2u>(all.fours[0] + all.fours[1] + all.fours[2] < min_looked_at_well, [&](auto each) {
    launch(try_halves_kernel<each>, all.blocks, threads, 0, backend_.stream(), all);
    launch(check_halves_kernel<each>, std::min(all.blocks, multiprocessors()), threads, 0, backend_.stream(), all);
  });
  backend_.launched("rounding to halves");
}

bool ProductPlanner::rounds_projections(const Tensor& x, std::span<const Tensor> weights) const {
  return weights.size() <= max_products && rounds_inputs(x, padded_rows(weights)) && can_round(weights) &&
         (weights.size() == 1 ||
          std::all_of(weights.begin(), weights.end(), [](const Tensor& weight) { return weight.rows() % 8 == 0; }));
}

bool ProductPlanner::rounds_inputs(const Tensor& x, std::int64_t outputs) const {
  if (is_narrow(x)) return true;
  const bool is_bf16 = backend_.precision() == Precision::bf16;
  return backend_.precision() != Precision::fp32 && x.columns() % 8 == 0 &&
         x.columns() >= (is_bf16 ? min_bf16_depth : min_depth) && can_round(x) &&
         x.elements() * outputs >= (is_bf16 ? min_bf16_products : min_products);
}

Plan CudaBackend::plan(const ProjectionCall& call) const {
  const auto& [x, weights, row_stride, kept] = call;
  const std::int64_t columns = rows_of_all(weights);
  // With rows aligned to whole vectors norms, convolutions and products read and write by fours.
  const bool is_padded = x.rows() * columns >= min_padded || is_narrow(x);
  Plan plan{.row_stride = is_padded ? padded(columns) : columns};
  if (!products_.rounds_projections(x, weights)) {
    plan.operands = std::int64_t(products_.split_operands(x, weights));
    return plan;
  }
  plan.operands = std::int64_t(BackwardOperands::bytes(x, weights, kept));
  const std::int64_t all = padded_rows(weights);
  const bool is_whole = (row_stride > 0 ? row_stride : columns) == all;  // whole vectors from row to row
  if (precision_ == Precision::bf16 && is_whole) plan.stored = Storage::narrow;
  if (!is_narrow(x) || !weights_of_step_.cover(weights))
    plan.kept = numbers_of_rounded(is_narrow(x) ? all : x.rows(), x.columns());
  return plan;
}

Plan CudaBackend::plan(const PinningCall& call) const {
  const std::int64_t count = call.values.elements();
  const std::int64_t least = precision_ == Precision::bf16 ? min_bf16_weights : min_rounded_weights;
  return {.kept = precision_ != Precision::fp32 && count >= least ? numbers_of_rounded(1, count) : 0};
}

void CudaBackend::hold_weights(const Tensor& values, const Tensor& rounded) {
  weights_of_step_ = {values, {}};
  for (StreamContext* context : {&main_, &side_}) context->in_order_before_hold = context->in_order;
  if (!rounded.defined() || precision_ == Precision::fp32) return;
  Room room{rounded.as<std::byte>()};
  Roundings all;
  all.scales = room.scales();
  all.room_above = room_above_weights;
  all.add(values, Kind::weight, room.halves(1, values.elements()));
  products_.round_operands(all);
  weights_of_step_.rounded = rounded;
}

void CudaBackend::release_weights() { weights_of_step_ = {}; }

// The number of outputs is unknown, so it is taken to equal that of inputs; with fewer outputs the rounded copy may
// stay unused.
Plan CudaBackend::plan(const RoundingCall& call) const {
  const Tensor& x = call.x;
  const bool is_rounded = (call.bounded || precision_ == Precision::bf16) && products_.rounds_inputs(x, x.columns());
  return {.kept = is_rounded ? numbers_of_rounded(x.rows(), x.columns()) : 0};
}

bool ProductPlanner::project_rounded(const Tensor& x, std::span<const Tensor> weights, std::span<const Tensor> results,
                                     const KeptInput& kept) {
  const bool is_kept = kept.numbers.defined(), is_stored = is_narrow(x);
  if (!rounds_projections(x, weights) || (weights.size() == 1 && !is_kept && !is_stored)) return false;
  const std::int64_t outputs = padded_rows(weights);
  const std::size_t weight_bytes = bytes_of_scales + bytes_of_halves(outputs, x.columns());
  const std::size_t input_bytes = bytes_of_halves(x.rows(), x.columns());
  Room room{static_cast<std::byte*>(backend_.operand_memory(weight_bytes + (is_kept || is_stored ? 0 : input_bytes)))};
  if (is_kept && is_stored) room.next = kept.numbers.as<std::byte>();
  Roundings all;
  all.scales = room.scales();
  const Halves rounded = rounded_before(backend_.weights_of_step(), weights),
               all_weights = rounded.data != nullptr ? rounded : room.halves(outputs, x.columns());
  RoundedScales* const of_step = backend_.weights_of_step().rounded.as<RoundedScales>();
  if (rounded.data != nullptr) all.before[unsigned(Kind::weight)] = of_step;
  if (is_kept && !is_stored) {
    room.next = kept.numbers.as<std::byte>();
    RoundedScales* const of_kept = room.scales();
    if (kept.is_filled) all.before[unsigned(Kind::input)] = of_kept;
    if (!kept.is_filled || rounded.data != nullptr) all.scales = of_kept;
  } else if (rounded.data != nullptr && is_stored) {
    all.scales = of_step;
  }
  const Halves input = is_stored ? stored_halves(x) : room.halves(x.rows(), x.columns());
  if (!kept.is_filled && !is_stored) all.add(x, Kind::input, input);
  if (rounded.data == nullptr) add_weights(all, weights, all_weights);
  round_operands(all);
  std::int64_t row = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    multiply_halves(false, true, all.scales->of_products(Kind::result), input,
                    some_rows(all_weights, row, padded(weights[i].rows())), &all.scales->zero,
                    with_padding(results[i]));
    row += weights[i].rows();
  }
  return true;
}

void CudaBackend::linear_backward(const LinearBackward& projections) {
  if (!products_.rounds_projections(projections.x, projections.weights) || !can_round(projections.dresults)) {
    if (!linear_backward_split(projections)) linear_backward_by_parts(*this, projections);
    return;
  }
  if (is_narrow(projections.dresults[0])) clear_padding(*this, side_by_side(projections.dresults));
  BackwardOperands operands(
      projections, weights_of_step_,
      operand_memory(BackwardOperands::bytes(projections.x, projections.weights, projections.kept)));
  products_.round_operands(operands.all);
  const RoundedScales& scales = *operands.all.scales;
  {
    // Queued before dx, so that these gradients have nearly ended when the next kernel with few blocks needs room.
    const SideStream side(*this);
    side_reads_operands_ = true;
    products_.multiply_rounded_gradients(operands.gradients, operands.input, scales, projections);
    sum_biases(projections.dresults, projections.dbiases);
  }
  if (projections.dx.wanted()) {
    products_.multiply_halves(false, false, scales.of_products(Kind::input), operands.gradients, operands.weights,
                              scales.factor(projections.dx), projections.dx.tensor);
  }
}

void ProductPlanner::multiply_rounded_gradients(const Halves& gradients, const Halves& input,
                                                const RoundedScales& scales, const LinearBackward& projections) {
  const std::span<const Grad> dweights = projections.dweights;
  const bool all_wanted = std::all_of(dweights.begin(), dweights.end(), [](const Grad& dw) { return dw.wanted(); });
  const float* alpha = scales.of_products(Kind::weight);
  // Also a single gradient whose width only kernels for any alignment would take.
  if ((dweights.size() > 1 || gradients.columns != projections.weights[0].rows()) && all_wanted &&
      are_apart(dweights) && gradients.columns * input.columns <= max_handed_out) {
    const Shape shape{gradients.columns, input.columns};
    const Tensor sums(backend_.scratch(std::size_t(shape.elements())), shape, DType::f32);
    multiply_halves(true, false, alpha, gradients, input, &scales.zero, sums);
    Parts parts;
    parts.from = sums.as<float>();
    for (std::size_t i = 0; i < dweights.size(); ++i) {
      parts.to[i] = sink_of(dweights[i]);
      parts.first[i + 1] = parts.first[i] + unsigned(dweights[i].tensor.elements());
    }
    return launch(backend_, "gradients of projections", hand_out_kernel,
                  dim3(4 * multiprocessors(), unsigned(dweights.size())), threads, parts);
  }
  std::int64_t column = 0;
  for (std::size_t i = 0; i < dweights.size(); ++i) {
    const std::int64_t width = projections.weights[i].rows();
    if (dweights[i].wanted()) {
      multiply_halves(true, false, alpha, some_columns(gradients, column, width), input, scales.factor(dweights[i]),
                      dweights[i].tensor);
    }
    column += width;
  }
}

}  // namespace afterglow
