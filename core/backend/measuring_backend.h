// A device that only counts: what work would hold in the memory of another one is known before anything is reserved
// there. Kernels do nothing, and nothing lies at the addresses that it gives.
#pragma once
#include <unordered_map>

#include "core/backend/backend.h"
#include "core/backend/rounded_weights.h"

namespace afterglow {

/// Kernels that do nothing.
class IdleBackend : public Backend {
 public:
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define AFTERGLOW_KERNEL \
  override {}
#include "core/backend/kernel_list.inc"
#pragma GCC diagnostic pop
};

class MeasuringBackend final : public IdleBackend {
 public:
  /// Measures for `device`, which is asked what its kernels need and must outlive this one.
  explicit MeasuringBackend(Backend& device) : device_(&device) {}

  std::size_t held_bytes() const override { return held_; }
  /// The most that was held at once.
  std::size_t peak_bytes() const { return peak_; }

  std::string name() const override { return device_->name(); }
  std::string description() const override { return device_->description(); }
  bool supports(DType dtype) const override { return device_->supports(dtype); }
  Precision precision() const override { return device_->precision(); }
  bool set_precision(Precision wanted) override { return device_->set_precision(wanted); }

  void* allocate(std::size_t bytes) override;
  Tensor allocate_zeros(std::int64_t count, DType dtype) override;
  void release(void* address) override;
  /// Real memory of zeros, as callers write into it.
  void* allocate_host(std::size_t bytes) override;
  void release_host(void* address) override;
  void queue_uploads(std::span<const Transfer> arrays) override;
  /// Zeros.
  void queue_downloads(std::span<const Transfer> arrays) override;
  void synchronize() override {}
  void begin_side_stream() override { lane_ = 1; }
  void end_side_stream() override { lane_ = 0; }
  std::unique_ptr<DeviceGraph> capture(std::function<void()> work) override;

  Plan plan(const ProjectionCall& call) const override;
  Plan plan(const RidgeConfig& config, const RidgeInputs& in) const override { return device_->plan(config, in); }
  Plan plan(const ChebyshevConfig& config, const ChebyshevInputs& in) const override {
    return device_->plan(config, in);
  }
#define AFTERGLOW_PLAN \
  override { return device_->plan(call); }
#include "core/backend/plan_list.inc"

  void gemm(bool transpose_a, bool transpose_b, double alpha, const Tensor& a, const Tensor& b, double beta,
            const Tensor& c) override;
  void gemm_sum(std::span<const Tensor> a, std::span<const Tensor> b, const Grad& c) override;
  void linear_forward_many(const Tensor& x, std::span<const Tensor> weights, std::span<const Tensor> biases,
                           std::span<const Tensor> results, const KeptInput& kept) override;
  void linear_gradients(std::span<const Tensor> dresults, const Tensor& x, std::span<const Grad> dweights,
                        std::span<const Grad> dbiases) override;
  void linear_backward(const LinearBackward& projections) override;
  void swiglu_gate_up(const Tensor& x, const Tensor& gate, const Tensor& up, const Tensor& g, const Tensor& u,
                      const Tensor& h) override;
  void swiglu_gate_up_backward(const Tensor& dy, const Tensor& down, const Tensor& g, const Tensor& u, const Tensor& dg,
                               const Tensor& du) override;
  void attention(const Tensor& q, const Tensor& k, const Tensor& v, double scale, std::int64_t window, const Tensor& y,
                 const Tensor& log_sum) override;
  void ssd_scan(const ScanInputs& in, const Tensor& y, const Tensor& state, bool resume) override;
  void delta_scan(const DeltaInputs& in, const Tensor& y, const Tensor& state, bool resume) override;
  void feedback_solve(const FeedbackInputs& in, const Tensor& s, const FeedbackSaved& saved) override;
  void hold_weights(const Tensor& values, const Tensor& rounded) override;
  void release_weights() override;
  std::int64_t first_non_finite(const Tensor& x) override;

 private:
  /// Memory of the lane that kernels take turns with: one that suffices takes the place of the one before.
  void hold_operands(const auto& call);

  Backend* device_;
  std::unordered_map<void*, std::size_t> sizes_;
  std::uintptr_t next_address_ = std::uintptr_t{1} << 12;
  std::size_t held_ = 0, peak_ = 0;
  int lane_ = 0;  // 1 on the side stream
  std::size_t operands_[2] = {};
  RoundedWeights weights_of_step_;
};

}  // namespace afterglow
