// Which way a product goes: tiles of our own on the tensor cores, warp groups, operands rounded to halves, or, where
// these answer false, cuBLAS. Also keeps gradients of weights until they are worth a launch.
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
/// A matrix of halves, or of bfloat16 in that precision, `stride` of them from row to row.
struct Halves {
  void* data = nullptr;
  std::int64_t rows = 0, columns = 0, stride = 0;
};
}  // namespace device

/// The products of one back end, which owns it; matrices and gradients as the kernels of the list describe them.
class ProductPlanner {
 public:
  explicit ProductPlanner(CudaBackend& backend) : backend_(backend) {}

  /// One product by tiles of our own, small (product.cu) or exact and large (large_product.cu); false when cuBLAS suits
  /// its size better.
  bool small_product(bool transpose_a, bool transpose_b, double alpha, const Tensor& a, const Tensor& b, double beta,
                     const Tensor& c);
  bool large_product(bool transpose_a, bool transpose_b, double alpha, const Tensor& a, const Tensor& b, double beta,
                     const Tensor& c);
  /// c = op(a) op(b) where a is tall and one extent is a few numbers, in float32 arithmetic; false when it is not so.
  bool thin_product(bool transpose_a, bool transpose_b, const Tensor& a, const Tensor& b, const Grad& c);
  /// Products of the back end's precision: exact in fp32, otherwise of operands that the tiles round to tf32 as they
  /// read them, also in bf16, where a launch of its own would round each.
  device::Products none_yet() const;
  /// Several by tiles of our own; false when cuBLAS suits their size better.
  template <bool a_deep, bool b_deep>
  bool multiply_tiles(device::Products& products);
  /// Those of them that are large and have no biases, by warp groups; false also where the GPU has none.
  bool multiply_large(device::Products& products, bool a_deep, bool b_deep);

  /// dweights[i] = dresults[i]^T x.
  void multiply_gradients(std::span<const Tensor> dresults, const Tensor& x, std::span<const Grad> dweights);
  void launch_kept_gradients();
  /// Where a backward pass was broken off.
  void drop_kept_gradients() { kept_gradients_.reset(); }

  /// Whether projections of x and their gradients round their operands first, each once: large ones in tf32 and bf16.
  bool rounds_projections(const Tensor& x, std::span<const Tensor> weights) const;
  /// Whether so many outputs are worth rounding their input.
  bool rounds_inputs(const Tensor& x, std::int64_t outputs) const;
  /// Such projections; false when they are none, or alone and not to be trained.
  bool project_rounded(const Tensor& x, std::span<const Tensor> weights, std::span<const Tensor> results,
                       const KeptInput& kept);
  /// Whether projections of x and their gradients split their operands first, each once: large ones in fp32 where warp
  /// groups multiply; and how many bytes they take.
  bool splits_projections(const Tensor& x, std::span<const Tensor> weights) const;
  std::size_t split_operands(const Tensor& x, std::span<const Tensor> weights) const;
  /// Such projections; false when they are none.
  bool project_split(const Tensor& x, std::span<const Tensor> weights, std::span<const Tensor> results);
  /// Rounds matrices that large projections multiply.
  void round_operands(device::Roundings& all);
  /// c = alpha op(a) op(b) + beta c, which may be stored as bfloat16; both factors in device memory.
  void multiply_halves(bool transpose_a, bool transpose_b, const float* alpha, const device::Halves& a,
                       const device::Halves& b, const float* beta, const Tensor& c);
  /// The gradients of projections' weights, from those of their results side by side and their input.
  void multiply_rounded_gradients(const device::Halves& gradients, const device::Halves& input,
                                  const device::RoundedScales& scales, const LinearBackward& projections);

 private:
  /// By those tiles, whatever the size.
  template <bool a_deep, bool b_deep>
  void run_tiles(device::Products& products);
  bool is_right_settled(const device::Products& products) const;
  /// Keeps gradients of weights that run beside until they are worth a launch, at the latest until the side stream is
  /// joined; false where they are too large to wait.
  bool keep_gradients(const device::Products& products);

  CudaBackend& backend_;
  std::shared_ptr<device::Products> kept_gradients_;
};

}  // namespace afterglow
