// Ctrl Z goes back through changes of the view and of the run in the order in which they were made.
#include "app/window/view_history.h"

#include <gtest/gtest.h>

#include "core/engine/session/command_handlers.h"

namespace afterglow {
namespace {

struct ViewHistoryTest : testing::Test {
  PageState page;
  ViewHistory history;
  double time = 0;

  ViewHistoryTest() { history.watch(page, false, time); }
  /// A frame some seconds later.
  void rest() { history.watch(page, false, time += 5); }
};

TEST_F(ViewHistoryTest, TakesZoomSharesAndSelectionBackOneByOne) {
  page.plots["training_loss"].x = Range{10, 20};
  rest();
  page.splits["koopman/0"] = {0.5, 0.5};
  rest();
  page.selection.mode = 3;
  rest();
  EXPECT_TRUE(history.undo(page));
  EXPECT_EQ(page.selection.mode, -1);
  EXPECT_TRUE(history.undo(page));
  EXPECT_TRUE(page.splits.empty());
  EXPECT_TRUE(page.plots["training_loss"].x.has_value());
  EXPECT_TRUE(history.undo(page));
  EXPECT_FALSE(page.plots["training_loss"].x.has_value());
  EXPECT_FALSE(history.undo(page)) << "nothing is left of the view: the engine's turn";
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(history.redo(page));
  EXPECT_EQ(page.selection.mode, 3);
  EXPECT_EQ(page.plots["training_loss"].x->high, 20);
}

TEST_F(ViewHistoryTest, ChangesOfTheRunKeepTheirPlaceBetween) {
  page.selection.head = 1;
  rest();
  history.note({"set", R"({"key": "clip", "to": 2})"});
  page.selection.head = 2;
  rest();
  EXPECT_TRUE(history.undo(page));
  EXPECT_EQ(page.selection.head, 1);
  EXPECT_FALSE(history.undo(page)) << "the slider";
  EXPECT_TRUE(history.undo(page));
  EXPECT_EQ(page.selection.head, 0);
  EXPECT_TRUE(history.redo(page));
  EXPECT_FALSE(history.redo(page)) << "the slider again";
  EXPECT_TRUE(history.redo(page));
  EXPECT_EQ(page.selection.head, 2);
}

TEST_F(ViewHistoryTest, WhatTheRunTakesBackIsItsTurn) {
  int edits = 0;
  for (const CommandSpec& spec : command_table()) {
    if (!is_undoable(spec.name)) continue;
    ++edits;
    history.note({std::string(spec.name), std::string(spec.example)});
    page.selection.head += 1;
    rest();
    EXPECT_TRUE(history.undo(page)) << "the head";
    EXPECT_FALSE(history.undo(page)) << spec.name;
  }
  EXPECT_GE(edits, 12);
}

TEST_F(ViewHistoryTest, ADragIsOneChange) {
  for (int i = 0; i < 9; ++i) history.note({"drag_mode", R"({"mode": 0, "re": 0.5, "im": 0, "live": true})"});
  history.note({"drag_mode", R"({"mode": 0, "re": 0.5, "im": 0})"});
  history.note({"drag_mode", R"({"mode": 1, "re": 0.5, "im": 0})"});
  for (int i = 0; i < 9; ++i) {
    page.plots["p"].x = Range{0, 10.0 + i};
    history.watch(page, i < 5, time += 0.05);  // held at first, then wheel notches that follow at once
  }
  EXPECT_TRUE(history.undo(page));
  EXPECT_FALSE(page.plots["p"].x.has_value());
  PageState other = page;
  EXPECT_FALSE(history.undo(other));
  EXPECT_FALSE(history.undo(other));
  other.selection.mode = 7;
  history.watch(other, false, time += 5);
  EXPECT_TRUE(history.undo(other)) << "the two drags after it are gone";
  EXPECT_FALSE(history.undo(other));
}

TEST_F(ViewHistoryTest, WhatIsNoChangeLeavesNothing) {
  history.note({"rewind", R"({"by": 1})"});
  history.note({"load", R"({"preset": "tiny"})"});
  page.plots["drawn"];
  rest();
  page.workspace = "training";
  history.accept(page);
  rest();
  EXPECT_FALSE(history.undo(page)) << "the page of a run that was opened";
}

TEST_F(ViewHistoryTest, TakesThePageTheEnlargedPanelAndTheTokenBack) {
  page.workspace = "training";
  rest();
  page.maximised = "loss";
  rest();
  page.selection.token = 7;
  rest();
  page.selection.smoothing = 0.5;
  rest();
  page.panel_page = 1;
  rest();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(history.undo(page));
  EXPECT_EQ(page.panel_page, 0);
  EXPECT_EQ(page.selection.smoothing, Selection().smoothing);
  EXPECT_EQ(page.selection.token, -1);
  EXPECT_EQ(page.maximised, "loss");
  EXPECT_TRUE(history.undo(page));
  EXPECT_EQ(page.maximised, "");
  EXPECT_EQ(page.workspace, "training");
  EXPECT_TRUE(history.undo(page));
  EXPECT_EQ(page.workspace, "koopman");
  EXPECT_FALSE(history.undo(page));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(history.redo(page));
  EXPECT_EQ(page.workspace, "training");
  EXPECT_EQ(page.maximised, "loss");
  EXPECT_EQ(page.selection.token, 7);
}

TEST_F(ViewHistoryTest, AWalkAlongTheTokensIsOneChange) {
  for (int token = 0; token < 9; ++token) {
    page.selection.token = token;
    history.watch(page, false, time += 0.1);
  }
  EXPECT_TRUE(history.undo(page));
  EXPECT_EQ(page.selection.token, -1);
  EXPECT_FALSE(history.undo(page));
}

}  // namespace
}  // namespace afterglow
