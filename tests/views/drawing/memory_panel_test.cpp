// The sliders above the inspector of training's memory.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "tests/support/sample_observations.h"
#include "tests/views/drawing/null_window.h"
#include "views/panels/panel.h"
#include "views/widgets/plot_widget.h"
#include "views/widgets/sliders.h"

namespace afterglow {
namespace {

struct MemoryPanel : testing::Test {
  NullWindow window{900, 700};
  Observation o = samples::forecast();
  double height = 700;

  MemoryPanel() {
    o.settings.push_back({"memory.modes", "memory Modes kept K'", "", "", 8, 0, 8, 8, false, true});
    o.settings.push_back({"memory.rows", "memory Rows kept T'", "", "", 400, 8, 400, 400, false, true});
    window.show(o);
  }
  void draw(int frames = 1) {
    for (int i = 0; i < frames; ++i) {
      window.state.drawn.sliders.clear();
      window.draw([&](Frame& frame) {
        const Panel& panel = *find_panel("memory_inspector");
        panel.draw(frame, panel, memory_figures(frame), {0, 0, 900, height});
      });
    }
  }
  std::vector<Figure> memory_figures(Frame& frame) {
    CurveStore curves;
    return find_panel("memory_inspector")->kind->prepare(frame.seen(), {}, curves);
  }
};

TEST_F(MemoryPanel, ADragUsesLessOfTheMemory) {
  draw(2);
  EXPECT_EQ(std::set<std::string>(window.state.drawn.sliders.begin(), window.state.drawn.sliders.end()),
            (std::set<std::string>{"inspector.memory.modes", "inspector.memory.rows"}));
  // The knob of the first slider stands at its right end.
  window.mouse(120, 25);
  draw(2);
  window.button(true);
  draw();
  window.mouse(60, 25);
  draw();
  window.button(false);
  draw(2);
  const auto sent = window.commands.take();
  ASSERT_FALSE(sent.empty());
  EXPECT_EQ(sent.back().name, "set");
  const nlohmann::json value = sent.back().value;
  EXPECT_EQ(value["key"], "memory.modes") << "the setting itself, whatever the slider is called";
  EXPECT_LT(value["to"].get<double>(), 8);
}

TEST_F(MemoryPanel, ASmallPanelHasItsPlotsAlone) {
  height = 240;
  draw(2);
  EXPECT_TRUE(window.state.drawn.sliders.empty());
}

TEST_F(MemoryPanel, AModelWithoutMemoryHasNoSliders) {
  o.memory = nullptr;
  window.show(o);
  draw(2);
  EXPECT_TRUE(window.state.drawn.sliders.empty());
}

}  // namespace
}  // namespace afterglow
