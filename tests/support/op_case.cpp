// Running a case of the operation table.
#include "tests/support/op_case.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "core/backend/element_type.h"
#include "core/ops/ops.h"
#include "core/random/random.h"

namespace afterglow::testing {

namespace {

std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 1469598103934665603u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

Values draw(const InputSpec& spec, Random& random) {
  Values values(static_cast<std::size_t>(spec.shape.elements()));
  for (double& value : values) {
    const double u = random.uniform();
    if (spec.dtype == DType::i32) {
      value = std::floor(spec.low + u * (spec.high - spec.low + 1.0));
    } else if (spec.dtype == DType::u8) {
      value = u < 0.5 ? 0.0 : 1.0;
    } else {
      value = static_cast<float>(spec.low + u * (spec.high - spec.low));
    }
  }
  return values;
}

template <class T>
std::vector<T> converted(const Values& values) {
  std::vector<T> result(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) result[i] = static_cast<T>(values[i]);
  return result;
}

template <class T>
Values read(Backend& backend, const Tensor& tensor) {
  std::vector<T> host(static_cast<std::size_t>(tensor.elements()));
  backend.download(host.data(), tensor);
  return Values(host.begin(), host.end());
}

}  // namespace

OpInputs inputs_of(const OpCase& op_case) {
  OpInputs result;
  Random random(hash_of(op_case.name));
  for (const InputSpec& spec : op_case.inputs) result.inputs.push_back(draw(spec, random));
  for (const InputSpec& spec : op_case.data) result.data.push_back(draw(spec, random));
  return result;
}

OpRunner::OpRunner(const OpCase& op_case, Backend& backend, DType dtype)
    : case_(&op_case), backend_(&backend), dtype_(dtype), arena_(backend), tape_(backend, arena_) {
  arena_.set_poison(true);
  const auto reserve = [&](const InputSpec& spec) {
    const DType type = spec.dtype == DType::f64 ? dtype : spec.dtype;
    const auto bytes = static_cast<std::size_t>(spec.shape.elements()) * size_of(type);
    return Tensor(backend.allocate(bytes), spec.shape, type);
  };
  for (const InputSpec& spec : op_case.inputs) inputs_.push_back(reserve(spec));
  for (const InputSpec& spec : op_case.data) data_.push_back(reserve(spec));
}

OpRunner::~OpRunner() {
  for (const Tensor& tensor : inputs_) backend_->release(tensor.data);
  for (const Tensor& tensor : data_) backend_->release(tensor.data);
}

void OpRunner::upload(const Tensor& tensor, const Values& values) {
  with_element_type(tensor.dtype,
                    [&](auto zero) { backend_->upload(tensor, converted<decltype(zero)>(values).data()); });
}

Values OpRunner::download(const Tensor& tensor) {
  return tensor.dtype == DType::f64 ? read<double>(*backend_, tensor) : read<float>(*backend_, tensor);
}

Values OpRunner::projection(std::size_t count) {
  Random random(0x70726f6a);
  Values values(count);
  for (double& value : values) value = static_cast<float>(2.0 * random.uniform() - 1.0);
  return values;
}

Var OpRunner::forward(const OpInputs& inputs, bool recording, int uses) {
  for (std::size_t i = 0; i < inputs_.size(); ++i) upload(inputs_[i], inputs.inputs[i]);
  tape_.begin(recording);
  vars_.clear();
  for (const Tensor& tensor : inputs_) vars_.push_back(tape_.input(tensor));
  Var sum;
  for (int use = 0; use < uses; ++use) {
    for (std::size_t i = 0; i < data_.size(); ++i) upload(data_[i], inputs.data[i]);
    const Var y = case_->run(tape_, vars_, data_);
    sum = use == 0 ? y : add(tape_, sum, y);
  }
  return sum;
}

Values OpRunner::output(const OpInputs& inputs) { return download(forward(inputs, false, 1).value); }

OpResult OpRunner::result(const OpInputs& inputs, int uses) {
  const Var y = forward(inputs, true, uses);
  const Tensor upstream = tape_.scratch(y.shape(), dtype_);
  upload(upstream, projection(static_cast<std::size_t>(y.value.elements())));
  tape_.backward(y, upstream);
  OpResult result{download(y.value), {}};
  for (const Var& var : vars_) result.gradients.push_back(download(tape_.gradient_of(var)));
  return result;
}

namespace {

double norm_of(const Values& values) {
  double squares = 0.0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

/// |got - want|; infinity where a value is not finite or the sizes differ.
double distance(const Values& got, const Values& want) {
  if (got.size() != want.size()) return std::numeric_limits<double>::infinity();
  Values difference(want.size());
  std::ranges::transform(got, want, difference.begin(), std::minus{});
  const double length = norm_of(difference);
  return std::isfinite(length) ? length : std::numeric_limits<double>::infinity();
}

}  // namespace

double relative_error(const Values& got, const Values& want) {
  const double norm = norm_of(want);
  return distance(got, want) / (norm > 1e-30 ? norm : 1.0);
}

double gradient_error(const OpResult& got, const OpResult& want, std::size_t input) {
  double largest = 0.0;
  for (const Values& gradient : want.gradients) largest = std::max(largest, norm_of(gradient));
  if (norm_of(want.gradients[input]) > 1e-12 * largest)
    return relative_error(got.gradients[input], want.gradients[input]);
  return distance(got.gradients[input], want.gradients[input]) / (largest > 1e-30 ? largest : 1.0);
}

namespace {

void add_gradient_errors(std::vector<Difference>& differences, const OpCase& op_case, const OpResult& got,
                         const OpResult& want) {
  for (std::size_t i = 0; i < op_case.inputs.size(); ++i)
    differences.push_back({"gradient of " + op_case.inputs[i].name, gradient_error(got, want, i)});
}

}  // namespace

std::vector<Difference> compare_backends(const OpCase& op_case, Backend& truth, Backend& other) {
  const OpInputs inputs = inputs_of(op_case);
  const DType exact = truth.supports(DType::f64) ? DType::f64 : DType::f32;
  const OpResult want = OpRunner(op_case, truth, exact).result(inputs);
  const OpResult got = OpRunner(op_case, other, DType::f32).result(inputs);
  std::vector<Difference> differences{{"output", relative_error(got.output, want.output)}};
  add_gradient_errors(differences, op_case, got, want);
  return differences;
}

std::vector<Difference> accumulation_errors(const OpCase& op_case, Backend& backend, DType dtype) {
  const OpInputs inputs = inputs_of(op_case);
  OpRunner runner(op_case, backend, dtype);
  OpResult want = runner.result(inputs);
  for (Values& gradient : want.gradients)
    for (double& value : gradient) value *= 3.0;
  std::vector<Difference> differences;
  add_gradient_errors(differences, op_case, runner.result(inputs, 3), want);
  return differences;
}

}  // namespace afterglow::testing
