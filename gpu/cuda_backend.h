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
  void gemm(bool transpose_a, bool transpose_b, double alpha, const Tensor& a, const Tensor& b, double beta,
            const Tensor& c) override;
  void linear_forward_many(const Tensor& x, std::span<const Tensor> weights, std::span<const Tensor> biases,
                           std::span<const Tensor> results, const Tensor& kept) override;
  std::int64_t gemm_kept(const Tensor& x, std::span<const Tensor> weights) const override;
  void gemm_sum(std::span<const Tensor> a, std::span<const Tensor> b, const Grad& c) override;
  void gemm_gradients(std::span<const Tensor> dresults, const Tensor& x, std::span<const Grad> dweights,
                      std::span<const Grad> dbiases) override;
  void linear_backward(const LinearBackward& projections) override;
  void swiglu_gate_up(const Tensor& x, const Tensor& gate, const Tensor& up, const Tensor& g, const Tensor& u,
                      const Tensor& h) override;
  void gated_lift_backward(const Tensor& dy, const Tensor& down, const Tensor& g, const Tensor& u, const Tensor& dg,
                           const Tensor& du) override;
  void fill(const Tensor& x, double value) override;
  void copy(const Tensor& destination, const Tensor& source) override;
  void accumulate(const Tensor& source, const Grad& destination) override;
  void add(const Tensor& a, const Tensor& b, const Tensor& out) override;
  void scale(const Tensor& a, double factor, const Grad& out) override;
  void multiply(const Tensor& a, const Tensor& b, const Tensor& out) override;
  void multiply_backward(const Tensor& a, const Tensor& b, const Tensor& dout, const Grad& da, const Grad& db) override;
  void unary(Unary kind, const Tensor& x, const Tensor& y) override;
  void unary_backward(Unary kind, const Tensor& x, const Tensor& y, const Tensor& dy, const Grad& dx) override;
  void silu_multiply(const Tensor& a, const Tensor& b, const Tensor& y) override;
  void silu_multiply_backward(const Tensor& a, const Tensor& b, const Tensor& dy, const Grad& da,
                              const Grad& db) override;
  void softplus_bias(const Tensor& x, const Tensor& bias, double floor, const Tensor& y) override;
  void softplus_bias_backward(const Tensor& x, const Tensor& bias, double floor, const Tensor& dy, const Grad& dx,
                              const Grad& dbias) override;
  void log_decay(const Tensor& x, const Tensor& A_log, const Tensor& bias, const Tensor& y) override;
  void log_decay_backward(const Tensor& x, const Tensor& A_log, const Tensor& bias, const Tensor& dy, const Grad& dx,
                          const Grad& dA_log, const Grad& dbias) override;
  void multiply_rows(const Tensor& x, const Tensor& factor, double offset, const Tensor& y) override;
  void multiply_rows_backward(const Tensor& x, const Tensor& factor, double offset, const Tensor& dy, const Grad& dx,
                              const Grad& dfactor) override;
  void add_bias(const Tensor& x, const Tensor& bias, const Tensor& y) override;
  void sum_rows(const Tensor& x, const Grad& out) override;
  void rms_norm(const Tensor& x, const Tensor& weight, double eps, const Tensor& y, const Tensor& inverse) override;
  void add_rms_norm(const Tensor& a, const Tensor& b, const Tensor& weight, double eps, const Tensor& sum,
                    const Tensor& y, const Tensor& inverse) override;
  void rms_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& inverse, const Tensor& dy,
                         const Tensor& base, const Grad& dx, const Grad& dweight) override;
  void gated_rms_norm(const Tensor& x, const Tensor& z, const Tensor& weight, double eps, const Tensor& y,
                      const Tensor& inverse) override;
  void gated_rms_norm_backward(const Tensor& x, const Tensor& z, const Tensor& weight, const Tensor& inverse,
                               const Tensor& dy, const Grad& dx, const Grad& dz, const Grad& dweight) override;
  void embedding(const Tensor& tokens, const Tensor& table, const Tensor& y) override;
  void embedding_backward(const Tensor& tokens, const Tensor& dy, const Grad& dtable) override;
  void cross_entropy(const Tensor& logits, const Tensor& targets, const Tensor& probabilities, const Tensor& loss,
                     const Tensor& correct, const Tensor& counted) override;
  void cross_entropy_backward(const Tensor& probabilities, const Tensor& targets, const Tensor& counted,
                              const Tensor& dloss, const Grad& dlogits) override;
  void rotary(std::span<const Tensor> x, double base, std::int64_t first_position, bool inverse,
              std::span<const Grad> y) override;
  void causal_conv(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& history,
                   const Tensor& before, const Tensor& y) override;
  void causal_conv_backward(const Tensor& x, const Tensor& weight, const Tensor& before, const Tensor& dy,
                            const Grad& dx, const Grad& dweight, const Grad& dbias) override;
  void attention(const Tensor& q, const Tensor& k, const Tensor& v, double scale, bool causal, const Tensor& y,
                 const Tensor& log_sum) override;
  void attention_backward(const Tensor& q, const Tensor& k, const Tensor& v, double scale, bool causal, const Tensor& y,
                          const Tensor& log_sum, const Tensor& dy, const Grad& dq, const Grad& dk,
                          const Grad& dv) override;
  void ssd_scan(const ScanInputs& in, const Tensor& y, const Tensor& state, bool resume) override;
  void ssd_scan_backward(const ScanInputs& in, const Tensor& dy, const Tensor& workspace,
                         const ScanGrads& out) override;
  std::int64_t ssd_scan_workspace(const ScanInputs& in) const override;
  void ridge_readout(const RidgeConfig& config, const RidgeInputs& in, const RidgeSaved& saved,
                     const Tensor& y) override;
  void ridge_readout_backward(const RidgeConfig& config, const RidgeInputs& in, const RidgeSaved& saved,
                              const Tensor& dy, const Tensor& workspace, const RidgeGrads& out) override;
  std::int64_t ridge_readout_workspace(const RidgeConfig& config, const RidgeInputs& in) const override;
  void ridge_step(const RidgeConfig& config, const RidgeInputs& in, const RidgeState& state, const RidgeSaved& saved,
                  const Tensor& y) override;
  void koopman_modes(const Tensor& lifted, const Tensor& gamma, const Tensor& omega, const Tensor& gate,
                     const Tensor& z) override;
  void koopman_modes_backward(const Tensor& lifted, const Tensor& gamma, const Tensor& omega, const Tensor& gate,
                              const Tensor& dz, const Grad& dlifted, const Grad& dgamma, const Grad& domega,
                              const Grad& dgate) override;
  void layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, const Tensor& y,
                  const Tensor& moments) override;
  void layer_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& moments, const Tensor& dy,
                           const Grad& dx, const Grad& dweight, const Grad& dbias) override;
  void unit_norm(const Tensor& x, double eps, const Tensor& y, const Tensor& norms) override;
  void unit_norm_backward(const Tensor& x, double eps, const Tensor& norms, const Tensor& dy, const Grad& dx) override;
  void chebyshev_readout(const ChebyshevConfig& config, const ChebyshevInputs& in, const ChebyshevSaved& saved,
                         const Tensor& y) override;
  void chebyshev_readout_backward(const ChebyshevConfig& config, const ChebyshevInputs& in, const ChebyshevSaved& saved,
                                  const Tensor& dy, const Tensor& workspace, const ChebyshevGrads& out) override;
  std::int64_t chebyshev_readout_workspace(const ChebyshevConfig& config, const ChebyshevInputs& in) const override;
  void chebyshev_step(const ChebyshevConfig& config, const ChebyshevInputs& in, const ChebyshevState& state,
                      const ChebyshevSaved& saved, const Tensor& y) override;
  void delta_scan(const DeltaInputs& in, const Tensor& y, const Tensor& state, bool resume) override;
  void delta_scan_backward(const DeltaInputs& in, const Tensor& dy, const Tensor& workspace,
                           const DeltaGrads& out) override;
  std::int64_t delta_scan_workspace(const DeltaInputs& in) const override;
  void kalman_scan(const KalmanInputs& in, const Tensor& y, const KalmanState& state, bool resume) override;
  void kalman_scan_backward(const KalmanInputs& in, const Tensor& dy, const Tensor& workspace,
                            const KalmanGrads& out) override;
  std::int64_t kalman_scan_workspace(const KalmanInputs& in) const override;
  void feedback_solve(const FeedbackInputs& in, const Tensor& s, const FeedbackSaved& saved) override;
  void feedback_solve_backward(const FeedbackInputs& in, const Tensor& s, const FeedbackSaved& saved, const Tensor& ds,
                               const Tensor& u, const FeedbackGrads& out) override;
  std::int64_t feedback_solve_workspace(const FeedbackInputs& in) const override;
  void series_moments(const Tensor& x, double eps, const Tensor& mean, const Tensor& deviation) override;
  void series_moments_backward(const Tensor& x, const Tensor& mean, const Tensor& deviation, const Tensor& ddeviation,
                               const Grad& dx) override;
  void series_normalise(const Tensor& x, const Tensor& mean, const Tensor& deviation, const Tensor& z) override;
  void series_normalise_backward(const Tensor& z, const Tensor& deviation, const Tensor& dz, const Grad& dx,
                                 const Grad& ddeviation) override;
  void series_restore(const Tensor& z, const Tensor& mean, const Tensor& deviation, const Tensor& y) override;
  void series_restore_backward(const Tensor& z, const Tensor& deviation, const Tensor& dy, const Grad& dz,
                               const Grad& ddeviation) override;
  void squared_error(const Tensor& a, const Tensor& b, const Tensor& loss, const Tensor& absolute) override;
  void squared_error_backward(const Tensor& a, const Tensor& b, const Tensor& dloss, const Grad& da) override;
  void dropout(const Tensor& x, double rate, std::uint64_t seed, std::uint32_t site, const Tensor& counter,
               const Grad& y) override;
  void trapezoid_steps(const Tensor& x, const Tensor& bias, const StepFloors& floors, const Tensor& y) override;
  void trapezoid_steps_backward(const Tensor& x, const Tensor& bias, const StepFloors& floors, const Tensor& dy,
                                const Grad& dx, const Grad& dbias) override;
  void rotary_angles(const Tensor& dt, const Tensor& turn, const Tensor& carry, const Tensor& theta) override;
  void turning_angles_backward(const Tensor& dt, const Tensor& turn, const Tensor& dtheta, const Tensor& sums,
                               const Grad& ddt, const Grad& dturn) override;
  void rotate_heads(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& theta, double eps,
                    const Tensor& y, const Tensor& inverse) override;
  void turned_heads_backward(const Tensor& x, const Tensor& weight, const Tensor& theta, const Tensor& y,
                             const Tensor& inverse, const Tensor& dy, const Tensor& sums, const Grad& dx,
                             const Grad& dweight, const Grad& dbias, const Grad& dtheta) override;
  void pair_squares(const Tensor& x, const PairSquares& squares, const Tensor& y) override;
  void pair_squares_backward(const Tensor& x, const PairSquares& squares, const Tensor& dy, const Grad& dx) override;
  void gated_heads(const Tensor& x, const Tensor& z, const Tensor& weight, double eps, const Tensor& y,
                   const Tensor& inverse) override;
  void gated_heads_backward(const Tensor& x, const Tensor& z, const Tensor& weight, const Tensor& inverse,
                            const Tensor& dy, const Grad& dx, const Grad& dz, const Grad& dweight) override;
  void gradient_norms(const Tensor& gradients, const Tensor& offsets, const Tensor& norms,
                      const Tensor& total) override;
  void adamw(const AdamwTensors& tensors) override;
  std::int64_t first_non_finite(const Tensor& x) override;

 private:
  /// The stream, with the device made current for the calling thread. Every launch goes through here.
  cudaStream_t stream() const;
  /// Reports a launch that was refused.
  void launched(const char* kernel) const;
  /// Memory for rounded operands of products, at least this large. It grows and never moves under a captured program.
  void* operand_memory(std::size_t bytes);
  /// What is queued from here on comes after what was queued beside.
  void await_beside();
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
  bool map_rounded(const Tensor& x, std::span<const Tensor> weights, std::span<const Tensor> results,
                   const Tensor& kept);
  /// The gradients of projections' biases.
  void sum_biases(std::span<const Tensor> dresults, std::span<const Grad> dbiases);
  /// The gradients of their weights, from those of their results side by side and their input.
  void multiply_rounded_gradients(const device::Halves& gradients, const device::Halves& input,
                                  const device::RoundedScales& scales, const LinearBackward& projections);
  /// Keeps gradients of weights that run beside until they are worth a launch or somebody joins; false where they are
  /// too large to wait.
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
  /// `queue_norm_weight` keeps them until there are enough or somebody joins.
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
  Lane main_, beside_;
  Lane* lane_ = &main_;
  bool joined_ = true;             // nothing runs beside
  bool operands_beside_ = false;   // what runs beside may still read the operand memory of the main lane
  unsigned* tickets_ = nullptr;    // of the lane; zero between kernels: a reduction's last block finds itself by them
  std::int64_t* found_ = nullptr;  // answer of first_non_finite
  std::unordered_map<void*, std::size_t> sizes_;
  std::size_t held_ = 0;
  Precision precision_ = Precision::fp32;
  std::vector<NormWeight> norm_weights_;
  std::shared_ptr<device::Products> kept_gradients_;
};

}  // namespace afterglow
