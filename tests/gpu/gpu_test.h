// The GPU that tests in this folder share. Where there is none, main.cpp skips them all.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "gpu/cuda.h"

namespace afterglow::testing {

/// The one CUDA back end of this process, or null; `why_not` says why there is none.
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

}  // namespace afterglow::testing
