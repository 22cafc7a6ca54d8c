// The GPU that tests in this folder share. Without a GPU main.cpp skips them all.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "gpu/cuda.h"
#include "gpu/runtime/warpgroup_switch.h"

namespace afterglow::testing {

/// The one CUDA back end of this process, or null; `why_not` gives the reason.
inline Backend* gpu(std::string* why_not = nullptr) {
  static std::string reason;
  static const std::unique_ptr<Backend> backend = make_cuda_backend(0, &reason);
  if (why_not != nullptr) *why_not = reason;
  return backend.get();
}

template <class Base>
class OnGpu : public Base {
 protected:
  void SetUp() override {
    std::string reason;
    cuda_ = gpu(&reason);
    ASSERT_NE(cuda_, nullptr) << reason;
  }
  Backend* cuda_ = nullptr;
};

using GpuTest = OnGpu<::testing::Test>;

/// A test on a GPU that computes in `precision`.
template <class Base, Precision precision>
class InPrecision : public Base {
 protected:
  void SetUp() override {
    Base::SetUp();
    if (this->cuda_ != nullptr) this->cuda_->set_precision(precision);
  }
  void TearDown() override {
    if (this->cuda_ != nullptr) this->cuda_->set_precision(Precision::fp32);
    Base::TearDown();
  }
};

/// bfloat16 has eight bits: a rounded number is off by at most one part in 256.
inline constexpr double unit_roundoff_of_bf16 = 1.0 / 256.0;

/// Several kernels exist twice: by warp groups, which GPUs of compute capability 9.0 take, and for all other GPUs.
enum class Path { of_this_gpu, without_warpgroups };
inline std::string suffix_of(Path path) { return path == Path::of_this_gpu ? "" : "_without_warpgroups"; }
inline const auto both_paths = ::testing::Values(Path::of_this_gpu, Path::without_warpgroups);

/// A test that runs on both. A GPU without warp groups has one path only, so there the second is skipped.
template <class Base>
class OnPath : public OnGpu<Base> {
 protected:
  /// Last statement of SetUp.
  void take(Path path) {
    if (this->cuda_ == nullptr || path == Path::of_this_gpu) return;
    if (!cuda_use_warpgroups(false)) GTEST_SKIP() << "this GPU has no warp groups, so there is one path only";
  }
  void TearDown() override { cuda_use_warpgroups(true); }
};

}  // namespace afterglow::testing
