// Influence through the tape: Jacobian norms against finite differences and a known kernel, the laboratory against a
// training that goes on, and the race against single runs.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/analysis/linear_algebra/spectrum.h"
#include "core/engine/analyses/influence/influence_measurement.h"
#include "core/engine/analyses/influence/jacobian_measure.h"
#include "core/engine/analyses/race/layer_race.h"
#include "core/engine/session/analysed_run.h"
#include "core/io/error.h"
#include "core/layers/host_values.h"
#include "core/ops/ops.h"
#include "core/random/random.h"
#include "tests/core/engine/small_recipe.h"

namespace afterglow {
namespace {

constexpr int width = 16, tokens = 9;

/// A layer of a kind in float64 with its initial weights; projections that start at zero are drawn.
struct LoneLayer {
  explicit LoneLayer(const std::string& kind) : backend(make_cpu_backend(1)), arena(*backend), tape(*backend, arena) {
    layer = make_layer(kind, small_layer_config(*find_layer_kind(kind), width), ParameterScope(store, kind));
    if (kind == "gka") layer->set("r", 200);  // its gradient is that of the solution, so the iteration has to reach it
    store.allocate_values(*backend, DType::f64);
    store.initialise(5);
    for (const Parameter& parameter : store.all()) {
      std::vector<double> values = store.download(parameter.value);
      if (std::any_of(values.begin(), values.end(), [](double v) { return v != 0; })) continue;
      Random random(5, 0, static_cast<std::uint64_t>(parameter.index));
      for (double& v : values) v = 0.3 * random.normal();
      store.upload(parameter, values);
    }
    Random random(3);
    for (int i = 0; i < tokens * width; ++i) input.push_back(random.normal());
  }
  SequenceMap map() {
    return [this](Tape& on, const Var& x, const Tensor& mask) { return layer->forward(on, x, mask); };
  }
  std::vector<double> answer(const std::vector<double>& x) {
    tape.begin(false);
    const Var in = tape.constant(to_device(tape, {1, tokens, width}, DType::f64, x));
    return to_host(*backend, layer->forward(tape, in, {}).value);
  }
  std::vector<NormEstimate> norms(const JacobianPlan& plan) {
    JacobianMeasure measure(tape, DType::f64, input, std::vector<std::uint8_t>(tokens, 1), map(), plan);
    while (measure.advance()) {
    }
    return measure.norms();
  }
  std::unique_ptr<Backend> backend;
  ParameterStore store;
  Arena arena;
  Tape tape;
  std::unique_ptr<Layer> layer;
  std::vector<double> input;
};

std::vector<std::string> racing_kinds() {
  std::vector<std::string> kinds;
  for (const LayerKind& kind : layer_kinds()) {
    if (kind.mixes_tokens) kinds.push_back(kind.name);
  }
  return kinds;
}

/// A short convolution of three taps reads this token and the two before it, and nothing older.
bool reaches(const std::string& kind, int lag) { return kind != "short_conv" || lag < 3; }

class InfluenceOfLayer : public testing::TestWithParam<std::string> {};

TEST_P(InfluenceOfLayer, IsTheNormOfFiniteDifferences) {
  LoneLayer lone(GetParam());
  JacobianPlan plan;
  plan.blocks = {{8, 0}, {3, 1}, {8, 7}, {4, 4}};
  plan.directions = width;
  plan.tokens_at_once = 64;
  plan.causal = lone.layer->is_causal();
  const std::vector<NormEstimate> norms = lone.norms(plan);
  constexpr double h = 1e-5;
  for (std::size_t i = 0; i < plan.blocks.size(); ++i) {
    const auto [query, source] = plan.blocks[i];
    std::vector<double> J(width * width);
    for (int c = 0; c < width; ++c) {
      std::vector<double> up = lone.input, down = lone.input;
      up[static_cast<std::size_t>(source * width + c)] += h;
      down[static_cast<std::size_t>(source * width + c)] -= h;
      const std::vector<double> after = lone.answer(up), before = lone.answer(down);
      for (int r = 0; r < width; ++r) {
        const auto at = static_cast<std::size_t>(query * width + r);
        J[static_cast<std::size_t>(r * width + c)] = (after[at] - before[at]) / (2 * h);
      }
    }
    const double expected = spectral_norm(J, width, width);
    EXPECT_EQ(expected > 0, reaches(GetParam(), static_cast<int>(query - source))) << "block " << i;
    EXPECT_NEAR(norms[i].value, expected, 1e-6 * (expected + 1e-3)) << "block " << i;
    EXPECT_EQ(norms[i].low, norms[i].high);
  }
}

TEST_P(InfluenceOfLayer, DoesNotDependOnLaterTokensWhereItSaysSo) {
  LoneLayer lone(GetParam());
  if (!lone.layer->is_causal()) GTEST_SKIP() << "sees the future";
  JacobianPlan plan;
  plan.blocks = {{5, 0}, {2, 2}, {6, 3}};
  plan.directions = width;
  const std::vector<NormEstimate> cut = lone.norms(plan);
  plan.causal = false;
  const std::vector<NormEstimate> whole = lone.norms(plan);
  for (std::size_t i = 0; i < cut.size(); ++i) EXPECT_NEAR(cut[i].value, whole[i].value, 1e-9 * whole[i].value);
}

INSTANTIATE_TEST_SUITE_P(Kinds, InfluenceOfLayer, testing::ValuesIn(racing_kinds()),
                         [](const auto& test) { return test.param; });

// y_t = sum_s exp(-rate (t - s)) x_s for every channel: the Jacobian block is that factor times the identity.
TEST(Influence, OfALinearLayerIsItsKernel) {
  constexpr int T = 60;
  constexpr double rate = 0.2;
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  Arena arena(*backend);
  Tape tape(*backend, arena);
  const SequenceMap kernel = [](Tape& on, const Var& x, const Tensor&) {
    const std::int64_t B = x.shape()[0], length = x.shape()[1];
    const std::vector<double> ones(static_cast<std::size_t>(B * length), 1.0);
    ScanVars scan;
    scan.x = x;
    scan.dt = on.constant(to_device(on, {B, length, 1}, DType::f64, ones));
    scan.B = scan.C = scan.dt;
    scan.A_log = on.constant(to_device(on, {1}, DType::f64, std::vector<double>{std::log(rate)}));
    scan.heads = scan.groups = 1;
    return on.reshape(ssd_scan(on, scan, {}, false), x.shape());
  };
  JacobianPlan plan;
  plan.blocks = influence_blocks(std::vector<int>{2}, T, 8);
  plan.directions = 4;
  JacobianMeasure measure(tape, DType::f64, std::vector<double>(T * 4, 1.0), std::vector<std::uint8_t>(T, 1), kernel,
                          plan);
  while (measure.advance()) {
  }
  InfluenceTail tail;
  fill_tail(tail, plan.blocks, measure.norms());
  EXPECT_EQ(tail.lags.front(), 1);
  EXPECT_EQ(tail.lags.back(), T - 3);
  for (std::size_t i = 0; i < tail.lags.size(); ++i) EXPECT_NEAR(tail.values[i], std::exp(-rate * tail.lags[i]), 1e-12);
  EXPECT_EQ(tail.fit.law, InfluenceLaw::exponential);
  EXPECT_NEAR(tail.fit.half_life, std::log(2.0) / rate, 1e-6);
  EXPECT_NEAR(tail.one_percent_lag / (1 + std::log(100.0) / rate), 1, 0.01);
}

TEST(Influence, SketchesLieAroundTheExactNorm) {
  LoneLayer lone("mamba2");
  JacobianPlan plan;
  plan.blocks = {{8, 0}, {6, 1}, {8, 5}};
  plan.directions = width;
  const std::vector<NormEstimate> exact = lone.norms(plan);
  plan.directions = 8;
  std::vector<double> mean_log(3);
  constexpr int draws = 40;
  for (int draw = 0; draw < draws; ++draw) {
    plan.seed = static_cast<std::uint64_t>(draw);
    const std::vector<NormEstimate> sketch = lone.norms(plan);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_LT(sketch[i].low, sketch[i].high);
      mean_log[i] += std::log(sketch[i].value / exact[i].value) / draws;
    }
  }
  for (const double error : mean_log) EXPECT_NEAR(error, 0, 0.3);
}

TEST(Influence, BoundsOfATailHoldTheExactNorms) {
  LoneLayer lone("attention");
  JacobianPlan plan;
  plan.blocks = influence_blocks(std::vector<int>{0, 1, 2}, tokens, 8);
  plan.directions = width;
  InfluenceTail exact, sketched;
  fill_tail(exact, plan.blocks, lone.norms(plan));
  EXPECT_TRUE(exact.low.empty()) << "exact norms have no error";
  plan.directions = 4;
  int held = 0, all = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    plan.seed = seed;
    fill_tail(sketched, plan.blocks, lone.norms(plan));
    ASSERT_EQ(sketched.low.size(), exact.values.size());
    for (std::size_t i = 0; i < exact.values.size(); ++i, ++all)
      held += sketched.low[i] <= exact.values[i] && exact.values[i] <= sketched.high[i];
  }
  EXPECT_GE(held, 0.95 * all) << held << " of " << all;
}

InfluenceConfig small_config() {
  InfluenceConfig config;
  config.tokens = 40;
  config.race.tokens = 24;
  config.race.source = 2;
  return config;
}

void measure_all(InfluenceMeasurement& lab) {
  lab.begin(0);
  while (lab.advance()) {
  }
}

TEST(InfluenceMeasurement, BelongsToTheStepAtWhichItBeganAndChangesNothing) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  Trainer alone(small_recipe(), *backend), analysed(small_recipe(), *backend), resting(small_recipe(), *backend);
  InfluenceMeasurement lab(small_recipe().model, analysed), still(small_recipe().model, resting);
  lab.config = still.config = small_config();
  for (int i = 0; i < 6; ++i) alone.step();
  for (int i = 0; i < 3; ++i) resting.step();
  measure_all(still);
  for (int i = 0; i < 3; ++i) analysed.step();
  lab.begin(0);
  for (int i = 0; i < 3; ++i) {
    lab.advance();
    analysed.step();
  }
  while (lab.advance()) {
  }
  EXPECT_EQ(analysed.checksum(), alone.checksum());
  const auto seen = lab.newest(), expected = still.newest();
  ASSERT_TRUE(seen && expected);
  EXPECT_EQ(seen->step, 3);
  ASSERT_EQ(seen->blocks.size(), 3u) << "two mixers and the stack";
  EXPECT_EQ(seen->blocks[0].kind, "mamba2");
  EXPECT_EQ(seen->blocks[1].kind, "ska");
  EXPECT_EQ(seen->blocks[2].label, "whole stack");
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(seen->blocks[i].values, expected->blocks[i].values);
  ASSERT_EQ(seen->fixed.size(), 2u);
  ASSERT_EQ(seen->routing.size(), 2u);
  EXPECT_EQ(seen->routing[0].decay.size(), 40u);
  EXPECT_GT(seen->routing[0].mean_rate, 0);
  EXPECT_GT(seen->routing[0].mean_step, 0);
  EXPECT_TRUE(seen->routing[1].decay.empty());
}

TEST(InfluenceMeasurement, ReadsAFeedbackHopByHop) {
  nlohmann::json json = small_recipe_json();
  json["model"]["blocks"] = nlohmann::json::array({{{"mixer", {{"kind", "sessa"}, {"n_heads", 2}}}}});
  const Recipe recipe = parse_recipe(json, "sessa");
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  Trainer trainer(recipe, *backend);
  InfluenceMeasurement lab(recipe.model, trainer);
  lab.config = small_config();
  measure_all(lab);
  const InfluenceView& view = *lab.newest();
  ASSERT_EQ(view.routing.size(), 1u);
  const RoutingView& routing = view.routing[0];
  const auto T = static_cast<std::size_t>(routing.tokens);
  ASSERT_EQ(T, 40u);
  double mass = 0;
  for (const double m : routing.hop_masses) mass += m;
  EXPECT_NEAR(mass, routing.position_code.back(), 1e-9) << "hops add to the feedback's answer";
  ASSERT_EQ(routing.hop_profiles.size(), 5u);
  for (std::size_t t = 1; t < T; ++t) {
    EXPECT_NEAR(routing.hop_profiles[0][t], routing.gain[t] * static_cast<double>(routing.feedback[t * T]), 1e-6);
    EXPECT_NEAR(routing.hop_profiles[4][t], static_cast<double>(routing.resolvent[t * T]), 1e-6);
  }
  EXPECT_EQ(routing.hop_profiles[2][2], 0) << "three hops take three tokens";
  ASSERT_EQ(view.fixed.size(), 2u);
  EXPECT_FALSE(view.fixed[0].is_resolvent);
  EXPECT_TRUE(view.fixed[1].is_resolvent);
  EXPECT_EQ(view.fixed[1].label, "0 sessa, feedback alone");
  EXPECT_EQ(routing.mean_step, 0) << "there is no time step";
  ASSERT_TRUE(view.deep);
  EXPECT_EQ(view.deep->size(), 6u);
}

TEST(InfluenceMeasurement, ShowsTheFirstMeasurementAsItComes) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  Trainer trainer(small_recipe(), *backend);
  InfluenceMeasurement lab(small_recipe().model, trainer);
  lab.config = small_config();
  lab.begin(0);
  ASSERT_TRUE(lab.newest());
  EXPECT_FALSE(lab.newest()->fixed.empty()) << "one forward pass tells what the layers route";
  EXPECT_TRUE(lab.newest()->blocks.empty());
  EXPECT_FALSE(lab.newest()->is_complete);
  std::size_t blocks = 0;
  while (lab.advance()) {
    EXPECT_FALSE(lab.newest()->is_complete);
    EXPECT_GE(lab.newest()->blocks.size(), blocks);
    blocks = lab.newest()->blocks.size();
  }
  EXPECT_EQ(blocks, 3u) << "every tail was there before the last measurement had ended";
  EXPECT_TRUE(lab.newest()->is_complete);
  const auto first = lab.newest();
  lab.begin(1);
  lab.advance();
  EXPECT_EQ(lab.newest(), first) << "later the last complete one stays until the next is";
}

TEST(InfluenceMeasurement, FindsAZeroProjectionSilent) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  Trainer trainer(small_recipe(), *backend);
  InfluenceMeasurement lab(small_recipe().model, trainer);
  lab.config = small_config();
  measure_all(lab);
  EXPECT_FALSE(lab.newest()->blocks[0].is_silent);
  EXPECT_TRUE(lab.newest()->blocks[1].is_silent) << "ska starts with o_proj = 0";
  EXPECT_FALSE(lab.newest()->blocks[2].is_silent);
}

TEST(WatchedInfluence, SettingsAreInTheRecipeAndUndoKeepsThem) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  AnalysedRun analysed({small_recipe(), std::nullopt}, *backend);
  analysed.train_step();
  analysed.set("learning_rate", 1e-4);
  analysed.choose("influence",
                  nlohmann::json::parse(R"({"tokens": 40, "race": {"tokens": 24, "source": 3, "kinds": ["mamba2"]}})"));
  analysed.choose("influence", nlohmann::json::parse(R"({"source": 5})"));
  EXPECT_TRUE(analysed.undo());
  EXPECT_FALSE(analysed.undo()) << "measuring is no change of the run";
  const std::string checksum = analysed.trainer().checksum();
  analysed.advance(Analysis::influence, Budget::whole);
  EXPECT_TRUE(analysed.is_current(Analysis::influence));
  EXPECT_EQ(analysed.trainer().checksum(), checksum);
  AnalysedRun again({parse_recipe(to_json(analysed.recipe()), "recipe"), std::nullopt}, *backend);
  again.go_to(1);
  EXPECT_EQ(again.trainer().checksum(), checksum);
  for (AnalysedRun* run : {&analysed, &again}) run->advance(Analysis::race, Budget::whole);
  again.advance(Analysis::influence, Budget::whole);
  const auto first = analysed.describe().influence, second = again.describe().influence;
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->tokens, 40);
  EXPECT_EQ(first->sources, std::vector<int>{5});
  const auto race = analysed.describe().race, second_race = again.describe().race;
  ASSERT_TRUE(race && second_race);
  EXPECT_EQ(race->source, 3);
  ASSERT_EQ(race->entries.size(), 3u) << "mamba2 from the start, and both mixers of the model as trained";
  for (std::size_t i = 0; i < first->blocks.size(); ++i) EXPECT_EQ(first->blocks[i].values, second->blocks[i].values);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(race->entries[i].tail.values, second_race->entries[i].tail.values);
  analysed.train_step();
  EXPECT_FALSE(analysed.is_current(Analysis::influence));
}

TEST(WatchedInfluence, IsAwaitedUntilWhatWasAskedForHasBeenSeen) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  AnalysedRun analysed({parse_recipe(quickly_measured_recipe_json(), "quick"), std::nullopt}, *backend);
  EXPECT_TRUE(analysed.state(Analysis::influence).is_urgent);
  analysed.advance(Analysis::influence, Budget::whole);
  EXPECT_FALSE(analysed.state(Analysis::influence).is_urgent);
  analysed.train_step();
  analysed.advance(Analysis::influence);
  EXPECT_FALSE(analysed.state(Analysis::influence).is_urgent) << "the same of a later moment has time";
  analysed.choose("influence", nlohmann::json::parse(R"({"source": 5})"));
  EXPECT_TRUE(analysed.state(Analysis::influence).is_urgent);
  analysed.advance(Analysis::influence, Budget::whole);
  EXPECT_FALSE(analysed.state(Analysis::influence).is_urgent);
}

TEST(WatchedInfluence, RefusesWhatMakesNoSense) {
  for (const char* text : {R"({"tokens": 1})", R"({"source": 256})", R"({"speed": 1})",
                           R"({"race": {"kinds": ["swiglu"]}})", R"({"race": {"source": 511}})"}) {
    EXPECT_THROW(parse_influence(nlohmann::json::parse(text), {}), Error) << text;
  }
}

TEST(LayerRace, StartsWithSixKindsThatSpanTheWaysToRemember) {
  EXPECT_EQ(RaceConfig().kinds, (std::vector<std::string>{"ska", "sessa", "gka", "mamba2", "deltanet", "attention"}));
}

/// A race on a tape of its own.
struct LoneRace {
  LoneRace() : backend(make_cpu_backend(1)), arena(*backend), tape(*backend, arena) {}
  RaceView run(const std::vector<std::string>& kinds) {
    race.enter_initial(kinds);
    while (race.advance()) {
    }
    return race.view();
  }
  std::unique_ptr<Backend> backend;
  Arena arena;
  Tape tape;
  LayerRace race{small_config().race, 32, 7, tape, DType::f32};
};

TEST(LayerRace, AStateIsShownAsItIsAfterTheLastToken) {
  const RaceEntry entry = LoneRace().run({"mamba2"}).entries.front();
  // Four heads of width 16 with 16 states: 64 rows in 48, where a row that stands for two shows the larger number.
  EXPECT_EQ(entry.state_name, "state · 64 × 16");
  EXPECT_EQ(entry.state_rows, 48);
  EXPECT_EQ(entry.state_columns, 16);
}

TEST(LayerRace, EveryColumnIsItsOwnRun) {
  const RaceConfig config = small_config().race;
  const RaceView all = LoneRace().run({});
  ASSERT_EQ(all.entries.size(), racing_kinds().size());
  for (const RaceEntry& entry : all.entries) {
    const RaceView alone = LoneRace().run({entry.tail.kind});
    ASSERT_EQ(alone.entries.size(), 1u);
    const RaceEntry& own = alone.entries[0];
    EXPECT_EQ(own.tail.values, entry.tail.values) << entry.tail.kind;
    EXPECT_EQ(own.recall, entry.recall) << entry.tail.kind;
    EXPECT_EQ(own.state, entry.state) << entry.tail.kind;
    EXPECT_FALSE(entry.tail.is_silent) << entry.tail.kind;
    EXPECT_GT(entry.state_bytes, 0) << entry.tail.kind;
    EXPECT_GT(entry.step_ms, 0) << entry.tail.kind;
    EXPECT_EQ(entry.weights, "initial");
    ASSERT_EQ(entry.recall.size(), entry.recall_lags.size());
    EXPECT_GE(entry.recall_lags.front(), 4);
    EXPECT_EQ(entry.recall_lags.back(), config.tokens - 1 - 3) << "a phrase of four ends at token 3 at the earliest";
    EXPECT_EQ(entry.recall.front() > 0.5, reaches(entry.tail.kind, entry.recall_lags.front()))
        << entry.tail.kind << " has forgotten what it heard six tokens ago";
    for (const double share : entry.recall) EXPECT_TRUE(share >= 0 && share <= 1) << entry.tail.kind;
    EXPECT_EQ(entry.state.size(), static_cast<std::size_t>(entry.state_rows * entry.state_columns));
    EXPECT_TRUE(std::any_of(entry.state.begin(), entry.state.end(), [](float v) { return v != 0; })) << entry.tail.kind;
    EXPECT_FALSE(entry.state_name.empty());
  }
  EXPECT_EQ(all.kinds, racing_kinds());
  for (std::size_t i = 1; i < all.entries.size(); ++i)
    EXPECT_GE(all.entries[i - 1].tail.one_percent_lag, all.entries[i].tail.one_percent_lag);
}

TEST(LayerRace, WhoJoinsLaterRunsAloneAndTheOthersStay) {
  LoneRace lone;
  const RaceEntry first = lone.run({"mamba2"}).entries.front();
  const RaceView both = lone.run({"mamba2", "attention"});
  ASSERT_EQ(both.entries.size(), 2u);
  const std::size_t place = both.entries[0].tail.kind == "attention" ? 0 : 1;
  EXPECT_EQ(both.entries[1 - place].step_ms, first.step_ms) << "measured once";
  const RaceEntry alone = LoneRace().run({"attention"}).entries.front();
  EXPECT_EQ(both.entries[place].tail.values, alone.tail.values);
  EXPECT_EQ(both.entries[place].recall, alone.recall);
  lone.race.enter_initial({"attention"});
  EXPECT_FALSE(lone.race.advance()) << "who drops out leaves nothing to do";
  EXPECT_EQ(lone.race.view().entries.size(), 1u);
}

TEST(LayerRace, EveryColumnIsThereBeforeTheFirstRecall) {
  LoneRace lone;
  lone.race.enter_initial({"mamba2", "attention", "gla"});
  std::size_t columns = 0;
  while (lone.race.advance()) {
    const int revision = lone.race.revision();
    const RaceView view = lone.race.view();
    EXPECT_GE(view.entries.size(), columns);
    columns = view.entries.size();
    for (const RaceEntry& entry : view.entries) {
      EXPECT_GT(entry.step_ms, 0);
      EXPECT_EQ(entry.recall.size(), entry.recall_lags.size());
      EXPECT_TRUE(columns == 3 || entry.recall.empty());
    }
    EXPECT_EQ(lone.race.revision(), revision);
  }
  EXPECT_EQ(columns, 3u);
}

TEST(LayerRace, APassTakesNoMoreMemoryThanItMay) {
  PassSize size(32768);
  EXPECT_EQ(size.tokens(), 1024) << "what a token takes is not known yet";
  size.note(1000, std::size_t{1000} << 10);
  EXPECT_EQ(size.tokens(), 32768) << "as many as keep the device busy";
  size.note(1000, std::size_t{1000} << 20);
  EXPECT_EQ(size.tokens(), 256) << "256 MiB, a MiB each";
  EXPECT_EQ(PassSize(512).tokens(), 512);
  EXPECT_EQ(PassSize(32768, 32).tokens(), 32) << "a whole stack takes as much memory as all its branches";
}

TEST(RaceMeasurement, OtherLayersAreShownAsTheyArriveAndTheSameOnesWhenAllHave) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  Trainer trainer(small_recipe(), *backend);
  RaceMeasurement measurement(small_recipe().model, trainer);
  RaceConfig config = small_config().race;
  config.kinds = {"mamba2"};
  const auto run_all = [&] {
    measurement.begin(config);
    while (measurement.advance()) {
    }
  };
  run_all();
  ASSERT_TRUE(measurement.newest());
  EXPECT_TRUE(measurement.newest()->is_complete);
  EXPECT_EQ(measurement.newest()->entries.size(), 1u);

  config.kinds = {"mamba2", "attention", "gla"};
  measurement.begin(config);
  while (measurement.newest()->entries.size() < 2 && measurement.advance()) {
  }
  EXPECT_FALSE(measurement.newest()->is_complete);
  EXPECT_EQ(measurement.newest()->entries.size(), 2u);
  EXPECT_EQ(measurement.newest()->contestants, 3);
  while (measurement.advance()) {
  }
  EXPECT_TRUE(measurement.newest()->is_complete);
  EXPECT_EQ(measurement.newest()->entries.size(), 3u);

  trainer.step();
  const auto before = measurement.newest();
  measurement.begin(config);
  measurement.advance();
  EXPECT_EQ(measurement.newest(), before) << "the last complete race stays until the next one is";
  while (measurement.advance()) {
  }
  EXPECT_EQ(measurement.newest()->step, 1);
  EXPECT_EQ(measurement.newest()->entries.size(), 5u) << "three at the start, both mixers of the model as trained";
}

TEST(WatchedInfluence, OnlyWhatIsAskedAnewIsMeasuredAnew) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  AnalysedRun analysed({parse_recipe(quickly_measured_recipe_json(), "quick"), std::nullopt}, *backend);
  analysed.advance(Analysis::influence, Budget::whole);
  analysed.advance(Analysis::race, Budget::whole);
  analysed.choose("influence", nlohmann::json::parse(R"({"race": {"kinds": ["gla"]}})"));
  EXPECT_TRUE(analysed.is_current(Analysis::influence));
  EXPECT_FALSE(analysed.is_current(Analysis::race));
  analysed.advance(Analysis::race, Budget::whole);
  analysed.choose("influence", nlohmann::json::parse(R"({"source": 5})"));
  EXPECT_FALSE(analysed.is_current(Analysis::influence));
  EXPECT_TRUE(analysed.is_current(Analysis::race));
}

}  // namespace
}  // namespace afterglow
