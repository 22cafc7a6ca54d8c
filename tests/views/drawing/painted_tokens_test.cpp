// The right button on the chips of the inspected sequence: paints tokens out of a layer's sums and in again.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/engine/analyses/inspected/inspected_view.h"
#include "tests/support/sample_observations.h"
#include "tests/views/drawing/null_window.h"

namespace afterglow {
namespace {

using nlohmann::json;

struct PaintedTokens : testing::Test {
  NullWindow window{1600, 1000};

  PaintedTokens() { window.state.workspace = "probe"; }
  void show(double weight) {
    Observation seen = samples::inspected();
    auto view = std::make_shared<InspectedView>(*seen.inspected);
    view->summed_layer = 3;
    view->sum_weights.assign(view->tokens.size(), weight);
    seen.inspected = view;
    window.show(std::move(seen));
    window.draw_page(3);
  }
  /// What a drag of the right button to the right sends, in the row of the chips.
  std::vector<json> drag() {
    for (const ShownPanel& panel : std::vector(window.state.drawn.panels)) {  // a frame makes them anew
      if (panel.panel != "probe") continue;
      for (double y = panel.area.y + 20; y < panel.area.y + 90; y += 8) {
        const double x = panel.area.x + 60;
        window.mouse(x, y);
        window.draw_page(2);
        window.button(true, 1);
        for (int i = 0; i < 3; ++i) {
          window.mouse(x + 27 * i, y);
          window.draw_page(2);
        }
        window.button(false, 1);
        window.draw_page(2);
        std::vector<json> sent;
        bool opens_a_menu = false;
        for (const Command& command : window.commands.take()) {
          opens_a_menu = opens_a_menu || command.name == "menu";
          if (command.name == "mask") sent.push_back(command.value);
        }
        if (sent.empty()) continue;
        EXPECT_FALSE(opens_a_menu);
        return sent;
      }
    }
    return {};
  }
};

TEST_F(PaintedTokens, AreTheNeighboursUnderADragAndEndInOneChange) {
  for (const double weight : {1.0, 0.4, 0.0}) {
    show(weight);
    const std::vector<json> sent = drag();
    ASSERT_EQ(sent.size(), 4u) << weight;
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(sent[i]["tokens"], sent[0]["tokens"].get<int>() + i);
      EXPECT_EQ(sent[i]["live"], true);
      EXPECT_EQ(sent[i]["layer"], 3);
      EXPECT_EQ(sent[i]["to"], weight > 0 ? 0.0 : 1.0);
    }
    EXPECT_EQ(sent[3]["tokens"], sent[2]["tokens"]);
    EXPECT_EQ(sent[3]["live"], false);
  }
}

TEST_F(PaintedTokens, AreNoneInALockedWindowOrWithoutSums) {
  show(1);
  window.state.presentation.is_locked = true;
  EXPECT_TRUE(drag().empty());
  window.state.presentation.is_locked = false;
  window.show(samples::inspected());
  window.draw_page(3);
  EXPECT_TRUE(drag().empty());
}

}  // namespace
}  // namespace afterglow
