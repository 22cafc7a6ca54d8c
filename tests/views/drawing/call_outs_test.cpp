// Hints of a first start: at most two, gone once the deed is done.
#include <gtest/gtest.h>

#include "tests/support/sample_observations.h"
#include "tests/views/drawing/null_window.h"

namespace afterglow {
namespace {

struct CallOuts : testing::Test {
  NullWindow window{1600, 1000};
  CallOuts() { window.show(samples::mid_training()); }
  int vertices() {
    window.draw_page(2);
    return window.vertices();
  }
};

TEST_F(CallOuts, AreDrawnBesideASlowModeAndTheRunButton) {
  const int without = vertices();
  ASSERT_TRUE(window.state.hints.dot) << "a mode that can be dragged is on the page";
  window.state.hints.is_drag_due = true;
  const int one = vertices();
  EXPECT_GT(one, without);
  window.state.hints.is_time_due = true;
  EXPECT_GT(vertices(), one);
}

TEST_F(CallOuts, GoWithTheirDeed) {
  HintState& hints = window.state.hints;
  hints.is_drag_due = hints.is_time_due = true;
  complete_hint(window.state, {"select", "{}"});
  EXPECT_TRUE(hints.is_drag_due && hints.is_time_due);
  complete_hint(window.state, {"drag_mode", "{}"});
  EXPECT_FALSE(hints.is_drag_due);
  EXPECT_TRUE(hints.is_time_due);
  complete_hint(window.state, {"toggle_run", "{}"});
  EXPECT_FALSE(hints.is_time_due);
}

TEST_F(CallOuts, StayAwayWhereNothingCanBeDraggedOrSomethingLiesOnTop) {
  window.state.hints.is_drag_due = window.state.hints.is_time_due = true;
  const int with = vertices();
  window.state.help_is_open = true;
  const int covered = vertices();
  window.state.hints.is_drag_due = window.state.hints.is_time_due = false;
  EXPECT_EQ(vertices(), covered);
  window.state.help_is_open = false;
  EXPECT_LT(vertices(), with);
  window.state.hints.is_drag_due = true;
  window.state.workspace = "training";
  vertices();
  EXPECT_FALSE(window.state.hints.dot);
}

}  // namespace
}  // namespace afterglow
