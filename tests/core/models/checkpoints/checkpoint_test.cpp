// Models of other libraries answer as those libraries compute; what is damaged, hostile or unknown is refused by name.
#include "core/models/checkpoints/checkpoint.h"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <functional>

#include "core/io/error.h"
#include "core/io/safetensors.h"
#include "core/models/model.h"
#include "core/tensor/bfloat.h"
#include "tests/core/models/checkpoints/saved_model.h"
#include "tests/support/folders.h"

namespace afterglow::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

const std::vector<int> tokens{3, 0, 28, 7, 7, 11, 2, 19, 5, 5, 1, 23, 8};

/// A folder's model in memory.
struct Opened {
  explicit Opened(const std::filesystem::path& folder, DType dtype = DType::f32)
      : checkpoint(folder), model(checkpoint.model(), store) {
    checkpoint.check(store);
    store.allocate_values(*backend, dtype);
    checkpoint.load(store);
  }
  std::vector<double> logits(const std::vector<int>& sequence) {
    Arena arena(*backend);
    Tape tape(*backend, arena);
    tape.begin(false);
    const Tensor input = tape.scratch({1, static_cast<std::int64_t>(sequence.size())}, DType::i32);
    backend->upload(input, sequence.data());
    return store.download(model.forward(tape, input, {}).value);
  }
  /// The same token by token, each from the state before it.
  std::vector<double> stepped(const std::vector<int>& sequence) {
    Arena arena(*backend);
    Tape tape(*backend, arena);
    ModelState state = model.make_state(*backend, store.dtype(), 1);
    std::vector<double> all;
    for (const int token : sequence) {
      tape.begin(false);
      const Tensor input = tape.scratch({1, 1}, DType::i32);
      backend->upload(input, &token);
      const std::vector<double> one = store.download(model.step(tape, input, state).value);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }
  std::unique_ptr<Backend> backend = make_cpu_backend(2);
  Checkpoint checkpoint;
  ParameterStore store;
  Model model;
};

/// One variation of a library's model.
struct Variation {
  const char* name;
  std::string type;
  json changes;
};

void PrintTo(const Variation& one, std::ostream* out) { *out << one.name; }

SavedModel made(const Variation& one) {
  return one.type == "mamba2" ? random_mamba2(one.changes) : random_fla(one.type, one.changes);
}

const Variation variations[] = {
    {"mamba2", "mamba2", json::object()},
    {"mamba2_groups", "mamba2", {{"n_groups", 3}, {"num_heads", 6}, {"transformers_version", "5.23.0"}}},
    {"mamba2_groups_before_5_23", "mamba2", {{"n_groups", 2}, {"transformers_version", "5.22.1"}}},
    {"mamba2_groups_of_no_version", "mamba2", {{"n_groups", 2}}},
    {"mamba2_biases_tied", "mamba2", {{"use_bias", true}, {"tie_word_embeddings", true}}},
    {"mamba2_no_conv_bias", "mamba2", {{"use_conv_bias", false}, {"conv_kernel", 2}, {"layer_norm_epsilon", 0.01}}},
    {"mamba2_limits", "mamba2", {{"time_step_limit", {0.4, 0.8}}, {"chunk_size", 8}, {"residual_in_fp32", false}}},
    {"mamba2_rms_norm_is_not_read", "mamba2", {{"rms_norm", false}}},
    {"mamba2_one_tap", "mamba2", {{"conv_kernel", 1}}},
    {"mamba2_of_fla_before_0_5", "mamba2", {{"norm_eps", 1e-2}, {"time_step_limit", {0.4, 0.8}}, {"rms_norm", true}}},
    {"mamba2_of_fla", "mamba2", {{"norm_eps", 1e-5}, {"dt_limit", {0.0, 0.7}}}},
    {"mamba2_of_fla_groups", "mamba2", {{"norm_eps", 1e-3}, {"n_groups", 2}}},
    {"mamba2_of_fla_without_norm", "mamba2", {{"norm_eps", 1e-5}, {"rmsnorm", false}, {"n_groups", 2}}},
    {"gated_deltanet", "gated_deltanet", json::object()},
    {"gated_deltanet_value_heads",
     "gated_deltanet",
     {{"num_v_heads", 4}, {"expand_v", 1.5}, {"allow_neg_eigval", true}}},
    {"gated_deltanet_bare", "gated_deltanet", {{"use_gate", false}, {"use_short_conv", false}, {"conv_size", 3}}},
    {"gated_deltanet_sigmoid", "gated_deltanet", {{"output_gate_activation", "sigmoid"}}},
    {"kda", "kda", json::object()},
    {"kda_value_heads", "kda", {{"num_v_heads", 4}, {"expand_v", 1.5}, {"allow_neg_eigval", true}}},
    {"kda_without_convolution", "kda", {{"use_short_conv", false}, {"conv_size", 3}}},
    {"gla_sigmoid", "gla", {{"output_gate_activation", "sigmoid"}}},
    {"gla", "gla", json::object()},
    {"gla_convolution", "gla", {{"use_short_conv", true}, {"conv_size", 1}, {"expand_v", 2.0}, {"fuse_norm", false}}},
    {"gla_shared_heads", "gla", {{"num_heads", 3}, {"num_kv_heads", 1}, {"expand_k", 1.0}, {"clamp_min", -0.02}}},
    {"gla_without_gate", "gla", {{"use_output_gate", false}, {"feature_map", "relu"}, {"elementwise_affine", false}}},
    {"delta_net", "delta_net", json::object()},
    {"delta_net_gate", "delta_net", {{"use_gate", true}, {"use_beta", false}, {"expand_v", 2.0}}},
    {"delta_net_relu", "delta_net", {{"qk_activation", "relu"}, {"allow_neg_eigval", true}}},
    {"delta_net_elu", "delta_net", {{"qk_activation", "elu"}, {"use_short_conv", false}}},
    {"delta_net_identity", "delta_net", {{"qk_activation", "identity"}, {"tie_word_embeddings", true}}},
};

class Variations : public ::testing::TestWithParam<Variation> {};

TEST_P(Variations, AnswerAsPlainLoopsDo) {
  const ModelFolder folder("variation");
  const SavedModel model = made(GetParam());
  model.save(folder);
  const std::vector<double> want = naive_logits(model, tokens);
  EXPECT_LE(error_between(Opened(folder.path(), DType::f64).logits(tokens), want), 1e-6) << "weights are float32";
  Opened single(folder.path());
  EXPECT_LE(error_between(single.logits(tokens), want), 2e-5);
  EXPECT_LE(error_between(single.stepped(tokens), want), 2e-5) << "token by token";
  const bool is_said = std::string(GetParam().name).starts_with("mamba2_groups");
  EXPECT_THAT(single.checkpoint.notes(), SizeIs(is_said ? 1 : 0));
}

// Bytes that go back are those that came, whatever the order of rows and the names here.
TEST_P(Variations, GoBackToTheBit) {
  const ModelFolder folder("there"), back("back");
  const SavedModel model = made(GetParam());
  model.save(folder);
  Opened opened(folder.path());
  const CheckpointLibrary& library = library_of(model.config, "config");
  std::vector<float> values(static_cast<std::size_t>(opened.store.values().elements()));
  opened.backend->download(values.data(), opened.store.values());
  const auto written =
      write_model(library, opened.checkpoint.model(), nullptr, opened.checkpoint.origin(), opened.store, values);
  std::vector<HostTensor> got = written.weights.tensors;
  std::ranges::sort(got, {}, &HostTensor::name);
  const std::vector<HostTensor> want = model.tensors();
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].name, want[i].name);
    EXPECT_EQ(got[i].shape, want[i].shape) << want[i].name;
    EXPECT_EQ(got[i].bytes, want[i].bytes) << want[i].name;
  }
  EXPECT_EQ(written.weights.metadata.at("format"), "pt");
  back.write("config.json", written.config.dump());
  write_safetensors(back.path() / "model.safetensors", written.weights);
  EXPECT_EQ(Checkpoint(back.path()).model(), opened.checkpoint.model());
}

// Also where nothing is known of the folder that it came from.
TEST_P(Variations, AreDescribedByTheirModelAlone) {
  const ModelFolder folder("model"), back("alone");
  const SavedModel model = made(GetParam());
  model.save(folder);
  Opened opened(folder.path());
  std::vector<float> values(static_cast<std::size_t>(opened.store.values().elements()));
  opened.backend->download(values.data(), opened.store.values());
  const auto written = write_model(library_of(model.config, "config"), opened.checkpoint.model(), nullptr, nullptr,
                                   opened.store, values);
  back.write("config.json", written.config.dump());
  write_safetensors(back.path() / "model.safetensors", written.weights);
  EXPECT_LE(error_between(Opened(back.path()).logits(tokens), opened.logits(tokens)), 1e-7);
}

INSTANTIATE_TEST_SUITE_P(All, Variations, ::testing::ValuesIn(variations),
                         [](const auto& instance) { return std::string(instance.param.name); });

/// What libraries saved themselves, where it is stored next to the checkout.
class SavedByLibraries : public ::testing::TestWithParam<std::string> {};

TEST_P(SavedByLibraries, AnswerAsTheLibrariesDid) {
  const std::filesystem::path folder = source_folder().parent_path() / "shared" / "checkpoints" / GetParam();
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "there are no shared checkpoints next to this checkout";
  const TensorFile expected = read_safetensors(folder / "expected.safetensors");
  const std::vector<std::int64_t> ids = to_integers(require_tensor(expected, "input_ids", "expected"));
  const HostTensor& logits = require_tensor(expected, "logits", "expected");
  const auto length = static_cast<std::size_t>(logits.shape[1]);
  Opened opened(folder);
  std::vector<double> got;
  for (std::size_t first = 0; first < ids.size(); first += length) {
    const std::vector<int> sequence(ids.begin() + static_cast<std::ptrdiff_t>(first),
                                    ids.begin() + static_cast<std::ptrdiff_t>(first + length));
    const std::vector<double> one = opened.logits(sequence);
    got.insert(got.end(), one.begin(), one.end());
  }
  EXPECT_LE(error_between(got, to_doubles(logits)), 2e-5);
}

INSTANTIATE_TEST_SUITE_P(All, SavedByLibraries,
                         ::testing::Values("transformers-mamba2", "transformers-mamba2-tied-bias",
                                           "transformers-mamba2-sharded", "transformers-mamba2-groups",
                                           "fla-gated-deltanet", "fla-gla", "fla-delta-net"));

/// Attention in one layer, over all tokens or so many newest ones.
void expect_attention_of_fla(const json& window) {
  const ModelFolder folder("hybrid");
  SavedModel model = random_fla("gla", {{"attn",
                                         {{"layers", {1}},
                                          {"num_heads", 3},
                                          {"num_kv_heads", 1},
                                          {"qkv_bias", true},
                                          {"window_size", window},
                                          {"rope_theta", 500.0}}}});
  for (const char* name :
       {"gk_proj.0.weight", "gk_proj.1.weight", "gk_proj.1.bias", "g_proj.weight", "g_norm_swish_gate.weight",
        "q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight"})
    model.remove(std::string("model.layers.1.attn.") + name);
  for (const char* name : {"q", "k", "v"}) {
    const std::int64_t rows = name[0] == 'q' ? 12 : 4;
    model.add(std::string("model.layers.1.attn.") + name + "_proj.weight", {rows, 12});
    model.add(std::string("model.layers.1.attn.") + name + "_proj.bias", {rows});
  }
  model.add("model.layers.1.attn.o_proj.weight", {12, 12});
  model.save(folder);
  Opened opened(folder.path());
  EXPECT_LE(error_between(opened.logits(tokens), naive_logits(model, tokens)), 2e-5);
  EXPECT_LE(error_between(opened.stepped(tokens), naive_logits(model, tokens)), 2e-5);
  std::vector<float> values(static_cast<std::size_t>(opened.store.values().elements()));
  opened.backend->download(values.data(), opened.store.values());
  const auto written =
      write_model(library_of(model.config, ""), opened.checkpoint.model(), nullptr, nullptr, opened.store, values);
  for (const HostTensor& tensor : model.tensors())
    EXPECT_EQ(written.weights.find(tensor.name)->bytes, tensor.bytes) << tensor.name;
  EXPECT_EQ(written.config["attn"].value("window_size", json()), window);
}

TEST(Checkpoint, AttentionInSomeLayersTurnsHalvesOfAHead) {
  expect_attention_of_fla(nullptr);
  expect_attention_of_fla(3);
}

TEST(Checkpoint, IsNotWrittenWithoutWhatConfigJsonCannotSay) {
  const json mixer{{"kind", "gla"}, {"H", 2}}, mlp{{"kind", "swiglu"}, {"d_ff", 8}};
  const auto refusal = [&](const json& of_block, const json& of_model) {
    json block{{"mixer", mixer}, {"mlp", mlp}}, model{{"d_model", 12}, {"vocab", 8}};
    block.update(of_block);
    model["blocks"] = json::array({block, {{"mixer", {{"kind", "gla"}, {"H", 2}}}, {"mlp", mlp}}});
    model.update(of_model);
    const ParameterStore store;
    try {
      write_model(library_of({{"model_type", "gla"}}, ""), model, nullptr, nullptr, store, {});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal(json::object(), {{"logit_scale", 0.5}}), HasSubstr("logit_scale"));
  EXPECT_THAT(refusal({{"output_scale", 0.5}}, json::object()), HasSubstr("output_scale"));
  EXPECT_THAT(refusal({{"mixer", {{"kind", "attention"}, {"n_heads", 2}, {"qk_norm", "head"}}}}, json::object()),
              HasSubstr("qk_norm"));
}

TEST(Checkpoint, ReadsBfloat16AndShards) {
  const ModelFolder folder("shards");
  SavedModel model = random_mamba2(json::object());
  model.round_to_bfloat16();
  json places;
  TensorFile files[2];
  for (HostTensor& tensor : model.tensors(StoredType::bf16)) {
    const std::size_t place = places.size() % 2;
    places[tensor.name] = "part-" + std::to_string(place) + ".safetensors";
    files[place].tensors.push_back(std::move(tensor));
  }
  for (const char* name : {"part-0.safetensors", "part-1.safetensors"})
    write_safetensors(folder.path() / name, files[name[5] - '0']);
  folder.write("config.json", model.config.dump());
  folder.write("model.safetensors.index.json", json{{"metadata", {{"total_size", 1}}}, {"weight_map", places}}.dump());
  EXPECT_LE(error_between(Opened(folder.path()).logits(tokens), naive_logits(model, tokens)), 2e-5);
}

TEST(Checkpoint, LoadsWeightsThatAreStoredAsBfloat16) {
  const ModelFolder folder("narrow");
  SavedModel model = random_mamba2(json::object());
  model.save(folder);
  Opened wide(folder.path());
  const Checkpoint checkpoint(folder.path());
  ParameterStore store;
  const Model narrow(checkpoint.model(), store);
  store.store_narrow([](const Parameter&) { return true; });
  EXPECT_TRUE(store.is_narrow());
  EXPECT_LT(store.value_bytes(DType::f32), wide.store.value_bytes(DType::f32));
  store.allocate_values(*wide.backend, DType::f32);
  checkpoint.load(store);
  for (const Parameter& parameter : store.all()) {
    const std::vector<double> want = store.download(wide.store.find(parameter.name)->value);
    if (!parameter.is_narrow) {
      EXPECT_EQ(store.download(parameter.value), want) << parameter.name;
      continue;
    }
    EXPECT_EQ(parameter.shape.last() % 8, 0);
    std::vector<std::uint16_t> found(want.size());
    wide.backend->download(found.data(), parameter.value);
    for (std::size_t i = 0; i < want.size(); ++i)
      ASSERT_EQ(found[i], to_bfloat(static_cast<float>(want[i]))) << parameter.name << " " << i;
  }
  EXPECT_THROW(store.allocate(*wide.backend, DType::f32), Error);  // it cannot be trained
}

TEST(Checkpoint, ReadsEveryWayToWriteInfinity) {
  const SavedModel model = random_mamba2(json::object());
  const std::string head = model.config.dump().substr(0, model.config.dump().size() - 1);
  for (const char* infinity : {"Infinity", R"({"__float__": "Infinity"})", "1e30"}) {
    const ModelFolder folder("infinity");
    model.save(folder);
    folder.write("config.json",
                 head + ", \"note\": \"Infinity \\\" NaN\", \"x\": NaN, \"time_step_limit\": [0.0, " + infinity + "]}");
    EXPECT_LE(error_between(Opened(folder.path()).logits(tokens), naive_logits(model, tokens)), 2e-5) << infinity;
  }
}

TEST(Checkpoint, SaysWhatItDoesNotRead) {
  const ModelFolder folder("dead");
  SavedModel model = random_fla("gla", {{"tie_word_embeddings", true}});
  model.add("model.layers.0.attn.rotary.inv_freq", {4});
  model.save(folder);
  Opened opened(folder.path());
  EXPECT_THAT(opened.checkpoint.notes(), ElementsAre(HasSubstr("inv_freq")));
  EXPECT_LE(error_between(opened.logits(tokens), naive_logits(model, tokens)), 2e-5);
  // A head that is tied in words alone counts, as the libraries have it.
  model.add("lm_head.weight", {29, 12});
  model.save(folder);
  Opened untied(folder.path());
  EXPECT_THAT(untied.checkpoint.notes(), ElementsAre(HasSubstr("lm_head.weight"), HasSubstr("inv_freq")));
  model.config["tie_word_embeddings"] = false;
  EXPECT_LE(error_between(untied.logits(tokens), naive_logits(model, tokens)), 2e-5);
}

/// The notes of a folder that answers as plain loops do.
std::string notes_of(const std::filesystem::path& folder, const SavedModel& model) {
  Opened opened(folder);
  EXPECT_LE(error_between(opened.logits(tokens), naive_logits(model, tokens)), 2e-5);
  std::string all;
  for (const std::string& note : opened.checkpoint.notes()) all += note + "\n";
  return all;
}

std::string notes_of(const SavedModel& model) {
  const ModelFolder folder("notes");
  model.save(folder);
  return notes_of(folder.path(), model);
}

TEST(Checkpoint, SaysOfWhatTheGatedNormIsTaken) {
  const auto of_version = [](const json& version) {
    return notes_of(random_mamba2({{"n_groups", 2}, {"transformers_version", version}}));
  };
  EXPECT_THAT(of_version("5.23.0"), AllOf(HasSubstr("each of the 2 groups by itself"), HasSubstr("5.23.0")));
  EXPECT_THAT(of_version("5.100.1"), HasSubstr("taken of each"));
  EXPECT_THAT(of_version("10.0"), HasSubstr("taken of each"));
  EXPECT_THAT(of_version("5.9.0"), AllOf(HasSubstr("over all columns"), HasSubstr("mamba_ssm")));
  EXPECT_THAT(of_version("4.44.0.dev0"), HasSubstr("over all columns"));
  EXPECT_THAT(of_version(nullptr), AllOf(HasSubstr("taken of each"), HasSubstr("does not say")));
  EXPECT_THAT(notes_of(random_mamba2({{"transformers_version", "5.17.0"}})), "");
  EXPECT_THAT(notes_of(random_mamba2({{"n_groups", 2}, {"norm_eps", 1e-5}, {"time_step_limit", {0.0, 0.9}}})),
              AllOf(HasSubstr("over all columns"), HasSubstr("before 0.5")));
  SavedModel own = random_mamba2({{"n_groups", 2}, {"dtype", "float32"}, {"torch_dtype", "float32"}});
  const ModelFolder folder("own");
  own.save(folder);
  own.config["transformers_version"] = "5.22.0";
  EXPECT_THAT(notes_of(folder.path(), own), AllOf(HasSubstr("over all columns"), HasSubstr("earlier Afterglow")));
}

TEST(Checkpoint, ExportsTheNormWithTheVersionThatTakesIt) {
  json model{{"d_model", 12},
             {"vocab", 29},
             {"tie_embedding", false},
             {"blocks", {{{"mixer", {{"kind", "mamba2"}, {"headdim", 4}, {"ngroups", 2}}}, {"repeat", 1}}}}};
  const auto exported = [&] {
    std::vector<std::string> notes;
    const json mamba2{{"model_type", "mamba2"}};
    const json config = library_of(mamba2, "config").config_of(model, nullptr, notes);
    return std::pair(config["transformers_version"].get<std::string>(), notes);
  };
  EXPECT_EQ(exported().first, "5.22.0");
  EXPECT_THAT(exported().second, ElementsAre(HasSubstr("answer otherwise")));
  model["blocks"][0]["mixer"]["norm_per_group"] = true;
  EXPECT_EQ(exported().first, "5.23.0");
  EXPECT_THAT(exported().second, ElementsAre());
}

TEST(Checkpoint, NamesFieldsThatItDoesNotKnow) {
  const std::string said =
      notes_of(random_mamba2({{"state_rotation", true}, {"chunk_size", 32}, {"use_cache", false}}));
  EXPECT_THAT(said, AllOf(HasSubstr("state_rotation"), Not(HasSubstr("chunk_size")), Not(HasSubstr("use_cache"))));
  EXPECT_THAT(notes_of(random_fla("gla", {{"value_residual", 3}, {"use_gk", true}})), HasSubstr("'value_residual';"));
}

TEST(Checkpoint, TakesTheWordsOfWrappersOffNames) {
  const SavedModel model = random_mamba2(json::object());
  const auto renamed = [&](const std::function<std::string(std::string)>& name) {
    const ModelFolder folder("wrapped");
    TensorFile file;
    file.tensors = model.tensors();
    for (HostTensor& tensor : file.tensors) tensor.name = name(tensor.name);
    folder.write("config.json", model.config.dump());
    write_safetensors(folder.path() / "model.safetensors", file);
    return notes_of(folder.path(), model);
  };
  for (const std::string word : {"_orig_mod.", "module.", "_fsdp_wrapped_module.", "module._orig_mod."})
    EXPECT_THAT(renamed([&](const std::string& name) { return word + name; }), HasSubstr("is taken off"));
  EXPECT_THAT(renamed([](std::string name) {
                const std::size_t at = name.find("mixer.");
                return at == std::string::npos ? name : name.insert(at, "_checkpoint_wrapped_module.");
              }),
              HasSubstr("_checkpoint_wrapped_module."));
}

TEST(Checkpoint, ReadsConvolutionsOfMlx) {
  const ModelFolder folder("mlx");
  const SavedModel model = random_mamba2(json::object());
  TensorFile file;
  file.tensors = model.tensors();
  for (HostTensor& tensor : file.tensors) {
    if (tensor.shape.size() == 3) std::swap(tensor.shape[1], tensor.shape[2]);
  }
  folder.write("config.json", model.config.dump());
  write_safetensors(folder.path() / "model.safetensors", file);
  EXPECT_THAT(notes_of(folder.path(), model), HasSubstr("MLX"));
}

/// What is said of a folder, which must not open.
std::string refusal(const std::filesystem::path& folder) {
  try {
    Opened opened(folder);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_input) << error.what();
    return error.what();
  }
  return "it opens";
}

std::string refusal_of(const SavedModel& model) {
  const ModelFolder folder("refused");
  model.save(folder);
  return refusal(folder.path());
}

TEST(Checkpoint, RefusesByNameWhatItCannotCompute) {
  const auto mamba2_of_fla = [](json changes) {
    changes["norm_eps"] = 1e-5;
    return refusal_of(random_mamba2(changes));
  };
  EXPECT_THAT(mamba2_of_fla({{"norm_before_gate", true}}), HasSubstr("norm_before_gate"));
  EXPECT_THAT(mamba2_of_fla({{"D_has_hdim", true}}), HasSubstr("D_has_hdim"));
  EXPECT_THAT(refusal_of(random_mamba2({{"hidden_act", "gelu"}})), HasSubstr("hidden_act"));
  EXPECT_THAT(refusal_of(random_mamba2({{"num_heads", 5}})), HasSubstr("num_heads"));
  EXPECT_THAT(refusal_of(random_mamba2({{"n_groups", 4}})), HasSubstr("ngroups"));
  EXPECT_THAT(refusal_of(random_mamba2({{"time_step_limit", {2, 1}}})), HasSubstr("time_step_limit"));
  EXPECT_THAT(refusal_of(random_mamba2({{"quantization_config", {{"bits", 4}}}})), HasSubstr("quantised"));
  EXPECT_THAT(refusal_of(random_mamba2({{"quantization", {{"bits", 4}}}})), HasSubstr("quantised"));
  EXPECT_THAT(refusal_of(random_mamba2({{"per_layer_config", {{"1", {{"head_dim", 2}}}}}})), HasSubstr("per_layer"));
  EXPECT_THAT(refusal_of(random_fla("gated_deltanet", {{"output_gate_activation", "tanh"}})),
              HasSubstr("output_gate_activation"));
  EXPECT_THAT(refusal_of(random_fla("gla", {{"feature_map", "hedgehog"}})), HasSubstr("feature_map"));
  EXPECT_THAT(refusal_of(random_fla("kda", {{"safe_gate", true}, {"lower_bound", -5.0}})), HasSubstr("lower_bound"));
  EXPECT_THAT(refusal_of(random_fla("gla", {{"hidden_act", "powlu"}})), HasSubstr("hidden_act"));
  EXPECT_THAT(refusal_of(random_fla("gla", {{"attnres_block_size", 4}})), HasSubstr("attnres_block_size"));
  EXPECT_THAT(refusal_of(random_fla("delta_net", {{"qk_norm", "sum"}})), HasSubstr("qk_norm"));
  SavedModel other = random_fla("gla", json::object());
  other.config["model_type"] = "gpt2";
  EXPECT_THAT(refusal_of(other), AllOf(HasSubstr("gpt2"), HasSubstr("gated_deltanet")));
}

TEST(Checkpoint, RefusesDamagedFoldersWithWhatToDo) {
  const SavedModel model = random_mamba2(json::object());
  SavedModel missing = model;
  missing.remove("backbone.layers.1.mixer.D");
  EXPECT_THAT(refusal_of(missing), AllOf(HasSubstr("backbone.layers.1.mixer.D"), HasSubstr("missing")));
  SavedModel per_head = model;
  per_head.add("backbone.layers.0.mixer.D", {24});
  EXPECT_THAT(refusal_of(per_head), AllOf(HasSubstr("mixer.D"), HasSubstr("[24]"), HasSubstr("[6]")));
  SavedModel endless = model;
  endless.add("lm_head.weight", {29, 12}, std::numeric_limits<double>::infinity());
  EXPECT_THAT(refusal_of(endless), AllOf(HasSubstr("lm_head.weight"), HasSubstr("NaN")));

  const ModelFolder folder("damaged");
  EXPECT_THAT(refusal(folder.path()), HasSubstr("config.json"));
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:a1\nsize 538090408\n";
  folder.write("config.json", pointer);
  EXPECT_THAT(refusal(folder.path()), HasSubstr("git lfs pull"));
  folder.write("config.json", model.config.dump());
  folder.write("model.safetensors", pointer);
  EXPECT_THAT(refusal(folder.path()), HasSubstr("git lfs pull"));
  std::filesystem::remove(folder.path() / "model.safetensors");
  folder.write("config.json", model.config.dump());
  EXPECT_THAT(refusal(folder.path()), HasSubstr("model.safetensors"));
  folder.write("pytorch_model.bin", "pickle");
  EXPECT_THAT(refusal(folder.path()), AllOf(HasSubstr("pickle"), HasSubstr("safe_serialization")));
  folder.write("config.json", R"({"d_model": 768, "n_layer": 24, "ssm_cfg": {"layer": "Mamba2"}})");
  EXPECT_THAT(refusal(folder.path()), HasSubstr("convert_mamba2_ssm_checkpoint_to_pytorch.py"));
  folder.write("config.json", R"({"model_type": "mamba2", "model_type": "gla"})");
  EXPECT_THAT(refusal(folder.path()), HasSubstr("twice"));
  folder.write("config.json", "[" + std::string(5000, '['));
  refusal(folder.path());
  folder.write("config.json", model.config.dump());
  folder.write("model.safetensors", "short");
  EXPECT_THAT(refusal(folder.path()), HasSubstr("too short"));
  folder.write("model.safetensors", "");
  EXPECT_THAT(refusal(folder.path()), HasSubstr("empty"));
}

TEST(Checkpoint, NamesTheFolderThatWasMeant) {
  const ModelFolder folder("meant");
  const auto make = [&](const std::string& below, const std::string& file) {
    std::filesystem::create_directories(folder.path() / below);
    folder.write(below + "/" + file, "{}");
  };
  make("checkpoint-500", "config.json");
  make("checkpoint-1000", "config.json");
  make("runs/a/b", "config.json");
  EXPECT_THAT(refusal(folder.path()), AllOf(HasSubstr("checkpoint-1000"), HasSubstr("the last of 2")));
  const ModelFolder hub("hub");
  std::filesystem::create_directories(hub.path() / "snapshots/abc123");
  hub.write("snapshots/abc123/config.json", "{}");
  EXPECT_THAT(refusal(hub.path()), HasSubstr("snapshots/abc123"));
  hub.write("adapter_config.json", "{}");
  hub.write("config.json", "{}");
  EXPECT_THAT(refusal(hub.path()), HasSubstr("merge_and_unload"));
}

TEST(Checkpoint, ReadsPastTensorsOfOtherTypes) {
  SavedModel model = random_mamba2(json::object());
  model.add("absmax", {4});
  const ModelFolder folder("types");
  model.save(folder);
  std::ifstream stream(folder.path() / "model.safetensors", std::ios::binary);
  std::string whole((std::istreambuf_iterator<char>(stream)), {});
  const auto retype = [&](const std::string& tensor) {
    whole.replace(whole.find("F32", whole.find('"' + tensor + '"')), 3, "U33");
    std::filesystem::remove(folder.path() / "model.safetensors");
    folder.write("model.safetensors", whole);
  };
  retype("absmax");
  EXPECT_THAT(notes_of(folder.path(), model), HasSubstr("absmax"));
  retype("lm_head.weight");
  EXPECT_THAT(refusal(folder.path()), AllOf(HasSubstr("lm_head.weight"), HasSubstr("U33")));
}

TEST(Checkpoint, ReadsNoFileOutsideTheFolder) {
  const SavedModel model = random_mamba2(json::object());
  const ModelFolder elsewhere("elsewhere"), folder("index");
  model.save(elsewhere);
  folder.write("config.json", model.config.dump());
  const auto with_index = [&](const json& file) {
    folder.write("model.safetensors.index.json", json{{"weight_map", {{"lm_head.weight", file}}}}.dump());
    return refusal(folder.path());
  };
  for (const char* outside : {"../afterglow_model_elsewhere/model.safetensors", "/etc/passwd", "..", "",
                              "a/b.safetensors", "sub\\model.safetensors"})
    EXPECT_THAT(with_index(outside), HasSubstr("not in this folder")) << outside;
  EXPECT_THAT(with_index("pytorch_model.bin"), HasSubstr("no .safetensors file"));
  EXPECT_THAT(with_index(7), HasSubstr("no name"));
  EXPECT_THAT(with_index("gone.safetensors"), AllOf(HasSubstr("gone.safetensors"), HasSubstr("missing")));
  // A tensor in two shards, and one that is not where the index says.
  TensorFile one;
  one.tensors.push_back(model.tensors().front());
  for (const char* name : {"a.safetensors", "b.safetensors"}) write_safetensors(folder.path() / name, one);
  const std::string name = one.tensors.front().name;
  folder.write("model.safetensors.index.json",
               json{{"weight_map", {{name, "a.safetensors"}, {"x", "b.safetensors"}}}}.dump());
  EXPECT_THAT(refusal(folder.path()), HasSubstr("twice"));
  folder.write("model.safetensors.index.json", json{{"weight_map", {{"x", "b.safetensors"}}}}.dump());
  EXPECT_THAT(refusal(folder.path()), HasSubstr("does not hold"));
}

// Bytes of config, index and weights changed one by one: the folder opens or is refused, and nothing else happens.
TEST(Checkpoint, SurvivesDamagedBytes) {
  const ModelFolder folder("bytes");
  const SavedModel model = random_mamba2({{"num_hidden_layers", 1}});
  model.save(folder);
  for (const char* file : {"config.json", "model.safetensors"}) {
    std::ifstream stream(folder.path() / file, std::ios::binary);
    const std::string whole((std::istreambuf_iterator<char>(stream)), {});
    for (std::size_t i = 0; i < std::min<std::size_t>(whole.size(), 1200); i += 3) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << i % 8));
      std::filesystem::remove(folder.path() / file);
      folder.write(file, damaged);
      refusal(folder.path());
    }
    std::filesystem::remove(folder.path() / file);
    folder.write(file, whole);
  }
  EXPECT_EQ(refusal(folder.path()), "it opens");
}

TEST(Checkpoint, KnowsTheWeightsThatARecipeWasMadeWith) {
  const ModelFolder folder("origin");
  SavedModel model = random_mamba2(json::object());
  model.save(folder);
  const json origin = Checkpoint(folder.path()).origin();
  EXPECT_EQ(open_origin(origin).origin(), origin);
  model.add("lm_head.weight", {29, 12});
  model.save(folder);
  EXPECT_THROW(open_origin(origin), Error);
}

}  // namespace
}  // namespace afterglow::testing
