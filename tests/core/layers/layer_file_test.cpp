// Layer files: what comes out, and damaged or unfitting files with their advice.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "core/io/safetensors.h"
#include "core/layers/files/file_run.h"
#include "tests/core/io/temporary_folder.h"

namespace afterglow {
namespace {

using ::testing::HasSubstr;

HostTensor ramp(const std::string& name, const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(std::sin(0.7f * static_cast<float>(i) + 0.3f));
  return make_tensor(name, shape, std::span<const float>(values));
}

class LayerFile : public TemporaryFolder {
 protected:
  /// A recurrent `ska` of width 4 over 20 tokens.
  static TensorFile good() {
    TensorFile file;
    file.metadata = {{"layer", "ska"}, {"config", R"({"d": 4, "H": 2, "r": 3, "P": 2, "mode": "recurrent"})"}};
    file.tensors = {ramp("param.k_proj.weight", {6, 4}),
                    ramp("param.q_proj.weight", {6, 4}),
                    ramp("param.v_proj.weight", {4, 4}),
                    ramp("param.o_proj.weight", {4, 4}),
                    ramp("param.eta", {2}),
                    ramp("param.gamma_raw", {2}),
                    ramp("x", {1, 20, 4}),
                    ramp("grad_y", {1, 20, 4})};
    return file;
  }
  static HostTensor& tensor(TensorFile& file, const std::string& name) {
    for (HostTensor& one : file.tensors) {
      if (one.name == name) return one;
    }
    throw std::runtime_error(name);
  }
  TensorFile run(const TensorFile& file, DType dtype = DType::f32) const {
    write_safetensors(this->file("in.safetensors"), file);
    run_layer_file(this->file("in.safetensors"), this->file("out.safetensors"), *backend_, dtype);
    return read_safetensors(this->file("out.safetensors"));
  }
  std::string refusal(const TensorFile& file) const {
    const std::string message = message_of(ExitCode::bad_input, [&] { run(file); });
    EXPECT_THAT(message, HasSubstr("in.safetensors"));
    return message;
  }

  std::unique_ptr<Backend> backend_ = make_cpu_backend(2);
};

TEST_F(LayerFile, HoldsOutputGradientsAndCaptures) {
  const TensorFile result = run(good(), DType::f64);
  EXPECT_EQ(result.metadata.at("layer"), "ska");
  const HostTensor& y = require_tensor(result, "y", "result");
  EXPECT_EQ(y.shape, (std::vector<std::int64_t>{1, 20, 4}));
  EXPECT_EQ(y.type, StoredType::f64);
  for (const char* name : {"grad.x", "grad.k_proj.weight", "grad.eta", "probe.A_w", "probe.kappa", "probe.eig_imag"})
    EXPECT_NE(result.find(name), nullptr) << name;
}

TEST_F(LayerFile, WithoutUpstreamGradientThereAreNoGradients) {
  TensorFile file = good();
  file.tensors.pop_back();
  const TensorFile result = run(file);
  EXPECT_NE(result.find("y"), nullptr);
  EXPECT_EQ(result.find("grad.x"), nullptr);
}

TEST_F(LayerFile, CapturesOfLongSequencesNameTheirSteps) {
  const TensorFile result = run(good());
  EXPECT_EQ(to_integers(require_tensor(result, "probe.steps", "")), (std::vector<std::int64_t>{0, 1, 10, 19}));
  EXPECT_EQ(require_tensor(result, "probe.M", "").shape, (std::vector<std::int64_t>{1, 2, 4, 3, 3}));
}

TEST_F(LayerFile, CapturesAreTakenAtTheStepsTheFileAsksFor) {
  TensorFile file = good();
  const std::vector<std::int64_t> steps{3, 17};
  file.tensors.push_back(make_tensor("probe.steps", {2}, std::span<const std::int64_t>(steps)));
  const TensorFile some = run(file);
  EXPECT_EQ(require_tensor(some, "probe.m", "").shape, (std::vector<std::int64_t>{1, 2, 2}));
  tensor(file, "probe.steps") =
      make_tensor("probe.steps", {2}, std::span<const std::int64_t>(std::vector<std::int64_t>{0, 20}));
  EXPECT_THAT(refusal(file), HasSubstr("outside 0 to 19"));
}

TEST_F(LayerFile, MissingParameterIsNamed) {
  TensorFile file = good();
  tensor(file, "param.eta").name = "param.etta";
  EXPECT_THAT(refusal(file), HasSubstr("param.eta"));
}

TEST_F(LayerFile, ForeignParameterIsNamedWithTheNearest) {
  TensorFile file = good();
  file.tensors.push_back(ramp("param.k_prj.weight", {6, 4}));
  EXPECT_THAT(refusal(file), HasSubstr("did you mean 'param.k_proj.weight'?"));
}

TEST_F(LayerFile, WrongShapeIsNamedWithTheRightOne) {
  TensorFile file = good();
  tensor(file, "param.q_proj.weight") = ramp("param.q_proj.weight", {4, 6});
  EXPECT_THAT(refusal(file),
              ::testing::AllOf(HasSubstr("param.q_proj.weight"), HasSubstr("[4, 6]"), HasSubstr("[6, 4]")));
}

TEST_F(LayerFile, NotANumberIsFoundInEveryInput) {
  for (const char* name : {"x", "grad_y", "param.gamma_raw"}) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      TensorFile file = good();
      HostTensor& damaged = tensor(file, name);
      std::vector<float> values = to_floats(damaged);
      values.back() = bad;
      damaged = make_tensor(name, damaged.shape, std::span<const float>(values));
      EXPECT_THAT(refusal(file), ::testing::AllOf(HasSubstr(name), HasSubstr(std::isnan(bad) ? "NaN" : "infinity"),
                                                  HasSubstr("element " + std::to_string(values.size() - 1))));
    }
  }
}

TEST_F(LayerFile, UnknownLayerIsNamedWithTheNearest) {
  TensorFile file = good();
  file.metadata["layer"] = "mamba3x";
  EXPECT_THAT(refusal(file), HasSubstr("did you mean 'mamba"));
  file.metadata.erase("layer");
  EXPECT_THAT(refusal(file), HasSubstr("'layer'"));
}

TEST_F(LayerFile, ImpossibleConfigurationIsRefused) {
  TensorFile file = good();
  file.metadata["config"] = R"({"d": 4, "H": 2, "r": 3, "P": 2, "mode": "chunked"})";
  EXPECT_THAT(refusal(file), HasSubstr("chunk"));
  file.metadata["config"] = R"({"d": 4, "H": 2, "r": 3, "P": 2, "ridgee": 1})";
  EXPECT_THAT(refusal(file), HasSubstr("ridge"));
  file.metadata["config"] = "{";
  EXPECT_THAT(refusal(file), HasSubstr("config"));
}

TEST_F(LayerFile, InputsThatDoNotFitAreRefused) {
  TensorFile file = good();
  tensor(file, "x") = ramp("x", {1, 20, 5});
  EXPECT_THAT(refusal(file), HasSubstr("x"));
  tensor(file, "x") = ramp("x", {20, 4});
  EXPECT_THAT(refusal(file), HasSubstr("[any, any, any]"));
  file = good();
  file.metadata["config"] = R"({"d": 4, "H": 2, "r": 3, "P": 2, "mode": "masked"})";
  EXPECT_THAT(refusal(file), HasSubstr("needs a mask"));
  file.tensors.push_back(ramp("mask", {1, 20}));
  EXPECT_THAT(refusal(file), HasSubstr("only 0 and 1"));
}

TensorFile gated_core() {
  TensorFile file;
  file.metadata = {{"layer", "gated_deltanet_core"}, {"config", R"({"H": 2, "Dk": 3, "Dv": 4})"}};
  file.tensors = {ramp("q", {1, 5, 2, 3}), ramp("k", {1, 5, 2, 3}), ramp("v", {1, 5, 2, 4}),
                  ramp("beta", {1, 5, 2}), ramp("g", {1, 5, 2}),    ramp("grad_y", {1, 5, 2, 4})};
  return file;
}

TEST_F(LayerFile, CoresNameTheirOwnInputs) {
  const TensorFile result = run(gated_core());
  EXPECT_EQ(require_tensor(result, "y", "").shape, (std::vector<std::int64_t>{1, 5, 2, 4}));
  EXPECT_EQ(require_tensor(result, "probe.final_state", "").shape, (std::vector<std::int64_t>{1, 2, 3, 4}));
  for (const char* name : {"grad.q", "grad.k", "grad.v", "grad.beta", "grad.g"})
    EXPECT_NE(result.find(name), nullptr) << name;
  EXPECT_EQ(result.find("grad.x"), nullptr);
}

TEST_F(LayerFile, MissingAndUnfittingInputsOfCoresAreNamed) {
  TensorFile file = gated_core();
  file.tensors.erase(file.tensors.begin() + 3);
  EXPECT_THAT(refusal(file), HasSubstr("beta"));
  file = gated_core();
  tensor(file, "g") = ramp("g", {1, 5, 2, 3});
  EXPECT_THAT(refusal(file), ::testing::AllOf(HasSubstr("tensor g"), HasSubstr("[1, 5, 2]")));
  file = gated_core();
  file.metadata["config"] = R"({"H": 2, "Dk": 3})";
  EXPECT_THAT(refusal(file), HasSubstr("Dv"));
}

}  // namespace
}  // namespace afterglow
