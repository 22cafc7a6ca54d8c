// The complete reference back end: Eigen for matrices, plain loops for the rest, float32 and float64.
// Its kernels are defined by family in cpu_<family>.cpp.
#pragma once
#include <unordered_map>

#include "core/backend/backend.h"
#include "core/backend/parallel.h"

namespace afterglow {

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(int threads) : pool_(threads) {}

  std::size_t held_bytes() const override { return held_; }
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
  std::unique_ptr<Program> capture(std::function<void()> work) override;
  void gemm(bool transpose_a, bool transpose_b, double alpha, const Tensor& a, const Tensor& b, double beta,
            const Tensor& c) override;
  void linear_forward_many(const Tensor& x, std::span<const Tensor> weights, std::span<const Tensor> biases,
                           std::span<const Tensor> results, const Tensor& kept) override;
  void gemm_sum(std::span<const Tensor> a, std::span<const Tensor> b, const Grad& c) override;
  void gemm_gradients(std::span<const Tensor> dresults, const Tensor& x, std::span<const Grad> dweights,
                      std::span<const Grad> dbiases) override;
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
  /// The rotary code of one tensor.
  void turn_pairs(const Tensor& x, double base, std::int64_t first_position, bool inverse, const Grad& y);

  mutable ThreadPool pool_;
  std::unordered_map<void*, std::size_t> sizes_;  // of what `allocate` gave
  std::size_t held_ = 0;
};

}  // namespace afterglow
