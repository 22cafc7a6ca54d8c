// Numbers of layers that are changed live: each one acts on what the layer computes, and the command line's way is that
// of the window's slider.
#include <gtest/gtest.h>

#include <cmath>

#include "core/engine/training/training_run.h"
#include "core/io/error.h"

namespace afterglow {
namespace {

struct LiveSetting {
  const char *preset, *key;
  double value;
};
void PrintTo(const LiveSetting& setting, std::ostream* out) { *out << setting.key; }

nlohmann::json small(const char* preset) {
  nlohmann::json json = nlohmann::json::parse(find_preset(preset).text);
  apply_assignment(json, "batch=2");
  apply_assignment(json, "evaluate_every=0");
  return json;
}

class LiveSettings : public testing::TestWithParam<LiveSetting> {};

TEST_P(LiveSettings, ActFromTheNextStepOn) {
  const auto [preset, key, value] = GetParam();
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  TrainingRun usual(parse_recipe(small(preset), preset), *backend),
      changed(parse_recipe(small(preset), preset), *backend);
  changed.set(key, value);
  EXPECT_EQ(changed.trainer().get(key), value);
  usual.train_step();
  changed.train_step();
  EXPECT_NE(changed.curves().loss.back(), usual.curves().loss.back());

  nlohmann::json assigned = small(preset);
  apply_assignment(assigned, std::string(key) + "=" + std::to_string(value));
  TrainingRun from_start(parse_recipe(assigned, preset), *backend);
  EXPECT_EQ(from_start.trainer().get(key), value) << "before any step, for who only looks";
  from_start.train_step();
  EXPECT_EQ(from_start.trainer().checksum(), changed.trainer().checksum());
}

INSTANTIATE_TEST_SUITE_P(All, LiveSettings,
                         testing::Values(LiveSetting{"sessa-mqar", "layers.0.sessa.gamma_max", 0.25},
                                         LiveSetting{"sessa-mqar", "layers.1.sessa.temperature", 4},
                                         LiveSetting{"sessa-mqar", "layers.0.sessa.feedback_temperature", 0.25},
                                         LiveSetting{"mqar-mamba2", "layers.0.mamba2.dt_floor", 0.5},
                                         LiveSetting{"ssm3", "layers.0.mamba3.dt_floor", 0.5},
                                         LiveSetting{"mqar-gka", "layers.0.gka.r", 2},
                                         LiveSetting{"mqar-gka", "layers.1.gka.a", 0.5},
                                         LiveSetting{"mqar-gka", "layers.0.gka.lambda", 2},
                                         LiveSetting{"mqar-gka", "layers.0.gka.gate_floor", 1},
                                         LiveSetting{"mqar-gka", "layers.0.gka.alpha", 0}));

TEST(LiveSettingsOfARecipe, RefuseWhatIsNotThere) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  nlohmann::json json = small("mqar-gka");
  EXPECT_THROW(apply_assignment(json, "layers.0.gka.r=many"), Error);
  apply_assignment(json, "layers.0.gka.speed=3");
  EXPECT_THROW(TrainingRun(parse_recipe(json, "gka"), *backend), Error);
}

TEST(LiveSettingsOfARecipe, StandBeforeLaterCommands) {
  nlohmann::json json = small("mqar-gka");
  json["commands"] = nlohmann::json::parse(R"([{"step": 5, "name": "set", "value": {"key": "clip", "to": 2}}])");
  apply_assignment(json, "layers.0.gka.r=7");
  const Recipe recipe = parse_recipe(json, "gka");
  ASSERT_EQ(recipe.commands.size(), 2u);
  EXPECT_EQ(recipe.commands[0].step, 0);
  EXPECT_EQ(recipe.commands[1].step, 5);
}

}  // namespace
}  // namespace afterglow
