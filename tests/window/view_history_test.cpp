// Ctrl Z goes back through changes of the view and of the run in the order in which they were made.
#include "app/window/view_history.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/core/session/turned_worker.h"

namespace afterglow {
namespace {

/// A page whose commands to the engine are only counted.
struct ViewHistoryTest : testing::Test {
  PageState page;
  ViewHistory history{page};
  double time = 0;
  std::uint64_t sent = 0;
  Journal::Times run;

  ViewHistoryTest() { history.watch(false, time, sent); }
  /// A frame some seconds later.
  void rest() { history.watch(false, time += 5, sent); }
  /// The run makes a change.
  void change_run() { run = {++sent, std::nullopt, sent}; }
  bool undo() { return history.act(true, run, sent); }
  bool redo() { return history.act(false, run, sent); }
};

TEST_F(ViewHistoryTest, TakesZoomSharesAndSelectionBackOneByOne) {
  page.plots["training_loss"].x = Range{10, 20};
  rest();
  page.splits["koopman/0"] = {0.5, 0.5};
  rest();
  page.selection.mode = 3;
  rest();
  EXPECT_TRUE(undo());
  EXPECT_EQ(page.selection.mode, -1);
  EXPECT_TRUE(undo());
  EXPECT_TRUE(page.splits.empty());
  EXPECT_TRUE(page.plots["training_loss"].x.has_value());
  EXPECT_TRUE(undo());
  EXPECT_FALSE(page.plots["training_loss"].x.has_value());
  EXPECT_FALSE(undo()) << "nothing is left of the view: the engine's turn";
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(redo());
  EXPECT_EQ(page.selection.mode, 3);
  EXPECT_EQ(page.plots["training_loss"].x->high, 20);
}

TEST_F(ViewHistoryTest, ChangesOfTheRunKeepTheirPlaceBetween) {
  page.selection.head = 1;
  rest();
  change_run();
  page.selection.head = 2;
  rest();
  EXPECT_TRUE(undo());
  EXPECT_EQ(page.selection.head, 1);
  EXPECT_FALSE(undo()) << "the slider";
  run = {std::nullopt, ++sent, run.change};
  EXPECT_TRUE(undo());
  EXPECT_EQ(page.selection.head, 0);
  EXPECT_TRUE(redo());
  EXPECT_FALSE(redo()) << "the slider again";
  run = {++sent, std::nullopt, run.change};
  EXPECT_TRUE(redo());
  EXPECT_EQ(page.selection.head, 2);
}

TEST_F(ViewHistoryTest, WhatAGestureDoesToTheRunIsTakenBackBeforeWhatItDoesToTheView) {
  history.watch(true, time += 5, sent);
  page.selection.mode = 4;  // a dragged mode is chosen for its readout
  change_run();
  rest();
  EXPECT_FALSE(undo()) << "the drag";
  EXPECT_EQ(page.selection.mode, 4);
  run.undo.reset();
  EXPECT_TRUE(undo());
  EXPECT_EQ(page.selection.mode, -1);
}

TEST_F(ViewHistoryTest, ChangesThatTheRunHasForgottenAreNotWaitedFor) {
  page.selection.head = 1;
  rest();
  change_run();
  run.undo.reset();  // a rewind, another run, or a command that was refused
  EXPECT_TRUE(undo());
  EXPECT_EQ(page.selection.head, 0);
}

TEST_F(ViewHistoryTest, AChangeAfterTheLastCommandIsTheNewestWhateverTheEngineAnswers) {
  page.selection.head = 1;
  rest();
  EXPECT_TRUE(history.is_newest(true, sent));
  ++sent;
  EXPECT_FALSE(history.is_newest(true, sent));
  page.selection.head = 2;
  rest();
  EXPECT_TRUE(history.is_newest(true, sent));
  EXPECT_FALSE(history.is_newest(false, sent)) << "nothing to repeat";
}

TEST_F(ViewHistoryTest, WheelNotchesThatFollowAtOnceAreOneChange) {
  for (int i = 0; i < 9; ++i) {
    page.plots["p"].x = Range{0, 10.0 + i};
    history.watch(i < 5, time += 0.05, sent);  // held at first
  }
  EXPECT_TRUE(undo());
  EXPECT_FALSE(page.plots["p"].x.has_value());
  EXPECT_FALSE(undo());
}

TEST_F(ViewHistoryTest, ACommandInBetweenSeparatesTwoChanges) {
  page.selection.token = 1;
  history.watch(false, time += 0.1, sent);
  change_run();
  page.selection.token = 2;
  history.watch(false, time += 0.1, sent);
  EXPECT_TRUE(undo());
  EXPECT_EQ(page.selection.token, 1);
  EXPECT_FALSE(undo());
}

TEST_F(ViewHistoryTest, WhatIsNoChangeLeavesNothing) {
  page.plots["drawn"];
  rest();
  page.workspace = "training";
  history.accept();
  rest();
  EXPECT_FALSE(undo()) << "the page of a run that was opened";
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
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(undo());
  EXPECT_EQ(page.selection.smoothing, Selection().smoothing);
  EXPECT_EQ(page.selection.token, -1);
  EXPECT_EQ(page.maximised, "loss");
  EXPECT_TRUE(undo());
  EXPECT_EQ(page.maximised, "");
  EXPECT_EQ(page.workspace, "training");
  EXPECT_TRUE(undo());
  EXPECT_EQ(page.workspace, "koopman");
  EXPECT_FALSE(undo());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(redo());
  EXPECT_EQ(page.workspace, "training");
  EXPECT_EQ(page.maximised, "loss");
  EXPECT_EQ(page.selection.token, 7);
}

TEST_F(ViewHistoryTest, AWalkAlongTheTokensIsOneChange) {
  for (int token = 0; token < 9; ++token) {
    page.selection.token = token;
    history.watch(false, time += 0.1, sent);
  }
  EXPECT_TRUE(undo());
  EXPECT_EQ(page.selection.token, -1);
  EXPECT_FALSE(undo());
}

/// A page with a session behind it, as the window loop joins them.
struct PageAndRun {
  PageState page;
  ViewHistory history{page};
  TurnedWorker turned;
  std::shared_ptr<const Observation> seen;
  std::uint64_t sent = 0;
  double time = 0;

  PageAndRun() {
    turned.box.request(0);
    seen = send({"step", R"({"count": 6})"_json});
    frame();
  }
  std::shared_ptr<const Observation> send(const Command& command) {
    ++sent;
    return seen = turned.after(command);
  }
  void frame() { history.watch(false, time += 5, sent); }
  /// One Ctrl Z or Ctrl Y; false if there is nothing left.
  bool act(bool undoes) {
    const Journal::Times run = seen->journal;
    if (history.act(undoes, run, sent)) return true;
    if (!undoes && history.ends_redo(run)) return false;
    send({undoes ? "undo" : "redo"});
    return (undoes ? run.undo : run.redo).has_value();
  }
  /// Weights, recipe and view.
  std::string state() {
    std::string text = turned.worker.run().trainer().checksum() + " " + to_json(turned.worker.run().recipe()).dump();
    for (const auto& [name, plot] : page.plots) text += plot.x ? " " + name + " " + std::to_string(plot.x->high) : "";
    return text + " " + page.workspace + " " + std::to_string(page.selection.head) + " " + page.maximised;
  }
};

TEST(Undo, OneOrderOfTimeForZoomAndFreeze) {
  PageAndRun both;
  both.page.plots["training_loss"].x = Range{1, 2};
  both.frame();
  both.send({"freeze", R"({"part": "head"})"_json});
  EXPECT_TRUE(both.act(true));
  EXPECT_TRUE(both.page.plots["training_loss"].x) << "the freeze is younger";
  EXPECT_TRUE(both.turned.worker.run().recipe().commands.empty());
  EXPECT_TRUE(both.act(true));
  EXPECT_FALSE(both.page.plots["training_loss"].x);
  EXPECT_FALSE(both.act(true));
}

TEST(Undo, WhatTheRunForgetsOrRefusesLeavesNothingToUndo) {
  for (const Command& command :
       {Command("rewind", R"({"by": 1})"_json), Command("skip"), Command("reset"),
        Command("load", R"({"preset": "tiny"})"_json), Command("set", R"({"key": "no", "to": 1})"_json)}) {
    PageAndRun both;
    both.page.selection.head = 1;
    both.frame();
    if (command.name != "set") both.send(SetNumber{"clip", 2});
    both.send(command);
    EXPECT_TRUE(both.act(true)) << command.name;
    EXPECT_EQ(both.page.selection.head, 0) << command.name << ": the first Ctrl Z takes the view back";
  }
}

// Any sequence of changes undone in full gives the first state to the bit, and redone in full the last one.
TEST(Undo, AnySequenceGoesBackToTheFirstStateAndForwardToTheLast) {
  for (unsigned seed = 1; seed <= 12; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](unsigned count) { return static_cast<int>(random() % count); };
    PageAndRun both;
    const std::string first = both.state();
    const ModeName mode{3, below(2), below(2) == 0, below(6)};
    for (int i = 0; i < 14; ++i) {
      const double share = 0.1 * (1 + below(9));
      switch (below(12)) {
        case 0:
          both.page.plots["training_loss"].x = Range{0, share};
          break;
        case 1:
          both.page.workspace = below(2) == 0 ? "training" : "koopman";
          break;
        case 2:
          both.page.selection.head = below(3);
          break;
        case 3:
          both.send(SetNumber{"learning_rate", 0.01 * share});
          break;
        case 4:
          both.send(SetNumber{"layers.1.ska.K", double(below(4))});
          break;
        case 5:
          both.send({"freeze", below(2) == 0 ? R"({"part": "head"})"_json : R"({"part": "1 ska", "on": false})"_json});
          break;
        case 6:
          both.send({"probe", nlohmann::json{{"index", below(9)}}});
          break;
        case 7:
          both.send({"probe_sequence", nlohmann::json{{"at", below(5)}, {"token", below(9)}}});
          break;
        case 8:
          both.send(mode_off(mode, below(2) == 0));
          break;
        case 9:
          both.send({"surgery"});
          break;
        case 10:
          both.send({"override", nlohmann::json{{"key", "gamma"}, {"to", 1 + share}}});
          break;
        default:
          for (const bool is_live : {true, true, false}) both.send(drag_mode(mode, {share, 0.1 * below(5)}, is_live));
      }
      both.frame();
      if (below(4) == 0 && both.act(true) && below(2) == 0) both.act(false);
    }
    while (both.act(false)) {  // what the last commands have undone
    }
    const std::string last = both.state();
    while (both.act(true)) {
    }
    EXPECT_EQ(both.state(), first) << "seed " << seed;
    while (both.act(false)) {
    }
    EXPECT_EQ(both.state(), last) << "seed " << seed;
  }
}

}  // namespace
}  // namespace afterglow
