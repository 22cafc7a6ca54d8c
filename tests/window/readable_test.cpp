// What a hall can read: while presenting, no text of the lesson, and none of a panel that it points at, is smaller than
// a fortieth of the window's height. Measured on what was drawn.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "app/window/lesson_player.h"
#include "core/recipe/lesson_plan.h"
#include "tests/support/sample_observations.h"
#include "tests/views/drawing/null_window.h"
#include "views/page/page.h"
#include "views/panels/panel.h"
#include "views/widgets/widgets.h"

namespace afterglow {
namespace {

struct HallSize {
  int width, height;
};

/// The window as it is while presenting at a size.
struct Hall {
  explicit Hall(HallSize size)
      : window(size.width, size.height, "projector", presenting_scale(size.height) / projector_theme().text_scale),
        limit(size.height / 40.0) {
    window.state.presentation.is_on = true;
    window.show(samples::mid_training());
  }
  /// Signs that are too small. A script or a part of a fraction is smaller than the text that it belongs to, which
  /// is right next to it and is large enough.
  std::vector<NullWindow::Sign> too_small(const Rect& area) const {
    const std::vector<NullWindow::Sign> all = window.signs();
    const auto is_large = [&](const NullWindow::Sign& sign) { return sign.size > 0.98 * limit; };
    std::vector<NullWindow::Sign> small;
    for (const NullWindow::Sign& sign : all) {
      const Point middle{sign.box.x + sign.box.width / 2, sign.box.y + sign.box.height / 2};
      if (is_large(sign) || !area.contains(middle)) continue;
      const bool has_base = std::ranges::any_of(all, [&](const NullWindow::Sign& base) {
        return is_large(base) && sign.size > 0.49 * base.size && std::abs(base.box.x - sign.box.x) < 4 * limit &&
               std::abs(base.box.y - sign.box.y) < 1.2 * limit;
      });
      if (!has_base) small.push_back(sign);
    }
    return small;
  }
  NullWindow window;
  double limit;
};

std::string text_of(const std::vector<NullWindow::Sign>& signs) {
  std::string text;
  for (const NullWindow::Sign& sign : signs)
    text += (sign.character < 128 ? std::string(1, static_cast<char>(sign.character)) : "?") + " " +
            std::to_string(sign.size) + " at " + std::to_string(static_cast<int>(sign.box.x)) + "," +
            std::to_string(static_cast<int>(sign.box.y)) + "; ";
  return text;
}

struct ReadableInAHall : testing::TestWithParam<HallSize> {};

TEST_P(ReadableInAHall, EveryStepOfEveryLesson) {
  Hall hall(GetParam());
  PageState& page = hall.window.state;
  for (const ShippedLesson& shipped : shipped_lessons()) {
    open_lesson_on(page, shipped.name);
    for (std::size_t step = 0; step < page.lesson.plans->size(); ++step) {
      begin_lesson_step(page, static_cast<std::int64_t>(step));
      const LessonStepPlan& plan = (*page.lesson.plans)[step];
      for (const int said : {0, 1, 2, 3, 4, 5}) {  // before the question, while it is open, when it is decided
        if (said % 3 > 0 && !plan.question) continue;
        page.maximised = said < 3 ? "spectrum" : "";  // with a picture, and text alone
        page.lesson.asks = said % 3 == 1;
        page.lesson.answered = said % 3 == 2 ? 1 : 0;
        page.lesson.deed = said % 3 == 2 ? plan.deeds.size() : 0;
        hall.window.draw_page(2);
        ASSERT_FALSE(hall.window.signs().empty());
        const auto where = shipped.name + " step " + std::to_string(step + 1) + ", " + std::to_string(said);
        const auto size = GetParam();
        const LessonPlace place = lesson_place(page, hall.window.look, {0, 0, 1.0 * size.width, 1.0 * size.height});
        EXPECT_EQ(text_of(hall.too_small(place.text)), "") << where;
        EXPECT_EQ(text_of(hall.too_small(place.foot)), "") << where;
        EXPECT_FALSE(page.lesson.is_cut) << where;
      }
    }
  }
}

TEST_P(ReadableInAHall, EveryPanelThatALessonPointsAt) {
  Hall hall(GetParam());
  PageState& page = hall.window.state;
  for (const ShippedLesson& shipped : shipped_lessons()) {
    open_lesson_on(page, shipped.name);
    for (const LessonStep& step : page.lesson.lesson->steps) {
      for (const LessonLine& line : step.lines) {
        if (line.word != LessonWord::focus && line.word != LessonWord::highlight) continue;
        for (const std::string& name : read_names(line)) {
          const Panel* panel = find_panel(name);
          if (!panel) continue;
          page.maximised = panel->kind->id;
          if (line.word == LessonWord::focus) page.shown_figure[page.maximised] = read_focus(line).figure - 1;
          hall.window.draw_page(2);
          ASSERT_EQ(page.drawn.panels.size(), 1u);
          EXPECT_EQ(text_of(hall.too_small(page.drawn.panels.front().area)), "") << line.place << " " << name;
        }
      }
    }
  }
}

/// What is written in an area, sign by sign.
std::string text_in(const NullWindow& window, const Rect& area) {
  std::string text;
  for (const NullWindow::Sign& sign : window.signs()) {
    if (area.contains({sign.box.x, sign.box.y}) && sign.character < 128) text += static_cast<char>(sign.character);
  }
  return text;
}

TEST(Hall, SeesThePanelsThatTheLessonPointsAtAlone) {
  Hall hall({1280, 720});
  PageState& page = hall.window.state;
  open_lesson_on(page, "tour");
  begin_lesson_step(page, 1);  // highlights one of the page's panels
  hall.window.draw_page(2);
  std::vector<std::string> shown;
  for (const ShownPanel& panel : page.drawn.panels) shown.push_back(panel.panel);
  EXPECT_EQ(shown, (std::vector<std::string>{"spectrum"}));
}

TEST(Hall, TheCircleTakesTheHeightOfTheScreen) {
  for (const HallSize size : {HallSize{1280, 720}, HallSize{1920, 1080}}) {
    Hall hall(size);
    PageState& page = hall.window.state;
    hall.window.show(samples::mid_training());
    open_lesson_on(page, "01_forgetting_is_a_circle");
    begin_lesson_step(page, 2);
    page.maximised = "spectrum";
    hall.window.draw_page(2);
    const auto plot = std::ranges::find_if(page.drawn.plots,
                                           [](const ShownPlot& one) { return one.plot.starts_with("spectrum_layer"); });
    ASSERT_NE(plot, page.drawn.plots.end());
    const double pixels_per_unit = plot->area.height / (plot->y.high - plot->y.low);
    EXPECT_GT(2 * pixels_per_unit, 0.8 * size.height) << "the diameter of the unit circle";
    EXPECT_LT(2 * pixels_per_unit, plot->area.width) << "all of it is seen";
  }
}

TEST(Hall, APlotThatALessonChoosesAloneHasTheHeightOfTheSlide) {
  for (const HallSize size : {HallSize{1280, 720}, HallSize{1920, 1080}, HallSize{1024, 768}}) {
    Hall hall(size);
    PageState& page = hall.window.state;
    std::set<std::string> seen;
    for (const ShippedLesson& shipped : shipped_lessons()) {
      open_lesson_on(page, shipped.name);
      for (const LessonStep& step : page.lesson.lesson->steps) {
        for (const LessonLine& line : step.lines) {
          if (line.word != LessonWord::focus || read_focus(line).figure == 0) continue;
          page.maximised = read_focus(line).panel;
          page.shown_figure[page.maximised] = read_focus(line).figure - 1;
          hall.window.draw_page(2);
          if (page.drawn.plots.size() != 1) continue;  // the sample has none
          seen.insert(page.maximised);
          EXPECT_GT(page.drawn.plots.front().area.height, 0.6 * size.height) << line.place << " " << line.text;
        }
      }
    }
    EXPECT_GE(seen.size(), 5u);
  }
}

TEST(Hall, AtADeskTheOtherPanelsStayBesideThoseThatTheLessonPointsAt) {
  NullWindow desk(1600, 1000);
  desk.show(samples::mid_training());
  open_lesson_on(desk.state, "tour");
  begin_lesson_step(desk.state, 1);
  desk.draw_page(2);
  EXPECT_GT(desk.state.drawn.panels.size(), 2u);
}

TEST(Hall, AFixedExperimentIsAwaitedForAnyModel) {
  Hall hall({1280, 720});
  Observation o = samples::mid_training();
  o.influence = nullptr;
  hall.window.show(o);
  hall.window.state.maximised = "deep_profiles";
  hall.window.draw_page(2);
  const std::string text = text_in(hall.window, hall.window.state.drawn.panels.front().area);
  EXPECT_EQ(text.find("Needs"), std::string::npos) << text;
}

TEST(Hall, TheFirstSystemsAreAwaitedWithoutAClick) {
  const std::string text = find_plot_kind("conditioning")->subtitle(Observation(), Selection());
  EXPECT_EQ(text.find("click"), std::string::npos) << text;
}

INSTANTIATE_TEST_SUITE_P(Sizes, ReadableInAHall,
                         testing::Values(HallSize{1280, 720}, HallSize{1920, 1080}, HallSize{1024, 768}),
                         [](const auto& size) {
                           return std::to_string(size.param.width) + "x" + std::to_string(size.param.height);
                         });

}  // namespace
}  // namespace afterglow
