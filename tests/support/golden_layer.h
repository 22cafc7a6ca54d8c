// Golden files: runs a layer, or what else has its own inputs and outputs (core/layers/files/file_run.h), with the
// file's configuration, parameters and inputs and compares outputs, gradients and captures.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/backend/backend.h"
#include "core/io/safetensors.h"
#include "core/layers/layer_kind.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {

/// Files in tests/golden whose kind is known, by name without extension.
std::vector<std::string> golden_layer_files();

class GoldenLayer {
 public:
  /// `name` as in golden_layer_files().
  GoldenLayer(const std::string& name, Backend& backend, DType dtype);
  ~GoldenLayer();
  GoldenLayer(const GoldenLayer&) = delete;
  GoldenLayer& operator=(const GoldenLayer&) = delete;

  /// Relative errors of everything that run_layer_file writes and the golden file knows: outputs, every grad.* (one
  /// that is missing has an infinite error) and the captures; `capture.eig` are the eigenvalues, as sets of complex
  /// numbers.
  std::vector<Difference> compare();
  /// The same errors where inputs and parameters are first rounded to bfloat16: what the layer makes of one rounding.
  std::vector<Difference> compare_with_rounded_inputs();
  /// The float32 tolerance that the file names for a tensor.
  double tolerance(const std::string& tensor) const;
  /// Whether it is a layer, with `forward` and `step`.
  bool is_layer() const { return layer_ != nullptr; }
  /// Relative error between `forward` and token-by-token `step` calls of a layer.
  double forward_against_steps();

 private:
  std::filesystem::path temporary_file(const std::string& what) const;
  std::vector<Difference> compare(const std::filesystem::path& input);
  Tensor upload(const HostTensor& tensor, DType dtype);
  Values download(const Tensor& tensor) const { return store_.download(tensor); }
  Tensor mask();
  double error_of(const std::string& tensor, const Values& got) const;
  double error_of_eigenvalues(const TensorFile& got) const;

  std::string name_;
  TensorFile file_;
  Backend* backend_;
  DType dtype_;
  ParameterStore store_;
  std::unique_ptr<Layer> layer_;
  std::vector<void*> owned_;
};

}  // namespace afterglow::testing
