// Frames take no memory with them: after any number of them the heap holds what it held.
#include <gtest/gtest.h>
#include <malloc.h>

#include "tests/support/sample_observations.h"
#include "tests/views/drawing/null_window.h"

namespace afterglow {
namespace {

TEST(FrameMemory, StaysTheSameHoweverManyFramesAreDrawn) {
  NullWindow window(1280, 800);
  std::vector<std::shared_ptr<const Observation>> run;
  for (const std::int64_t step : {300, 428, 500, 350})
    run.push_back(std::make_shared<const Observation>(samples::training_at(step)));
  // New data, a rewind, zooms, other smoothings, other workspaces, the pointer here and there.
  const auto round = [&] {
    for (int i = 0; i < 48; ++i) {
      window.show(run[static_cast<std::size_t>(i) % run.size()]);
      window.state.workspace = i % 24 < 16 ? "training" : "koopman";
      window.state.selection.smoothing = 0.5 + 0.01 * (i % 40);
      window.state.plots["training_loss"].x = Range{0.0 + i, 400.0 + i};
      window.mouse(20 * i, 10 * i);
      window.draw_page();
    }
    window.commands.take();
    return mallinfo2().uordblks;
  };
  for (int i = 0; i < 3; ++i) round();
  const std::size_t before = round();
  std::size_t after = before;
  for (int i = 0; i < 12; ++i) after = round();
  EXPECT_LE(after, before + 16 * 1024);
}

}  // namespace
}  // namespace afterglow
