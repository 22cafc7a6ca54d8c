// The keyboard alone is enough: every command can be given by keys, and every workflow goes without a mouse.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "app/window/commands/window_commands.h"
#include "app/window/key_routing.h"
#include "core/engine/analyses/inspected/inspected_view.h"
#include "tests/support/sample_observations.h"
#include "tests/views/drawing/null_window.h"
#include "views/analyses/inspected/inspection_figures.h"
#include "views/panels/panel.h"

namespace afterglow {
namespace {

struct Keyboard : testing::Test {
  NullWindow window{1600, 1000};
  FigureCache figures;
  WindowActions actions;
  Observation seen = samples::mid_training();
  std::vector<Command> given, followed;  ///< what keys asked for; what went on to the engine
  std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("afterglow_keyboard_" + std::to_string(::getpid()));

  ~Keyboard() override { std::filesystem::remove_all(folder); }
  Keyboard() {
    std::filesystem::create_directories(folder);
    window.show(seen);
    window.draw_page(3);
  }
  /// As the window does it: routes the key, carries out commands, draws.
  void key(const std::string& chord) {
    route_key(window.state, window.commands, *parse_chord(chord), ImGui::GetIO().WantTextInput);
    settle();
  }
  void keys(const std::string& chord, int times) {
    for (int i = 0; i < times; ++i) key(chord);
  }
  void settle() {
    for (int i = 0; i < 3; ++i) {
      for (const Command& command : window.commands.take()) carry_out(command);
      window.draw_page();
    }
  }
  void carry_out(const Command& command) {
    given.push_back(command);
    if (find_command(command.name)->target == CommandTarget::engine) {
      followed.push_back(command);
      return;
    }
    CommandQueue engine;
    CommandContext context{window.state, figures, std::make_shared<const Observation>(seen), engine, actions, 1.0};
    run_window_command(context, command);
    for (const Command& next : engine.take()) followed.push_back(next);
  }
  void type(const std::string& text) {
    ImGui::GetIO().AddInputCharactersUTF8(text.c_str());
    window.draw_page(2);
  }
  PageState& page() { return window.state; }
};

TEST_F(Keyboard, ReachesEveryCommandThroughThePalette) {
  // These would end the test's window or write files; that the palette sends them is what counts.
  actions.export_folder = folder.string();
  for (const CommandSpec& spec : command_table()) {
    if (spec.name == "palette") continue;
    PageState& state = page();
    CommandQueue sent;
    route_key(state, sent, *parse_chord("Ctrl+P"), false);
    ASSERT_EQ(sent.take().at(0).name, "palette");
    state.palette = {};
    state.palette.is_open = state.palette.wants_focus = true;
    window.draw_page(3);
    ASSERT_TRUE(ImGui::GetIO().WantTextInput) << "the palette has the keyboard at once";
    type(std::string(spec.name));
    ASSERT_EQ(state.palette.text, spec.name);
    const auto matches = palette_matches(state.palette.text);
    const auto place =
        std::find_if(matches.begin(), matches.end(), [&](const auto& m) { return !m.is_ready && m.name == spec.name; });
    ASSERT_NE(place, matches.end()) << spec.name;
    for (auto i = matches.begin(); i != place; ++i) route_key(state, sent, *parse_chord("Down"), true);
    route_key(state, sent, *parse_chord("Enter"), true);
    if (sent.waiting().empty()) {
      window.draw_page(2);
      route_key(state, sent, *parse_chord("Enter"), true);  // with the example as its value
    }
    const auto commands = sent.take();
    ASSERT_EQ(commands.size(), 1u) << spec.name;
    EXPECT_EQ(commands[0].name, spec.name);
    EXPECT_FALSE(state.palette.is_open);
    window.draw_page(2);
  }
}

TEST_F(Keyboard, TheSetUpLineIsFoundByItsName) {
  const std::vector<PaletteLine> found = palette_matches("set-up command");
  ASSERT_FALSE(found.empty());
  EXPECT_TRUE(found.front().is_ready);
  carry_out({found.front().name, nlohmann::json::parse(found.front().value)});
  ASSERT_FALSE(page().notes.empty());
  EXPECT_EQ(page().notes.back().text, "Copied a command that reproduces this step.");
}

TEST_F(Keyboard, TabGoesThroughThePanelsThatAreThere) {
  std::vector<std::string> visited;
  for (std::size_t i = 0; i < page().drawn.panels.size(); ++i) {
    key("Tab");
    visited.push_back(page().focus.panel);
  }
  std::vector<std::string> shown;
  for (const ShownPanel& panel : page().drawn.panels) shown.push_back(panel.panel);
  EXPECT_EQ(visited, shown);
  key("Tab");
  EXPECT_EQ(page().focus.panel, shown.front());
  key("Shift+Tab");
  EXPECT_EQ(page().focus.panel, shown.back());
  key("Enter");
  EXPECT_EQ(page().maximised, shown.back());
  key("Escape");
  EXPECT_TRUE(page().maximised.empty());
}

TEST_F(Keyboard, PlotsAreChosenReadZoomedAndFitted) {
  page().workspace = "training";
  settle();
  key("Tab");
  ASSERT_EQ(page().focus.panel, "training");
  EXPECT_EQ(page().pointer.plot, "training_accuracy");
  key("P");
  EXPECT_EQ(page().pointer.plot, "training_loss");
  key("Shift+P");
  EXPECT_EQ(page().pointer.plot, "training_accuracy");
  key("P");
  key("Alt+Home");
  const double first = page().crosshair.x;
  keys("Alt+Right", 5);
  EXPECT_GT(page().crosshair.x, first);
  EXPECT_EQ(page().crosshair.axis, "step");
  const double a = page().crosshair.x;
  key("C");
  keys("Alt+Right", 20);
  key("C");
  PlotState& loss = page().plots["training_loss"];
  ASSERT_TRUE(loss.mark_a && loss.mark_b);
  EXPECT_DOUBLE_EQ(*loss.mark_a, a);
  EXPECT_GT(*loss.mark_b, a);
  const double b = *loss.mark_b;
  keys("Alt+Left", 5);
  key("B");
  EXPECT_EQ(loss.mark_b, page().crosshair.x) << "B moves the cursor, where there is one";
  EXPECT_LT(*loss.mark_b, b);
  EXPECT_EQ(given.back().name, "cursor");
  keys("Alt+Left", 3);
  key("A");
  EXPECT_EQ(loss.mark_a, page().crosshair.x);
  key("C");
  EXPECT_FALSE(loss.mark_a) << "C goes on from B: it clears both";
  followed.clear();
  key("B");
  EXPECT_TRUE(followed.empty()) << "over a plot B never branches";
  EXPECT_EQ(loss.mark_a, page().crosshair.x) << "the first cursor, where there was none";
  keys("C", 2);
  key("Alt+Up");
  ASSERT_FALSE(loss.follows());
  const Range zoomed = *loss.x;
  key("Alt+Shift+Right");
  EXPECT_GT(loss.x->low, zoomed.low);
  key("Alt+Shift+Left");
  EXPECT_NEAR(loss.x->low, zoomed.low, 1e-6 * (zoomed.high - zoomed.low));
  key("Alt+Down");
  key("F");
  EXPECT_TRUE(loss.follows());
  key("Shift+Y");
  EXPECT_EQ(loss.y_scale, Scale::symlog);
}

TEST_F(Keyboard, BBranchesWhereNoPlotIsMeant) {
  key("B");
  ASSERT_FALSE(followed.empty());
  EXPECT_EQ(followed.back().name, "branch");
}

TEST_F(Keyboard, AAndBThatComeInOneFrameSetBothCursors) {
  page().workspace = "training";
  settle();
  key("Tab");
  key("P");
  key("Alt+Home");
  followed.clear();
  for (const char* chord : {"A", "B"}) route_key(page(), window.commands, *parse_chord(chord), false);
  settle();
  EXPECT_TRUE(page().plots["training_loss"].mark_a);
  EXPECT_TRUE(page().plots["training_loss"].mark_b);
  EXPECT_TRUE(followed.empty());
}

TEST_F(Keyboard, APaletteExampleHasItsValueSelectedAlone) {
  key("Ctrl+P");
  type("stop when");
  key("Enter");
  window.draw_page(3);
  type("loss < 1");
  EXPECT_EQ(page().palette.text, "stop_when condition=\"loss < 1\"");
  key("Enter");
  ASSERT_FALSE(given.empty());
  EXPECT_EQ(given.back().name, "stop_when");
  EXPECT_EQ(given.back().value["condition"], "loss < 1");
}

TEST_F(Keyboard, ThePointerTakesTheCrosshairBack) {
  page().workspace = "training";
  settle();
  key("Tab");
  key("Alt+Right");
  ASSERT_FALSE(page().focus.crosshair.axis.empty());
  const ShownPlot plot = page().drawn.plots.front();
  window.mouse(plot.area.x + plot.area.width / 2, plot.area.y + plot.area.height / 2);
  window.draw_page(3);
  EXPECT_TRUE(page().focus.crosshair.axis.empty());
}

TEST_F(Keyboard, ModesAreChosenDroppedAndMoved) {
  key("M");
  const int mode = page().selection.mode;
  ASSERT_GE(mode, 0);
  key("M");
  EXPECT_NE(page().selection.mode, mode);
  key("Shift+M");
  EXPECT_EQ(page().selection.mode, mode);
  const HeadSpectrum& head = *seen_head(seen, page().selection);
  const auto index =
      static_cast<std::size_t>(std::find(head.identity.begin(), head.identity.end(), mode) - head.identity.begin());
  followed.clear();
  key("X");
  ASSERT_EQ(followed.size(), 1u);
  EXPECT_EQ(followed[0].name, "mode_off");
  EXPECT_EQ(followed[0].value["off"], true);
  for (const auto& [chord, re, im] : {std::tuple{"Ctrl+Right", 0.02, 0.0}, std::tuple{"Ctrl+Left", -0.02, 0.0},
                                      std::tuple{"Ctrl+Up", 0.0, 0.02}, std::tuple{"Ctrl+Down", 0.0, -0.02}}) {
    followed.clear();
    key(chord);
    ASSERT_EQ(followed.size(), 1u) << chord;
    EXPECT_EQ(followed[0].name, "drag_mode");
    const auto value = followed[0].value;
    EXPECT_NEAR(value["re"].get<double>(), head.eigenvalues[index].real() + re, 1e-9) << chord;
    EXPECT_NEAR(value["im"].get<double>(), head.eigenvalues[index].imag() + im, 1e-9) << chord;
    EXPECT_EQ(value["number"], mode);
  }
}

TEST_F(Keyboard, PairsOfAKoopmanMlpAreChosenDroppedAndMoved) {
  while (!mlp_is_selected(seen, page().selection)) key("N");
  key("Shift+M");
  key("M");
  key("M");
  const auto pair = static_cast<std::size_t>(page().selection.mode);
  const MlpSpectrum& mlp = *seen_mlp(seen, page().selection);
  ASSERT_LT(pair, mlp.eigenvalues.size());
  followed.clear();
  key("X");
  key("Ctrl+Right");
  ASSERT_EQ(followed.size(), 2u);
  const auto off = followed[0].value, moved = followed[1].value;
  EXPECT_EQ(followed[0].name, "mode_off");
  EXPECT_EQ(off, (nlohmann::json{{"layer", mlp.layer}, {"head", 0}, {"mode", pair}, {"off", true}}));
  EXPECT_EQ(followed[1].name, "drag_mode");
  EXPECT_EQ(moved["layer"], mlp.layer);
  EXPECT_NEAR(moved["re"].get<double>(), mlp.eigenvalues[pair].real() + 0.02, 1e-9);
}

TEST_F(Keyboard, WithoutAModeItSaysHowToGetOne) {
  key("X");
  ASSERT_FALSE(page().notes.empty());
  EXPECT_NE(page().notes.back().text.find("M "), std::string::npos);
  EXPECT_TRUE(followed.empty());
}

TEST_F(Keyboard, HeadsAndLayersGoRound) {
  key("H");
  EXPECT_EQ(page().selection.head, 1);
  key("Shift+H");
  EXPECT_EQ(page().selection.head, 0);
  key("Shift+H");
  EXPECT_EQ(page().selection.head, 3);
  key("N");
  EXPECT_EQ(page().selection.layer, 0);
  key("Shift+N");
  EXPECT_EQ(page().selection.layer, static_cast<int>(seen.model.layers.size()) - 1);
}

TEST_F(Keyboard, SlidersMoveByArrows) {
  ASSERT_GE(page().drawn.sliders.size(), 5u);
  for (std::size_t i = 0; i < page().drawn.sliders.size(); ++i) {
    key("S");
    const std::string chosen = page().focus.slider;
    EXPECT_EQ(chosen, page().drawn.sliders[i]);
    followed.clear();
    keys("Shift+Down", 3);
    keys("Up", 2);
    EXPECT_FALSE(followed.empty()) << chosen;
    for (const Command& command : followed) {
      if (command.name == "mask") continue;  // the weight of a token
      EXPECT_TRUE(command.name == "set" || command.name == "override") << command.name;
      const auto value = command.value;
      EXPECT_NE(chosen.find(value["key"].get<std::string>()), std::string::npos) << chosen;
      EXPECT_FALSE(is_live(command)) << "a key is a whole change";
    }
  }
  key("Escape");
  EXPECT_TRUE(page().focus.slider.empty());
}

TEST_F(Keyboard, TheMenuOpensAndRunsByKeys) {
  std::string copied;
  actions.copy_text = [&](const std::string& text) { copied = text; };
  key("Tab");
  key("Menu");
  ASSERT_TRUE(page().menu.is_open);
  EXPECT_EQ(page().menu.panel, page().focus.panel);
  key("Escape");
  EXPECT_FALSE(page().menu.is_open);
  key("Shift+F10");
  ASSERT_TRUE(page().menu.is_open);
  key("Down");
  key("Enter");
  EXPECT_NE(copied.find("afterglow plot"), std::string::npos) << copied;
}

TEST_F(Keyboard, EveryLineOfEveryMenuDoesSomethingByKeys) {
  actions.export_folder = folder.string();
  key("Tab");
  key("Menu");
  const std::size_t lines = page().menu.items.size();
  ASSERT_GE(lines, 6u);
  for (std::size_t line = 0; line < lines; ++line) {
    if (!page().menu.is_open) key("Menu");
    page().notes.clear();
    keys("Down", static_cast<int>(line) + 1);
    const std::string title = page().menu.items[line].title;
    key("Enter");
    for (const Note& note : page().notes) EXPECT_EQ(note.severity, Severity::info) << title << ": " << note.text;
    key("Escape");
    if (page().focus.panel.empty()) key("Tab");
  }
}

TEST_F(Keyboard, PanelsAreResizedAsTheSplittersDo) {
  page().workspace = "probe";
  settle();
  const auto area = [&](const std::string& panel) {
    for (const ShownPanel& shown : page().drawn.panels) {
      if (shown.panel == panel) return shown.area;
    }
    return Rect{};
  };
  for (std::size_t i = 0; i < page().drawn.panels.size(); ++i) {
    key("Tab");
    const std::string panel = page().focus.panel;
    const Rect before = area(panel);
    key("Ctrl+Shift+Right");
    EXPECT_GT(area(panel).width, before.width) << panel;
    key("Ctrl+Shift+Left");
    EXPECT_NEAR(area(panel).width, before.width, 2) << panel;
    key("Ctrl+Shift+Down");
    EXPECT_GT(area(panel).height, before.height) << panel;
    keys("Ctrl+Shift+Up", 40);
    EXPECT_GT(area(panel).height, 60) << panel << ": it does not vanish";
    page().splits.clear();
    settle();
  }
}

TEST_F(Keyboard, HelpPinsTheCardOfTheFocusedPanel) {
  key("Tab");
  key("F1");
  EXPECT_EQ(page().card.pinned, page().focus.panel);
  key("Escape");
  EXPECT_TRUE(page().card.pinned.empty());
}

TEST_F(Keyboard, FollowingStopsAndGoesOn) {
  carry_out({"follow", R"({"plot": "training_loss", "on": false})"_json});
  PlotState& loss = page().plots["training_loss"];
  EXPECT_FALSE(loss.follows());
  const Range kept = *loss.x;
  seen = samples::training_at(600);
  window.show(seen);
  window.draw_page(3);
  EXPECT_EQ(*loss.x, kept);
  carry_out({"follow", R"({"plot": "training_loss"})"_json});
  EXPECT_TRUE(loss.follows());
  carry_out({"hide", R"({"plot": "training_loss", "series": "loss"})"_json});
  EXPECT_EQ(loss.hidden.count("loss"), 1u);
  carry_out({"hide", R"({"plot": "training_loss", "series": "loss", "on": false})"_json});
  EXPECT_TRUE(loss.hidden.empty());
  carry_out({"hide", R"({"plot": "training_loss", "series": "nothing"})"_json});
  EXPECT_EQ(page().notes.back().severity, Severity::warning);
}

TEST_F(Keyboard, ArrowsInATextFieldStayThere) {
  EXPECT_FALSE(acts_while_typing(*parse_chord("Ctrl+Left")));
  page().palette.is_open = page().palette.wants_focus = true;
  window.draw_page(3);
  given.clear();
  for (const char* chord : {"M", "X", "S", "Alt+Left", "Ctrl+Right", "Menu", "Space"}) key(chord);
  EXPECT_TRUE(given.empty());
}

TEST(LockedControls, LeaveKeysThatLookAndMoveInTime) {
  PageState page;
  page.presentation.is_locked = page.presentation.hides_controls = true;
  for (const CommandSpec& spec : command_table()) {
    for (const Chord& chord : chords_of(spec)) {
      CommandQueue sent;
      route_key(page, sent, chord, false);
      EXPECT_EQ(sent.take().empty(), spec.is_control) << spec.keys;
    }
  }
  for (const char* name : {"set", "load", "reset", "drag_mode", "palette", "presets", "slider", "nudge", "controls"})
    EXPECT_TRUE(find_command(name)->is_control) << name;
  for (const char* name : {"toggle_run", "time_left", "select", "maximise", "fit", "workspace", "help", "present"})
    EXPECT_FALSE(find_command(name)->is_control) << name;
  CommandQueue from_the_mouse;
  from_the_mouse.send("set");
  from_the_mouse.send("select");
  from_the_mouse.drop_controls();
  const std::vector<Command> left = from_the_mouse.take();
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].name, "select");
}

TEST(PresentationKeys, BBlanksAndElsewhereBranches) {
  PageState page;
  CommandQueue sent;
  route_key(page, sent, *parse_chord("B"), false);
  EXPECT_EQ(sent.take().at(0).name, "branch");
  page.presentation.is_on = true;
  route_key(page, sent, *parse_chord("B"), false);
  EXPECT_EQ(sent.take().at(0).name, "blank");
}

}  // namespace
}  // namespace afterglow
