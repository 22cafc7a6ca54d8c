// Recipes: defaults, round trips, messages, assignments, the schedule.
#include "core/recipe/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "core/io/error.h"
#include "tests/core/engine/small_recipe.h"

namespace afterglow {
namespace {

using testing::HasSubstr;

std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Recipe, RoundTripKeepsEverything) {
  Recipe recipe = small_recipe();
  recipe.commands.push_back({5, {"set", R"({"key":"learning_rate","to":0.001})"_json}});
  recipe.shown_step = 12;
  const nlohmann::json once = to_json(recipe);
  EXPECT_EQ(to_json(parse_recipe(once.dump(), "again")), once);
}

TEST(Recipe, EveryPresetParsesAndHasATitle) {
  ASSERT_GE(presets().size(), 6u);
  for (const Preset& preset : presets()) {
    const Recipe recipe = parse_recipe(preset.text, preset.name);
    EXPECT_EQ(recipe.name, preset.name);
    EXPECT_FALSE(recipe.title.empty());
  }
}

TEST(Recipe, UnknownPresetListsTheNames) {
  const std::string message = message_of([] { find_preset("tinny"); });
  EXPECT_THAT(message, HasSubstr("tinny"));
  EXPECT_THAT(message, HasSubstr("tiny-ssm"));
}

TEST(Recipe, MessagesNameTheField) {
  const auto with = [](const char* path, const nlohmann::json& value) {
    nlohmann::json json = small_recipe_json();
    json[nlohmann::json::json_pointer(path)] = value;
    return message_of([&] { parse_recipe(json, "r.json"); });
  };
  EXPECT_THAT(with("/training/batch", 0), HasSubstr("r.json.training.batch"));
  EXPECT_THAT(with("/training/batch", "many"), HasSubstr("r.json.training.batch"));
  EXPECT_THAT(with("/training/learning_rate", 5), HasSubstr("learning_rate"));
  EXPECT_THAT(with("/training/lerning_rate", 1e-3), HasSubstr("learning_rate"));
  EXPECT_THAT(with("/version", 2), HasSubstr("newer"));
  EXPECT_THAT(with("/seed", -1), HasSubstr("seed"));
  EXPECT_THAT(with("/commands", 3), HasSubstr("commands"));
  nlohmann::json json = small_recipe_json();
  json.erase("model");
  EXPECT_THAT(message_of([&] { parse_recipe(json, "r.json"); }), HasSubstr("model"));
}

TEST(Recipe, NamesThatCannotBeginAFilesNameAreRefused) {
  const auto named = [](const std::string& name) {
    nlohmann::json json = small_recipe_json();
    json["name"] = name;
    return message_of([&] { parse_recipe(json.dump(), "r.json"); });
  };
  const std::string bad[] = {"",
                             "../../X",
                             "/abs/X",
                             "a/b",
                             ".hidden",
                             "..",
                             "new\nline",
                             "\x1b[2J",
                             "\x7f",
                             "\u009b31m",
                             std::string(101, 'x'),
                             std::string("/tmp/X\0", 7)};
  for (const std::string& name : bad) {
    const std::string message = named(name);
    EXPECT_THAT(message, testing::StartsWith("r.json.name: ")) << name;
    EXPECT_THAT(message, HasSubstr("choose a name")) << name;
    EXPECT_LT(message.size(), 400u) << name;
    for (const char c : message) EXPECT_GE(static_cast<unsigned char>(c), 0x20) << "no control character is printed";
  }
  for (const std::string& name : {std::string("tiny"), std::string("d = 16, λ.2"), std::string(100, 'x')})
    EXPECT_EQ(named(name), "no error") << name;
}

TEST(Recipe, CommandsMustBeInOrder) {
  nlohmann::json json = small_recipe_json();
  json["commands"] = {{{"step", 9}, {"name", "set"}, {"value", {{"key", "clip"}, {"to", 2}}}},
                      {{"step", 3}, {"name", "pause"}}};
  EXPECT_THAT(message_of([&] { parse_recipe(json, "r"); }), HasSubstr("order"));
}

TEST(Recipe, AssignmentsReachEveryPart) {
  nlohmann::json json = to_json(small_recipe());
  apply_assignment(json, "learning_rate=1e-2");
  apply_assignment(json, "task.bindings=3");
  apply_assignment(json, "model.blocks.1.mixer.K=4");
  apply_assignment(json, "seed=11");
  const Recipe recipe = parse_recipe(json, "r");
  EXPECT_DOUBLE_EQ(recipe.training.learning_rate, 1e-2);
  EXPECT_EQ(recipe.task["bindings"], 3);
  EXPECT_EQ(recipe.model["blocks"][1]["mixer"]["K"], 4);
  EXPECT_EQ(recipe.seed, 11u);
  EXPECT_THROW(apply_assignment(json, "nonsense"), Error);
  EXPECT_THROW(apply_assignment(json, "model.blocks.9.mixer.K=4"), Error);
  EXPECT_THROW(apply_assignment(json, "nowhere.to.be=1"), Error);
  EXPECT_THROW(apply_assignment(json, "model.blocks.99999999999999999999999.mixer.K=4"), Error);
  EXPECT_THROW(apply_assignment(json, "title=caf\xe9"), Error);
}

TEST(Recipe, RunsAreTheSameUntilAChangeThatOnlyOneOfThemMakes) {
  constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
  const Recipe plain = small_recipe();
  const auto with = [](std::vector<TimedCommand> commands) {
    Recipe recipe = small_recipe();
    recipe.commands = std::move(commands);
    return recipe;
  };
  const TimedCommand early{5, {"set", R"({"key":"clip","to":2})"_json}},
      late{9, {"set", R"({"key":"clip","to":3})"_json}}, other{9, {"set", R"({"key":"clip","to":4})"_json}};
  EXPECT_EQ(common_step(plain, plain), never);
  EXPECT_EQ(common_step(plain, with({early})), 5);
  EXPECT_EQ(common_step(with({early, late}), with({early})), 9);
  EXPECT_EQ(common_step(with({early, late}), with({early, other})), 9);
  EXPECT_EQ(common_step(with({{0, {"influence"}}}), plain), never) << "it changes no number";
  Recipe seed = plain, shown = plain;
  seed.seed = 99;
  shown.shown_step = 12;
  EXPECT_EQ(common_step(plain, seed), -1);
  EXPECT_EQ(common_step(plain, shown), never);
  Recipe reworded = plain;
  reworded.title = "Other words";
  reworded.about = "They change no number.";
  EXPECT_EQ(common_step(plain, reworded), never);
}

TEST(Schedule, WarmsUpAndEndsAtTheFinalRate) {
  TrainingConfig config;
  config.learning_rate = 2.0;
  config.warmup = 10;
  config.steps = 110;
  config.final_rate = 0.1;
  EXPECT_DOUBLE_EQ(config.rate_at(1), 0.2);
  EXPECT_DOUBLE_EQ(config.rate_at(10), 2.0);
  EXPECT_NEAR(config.rate_at(60), 2.0 * 0.55, 1e-12);
  EXPECT_NEAR(config.rate_at(110), 0.2, 1e-12);
  EXPECT_NEAR(config.rate_at(500), 0.2, 1e-12);
}

TEST(Schedule, HalvesInPlaceOfTheCosineAndLeavesOtherRecipesAsTheyWere) {
  Recipe recipe = parse_recipe(nlohmann::json::parse(find_preset("tiny").text), "preset");
  EXPECT_FALSE(to_json(recipe)["training"].contains("halve_every")) << "finished runs are found by their recipes";
  recipe.training.halve_every = 100;
  recipe.training.warmup = 0;
  const TrainingConfig read = parse_recipe(to_json(recipe), "recipe").training;
  EXPECT_EQ(read.rate_at(1), read.learning_rate);
  EXPECT_EQ(read.rate_at(100), read.learning_rate);
  EXPECT_EQ(read.rate_at(101), read.learning_rate / 2);
  EXPECT_EQ(read.rate_at(301), read.learning_rate / 8);
}

TEST(Commands, EveryOneIsReadFromItsOwnExampleAndWrittenAsThat) {
  for (const CommandSpec& spec : command_table()) {
    const nlohmann::json written{{"name", spec.name}, {"value", nlohmann::json::parse(spec.example)}};
    const Command command = parse_command(written);
    EXPECT_EQ(command.name, spec.name);
    EXPECT_EQ(to_json(command).dump(), written.dump());
    EXPECT_FALSE(spec.title.empty());
    EXPECT_FALSE(spec.meaning.empty());
  }
  EXPECT_THROW(parse_command({{"name", "no_such_thing"}}), Error);
  EXPECT_THROW(parse_command(3), Error);
}

TEST(Commands, AWrongValueIsNamedWithItsCommandAndField) {
  const auto refusal = [](const auto& work) {
    try {
      work();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_input);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal([] { parse_command({{"name", "step"}, {"value", 5}}); }), "step takes an object, not 5");
  EXPECT_EQ(parse_command({{"name", "step"}, {"value", nullptr}}), Command("step"));
  EXPECT_THAT(refusal([] {
                SetNumber::of({"set", {{"key", "clip"}, {"to", "much"}}});
              }),
              testing::AllOf(testing::HasSubstr("set"), testing::HasSubstr("to")));
  EXPECT_THAT(refusal([] { SetNumber::of({"set", {{"to", 1}}}); }), testing::HasSubstr("key"));
  const Command live = SetNumber{"clip", 0.5, true};
  EXPECT_EQ(to_json(live).dump(), R"({"name":"set","value":{"key":"clip","live":true,"to":0.5}})");
  EXPECT_EQ(Command(SetNumber::of(live)), live);
  EXPECT_FALSE(Command(SetNumber{"clip", 0.5}).value.contains("live")) << "recipes hold it so";
}

}  // namespace
}  // namespace afterglow
