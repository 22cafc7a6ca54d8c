// Addresses without memory, and the questions that are handed on.
#include "core/backend/measuring_backend.h"

#include <cstring>
#include <new>

#include "core/backend/host_memory.h"

namespace afterglow {

namespace {

constexpr std::size_t address_step = 256;

struct NoProgram final : Program {
  void run() override {}
};

}  // namespace

void* MeasuringBackend::allocate(std::size_t bytes) {
  void* address = reinterpret_cast<void*>(next_address_);
  next_address_ += (std::max<std::size_t>(bytes, 1) + address_step - 1) / address_step * address_step;
  sizes_[address] = bytes;
  held_ += bytes;
  peak_ = std::max(peak_, held_);
  return address;
}

Tensor MeasuringBackend::allocate_zeros(std::int64_t count, DType dtype) {
  return {allocate(static_cast<std::size_t>(count) * size_of(dtype)), {count}, dtype};
}

void MeasuringBackend::release(void* address) {
  const auto entry = sizes_.find(address);
  if (entry == sizes_.end()) return;
  held_ -= entry->second;
  sizes_.erase(entry);
}

void* MeasuringBackend::allocate_host(std::size_t bytes) {
  require_host_memory(bytes);
  return std::memset(::operator new (bytes, std::align_val_t{address_step}), 0, bytes);
}

void MeasuringBackend::release_host(void* address) { ::operator delete (address, std::align_val_t{address_step}); }
void MeasuringBackend::upload(const Tensor&, const void*) {}
void MeasuringBackend::download(void* destination, const Tensor& source) {
  std::memset(destination, 0, source.bytes());
}
void MeasuringBackend::queue_upload(const Tensor&, const void*) {}
void MeasuringBackend::queue_download(void* destination, const Tensor& source) { download(destination, source); }

std::unique_ptr<Program> MeasuringBackend::capture(std::function<void()> work) {
  work();
  return std::make_unique<NoProgram>();
}

// Where they do not suffice, larger ones come, and those before stay for the programs that were recorded with them.
void MeasuringBackend::attention(const Tensor& q, const Tensor& k, const Tensor&, double, bool, const Tensor&,
                                 const Tensor&) {
  const auto needed = static_cast<std::size_t>(attention_operands(q, k));
  if (needed <= operands_) return;
  allocate(needed);
  operands_ = needed;
}
std::int64_t MeasuringBackend::attention_operands(const Tensor& q, const Tensor& k) const {
  return device_->attention_operands(q, k);
}
std::int64_t MeasuringBackend::linear_kept(const Tensor& x, std::span<const Tensor> weights) const {
  return device_->linear_kept(x, weights);
}
std::int64_t MeasuringBackend::ssd_scan_workspace(const ScanInputs& in) const {
  return device_->ssd_scan_workspace(in);
}
std::int64_t MeasuringBackend::delta_scan_workspace(const DeltaInputs& in) const {
  return device_->delta_scan_workspace(in);
}
std::int64_t MeasuringBackend::kalman_scan_workspace(const KalmanInputs& in) const {
  return device_->kalman_scan_workspace(in);
}
std::int64_t MeasuringBackend::ridge_readout_workspace(const RidgeConfig& config, const RidgeInputs& in) const {
  return device_->ridge_readout_workspace(config, in);
}
std::int64_t MeasuringBackend::chebyshev_readout_workspace(const ChebyshevConfig& config,
                                                           const ChebyshevInputs& in) const {
  return device_->chebyshev_readout_workspace(config, in);
}
std::int64_t MeasuringBackend::feedback_solve_workspace(const FeedbackInputs& in) const {
  return device_->feedback_solve_workspace(in);
}
std::int64_t MeasuringBackend::first_non_finite(const Tensor&) { return -1; }

}  // namespace afterglow
