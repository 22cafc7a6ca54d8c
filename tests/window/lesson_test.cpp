// A lesson in the window: its pane, keys, questions, goals, and each step from its start exactly. The session is real,
// input is injected.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "app/window/commands/window_commands.h"
#include "app/window/key_routing.h"
#include "app/window/lesson_player.h"
#include "core/engine/session/session.h"
#include "core/io/error.h"
#include "core/recipe/lesson_plan.h"
#include "tests/core/figure/recording_canvas.h"
#include "tests/support/folders.h"
#include "tests/views/drawing/null_window.h"
#include "tests/window/virtual_display.h"
#include "views/page/lesson_text.h"
#include "views/page/page.h"
#include "views/plots/plot_numbers.h"

namespace afterglow {
namespace {

SessionOptions options() {
  SessionOptions options;
  options.device = "cpu";
  options.threads = 2;
  options.start_running = false;
  return options;
}

struct LessonWindow : testing::Test {
  NullWindow window{1280, 720};
  Session session{find_preset("tiny").text, options()};
  FigureCache figures;
  WindowActions actions;
  std::shared_ptr<const Observation> seen = session.observe();
  std::uint64_t sent = 0;
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("afterglow_lesson_" + std::to_string(::getpid()) + ".md");

  LessonWindow() { std::filesystem::copy_file(source_folder() / "tests/app/lessons/small.md", file); }
  ~LessonWindow() override { std::filesystem::remove(file); }

  PageState& page() { return window.state; }
  LessonPane& pane() { return window.state.lesson; }

  void give(const Command& command) {
    if (find_command(command.name)->target == CommandTarget::engine) {
      ++sent;
      return session.send(command);
    }
    CommandQueue following;
    CommandContext context{page(), figures, seen, following, actions, 1.0};
    run_window_command(context, command);
    for (const Command& next : following.take()) give(next);
  }
  /// One turn of the window's loop.
  void turn() {
    const std::uint64_t taken = session.taken_commands();
    seen = session.observe();
    for (const Command& command : window.commands.take()) give(command);
    follow_lesson(page(),
                  {*seen, [this](const Command& command) { give(command); }, [this] { return sent; }, taken, 0});
    session.request_analyses(analyses_of_lesson(page()));
    window.show(seen);
    window.draw_page();
    sleep_seconds(0.002);
  }
  template <class Condition>
  bool comes(const Condition& condition) {
    for (int i = 0; i < 30'000 && !condition(); ++i) turn();
    return condition();
  }
  bool is_over() { return pane().deed >= (*pane().plans)[pane().step].deeds.size(); }
  void key(const std::string& chord) {
    route_key(page(), window.commands, *parse_chord(chord), false);
    turn();
  }
  void open() {
    give({"lesson", nlohmann::json{{"open", file.string()}}});
    ASSERT_TRUE(page().lesson.lesson) << (page().notes.empty() ? "" : page().notes.back().text);
  }
};

TEST_F(LessonWindow, WaitsForTheAnswerAndThenLetsTheRunDecide) {
  open();
  ASSERT_TRUE(comes([&] { return pane().asks; }));
  EXPECT_EQ(seen->step, 0);
  EXPECT_EQ(page().selection.power, 2) << "a number of the text is set";
  key("1");
  EXPECT_EQ(pane().answered, 1);
  EXPECT_TRUE(page().maximised.empty()) << "the key answers, and enlarges nothing";
  ASSERT_TRUE(comes([&] { return is_over(); }));
  EXPECT_EQ(seen->step, 20);
  key("1");
  EXPECT_FALSE(page().maximised.empty()) << "without a question the key does what it always does";
}

/// What the window says, without spaces.
std::string said(const NullWindow& window) {
  std::string text;
  for (const NullWindow::Sign& sign : window.signs())
    text += sign.character < 128 ? static_cast<char>(sign.character) : '?';
  return text;
}

TEST_F(LessonWindow, SaysWhatIsExpectedOnlyWhenTheRunHasComeThere) {
  std::ofstream(file) << "# L\nabout: a\n\n## S\nset: preset = tiny\nsay: Atfirst.\nrun: to 300\nexpect: step == "
                         "300\nsay: Nowitknows.\n";
  open();
  window.draw_page(2);
  if (window.signs().empty()) GTEST_SKIP() << "this Dear ImGui does not tell its signs";
  turn();
  EXPECT_NE(said(window).find("Atfirst."), std::string::npos);
  EXPECT_EQ(said(window).find("Nowitknows."), std::string::npos) << said(window);
  ASSERT_TRUE(comes([&] { return is_over(); }));
  turn();
  EXPECT_EQ(seen->step, 300);
  EXPECT_NE(said(window).find("Nowitknows."), std::string::npos);
}

TEST_F(LessonWindow, WaitsUntilWhatItExpectsIsMeasured) {
  std::ofstream(file) << "# L\nabout: a\n\n## S\nset: preset = tiny\nrun: to 3\nexpect: probe.accuracy >= 0\nsay: "
                         "Measured.\n";
  open();
  ASSERT_TRUE(comes([&] { return is_over(); }));
  const AnalysisSet needed = analyses_of_number("probe.accuracy");
  EXPECT_NE(needed, AnalysisSet{0});
  EXPECT_EQ(seen->current & needed, needed) << "nothing is said of numbers of an earlier moment";
}

TEST_F(LessonWindow, PresentsTheExplanationWithItsQuestionAndAnswersAWrongChoiceInASentence) {
  std::ofstream(file) << "# L\nabout: a\n\n## S\nset: preset = tiny\nsay: Explained.\nask: Which? | x | y\nanswer: "
                         "2\nrun: to 3\nsay: Behind.\n";
  page().presentation.is_on = true;
  open();
  ASSERT_TRUE(comes([&] { return pane().asks; }));
  turn();
  if (window.signs().empty()) GTEST_SKIP() << "this Dear ImGui does not tell its signs";
  EXPECT_NE(said(window).find("Explained."), std::string::npos);
  EXPECT_NE(said(window).find("Which?"), std::string::npos);
  key("1");
  ASSERT_TRUE(comes([&] { return is_over(); }));
  turn();
  EXPECT_NE(said(window).find("Correct:2(y).Youchose1."), std::string::npos) << said(window);
  EXPECT_NE(said(window).find("Behind."), std::string::npos);
}

TEST_F(LessonWindow, TheLargeNumberIsThatBeforeTheVoteAndThatAfterIt) {
  std::ofstream(file) << "# L\nabout: a\n\n## S\nset: preset = tiny\nask: Which? | x | y\nanswer: 2\nrun: to 3\n"
                         "show: step | steps done\n";
  page().presentation.is_on = true;
  open();
  ASSERT_TRUE(comes([&] { return pane().asks && pane().shown.before; }));
  turn();
  if (window.signs().empty()) GTEST_SKIP() << "this Dear ImGui does not tell its signs";
  EXPECT_NE(said(window).find("0??"), std::string::npos) << "0 → ?, before the vote: " << said(window);
  key("2");
  ASSERT_TRUE(comes([&] { return is_over() && pane().shown.now == 3; }));
  turn();
  EXPECT_EQ(pane().shown.before, 0);
  EXPECT_NE(said(window).find("0?3"), std::string::npos) << said(window);
  EXPECT_NE(said(window).find("stepsdone"), std::string::npos);
  EXPECT_NE(said(window).find("correct"), std::string::npos) << "the right choice is marked";
}

TEST_F(LessonWindow, WithoutAQuestionTheLargeNumberBeginsAtItsLine) {
  const std::string step = "# L\nabout: a\n\n## S\nset: preset = tiny\n", show = "show: step | steps done\n",
                    run = "run: to 8\n";
  for (const bool is_first : {true, false}) {
    std::ofstream(file) << step + (is_first ? show + run : run + show);
    open();
    ASSERT_TRUE(comes([&] { return is_over() && pane().shown.now == 8; }));
    EXPECT_EQ(*pane().shown.before < 8, is_first);
  }
}

TEST(LessonText, WordsKeepAPercentSignWithItsNumber) {
  std::vector<FlowToken> tokens;
  add_words("less than 5 % of it", FontFace::regular, false, tokens);
  ASSERT_EQ(tokens.size(), 5u);
  EXPECT_EQ(tokens[2].text, "5 %");
}

TEST_F(LessonWindow, GoalsAreTickedWhenTheDeedIsDone) {
  open();
  comes([&] { return pane().asks; });
  key("2");
  ASSERT_TRUE(comes([&] { return is_over(); }));
  turn();
  ASSERT_EQ(pane().reached.size(), 1u);
  EXPECT_FALSE(pane().reached[0]);
  window.commands.send("step", {{"count", std::int64_t{5}}});
  EXPECT_TRUE(comes([&] { return pane().reached[0]; }));
  window.commands.send("rewind", {{"step", std::int64_t{3}}});
  ASSERT_TRUE(comes([&] { return seen->step == 3; }));
  EXPECT_TRUE(pane().reached[0]) << "what has been done stays done";
}

TEST_F(LessonWindow, WhatTheLessonItselfDoesTicksNoGoal) {
  std::ofstream(file) << "# L\nabout: a\n\n## S\nset: preset = tiny\nask: Which? | x | y\nanswer: 2\nrun: to 3\n"
                         "goal: step < 2 | Goback.\n";
  open();
  ASSERT_TRUE(comes([&] { return pane().asks; }));
  turn();
  EXPECT_FALSE(pane().reached[0]) << "the step begins at 0";
  if (window.signs().empty()) GTEST_SKIP() << "this Dear ImGui does not tell its signs";
  EXPECT_EQ(said(window).find("Goback."), std::string::npos) << "what there is to do may tell the answer";
  key("2");
  ASSERT_TRUE(comes([&] { return is_over() && seen->step == 3; }));
  turn();
  EXPECT_FALSE(pane().reached[0]);
  EXPECT_NE(said(window).find("Goback."), std::string::npos);
  page().presentation.is_locked = true;
  turn();
  EXPECT_EQ(said(window).find("Goback."), std::string::npos) << "under a lock it cannot be done";
  page().presentation.is_locked = false;
  give({"rewind", R"({"step": 1})"_json});
  EXPECT_TRUE(comes([&] { return pane().reached[0]; }));
}

TEST_F(LessonWindow, ASlideIsWalkedByTheMouseAlone) {
  page().presentation.is_on = true;
  open();
  ASSERT_TRUE(comes([&] { return pane().asks; }));
  const auto click = [&](double x, double y) {
    for (const Command& command : window.click(x, y)) give(command);
    turn();
  };
  const double foot = 720 - 12;
  click(1200, foot);
  EXPECT_EQ(pane().answered, no_vote) << "a hall may go on without a vote";
  ASSERT_TRUE(comes([&] { return is_over(); }));
  click(1200, foot);
  EXPECT_EQ(pane().step, 1u);
}

TEST_F(LessonWindow, ASlideWithoutAPanelIsTextAlone) {
  std::ofstream(file) << "# L\nabout: a\n\n## S\nset: preset = tiny\nask: Which? | x | y\nanswer: 2\nfocus: "
                         "training\n";
  page().presentation.is_on = true;
  open();
  const Rect all{0, 0, 1280, 720};
  ASSERT_TRUE(comes([&] { return pane().asks; }));
  EXPECT_EQ(lesson_place(page(), window.look, all).text.width, all.width);
  turn();
  EXPECT_TRUE(page().drawn.panels.empty()) << page().drawn.panels.front().panel;
  key("1");
  ASSERT_TRUE(comes([&] { return is_over(); }));
  EXPECT_LT(lesson_place(page(), window.look, all).text.width, 0.6 * all.width) << "the picture has come";
}

TEST_F(LessonWindow, PageKeysGoThroughTheStepsAndTheOneWithShiftMakesThisOneAnew) {
  open();
  comes([&] { return pane().asks; });
  key("1");
  ASSERT_TRUE(comes([&] { return is_over(); }));
  const std::string end_of_first = seen->checksum;
  key("PageDown");
  EXPECT_EQ(pane().step, 1u);
  ASSERT_TRUE(comes([&] { return is_over(); }));
  EXPECT_EQ(seen->step, 30);
  EXPECT_EQ(page().maximised, "spectrum");
  // Everything that a pupil may do in between.
  key("Escape");
  key("N");
  give({"set", R"({"key": "learning_rate", "to": 0.01})"_json});
  give({"clear_overrides"});
  give({"step", R"({"count": 4})"_json});
  give({"select", R"({"head": 1, "power": 7})"_json});
  give({"race"});
  EXPECT_EQ(page().workspace, "race");
  ASSERT_TRUE(comes([&] { return seen->step == 34 && !seen->running; }));
  EXPECT_TRUE(pane().reached[0]) << "the rate was raised";
  std::string start;
  key("Shift+PageUp");
  ASSERT_TRUE(comes([&] {
    if (pane().deed >= (*pane().plans)[1].start && start.empty())
      start = seen->checksum_step == 20 ? seen->checksum : "";
    return is_over();
  }));
  EXPECT_EQ(start, end_of_first) << "the step starts from where the one before ended";
  EXPECT_EQ(seen->step, 30);
  EXPECT_EQ(page().selection.head, 0);
  EXPECT_EQ(page().selection.power, 2);
  EXPECT_EQ(page().maximised, "spectrum");
  EXPECT_EQ(page().workspace, "koopman");
  EXPECT_EQ(seen->runs.size(), 1u);
  EXPECT_FALSE(pane().reached[0]);
  key("PageDown");
  EXPECT_EQ(pane().step, 1u) << "there is no third one";
  key("PageUp");
  EXPECT_EQ(pane().step, 0u);
}

TEST_F(LessonWindow, ThePageTurnsWithoutTheLesson) {
  open();
  comes([&] { return pane().asks; });
  const std::string before = page().workspace;
  give({"page", R"({"by": 1, "of": "panels"})"_json});
  EXPECT_EQ(pane().step, 0u);
  EXPECT_NE(page().workspace, before);
  give({"page", R"({"by": 1})"_json});
  EXPECT_EQ(pane().answered, no_vote) << "a hall may go on without a vote";
  EXPECT_EQ(pane().step, 0u);
  give({"page", R"({"by": 1})"_json});
  EXPECT_EQ(pane().step, 1u);
}

TEST_F(LessonWindow, ShowsOnlyTheControlsThatItLists) {
  EXPECT_TRUE(shows_control(page(), "palette"));
  open();
  turn();
  for (const char* shown : {"run", "time", "learning_rate"}) EXPECT_TRUE(shows_control(page(), shown)) << shown;
  for (const char* hidden : {"palette", "workspaces", "status", "batch"})
    EXPECT_FALSE(shows_control(page(), hidden)) << hidden;
  give({"lesson", R"({"close": true})"_json});
  EXPECT_TRUE(shows_control(page(), "palette"));
}

TEST_F(LessonWindow, ReadsItsFileAgainWhenItIsSaved) {
  open();
  comes([&] { return pane().asks; });
  std::ofstream(file) << "# Other\n## Only step\nrum: 3\n";
  std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now() + std::chrono::seconds(5));
  const auto look = [&](double time) {
    follow_lesson(page(), {*seen, [this](const Command& c) { give(c); }, [this] { return sent; }, 0, time});
  };
  look(10);
  EXPECT_NE(pane().problem.find("did you mean 'run'"), std::string::npos) << pane().problem;
  EXPECT_EQ(pane().lesson->title, "A small lesson") << "what can be shown stays";
  std::ofstream(file) << "# Other\n## Only step\nsay: Words.\n";
  std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now() + std::chrono::seconds(9));
  look(20);
  EXPECT_EQ(pane().lesson->title, "Other");
  EXPECT_TRUE(pane().problem.empty());
}

TEST_F(LessonWindow, AnExhibitionGoesBackToItsStartAMinuteAfterTheLastTouch) {
  open();
  comes([&] { return pane().asks; });
  double now = 100, touched = -1;
  const auto look = [&](double time) {
    now = time;
    follow_lesson(page(), {*seen, [this](const Command& c) { give(c); }, [this] { return sent; }, 0, now, touched});
  };
  page().presentation.is_locked = true;
  pane().began = 100;
  begin_lesson_step(page(), 1);
  look(500);
  EXPECT_EQ(pane().step, 1u) << "without a touch nothing is disturbed";
  EXPECT_EQ(lesson_returns_at(page(), touched), std::numeric_limits<double>::infinity());
  touched = 510;
  page().presentation.is_blank = true;
  EXPECT_EQ(lesson_returns_at(page(), touched), 570);
  look(569.9);
  EXPECT_EQ(pane().step, 1u);
  look(570);
  EXPECT_EQ(pane().step, 0u);
  EXPECT_FALSE(page().presentation.is_blank);
  EXPECT_EQ(pane().answered, 0);
  EXPECT_EQ(pane().began, 570) << "the next visitor's time begins";
  begin_lesson_step(page(), 1);
  look(2000);
  EXPECT_EQ(pane().step, 1u) << "once for each visitor";
  page().presentation.is_locked = false;
  touched = 2001;
  look(9000);
  EXPECT_EQ(pane().step, 1u) << "a class takes its time";
}

TEST_F(LessonWindow, QuestionsChoicesAndGoalsAreSetAsFormulas) {
  const LessonParagraph phrase = lesson_phrase("What is $|λ|^2$, with $λ_1$?", FontFace::semibold);
  std::vector<std::string> formulas, words;
  for (const FlowToken& token : phrase.tokens) (token.is_math ? formulas : words).push_back(token.text);
  EXPECT_EQ(formulas, (std::vector<std::string>{"|λ|^2", "λ_1"}));
  EXPECT_EQ(words, (std::vector<std::string>{"What", "is", ",", "with", "?"}));
  EXPECT_FALSE(phrase.tokens[3].follows_space) << "a comma stands at its formula";
  EXPECT_EQ(lesson_phrase("costs 3 $", FontFace::regular).tokens.size(), 3u) << "a single sign is a sign";
  const RecordingCanvas canvas;
  const TextFlow choice = flow_text(lesson_phrase("$K = 0$", FontFace::regular).tokens, 600, 20, canvas);
  EXPECT_EQ(choice.tokens.front().place.x, 0) << "a choice is written after its number, not in the middle";
}

TEST_F(LessonWindow, ANumberIsDraggedWithTheMouse) {
  open();
  ASSERT_TRUE(comes([&] { return pane().asks; }));
  // Where the pointer says that something can be dragged sideways, apart from the pane's edge.
  double x = 0, y = 0;
  for (double row = 60; row < 700 && x == 0; row += 8) {
    for (double column = 920; column < 1270 && x == 0; column += 4) {
      window.mouse(column, row);
      turn();
      if (ImGui::GetMouseCursor() == ImGuiMouseCursor_ResizeEW) x = column, y = row;
    }
  }
  ASSERT_GT(x, 0) << "the number in the text is found";
  window.button(true);
  turn();
  for (int moved = 0; moved <= 60; moved += 10) {
    window.mouse(x + moved, y);
    turn();
  }
  window.button(false);
  EXPECT_TRUE(comes([&] { return page().selection.power == 4; })) << page().selection.power;
}

TEST_F(LessonWindow, ANumberIsMovedByKeys) {
  open();
  ASSERT_TRUE(comes([&] { return pane().asks; }));
  key("S");
  for (int i = 0; i < 40 && page().focus.slider != "lesson power"; ++i) key("S");
  ASSERT_EQ(page().focus.slider, "lesson power");
  key("Up");
  EXPECT_TRUE(comes([&] { return page().selection.power == 3; }));
}

}  // namespace
}  // namespace afterglow
