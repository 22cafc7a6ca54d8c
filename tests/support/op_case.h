// The one table of operation cases. A case says how an operation is called and what a naive loop in float64 answers;
// everything else - gradients, float32, threads, accumulation, another back end - is checked from that.
#pragma once
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/autograd/tape.h"

namespace afterglow::testing {

using Values = std::vector<double>;

inline double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

/// An input: uniform numbers in [low, high], representable in float32. i32: whole numbers in [low, high]; u8: 0 or 1.
struct InputSpec {
  std::string name;
  Shape shape;
  double low = -1.0, high = 1.0;
  DType dtype = DType::f64;  ///< f64: a floating input in whichever type is being tested
};

struct OpCase {
  std::string name;               ///< letters, digits and '_'
  std::vector<InputSpec> inputs;  ///< differentiable, floating
  std::vector<InputSpec> data;    ///< not differentiable
  std::function<Var(Tape& tape, std::span<const Var> inputs, std::span<const Tensor> data)> run;
  /// The same by plain loops; empty where another case or a closed form already covers the forward pass.
  std::function<Values(std::span<const Values> inputs, std::span<const Values> data)> naive;
  double tolerance = 2e-6;  ///< float32: relative L2 error of the output and of every gradient
  std::string reason;       ///< why float32 may be as far off as that
};

/// All cases, family by family. A family lives in op_cases_<family>.cpp.
std::vector<OpCase> op_cases();
void add_elementwise_cases(std::vector<OpCase>& cases);
void add_gate_cases(std::vector<OpCase>& cases);
void add_linear_cases(std::vector<OpCase>& cases);
void add_norm_cases(std::vector<OpCase>& cases);
void add_token_cases(std::vector<OpCase>& cases);
void add_sequence_cases(std::vector<OpCase>& cases);
void add_scan_cases(std::vector<OpCase>& cases);
void add_koopman_cases(std::vector<OpCase>& cases);
void add_delta_cases(std::vector<OpCase>& cases);
void add_kalman_cases(std::vector<OpCase>& cases);
void add_mamba3_cases(std::vector<OpCase>& cases);
void add_ridge_cases(std::vector<OpCase>& cases);
void add_feedback_cases(std::vector<OpCase>& cases);
void add_forecast_cases(std::vector<OpCase>& cases);
void add_chebyshev_cases(std::vector<OpCase>& cases);

/// Host values of a case's inputs, the same on every machine.
struct OpInputs {
  std::vector<Values> inputs, data;
};
OpInputs inputs_of(const OpCase& op_case);

struct OpResult {
  Values output;
  std::vector<Values> gradients;  ///< of sum(output * projection), one for each input
};

/// |got - want| / |want| of the gradient of one input. Where the exact gradient is zero because its terms cancel,
/// `want` holds rounding noise (less than 1e-12 of the largest gradient); the error is then relative to that largest
/// gradient.
double gradient_error(const OpResult& got, const OpResult& want, std::size_t input);

/// Runs one case on one back end in one type; memory is poisoned so that unwritten elements show as NaN.
class OpRunner {
 public:
  OpRunner(const OpCase& op_case, Backend& backend, DType dtype);
  ~OpRunner();
  OpRunner(const OpRunner&) = delete;
  OpRunner& operator=(const OpRunner&) = delete;

  /// Forward only.
  Values output(const OpInputs& inputs);
  /// Forward and backward. With `uses` > 1 the operation is run that often on the same inputs and the results are
  /// added, so that every gradient accumulates: it must be `uses` times as large.
  OpResult result(const OpInputs& inputs, int uses = 1);
  /// The fixed random numbers that the output is multiplied with to make a scalar.
  static Values projection(std::size_t count);

 private:
  Var forward(const OpInputs& inputs, bool recording, int uses);
  void upload(const Tensor& tensor, const Values& values);
  Values download(const Tensor& tensor);

  const OpCase* case_;
  Backend* backend_;
  DType dtype_;
  Arena arena_;
  Tape tape_;
  std::vector<Tensor> inputs_, data_;
  std::vector<Var> vars_;
};

/// |got - want| / |want| over all elements; NaN anywhere gives infinity. A vanishing `want` is compared absolutely.
double relative_error(const Values& got, const Values& want);

/// One compared quantity: "output" or "gradient of <input>".
struct Difference {
  std::string what;
  double error;
};
/// Runs a case on both back ends: `truth` in float64 if it can, `other` in float32. Each error should be at most
/// op_case.tolerance.
std::vector<Difference> compare_backends(const OpCase& op_case, Backend& truth, Backend& other);
/// Gradients of a case that is run three times on the same inputs, against three times those of one run.
std::vector<Difference> accumulation_errors(const OpCase& op_case, Backend& backend, DType dtype);

}  // namespace afterglow::testing
