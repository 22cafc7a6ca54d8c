// Inspection with interventions: what they do to the answers, that they can be taken back, and that training never sees
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/backend/host_numbers.h"
#include "core/engine/analyses/inspected/inspected_view.h"
#include "core/engine/inspection/intervention_runner.h"
#include "core/engine/observation/run_numbers.h"
#include "core/engine/session/analysed_run.h"
#include "core/engine/training/pinned_array.h"
#include "core/io/error.h"
#include "core/layers/layer_kind.h"
#include "tests/core/engine/small_recipe.h"

namespace afterglow {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr int ska_part = 3;  // embedding, mamba2, swiglu, ska

Recipe recipe_in(const std::string& mode, int length = 24) {
  json recipe = small_recipe_json();
  recipe["model"]["blocks"][1]["mixer"]["mode"] = mode;
  if (mode == "chunk") recipe["model"]["blocks"][1]["mixer"]["chunk"] = 5;
  recipe["task"]["length"] = length;
  return parse_recipe(recipe, "test");
}

/// A run after some steps, so that o_proj is no longer zero, with every analysis made.
struct Inspected {
  explicit Inspected(const std::string& mode = "prefix", int length = 24) : Inspected(recipe_in(mode, length)) {}
  explicit Inspected(Recipe recipe)
      : backend(make_cpu_backend(2)), analysed({std::move(recipe), std::nullopt}, *backend) {
    analysed.go_to(12);
    look();
  }
  const InspectedView& look() {
    analysed.advance(Analysis::spectra, Budget::whole);
    analysed.advance(Analysis::trace, Budget::whole);
    analysed.advance(Analysis::inspected, Budget::whole);
    seen = analysed.describe();
    return *seen.inspected;
  }
  const InspectedView& after(const char* name, const char* value) {
    analysed.change_inspection({name, json::parse(value)});
    return look();
  }
  std::unique_ptr<Backend> backend;
  AnalysedRun analysed;
  Observation seen;
};

std::vector<double> probabilities(const InspectedView& view, bool after) {
  std::vector<double> all;
  for (const InspectedAnswer& answer : view.answers) {
    const std::vector<double>& list = after ? answer.after : answer.before;
    all.insert(all.end(), list.begin(), list.end());
  }
  return all;
}

double max_change(const InspectedView& view) {
  const std::vector<double> a = probabilities(view, false), b = probabilities(view, true);
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

TEST(Capture, AnswersAtOnceAndCountsAfterwards) {
  Inspected inspected;
  AnalysedRun& analysed = inspected.analysed;
  const double before = inspected.seen.inspected->accuracy_after;
  analysed.change_inspection({"mode_off", R"({"head": 0})"_json});
  EXPECT_FALSE(analysed.state(Analysis::inspected).is_answered);
  analysed.advance(Analysis::inspected);
  EXPECT_TRUE(analysed.state(Analysis::inspected).is_answered);
  EXPECT_FALSE(analysed.is_current(Analysis::inspected)) << "the accuracy has to follow";
  const Observation quick = analysed.describe();
  EXPECT_EQ(quick.inspected->accuracy_after, before);
  EXPECT_TRUE(quick.inspected->accuracy_is_old) << "it is that without the intervention";
  EXPECT_TRUE(std::isnan(number_in(numbers_of(quick), "probe.accuracy")->number)) << "no condition holds by it";
  EXPECT_EQ(quick.inspected->heads.size(), 2u);
  analysed.advance(Analysis::inspected, Budget::whole);
  EXPECT_TRUE(analysed.is_current(Analysis::inspected));
  const Observation whole = analysed.describe();
  EXPECT_FALSE(whole.inspected->accuracy_is_old);
  EXPECT_EQ(number_in(numbers_of(whole), "probe.accuracy")->number, whole.inspected->accuracy_after);
  EXPECT_EQ(probabilities(*quick.inspected, true), probabilities(*whole.inspected, true));
  EXPECT_EQ(quick.inspected->weights.weights, whole.inspected->weights.weights);
  analysed.train_step();
  analysed.change_inspection({"clear_overrides"});
  analysed.advance(Analysis::inspected);
  EXPECT_TRUE(analysed.is_current(Analysis::inspected))
      << "at another step nothing is known without interventions, so everything is computed";
  const double known = analysed.describe().inspected->accuracy_after;
  analysed.train_step();
  analysed.change_inspection({"mode_off", R"({"head": 0})"_json});
  analysed.advance(Analysis::inspected);
  const auto during = analysed.describe().inspected;
  EXPECT_EQ(during->step, 14) << "the answer is that of the present weights";
  EXPECT_EQ(during->accuracy_before, known) << "its accuracy that of the step before";
  EXPECT_TRUE(during->accuracy_is_old);
  EXPECT_FALSE(analysed.is_current(Analysis::inspected));
}

TEST(Capture, ShowsTheAnswersOfTheSequence) {
  Inspected inspected;
  const InspectedView& view = *inspected.seen.inspected;
  EXPECT_EQ(view.step, 12);
  EXPECT_FALSE(view.is_edited());
  ASSERT_EQ(view.tokens.size(), 24u);
  ASSERT_EQ(view.answers.size(), 24u);
  EXPECT_EQ(view.accuracy_before, view.accuracy_after);
  EXPECT_EQ(view.examples, 64);
  for (const InspectedAnswer& answer : view.answers) {
    EXPECT_EQ(answer.tokens.size(), 6u);
    EXPECT_EQ(answer.before, answer.after);
    EXPECT_TRUE(std::is_sorted(answer.before.rbegin(), answer.before.rend()));
  }
  EXPECT_EQ(view.accuracy_before, inspected.analysed.trainer().evaluate(64));
  EXPECT_TRUE(view.heads.empty());
}

class InspectedInMode : public testing::TestWithParam<const char*> {};

// Of 32,000 words a million numbers are 32 answers.
TEST(Capture, ReadsWhatIsAskedWhereNotAllAnswersFit) {
  json recipe = small_recipe_json();
  recipe["model"]["vocab"] = 32'000;
  recipe["task"] = json{{"kind", "mqar"}, {"length", 64}, {"bindings", 8}};
  const std::unique_ptr<Backend> backend = make_cpu_backend(2);
  AnalysedRun analysed({parse_recipe(recipe, "test"), std::nullopt}, *backend);
  const InspectedView view = *analysed.observe(set_of(Analysis::inspected)).inspected;

  Trainer& trainer = analysed.trainer();
  Example example = trainer.task().example(trainer.seed(), 0, Split::held_out);
  Tape& tape = trainer.evaluation_tape();
  tape.begin(false);
  const Tensor tokens = tape.scratch({1, 64}, DType::i32), context = tape.scratch({1, 64}, DType::u8);
  backend->upload(tokens, example.tokens.data());
  backend->upload(context, example.context.data());
  const std::vector<double> logits = to_host(*backend, trainer.model().forward(tape, tokens, context).value);

  ASSERT_EQ(view.answers.size(), 64U);
  int read = 0, asked = 0;
  for (std::size_t t = 0; t < view.answers.size(); ++t) {
    const InspectedAnswer& answer = view.answers[t];
    read += !answer.tokens.empty();
    if (example.targets[t] < 0) continue;
    ++asked;
    const std::span<const double> row = std::span(logits).subspan(t * 32'000, 32'000);
    double sum = 0;
    for (const double logit : row) sum += std::exp(logit);
    EXPECT_NEAR(answer.target_after * sum, std::exp(row[static_cast<std::size_t>(example.targets[t])]), 1e-6) << t;
  }
  EXPECT_EQ(read, 32);
  EXPECT_GE(asked, 8);
  EXPECT_LT(asked, 32);
  EXPECT_FALSE(view.answers.back().tokens.empty());
}

TEST_P(InspectedInMode, OverridingKAndRidgeIsSettingThem) {
  Inspected inspected(GetParam()), set(GetParam());
  inspected.after("override", R"({"key": "K", "to": 4})");
  const InspectedView& view = inspected.after("override", R"({"layer": "1 ska", "key": "ridge", "to": 0.05})");
  set.analysed.trainer().set("layers.1.ska.K", 4);
  set.analysed.trainer().set("layers.1.ska.ridge", 0.05);
  set.analysed.forget_results();
  const InspectedView& there = set.look();
  EXPECT_EQ(view.accuracy_after, there.accuracy_before);
  for (std::size_t t = 0; t < view.answers.size(); ++t)
    EXPECT_EQ(view.answers[t].target_after, there.answers[t].target_before);
  ASSERT_EQ(view.heads.size(), 2u);
  EXPECT_EQ(view.heads[1].spectrum.eigenvalues, set.seen.spectra->heads[1].eigenvalues);
  EXPECT_EQ(view.heads[1].spectrum.kappa, set.seen.spectra->heads[1].kappa);
  for (std::size_t h = 0; h < 2; ++h) {
    for (std::size_t i = 0; i < view.weights.weights[h].size(); ++i) {
      const float w = set.seen.token_weights->weights[h][i];
      if (std::isnan(w)) continue;
      ASSERT_NEAR(view.weights.weights[h][i], w, 2e-5 * (1 + std::abs(w)));
    }
  }
}

TEST_P(InspectedInMode, AModeMovedToWhereItIsChangesNothing) {
  Inspected inspected(GetParam());
  const HeadSpectrum head = inspected.seen.spectra->heads[1];
  for (std::size_t mode = 0; mode < head.eigenvalues.size(); ++mode) {
    inspected.analysed.change_inspection({"drag_mode", json{{"head", 1},
                                                            {"mode", mode},
                                                            {"re", head.eigenvalues[mode].real()},
                                                            {"im", head.eigenvalues[mode].imag()}}});
  }
  const InspectedView& view = inspected.look();
  EXPECT_TRUE(view.is_edited());
  // Other groups of a causal mode have other spectra, so there the edit does move something.
  const bool has_one_group = std::string(GetParam()) == "prefix" || std::string(GetParam()) == "masked";
  if (has_one_group) {
    EXPECT_LT(max_change(view), 1e-5);
  }
  EXPECT_EQ(view.heads[1].spectrum.identity, head.identity);
}

TEST_P(InspectedInMode, WithoutHeadsOrModesTheLayerAddsExactlyNothing) {
  for (const char* command : {"head_off", "mode_off"}) {
    for (const int power : {0, 2}) {
      Inspected inspected(GetParam());
      inspected.analysed.change_inspection({"override", {{"key", "K"}, {"to", power}}});
      const InspectedView& view = inspected.after(command, "{}");
      EXPECT_GT(max_change(view), 1e-6);
      for (const std::vector<float>& head : view.weights.weights) {
        for (const float weight : head) EXPECT_TRUE(std::isnan(weight) || weight == 0) << weight;
      }
      // The same as a model whose output projection of that layer is zero.
      Inspected silent(GetParam());
      const Parameter* o_proj = silent.analysed.trainer().parameters().find("layers.1.ska.o_proj.weight");
      silent.backend->fill(o_proj->value, 0.0);
      silent.analysed.forget_results();
      const InspectedView& without = silent.look();
      EXPECT_EQ(view.accuracy_after, without.accuracy_before);
      for (std::size_t t = 0; t < view.answers.size(); ++t)
        EXPECT_EQ(view.answers[t].target_after, without.answers[t].target_before);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, InspectedInMode, testing::Values("prefix", "masked", "chunk", "recurrent"),
                         [](const auto& mode) { return std::string(mode.param); });

TEST(Capture, TheEditedLayersOwnAnswersAreExactlyZero) {
  Inspected inspected;
  Trainer& trainer = inspected.analysed.trainer();
  Arena arena(*inspected.backend);
  Tape tape(*inspected.backend, arena);
  const Example example = trainer.task().example(trainer.seed(), 0, Split::held_out);
  PinnedArray tokens(*inspected.backend, {1, 24}, DType::i32);
  std::copy(example.tokens.begin(), example.tokens.end(), tokens.host<std::int32_t>());
  tokens.queue_upload();
  LayerEdit edit;
  edit.heads.resize(2);
  for (int mode = 0; mode < 6; ++mode) edit.heads[0].modes.push_back({mode, true, {}});
  edit.heads[1].is_off = true;
  tape.begin(false);
  std::int64_t checked = 0;
  trainer.model().forward_with(tape, trainer.model().embed(tape, tokens.device()), 0, [&](std::size_t i, const Var& x) {
    Layer& layer = *trainer.model().branches()[i].layer;
    if (layer.kind() != "ska") return layer.forward(tape, x, {});
    const Var y = readers_of(layer.kind()).edit(layer, tape, x, {}, edit);
    for (std::int64_t k = 0; k < y.value.elements(); ++k, ++checked) EXPECT_EQ(y.value.as<float>()[k], 0.0f);
    return y;
  });
  EXPECT_EQ(checked, 24 * 16);
}

TEST(Capture, SwitchesOffHeadsOfLayersOfEveryKind) {
  int kinds = 0;
  for (const LayerKind& kind : layer_kinds()) {
    if (!kind.mixes_tokens) continue;
    json recipe = small_recipe_json(), mixer = kind.small_config({16, 2, 8});
    mixer.erase(kind.width_field);
    mixer["kind"] = kind.name;
    json block{{"mixer", mixer}};
    if (!kind.whole_block) block["mlp"] = {{"kind", "swiglu"}, {"d_ff", 24}};
    recipe["model"]["blocks"] = json::array({block});
    Inspected inspected(parse_recipe(recipe, kind.name));
    const int heads = inspected.seen.model.layers[1].heads;
    if (heads < 2) continue;
    ++kinds;
    for (const int head : {0, heads - 1}) {
      json value{{"layer", 1}, {"head", head}};
      EXPECT_GT(max_change(inspected.after("head_off", value.dump().c_str())), 1e-7) << kind.name << ", head " << head;
      value["off"] = false;
      EXPECT_FALSE(inspected.after("head_off", value.dump().c_str()).is_edited()) << kind.name;
    }
  }
  EXPECT_GE(kinds, 10);
}

TEST(Capture, GammaAndEtaScaleTheAnswers) {
  Inspected inspected;
  const auto weights = [](const InspectedView& view) { return view.weights.weights[0]; };
  const double gamma = inspected.seen.spectra->heads[0].gamma;
  const std::vector<float> once = weights(inspected.after("override", R"({"key": "K", "to": 3})"));
  const std::string doubled = json{{"key", "gamma"}, {"head", 0}, {"to", 2 * gamma}}.dump();
  const InspectedView& view = inspected.after("override", doubled.c_str());
  EXPECT_DOUBLE_EQ(view.heads[0].spectrum.gamma, 2 * gamma);
  for (std::size_t i = 0; i < once.size(); ++i)
    EXPECT_NEAR(weights(view)[i], 8 * once[i], 1e-4 * (1 + std::abs(once[i])));
  // Without eta a head says nothing.
  Inspected other;
  const double silent = other.after("override", R"({"key": "eta", "to": 0})").accuracy_after;
  EXPECT_EQ(silent, Inspected().after("head_off", "{}").accuracy_after);
}

TEST(Capture, UndoGivesEverythingBack) {
  Inspected inspected;
  const std::string checksum = inspected.analysed.trainer().checksum();
  const std::vector<double> before = probabilities(*inspected.seen.inspected, true);
  const std::string recipe = inspected.seen.recipe;
  // A drag is one change however many commands it took; it comes after a hyperparameter's.
  inspected.analysed.set("learning_rate", 0.001);
  inspected.analysed.change_inspection({"drag_mode", R"({"head": 0, "mode": 0, "re": 0.3, "live": true})"_json});
  inspected.analysed.change_inspection({"drag_mode", R"({"head": 0, "mode": 0, "re": 0.6, "live": true})"_json});
  inspected.analysed.change_inspection({"drag_mode", R"({"head": 0, "mode": 0, "re": 0.9})"_json});
  const Interventions dragged = inspected.look().setup.interventions;
  inspected.analysed.change_inspection({"head_off", R"({"head": 1})"_json});
  ASSERT_TRUE(inspected.analysed.undo());
  EXPECT_EQ(inspected.look().setup.interventions, dragged);
  ASSERT_TRUE(inspected.analysed.undo());
  EXPECT_FALSE(inspected.look().is_edited());
  EXPECT_EQ(probabilities(*inspected.seen.inspected, true), before);
  ASSERT_TRUE(inspected.analysed.undo());  // the learning rate
  EXPECT_FALSE(inspected.analysed.undo());
  inspected.look();
  EXPECT_EQ(inspected.seen.recipe, recipe);
  EXPECT_EQ(inspected.analysed.trainer().checksum(), checksum);
  ASSERT_TRUE(inspected.analysed.redo());
  EXPECT_EQ(inspected.analysed.trainer().get("learning_rate"), 0.001);
  ASSERT_TRUE(inspected.analysed.redo());
  EXPECT_EQ(inspected.look().setup.interventions, dragged);
}

TEST(Capture, PaintedTokensAreWeighedAndGivenBack) {
  Inspected inspected;
  const std::string recipe = inspected.seen.recipe;
  EXPECT_THAT(inspected.seen.inspected->sum_weights, testing::Each(1.0));
  EXPECT_EQ(inspected.after("mask", R"({"tokens": [0, 1, 2], "to": 1})").accuracy_after,
            inspected.seen.inspected->accuracy_before);
  EXPECT_EQ(max_change(*inspected.seen.inspected), 0);
  inspected.analysed.change_inspection({"mask", R"({"tokens": 4, "to": 0, "live": true})"_json});
  inspected.analysed.change_inspection({"mask", R"({"tokens": 5, "to": 0, "live": true})"_json});
  const InspectedView out = inspected.after("mask", R"({"tokens": 5, "to": 0})");
  EXPECT_GT(max_change(out), 0);
  EXPECT_EQ(out.sum_weights[4] + out.sum_weights[5], 0);
  for (int head = 0; head < 2; ++head) {
    for (int t = 0; t < 24; ++t) EXPECT_EQ(out.weights.weights[head][t * 24 + 4], 0) << head << " " << t;
  }
  EXPECT_LT(max_change(inspected.after("mask", R"({"tokens": [4, 5], "to": 0.99})")), max_change(out));
  AnalysedRun again({parse_recipe(inspected.seen.recipe, "again"), std::nullopt}, *inspected.backend);
  again.go_to(12);
  again.advance(Analysis::inspected, Budget::whole);
  EXPECT_EQ(again.describe().inspected->setup, inspected.seen.inspected->setup);
  EXPECT_EQ(probabilities(*again.describe().inspected, true), probabilities(*inspected.seen.inspected, true));
  for (int change = 0; change < 3; ++change) ASSERT_TRUE(inspected.analysed.undo());  // a drag is one of them
  EXPECT_FALSE(inspected.look().is_edited());
  EXPECT_EQ(inspected.seen.recipe, recipe);
}

TEST(Capture, PaintedRolesAreTheMaskThatNamesThem) {
  Inspected masked("masked"), whole("prefix");
  EXPECT_GT(max_change(masked.after("mask", R"({"role": "filler", "to": 1})")), 0);
  const InspectedView all = masked.after("mask", R"({"role": "question", "to": 1})");
  EXPECT_THAT(all.sum_weights, testing::Each(1.0));
  const InspectedView facts = whole.after("mask", R"({"role": "question", "to": 0})");
  EXPECT_GT(max_change(facts), 0);
  EXPECT_EQ(facts.sum_weights, whole.after("mask", R"({"role": "facts", "to": 1})").sum_weights);
}

TEST(Capture, TrainingNeverSeesIt) {
  const auto backend = make_cpu_backend(2);
  AnalysedRun plain({small_recipe(), std::nullopt}, *backend), inspected({small_recipe(), std::nullopt}, *backend);
  plain.go_to(30);
  inspected.change_inspection({"mode_off", R"({"mode": 1})"_json});
  inspected.change_inspection({"override", R"({"key": "ridge", "to": 0.5})"_json});
  for (int step = 0; step < 30; ++step) {
    inspected.advance(Analysis::spectra, Budget::whole);
    inspected.advance(Analysis::inspected, Budget::whole);
    inspected.train_step();
  }
  EXPECT_EQ(inspected.trainer().checksum(), plain.trainer().checksum());
  EXPECT_EQ(inspected.trainer().get("layers.1.ska.ridge"), 1e-3);
}

TEST(Capture, TravelsInTheRecipe) {
  Inspected inspected;
  inspected.analysed.choose_inspected({{"index", 5}});
  inspected.analysed.change_inspection({"probe_sequence", R"({"at": 3, "token": 7})"_json});
  inspected.analysed.change_inspection({"drag_mode", R"({"head": 1, "mode": 2, "re": 0.5, "im": 0.25})"_json});
  inspected.analysed.change_inspection({"mode_off", R"({"head": 0, "mode": 3})"_json});
  inspected.analysed.change_inspection({"override", R"({"head": 0, "key": "gamma", "to": 1.25})"_json});
  const InspectedView view = inspected.look();
  AnalysedRun again({parse_recipe(inspected.seen.recipe, "again"), std::nullopt}, *inspected.backend);
  again.go_to(12);
  again.advance(Analysis::spectra, Budget::whole);
  again.advance(Analysis::inspected, Budget::whole);
  const Observation seen = again.describe();
  EXPECT_EQ(seen.inspected->setup, view.setup);
  EXPECT_EQ(seen.inspected->accuracy_after, view.accuracy_after);
  EXPECT_EQ(probabilities(*seen.inspected, true), probabilities(view, true));
  EXPECT_EQ(seen.recipe, inspected.seen.recipe);
}

TEST(Capture, AnEditedTokenStandsInTheSequence) {
  Inspected inspected;
  const InspectedView before = *inspected.seen.inspected;
  const std::string label = inspected.analysed.trainer().task().token_label(9);
  const InspectedView& view = inspected.after("probe_sequence", json{{"at", 4}, {"label", label}}.dump().c_str());
  EXPECT_EQ(view.tokens[4].id, 9);
  EXPECT_EQ(inspected.seen.trace->tokens[4].id, 9);
  EXPECT_EQ(view.tokens[5].id, before.tokens[5].id);
  EXPECT_NE(probabilities(view, true), probabilities(before, true));
  ASSERT_TRUE(inspected.analysed.undo());
  EXPECT_EQ(probabilities(inspected.look(), true), probabilities(before, true));
}

TEST(Capture, RefusesWhatMakesNoSense) {
  Inspected inspected;
  const InspectionSetup before = inspected.seen.inspected->setup;
  const auto message = [&](const char* name, const char* value) -> std::string {
    try {
      inspected.analysed.change_inspection({name, json::parse(value)});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_input);
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message("override", R"({"key": "K", "to": -1})"), HasSubstr("to"));
  EXPECT_THAT(message("override", R"({"key": "speed", "to": 1})"), HasSubstr("speed"));
  EXPECT_THAT(message("override", R"({"layer": 1, "key": "K", "to": 1})"), HasSubstr("3 (1 ska)"));
  EXPECT_THAT(message("head_off", R"({"head": 2})"), HasSubstr("head"));
  EXPECT_THAT(message("mode_off", R"({"mode": 6})"), HasSubstr("mode"));
  EXPECT_THAT(message("drag_mode", R"({"mode": 0})"), HasSubstr("re"));
  EXPECT_THAT(message("drag_mode", R"({"mode": 0, "re": 9})"), HasSubstr("re"));
  EXPECT_THAT(message("probe_sequence", R"({"at": 99, "token": 1})"), HasSubstr("at"));
  EXPECT_THAT(message("probe_sequence", R"({"at": 1, "label": "nonsense"})"), HasSubstr("nonsense"));
  EXPECT_THAT(message("probe_sequence", R"({"tokens": [1, 2]})"), HasSubstr("24"));
  EXPECT_THAT(message("mask", R"({"tokens": 0, "to": 1.5})"), HasSubstr("to"));
  EXPECT_THAT(message("mask", R"({"to": 1})"), HasSubstr("one of"));
  EXPECT_THAT(message("mask", R"({"role": "answers", "to": 1})"), HasSubstr("question"));
  EXPECT_THAT(message("mask", R"({"tokens": 24, "to": 0})"), HasSubstr("no token 24"));
  EXPECT_THAT(message("mask", R"({"layer": 4, "tokens": 2, "to": 0})"), HasSubstr("no ska layer"));
  EXPECT_THAT(message("clear_overrides", "[]"), HasSubstr("object"));
  EXPECT_EQ(inspected.look().setup, before);
}

TEST(Interventions, AreTheCommandsThatMakeThem) {
  const std::vector<InterventionTarget> layers{{3, "1 ska", "layers.1.ska", 2, 6}};
  Interventions interventions;
  for (const Command& command :
       {Command{"override", R"({"key": "K", "to": 0})"_json}, Command{"override", R"({"key": "eta", "to": -1.5})"_json},
        Command{"drag_mode", R"({"head": 1, "mode": 4, "re": -0.25, "im": 0.125})"_json},
        Command{"mode_off", R"({"head": 0})"_json}, Command{"head_off", R"({"head": 1})"_json},
        Command{"mask", R"({"tokens": [0, 3, 8], "to": 0})"_json}, Command{"mask", R"({"tokens": 3, "to": 0.25})"_json},
        Command{"mask", R"({"role": "question", "to": 0.5})"_json}}) {
    apply_intervention(interventions, command, layers);
  }
  Interventions again;
  for (const json& command : to_json(interventions)) apply_intervention(again, parse_command(command), layers);
  EXPECT_EQ(again, interventions);
  apply_intervention(again, {"clear_overrides"}, layers);
  EXPECT_TRUE(again.empty());
  // What is taken back leaves nothing behind.
  apply_intervention(again, {"mode_off", R"({"head": 0, "mode": 2})"_json}, layers);
  apply_intervention(again, {"mode_off", R"({"head": 0, "mode": 2, "off": false})"_json}, layers);
  apply_intervention(again, {"override", R"({"key": "ridge", "to": 0.1})"_json}, layers);
  apply_intervention(again, {"override", R"({"key": "ridge", "to": null})"_json}, layers);
  apply_intervention(again, {"mask", R"({"tokens": [2, 5], "to": 0.5})"_json}, layers);
  apply_intervention(again, {"mask", R"({"tokens": [5, 2], "to": null})"_json}, layers);
  EXPECT_TRUE(again.empty());
}

constexpr int mlp_part = 4;  // koopman_mlp, after the ska

json at_pair(std::size_t pair, const std::complex<double>& to) {
  return {{"layer", mlp_part}, {"mode", pair}, {"re", to.real()}, {"im", to.imag()}};
}

TEST(Pairs, MovedToWhereTheyAreChangeNothing) {
  Inspected inspected;
  const MlpSpectrum mlp = inspected.seen.spectra->mlps.at(0);
  ASSERT_EQ(mlp.layer, mlp_part);
  ASSERT_EQ(mlp.eigenvalues.size(), 8u);
  for (std::size_t i = 0; i < mlp.eigenvalues.size(); ++i)
    inspected.analysed.change_inspection(
        {"drag_mode", at_pair(i, i % 2 == 0 ? mlp.eigenvalues[i] : std::conj(mlp.eigenvalues[i]))});
  const InspectedView& view = inspected.look();
  EXPECT_TRUE(view.is_edited());
  EXPECT_LT(max_change(view), 1e-6);
  ASSERT_EQ(view.mlps.size(), 1u);
  EXPECT_EQ(view.mlps[0].spectrum.eigenvalues, mlp.eigenvalues);
  EXPECT_TRUE(view.heads.empty());
}

TEST(Pairs, MovedAreAnsweredAsIfTheyHadBeenLearned) {
  Inspected inspected, learned;
  const std::complex<double> to(-0.3, 0.5);
  const InspectedView& view = inspected.after("drag_mode", at_pair(2, to).dump().c_str());
  EXPECT_GT(max_change(view), 1e-5);
  EXPECT_LT(std::abs(view.mlps.at(0).spectrum.eigenvalues.at(2) -
                     std::complex<double>(
                         to.real(), std::copysign(to.imag(), inspected.seen.spectra->mlps[0].eigenvalues[2].imag()))),
            1e-12);
  ParameterStore& store = learned.analysed.trainer().parameters();
  for (const auto& [name, value] : {std::pair("gamma", view.mlps[0].spectrum.eigenvalues[2].real()),
                                    std::pair("omega", view.mlps[0].spectrum.eigenvalues[2].imag())}) {
    const Parameter* parameter = store.find(std::string("layers.1.koopman_mlp.") + name);
    ASSERT_NE(parameter, nullptr);
    std::vector<double> values = store.download(parameter->value);
    values[2] = value;
    store.upload(*parameter, values);
  }
  learned.analysed.forget_results();
  const InspectedView& own = learned.look();
  EXPECT_EQ(view.accuracy_after, own.accuracy_before);
  for (std::size_t t = 0; t < view.answers.size(); ++t)
    EXPECT_EQ(view.answers[t].target_after, own.answers[t].target_before);
}

TEST(Pairs, SwitchedOffReadNothing) {
  Inspected inspected, silent;
  const InspectedView& view = inspected.after("mode_off", R"({"layer": "1 koopman_mlp"})");
  EXPECT_EQ(view.mlps.at(0).is_off, std::vector<bool>(8, true));
  const Parameter* readout = silent.analysed.trainer().parameters().find("layers.1.koopman_mlp.readout.weight");
  silent.backend->fill(readout->value, 0.0);
  silent.analysed.forget_results();
  const InspectedView& without = silent.look();
  EXPECT_GT(max_change(view), 1e-6);
  EXPECT_EQ(view.accuracy_after, without.accuracy_before);
  for (std::size_t t = 0; t < view.answers.size(); ++t)
    EXPECT_EQ(view.answers[t].target_after, without.answers[t].target_before);
}

TEST(Pairs, AreEditedBesideHeadsUndoneAndKeptInTheRecipe) {
  Inspected inspected;
  const std::string before = inspected.seen.recipe;
  const std::string checksum = inspected.analysed.trainer().checksum();
  inspected.analysed.change_inspection({"drag_mode", at_pair(1, {0.2, 0.1})});
  inspected.analysed.change_inspection({"mode_off", R"({"layer": 4, "mode": 5})"_json});
  inspected.analysed.change_inspection({"drag_mode", R"({"head": 1, "mode": 0, "re": 0.4})"_json});
  const InspectedView view = inspected.look();
  EXPECT_EQ(view.heads.size(), 2u) << "without a layer it is the ska's";
  ASSERT_EQ(view.mlps.size(), 1u);
  EXPECT_TRUE(view.mlps[0].is_off[5]);
  AnalysedRun again({parse_recipe(inspected.seen.recipe, "again"), std::nullopt}, *inspected.backend);
  again.go_to(12);
  again.advance(Analysis::spectra, Budget::whole);
  again.advance(Analysis::inspected, Budget::whole);
  const Observation seen = again.describe();
  EXPECT_EQ(seen.inspected->setup, view.setup);
  EXPECT_EQ(probabilities(*seen.inspected, true), probabilities(view, true));
  ASSERT_TRUE(inspected.analysed.undo() && inspected.analysed.undo() && inspected.analysed.undo());
  EXPECT_FALSE(inspected.look().is_edited());
  EXPECT_EQ(inspected.seen.recipe, before);
  EXPECT_EQ(inspected.analysed.trainer().checksum(), checksum);
}

TEST(Pairs, HaveNeitherHeadsNorPowers) {
  const std::vector<InterventionTarget> layers{{2, "0 koopman_mlp", "layers.0.koopman_mlp", 1, 8, true},
                                               {3, "1 ska", "layers.1.ska", 2, 6}};
  const auto message = [](const Command& command, const std::vector<InterventionTarget>& targets) -> std::string {
    Interventions interventions;
    try {
      apply_intervention(interventions, command, targets);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message({"head_off", R"({"layer": 2})"_json}, layers), HasSubstr("3 (1 ska)"));
  EXPECT_THAT(message({"override", R"({"layer": 2, "key": "K", "to": 1})"_json}, layers), HasSubstr("no ska layer"));
  EXPECT_THAT(message({"drag_mode", R"({"layer": 1, "mode": 0, "re": 0.1})"_json}, layers),
              HasSubstr("2 (0 koopman_mlp), 3"));
  EXPECT_THAT(message({"drag_mode", R"({"layer": 2, "mode": 8, "re": 0.1})"_json}, layers), HasSubstr("mode"));
  EXPECT_THAT(message({"head_off"}, {layers[0]}), HasSubstr("no layer with heads"));
  Interventions interventions;
  apply_intervention(interventions, {"drag_mode", R"({"mode": 3, "re": 0.1})"_json}, {layers[0]});
  EXPECT_EQ(interventions.layers.count(2), 1u) << "where there is no ska, the Koopman MLP is meant";
}

}  // namespace
}  // namespace afterglow
