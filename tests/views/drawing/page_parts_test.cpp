// Sliders, palette, fonts and text cutting.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/tasks/task.h"
#include "tests/support/sample_observations.h"
#include "tests/views/drawing/null_window.h"
#include "views/panels/panel.h"
#include "views/widgets/plot_widget.h"
#include "views/widgets/sliders.h"
#include "views/widgets/widgets.h"

namespace afterglow {
namespace {

Setting rate() { return {"learning_rate", "learning rate", "", "", 1e-3, 1e-6, 1e-1, 3e-4, true, false}; }
Setting power() { return {"power", "K", "", "", 2, 0, 8, 2, false, true}; }

TEST(Sliders, SharesGoBothWays) {
  for (const double share : {0.0, 0.1, 0.37, 0.5, 1.0}) {
    const double value = value_at(rate(), share);
    EXPECT_NEAR(share_of(rate(), value), share, 0.005);
  }
  EXPECT_EQ(value_at(power(), 0.33), 3);
  EXPECT_EQ(share_of(power(), 100), 1) << "beyond the end is the end";
  Setting flat = power();
  flat.maximum = flat.minimum;
  EXPECT_EQ(share_of(flat, 5), 0);
}

TEST(Sliders, TypedNumbersAreReadAsPeopleWriteThem) {
  EXPECT_DOUBLE_EQ(typed_value(rate(), "1e-3"), 1e-3);
  EXPECT_DOUBLE_EQ(typed_value(rate(), "1.0e−3"), 1e-3);
  EXPECT_DOUBLE_EQ(typed_value(rate(), "0,002"), 2e-3);
  EXPECT_DOUBLE_EQ(typed_value(rate(), "5"), 1e-1) << "kept inside the limits";
  EXPECT_EQ(typed_value(power(), "2.6"), 3);
  for (const char* text : {"", "abc", "nan", "inf", "-"}) EXPECT_TRUE(std::isnan(typed_value(rate(), text))) << text;
}

struct SliderTest : testing::Test {
  NullWindow window{400, 200};
  Setting setting = rate();
  void draw(int frames = 1) {
    for (int i = 0; i < frames; ++i)
      window.draw([&](Frame& frame) { setting_slider(frame, setting, {10, 10, 300, 40}); });
  }
};

TEST_F(SliderTest, ADragSendsLiveValuesAndSettlesOnTheLast) {
  window.mouse(150, 37);
  draw(2);
  window.button(true);
  draw();
  for (int x = 150; x <= 250; x += 20) {
    window.mouse(x, 37);
    draw();
  }
  const auto live = window.commands.take();
  ASSERT_GE(live.size(), 4u);
  for (const Command& command : live) EXPECT_TRUE(is_live(command)) << command.value;
  draw(3);
  EXPECT_TRUE(window.commands.take().empty()) << "a knob at rest says nothing";
  window.button(false);
  draw(2);
  const auto settled = window.commands.take();
  ASSERT_EQ(settled.size(), 1u);
  EXPECT_EQ(settled[0].name, "set");
  EXPECT_EQ(settled[0].value["key"], "learning_rate");
  EXPECT_FALSE(is_live(settled[0]));
}

TEST_F(SliderTest, AClickOnTheTrackChoosesButDoesNotMove) {
  window.mouse(250, 37);
  draw(2);
  window.button(true);
  draw();
  window.mouse(251, 37);
  draw();
  window.button(false);
  draw(2);
  EXPECT_TRUE(window.commands.take().empty());
  EXPECT_EQ(window.state.focus.slider, setting.key);
}

TEST_F(SliderTest, ADragMovesByItsOwnLengthWhereverItBegins) {
  const double before = share_of(setting, setting.value), way = 30;
  ASSERT_GT(before, 0.5) << "the knob is to the right of where the drag begins";
  window.mouse(60, 37);
  draw(2);
  window.button(true);
  draw();
  window.mouse(60 + way, 37);
  draw();
  window.button(false);
  draw(2);
  const auto sent = window.commands.take();
  ASSERT_FALSE(sent.empty());
  const double track = 300 - 2 * window.look.px(6);
  const double after = sent.back().value["to"].get<double>();
  EXPECT_NEAR(share_of(setting, after), before + way / track, 0.005);
}

TEST_F(SliderTest, TheWheelIsForTheColumnUnlessItIsMeantForTheSlider) {
  const auto turn = [&] {
    draw(2);
    window.wheel(-1);
    draw(2);
    return window.commands.take();
  };
  window.mouse(150, 37);
  EXPECT_TRUE(turn().empty());
  window.ctrl(true);
  const auto with_ctrl = turn();
  window.ctrl(false);
  ASSERT_EQ(with_ctrl.size(), 1u);
  EXPECT_EQ(with_ctrl[0].name, "set");
  EXPECT_FALSE(is_live(with_ctrl[0])) << "a notch is a whole change";
  EXPECT_LT(with_ctrl[0].value["to"].get<double>(), setting.value);
  window.state.focus.slider = setting.key;
  EXPECT_EQ(turn().size(), 1u);
  window.mouse(150, 150);
  EXPECT_TRUE(turn().empty()) << "the pointer is elsewhere";
}

TEST_F(SliderTest, ADoubleClickGivesTheDefault) {
  window.mouse(150, 37);
  draw(2);
  for (int i = 0; i < 2; ++i) {
    window.button(true);
    draw();
    window.button(false);
    draw();
  }
  const auto sent = window.commands.take();
  ASSERT_FALSE(sent.empty());
  EXPECT_EQ(sent.back().value["to"], 0.0003) << sent.back().value;
}

TEST_F(SliderTest, AClickOnTheNumberOpensAField) {
  window.mouse(300, 18);
  draw(2);
  window.button(true);
  draw();
  window.button(false);
  draw(6);
  EXPECT_TRUE(window.state.edit.is_typing);
  EXPECT_TRUE(ImGui::GetIO().WantTextInput);
}

/// Clicks everywhere in the top bar; the workspaces that open, with the places of their tabs.
std::map<std::string, std::set<std::pair<int, int>>> tabs_of(NullWindow& window, int width) {
  std::map<std::string, std::set<std::pair<int, int>>> found;
  window.draw_page(2);
  for (const int y : {33}) {
    for (int x = 4; x < width; x += 8) {
      for (const Command& command : window.click(x, y)) {
        if (command.name == "workspace") found[command.value["name"]].insert({x, y});
      }
    }
  }
  return found;
}

TEST(Tabs, AreAllReachedWithOneClickAndNeverMove) {
  for (const int width : {1280, 1920}) {
    NullWindow window(width, width * 9 / 16);
    window.show(samples::mid_training());
    const auto first = tabs_of(window, width);
    EXPECT_EQ(first.size(), workspaces().size()) << width;
    window.state.workspace = workspaces().back().id;
    EXPECT_EQ(tabs_of(window, width), first) << width;
  }
}

TEST(Claims, AClickOnOneCopiesItsCommand) {
  NullWindow window(1280, 720);
  window.show(samples::mid_training());
  window.state.workspace = "costs";
  window.draw_page(2);
  const auto panel = std::ranges::find(window.state.drawn.panels, std::string("claims"), &ShownPanel::panel);
  ASSERT_NE(panel, window.state.drawn.panels.end());
  const Rect area = panel->area;  // each frame lists the panels anew
  std::set<std::string> copied;
  for (double y = area.y + 60; y < area.bottom() - 10; y += 20) {
    for (const Command& command : window.click(area.x + 200, y)) {
      if (command.name == "copy") copied.insert(command.value["claim"]);
    }
  }
  EXPECT_GE(copied.size(), 4u);
}

TEST(Tabs, TakeFurtherRowsWhereOneIsTooNarrow) {
  NullWindow window(1280, 720, "projector", 1.6);
  window.show(samples::mid_training());
  std::map<std::string, int> groups;
  for (const Workspace& workspace : workspaces()) ++groups[std::string(workspace.group)];
  EXPECT_EQ(groups.size(), 4u);
  window.draw_page(2);
  double height = 0;
  window.draw([&](Frame& frame) { height = top_bar_height(frame, 1280) / frame.px(1); });
  EXPECT_GT(height, 60);
}

TEST(Palette, FindsByNameTitleAndMeaning) {
  EXPECT_EQ(palette_matches("rewind").at(0).name, "rewind");
  EXPECT_EQ(palette_matches("same seed").at(0).name, "reset");
  EXPECT_EQ(palette_matches("").size(), command_table().size());
  EXPECT_TRUE(palette_matches("no such thing").empty());
  for (const PlotKind& kind : plot_kinds()) {
    const auto found = palette_matches(kind.title);
    const std::string wanted = R"({"panel":")" + std::string(kind.id) + R"("})";
    EXPECT_TRUE(std::ranges::any_of(found, [&](const PaletteLine& line) {
      return line.value == wanted && line.is_ready;
    })) << kind.id;
  }
  for (const char* typed : {"step count=5", "step {\"count\": 5}"})
    EXPECT_EQ(palette_matches(typed).at(0).name, "step") << "the value is not searched for";
}

TEST(Palette, NamesWhatTheSessionsMachineHas) {
  PageState state;
  EXPECT_EQ(palette_matches("open mqar-gla", state).at(0).value, R"({"preset":"mqar-gla"})");
  state.machine =
      std::make_shared<const Machine>(Machine{{{"cuda", "NVIDIA H200"}}, {{"far-away", "Far", "", "mqar"}}});
  EXPECT_EQ(palette_matches("device h200", state).at(0).value, R"({"name":"cuda"})");
  EXPECT_EQ(palette_matches("open far-away", state).at(0).value, R"({"preset":"far-away"})");
  EXPECT_TRUE(palette_matches("open mqar-gla", state).empty());
}

TEST(Palette, RunsCommandsAndAsksForValues) {
  PageState state;
  CommandQueue commands;
  state.palette.is_open = true;
  state.palette.text = "toggle_run";
  palette_key(state, commands, ListKey::accept);
  EXPECT_FALSE(state.palette.is_open);
  EXPECT_EQ(commands.take().at(0).name, "toggle_run");

  state.palette.is_open = true;
  state.palette.text = "step";
  palette_key(state, commands, ListKey::accept);
  EXPECT_TRUE(state.palette.is_open) << "a value is needed first";
  EXPECT_EQ(state.palette.text, "step count=1");
  palette_key(state, commands, ListKey::accept);
  EXPECT_EQ(commands.take().at(0).value, R"({"count":1})"_json);

  state.palette.is_open = true;
  for (const char* half : {"step {\"count\": ", "step count=", "step count=many", "set key= to=1"}) {
    state.palette.text = half;
    palette_key(state, commands, ListKey::accept);
    EXPECT_TRUE(state.palette.is_open) << half << ": half a value runs nothing";
  }
  palette_key(state, commands, ListKey::leave);
  EXPECT_FALSE(state.palette.is_open);
  EXPECT_TRUE(commands.take().empty());
}

TEST(Palette, EveryExampleIsTypedWithoutBraces) {
  for (const CommandSpec& spec : command_table()) {
    PageState state;
    CommandQueue commands;
    state.palette.text = spec.name;
    palette_key(state, commands, ListKey::accept);
    if (state.palette.text == spec.name || state.palette.text.empty()) continue;
    EXPECT_EQ(state.palette.text.find_first_of("{}"), std::string::npos) << state.palette.text;
    palette_key(state, commands, ListKey::accept);
    const std::vector<Command> sent = commands.take();
    ASSERT_EQ(sent.size(), 1u) << spec.name;
    EXPECT_EQ(sent[0].value, nlohmann::json::parse(spec.example)) << spec.name;
  }
  for (const PaletteLine& line : palette_matches(""))
    EXPECT_EQ(line.meaning.find_first_of("{}"), std::string::npos) << line.meaning;
}

TEST(Palette, FindsPresetsTasksThemesSizesAndLayoutsByName) {
  const auto first = [](const char* text) {
    PageState state;
    CommandQueue commands;
    state.layouts["lecture hall"] = {};
    state.palette = {true, false, text, 0, 0};
    palette_key(state, commands, ListKey::accept);
    const std::vector<Command> sent = commands.take();
    return sent.empty() ? std::string() : sent[0].name + " " + sent[0].value.dump();
  };
  EXPECT_EQ(first("sessa"), R"(load {"preset":"sessa-mqar"})");
  EXPECT_EQ(first("tiny"), R"(load {"preset":"tiny"})");
  EXPECT_EQ(first("sysprompt"), R"(load {"preset":"tiny"})") << "by its task";
  EXPECT_EQ(first("light"), R"(theme {"name":"light"})");
  EXPECT_EQ(first("150"), R"(zoom {"to":1.5})");
  EXPECT_EQ(first("page solvers"), R"(workspace {"name":"solvers"})");
  EXPECT_EQ(first("lecture"), R"(layout {"choose":"lecture hall"})");
  EXPECT_EQ(first("prompt"), "") << "the words are typed first";
}

TEST(Palette, ArrowsStayInsideTheList) {
  PageState state;
  CommandQueue commands;
  state.palette.is_open = true;
  palette_key(state, commands, ListKey::up);
  EXPECT_EQ(state.palette.chosen, 0);
  for (int i = 0; i < 500; ++i) palette_key(state, commands, ListKey::down);
  EXPECT_EQ(state.palette.chosen, static_cast<int>(command_table().size()) - 1);
}

TEST(Fonts, MissingAndDamagedFilesFallBack) {
  const auto folder = std::filesystem::temp_directory_path() / "afterglow_fonts_test";
  std::filesystem::create_directories(folder / "deep" / "deeper");
  std::ofstream(folder / "deep" / "deeper" / "Inter-Regular.otf") << "this is no font";
  const FontFiles files = find_fonts({folder, folder / "missing"});
  ASSERT_TRUE(files.regular) << "folders are searched to their ends";
  EXPECT_FALSE(files.mono);
  ImGui::CreateContext();
  FontSet fonts;
  fonts.bake(*ImGui::GetIO().Fonts, files, 1);
  EXPECT_NE(fonts.pick(FontFace::mono, 12).font, nullptr);
  ImGui::DestroyContext();
  std::filesystem::remove_all(folder);
}

TEST(Fonts, AllCharactersOfTheInterfaceHaveAGlyph) {
  if (!find_fonts(font_folders()).symbols) GTEST_SKIP() << "no font with mathematics on this machine";
  NullWindow window(100, 100);
  ImFont* font = window.look.fonts->pick(FontFace::regular, 13).font;
  std::string_view text = "λκγσηωεΣπφθ·−×→←√²½∂∞≤≈ᵀ₊⁻…▸│“”␣⏎⇥";
  while (!text.empty()) {
    const char32_t c = take_character(text);
    EXPECT_TRUE(has_glyph(font, static_cast<ImWchar>(c))) << std::hex << static_cast<unsigned>(c);
  }
}

TEST(Fonts, HaveEveryLetterOfTheTasksTokens) {
  if (!find_fonts(font_folders()).symbols) GTEST_SKIP() << "no font with mathematics on this machine";
  NullWindow window(100, 100);
  for (const char* kind : {"stories", "sysprompt", "mqar"}) {
    const std::unique_ptr<Task> task = make_task(kind);
    for (int token = 0; token < task->vocab(); ++token) {
      const std::string label = task->token_label(token);
      for (std::string_view rest = label; !rest.empty();) {
        const auto letter = static_cast<ImWchar>(take_character(rest));
        for (const FontFace face : {FontFace::regular, FontFace::mono})
          EXPECT_TRUE(has_glyph(window.look.fonts->pick(face, 12).font, letter)) << kind << ": " << label;
      }
    }
  }
}

TEST(Text, IsCutAndWrappedToItsWidth) {
  NullWindow window(400, 300);
  window.draw([&](Frame& frame) {
    const FigureCanvas canvas = frame.look.canvas();
    const std::string text = "a name that is much longer than any label";
    for (const double width : {0.0, 5.0, 20.0, 50.0, 120.0, 1000.0}) {
      const std::string cut = cut_text(canvas, text, width, 13, FontFace::regular);
      EXPECT_LE(canvas.text_width(cut, 13, FontFace::regular), width + 1);
      for (const std::string& line : wrapped_text(canvas, text, width, 13, FontFace::regular, 3)) {
        EXPECT_LE(canvas.text_width(line, 13, FontFace::regular), width + 1);
      }
    }
    EXPECT_EQ(cut_text(canvas, text, 1000, 13, FontFace::regular), text);
    EXPECT_LE(wrapped_text(canvas, text, 60, 13, FontFace::regular, 3).size(), 3u);
  });
}

// Dots of a Koopman MLP are dragged, switched and chosen by the commands that those of a head send.
TEST(Modes, APairOfAKoopmanMlpIsDraggedSwitchedAndChosen) {
  NullWindow window(800, 600);
  const Observation seen = samples::inspected();
  window.show(seen);
  const auto sent = [&](const PlotResponse& response) {
    window.commands.take();
    window.draw([&](Frame& frame) { handle_mode_response(frame, response); });
    return window.commands.take();
  };
  PlotResponse dragged, switched, clicked, head;
  dragged.drag = {"", {5, true}, 0.25, -0.5, false};
  switched.switched_mode = {9, true};  // one that is off
  clicked.clicked_mode = {5, true};
  head.drag = {"", {0}, 0.25, 0.5, true};
  for (const int layer : {2, 4}) {
    window.state.selection = {};
    window.state.selection.layer = layer;
    window.state.selection.scaled = true;  // is about heads
    const auto drag = sent(dragged), off = sent(switched), choice = sent(clicked), other = sent(head);
    ASSERT_EQ(std::tuple(drag.size(), off.size(), choice.size(), other.size()), std::tuple(2u, 1u, 1u, 2u));
    EXPECT_EQ(drag[0].name, "drag_mode");
    EXPECT_EQ(drag[1].name, "select") << "the readout is that of the dragged mode";
    EXPECT_EQ(drag[0].value,
              (nlohmann::json{{"layer", layer}, {"head", 0}, {"mode", 5}, {"re", 0.25}, {"im", -0.5}, {"live", true}}));
    EXPECT_EQ(off[0].value["off"], layer == 4) << "in layer 2 it is switched on again";
    EXPECT_EQ(choice[0].value, (nlohmann::json{{"mode", 5}}));
    EXPECT_EQ(other[0].value["layer"], 3) << "a dot of the neighbouring head is that head's";
  }
  window.state.selection.layer = 3;
  EXPECT_EQ(sent(clicked).at(0).value, (nlohmann::json{{"layer", 2}, {"mode", 5}}))
      << "the first one is shown with a head";
}

}  // namespace
}  // namespace afterglow
