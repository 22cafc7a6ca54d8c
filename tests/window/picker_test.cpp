// The sheet of presets with the keyboard alone, and what it says of each.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "app/window/commands/window_commands.h"
#include "app/window/key_routing.h"
#include "core/engine/session/analysed_run.h"
#include "tests/support/sample_observations.h"
#include "tests/views/drawing/null_window.h"

namespace afterglow {

/// In listings of tests.
void PrintTo(const Preset& preset, std::ostream* out);

namespace {

using nlohmann::json;

struct Picker : testing::Test {
  NullWindow window{1280, 720};
  FigureCache figures;
  WindowActions actions;
  std::shared_ptr<const Observation> observation = std::make_shared<const Observation>(samples::mid_training());
  std::vector<Command> engine;

  Picker() {
    actions.export_folder = testing::TempDir();
    window.show(observation);
  }
  /// Carries out what keys and mouse have asked for, as the window does between two frames.
  void settle() {
    CommandQueue following;
    for (const Command& command : window.commands.take()) {
      if (find_command(command.name)->target == CommandTarget::engine) {
        engine.push_back(command);
        continue;
      }
      CommandContext context{window.state, figures, observation, following, actions, 1.0};
      run_window_command(context, command);
    }
    window.draw_page(3);
  }
  void key(const char* chord) {
    route_key(window.state, window.commands, *parse_chord(chord), ImGui::GetIO().WantTextInput);
    settle();
  }
  void type(const char* text) {
    ImGui::GetIO().AddInputCharactersUTF8(text);
    window.draw_page(2);
  }
  PickerState& picker() { return window.state.picker; }
};

TEST_F(Picker, OpensAPresetByTypingAndEnter) {
  key("Ctrl+O");
  ASSERT_TRUE(picker().is_open);
  type("mqar-delta");
  ASSERT_EQ(picker().text, "mqar-delta");
  key("Enter");
  EXPECT_FALSE(picker().is_open);
  ASSERT_EQ(engine.size(), 1u);
  EXPECT_EQ(engine[0].name, "load");
  EXPECT_EQ(engine[0].value, R"({"preset":"mqar-deltanet"})"_json);
}

TEST_F(Picker, ListsThePresetsOfTheSessionsMachine) {
  window.state.machine =
      std::make_shared<const Machine>(Machine{{}, {{"far-away", "Far", "There alone.", "mqar"}, presets().front()}});
  key("Ctrl+O");
  std::vector<std::string> names;
  for (const PickerEntry& entry : picker().entries) {
    if (entry.section == PickerSection::models) names.push_back(entry.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"far-away", presets().front().name}));
  type("far-aw");
  key("Enter");
  ASSERT_EQ(engine.size(), 1u);
  EXPECT_EQ(engine[0].value, R"({"preset":"far-away"})"_json);
}

TEST_F(Picker, EscapeAndASecondCtrlOCloseIt) {
  for (const char* chord : {"Escape", "Ctrl+O"}) {
    key("Ctrl+O");
    ASSERT_TRUE(picker().is_open);
    key(chord);
    EXPECT_FALSE(picker().is_open) << chord;
  }
  EXPECT_TRUE(engine.empty()) << "the run behind goes on";
}

TEST_F(Picker, ArrowsStayAmongTheCardsAndShowThemAll) {
  key("Ctrl+O");
  const int last = static_cast<int>(presets().size()) - 1;
  for (const char* chord : {"Left", "Up"}) key(chord);
  EXPECT_EQ(picker().chosen, 0);
  ASSERT_GT(picker().columns, 1);
  key("Down");
  EXPECT_EQ(picker().chosen, picker().columns);
  for (int i = 0; i <= last; ++i) key("Right");
  EXPECT_EQ(picker().chosen, last);
  key("Enter");
  ASSERT_EQ(engine.size(), 1u);
  EXPECT_EQ(engine[0].value["preset"], presets().back().name);
}

TEST_F(Picker, HasEverythingThatThereIsToOpen) {
  window.state.recent = {"forecast", "/nowhere/run.safetensors"};
  key("Ctrl+O");
  std::map<PickerSection, int> counts;
  for (const PickerEntry& entry : picker().entries) {
    ++counts[entry.section];
    EXPECT_FALSE(entry.name.empty());
    EXPECT_NE(find_command(entry.command.name), nullptr) << entry.name;
  }
  EXPECT_EQ(counts[PickerSection::models], static_cast<int>(presets().size()));
  EXPECT_GT(counts[PickerSection::tables], 1);
  EXPECT_GT(counts[PickerSection::lessons], 7);
  EXPECT_EQ(counts[PickerSection::recent], 2);
  for (const PickerSection next : {PickerSection::lessons, PickerSection::tables}) {
    key("PageDown");
    EXPECT_EQ(picker().section, next);
  }
  key("Enter");
  ASSERT_EQ(engine.size(), 1u);
  EXPECT_EQ(engine[0].name, "compare");
}

TEST_F(Picker, GoesThroughFoldersToFiles) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "afterglow_picker" / "deeper";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "run.safetensors") << "not looked into";
  std::ofstream(folder / "notes.txt") << "cannot be opened";
  window.commands.send("presets", {{"folder", folder.parent_path().string()}});
  settle();
  type("deeper");
  key("Enter");
  ASSERT_TRUE(picker().is_open) << "a folder is no end";
  type("run.safe");
  EXPECT_EQ(picker_matches(picker()).size(), 1u);
  key("Enter");
  ASSERT_EQ(engine.size(), 1u);
  EXPECT_EQ(engine[0].value["path"], (std::filesystem::canonical(folder) / "run.safetensors").string());
  window.commands.send("presets", {{"folder", std::string("/no/such/folder")}});
  settle();
  EXPECT_TRUE(picker().is_open) << "a folder that is not there leaves the rest";
  std::filesystem::remove_all(folder.parent_path());
}

/// Files of this machine cannot be opened there.
TEST_F(Picker, OfASessionElsewhereAsksForAPathThere) {
  window.state.line.text = "gpu1";
  window.state.recent = {"forecast", "/nowhere/run.safetensors"};
  note_recent(window.state, {"load", R"({"path": "run.safetensors"})"_json});
  EXPECT_EQ(window.state.recent.size(), 2u) << "a later window here cannot open it";
  key("Ctrl+O");
  for (const PickerEntry& entry : picker().entries) EXPECT_FALSE(entry.command.value.contains("path")) << entry.name;
  type("a file there");
  key("Enter");
  EXPECT_EQ(window.state.palette.text, "load path=");
}

TEST_F(Picker, KeepsWhatWasOpenedLast) {
  PageState page;
  for (int i = 0; i < 40; ++i) note_recent(page, {"load", json{{"preset", "p" + std::to_string(i)}}});
  note_recent(page, {"load", R"({"preset": "p35"})"_json});
  ASSERT_EQ(page.recent.size(), 12u);
  EXPECT_EQ(page.recent[0], "p35");
  EXPECT_EQ(page.recent[1], "p39");
  note_recent(page, {"load", R"({"path": "run.safetensors"})"_json});
  EXPECT_TRUE(std::filesystem::path(page.recent[0]).is_absolute()) << "the working folder may be another next time";
}

class EveryPreset : public testing::TestWithParam<Preset> {};

TEST_P(EveryPreset, HasAPictureWithTheSizeOfItsModel) {
  const Preset& preset = GetParam();
  ASSERT_FALSE(preset.about.empty());
  ASSERT_FALSE(preset.picture.empty()) << "./dev pictures makes it";
  const json picture = json::parse(preset.picture);
  EXPECT_EQ(picture.contains("points") + picture.contains("curves") + picture.contains("cells"), 1);
  EXPECT_GT(picture.at("seconds_per_step").get<double>(), 0);
  ParameterStore store;
  make_objective(parse_recipe(preset.text, preset.name), store);
  EXPECT_EQ(picture.at("parameters").get<std::int64_t>(), store.count());
}

INSTANTIATE_TEST_SUITE_P(Presets, EveryPreset, testing::ValuesIn(presets()), [](const auto& preset) {
  std::string name = preset.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace afterglow
