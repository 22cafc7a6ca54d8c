// Chooses the kernel of a product: own tensor-core tiles, warp groups, operands rounded to halves, or cuBLAS when these
// return false. Also collects gradients of weights until they fill a launch.
#pragma once
#include <memory>
#include <span>

#include "core/backend/kernels.h"

namespace afterglow {

class CudaBackend;

namespace device {
struct Products;
struct Roundings;
struct RoundedScales;
/// A matrix of halves, or of bfloat16 in that precision, with `stride` numbers from row to row.
struct Halves {
  void* data = nullptr;
  std::int64_t rows = 0, columns = 0, stride = 0;
};
}  // namespace device

/// The products of one back end, which owns the planner; core/backend/kernels.h describes matrices and gradients.
class ProductPlanner {
 public:
  explicit ProductPlanner(CudaBackend& backend) : backend_(backend) {}

  /// One product of moderate size with own tiles (product.cu). False when cuBLAS is faster.
  bool tile_product(bool transpose_a, bool transpose_b, double alpha, const Tensor& a, const Tensor& b, double beta,
                    const Tensor& c);
  /// c = op(a) op(b) where a is tall and one extent is a few numbers, in float32 arithmetic; false otherwise.
  bool thin_product(bool transpose_a, bool transpose_b, const Tensor& a, const Tensor& b, const Grad& c);
  /// The same for projections of one input, results[i] = x weights[i]^T, and their gradients, dx = sum over i of
  /// dresults[i] weights[i] and dweights[i] = dresults[i]^T x: one projection, or two in one kernel.
  bool thin_projections(const Tensor& x, std::span<const Tensor> weights, std::span<const Tensor> results);
  bool thin_input_gradient(std::span<const Tensor> dresults, std::span<const Tensor> weights, const Grad& dx);
  bool thin_weight_gradients(std::span<const Tensor> dresults, const Tensor& x, std::span<const Grad> dweights);
  /// Empty products of the back end's precision: exact in fp32, otherwise the kernel rounds operands to tf32 as it
  /// reads them. That holds in bf16 too, where rounding would need launches of its own.
  device::Products none_yet() const;
  /// Several products with own tiles; false when cuBLAS is faster.
  template <bool a_deep, bool b_deep>
  bool multiply_tiles(device::Products& products);
  /// A large product in fp32 on warp groups, c = op(a) op(b), whose operands are split first; false otherwise. And the
  /// bytes that they take, 0 when they are not split.
  bool split_product(bool transpose_a, bool transpose_b, const Tensor& a, const Tensor& b, const Grad& c);
  std::size_t split_product_operands(const Tensor& a, const Tensor& b, std::int64_t depth) const;

  /// dweights[i] = dresults[i]^T x.
  void multiply_gradients(std::span<const Tensor> dresults, const Tensor& x, std::span<const Grad> dweights);
  void launch_kept_gradients();
  /// After a backward pass that was broken off.
  void drop_kept_gradients() { kept_gradients_.reset(); }

  /// Whether projections of x and their gradients round their operands first, once each: large ones in tf32 and bf16.
  bool rounds_projections(const Tensor& x, std::span<const Tensor> weights) const;
  /// Whether rounding the input pays for this number of outputs.
  bool rounds_inputs(const Tensor& x, std::int64_t outputs) const;
  /// Projections with rounded operands; false when they are not rounded, or when there is one that is not trained.
  bool project_rounded(const Tensor& x, std::span<const Tensor> weights, std::span<const Tensor> results,
                       const KeptInput& kept);
  /// Whether projections of x and their gradients split their operands first, once each: large ones in fp32 on warp
  /// groups; and the bytes that the split operands take.
  bool splits_projections(const Tensor& x, std::span<const Tensor> weights) const;
  std::size_t split_operands(const Tensor& x, std::span<const Tensor> weights) const;
  /// Projections with split operands; false when they are not split.
  bool project_split(const Tensor& x, std::span<const Tensor> weights, std::span<const Tensor> results);
  void round_operands(device::Roundings& all);
  /// c = alpha op(a) op(b) + beta c; c may be bfloat16, and both factors are in device memory.
  void multiply_halves(bool transpose_a, bool transpose_b, const float* alpha, const device::Halves& a,
                       const device::Halves& b, const float* beta, const Tensor& c);
  /// The gradients of projections' weights, from the gradients of their results in common rows and their input.
  void multiply_rounded_gradients(const device::Halves& gradients, const device::Halves& input,
                                  const device::RoundedScales& scales, const LinearBackward& projections);

 private:
  /// Products with own tiles of any size.
  template <bool a_deep, bool b_deep>
  void run_tiles(device::Products& products);
  bool is_right_pinned(const device::Products& products) const;
  /// Collects gradients of weights on the side stream until they fill a launch, at the latest until the side stream is
  /// joined; false when they are too large to wait.
  bool keep_gradients(const device::Products& products);

  CudaBackend& backend_;
  std::shared_ptr<device::Products> kept_gradients_;
};

}  // namespace afterglow
