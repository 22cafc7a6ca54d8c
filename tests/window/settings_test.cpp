// Settings come back as they were, and whatever a file holds, the window opens.
#include "app/window/settings.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace afterglow {
namespace {

struct SettingsTest : testing::Test {
  std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("afterglow_settings_" + std::to_string(::getpid()));
  std::filesystem::path path = folder / "afterglow" / "settings.json";
  std::vector<std::string> warnings;

  ~SettingsTest() override { std::filesystem::remove_all(folder); }
  WindowSettings read(const std::string& text) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return read_settings(path, warnings);
  }
};

TEST_F(SettingsTest, ComeBackAsTheyWere) {
  PageState page;
  page.theme = "light";
  page.zoom = 1.21;
  page.workspace = "stepper";
  page.splits["koopman/0"] = {0.5, 0.25, 0.25};
  page.shown_figure["training"] = 2;
  page.layouts["mine: wide"] = {"solvers", {{"solvers/rows", {0.7, 0.3}}}, {{"gate", 1}}};
  page.recent = {"tiny", "/somewhere/run.safetensors"};
  EXPECT_EQ(write_settings(path, settings_of(page, 1234, 777)), "");
  PageState again;
  const WindowSettings settings = read_settings(path, warnings);
  apply_settings(settings, again);
  EXPECT_TRUE(warnings.empty());
  EXPECT_EQ(again.theme, "light");
  EXPECT_EQ(again.zoom, 1.21);
  EXPECT_EQ(again.workspace, "stepper");
  EXPECT_EQ(again.splits, page.splits);
  EXPECT_EQ(again.shown_figure, page.shown_figure);
  EXPECT_EQ(settings.width, 1234);
  EXPECT_EQ(again.layouts, page.layouts);
  EXPECT_EQ(again.recent, page.recent);
}

TEST_F(SettingsTest, DamagedLayoutsLoseWhatMakesNoSense) {
  const WindowSettings settings =
      read(R"({"layouts": {"good": {"workspace": "probe", "splits": {"probe/0": [0.6, 0.4]}},
    "half": {"workspace": 7, "splits": {"a": ["x"], "b": [2, 3]}, "shown_figure": {"memory": 1, "gate": "one"}},
    "no layout": 3, "": {}}, "recent": ["tiny", 5, null]})");
  EXPECT_TRUE(warnings.empty());
  ASSERT_EQ(settings.layouts.size(), 2u);
  EXPECT_EQ(settings.layouts.at("good").workspace, "probe");
  EXPECT_EQ(settings.layouts.at("good").splits.at("probe/0"), (std::vector<double>{0.6, 0.4}));
  EXPECT_TRUE(settings.layouts.at("half").workspace.empty() && settings.layouts.at("half").splits.empty());
  EXPECT_EQ(settings.layouts.at("half").shown_figure, (std::map<std::string, int>{{"state_size", 1}}));
  EXPECT_EQ(settings.recent, std::vector<std::string>{"tiny"});
  EXPECT_TRUE(read(R"({"layouts": [1, 2], "recent": {"a": 1}})").layouts.empty());
}

TEST_F(SettingsTest, NumbersBeyondAnIntAreNotTakenForSmallOnes) {
  const WindowSettings settings =
      read(R"({"shown_figure": {"a": 4294967297, "b": 18446744073709551615, "c": -4294967294, "d": 1}})");
  EXPECT_EQ(settings.shown_figure, (std::map<std::string, int>{{"a", 63}, {"b", 63}, {"c", -1}, {"d", 1}}));
}

TEST_F(SettingsTest, AMissingFileIsTheFirstStart) {
  EXPECT_EQ(read_settings(path, warnings).theme, "dark");
  EXPECT_TRUE(warnings.empty());
}

TEST_F(SettingsTest, DamagedFilesGiveDefaultsAndASentence) {
  for (const char* text : {"", "{", "[1, 2]", "\xff\xfe", "{\"theme\": \"light\", \"theme\": \"dark\"}", "null"}) {
    warnings.clear();
    const WindowSettings settings = read(text);
    EXPECT_EQ(settings.theme, "dark") << text;
    EXPECT_EQ(warnings.size(), 1u) << text;
  }
}

TEST_F(SettingsTest, UnknownAndImpossibleValuesAreLeftOut) {
  const WindowSettings settings =
      read(R"({"version": 99, "later": {"a": 1}, "theme": "neon", "zoom": 1e300, "width": -5, "height": "tall",
    "workspace": 7, "splits": {"a": [0.5, "b"], "c": 3, "d": [0.5, 0.5], "e": [-1, 2]}, "shown_figure": {"training": 1e9, "x": 2}})");
  EXPECT_TRUE(warnings.empty());
  EXPECT_EQ(settings.theme, "dark");
  EXPECT_EQ(settings.zoom, 3);
  EXPECT_EQ(settings.width, 640);
  EXPECT_EQ(settings.height, 1000);
  EXPECT_EQ(settings.workspace, "koopman");
  EXPECT_EQ(settings.splits.size(), 1u);
  EXPECT_EQ(settings.shown_figure.at("x"), 2);
}

TEST_F(SettingsTest, FormerNamesOfPlotsAreRead) {
  EXPECT_EQ(read(R"({"shown_figure": {"memory": 0}})").shown_figure, (std::map<std::string, int>{{"state_size", 0}}));
}

TEST_F(SettingsTest, AFolderThatCannotBeWrittenIsToldNotThrown) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "afterglow") << "a file where a folder should be";
  EXPECT_NE(write_settings(path, {}), "");
}

TEST_F(SettingsTest, OnlyAFirstStartHasHints) {
  PageState page;
  apply_settings(read_settings(path, warnings), page);
  EXPECT_TRUE(page.hints.is_drag_due && page.hints.is_intro_due);
  ASSERT_EQ(write_settings(path, settings_of(page, 800, 600)), "");
  apply_settings(read_settings(path, warnings), page);
  EXPECT_FALSE(page.hints.is_drag_due);
  EXPECT_TRUE(page.hints.is_intro_due) << "until it is closed";
}

}  // namespace
}  // namespace afterglow
