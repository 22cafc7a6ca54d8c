// Clicks on the accuracy grid.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "core/engine/analyses/accuracy/accuracy_view.h"
#include "tests/support/sample_observations.h"
#include "tests/views/drawing/null_window.h"

namespace afterglow {
namespace {

using Cell = std::pair<int, int>;  // bindings, length

struct AccuracyPanel : testing::Test {
  NullWindow window{1280, 800};
  Observation o = samples::mid_training();
  AccuracyPanel() {
    window.state.workspace = "training";
    window.state.maximised = "accuracy_grid";
  }
  /// What clicks all over the first map send.
  std::vector<Command> click_everywhere() {
    window.show(o);
    window.draw_page(3);
    const Rect area = window.state.drawn.plots.front().area;
    std::vector<Command> all;
    for (int i = 1; i < 16; ++i) {
      for (int j = 1; j < 12; ++j) {
        for (Command& sent : window.click(area.x + area.width * i / 16, area.y + area.height * j / 12)) {
          if (sent.name == "probe" || sent.name == "workspace") all.push_back(std::move(sent));
        }
      }
    }
    return all;
  }
};

TEST_F(AccuracyPanel, EveryCellThatFitsCanBeProbed) {
  std::set<Cell> wanted, inspected;
  for (const AccuracyCell& cell : o.accuracy->grids.front().cells) {
    if (cell.fits) wanted.insert({cell.bindings, cell.length});
  }
  for (const Command& sent : click_everywhere()) {
    ASSERT_EQ(sent.name, "probe") << "this page shows the tokens: there is no need to leave it";
    const nlohmann::json task = sent.value["task"];
    EXPECT_EQ(task["kind"], o.accuracy->grids.front().task);
    inspected.insert({task["bindings"].get<int>(), task["length"].get<int>()});
  }
  EXPECT_EQ(inspected, wanted);
}

TEST_F(AccuracyPanel, WhereNoTokensAreShownAClickGoesWhereTheyAre) {
  o.trace = nullptr;
  const std::vector<Command> sent = click_everywhere();
  ASSERT_GE(sent.size(), 2u);
  EXPECT_EQ(sent[0].name, "probe");
  EXPECT_EQ(sent[1].name, "workspace");
  EXPECT_EQ(sent[1].value, R"({"name":"probe"})"_json);
}

}  // namespace
}  // namespace afterglow
