// Computes something from a file: named tensors in, named tensors out. Every layer can be run; a computation with other
// inputs or outputs (the core of a scan, a decomposition, a whole model) is its own FileKind.
//
// Adding one: derive a FileSubject, declare its parameters in the constructor, read inputs and write outputs in `run`,
// and add a line to file_kinds.cpp:
//
//     class Decomposition final : public FileSubject {
//       void run(FileRun& run) override {
//         const std::vector<double> history = run.numbers("history", {FileRun::any, FileRun::any});
//         ...
//         run.output("eigenvalues", {K}, values);        // numbers of the host, or a value on the tape
//       }
//     };
//
// Gradients, captures, messages and golden files (tests/golden, found by the kind's name) need no further code.
#pragma once
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/autograd/tape.h"
#include "core/io/error.h"
#include "core/io/safetensors.h"

namespace afterglow {

/// One run: the file's tensors, a recording and capturing tape, and the result so far. Every error in the file throws
/// Error(bad_input) that names file, tensor and remedy.
class FileRun : Immovable {
 public:
  FileRun(const std::filesystem::path& path, Backend& backend, DType dtype);
  ~FileRun();

  static constexpr std::int64_t any = -1;  ///< in a shape: any extent except zero

  Tape& tape() { return tape_; }
  DType dtype() const { return dtype_; }
  bool has(const std::string& tensor) const { return file_.find(tensor) != nullptr; }
  /// The floating tensor `name`; its gradient will be written as `grad.<name>`.
  Var input(const std::string& name, const Shape& shape);
  /// A tensor without gradient that must hold only 0 and 1.
  Tensor flags(const std::string& name, const Shape& shape);
  /// A tensor's finite values on the host.
  std::vector<double> numbers(const std::string& name, const Shape& shape) const;
  /// Shape of a tensor that the file must have.
  Shape shape_of(const std::string& name) const;

  /// Adds a result. `grad_y` of the file, if any, is the upstream gradient of the result `y`.
  void output(const std::string& name, const Var& value);
  void output(const std::string& name, const Shape& shape, const std::vector<double>& values);

 private:
  friend void run_layer_file(const std::filesystem::path&, const std::filesystem::path&, Backend&, DType);
  TensorFile run();
  std::string metadata_of(const std::string& key) const;
  void load_subject();
  void load_parameters();
  void put_gradients();
  void put_captures();
  std::vector<std::int64_t> captured_steps(std::int64_t tokens) const;
  void put(const std::string& name, const Tensor& tensor);
  Tensor upload(const std::vector<double>& values, const Shape& shape, DType dtype);
  template <class... What>
  [[noreturn]] void refuse(const What&... what) const {
    throw BadInput(where_, ": ", what...);
  }

  std::string where_;
  TensorFile file_, result_;
  std::string kind_;
  nlohmann::json config_;
  Backend* backend_;
  DType dtype_;
  ParameterStore store_;
  std::unique_ptr<class FileSubject> subject_;
  std::vector<void*> owned_;
  Arena arena_;
  Tape tape_;
  std::vector<std::pair<std::string, Var>> inputs_;
  Var y_;
};

/// The computation, made from the configuration of the file, with its parameters declared.
class FileSubject {
 public:
  virtual ~FileSubject() = default;
  virtual void run(FileRun& run) = 0;
};

struct FileKind {
  std::string name;
  std::unique_ptr<FileSubject> (*make)(const nlohmann::json& config, const ParameterScope& parameters);
};

/// What can be run from a file in addition to the layers.
const std::vector<FileKind>& file_kinds();
/// The subject of a kind: one of `file_kinds()`, or a layer with input `x`, optionally `mask`, and output `y`.
std::unique_ptr<FileSubject> make_file_subject(const std::string& kind, const nlohmann::json& config,
                                               const ParameterScope& parameters);

/// Reads a safetensors file with the metadata `layer` (a kind) and `config` (its JSON), the tensors `param.<name>` and
/// the inputs. A layer has `x` [B,T,d], optionally `mask` [B,T] of 0 and 1, and the output `y`; the kinds of
/// file_kinds.cpp name their own. Runs it in `dtype` and writes the outputs; where `grad_y` is given also
/// `grad.<input>` and `grad.<name>` (of sum(y * grad_y)); and the captures `capture.<name>`. In recurrent mode of `ska`
/// the captures are taken at the steps of `capture.steps` if the file has them, else at all of up to 16 steps, else at
/// the first two, the middle and the last one; the result names them in `capture.steps`. A file that cannot be used is
/// an Error(bad_input) that names file, tensor and remedy.
void run_layer_file(const std::filesystem::path& input, const std::filesystem::path& output, Backend& backend,
                    DType dtype);

}  // namespace afterglow
