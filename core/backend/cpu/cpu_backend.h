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
  void require_free(const std::function<std::size_t()>& bytes, std::size_t unwritten) const override;
  std::string name() const override;
  std::string description() const override;
  bool supports(DType dtype) const override;
  void* allocate(std::size_t bytes) override;
  Tensor allocate_zeros(std::int64_t count, DType dtype) override;
  void release(void* address) override;
  void* allocate_host(std::size_t bytes) override;
  void release_host(void* address) override;
  void queue_uploads(std::span<const Transfer> arrays) override;
  void queue_downloads(std::span<const Transfer> arrays) override;
  void synchronize() override;
  void set_yield(std::function<void()> work) override { pool_.set_yield(std::move(work)); }
  std::unique_ptr<DeviceGraph> capture(std::function<void()> work) override;

  using Backend::plan;
  Plan plan(const ProjectionCall& call) const override;
  Plan plan(const ConvolutionCall& call) const override { return {.kept = call.x.elements()}; }
  Plan plan(const ScanInputs& in) const override;
  Plan plan(const ChannelScanInputs& in) const override;
  Plan plan(const RidgeConfig& config, const RidgeInputs& in) const override;
  Plan plan(const ChebyshevConfig& config, const ChebyshevInputs& in) const override;
  std::int64_t first_non_finite(const Tensor& x) override;
#define AFTERGLOW_KERNEL override
#include "core/backend/kernel_list.inc"

 private:
  /// RoPE of one tensor.
  void turn_pairs(const Tensor& x, const RotaryRates& rates, std::int64_t first_position, bool inverse, const Grad& y);

  mutable ThreadPool pool_;
  struct HeldMemory {
    std::size_t bytes;
    bool is_mapped;  // pages from mmap, not the heap
  };
  std::unordered_map<void*, HeldMemory> blocks_;  // what `allocate` and `allocate_zeros` gave
  std::size_t held_ = 0;
};

}  // namespace afterglow
