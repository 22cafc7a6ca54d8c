// The CUDA back end: float32 kernels on one GPU. Kernels are defined by family in the folders beside this file; memory,
// transfers and captured programs in cuda_backend.cpp.
#pragma once
#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/backend/backend.h"
#include "core/backend/rounded_weights.h"
#include "gpu/cuda.h"
#include "gpu/device/spare_memory.h"
#include "gpu/gemm/product_planner.h"

struct cublasContext;

namespace afterglow {

/// Throws the Error that belongs to a CUDA status; `what` says what was being done.
void check_cuda(cudaError_t status, const char* what);

/// Lets a kernel's blocks take this much shared memory; older and smaller GPUs may have less.
void allow_shared_memory(const void* kernel, int bytes, const char* what);

class CudaBackend final : public Backend {
 public:
  /// Where `rank` is `behind`, its kernels begin only where those of other back ends leave room.
  enum class Rank { first, behind };
  explicit CudaBackend(int device, Rank rank = Rank::first);
  ~CudaBackend() override;
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;

  Precision precision() const override { return precision_; }
  /// What `hold_weights` left.
  const RoundedWeights& weights_of_step() const { return weights_of_step_; }
  bool set_precision(Precision wanted) override {
    precision_ = wanted;
    return true;
  }
  void expect_side_by_side(std::size_t back_ends) override;
  std::size_t held_bytes() const override { return held_; }
  void require_free(const std::function<std::size_t()>& bytes, std::size_t unwritten) const override;

  std::string name() const override;
  std::string description() const override;
  bool supports(DType dtype) const override;
  void* allocate(std::size_t bytes) override;
  void release(void* address) override;
  void* allocate_host(std::size_t bytes) override;
  void release_host(void* address) override;
  void upload(const Tensor& destination, const void* source) override;
  void download(void* destination, const Tensor& source) override;
  void queue_uploads(std::span<const Transfer> arrays) override { queue_transfers(arrays); }
  void queue_downloads(std::span<const Transfer> arrays) override { queue_transfers(arrays); }
  void synchronize() override;
  bool is_idle() override;
  void set_meanwhile(std::function<void()> work) override { meanwhile_ = std::move(work); }
  std::unique_ptr<Backend> beside() override { return std::make_unique<CudaBackend>(device_, Rank::behind); }
  void begin_side_stream() override;
  void end_side_stream() override;
  void join_side_stream() override;
  std::unique_ptr<Milestone> make_milestone() override;
  /// Behind all that was queued in either lane, and what waits to be launched together.
  void set(cudaEvent_t milestone);
  void begin_transfers() override;
  void end_transfers() override;
  void pin_host(void* address, std::size_t bytes) override;
  void unpin_host(void* address) override;
  MemoryKey key_to(void* address) override;
  void* open_memory(const MemoryKey& key) override;
  void close_memory(void* address) override;
  /// Records what `work` queues into a CUDA graph and launches it. `work` must not wait for the GPU.
  std::unique_ptr<Program> capture(std::function<void()> work) override;

#include "core/backend/kernel_overrides.inc"

  // What launchers inside gpu/ ask for.
  /// The stream of the lane, with the device made current for the calling thread. Every launch goes through here.
  cudaStream_t stream() const;
  cublasContext* blas() const { return lane_->blas; }
  /// Reports a launch that was refused.
  void launched(const char* kernel) const;
  /// Fixed scratch for partial sums; kernels of one lane take turns with it.
  float* scratch(std::size_t elements) const;
  /// Zero between kernels: a reduction's last block finds itself by them.
  unsigned* tickets() const { return tickets_; }
  /// Memory for rounded operands of products and for what a forward pass keeps while it runs, at least this large. It
  /// grows and never moves under a captured program.
  void* operand_memory(std::size_t bytes);
  /// Whether a kernel queued now may read this number before the kernel in front of it has ended: a held weight, and at
  /// least one kernel of the lane was launched since it is held.
  bool is_settled(const float* number) const;
  /// Whether what is queued now runs beside the main lane.
  bool is_beside() const { return lane_ == &side_; }

 private:
  /// Either way; which side is the GPU's, the addresses tell.
  void queue_transfers(std::span<const Transfer> arrays);
  /// What is queued from here on comes after what was queued beside.
  void await_side_stream();
  /// A matrix rounded to bfloat16, rows side by side.
  void round_to_bf16(const Tensor& matrix, void* to);
  /// Adds biases, where there are any, to the results of projections.
  void add_biases(std::span<const Tensor> biases, std::span<const Tensor> results);
  /// The backward pass through projections whose operands are split first; false when they are not.
  bool linear_backward_split(const LinearBackward& projections);
  /// The gradients of projections' biases.
  void sum_biases(std::span<const Tensor> dresults, std::span<const Grad> dbiases);
  /// Sums of the rows of several matrices as tall as each other; no two go to the same place.
  void sum_rows_each(std::span<const Tensor> x, std::span<const Grad> out);

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
    bool operands_recorded = false;  // a captured program uses them
    // How often kernels were launched: in all, before weights were held, and when the gradients' norm was found.
    std::uint64_t launches = 0, launches_before_hold = 0, launches_at_norm = ~std::uint64_t{0};
  };
  /// Releases operand memory that no captured program uses, when something else needs the room; whether there was any.
  bool give_back_operands();
  [[noreturn]] void refuse_memory(std::size_t bytes, std::size_t free, std::size_t total) const;
  /// Keeps it for the next who asks, or waits until no kernel uses it.
  void free_memory(void* address);
  /// Waits for what was queued here, so that memory of it can serve others; false while a program is recorded.
  bool may_reuse();
  /// Returns what waits to be asked for again to the system; whether there was anything.
  bool give_back_spare();
  void open_stream(Lane& lane);
  void open(Lane& lane);
  void close(Lane& lane);
  void enter(Lane& lane);

  int device_;
  int priority_ = 0;  // of its streams
  std::string description_;
  std::function<void()> meanwhile_;  // called while the host waits; empty: nothing
  Lane main_, side_;
  Lane transfers_;  // a stream alone, from its first use on
  Lane* lane_ = &main_;
  bool joined_ = true;                // nothing runs beside
  bool side_reads_operands_ = false;  // what runs beside may still read the operand memory of the main lane
  unsigned* tickets_ = nullptr;    // of the lane; zero between kernels: a reduction's last block finds itself by them
  std::int64_t* found_ = nullptr;  // answer of first_non_finite
  std::unordered_map<void*, std::size_t> sizes_;
  std::unordered_map<const void*, std::size_t> host_sizes_;
  SpareMemory spare_, host_spare_{std::size_t{64} << 20};
  std::size_t held_ = 0;
  Precision precision_ = Precision::fp32;
  RoundedWeights weights_of_step_;
  std::vector<NormWeight> norm_weights_;
  ProductPlanner products_{*this};
};

}  // namespace afterglow
