// The CUDA back end: float32 kernels on one GPU. Kernels are defined by family in the folders of gpu/; memory,
// transfers and captured graphs in cuda_backend.cpp.
#pragma once
#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/backend/backend.h"
#include "core/backend/rounded_weights.h"
#include "core/backend/token_ranking.h"
#include "gpu/cuda.h"
#include "gpu/ops/product/few_rows.h"
#include "gpu/ops/product/product_planner.h"
#include "gpu/runtime/spare_memory.h"

struct cublasContext;

namespace afterglow {

/// Throws the Error of a CUDA status; `what` names the failed action.
void check_cuda(cudaError_t status, const char* what);

class CudaBackend final : public Backend, public TokenRanker {
 public:
  /// The kernels of a back end of rank `behind` run only where those of other back ends leave room.
  enum class Rank { first, behind };
  explicit CudaBackend(int device, Rank rank = Rank::first);
  ~CudaBackend() override;
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;

  Precision precision() const override { return precision_; }
  /// Set by `hold_weights`.
  const RoundedWeights& weights_of_step() const { return weights_of_step_; }
  bool set_precision(Precision wanted) override {
    precision_ = wanted;
    return true;
  }
  bool reads_narrow_weights() const override { return true; }
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
  void queue_uploads(std::span<const Transfer> arrays) override { queue_transfers(arrays); }
  void queue_downloads(std::span<const Transfer> arrays) override { queue_transfers(arrays); }
  void synchronize() override;
  bool is_idle() override;
  void set_yield(std::function<void()> work) override { meanwhile_ = std::move(work); }
  std::unique_ptr<Backend> low_priority_backend() override {
    return std::make_unique<CudaBackend>(device_, Rank::behind);
  }
  void begin_side_stream() override;
  void end_side_stream() override;
  void join_side_stream() override;
  std::unique_ptr<DeviceEvent> make_event() override;
  /// Records the event behind everything queued in both streams, pending sums included.
  void set(cudaEvent_t event);
  void begin_transfers() override;
  void end_transfers() override;
  void pin_host(void* address, std::size_t bytes) override;
  void unpin_host(void* address) override;
  MemoryKey key_to(void* address) override;
  void* open_memory(const MemoryKey& key) override;
  void close_memory(void* address) override;
  /// Captures what `work` queues into a CUDA graph and launches it. `work` must not wait for the GPU.
  std::unique_ptr<DeviceGraph> capture(std::function<void()> work) override;

  Plan plan(const ProjectionCall& call) const override;
  Plan plan(const RidgeConfig& config, const RidgeInputs& in) const override;
  Plan plan(const ChebyshevConfig& config, const ChebyshevInputs& in) const override;
#define AFTERGLOW_PLAN override
#include "core/backend/plan_list.inc"
  std::int64_t first_non_finite(const Tensor& x) override;
#define AFTERGLOW_KERNEL override
#include "core/backend/kernel_list.inc"
  void rank_logits(const Tensor& logits, double temperature, const Tensor& ranked) override;

  // For launchers inside gpu/.
  /// The current stream, on which what waits is launched first; makes the device current for the calling thread. Every
  /// launch calls this.
  cudaStream_t stream() const;
  cublasContext* blas() const { return context_->blas; }
  /// Throws when the last launch was refused. `is_short`: the kernel lets the next one begin before it has waited.
  void launched(const char* kernel, bool is_short = false) const;
  /// Fixed scratch memory for partial sums, which the kernels of one stream use in turn.
  float* scratch(std::size_t elements) const;
  /// Zero between kernels; a reduction's last block identifies itself by them.
  unsigned* tickets() const { return tickets_; }
  /// Memory of at least this size for rounded operands of products and for what a forward pass keeps while it runs. It
  /// grows and never moves under a captured graph.
  void* operand_memory(std::size_t bytes);
  /// Whether a kernel queued now may read this number before the previous kernel has ended: it is a held weight, and
  /// the stream has launched at least one kernel since the weights were held.
  bool is_pinned(const float* number) const;
  bool is_on_side_stream() const { return context_ == &side_; }
  /// While decoding, a norm of one row waits for projections that read it, and projections of few rows for a
  /// convolution; the one that takes them computes both in one launch.
  mutable std::optional<RmsNorm> waiting_norm;
  mutable std::optional<WaitingProjections> waiting_projections;

 private:
  /// Either direction; CUDA derives it from the addresses.
  void queue_transfers(std::span<const Transfer> arrays);
  /// Work queued from here on runs after what the side stream holds.
  void wait_for_side_stream();
  void round_to_bf16(const Tensor& matrix, void* to);
  /// These weights in float32: of those that are stored as bfloat16 copies, valid until the next are made.
  std::vector<Tensor> widened(std::span<const Tensor> weights);
  void add_biases(std::span<const Tensor> biases, std::span<const Tensor> results);
  /// The backward pass of projections whose operands are split first; false when they are not.
  bool linear_backward_split(const LinearBackward& projections);
  void sum_biases(std::span<const Tensor> dresults, std::span<const Grad> dbiases);
  /// Row sums of several matrices of equal height; their destinations differ.
  void sum_rows_each(std::span<const Tensor> x, std::span<const Grad> out);

  /// Operands of the gradient of a norm's weight; z where x is gated. `queue_norm_weight` collects several for one
  /// launch on the side stream, at the latest until that is joined.
  struct NormWeight {
    Tensor x, z, inverse, dy;
    Grad dweight;
  };
  void queue_norm_weight(const NormWeight& weight);
  void launch_norm(const RmsNorm& norm) const;
  /// `is_last`: the side stream is joined next, so these sums need not run there.
  void sum_norm_weights(bool is_last);

  /// Memory that grows and never moves under a captured graph.
  struct GrowingMemory {
    void* data = nullptr;
    std::size_t bytes = 0;
    bool recorded = false;  // a captured graph uses it
  };
  void* grown(GrowingMemory& memory, std::size_t bytes);
  /// A stream, its cuBLAS handle, and the memory that its kernels use in turn.
  struct StreamContext {
    cudaStream_t stream = nullptr;
    cudaEvent_t reached = nullptr;
    cublasContext* blas = nullptr;
    float* scratch = nullptr;
    unsigned* tickets = nullptr;
    GrowingMemory operands;
    // Number of launches: in all, and when the gradients' norm was found; of those whose next one begins when all in
    // front of them has ended; and of these before weights were held.
    std::uint64_t launches = 0, launches_at_norm = ~std::uint64_t{0}, in_order = 0, in_order_before_hold = 0;
  };
  /// Releases operand memory that no captured graph uses, to make room; returns whether there was any.
  bool give_back_operands();
  [[noreturn]] void refuse_memory(std::size_t bytes, std::size_t free, std::size_t total) const;
  /// Returns the block to the cache, or frees it.
  void free_memory(void* address);
  /// Waits for everything queued here, so that memory can be reused; false during a capture.
  bool may_reuse();
  /// Frees the cached blocks; returns whether there were any.
  bool give_back_spare();
  void open_stream(StreamContext& context);
  void open(StreamContext& context);
  void close(StreamContext& context);
  void enter(StreamContext& context);

  int device_;
  int priority_ = 0;  // of its streams
  std::string description_;
  std::function<void()> meanwhile_;  // called while the host waits, if set
  StreamContext main_, side_;
  StreamContext transfers_;  // a stream alone, from its first use on
  StreamContext* context_ = &main_;
  bool joined_ = true;                // the side stream holds no work that the main stream has not joined
  bool side_reads_operands_ = false;  // the side stream may still read the operand memory of the main stream
  unsigned* tickets_ = nullptr;       // of the current stream
  std::int64_t* found_ = nullptr;     // result of first_non_finite
  GrowingMemory wide_weights_;
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
