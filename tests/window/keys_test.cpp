// Keys and scripts: every chord of the table leads to its command.
#include "app/window/keys.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "app/window/script.h"
#include "core/io/error.h"

namespace afterglow {
namespace {

TEST(Keys, ChordsAreRead) {
  EXPECT_EQ(parse_chord("Space"), (Chord{false, false, false, "Space"}));
  EXPECT_EQ(parse_chord("Ctrl+Shift+R"), (Chord{true, true, false, "R"}));
  EXPECT_EQ(parse_chord("Ctrl++"), (Chord{true, false, false, "+"}));
  EXPECT_EQ(parse_chord("+"), (Chord{false, false, false, "+"}));
  EXPECT_FALSE(parse_chord(""));
  EXPECT_FALSE(parse_chord("Ctrl+"));
  EXPECT_FALSE(parse_chord("Hyper+X"));
}

TEST(Keys, EveryKeyOfTheTableLeadsToItsCommandAndNoKeyTwice) {
  std::vector<Chord> seen;
  for (const CommandSpec& spec : command_table()) {
    for (const Chord& chord : chords_of(spec)) {
      EXPECT_EQ(std::count(seen.begin(), seen.end(), chord), 0) << spec.keys;
      seen.push_back(chord);
      const auto command = command_for(chord);
      ASSERT_TRUE(command) << spec.keys;
      EXPECT_EQ(command->name, spec.name);
    }
    EXPECT_EQ(chords_of(spec).empty(), spec.keys.empty()) << spec.keys;
  }
}

TEST(Keys, SomeCarryAValue) {
  EXPECT_EQ(command_for({false, true, false, "Left"})->value, R"({"count": 10})"_json);
  EXPECT_EQ(command_for({true, false, false, "0"})->value, R"({"to": 1.0})"_json);
  EXPECT_EQ(command_for({false, true, false, "X"})->value, R"({"axis": "x"})"_json);
  EXPECT_EQ(command_for({false, false, false, "Left"})->value, "{}"_json);
  EXPECT_FALSE(command_for({false, false, false, "Q"}));
}

TEST(Keys, TypingIsNotInterrupted) {
  EXPECT_FALSE(acts_while_typing({false, false, false, "B"}));
  EXPECT_FALSE(acts_while_typing({false, false, false, "F"}));
  EXPECT_FALSE(acts_while_typing({true, false, false, "Z"}));
  EXPECT_TRUE(acts_while_typing({true, false, false, "P"}));
  EXPECT_TRUE(acts_while_typing({false, false, false, "F1"}));
}

struct ScriptTest : testing::Test {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("afterglow_script_" + std::to_string(::getpid()) + ".json");
  ~ScriptTest() override { std::filesystem::remove(path); }
  Script read(const std::string& text) {
    std::ofstream(path) << text;
    return Script(path.string());
  }
};

TEST_F(ScriptTest, CommandsComeInOrderWhenTheyAreDue) {
  Script script = read(
      R"({"commands": [{"name": "pause", "step": 20}, {"name": "theme", "value": {"name": "light"}, "frame": 5}, {"name": "quit", "time": 2}]})");
  EXPECT_TRUE(script.due(100, 100, 19).empty()) << "later commands wait for earlier ones";
  const auto first = script.due(3, 1, 20);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].name, "pause");
  EXPECT_EQ(script.due(5, 2, 20).size(), 2u);
  EXPECT_TRUE(script.is_done());
}

TEST_F(ScriptTest, APictureShowsItsFrameAndNothingOfWhatComesBehindIt) {
  Script script =
      read(R"([{"name": "pause"}, {"name": "screenshot", "value": {"path": "a.png"}}, {"name": "restore"}])");
  EXPECT_EQ(script.due(1, 1, 1).size(), 2u);
  EXPECT_FALSE(script.is_done());
  const auto next = script.due(2, 1, 1);
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0].name, "restore");
}

TEST_F(ScriptTest, CountsFramesOnlyWhileItsNextCommandNamesOneToCome) {
  Script script = read(R"([{"name": "run", "frame": 2}, {"name": "pause", "time": 3}])");
  EXPECT_TRUE(script.counts_frames(0));
  EXPECT_FALSE(script.counts_frames(2));
  script.due(2, 0, 0);
  EXPECT_FALSE(script.counts_frames(0)) << "a time is waited for without drawing";
  script.due(2, 3, 0);
  EXPECT_TRUE(script.is_done());
  EXPECT_FALSE(script.counts_frames(0));
}

TEST_F(ScriptTest, AwaitsTrainingOnlyWhileItsNextCommandNamesAStepToCome) {
  Script script = read(R"([{"name": "run", "frame": 2}, {"name": "pause", "step": 3}])");
  EXPECT_FALSE(script.awaits_training(0)) << "the first command waits for a frame";
  EXPECT_EQ(script.due(2, 0, 0).size(), 1u);
  EXPECT_TRUE(script.awaits_training(2));
  EXPECT_FALSE(script.awaits_training(3));
  EXPECT_EQ(script.due(3, 0, 3).size(), 1u);
  EXPECT_FALSE(script.awaits_training(0)) << "none is left";
}

TEST_F(ScriptTest, WhatIsNoScriptIsRefused) {
  for (const char* text : {"{", "3", R"([{"name": "no_such_command"}])", R"([{"name": "run", "frame": -1}])", R"([7])"})
    EXPECT_THROW(read(text), Error) << text;
}

}  // namespace
}  // namespace afterglow
