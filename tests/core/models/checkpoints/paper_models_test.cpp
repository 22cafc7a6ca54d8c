// The weights of Sessa's package and of Spectral Memory's code open by the names that they have there, and answer what
// the golden files of the layers hold.
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>

#include "core/engine/training/saved/saved_run.h"
#include "core/io/error.h"
#include "core/io/safetensors.h"
#include "core/layers/forecaster.h"
#include "core/models/checkpoints/checkpoint.h"
#include "core/models/model.h"
#include "tests/core/models/checkpoints/saved_model.h"
#include "tests/support/folders.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TensorFile golden(const std::string& name) { return read_safetensors(golden_folder() / (name + ".safetensors")); }

HostTensor renamed(HostTensor tensor, const std::string& name) {
  tensor.name = name;
  return tensor;
}

HostTensor floats(const std::string& name, const std::vector<std::int64_t>& shape, const std::vector<float>& values) {
  return make_tensor(name, shape, std::span<const float>(values));
}

/// The golden file's parameters with `prefix` in front of their names.
std::vector<HostTensor> parameters_of(const TensorFile& file, const std::string& prefix) {
  std::vector<HostTensor> all;
  for (const HostTensor& tensor : file.tensors) {
    if (tensor.name.starts_with("param.")) all.push_back(renamed(tensor, prefix + tensor.name.substr(6)));
  }
  return all;
}

/// One Sessa block whose tokens are the golden input's rows and whose head hands out what the last norm leaves.
void save_sessa(const ModelFolder& folder, const TensorFile& file) {
  json config = json::parse(file.metadata.at("config"));
  const std::int64_t width = config["D"], length = require_tensor(file, "x", "x").shape[1], vocab = 64;
  config.erase("D");
  config.update({{"model_type", "sessa"}, {"hidden_size", width}, {"vocab_size", vocab}, {"num_hidden_layers", 1}});
  config["norm_eps"] = 1e-5;
  folder.write("config.json", config.dump());
  const std::vector<double> x = to_doubles(require_tensor(file, "x", "x"));
  std::vector<float> rows(static_cast<std::size_t>(vocab * width), 0.0f), head(rows);
  for (std::int64_t i = 0; i < length * width; ++i)
    rows[static_cast<std::size_t>(i)] = static_cast<float>(x[static_cast<std::size_t>(i)]);
  for (std::int64_t i = 0; i < width; ++i) head[static_cast<std::size_t>(i * width + i)] = 1.0f;
  TensorFile weights;
  weights.tensors = parameters_of(file, "layers.0.");
  weights.tensors.push_back(floats("embedding.weight", {vocab, width}, rows));
  weights.tensors.push_back(floats("lm_head.weight", {vocab, width}, head));
  weights.tensors.push_back(floats("norm.weight", {width}, std::vector<float>(static_cast<std::size_t>(width), 1.0f)));
  weights.tensors.push_back(floats("layers.0.mixer.rope_inv_freq", {1}, {1.0f}));  // a table that the package keeps
  write_safetensors(folder.path() / "model.safetensors", weights);
}

class OfSessa : public ::testing::TestWithParam<std::string> {};

TEST_P(OfSessa, AnswersAsTheGoldenFile) {
  const TensorFile file = golden(GetParam());
  const ModelFolder folder("of_sessa");
  save_sessa(folder, file);
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  const Checkpoint checkpoint(folder.path());
  EXPECT_THAT(checkpoint.notes(), IsEmpty()) << "the table is no weight";
  ParameterStore store;
  Model model(checkpoint.model(), store);
  checkpoint.check(store);
  store.allocate_values(*backend, DType::f64);
  checkpoint.load(store);

  const HostTensor& wanted = require_tensor(file, "y", "y");
  const std::int64_t length = wanted.shape[1], width = wanted.shape[2];
  std::vector<int> tokens(static_cast<std::size_t>(length));
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int>(i);
  Arena arena(*backend);
  Tape tape(*backend, arena);
  tape.begin(false);
  const Tensor input = tape.scratch({1, length}, DType::i32);
  backend->upload(input, tokens.data());
  const std::vector<double> logits = store.download(model.forward(tape, input, {}).value), y = to_doubles(wanted);
  Values got, want;
  for (std::int64_t t = 0; t < length; ++t) {
    double squares = 0;
    for (std::int64_t i = 0; i < width; ++i) squares += std::pow(y[static_cast<std::size_t>(t * width + i)], 2);
    for (std::int64_t i = 0; i < width; ++i) {
      got.push_back(logits[static_cast<std::size_t>(t * 64 + i)]);
      want.push_back(y[static_cast<std::size_t>(t * width + i)] /
                     std::sqrt(squares / static_cast<double>(width) + 1e-5));
    }
  }
  EXPECT_LE(relative_error(got, want), 1e-9);
}

INSTANTIATE_TEST_SUITE_P(All, OfSessa, ::testing::Values("sessa_tiny", "sessa_gqa", "sessa_norope"),
                         [](const auto& instance) { return instance.param; });

/// What is written is what was read: all weights by name, and a config.json that makes the same model.
void expect_round_trip(const ModelFolder& folder, const ModelFolder& back) {
  const SavedRun saved = open_saved_run(folder.path());
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  const std::unique_ptr<TrainingRun> run = std::make_unique<TrainingRun>(saved, *backend);
  const ParameterStore& store = run->trainer().parameters();
  std::vector<float> values(static_cast<std::size_t>(store.values().elements()));
  backend->download(values.data(), store.values());
  const Recipe& recipe = saved.recipe;
  const CheckpointLibrary& library = library_of(recipe.checkpoint["config"], "config");
  const WrittenModel written = write_model(library, recipe.model, recipe.task, nullptr, store, values);
  const TensorFile before = read_safetensors(folder.path() / "model.safetensors");
  for (const HostTensor& tensor : written.weights.tensors) {
    const HostTensor* own = before.find(tensor.name);
    if (own == nullptr) own = before.find("embedding.weight");  // written by the newer of its two names
    EXPECT_EQ(own->bytes, tensor.bytes) << tensor.name;
  }
  back.write("config.json", written.config.dump());
  write_safetensors(back.path() / "model.safetensors", written.weights);
  const SavedRun again = open_saved_run(back.path());
  EXPECT_EQ(again.recipe.model, recipe.model);
  EXPECT_EQ(again.recipe.task, recipe.task);
}

TEST(OfSessaAlone, GoesBackToTheBit) {
  const ModelFolder folder("sessa_there"), back("sessa_back");
  save_sessa(folder, golden("sessa_gqa"));
  expect_round_trip(folder, back);
}

void save_spectral_memory(const ModelFolder& folder, const TensorFile& file) {
  json config = json::parse(file.metadata.at("config"));
  config["model"] = "KLMemory";
  folder.write("config.json", config.dump());
  TensorFile weights;
  weights.tensors = parameters_of(file, "");
  weights.tensors.push_back(renamed(require_tensor(file, "history", "history"), "memory._history"));
  weights.tensors.push_back(floats("encoder_layer.norm1.weight", {1}, {0.5f}));  // a copy that is not used
  write_safetensors(folder.path() / "model.safetensors", weights);
}

class OfSpectralMemory : public ::testing::TestWithParam<std::string> {};

TEST_P(OfSpectralMemory, ForecastsAsTheGoldenFile) {
  const TensorFile file = golden(GetParam());
  const ModelFolder folder("of_spectral_memory");
  save_spectral_memory(folder, file);
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  const Checkpoint checkpoint(folder.path());
  EXPECT_THAT(checkpoint.notes(), Contains(HasSubstr("history")));
  const HostTensor &input = require_tensor(file, "x", "x"), &rows = require_tensor(file, "history", "history");
  ParameterStore store;
  const std::unique_ptr<Forecaster> model =
      make_forecaster(checkpoint.model(), checkpoint.task()["length"], checkpoint.task()["horizon"], input.shape[2],
                      ParameterScope(store, ""));
  checkpoint.check(store);
  store.allocate_values(*backend, DType::f64);
  checkpoint.load(store);
  model->memory()->assign(to_doubles(rows), rows.shape[0]);
  model->memory()->refresh(*backend, DType::f64);
  Arena arena(*backend);
  Tape tape(*backend, arena);
  tape.begin(false);
  const Tensor x = tape.scratch(Shape(input.shape), DType::f64);
  backend->upload(x, to_doubles(input).data());
  const std::vector<double> y = store.download(model->forward(tape, tape.constant(x), {}).y.value);
  const std::vector<double> wanted = to_doubles(require_tensor(file, "y", "y"));
  EXPECT_LE(relative_error(Values(y.begin(), y.end()), Values(wanted.begin(), wanted.end())), 1e-9);
}

INSTANTIATE_TEST_SUITE_P(All, OfSpectralMemory,
                         ::testing::Values("spectral_memory_tiny_eval", "spectral_memory_short_history",
                                           "spectral_memory_kernel"),
                         [](const auto& instance) { return instance.param; });

TEST(OfSpectralMemoryAlone, IsARunThatForecastsAndGoesBackToTheBit) {
  const ModelFolder folder("spectral_there"), back("spectral_back");
  save_spectral_memory(folder, golden("spectral_memory_tiny_eval"));
  const SavedRun saved = open_saved_run(folder.path());
  EXPECT_EQ(saved.recipe.task["kind"], "forecast");
  EXPECT_EQ(saved.recipe.task["length"], 12);
  EXPECT_EQ(saved.recipe.task["horizon"], 5);
  expect_round_trip(folder, back);
}

std::string refusal_to_open(const std::filesystem::path& path) {
  try {
    const SavedRun saved = open_saved_run(path);
    const std::unique_ptr<Backend> backend = make_cpu_backend(1);
    const TrainingRun opened(saved, *backend);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_input);
    return error.what();
  }
  return "it opens";
}

TEST(WeightsOfPapers, WithoutAConfigurationAreRefusedWithWhatItMustSay) {
  const ModelFolder sessa("bare_sessa"), spectral("bare_spectral");
  save_sessa(sessa, golden("sessa_tiny"));
  save_spectral_memory(spectral, golden("spectral_memory_tiny_eval"));
  for (const ModelFolder* folder : {&sessa, &spectral}) std::filesystem::remove(folder->path() / "config.json");
  EXPECT_THAT(refusal_to_open(sessa.path()), AllOf(HasSubstr("config.json"), HasSubstr("\"model_type\": \"sessa\"")));
  EXPECT_THAT(refusal_to_open(sessa.path() / "model.safetensors"), HasSubstr("\"model_type\": \"sessa\""));
  EXPECT_THAT(refusal_to_open(spectral.path()), HasSubstr("\"model_type\": \"spectral_memory\""));
  EXPECT_THAT(refusal_to_open(spectral.path() / "model.safetensors"), HasSubstr("\"model_type\": \"spectral_memory\""));
}

TEST(WeightsOfPapers, AreRefusedByName) {
  const TensorFile file = golden("sessa_tiny");
  const ModelFolder layer("one_layer");
  save_sessa(layer, file);
  TensorFile alone;
  alone.tensors = parameters_of(file, "");
  write_safetensors(layer.path() / "model.safetensors", alone);
  EXPECT_THAT(refusal_to_open(layer.path()), AllOf(HasSubstr("one layer"), HasSubstr("afterglow layer")));

  const ModelFolder attached("attached");
  save_spectral_memory(attached, golden("spectral_memory_tiny_eval"));
  json config = json::parse(golden("spectral_memory_tiny_eval").metadata.at("config"));
  config.update({{"model", "KLMemory"}, {"kl_detach", false}});
  attached.write("config.json", config.dump());
  EXPECT_THAT(refusal_to_open(attached.path()), HasSubstr("kl_detach"));

  const ModelFolder arrays("arrays");
  arrays.write("weights.npz", "PK");
  EXPECT_THAT(refusal_to_open(arrays.path() / "weights.npz"),
              AllOf(HasSubstr("weights.npz"), HasSubstr("save_tensors")));
}

}  // namespace
}  // namespace afterglow::testing
