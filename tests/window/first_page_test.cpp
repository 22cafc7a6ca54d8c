// What the page wants to know with which the window opens.
#include <gtest/gtest.h>

#include "app/cli/bench_publish.h"
#include "views/figures/plot_analyses.h"
#include "views/page/page.h"

namespace afterglow {
namespace {

TEST(FirstPage, AsksForWhatTheBenchmarkOfItMeasures) {
  ASSERT_EQ(workspaces().front().id, PageState().workspace);
  Analyses analyses = 0;
  for (const WorkspaceRow& row : workspaces().front().rows) {
    for (const auto& [panel, share] : row.panels) analyses |= analyses_for(panel);
  }
  EXPECT_EQ(analyses, first_page_analyses);
}

}  // namespace
}  // namespace afterglow
