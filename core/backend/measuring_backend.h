// A device that only counts: what work would hold in the memory of another one is known before anything is reserved
// there. Kernels do nothing, and nothing lies at the addresses that it gives.
#pragma once
#include <algorithm>
#include <unordered_map>

#include "core/backend/backend.h"

namespace afterglow {

class MeasuringBackend final : public Backend {
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
  void upload(const Tensor& destination, const void* source) override;
  /// Zeros.
  void download(void* destination, const Tensor& source) override;
  void queue_upload(const Tensor& destination, const void* source) override;
  void queue_download(void* destination, const Tensor& source) override;
  void synchronize() override {}
  std::unique_ptr<Program> capture(std::function<void()> work) override;

  void attention(const Tensor& q, const Tensor& k, const Tensor& v, double scale, bool causal, const Tensor& y,
                 const Tensor& log_sum) override;
  std::int64_t attention_operands(const Tensor& q, const Tensor& k) const override;
  std::int64_t linear_kept(const Tensor& x, std::span<const Tensor> weights) const override;
  std::int64_t ssd_scan_workspace(const ScanInputs& in) const override;
  std::int64_t delta_scan_workspace(const DeltaInputs& in) const override;
  std::int64_t kalman_scan_workspace(const KalmanInputs& in) const override;
  std::int64_t ridge_readout_workspace(const RidgeConfig& config, const RidgeInputs& in) const override;
  std::int64_t chebyshev_readout_workspace(const ChebyshevConfig& config, const ChebyshevInputs& in) const override;
  std::int64_t feedback_solve_workspace(const FeedbackInputs& in) const override;
  std::int64_t first_non_finite(const Tensor& x) override;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "core/backend/kernel_stubs.inc"
#pragma GCC diagnostic pop

 private:
  Backend* device_;
  std::unordered_map<void*, std::size_t> sizes_;
  std::uintptr_t next_address_ = std::uintptr_t{1} << 12;
  std::size_t held_ = 0, peak_ = 0, operands_ = 0;
};

}  // namespace afterglow
