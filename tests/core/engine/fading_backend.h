// A device that stops answering, for tests of what is left then.
#pragma once
#include <atomic>
#include <memory>

#include "core/backend/cpu/cpu_backend.h"
#include "core/io/error.h"

namespace afterglow {

class FadingBackend final : public CpuBackend {
 public:
  explicit FadingBackend(std::shared_ptr<std::atomic<bool>> gone) : CpuBackend(1), gone_(std::move(gone)) {}
  std::string name() const override { return "fading"; }
  void gemm(bool transpose_a, bool transpose_b, double alpha, const Tensor& a, const Tensor& b, double beta,
            const Tensor& c) override {
    answer();
    CpuBackend::gemm(transpose_a, transpose_b, alpha, a, b, beta, c);
  }
  void download(void* destination, const Tensor& source) override {
    answer();
    CpuBackend::download(destination, source);
  }
  void adamw(const AdamwTensors& tensors) override {
    answer();
    CpuBackend::adamw(tensors);
    if (--steps_left_ == 0) *gone_ = true;
  }
  /// It stops answering by itself after so many training steps.
  void fade_after(int steps) { steps_left_ = steps; }

 private:
  void answer() const {
    if (*gone_) throw Error(ExitCode::no_gpu, "the GPU failed or was lost");
  }
  std::shared_ptr<std::atomic<bool>> gone_;
  int steps_left_ = 0;
};

}  // namespace afterglow
