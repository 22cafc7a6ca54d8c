// The menu of panels and plots: how it opens, what it offers, and that it leaves the dots their right click.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/support/sample_observations.h"
#include "tests/views/drawing/null_window.h"
#include "views/panels/panel.h"
#include "views/widgets/plot_widget.h"

namespace afterglow {
namespace {

struct ContextMenu : testing::Test {
  NullWindow window{1600, 1000};
  ContextMenu() {
    window.show(samples::mid_training());
    window.draw_page(3);
  }
  ShownPlot plot(const std::string& id) {
    for (const ShownPlot& shown : window.state.drawn.plots) {
      if (shown.plot == id) return shown;
    }
    throw std::runtime_error("no plot " + id);
  }
  void right_click(double x, double y, double drag = 0) {
    window.mouse(x, y);
    window.draw_page(2);
    window.button(true, 1);
    window.draw_page();
    window.mouse(x + drag, y + drag);
    window.draw_page();
    window.button(false, 1);
    window.draw_page();
  }
  std::vector<Command> sent() { return window.commands.take(); }
  void open(const std::string& panel, const std::string& plot) {
    window.state.menu.is_open = true;
    window.state.menu.panel = panel;
    window.state.menu.plot = plot;
    window.state.menu.at = {300, 300};
    window.draw_page(2);
  }
  const MenuItem* item(const std::string& title) {
    for (const MenuItem& entry : window.state.menu.items) {
      if (entry.title == title) return &entry;
    }
    return nullptr;
  }
};

TEST_F(ContextMenu, ARightClickOnAPlotAsksForItWithThePlaceOnTheAxis) {
  const Rect area = plot("training_loss").area;
  right_click(area.x + area.width / 2, area.y + area.height / 2);
  const auto commands = sent();
  ASSERT_EQ(commands.size(), 1u);
  EXPECT_EQ(commands[0].name, "menu");
  const auto value = commands[0].value;
  EXPECT_EQ(value["plot"], "training_loss");
  EXPECT_GT(value["x"].get<double>(), 0);
}

TEST_F(ContextMenu, ADragOfTheRightButtonStillZooms) {
  const Rect area = plot("training_loss").area;
  right_click(area.x + area.width / 2, area.y + area.height / 2, 40);
  EXPECT_TRUE(sent().empty());
  EXPECT_FALSE(window.state.plots["training_loss"].follows());
}

TEST_F(ContextMenu, ARightClickOnATitleAsksForThePanel) {
  ASSERT_FALSE(window.state.drawn.panels.empty());
  for (const ShownPanel& shown : std::vector<ShownPanel>(window.state.drawn.panels)) {
    right_click(shown.area.x + 30, shown.area.y + 16);
    const auto commands = sent();
    ASSERT_EQ(commands.size(), 1u) << shown.panel;
    EXPECT_EQ(commands[0].name + commands[0].value.dump(), "menu{\"panel\":\"" + shown.panel + "\"}");
  }
}

TEST_F(ContextMenu, TheRightClickOnADotStaysWithTheDot) {
  Figure figure;
  figure.id = "dots";
  Scatter dots;
  dots.points.push_back({1, 5, 30, 0, false, "mode 0", "", 1, {0}});
  figure.series = {dots};
  figure.x.range = Range{0, 2};
  figure.y.range = Range{0, 10};
  PlotResponse response;
  const auto draw = [&] {
    window.draw([&](Frame& frame) {
      response = plot_widget(frame, figure, {0, 0, 800, 600});
      EXPECT_TRUE(response.switched_mode.number < 0 || frame.state.pointer.right_click_is_taken);
    });
  };
  int switched = -1;
  bool asked = false;
  for (const Point at : {Point{420, 290}, Point{150, 100}}) {
    window.mouse(at.x, at.y);
    draw();
    draw();
    const bool on_dot = !response.hovered_point.empty();
    window.button(true, 1);
    draw();
    window.button(false, 1);
    draw();
    const auto commands = sent();
    EXPECT_EQ(response.switched_mode.number < 0, !on_dot);
    EXPECT_EQ(commands.empty(), on_dot);
    if (on_dot) switched = response.switched_mode.number;
    asked = asked || !commands.empty();
  }
  EXPECT_EQ(switched, 0);
  EXPECT_TRUE(asked);
}

TEST_F(ContextMenu, EveryPanelOffersItsCommandAndItsSize) {
  for (const Panel& panel : panels()) {
    window.state.maximised = panel.kind->id;
    window.draw_page(2);
    open(std::string(panel.kind->id), "");
    ASSERT_TRUE(item("Copy as command")) << panel.kind->id;
    ASSERT_TRUE(item("Enlarge this panel")) << panel.kind->id;
    EXPECT_TRUE(item("Enlarge this panel")->is_on);
    for (const MenuItem& entry : window.state.menu.items) {
      EXPECT_TRUE(find_command(entry.command.name)) << entry.title;
    }
    window.state.menu = {};
  }
}

TEST_F(ContextMenu, APlotOffersItsAxesAndWhatItFollows) {
  open("training", "training_loss");
  ASSERT_TRUE(item("Log y axis") && item("Log x axis") && item("Fit the axes") && item("Follow new data"));
  EXPECT_TRUE(item("Log y axis")->is_on);
  EXPECT_EQ(item("Log y axis")->command.value["scale"], "linear");
  EXPECT_FALSE(item("Log x axis")->is_on);
  EXPECT_TRUE(item("Follow new data")->is_on);
  EXPECT_EQ(item("Export this plot")->command.value, R"({"plot":"training_loss"})"_json);
  window.state.plots["training_loss"].x = Range{1, 10};
  window.draw_page();
  EXPECT_FALSE(item("Follow new data")->is_on);
}

TEST_F(ContextMenu, ACellIsFollowedOverTraining) {
  window.state.workspace = "causes";
  window.draw_page(2);
  const auto followed = [&]() -> const MenuItem* {
    for (const MenuItem& entry : window.state.menu.items) {
      if (entry.command.name == "over_training") return &entry;
    }
    return nullptr;
  };
  window.state.menu.x = 4;
  window.state.menu.y = 0;
  open("patch", "patch_memory");
  ASSERT_TRUE(followed());
  const std::string clicked = followed()->command.value["number"];
  EXPECT_TRUE(clicked.starts_with("patch.") && clicked.ends_with(".4")) << clicked;
  window.state.menu = {};
  open("patch", "");
  ASSERT_TRUE(followed()) << "without a place the brightest cell";
  CommandQueue commands;
  const auto line = static_cast<int>(followed() - window.state.menu.items.data());
  window.state.menu.chosen = line;
  menu_key(window.state, commands, ListKey::accept);
  const std::vector<Command> sent = commands.take();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].name + sent[1].name, "over_trainingworkspace") << "and the page that shows it";
}

TEST_F(ContextMenu, KeysChooseAndRun) {
  open("training", "training_loss");
  CommandQueue commands;
  PageState& state = window.state;
  menu_key(state, commands, ListKey::accept);
  EXPECT_TRUE(state.menu.is_open) << "nothing is chosen yet";
  menu_key(state, commands, ListKey::down);
  menu_key(state, commands, ListKey::down);
  menu_key(state, commands, ListKey::up);
  EXPECT_EQ(state.menu.chosen, 0);
  menu_key(state, commands, ListKey::up);
  EXPECT_EQ(state.menu.chosen, static_cast<int>(state.menu.items.size()) - 1) << "the list is a ring";
  menu_key(state, commands, ListKey::down);
  menu_key(state, commands, ListKey::accept);
  EXPECT_FALSE(state.menu.is_open);
  const auto taken = commands.take();
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].name, "copy");
  EXPECT_EQ(taken[0].value, R"({"panel":"training","what":"command"})"_json);
}

TEST_F(ContextMenu, AClickRunsALineAndOneBesideClosesIt) {
  open("training", "training_loss");
  window.mouse(340, 318);
  window.draw_page(2);
  window.button(true);
  window.draw_page();
  window.button(false);
  window.draw_page();
  EXPECT_FALSE(window.state.menu.is_open);
  const auto commands = sent();
  ASSERT_EQ(commands.size(), 1u);
  EXPECT_EQ(commands[0].name, "copy");
  open("training", "training_loss");
  window.mouse(1500, 900);
  window.draw_page(2);
  window.button(true);
  window.draw_page(2);
  EXPECT_FALSE(window.state.menu.is_open);
  window.button(false);
  window.draw_page(2);
  EXPECT_TRUE(sent().empty());
}

TEST_F(ContextMenu, StaysInsideTheWindow) {
  for (const Point at : {Point{1590, 990}, Point{-50, -50}}) {
    open("training", "training_loss");
    window.state.menu.at = at;
    window.draw_page(2);
    EXPECT_GT(window.vertices(), 500);
    window.state.menu = {};
  }
}

TEST_F(ContextMenu, OfTheTrainingThrowsRunsAway) {
  window.show(samples::several_runs());
  open("training", "training_loss");
  const MenuItem *present = item("Throw this run away"), *earlier = item("Throw run 2 · without SKA away");
  ASSERT_TRUE(present && earlier);
  EXPECT_EQ(present->command.name, "discard");
  EXPECT_TRUE(present->command.value.empty());
  EXPECT_EQ(earlier->command.value["run"], "run 2 · without SKA");
  open("spectrum", "");
  EXPECT_EQ(item("Throw this run away"), nullptr);
}

}  // namespace
}  // namespace afterglow
