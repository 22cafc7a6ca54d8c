// Families of transformers: a random model of each is written in the library's names and comes back to the bit, steps
// as it reads whole sequences, has gradients that are differences, and refuses by its field what cannot be computed.
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <numbers>
#include <tuple>

#include "core/io/error.h"
#include "core/io/safetensors.h"
#include "core/models/checkpoints/checkpoint.h"
#include "core/models/checkpoints/families/family.h"
#include "core/models/model.h"
#include "tests/core/models/checkpoints/saved_model.h"
#include "tests/support/folders.h"

namespace afterglow::testing {
namespace {

using nlohmann::json;
using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::int64_t vocabulary = 23;
const std::vector<int> family_tokens{3, 0, 18, 7, 7, 11, 2, 19, 5, 5, 1, 22, 8};

struct Family {
  std::string name;
  json config;
};
void PrintTo(const Family& one, std::ostream* out) { *out << one.name; }

json with(json config, const json& changes) {
  config.update({{"vocab_size", vocabulary}, {"dtype", "float32"}, {"transformers_version", "5.24.0"}});
  if (!changes.is_null()) config.update(changes);
  return config;
}

json llama(const json& changes) {
  return with({{"model_type", "llama"},
               {"hidden_size", 24},
               {"intermediate_size", 20},
               {"num_hidden_layers", 2},
               {"num_attention_heads", 4},
               {"num_key_value_heads", 2},
               {"rope_parameters", {{"rope_theta", 500.0}, {"rope_type", "default"}}}},
              changes);
}

json hybrid(const char* type, const json& changes) {
  json config = llama({{"model_type", type},
                       {"head_dim", 8},
                       {"linear_num_key_heads", 2},
                       {"linear_num_value_heads", 4},
                       {"linear_key_head_dim", 4},
                       {"linear_value_head_dim", 6},
                       {"linear_conv_kernel_dim", 3},
                       {"layer_types", {"linear_attention", "full_attention"}}});
  if (!changes.is_null()) config.update(changes);
  return config;
}

json next(const json& changes) {
  json config = hybrid("qwen3_next", {{"moe_intermediate_size", 10},
                                      {"num_experts", 5},
                                      {"num_experts_per_tok", 2},
                                      {"shared_expert_intermediate_size", 12}});
  if (!changes.is_null()) config.update(changes);
  return config;
}

json kimi(const json& changes) {
  return with({{"model_type", "kimi_linear"},
               {"hidden_size", 24},
               {"intermediate_size", 20},
               {"moe_intermediate_size", 10},
               {"num_hidden_layers", 3},
               {"num_attention_heads", 2},
               {"kv_lora_rank", 7},
               {"qk_nope_head_dim", 6},
               {"qk_rope_head_dim", 4},
               {"v_head_dim", 5},
               {"linear_num_heads", 3},
               {"linear_head_dim", 4},
               {"linear_conv_kernel_dim", 4},
               {"num_experts", 6},
               {"num_experts_per_token", 2},
               {"num_expert_group", 3},
               {"topk_group", 2},
               {"layer_types", {"linear_attention", "full_attention", "linear_attention"}}},
              changes);
}

json lfm2(const json& changes) {
  json config = llama({{"model_type", "lfm2"},
                       {"num_hidden_layers", 3},
                       {"block_auto_adjust_ff_dim", false},
                       {"layer_types", {"conv", "full_attention", "conv"}}});
  if (!changes.is_null()) config.update(changes);
  return config;
}

json seeing() {
  json text = hybrid("qwen3_5_text", {{"tie_word_embeddings", true}});
  return {{"model_type", "qwen3_5"},
          {"text_config", text},
          {"tie_word_embeddings", true},
          {"vision_config", {{"depth", 1}}}};
}

json mamba(const char* type, const json& changes) {
  return with({{"model_type", type},
               {"hidden_size", 20},
               {"num_hidden_layers", 2},
               {"state_size", 5},
               {"time_step_rank", 3},
               {"tie_word_embeddings", true}},
              changes);
}

/// Mamba-2 and attention, as bamba, granitemoehybrid and falcon_h1 name their fields.
json mamba2_hybrid(const char* type, const json& changes) {
  json config = llama({{"model_type", type},
                       {"mamba_n_heads", 6},
                       {"mamba_d_head", "auto"},
                       {"mamba_d_state", 5},
                       {"mamba_d_conv", 3},
                       {"time_step_limit", {0.2, 0.9}}});
  return with(config, changes);
}

json granite(const json& changes) {
  json config = mamba2_hybrid("granitemoehybrid", {{"layer_types", {"linear_attention", "full_attention"}},
                                                   {"shared_intermediate_size", 14},
                                                   {"num_local_experts", 0},
                                                   {"num_experts_per_tok", 0},
                                                   {"embedding_multiplier", 2.5},
                                                   {"logits_scaling", 1.5},
                                                   {"residual_multiplier", 0.6},
                                                   {"attention_multiplier", 0.3}});
  return with(config, changes);
}

json nemotron(const json& changes) {
  json config = with({{"model_type", "nemotron_h"},
                      {"hidden_size", 24},
                      {"intermediate_size", 20},
                      {"layers_block_type", {"linear_attention", "mlp", "full_attention", "moe"}},
                      {"num_attention_heads", 4},
                      {"num_key_value_heads", 2},
                      {"head_dim", 10},
                      {"mamba_num_heads", 6},
                      {"mamba_head_dim", 4},
                      {"ssm_state_size", 5},
                      {"n_groups", 2},
                      {"n_routed_experts", 6},
                      {"num_experts_per_tok", 2},
                      {"n_group", 3},
                      {"topk_group", 2},
                      {"moe_intermediate_size", 10},
                      {"moe_shared_expert_intermediate_size", 12}},
                     changes);
  return config;
}

json falcon_h1(const json& changes) {
  json config = mamba2_hybrid("falcon_h1", {{"mamba_d_ssm", 36},
                                            {"key_multiplier", 0.6},
                                            {"lm_head_multiplier", 0.7},
                                            {"mlp_multipliers", {0.9, 0.8}},
                                            {"ssm_multipliers", {0.9, 0.8, 1.1, 0.7, 0.6}},
                                            {"ssm_in_multiplier", 1.1},
                                            {"attention_out_multiplier", 0.9}});
  return with(config, changes);
}

json jamba(const json& changes) {
  json config = llama({{"model_type", "jamba"},
                       {"num_hidden_layers", 4},
                       {"rope_parameters", nullptr},
                       {"attn_layer_period", 2},
                       {"attn_layer_offset", 1},
                       {"mamba_d_state", 5},
                       {"num_experts", 4},
                       {"expert_layer_period", 3},
                       {"expert_layer_offset", 0}});
  return with(config, changes);
}

json zamba2(const json& changes) {
  json config = with({{"model_type", "zamba2"},
                      {"hidden_size", 24},
                      {"intermediate_size", 20},
                      {"num_hidden_layers", 5},
                      {"layers_block_type", {"mamba", "hybrid", "linear_attention", "hybrid", "hybrid"}},
                      {"num_attention_heads", 4},
                      {"attention_head_dim", 12},
                      {"adapter_rank", 3},
                      {"n_mamba_heads", 6},
                      {"mamba_headdim", 8},
                      {"mamba_d_state", 5},
                      {"mamba_d_conv", 3},
                      {"rms_norm_eps", 0.05},
                      {"tie_word_embeddings", true}},
                     changes);
  return config;
}

const std::vector<Family>& all_families() {
  static const std::vector<Family> all{
      {"llama", llama({})},
      {"llama_biases_tied",
       llama({{"attention_bias", true}, {"mlp_bias", true}, {"tie_word_embeddings", true}, {"head_dim", 10}})},
      {"llama_gelu", llama({{"hidden_act", "gelu_pytorch_tanh"}})},
      {"llama_linear", llama({{"rope_parameters", {{"rope_theta", 90.0}, {"rope_type", "linear"}, {"factor", 2.5}}}})},
      {"llama_llama3", llama({{"rope_theta", 500.0},
                              {"rope_parameters", nullptr},
                              {"rope_scaling",
                               {{"rope_type", "llama3"},
                                {"factor", 8.0},
                                {"low_freq_factor", 1.0},
                                {"high_freq_factor", 4.0},
                                {"original_max_position_embeddings", 16}}}})},
      {"llama_yarn", llama({{"max_position_embeddings", 64},
                            {"rope_parameters",
                             {{"rope_theta", 500.0},
                              {"rope_type", "yarn"},
                              {"factor", 4.0},
                              {"original_max_position_embeddings", 16}}}})},
      {"qwen3", llama({{"model_type", "qwen3"}, {"head_dim", 10}})},
      {"qwen3_window", llama({{"model_type", "qwen3"},
                              {"use_sliding_window", true},
                              {"sliding_window", 4},
                              {"layer_types", {"full_attention", "sliding_attention"}}})},
      {"qwen3_5_text", hybrid("qwen3_5_text", {})},
      {"qwen3_5_biases", hybrid("qwen3_5_text", {{"attention_bias", true}})},
      {"qwen3_5_seeing", seeing()},
      {"qwen3_next", next({})},
      {"qwen3_next_without_experts", next({{"num_experts", 0}})},
      {"qwen3_next_dense_layer", next({{"mlp_only_layers", {0}}, {"norm_topk_prob", false}})},
      {"olmo_hybrid", hybrid("olmo_hybrid", {{"num_key_value_heads", 4}})},
      {"olmo_hybrid_no_rotary",
       hybrid("olmo_hybrid", {{"rope_parameters", {{"rope_type", "default"}}}, {"linear_allow_neg_eigval", false}})},
      {"kimi_linear", kimi({})},
      {"kimi_linear_queries",
       kimi({{"q_lora_rank", 9}, {"moe_renormalize", false}, {"attention_bias", true}, {"first_k_dense_replace", 2}})},
      {"kimi_linear_wide_values", kimi({{"v_head_dim", 13}, {"num_shared_experts", 2}})},
      {"mamba", mamba("mamba", {})},
      {"mamba_biases", mamba("mamba", {{"use_bias", true},
                                       {"use_conv_bias", false},
                                       {"expand", 3},
                                       {"time_step_rank", "auto"},
                                       {"tie_word_embeddings", false}})},
      {"falcon_mamba", mamba("falcon_mamba", {{"mixer_rms_eps", 1e-3}, {"intermediate_size", 28}})},
      {"jamba", jamba({})},
      {"jamba_dense", jamba({{"num_experts", 1}, {"mamba_proj_bias", true}, {"mamba_dt_rank", 3}})},
      {"bamba", mamba2_hybrid("bamba", {{"attn_layer_indices", {1}}, {"head_dim", 8}})},
      {"bamba_biases", mamba2_hybrid("bamba", {{"attn_layer_indices", {0}},
                                               {"attention_bias", true},
                                               {"mamba_proj_bias", true},
                                               {"mlp_bias", true},
                                               {"rope_parameters", {{"partial_rotary_factor", 0.34}}}})},
      {"granite_gelu", granite({{"hidden_act", "gelu"}, {"layer_types", {"full_attention", "full_attention"}}})},
      {"granite", granite({})},
      {"granite_experts", granite({{"num_local_experts", 4}, {"num_experts_per_tok", 2}})},
      {"granite_rotary", granite({{"position_embedding_type", "rope"}})},
      {"nemotron_h", nemotron({})},
      {"nemotron_h_letters", nemotron({{"layers_block_type", nullptr},
                                       {"hybrid_override_pattern", "M-*E"},
                                       {"use_bias", true},
                                       {"time_step_min", 0.5},
                                       {"moe_latent_size", 7},
                                       {"norm_topk_prob", false}})},
      {"zamba2", zamba2({})},
      {"zamba2_two_blocks", zamba2({{"num_mem_blocks", 2},
                                    {"use_shared_attention_adapter", true},
                                    {"use_mem_rope", true},
                                    {"add_bias_linear", true},
                                    {"mamba_ngroups", 2}})},
      {"zamba2_untied", zamba2({{"tie_word_embeddings", false}, {"use_shared_attention_adapter", true}})},
      {"falcon_h1", falcon_h1({})},
      {"falcon_h1_norm", falcon_h1({{"mamba_rms_norm", true}, {"mamba_n_groups", 2}})},
      {"falcon_h1_norm_behind_the_gate", falcon_h1({{"mamba_rms_norm", true},
                                                    {"mamba_norm_before_gate", false},
                                                    {"projectors_bias", true},
                                                    {"mamba_proj_bias", true}})},
      {"lfm2", lfm2({})},
      {"lfm2_biases", lfm2({{"conv_bias", true}, {"conv_L_cache", 4}, {"tie_word_embeddings", false}})}};
  return all;
}

json without_nulls(json config) {
  for (auto field = config.begin(); field != config.end();)
    field = field->is_null() ? config.erase(field) : std::next(field);
  return config;
}

/// A model of a family with random weights.
struct RandomModel {
  explicit RandomModel(const json& description, DType dtype = DType::f32)
      : config(without_nulls(description)), model(plan_of(library_of(config, "config"), fields).model, store) {
    store.allocate(*backend, dtype);
    for (const Parameter& parameter : store.all()) {
      std::vector<double> values(static_cast<std::size_t>(parameter.shape.elements()));
      for (double& value : values) {
        ++drawn;
        value = static_cast<float>(0.5 * std::sin(0.7 * static_cast<double>(drawn * drawn % 9973)));
      }
      if (parameter.name.ends_with("norm.weight"))
        for (double& value : values) value += 1;
      store.upload(parameter, values);
    }
  }
  std::vector<double> logits() {
    Arena arena(*backend);
    Tape tape(*backend, arena);
    tape.begin(false);
    return store.download(model.forward(tape, input(tape, family_tokens), {}).value);
  }
  std::vector<double> stepped() {
    Arena arena(*backend);
    Tape tape(*backend, arena);
    ModelState state = model.make_state(*backend, store.dtype(), 1);
    std::vector<double> all;
    for (const int token : family_tokens) {
      tape.begin(false);
      const std::vector<double> one = store.download(model.step(tape, input(tape, {token}), state).value);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }
  /// The last answer to the first `prompt` tokens, read at once, and those to the tokens behind it.
  std::vector<double> prompted(std::size_t prompt) {
    Arena arena(*backend);
    Tape tape(*backend, arena);
    ModelState state = model.make_state(*backend, store.dtype(), 1);
    tape.begin(false);
    const std::vector<int> beginning(family_tokens.begin(),
                                     family_tokens.begin() + static_cast<std::ptrdiff_t>(prompt));
    std::vector<double> all =
        store.download(model.prefill(tape, input(tape, beginning), {}, state, Model::Asked::last_token).value);
    for (std::size_t t = prompt; t < family_tokens.size(); ++t) {
      tape.begin(false);
      const std::vector<double> one = store.download(model.step(tape, input(tape, {family_tokens[t]}), state).value);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }
  Tensor input(Tape& tape, const std::vector<int>& of) const {
    const Tensor made = tape.scratch({1, static_cast<std::int64_t>(of.size())}, DType::i32);
    backend->upload(made, of.data());
    return made;
  }
  /// Of a folder whose config.json differed so.
  WrittenModel written(const json& changes = json::object()) {
    json read = config;
    read.update(changes);
    std::vector<float> values(static_cast<std::size_t>(store.values().elements()));
    backend->download(values.data(), store.values());
    return write_model(library_of(config, "config"), plan_of(library_of(config, "config"), fields).model, nullptr,
                       {{"library", "transformers"}, {"config", read}}, store, values);
  }

  std::uint64_t drawn = 0;
  json config;
  ConfigFields fields{config, "config"};
  std::unique_ptr<Backend> backend = make_cpu_backend(2);
  ParameterStore store;
  Model model;
};

class Families : public ::testing::TestWithParam<Family> {};

TEST_P(Families, ComeBackToTheBit) {
  RandomModel random(GetParam().config);
  const WrittenModel written = random.written();
  const ModelFolder folder("family");
  folder.write("config.json", written.config.dump());
  write_safetensors(folder.path() / "model.safetensors", written.weights);
  const Checkpoint checkpoint(folder.path());
  EXPECT_THAT(checkpoint.notes(), IsEmpty());
  ParameterStore store;
  const Model model(checkpoint.model(), store);
  checkpoint.check(store);
  store.allocate_values(*random.backend, DType::f32);
  checkpoint.load(store);
  EXPECT_EQ(store.download(store.values()), random.store.download(random.store.values()));
}

// As in the library: where few positions make one turn the ramp falls, and nothing is stretched.
TEST(Family, ReadsARampOfYarnThatFalls) {
  const RandomModel random(llama({{"head_dim", 16},
                                  {"rope_parameters",
                                   {{"rope_type", "yarn"},
                                    {"rope_theta", 5e5},
                                    {"factor", 2.0},
                                    {"original_max_position_embeddings", 8},
                                    {"beta_fast", 8.0},
                                    {"beta_slow", 2.0},
                                    {"truncate", false}}}}));
  const json model = plan_of(library_of(random.config, "config"), random.fields).model;
  const json& scaling = model["blocks"][0]["mixer"]["rope_scaling"];
  EXPECT_EQ(scaling["low"], 0.0);
  EXPECT_NEAR(scaling["high"].get<double>(), 16 * std::log(8 / (4 * std::numbers::pi)) / (2 * std::log(5e5)), 1e-12);
}

TEST(Family, KeepsTheAxesOfKimisDecaysAndAHeadOfItsOwn) {
  RandomModel random(kimi({{"tie_word_embeddings", false}}));
  const WrittenModel written = random.written({{"tie_word_embeddings", true}});  // the folder's head held other numbers
  EXPECT_EQ(written.config["tie_word_embeddings"], false);
  const HostTensor* decays = written.weights.find("model.layers.0.self_attn.A_log");
  ASSERT_NE(decays, nullptr);
  EXPECT_THAT(decays->shape, ElementsAre(1, 1, _, 1));
}

TEST_P(Families, StepAsTheyReadWholeSequences) {
  RandomModel random(GetParam().config, DType::f64);
  const std::vector<double> whole = random.logits();
  EXPECT_TRUE(std::ranges::all_of(whole, [](double one) { return std::isfinite(one); }));
  EXPECT_LE(error_between(random.stepped(), whole), 1e-10);
}

TEST_P(Families, GoOnBehindAPromptThatIsReadAtOnce) {
  RandomModel random(GetParam().config, DType::f64);
  constexpr std::size_t prompt = 7;
  const std::vector<double> whole = random.logits();
  const auto first = whole.begin() + static_cast<std::ptrdiff_t>((prompt - 1) * whole.size() / family_tokens.size());
  EXPECT_LE(error_between(random.prompted(prompt), {first, whole.end()}), 1e-10);
}

TEST_P(Families, HaveGradientsThatAreDifferences) {
  RandomModel random(GetParam().config, DType::f64);
  Arena arena(*random.backend);
  Tape tape(*random.backend, arena);
  std::vector<int> targets(family_tokens.size());
  for (std::size_t i = 0; i < family_tokens.size(); ++i) targets[i] = static_cast<int>(7 * i % vocabulary);
  const auto loss = [&](bool recording) {
    tape.begin(recording);
    const auto count = static_cast<std::int64_t>(family_tokens.size());
    return random.model.forward_loss(tape, random.input(tape, family_tokens), {}, random.input(tape, targets), count)
        .loss;
  };
  const Var value = loss(true);
  const Tensor one = tape.scratch({1}, DType::f64);
  random.backend->fill(one, 1.0);
  tape.backward(value, one);
  tape.zero_untouched(random.store);
  const std::vector<double> gradient = random.store.download(random.store.gradients());
  for (const Parameter& parameter : random.store.all()) {
    const std::vector<double> at = random.store.download(parameter.value);
    std::vector<double> direction(at.size());
    double want = 0, size = 0;
    for (std::size_t i = 0; i < at.size(); ++i) {
      direction[i] = std::cos(1.3 * static_cast<double>(i) + 0.2);
      want += direction[i] * gradient[static_cast<std::size_t>(parameter.offset) + i];
      size += std::abs(direction[i] * gradient[static_cast<std::size_t>(parameter.offset) + i]);
    }
    if (parameter.name.ends_with("router.correction")) continue;              // it only chooses
    const double step = GetParam().name.starts_with("zamba2") ? 1e-7 : 1e-5;  // its loss bends much more
    double difference = 0;
    for (const auto& [steps, weight] : {std::pair{1.0, 8.0}, {-1.0, -8.0}, {2.0, -1.0}, {-2.0, 1.0}}) {
      std::vector<double> moved = at;
      for (std::size_t i = 0; i < at.size(); ++i) moved[i] += steps * step * direction[i];
      random.store.upload(parameter, moved);
      difference += weight * random.store.download(loss(false).value)[0] / (12 * step);
    }
    random.store.upload(parameter, at);
    EXPECT_NEAR(difference, want, 1e-6 * size + 1e-8) << parameter.name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Families, ::testing::ValuesIn(all_families()),
                         [](const auto& instance) { return instance.param.name; });

TEST(FamilyFields, AreRefusedByName) {
  const std::pair<json, const char*> refused[] = {
      {llama({{"hidden_act", "mish"}}), "hidden_act"},
      {llama({{"rope_parameters", {{"rope_type", "longrope"}}}}), "rope_type"},
      {llama({{"quantization_config", {{"bits", 4}}}}), "quantization_config"},
      {llama({{"model_type", "qwen3"}, {"layer_types", {"full_attention", "chunked_attention"}}}), "layer_types"},
      {llama({{"model_type", "qwen3"}, {"layer_types", {"full_attention"}}}), "layer_types"},
      {hybrid("qwen3_5_text", {{"linear_num_value_heads", 3}}), "linear_num_value_heads"},
      {kimi({{"mla_use_output_gate", true}}), "mla_use_output_gate"},
      {mamba("mamba", {{"hidden_act", "gelu"}}), "hidden_act"},
      {granite({{"hidden_act", "gelu"}}), "hidden_act"},
      {mamba2_hybrid("bamba", {{"mamba_n_heads", 7}}), "mamba_n_heads"},
      {mamba2_hybrid("bamba", {{"attn_layer_indices", 3}, {"head_dim", 8}}), "attn_layer_indices"},
      {nemotron({{"mlp_bias", true}}), "mlp_bias"},
      {nemotron({{"layers_block_type", {"mamba", "ghost"}}}), "layers_block_type"},
      {falcon_h1({{"ssm_multipliers", {1.0}}}), "ssm_multipliers"},
      {kimi({{"moe_router_activation_func", "softmax"}}), "moe_router_activation_func"}};
  for (const auto& [config, field] : refused) {
    try {
      plan_of(library_of(config, "config"), ConfigFields(config, "config"));
      ADD_FAILURE() << field;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_input);
      EXPECT_THAT(error.what(), HasSubstr(field));
    }
  }
}

// mamba_ssm's own config.json is read as that of transformers with the same sizes.
TEST(FamilyFields, OfficialNamesGiveTheSameModel) {
  const json theirs = mamba("mamba", {{"hidden_size", 32}, {"vocab_size", 24}, {"time_step_rank", "auto"}}),
             own = {{"d_model", 32},          {"n_layer", 2},
                    {"vocab_size", 23},       {"ssm_cfg", {{"d_state", 5}}},
                    {"rms_norm", true},       {"residual_in_fp32", true},
                    {"fused_add_norm", true}, {"pad_vocab_size_multiple", 8}};
  const auto planned = [](const json& config) {
    return plan_of(library_of(config, "config"), ConfigFields(config, "config"));
  };
  EXPECT_EQ(planned(own).model, planned(theirs).model);
  EXPECT_THAT(planned(own).notes, IsEmpty());
  EXPECT_EQ(planned(own).weights.front().names.front(), "backbone.embedding.weight");
  json second = own;
  second["ssm_cfg"] = {{"layer", "Mamba2"}, {"headdim", 16}, {"ngroups", 2}};
  const json mixer = planned(second).model["blocks"][0]["mixer"];
  EXPECT_EQ(mixer["kind"], "mamba2");
  EXPECT_EQ(mixer["d_state"], 128);
  EXPECT_EQ(mixer["norm_per_group"], true);
  second["attn_layer_idx"] = {1};
  EXPECT_THROW(planned(second), Error);
}

// Fields that others rarely set: each changes the model, is refused, or is named in a note.
TEST(FamilyFields, NeverChangeAnAnswerInSilence) {
  json old = llama({{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}});
  old.erase("rope_parameters");
  const json turning = zamba2({{"use_mem_rope", true}}), rope = granite({{"position_embedding_type", "rope"}});
  const std::tuple<json, const char*, json> flipped[] = {
      {llama({}), "/rope_parameters/factor", 4.0},
      {llama({}), "/rope_parameters/partial_rotary_factor", 0.5},
      {llama({}), "/rope_parameters/long_factor", {1.0, 2.0}},
      {llama({}), "/rope_parameters/rope_type", "dynamic"},
      {llama({}), "/sliding_window", 4},
      {llama({}), "/attn_logit_softcapping", 30.0},
      {old, "/rope_scaling/attention_factor", 1.5},
      {llama({{"model_type", "qwen3"}}), "/attention_bias", true},
      {hybrid("qwen3_5_text", {}), "/hidden_act", "gelu"},
      {hybrid("qwen3_5_text", {}), "/rope_parameters/factor", 2.0},
      {seeing(), "/text_config/rope_parameters/factor", 2.0},
      {seeing(), "/text_config/a_new_switch", true},
      {next({}), "/norm_topk_prob", false},
      {next({}), "/decoder_sparse_step", 2},
      {kimi({}), "/linear_attn_config/safe_gate", true},
      {kimi({}), "/num_shared_experts", 2},
      {hybrid("olmo_hybrid", {{"num_key_value_heads", 4}}), "/linear_use_gate", false},
      {lfm2({}), "/rope_parameters/factor", 3.0},
      {lfm2({}), "/block_auto_adjust_ff_dim", true},
      {mamba("mamba", {}), "/a_new_switch", true},
      {mamba("falcon_mamba", {}), "/mixer_rms_eps", 0.1},
      {jamba({}), "/sliding_window", 4},
      {mamba2_hybrid("bamba", {{"head_dim", 8}}), "/rope_parameters/factor", 2.0},
      {mamba2_hybrid("bamba", {{"head_dim", 8}}), "/time_step_limit", {0.0, 0.5}},
      {granite({}), "/position_embedding_type", "alibi"},
      {rope, "/rope_parameters/factor", 2.0},
      {falcon_h1({}), "/ssm_out_multiplier", 0.3},
      {falcon_h1({}), "/rope_scaling", {{"factor", 2.0}}},
      {nemotron({}), "/mlp_hidden_act", "silu"},
      {zamba2({}), "/attention_hidden_size", 96},
      {zamba2({}), "/hidden_act", "relu"},
      {zamba2({}), "/num_mem_blocks", 3},
      {zamba2({}), "/time_step_min", 0.01},
      {zamba2({}), "/use_shared_attention_adapter", true},
      {turning, "/use_long_context", true},
      {turning, "/rope_parameters/rope_theta", 77.0}};
  const auto planned = [](const json& config) {
    return plan_of(library_of(config, "config"), ConfigFields(config, "config"));
  };
  for (const auto& [config, field, value] : flipped) {
    json changed = config;
    changed[json::json_pointer(field)] = value;
    const std::string name = json::json_pointer(field).back();
    try {
      const ModelPlan plan = planned(changed);
      const bool is_named =
          std::ranges::any_of(plan.notes, [&](const std::string& note) { return note.find(name) != note.npos; });
      EXPECT_TRUE(is_named || plan.model != planned(config).model) << config["model_type"] << field;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(name));
    }
  }
}

TEST(ReadModels, AreThoseOfTheReadme) {
  std::ifstream file(source_folder() / "core/models/README.md");
  std::vector<std::string> listed, known;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("| `")) listed.push_back(line);
  }
  for (const json& row : library_words()["models"]) {
    std::string& line = known.emplace_back("| `" + row["name"].get<std::string>() + "`");
    for (const char* column : {"library", "layers", "trains", "steps", "exported"})
      line += " | " + row[column].get<std::string>();
    line += " |";
  }
  EXPECT_EQ(listed, known);
}

// The library's norms inside latent attention do not read rms_norm_eps.
TEST(FamilyFields, LatentAttentionHasAnEpsOfItsOwn) {
  const json config = kimi({{"rms_norm_eps", 0.125}});
  const ModelPlan plan = plan_of(library_of(config, "config"), ConfigFields(config, "config"));
  const auto eps = [&](std::size_t block) { return plan.model["blocks"][block]["mixer"]["norm_eps"]; };
  EXPECT_EQ(plan.model["norm_eps"], 0.125);
  EXPECT_EQ(eps(0), 0.125);
  EXPECT_EQ(eps(1), 1e-6);
}

TEST(FamilyFields, ThatNothingReadsAreNamed) {
  const json config = llama({{"a_new_switch", true}});
  const ModelPlan plan = plan_of(library_of(config, "config"), ConfigFields(config, "config"));
  EXPECT_THAT(plan.notes, ::testing::ElementsAre(HasSubstr("a_new_switch")));
}

}  // namespace
}  // namespace afterglow::testing
