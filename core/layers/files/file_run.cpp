// Runs a layer, or a kind with its own inputs and outputs, from a file.
#include "core/layers/files/file_run.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <span>

#include "core/analysis/linear_algebra/spectrum.h"
#include "core/io/error.h"
#include "core/io/json_file.h"
#include "core/io/named.h"
#include "core/io/wording.h"
#include "core/layers/host_values.h"

namespace afterglow {
namespace {

struct HostCapture {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<double> values;
};

const HostCapture* find(const std::vector<HostCapture>& captures, std::string_view name) {
  return find_by(captures, name, &HostCapture::name);
}

std::vector<std::int64_t> without_last(std::vector<std::int64_t> shape, std::size_t axes) {
  shape.resize(shape.size() - axes);
  return shape;
}

/// Calls body for each square matrix [r*r] of a capture.
template <class Body>
void for_each_matrix(const HostCapture& capture, const Body& body) {
  const std::int64_t r = capture.shape.back(), size = r * r;
  for (std::size_t i = 0; i + size <= capture.values.size(); i += size)
    body(std::span<const double>(capture.values).subspan(i, size), static_cast<int>(r));
}

void add_conditioning(std::vector<HostCapture>& captures, const HostCapture& G, double ridge) {
  HostCapture kappa{"kappa", without_last(G.shape, 2), {}}, lambda_min{"lambda_min", without_last(G.shape, 2), {}};
  for_each_matrix(G, [&](std::span<const double> gram, int r) {
    std::vector<double> regular(gram.begin(), gram.end());
    for (int i = 0; i < r; ++i) regular[i * r + i] += ridge;
    const SymmetricRange range = symmetric_range(regular, r);
    kappa.values.push_back(range.largest / range.smallest);
    lambda_min.values.push_back(range.smallest);
  });
  captures.push_back(std::move(kappa));
  captures.push_back(std::move(lambda_min));
}

void add_eigenvalues(std::vector<HostCapture>& captures, const HostCapture& A) {
  HostCapture real{"eig_real", without_last(A.shape, 1), {}}, imaginary{"eig_imag", without_last(A.shape, 1), {}};
  for_each_matrix(A, [&](std::span<const double> matrix, int r) {
    constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
    std::vector<std::complex<double>> values = eigenvalues(matrix, r);
    values.resize(static_cast<std::size_t>(r), {unknown, unknown});
    for (const std::complex<double>& value : values) {
      real.values.push_back(value.real());
      imaginary.values.push_back(value.imag());
    }
  });
  captures.push_back(std::move(real));
  captures.push_back(std::move(imaginary));
}

/// Downloads the floating captures that a tape has collected.
std::vector<HostCapture> download_captures(Backend& backend, const std::vector<Capture>& captures) {
  std::vector<HostCapture> result;
  for (const Capture& capture : captures) {
    if (capture.value.dtype != DType::f32 && capture.value.dtype != DType::f64) continue;
    result.push_back({capture.name, capture.value.shape.extents(), to_host(backend, capture.value)});
  }
  return result;
}

/// Where `G` and `A_w` [..,r,r] were captured, adds `kappa`, `lambda_min` [..] of G + ridge I and `eig_real`,
/// `eig_imag` [..,r] of A_w, modulus descending, then angle ascending; NaN where a matrix is not finite.
void add_spectra(std::vector<HostCapture>& captures, double ridge) {
  const HostCapture *G = find(captures, "G"), *A = find(captures, "A_w");
  if (!G || !A) return;
  const HostCapture gram = *G, transition = *A;  // copies, because adding captures moves the list
  add_conditioning(captures, gram, ridge);
  add_eigenvalues(captures, transition);
}

/// Keeps the given steps of the captures of statistics, whose third axis counts the tokens of recurrent mode; values of
/// the pass itself and the gains of heads have no such axis.
void select_steps(std::vector<HostCapture>& captures, std::span<const std::int64_t> steps) {
  constexpr std::array<std::string_view, 8> of_tokens{"keys", "queries", "values", "readout",
                                                      "gate", "beta",    "lambda", "gamma"};
  for (HostCapture& capture : captures) {
    if (std::ranges::find(of_tokens, capture.name) != of_tokens.end()) continue;
    const std::int64_t rows = capture.shape[0] * capture.shape[1], tokens = capture.shape[2];
    const std::int64_t size = static_cast<std::int64_t>(capture.values.size()) / (rows * tokens);
    std::vector<double> kept;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (const std::int64_t step : steps) {
        const auto begin = capture.values.begin() + (row * tokens + step) * size;
        kept.insert(kept.end(), begin, begin + size);
      }
    }
    capture.values = std::move(kept);
    capture.shape[2] = static_cast<std::int64_t>(steps.size());
  }
}

std::string text_of(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t extent : shape)
    text += (text.empty() ? "" : ", ") + (extent == FileRun::any ? "any" : std::to_string(extent));
  return "[" + text + "]";
}

bool agrees(const std::vector<std::int64_t>& got, const std::vector<std::int64_t>& wanted) {
  return std::ranges::equal(
      got, wanted, [](std::int64_t have, std::int64_t want) { return want == FileRun::any ? have > 0 : have == want; });
}

}  // namespace

FileRun::FileRun(const std::filesystem::path& path, Backend& backend, DType dtype)
    : where_(path.string()),
      file_(read_safetensors(path)),
      backend_(&backend),
      dtype_(dtype),
      arena_(backend),
      tape_(backend, arena_) {
  load_subject();
  load_parameters();
}

FileRun::~FileRun() {
  for (void* address : owned_) backend_->release(address);
}

TensorFile FileRun::run() {
  tape_.begin(true);
  const Capturing capturing(tape_, {}, PassForm::wide);
  try {
    subject_->run(*this);
  } catch (const Error& error) {
    // Errors of operations are here errors of the file: a width that does not fit, a missing mask.
    if (error.code() != ExitCode::failure) throw;
    const std::string read = joined(names_of(inputs_, [](const auto& one) { return one.first; }), ", ");
    refuse(error.what(), "; compare the inputs (", read, " and what is missing) with the configuration");
  }
  if (y_.defined() && has("grad_y")) put_gradients();
  put_captures();
  result_.metadata = {{"format", "afterglow-result/1"}, {"layer", kind_}, {"config", config_.dump()}};
  return std::move(result_);
}

Var FileRun::input(const std::string& name, const Shape& shape) {
  const std::vector<double> values = numbers(name, shape);
  const Var var = tape_.input(upload(values, shape_of(name), dtype_));
  inputs_.emplace_back(name, var);
  return var;
}

Tensor FileRun::flags(const std::string& name, const Shape& shape) {
  const std::vector<double> values = numbers(name, shape);
  if (std::ranges::any_of(values, [](double value) { return value != 0.0 && value != 1.0; }))
    refuse("tensor ", name, " must hold only 0 and 1");
  return upload(values, shape_of(name), DType::u8);
}

std::vector<double> FileRun::numbers(const std::string& name, const Shape& shape) const {
  const HostTensor& tensor = require_tensor(file_, name, where_);
  if (!agrees(tensor.shape, shape.extents()))
    refuse("tensor ", name, " is ", text_of(tensor.shape), ", but this configuration needs ", text_of(shape.extents()),
           "; change the one or the other");
  std::vector<double> values = to_doubles(tensor);
  const auto bad = std::ranges::find_if(values, [](double value) { return !std::isfinite(value); });
  if (bad != values.end())
    refuse("tensor ", name, " holds ", std::isnan(*bad) ? "a NaN" : "an infinity", " at element ", bad - values.begin(),
           " of ", text_of(tensor.shape), "; check the program that wrote the file");
  return values;
}

Shape FileRun::shape_of(const std::string& name) const {
  const std::vector<std::int64_t>& shape = require_tensor(file_, name, where_).shape;
  if (shape.size() > static_cast<std::size_t>(Shape::max_rank))
    refuse("tensor ", name, " is ", text_of(shape), ", which has too many axes");
  return Shape(shape);
}

void FileRun::output(const std::string& name, const Var& value) {
  put(name, value.value);
  if (name == "y") y_ = value;
}

void FileRun::output(const std::string& name, const Shape& shape, const std::vector<double>& values) {
  if (dtype_ == DType::f64) {
    result_.tensors.push_back(make_tensor(name, shape.extents(), std::span<const double>(values)));
  } else {
    const std::vector<float> floats(values.begin(), values.end());
    result_.tensors.push_back(make_tensor(name, shape.extents(), std::span<const float>(floats)));
  }
}

std::string FileRun::metadata_of(const std::string& key) const {
  const auto found = file_.metadata.find(key);
  if (found == file_.metadata.end())
    refuse("its metadata has no '", key, "'; write 'layer' (a kind such as ska) and 'config' (its JSON)");
  return found->second;
}

void FileRun::load_subject() {
  kind_ = metadata_of("layer");
  config_ = parse_json(metadata_of("config"), where_ + ", config");
  try {
    subject_ = make_file_subject(kind_, config_, ParameterScope(store_, ""));
  } catch (const Error& error) {
    throw Error(error.code(), where_, ": ", error.what());
  }
}

void FileRun::load_parameters() {
  store_.allocate(*backend_, dtype_);
  std::vector<std::string> names;
  for (const Parameter& parameter : store_.all()) {
    names.push_back("param." + parameter.name);
    store_.upload(parameter, numbers(names.back(), parameter.shape));
  }
  for (const HostTensor& tensor : file_.tensors) {
    if (!tensor.name.starts_with("param.") || std::ranges::find(names, tensor.name) != names.end()) continue;
    refuse("tensor ", in_quotes(tensor.name), " is no parameter of ", kind_, " with this configuration",
           did_you_mean(tensor.name, names));
  }
}

Tensor FileRun::upload(const std::vector<double>& values, const Shape& shape, DType dtype) {
  owned_.push_back(backend_->allocate(values.size() * size_of(dtype)));
  const Tensor tensor(owned_.back(), shape, dtype);
  if (dtype != DType::u8) upload_numbers(*backend_, tensor, values);
  if (dtype == DType::u8) backend_->upload(tensor, std::vector<std::uint8_t>(values.begin(), values.end()).data());
  return tensor;
}

void FileRun::put(const std::string& name, const Tensor& tensor) {
  output(name, tensor.shape, to_host(*backend_, tensor));
}

void FileRun::put_gradients() {
  tape_.backward(y_, upload(numbers("grad_y", y_.shape()), y_.shape(), dtype_));
  tape_.zero_untouched(store_);
  for (const auto& [name, var] : inputs_) put("grad." + name, tape_.gradient_of(var));
  for (const Parameter& parameter : store_.all()) put("grad." + parameter.name, parameter.gradient);
}

void FileRun::put_captures() {
  std::vector<HostCapture> captures = download_captures(*backend_, tape_.captures());
  if (config_.contains("mode") && config_["mode"] == "recurrent") {
    const std::vector<std::int64_t> steps = captured_steps(shape_of("x")[1]);
    select_steps(captures, steps);
    result_.tensors.push_back(
        make_tensor("probe.steps", {static_cast<std::int64_t>(steps.size())}, std::span<const std::int64_t>(steps)));
  }
  add_spectra(captures, config_.value("ridge", RidgeConfig().ridge));
  for (const HostCapture& capture : captures) output("probe." + capture.name, Shape(capture.shape), capture.values);
}

std::vector<std::int64_t> FileRun::captured_steps(std::int64_t tokens) const {
  std::vector<std::int64_t> steps;
  if (const HostTensor* wanted = file_.find("probe.steps")) {
    steps = to_integers(*wanted);
    const bool inside = std::ranges::all_of(steps, [&](std::int64_t t) { return t >= 0 && t < tokens; });
    if (!inside) refuse("tensor probe.steps names a step outside 0 to ", tokens - 1);
    return steps;
  }
  if (tokens > 16) return {0, 1, tokens / 2, tokens - 1};
  for (std::int64_t t = 0; t < tokens; ++t) steps.push_back(t);
  return steps;
}

void run_layer_file(const std::filesystem::path& input, const std::filesystem::path& output, Backend& backend,
                    DType dtype) {
  write_safetensors(output, FileRun(input, backend, dtype).run());
}

}  // namespace afterglow
