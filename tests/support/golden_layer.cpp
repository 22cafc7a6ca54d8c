// Running a layer against its golden file.
#include "tests/support/golden_layer.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/layers/files/file_run.h"
#include "tests/support/folders.h"

namespace afterglow::testing {

namespace {

template <class Kind>
bool is_among(const std::vector<Kind>& kinds, const std::string& name) {
  return std::any_of(kinds.begin(), kinds.end(), [&](const Kind& kind) { return kind.name == name; });
}

bool known(const std::string& kind) { return is_among(layer_kinds(), kind) || is_among(file_kinds(), kind); }

double length_of(const Values& values) {
  double sum = 0.0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

}  // namespace

std::vector<std::string> golden_layer_files() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(golden_folder())) {
    if (entry.path().extension() != ".safetensors") continue;
    if (known(read_safetensors(entry.path()).metadata.at("layer"))) names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

GoldenLayer::GoldenLayer(const std::string& name, Backend& backend, DType dtype)
    : name_(name),
      file_(read_safetensors(golden_folder() / (name + ".safetensors"))),
      backend_(&backend),
      dtype_(dtype) {
  if (!is_among(layer_kinds(), file_.metadata.at("layer"))) return;
  const nlohmann::json config = nlohmann::json::parse(file_.metadata.at("config"));
  layer_ = make_layer(file_.metadata.at("layer"), config, ParameterScope(store_, ""));
  store_.allocate(backend, dtype);
  for (const Parameter& parameter : store_.all()) {
    const HostTensor& values = require_tensor(file_, "param." + parameter.name, name);
    store_.upload(parameter, to_doubles(values));
  }
}

std::filesystem::path GoldenLayer::temporary_file(const std::string& what) const {
  return std::filesystem::temp_directory_path() /
         ("afterglow_" + name_ + "_" + name_of(dtype_) + "_" + backend_->name() + "_" + std::to_string(::getpid()) +
          "_" + what + ".safetensors");
}

GoldenLayer::~GoldenLayer() {
  for (void* address : owned_) backend_->release(address);
}

Tensor GoldenLayer::upload(const HostTensor& tensor, DType dtype) {
  owned_.push_back(backend_->allocate(static_cast<std::size_t>(tensor.elements()) * size_of(dtype)));
  const Tensor result(owned_.back(), Shape(tensor.shape), dtype);
  const Values values = to_doubles(tensor);
  if (dtype == DType::f64) backend_->upload(result, values.data());
  if (dtype == DType::f32) backend_->upload(result, to_floats(tensor).data());
  if (dtype == DType::u8) backend_->upload(result, std::vector<std::uint8_t>(values.begin(), values.end()).data());
  return result;
}

Tensor GoldenLayer::mask() {
  const HostTensor* mask = file_.find("mask");
  return mask == nullptr ? Tensor() : upload(*mask, DType::u8);
}

double GoldenLayer::tolerance(const std::string& tensor) const {
  const nlohmann::json special = nlohmann::json::parse(file_.metadata.at("tolerances"));
  if (special.contains(tensor)) return special[tensor].get<double>();
  return std::stod(file_.metadata.at("tolerance"));
}

// A gradient that has to vanish is measured by the largest gradient of the file.
double GoldenLayer::error_of(const std::string& tensor, const Values& got) const {
  const Values want = to_doubles(require_tensor(file_, tensor, "golden file"));
  if (length_of(want) > 0.0) return relative_error(got, want);
  double largest = 0.0;
  for (const HostTensor& other : file_.tensors) {
    if (tensor.rfind("grad.", 0) == 0 && other.name.rfind("grad.", 0) == 0)
      largest = std::max(largest, length_of(to_doubles(other)));
  }
  return relative_error(got, want) / (largest > 0.0 ? largest : 1.0);
}

// Every eigenvalue is paired with the nearest one that is still free.
double GoldenLayer::error_of_eigenvalues(const TensorFile& got) const {
  const HostTensor& shape = require_tensor(file_, "probe.eig_real", "golden file");
  const std::int64_t r = shape.shape.back();
  const auto read = [](const TensorFile& file) {
    const Values real = to_doubles(require_tensor(file, "probe.eig_real", "eigenvalues"));
    const Values imaginary = to_doubles(require_tensor(file, "probe.eig_imag", "eigenvalues"));
    std::vector<std::complex<double>> values;
    for (std::size_t i = 0; i < real.size(); ++i) values.emplace_back(real[i], imaginary[i]);
    return values;
  };
  std::vector<std::complex<double>> want = read(file_), free = read(got);
  if (free.size() != want.size()) return std::numeric_limits<double>::infinity();
  double difference = 0.0, norm = 0.0;
  for (auto first = free.begin(), value = want.begin(); value != want.end(); first += r) {
    for (auto begin = first; begin != first + r; ++begin, ++value) {
      const auto nearest = std::min_element(
          begin, first + r, [&](const auto& a, const auto& b) { return std::abs(a - *value) < std::abs(b - *value); });
      difference += std::norm(*nearest - *value);
      norm += std::norm(*value);
      std::iter_swap(nearest, begin);
    }
  }
  return std::sqrt(norm > 0.0 ? difference / norm : difference);
}

std::vector<Difference> GoldenLayer::compare() { return compare(golden_folder() / (name_ + ".safetensors")); }

std::vector<Difference> GoldenLayer::compare_with_rounded_inputs() {
  TensorFile rounded = file_;
  for (HostTensor& tensor : rounded.tensors) {
    if (tensor.type != StoredType::f32) continue;
    for (std::size_t at = 0; at < tensor.bytes.size(); at += sizeof(float)) {
      std::uint32_t bits;
      std::memcpy(&bits, &tensor.bytes[at], sizeof bits);
      bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;  // to the nearest, ties to even
      std::memcpy(&tensor.bytes[at], &bits, sizeof bits);
    }
  }
  const std::filesystem::path input = temporary_file("rounded");
  write_safetensors(input, rounded);
  const std::vector<Difference> differences = compare(input);
  std::filesystem::remove(input);
  return differences;
}

std::vector<Difference> GoldenLayer::compare(const std::filesystem::path& input) {
  const std::filesystem::path output = temporary_file("output");
  run_layer_file(input, output, *backend_, dtype_);
  const TensorFile got = read_safetensors(output);
  std::filesystem::remove(output);
  const auto outputs = nlohmann::json::parse(file_.metadata.at("outputs")).get<std::vector<std::string>>();
  std::vector<Difference> differences;
  for (const HostTensor& want : file_.tensors) {
    const bool asked = std::find(outputs.begin(), outputs.end(), want.name) != outputs.end() ||
                       want.name.starts_with("grad.") || want.name.starts_with("probe.");
    if (!asked || want.name.starts_with("probe.eig_")) continue;
    const HostTensor* tensor = got.find(want.name);
    if (tensor != nullptr) {
      differences.push_back({want.name, error_of(want.name, to_doubles(*tensor))});
    } else if (!want.name.starts_with("probe.")) {
      differences.push_back({want.name + " is missing", std::numeric_limits<double>::infinity()});
    }
  }
  if (file_.find("probe.eig_real") != nullptr) differences.push_back({"probe.eig", error_of_eigenvalues(got)});
  return differences;
}

double GoldenLayer::forward_against_steps() {
  Arena arena(*backend_);
  arena.set_poison(true);
  Tape tape(*backend_, arena);
  const Tensor x = upload(require_tensor(file_, "x", "golden file"), dtype_);
  tape.begin(false);
  const Values want = download(layer_->forward(tape, tape.constant(x), mask()).value);
  const std::int64_t batch = x.shape[0], length = x.shape[1], width = x.shape[2];
  const HostTensor token{"", StoredType::f64, {batch, 1, width}, std::vector<std::byte>(batch * width * 8)};
  const Tensor input = upload(token, dtype_);
  LayerState state = layer_->make_state(*backend_, dtype_, batch);
  Values got(want.size());
  for (std::int64_t t = 0; t < length; ++t) {
    tape.begin(false);
    backend_->copy(input.reshaped({batch, width}), x.reshaped({batch, length * width}).column_range(t * width, width));
    const Values row = download(layer_->step(tape, tape.constant(input), state).value);
    for (std::int64_t b = 0; b < batch; ++b)
      std::copy_n(row.begin() + b * width, width, got.begin() + (b * length + t) * width);
  }
  return relative_error(got, want);
}

}  // namespace afterglow::testing
