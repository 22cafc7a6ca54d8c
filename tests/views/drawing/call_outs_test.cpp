// The hint of a first start: in the panel of the spectrum, about the mode that the answers need, with measured numbers.
#include <gtest/gtest.h>

#include <set>

#include "core/engine/analyses/inspected/inspected_view.h"
#include "core/engine/observation/causes_view.h"
#include "tests/support/sample_observations.h"
#include "tests/views/drawing/null_window.h"
#include "views/analyses/causes/causes_figures.h"

namespace afterglow {
namespace {

struct DragHints : testing::Test {
  NullWindow window{1600, 1000};
  Observation seen = samples::mid_training();

  /// What the panel of the spectrum says, without spaces.
  std::string said() {
    window.show(seen);
    window.draw_page(2);
    std::string text;
    for (const NullWindow::Sign& sign : window.signs())
      text += sign.character < 128 ? static_cast<char>(sign.character) : '?';
    return text;
  }
  /// Every part is measured, and mode 1 of the selected head costs most.
  void measure(double without) {
    auto view = std::make_shared<AblationView>();
    view->step = seen.step;
    view->accuracy = 1;
    view->is_complete = true;
    const HeadSpectrum& head = *selected_head(seen, window.state.selection);
    view->parts = {{"one", "mode", head.layer, head.head, 1, without, 1},
                   {"two", "mode", head.layer, head.head, 0, 0.995, 1}};
    seen.ablation = view;
  }
  void learn(double accuracy) {
    seen.runs.back().held_out_accuracy = std::vector<double>{accuracy};
    if (const InspectedView* old = seen.inspected.get()) {
      auto plain = std::make_shared<InspectedView>(*old);
      plain->setup.interventions = {};
      seen.inspected = plain;
    }
  }
};

TEST_F(DragHints, PointsAtTheModeThatTheAnswersNeedWithItsMeasuredCost) {
  window.state.hints.is_drag_due = true;
  learn(1);
  measure(0.61);
  const std::string text = said();
  if (window.signs().empty()) GTEST_SKIP() << "this Dear ImGui does not tell its signs";
  EXPECT_EQ(window.state.hints.mode, 1);
  EXPECT_TRUE(window.state.hints.dot) << "its dot is on the page";
  EXPECT_NE(text.find("100%?61%"), std::string::npos) << text;
}

TEST_F(DragHints, SaysNoNumberThatIsNotMeasured) {
  window.state.hints.is_drag_due = true;
  learn(0.5);
  seen.ablation = nullptr;
  if (said(); window.signs().empty()) GTEST_SKIP() << "this Dear ImGui does not tell its signs";
  EXPECT_NE(said().find("Watch:"), std::string::npos);
  learn(1);
  EXPECT_NE(said().find("Measuring"), std::string::npos);
  measure(0.99);
  EXPECT_EQ(said().find("Dragit"), std::string::npos) << "no mode matters";
}

TEST_F(DragHints, GoWithTheirDeedAndStayAwayUnderALock) {
  window.state.hints.is_drag_due = true;
  learn(1);
  measure(0.61);
  window.state.presentation.is_locked = true;
  EXPECT_EQ(said().find("Dragit"), std::string::npos);
  window.state.presentation.is_locked = false;
  complete_hint(window.state, {"select"});
  EXPECT_TRUE(window.state.hints.is_drag_due);
  complete_hint(window.state, {"drag_mode"});
  EXPECT_FALSE(window.state.hints.is_drag_due);
}

TEST(Introduction, OffersTourAndLessonsUntilItIsClosed) {
  NullWindow window(1280, 720);
  window.show(samples::mid_training());
  window.draw_page(2);
  const double without = window.state.drawn.panels.front().area.y;
  window.state.hints.is_intro_due = true;
  window.draw_page(2);
  EXPECT_GT(window.state.drawn.panels.front().area.y, without);
  std::set<std::string> sent;
  for (int x = 280; x < 1280; x += 10) {
    for (const Command& command : window.click(x, without + 28)) sent.insert(command.name);
  }
  EXPECT_EQ(sent, (std::set<std::string>{"hints", "lesson"}));
  window.state.presentation.is_locked = true;
  window.draw_page(2);
  EXPECT_EQ(window.state.drawn.panels.front().area.y, without) << "a lock leaves nothing that cannot be done";
}

}  // namespace
}  // namespace afterglow
