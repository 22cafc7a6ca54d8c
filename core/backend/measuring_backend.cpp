// Addresses without memory, and the memory that kernels hold.
#include "core/backend/measuring_backend.h"

#include <cstring>
#include <new>
#include <utility>

#include "core/backend/host_memory.h"

namespace afterglow {
namespace {

constexpr std::size_t address_step = 256;

struct NoGraph final : DeviceGraph {
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
void MeasuringBackend::queue_uploads(std::span<const Transfer>) {}
void MeasuringBackend::queue_downloads(std::span<const Transfer> arrays) {
  for (const Transfer& array : arrays) std::memset(array.to, 0, array.bytes);
}

std::unique_ptr<DeviceGraph> MeasuringBackend::capture(std::function<void()> work) {
  work();
  return std::make_unique<NoGraph>();
}

void MeasuringBackend::hold_operands(const auto& call) {
  std::size_t& operands = operands_[lane_];
  const auto needed = static_cast<std::size_t>(plan(call).operands);
  if (needed <= operands) return;
  held_ += needed - std::exchange(operands, needed);
  peak_ = std::max(peak_, held_);
}

void MeasuringBackend::gemm(bool, bool, double, const Tensor& a, const Tensor& b, double, const Tensor&) {
  hold_operands(ProductCall{a, b});
}
void MeasuringBackend::gemm_sum(std::span<const Tensor> a, std::span<const Tensor> b, const Grad&) {
  for (std::size_t i = 0; i < a.size(); ++i) hold_operands(ProductCall{a[i], b[i]});
}
void MeasuringBackend::linear_forward_many(const Tensor& x, std::span<const Tensor> weights, std::span<const Tensor>,
                                           std::span<const Tensor>, const KeptInput& kept) {
  hold_operands(ProjectionCall{x, weights, 0, kept.numbers});
  for (const Tensor& weight : weights) hold_operands(ProductCall{x, weight});
}
void MeasuringBackend::linear_gradients(std::span<const Tensor> dresults, const Tensor& x, std::span<const Grad>,
                                        std::span<const Grad>) {
  for (const Tensor& dresult : dresults) hold_operands(ProductCall{dresult, x});
}
void MeasuringBackend::linear_backward(const LinearBackward& projections) {
  const ProjectionCall call{projections.x, projections.weights, 0, projections.kept};
  if (plan(call).operands == 0) return linear_backward_by_parts(*this, projections);
  hold_operands(call);
}
void MeasuringBackend::swiglu_gate_up(const Tensor& x, const Tensor& gate, const Tensor&, const Tensor&, const Tensor&,
                                      const Tensor&) {
  hold_operands(ProductCall{x, gate});
}
void MeasuringBackend::swiglu_gate_up_backward(const Tensor& dy, const Tensor& down, const Tensor&, const Tensor&,
                                               const Tensor&, const Tensor&) {
  hold_operands(ProductCall{dy, down});
}
void MeasuringBackend::attention(const Tensor&, const Tensor& k, const Tensor&, double, std::int64_t, const Tensor& y,
                                 const Tensor&) {
  hold_operands(AttentionCall{y, k});
}
void MeasuringBackend::ssd_scan(const ScanInputs& in, const Tensor&, const Tensor&, bool) { hold_operands(in); }
void MeasuringBackend::delta_scan(const DeltaInputs& in, const Tensor&, const Tensor&, bool) { hold_operands(in); }
void MeasuringBackend::feedback_solve(const FeedbackInputs& in, const Tensor&, const FeedbackSaved&) {
  hold_operands(in);
}

Plan MeasuringBackend::plan(const ProjectionCall& call) const {
  Plan plan = device_->plan(call);
  if (call.x.dtype == DType::bf16 && weights_of_step_.cover(call.weights)) plan.kept = 0;
  return plan;
}
void MeasuringBackend::hold_weights(const Tensor& values, const Tensor& rounded) {
  weights_of_step_ = {values, rounded};
}
void MeasuringBackend::release_weights() { weights_of_step_ = {}; }
std::int64_t MeasuringBackend::first_non_finite(const Tensor&) { return -1; }

}  // namespace afterglow
