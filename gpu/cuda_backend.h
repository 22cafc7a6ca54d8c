// The CUDA back end: float32 kernels on one stream of one GPU. Kernels are defined by family in cuda_<family>.cu,
// products in matmul.cpp, memory, transfers and captured programs in cuda_backend.cpp.
#pragma once
#include <cuda_runtime_api.h>

#include <memory>
#include <unordered_map>
#include <vector>

#include "core/backend/backend.h"
#include "gpu/cuda.h"

struct cublasContext;

namespace afterglow {

namespace device {
struct Products;
struct Roundings;
struct RoundedScales;
/// A matrix of halves, `stride` of them from row to row.
struct Halves {
  void* data = nullptr;
  std::int64_t rows = 0, columns = 0, stride = 0;
};
}  // namespace device

/// Throws the Error that belongs to a CUDA status; `what` says what was being done.
void check_cuda(cudaError_t status, const char* what);

/// Lets a kernel's blocks take this much shared memory; older and smaller GPUs may have less.
void allow_shared_memory(const void* kernel, int bytes, const char* what);

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(int device);
  ~CudaBackend() override;
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;

  Precision precision() const override { return precision_; }
  bool set_precision(Precision wanted) override {
    precision_ = wanted;
    return true;
  }
  std::size_t held_bytes() const override { return held_; }
  CudaMemory memory() const;

  std::string name() const override;
  std::string description() const override;
  bool supports(DType dtype) const override;
  void* allocate(std::size_t bytes) override;
  void release(void* address) override;
  void* allocate_host(std::size_t bytes) override;
  void release_host(void* address) override;
  void upload(const Tensor& destination, const void* source) override;
  void download(void* destination, const Tensor& source) override;
  void queue_upload(const Tensor& destination, const void* source) override;
  void queue_download(void* destination, const Tensor& source) override;
  void synchronize() override;
  void begin_side_stream() override;
  void end_side_stream() override;
  void join_side_stream() override;
  /// Runs `work` eagerly, then records the same calls into a CUDA graph. `work` must not wait for the GPU.
  std::unique_ptr<Program> capture(std::function<void()> work) override;

#include "core/backend/kernel_overrides.inc"

 private:
  /// The stream, with the device made current for the calling thread. Every launch goes through here.
  cudaStream_t stream() const;
  /// Reports a launch that was refused.
  void launched(const char* kernel) const;
  /// Memory for rounded operands of products, at least this large. It grows and never moves under a captured program.
  void* operand_memory(std::size_t bytes);
  /// What is queued from here on comes after what was queued beside.
  void await_side_stream();
  /// A matrix rounded to bfloat16, rows side by side.
  void round_to_bf16(const Tensor& matrix, void* to);
  /// Fixed scratch for partial sums; kernels of one lane take turns with it.
  float* scratch(std::size_t elements) const;
  /// Products by tiles of our own (product.cu); false when cuBLAS suits their size better.
  template <bool a_deep, bool b_deep>
  bool multiply_tiles(device::Products& products);
  /// Those of them that are large and have no biases, by warp groups; false also where the GPU has none.
  bool multiply_large(device::Products& products, bool a_deep, bool b_deep);
  void multiply_gradients(std::span<const Tensor> dresults, const Tensor& x, std::span<const Grad> dweights);
  /// c = alpha op(a) op(b) + beta c; both factors in device memory.
  void multiply_halves(bool transpose_a, bool transpose_b, const float* alpha, const device::Halves& a,
                       const device::Halves& b, const float* beta, const Tensor& c);
  /// Rounds matrices that large projections multiply.
  void round_operands(device::Roundings& all);
  /// Whether projections of x and their gradients round their operands to halves first: large ones in tf32.
  bool rounds_projections(const Tensor& x, std::span<const Tensor> weights) const;
  /// Such projections; false when they are none, or alone and not to be trained.
  bool project_rounded(const Tensor& x, std::span<const Tensor> weights, std::span<const Tensor> results,
                       const Tensor& kept);
  /// The gradients of projections' biases.
  void sum_biases(std::span<const Tensor> dresults, std::span<const Grad> dbiases);
  /// The gradients of their weights, from those of their results side by side and their input.
  void multiply_rounded_gradients(const device::Halves& gradients, const device::Halves& input,
                                  const device::RoundedScales& scales, const LinearBackward& projections);
  /// Keeps gradients of weights that run beside until they are worth a launch, at the latest until the side stream is
  /// joined; false where they are too large to wait.
  bool keep_gradients(const device::Products& products);
  void launch_kept_gradients();
  /// Adds biases, where there are any, to the results of projections.
  void add_biases(std::span<const Tensor> biases, std::span<const Tensor> results);
  /// Sums of the rows of several matrices as tall as each other; no two go to the same place.
  void sum_rows_each(std::span<const Tensor> x, std::span<const Grad> out);
  /// Whether so many products may be one launch.
  bool can_group(std::size_t count) const;
  bool small_product(bool transpose_a, bool transpose_b, double alpha, const Tensor& a, const Tensor& b, double beta,
                     const Tensor& c);
  /// The same for large exact ones on the tensor cores.
  bool large_product(bool transpose_a, bool transpose_b, double alpha, const Tensor& a, const Tensor& b, double beta,
                     const Tensor& c);

  /// What the gradient of a norm's weight is summed from; z where x is gated. Several are one launch beside the others:
  /// `queue_norm_weight` keeps them until there are enough, at the latest until the side stream is joined.
  struct NormWeight {
    Tensor x, z, inverse, dy;
    Grad dweight;
  };
  void queue_norm_weight(const NormWeight& weight);
  /// `is_last`: all that runs beside is waited for next, so that these sums need not run there.
  void sum_norm_weights(bool is_last);

  /// Kernels queued in order on one stream, and the memory that they take turns with.
  struct Lane {
    cudaStream_t stream = nullptr;
    cudaEvent_t reached = nullptr;
    cublasContext* blas = nullptr;
    float* scratch = nullptr;
    unsigned* tickets = nullptr;
    void* operands = nullptr;
    std::size_t operand_bytes = 0;
  };
  void open(Lane& lane);
  void close(Lane& lane);
  void enter(Lane& lane);

  int device_;
  std::string description_;
  Lane main_, side_;
  Lane* lane_ = &main_;
  bool joined_ = true;                // nothing runs beside
  bool side_reads_operands_ = false;  // what runs beside may still read the operand memory of the main lane
  unsigned* tickets_ = nullptr;    // of the lane; zero between kernels: a reduction's last block finds itself by them
  std::int64_t* found_ = nullptr;  // answer of first_non_finite
  std::unordered_map<void*, std::size_t> sizes_;
  std::size_t held_ = 0;
  Precision precision_ = Precision::fp32;
  std::vector<NormWeight> norm_weights_;
  std::shared_ptr<device::Products> kept_gradients_;
};

}  // namespace afterglow
