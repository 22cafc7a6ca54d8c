// The whole page and every panel over every sample observation, drawn without a window.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "core/layers/layer_kind.h"
#include "core/recipe/recipe.h"
#include "tests/support/sample_observations.h"
#include "tests/views/drawing/null_window.h"
#include "views/analyses/spectra/spectrum_figures.h"
#include "views/panels/panel.h"
#include "views/widgets/plot_widget.h"
#include "views/widgets/widgets.h"

namespace afterglow {
namespace {

struct Size {
  int width, height;
  double scale;
  const char* theme;
};

// What test listings show of a size.
void PrintTo(const Size& size, std::ostream* out) {
  *out << size.width << "x" << size.height << " at " << size.scale << ", " << size.theme;
}

class PageDrawing : public testing::TestWithParam<Size> {};

/// Every panel of the last frame shows something below its header, be it why there is nothing to see; one line of text
/// has more vertices than this.
void expect_panels_drawn(const NullWindow& window, const std::string& where) {
  constexpr int least = 40;
  const double header = window.look.px(34), margin = window.look.px(6);
  ASSERT_FALSE(window.state.drawn.panels.empty()) << where;
  for (const ShownPanel& shown : window.state.drawn.panels) {
    const Rect body{shown.area.x + margin, shown.area.y + header, shown.area.width - 2 * margin,
                    shown.area.height - header - margin};
    // A panel that a small window leaves no room keeps its header alone.
    if (body.width < window.look.px(100) || body.height < window.look.px(60)) continue;
    EXPECT_GT(window.vertices_in(body), least) << where << ", " << shown.panel;
  }
}

std::set<std::string> failures(const NullWindow& window) {
  std::set<std::string> texts;
  for (const Note& note : window.state.notes) {
    if (note.severity == Severity::failure) texts.insert(note.text);
  }
  return texts;
}

/// What clicks sent are commands of the table with values that can be read.
void expect_known_commands(const std::vector<Command>& sent) {
  for (const Command& command : sent) {
    const bool is_known =
        std::ranges::any_of(command_table(), [&](const CommandSpec& spec) { return spec.name == command.name; });
    EXPECT_TRUE(is_known) << command.name;
  }
}

TEST_P(PageDrawing, EverySampleOnEveryWorkspace) {
  NullWindow window(GetParam().width, GetParam().height, GetParam().theme, GetParam().scale);
  for (const samples::Sample& sample : samples::all()) {
    window.show(sample.observation());
    for (const Workspace& workspace : workspaces()) {
      window.state.workspace = workspace.id;
      window.draw_page(3);
      const std::string where = std::string(sample.name) + " on " + std::string(workspace.id);
      if (why_not(workspace, sample.observation()->model).empty()) {
        expect_panels_drawn(window, where);
      } else {
        EXPECT_TRUE(window.state.drawn.panels.empty()) << where << " has nothing to say of the model";
      }
      EXPECT_TRUE(window.commands.take().empty()) << "nothing is sent by looking";
    }
  }
}

TEST_P(PageDrawing, EveryPanelAlone) {
  NullWindow window(GetParam().width, GetParam().height, GetParam().theme, GetParam().scale);
  for (const samples::Sample& sample : samples::all()) {
    window.show(sample.observation());
    for (const Panel& panel : panels()) {
      window.state.maximised = panel.kind->id;
      window.state.selection.all_heads = !window.state.selection.all_heads;
      window.state.selection.change = !window.state.selection.change;
      window.draw_page(2);
      ASSERT_EQ(window.state.drawn.panels.size(), 1u);
      EXPECT_EQ(window.state.drawn.panels.front().panel, panel.kind->id);
      expect_panels_drawn(window, std::string(sample.name) + ", alone");
    }
  }
}

TEST_P(PageDrawing, MouseAnywhereDoesNoHarm) {
  NullWindow window(GetParam().width, GetParam().height, GetParam().theme, GetParam().scale);
  for (const char* name : {"mid training", "non-finite", "many heads", "nothing"}) {
    for (const samples::Sample& sample : samples::all()) {
      if (sample.name == name) window.show(sample.observation());
    }
    window.draw_page();
    const std::set<std::string> before = failures(window);
    const auto move = [&](int i) {
      window.mouse(GetParam().width * ((i * 37) % 60) / 60.0, GetParam().height * ((i * 23) % 60) / 60.0);
    };
    for (int i = 0; i < 60; ++i) {
      move(i);
      window.draw_page();
    }
    EXPECT_TRUE(window.commands.take().empty()) << name << ": nothing is sent by moving";
    for (int i = 0; i < 60; ++i) {
      move(i);
      window.button(i % 3 == 1);
      if (i % 5 == 0) window.wheel(i % 2 ? 1 : -1);
      window.draw_page();
    }
    window.button(false);
    window.draw_page(2);
    expect_known_commands(window.commands.take());
    expect_panels_drawn(window, name);
    // A click may put a note away; none may come.
    for (const std::string& text : failures(window)) EXPECT_TRUE(before.contains(text)) << name << ": " << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, PageDrawing,
                         testing::Values(Size{1280, 720, 1, "dark"}, Size{2560, 1440, 1, "light"},
                                         Size{2560, 1440, 2, "dark"}, Size{1024, 768, 1, "projector"},
                                         Size{640, 400, 1, "dark"}));

TEST(Overlays, HelpPaletteAndNotesAreDrawn) {
  NullWindow window(1280, 720);
  window.show(samples::long_texts());
  window.draw_page(2);
  const int plain = window.vertices();
  EXPECT_FALSE(window.state.notes.empty()) << "events become notes";
  window.state.help_is_open = true;
  window.draw_page(2);
  EXPECT_GT(window.vertices(), plain);
  window.state.help_is_open = false;
  window.state.palette.is_open = window.state.palette.wants_focus = true;
  window.draw_page(3);
  EXPECT_GT(window.vertices(), plain);
  EXPECT_TRUE(ImGui::GetIO().WantTextInput) << "the palette takes the keyboard";
}

std::vector<std::string> shown_panels(NullWindow& window) {
  window.draw_page(2);
  std::vector<std::string> shown;
  for (const ShownPanel& panel : window.state.drawn.panels) shown.push_back(panel.panel);
  return shown;
}

/// Clicks in the line below the panels, and returns the panels that open.
std::set<std::string> linked_panels(NullWindow& window, double y) {
  std::set<std::string> linked;
  for (double x = 272; x < ImGui::GetIO().DisplaySize.x; x += 12) {
    for (const Command& sent : window.click(x, y)) {
      if (sent.name == "maximise") linked.insert(sent.value["panel"]);
    }
  }
  return linked;
}

TEST(SmallWindows, LinkToThePanelsThatHaveNoRoom) {
  NullWindow window(1280, 720);
  window.show(samples::mid_training());
  EXPECT_EQ(shown_panels(window), (std::vector<std::string>{"spectrum", "training", "mode_needs"}));
  const double bottom = window.state.drawn.panels.front().area.bottom();
  EXPECT_EQ(linked_panels(window, bottom + 14),
            (std::set<std::string>{"power_filter", "stepper", "conditioning", "token_weights"}));
}

TEST(SmallWindows, ShowAtMostFourPanelsOfAnyPage) {
  NullWindow window(1280, 720);
  window.show(samples::mid_training());
  for (const Workspace& workspace : workspaces()) {
    window.state.workspace = workspace.id;
    EXPECT_LE(shown_panels(window).size(), 4u) << workspace.id;
  }
}

/// What stands left of a plot's frame, below it or at its colour bar is the scale of an axis, or the name of a row.
bool is_of_scale(const NullWindow& window, const Point& place) {
  return std::ranges::any_of(window.state.drawn.plots, [&](const ShownPlot& plot) {
    const Rect& frame = plot.frame;
    return plot.area.contains(place) &&
           (place.x < frame.x || place.y > frame.bottom() || (plot.colours.has_value() && place.x > frame.right()));
  });
}

/// The numbers that an area tells its reader, in the plots and next to them: digits that state a value, with their
/// fraction and exponent. A digit behind a letter belongs to a name (k13, fp32, mamba2).
int told_numbers(const NullWindow& window, const Rect& area) {
  const auto is_letter = [](ImWchar c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= 0x391 && c <= 0x3C9);
  };
  constexpr std::array<ImWchar, 4> joints{'.', ',', 0xD7, 0x2212};
  int count = 0;
  bool is_in_number = false, is_behind_letter = false;
  NullWindow::Sign last{};
  for (const NullWindow::Sign& sign : window.signs()) {
    const double gap = sign.box.x - last.box.right();
    const bool is_next = std::abs(sign.box.bottom() - last.box.bottom()) < 0.6 * last.size && gap > -0.2 * last.size;
    const bool is_digit = sign.character >= '0' && sign.character <= '9';
    const double near = is_digit && last.character >= '0' && last.character <= '9' ? 0.24 : 0.3;  // a dot is narrow
    const bool touches = is_next && gap < 0.16 * last.size, is_near = is_next && gap < near * last.size;
    const bool goes_on = is_in_number && is_near;
    const Point middle{sign.box.x + sign.box.width / 2, sign.box.y + sign.box.height / 2};
    if (is_digit && !goes_on && !(is_behind_letter && touches) && area.contains(middle) && !is_of_scale(window, middle))
      ++count;
    is_in_number = is_digit || (goes_on && std::ranges::find(joints, sign.character) != joints.end());
    is_behind_letter = is_letter(sign.character);
    last = sign;
  }
  return count;
}

/// The side column, the strip of tokens and the time bar are the same on every page.
constexpr Rect small_page{264, 52, 1016, 558};

TEST(SmallWindows, TellAtMostThirtyNumbersOnAnyPage) {
  NullWindow window(1280, 720);
  window.show(samples::mid_training());
  for (const bool has_intro : {false, true}) {
    window.state.hints.is_intro_due = has_intro;
    for (const Workspace& workspace : workspaces()) {
      window.state.workspace = workspace.id;
      window.draw_page(2);
      if (window.signs().empty()) GTEST_SKIP() << "this Dear ImGui does not tell its signs";
      EXPECT_LE(told_numbers(window, small_page), 30) << workspace.id << (has_intro ? " below the introduction" : "");
    }
  }
}

TEST(TheCountOfNumbers, TakesValuesAndLeavesOutNamesAndScales) {
  NullWindow window(400, 100);
  const auto count = [&](const std::string& words) {
    window.draw([&](Frame& frame) {
      FigureCanvas canvas = frame.look.canvas();
      row_text(frame.look, canvas, {10, 10, 380, 20}, words, {12, FontFace::regular, frame.look.theme->text});
      row_text(frame.look, canvas, {10, 40, 380, 20}, words, {12, FontFace::mono, frame.look.theme->text});
    });
    return told_numbers(window, {0, 0, 400, 100});
  };
  count("x");
  if (window.signs().empty()) GTEST_SKIP() << "this Dear ImGui does not tell its signs";
  EXPECT_EQ(count("0.984 on 64 sequences"), 4);
  EXPECT_EQ(count("k13 mamba2 fp32"), 0);
  EXPECT_EQ(count("v15 0.999 of 1,024 tokens"), 4);
  EXPECT_EQ(count("−30 %"), 2);
}

TEST(LargeWindows, ShowThePanelsOfTheStripAsWell) {
  NullWindow window(2560, 1440);
  window.show(samples::mid_training());
  EXPECT_EQ(shown_panels(window).size(), 7u);
}

TEST(MissingPanels, OfferAPresetInsteadOfAnEmptyPanel) {
  NullWindow window(1280, 720);
  Observation o = samples::mid_training();
  for (LayerSummary& layer : o.model.layers) {
    if (shows(layer.kind, LayerTrait::koopman_heads)) layer.kind = "sessa";
    if (shows(layer.kind, LayerTrait::koopman_modes)) layer.kind = "swiglu";
  }
  o.spectra = nullptr;
  o.spectrum_history.clear();
  window.show(o);
  window.state.maximised = "spectrum";
  window.draw_page(2);
  // The button stands in the middle below the sentence.
  for (int y = 300; y < 460 && window.commands.waiting().empty(); y += 8) {
    const Rect panel = window.state.drawn.panels.front().area;
    window.mouse(panel.x + panel.width / 2, y);
    window.draw_page(2);
    window.button(true);
    window.draw_page(2);
    window.button(false);
    window.draw_page(2);
  }
  const std::vector<Command> sent = window.commands.take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].name, "load");
  const Preset* fitting = first_preset_that_shows(find_plot_kind("spectrum")->needs);
  EXPECT_EQ(sent[0].value.dump(), R"({"preset":")" + fitting->name + R"("})");
}

TEST(Controls, AreHiddenTogetherAndThePanelsFillTheWindow) {
  NullWindow window(1280, 720);
  window.show(samples::mid_training());
  window.draw_page(2);
  const Rect before = window.state.drawn.panels.front().area;
  window.state.presentation.hides_controls = true;
  window.draw_page(2);
  EXPECT_GT(window.state.drawn.panels.front().area.width, before.width);
  EXPECT_LT(window.state.drawn.panels.front().area.y, before.y);
  const std::vector<std::string>& sliders = window.state.drawn.sliders;
  EXPECT_EQ(std::ranges::find(sliders, "learning_rate"), sliders.end());
}

TEST(Presentation, HasTextOfAFortiethOfTheHeight) {
  for (const double height : {720.0, 1080.0, 1440.0}) {
    constexpr double smallest = tiny_size;
    EXPECT_GE(smallest * static_cast<double>(presenting_scale(height)), height / 40 - 1e-3);
  }
}

TEST(Notes, EventsAreShownOnceAndNewRunsStartOver) {
  PageState state;
  Observation o;
  o.events = {{1, Severity::warning, "first"}, {2, Severity::failure, "second"}};
  note_events(state, o, 0);
  note_events(state, o, 1);
  ASSERT_EQ(state.notes.size(), 2u);
  o.events = {{1, Severity::warning, "of another run"}};
  note_events(state, o, 2);
  EXPECT_EQ(state.notes.back().text, "of another run");
  for (int i = 0; i < 100; ++i) add_note(state, Severity::info, "note", 3);
  EXPECT_LE(state.notes.size(), 3u) << "notes never cover the page";
}

TEST(FormulaCards, EveryPanelFigureAndReadoutHasOne) {
  for (const Panel& panel : panels()) EXPECT_NE(find_card(panel.kind->id), nullptr) << panel.kind->id;
  const auto o = samples::mid_training(), of_series = samples::forecast();
  for (const ReadoutRow& row : mode_readout(o, {})) EXPECT_NE(find_card(row.card), nullptr) << row.label;
  CurveStore curves;
  for (const Figure& figure : prepared_figures(*find_plot_kind("training"), o, {}, curves))
    EXPECT_NE(find_card(figure.id), nullptr) << figure.id;
  for (const FormulaCard& card : formula_cards()) {
    EXPECT_FALSE(card.formula.empty()) << card.id;
    EXPECT_FALSE(card.source.empty()) << card.id;
    if (!card.numbers) continue;
    EXPECT_FALSE(card.numbers(o, {}).empty() && card.numbers(of_series, {}).empty()) << card.id;
    for (const samples::Sample& sample : samples::all()) card.numbers(*sample.observation(), {});
  }
}

TEST(FormulaCards, EveryAxisAndColourBarHasOne) {
  for (const samples::Sample& sample : samples::all()) {
    CurveStore curves;
    for (const PlotKind& kind : plot_kinds()) {
      for (const Figure& figure : kind.prepare(*sample.observation(), {}, curves)) {
        std::vector<std::string> labels{figure.x.label, figure.y.label};
        for (const Series& series : figure.series) {
          if (const auto* map = std::get_if<HeatMap>(&series)) labels.push_back(map->value.label);
        }
        for (const std::string& label : labels)
          EXPECT_TRUE(label.empty() || card_of_axis(figure, label))
              << "no card for \"" << label << "\" of " << figure.id;
      }
    }
  }
}

TEST(FormulaCards, EveryTitleSeriesAndDotHasOne) {
  for (const samples::Sample& sample : samples::all()) {
    CurveStore curves;
    for (const PlotKind& kind : plot_kinds()) {
      for (const Figure& figure : kind.prepare(*sample.observation(), {}, curves)) {
        EXPECT_NE(card_of_figure(figure.id), nullptr) << "no card for the title of " << figure.id;
        for (const Series& series : figure.series) {
          EXPECT_NE(card_of_axis(figure, stem_of(series_name(series))), nullptr) << figure.id;
          const auto* dots = std::get_if<Scatter>(&series);
          for (const ScatterPoint& point : dots ? dots->points : std::vector<ScatterPoint>{})
            EXPECT_NE(card_of_point(figure, point.id), nullptr) << figure.id << ": " << point.id;
        }
      }
    }
  }
}

TEST(FormulaCards, ASquaredErrorHasNoNats) {
  const FormulaCard* loss = find_card("training_loss");
  EXPECT_NE(loss->numbers(samples::mid_training(), {}).find("nats"), std::string::npos);
  const std::string of_forecast = loss->numbers(samples::forecast(), {});
  EXPECT_FALSE(of_forecast.empty());
  EXPECT_EQ(of_forecast.find("nats"), std::string::npos) << of_forecast;
}

TEST(FormulaCards, EverySliderHasOne) {
  for (const SettingSpec& spec : training_settings()) EXPECT_NE(card_of_setting(spec.key), nullptr) << spec.key;
  for (const char* key : {"override K", "override ridge", "override gamma", "override eta", "override token"})
    EXPECT_NE(card_of_setting(key), nullptr) << key;
  for (const LayerKind& kind : layer_kinds()) {
    ParameterStore store;
    const auto layer = make_layer(kind.name, small_layer_config(kind, 32), ParameterScope(store, "layer"));
    for (const LayerSetting& setting : layer->settings())
      EXPECT_NE(card_of_setting("layers.0." + kind.name + "." + setting.key), nullptr)
          << kind.name << ", " << setting.key;
  }
}

TEST(FormulaCards, GoToLatex) {
  EXPECT_EQ(latex_of("θ − {m}/{√{v} + ε}"), "\\theta  - \\frac{m}{\\sqrt {v} + \\varepsilon }");
  EXPECT_EQ(latex_of("A_w = L⁻¹ M L⁻ᵀ,  G + εI = L Lᵀ"),
            "A_{w} = L^{-1} M L^{-\\top},  G + \\varepsilon I = L L^{\\top}");
  EXPECT_EQ(latex_of("|γ λ|^K"), "|\\gamma  \\lambda |^{K}");
  for (const FormulaCard& card : formula_cards()) {
    for (const char c : latex_of(card.formula))
      EXPECT_LT(static_cast<unsigned char>(c), 128) << card.id << ": " << card.formula;
  }
}

TEST(Panels, AClickOnARecordedStepRewinds) {
  NullWindow window(800, 600);
  window.show(samples::mid_training());
  PlotResponse response;
  response.clicked_point = response.hovered_point = "step 120";
  window.draw([&](Frame& frame) { handle_response(frame, response); });
  const auto sent = window.commands.take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].name, "rewind");
  EXPECT_EQ(sent[0].value, R"({"step":120})"_json);
}

TEST(Panels, EveryPlotHasAPanelAndAWorkspaceThatShowsIt) {
  ASSERT_EQ(panels().size(), plot_kinds().size());
  for (const PlotKind& kind : plot_kinds()) {
    ASSERT_NE(find_panel(kind.id), nullptr) << kind.id;
    EXPECT_EQ(find_panel(kind.id)->kind, &kind);
    EXPECT_NO_THROW(home_of(kind.id)) << kind.id;
  }
  EXPECT_EQ(find_panel("memory"), find_panel("state_size")) << "by its former name";
  EXPECT_EQ(find_panel(""), nullptr);
}

TEST(Panels, WorkspacesNamePlotsByTheirPresentIds) {
  for (const Workspace& workspace : workspaces()) {
    for (const WorkspaceRow& row : workspace.rows) {
      for (const WorkspacePanel& panel : row.panels) {
        for (const std::string_view id : {panel.id, panel.otherwise}) {
          if (id.empty()) continue;
          ASSERT_NE(find_panel(id), nullptr) << id;
          EXPECT_EQ(find_panel(id)->kind->id, id);
        }
      }
    }
  }
}

TEST(Panels, TheMoreThanAGridHaveDrawingsOfTheirOwn) {
  EXPECT_NE(find_panel("spectrum")->draw, draw_figure_grid);
  EXPECT_NE(find_panel("training")->draw_controls, nullptr);
  EXPECT_EQ(find_panel("gate")->draw, draw_figure_grid);
  EXPECT_EQ(find_panel("gate")->draw_controls, nullptr);
}

}  // namespace
}  // namespace afterglow
