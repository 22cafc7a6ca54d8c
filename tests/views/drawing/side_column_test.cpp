// The side column under a hand: the wheel scrolls it, nothing below a number that is yet to come moves.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tests/support/sample_observations.h"
#include "tests/views/drawing/null_window.h"

namespace afterglow {
namespace {

struct SideColumn : testing::Test {
  static constexpr double middle = 130;
  NullWindow window{264, 1200};
  double height = 1200;

  void draw(int frames = 1) {
    for (int i = 0; i < frames; ++i) {
      window.state.drawn.sliders.clear();
      window.state.pointer.wheel_is_taken = false;
      window.draw([&](Frame& frame) { draw_side_column(frame, {0, 0, 264, height}); });
    }
  }
  /// The slider whose track a click at this height meets.
  std::string slider_at(double y) {
    window.state.focus.slider.clear();
    window.mouse(middle, y);
    draw(2);
    for (const bool is_down : {true, false}) {
      window.button(is_down);
      draw();
    }
    draw(30);  // or the next click would count as its second one
    return window.state.focus.slider;
  }
  /// Height of the last slider's track; -1 when it is not found.
  double last_slider() {
    draw();
    for (double y = height; y > 0; y -= 8) {
      const std::string found = slider_at(y);
      if (!found.empty()) return found == window.state.drawn.sliders.back() ? y : -1;
    }
    return -1;
  }
};

TEST_F(SideColumn, TheWheelScrollsAndChangesNothing) {
  window.show(samples::mid_training());
  height = 300;
  draw(2);
  std::string above;
  double y = height;
  for (; y > 100 && above.empty(); y -= 8) above = slider_at(y);
  window.state.focus.slider.clear();
  window.commands.take();
  for (double at = 20; at < height; at += 20) {
    window.mouse(middle, at);
    draw();
    window.wheel(-1);
    draw();
  }
  EXPECT_TRUE(window.commands.take().empty()) << "scrolling sends nothing";
  const std::string below = slider_at(y);
  ASSERT_FALSE(window.state.drawn.sliders.empty());
  EXPECT_NE(above, below.empty() ? slider_at(y - 20) : below) << "other rows are drawn there now";
}

TEST_F(SideColumn, ATurnThatScrolledChangesNothingThatComesUnderThePointer) {
  window.show(samples::mid_training());
  const double y = last_slider();
  ASSERT_GT(y, 0);
  window.commands.take();
  window.mouse(middle, 20);
  draw(2);
  window.wheel(-1);
  draw();
  window.mouse(middle, y);
  draw(2);
  window.wheel(-1);
  draw(2);
  EXPECT_TRUE(window.commands.take().empty());
  draw(60);
  window.wheel(-1);
  draw(2);
  EXPECT_EQ(window.commands.take().size(), 1u) << "after a rest the chosen slider takes the wheel";
}

TEST_F(SideColumn, RowsStayWhereTheyAreWhileNumbersCome) {
  const Observation whole = samples::mid_training();
  ASSERT_TRUE(whole.spectra && !whole.runs.empty());
  window.show(whole);
  const double place = last_slider();
  ASSERT_GT(place, 0);
  const auto place_of = [&](const std::function<void(Observation&)>& change) {
    Observation changed = whole;
    change(changed);
    window.show(changed);
    return last_slider();
  };
  EXPECT_EQ(place_of([](Observation& o) { o.runs.back().accuracy = {}; }), place);
  EXPECT_EQ(place_of([](Observation& o) { o.runs.back().held_out_accuracy = {}; }), place);
  EXPECT_EQ(place_of([](Observation& o) { o.runs.clear(); }), place);
  EXPECT_EQ(place_of([](Observation& o) { o.runs.assign(5, o.runs.back()); }), place);
  EXPECT_EQ(place_of([](Observation& o) { o.spectra = nullptr; }), place);
  EXPECT_EQ(place_of([](Observation& o) { o.inspected = samples::inspected().inspected; }), place);
  EXPECT_EQ(place_of([](Observation& o) { o.inspected = nullptr; }), place);
}

}  // namespace
}  // namespace afterglow
