// Running one layer from a file.
#include "core/layers/layer_file.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/io/error.h"
#include "core/io/json_file.h"
#include "core/io/safetensors.h"
#include "core/io/wording.h"
#include "core/layers/host_probe.h"
#include "core/layers/layer.h"
#include "core/layers/layer_probes.h"

namespace afterglow {

namespace {

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw Error(ExitCode::bad_input, where + ": " + what);
}

std::string text_of(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t extent : shape) text += (text.empty() ? "" : ", ") + std::to_string(extent);
  return "[" + text + "]";
}

std::string metadata_of(const TensorFile& file, const std::string& key, const std::string& where) {
  const auto found = file.metadata.find(key);
  if (found == file.metadata.end())
    refuse(where, "its metadata has no '" + key + "'; write 'layer' (a kind such as ska) and 'config' (its JSON)");
  return found->second;
}

/// The values of a tensor that must be finite and, unless `shape` is empty, of that shape.
std::vector<double> numbers_of(const TensorFile& file, const std::string& name, const std::vector<std::int64_t>& shape,
                               const std::string& where) {
  const HostTensor& tensor = require_tensor(file, name, where);
  if (!shape.empty() && tensor.shape != shape)
    refuse(where, "tensor " + name + " is " + text_of(tensor.shape) + ", but this configuration needs " +
                      text_of(shape) + "; change the one or the other");
  std::vector<double> values = to_doubles(tensor);
  const auto bad = std::find_if(values.begin(), values.end(), [](double value) { return !std::isfinite(value); });
  if (bad != values.end())
    refuse(where, "tensor " + name + " holds " + (std::isnan(*bad) ? "a NaN" : "an infinity") + " at element " +
                      std::to_string(bad - values.begin()) + " of " + text_of(tensor.shape) +
                      "; look at what wrote the file");
  return values;
}

/// Device memory for inputs, released with the run.
class Inputs {
 public:
  explicit Inputs(Backend& backend) : backend_(&backend) {}
  ~Inputs() {
    for (void* address : owned_) backend_->release(address);
  }
  Inputs(const Inputs&) = delete;
  Inputs& operator=(const Inputs&) = delete;

  Tensor upload(const std::vector<double>& values, const std::vector<std::int64_t>& shape, DType dtype) {
    owned_.push_back(backend_->allocate(values.size() * size_of(dtype)));
    const Tensor tensor(owned_.back(), Shape(shape), dtype);
    if (dtype == DType::f64) backend_->upload(tensor, values.data());
    if (dtype == DType::f32) backend_->upload(tensor, std::vector<float>(values.begin(), values.end()).data());
    if (dtype == DType::u8) backend_->upload(tensor, std::vector<std::uint8_t>(values.begin(), values.end()).data());
    return tensor;
  }

 private:
  Backend* backend_;
  std::vector<void*> owned_;
};

class LayerRun {
 public:
  LayerRun(const std::filesystem::path& path, Backend& backend, DType dtype)
      : where_(path.string()),
        file_(read_safetensors(path)),
        backend_(&backend),
        dtype_(dtype),
        inputs_(backend),
        arena_(backend),
        tape_(backend, arena_) {
    load_layer();
    load_parameters();
  }

  TensorFile run() {
    tape_.begin(true);
    tape_.set_probing(true);
    const std::vector<std::int64_t> shape = shape_of_x();
    const Var x = tape_.input(inputs_.upload(numbers_of(file_, "x", {}, where_), shape, dtype_));
    const Var y = forward(x, mask(shape));
    put("y", y.value);
    if (file_.find("grad_y") != nullptr) {
      const std::vector<double> upstream = numbers_of(file_, "grad_y", y.shape().extents(), where_);
      tape_.backward(y, inputs_.upload(upstream, y.shape().extents(), dtype_));
      tape_.zero_untouched(store_);
      put("grad.x", tape_.gradient_of(x));
      for (const Parameter& parameter : store_.all()) put("grad." + parameter.name, parameter.gradient);
    }
    put_probes(shape[1]);
    result_.metadata = {{"format", "afterglow-result/1"}, {"layer", kind_}, {"config", config_.dump()}};
    return std::move(result_);
  }

 private:
  void load_layer() {
    kind_ = metadata_of(file_, "layer", where_);
    config_ = parse_json(metadata_of(file_, "config", where_), where_ + ", config");
    try {
      layer_ = make_layer(kind_, config_, ParameterScope(store_, ""));
    } catch (const Error& error) {
      throw Error(error.code(), where_ + ": " + error.what());
    }
  }

  void load_parameters() {
    store_.allocate(*backend_, dtype_);
    std::vector<std::string> names;
    for (const Parameter& parameter : store_.all()) {
      names.push_back("param." + parameter.name);
      store_.upload(parameter, numbers_of(file_, names.back(), parameter.shape.extents(), where_));
    }
    for (const HostTensor& tensor : file_.tensors) {
      if (!tensor.name.starts_with("param.") || std::find(names.begin(), names.end(), tensor.name) != names.end())
        continue;
      refuse(where_, "tensor " + in_quotes(tensor.name) + " is no parameter of " + kind_ + " with this configuration" +
                         did_you_mean(tensor.name, names));
    }
  }

  std::vector<std::int64_t> shape_of_x() const {
    const std::vector<std::int64_t>& shape = require_tensor(file_, "x", where_).shape;
    if (shape.size() != 3 || shape[0] < 1 || shape[1] < 1 || shape[2] < 1)
      refuse(where_, "tensor x is " + text_of(shape) + ", but must be [batch, tokens, width], none of them zero");
    return shape;
  }

  Tensor mask(const std::vector<std::int64_t>& shape) {
    if (file_.find("mask") == nullptr) return {};
    const std::vector<double> values = numbers_of(file_, "mask", {shape[0], shape[1]}, where_);
    if (std::any_of(values.begin(), values.end(), [](double value) { return value != 0.0 && value != 1.0; }))
      refuse(where_, "tensor mask must hold only 0 and 1");
    return inputs_.upload(values, {shape[0], shape[1]}, DType::u8);
  }

  Var forward(const Var& x, const Tensor& mask) {
    try {
      return layer_->forward(tape_, x, mask);
    } catch (const Error& error) {
      // What the operations refuse here is the file's doing: a width that does not fit, a mask that is missing.
      if (error.code() != ExitCode::failure) throw;
      refuse(where_, std::string(error.what()) + "; compare the tensors x and mask with the configuration");
    }
  }

  void put(const std::string& name, const std::vector<std::int64_t>& shape, const std::vector<double>& values) {
    if (dtype_ == DType::f64) {
      result_.tensors.push_back(make_tensor(name, shape, std::span<const double>(values)));
    } else {
      const std::vector<float> floats(values.begin(), values.end());
      result_.tensors.push_back(make_tensor(name, shape, std::span<const float>(floats)));
    }
  }
  void put(const std::string& name, const Tensor& tensor) {
    put(name, tensor.shape.extents(), to_host(*backend_, tensor));
  }

  void put_probes(std::int64_t tokens) {
    std::vector<HostProbe> probes = download_probes(*backend_, tape_.probes());
    const bool recurrent = config_.contains("mode") && config_["mode"] == "recurrent";
    if (recurrent) {
      const std::vector<std::int64_t> steps = probed_steps(tokens);
      select_steps(probes, steps);
      result_.tensors.push_back(
          make_tensor("probe.steps", {static_cast<std::int64_t>(steps.size())}, std::span<const std::int64_t>(steps)));
    }
    add_spectra(probes, config_.value("ridge", RidgeConfig().ridge));
    for (const HostProbe& probe : probes) put("probe." + probe.name, probe.shape, probe.values);
  }

  std::vector<std::int64_t> probed_steps(std::int64_t tokens) const {
    std::vector<std::int64_t> steps;
    if (const HostTensor* wanted = file_.find("probe.steps")) {
      steps = to_integers(*wanted);
      const bool inside = std::all_of(steps.begin(), steps.end(), [&](std::int64_t t) { return t >= 0 && t < tokens; });
      if (!inside) refuse(where_, "tensor probe.steps names a step outside 0 to " + std::to_string(tokens - 1));
      return steps;
    }
    if (tokens > 16) return {0, 1, tokens / 2, tokens - 1};
    for (std::int64_t t = 0; t < tokens; ++t) steps.push_back(t);
    return steps;
  }

  std::string where_;
  TensorFile file_, result_;
  std::string kind_;
  nlohmann::json config_;
  Backend* backend_;
  DType dtype_;
  ParameterStore store_;
  std::unique_ptr<Layer> layer_;
  Inputs inputs_;
  Arena arena_;
  Tape tape_;
};

}  // namespace

void run_layer_file(const std::filesystem::path& input, const std::filesystem::path& output, Backend& backend,
                    DType dtype) {
  write_safetensors(output, LayerRun(input, backend, dtype).run());
}

}  // namespace afterglow
