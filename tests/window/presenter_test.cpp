// The presenter window: what it says at which moment, that it is drawn, and the two real windows next to each other.
#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "app/window/lesson_player.h"
#include "tests/core/figure/recording_canvas.h"
#include "tests/support/folders.h"
#include "tests/window/virtual_display.h"
#include "views/page/lesson_notes.h"

namespace afterglow {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

PageState open_page() {
  PageState page;
  open_lesson_on(page, (source_folder() / "tests/app/lessons/small.md").string());
  page.lesson.began = 100;
  return page;
}

TEST(Presenter, SaysNotesNextStepAnswerAndTime) {
  PageState page = open_page();
  const LessonNotes notes = lesson_notes(page, 100 + 3725.4, "14:05");
  EXPECT_EQ(notes.place, "A small lesson · step 1 of 2");
  EXPECT_EQ(notes.title, "It learns a little");
  EXPECT_THAT(notes.notes, ElementsAre("Let them guess first."));
  EXPECT_EQ(notes.answer, "1 · falls");
  EXPECT_EQ(notes.next, "A head is switched off");
  EXPECT_EQ(notes.clock, "14:05");
  EXPECT_EQ(notes.elapsed, "1:02:05");
  begin_lesson_step(page, 1);
  EXPECT_EQ(lesson_notes(page, 165, "14:05").elapsed, "01:05");
  EXPECT_EQ(lesson_notes(page, 165, "14:05").next, "") << "this is the last one";
  EXPECT_THAT(lesson_notes(PageState(), 5, "14:05").notes, ElementsAre(HasSubstr("Ctrl O")));
}

TEST(Presenter, ChangesOnceASecondAndWithTheStep) {
  PageState page = open_page();
  const LessonNotes now = lesson_notes(page, 160.1, "14:05");
  EXPECT_EQ(lesson_notes(page, 160.9, "14:05"), now) << "nothing is drawn within a second";
  EXPECT_NE(lesson_notes(page, 161, "14:05"), now);
  begin_lesson_step(page, 1);
  EXPECT_NE(lesson_notes(page, 160.1, "14:05"), now);
}

TEST(Presenter, LongNotesGetSmallerTextAndStayInTheirPlace) {
  LessonNotes notes;
  notes.notes.assign(6, "A note of several words with a formula $|λ|^K$ in it, as long as one that is read aloud.");
  notes.next = "The end";
  const Look look{&dark_theme(), 1, nullptr};
  for (const double height : {480.0, 900.0}) {
    RecordingCanvas canvas;
    draw_lesson_notes(look, canvas, notes, {0, 0, 760, height});
    double lowest = 0, next = 0;
    for (const RecordingCanvas::Text& text : canvas.texts) {
      if (text.text == "end") next = text.box.y;
      if (text.text == "aloud.") lowest = std::max(lowest, text.box.bottom());
      EXPECT_LE(text.box.right(), 760) << text.text;
    }
    EXPECT_GT(lowest, 0) << height;
    EXPECT_LE(lowest, next) << height;
    EXPECT_LE(next, height);
  }
}

TEST(Presenter, OpensBesideTheWindowHandsItsKeysOnAndClosesWithEsc) {
  const VirtualDisplay display;
  if (!display.is_there()) GTEST_SKIP() << "needs Xvfb and xdotool";
  const fs::path home = fs::temp_directory_path() / ("afterglow_presenter_" + std::to_string(::getpid()));
  fs::create_directories(home);
  const fs::path status = home / "status.json";
  std::ofstream(home / "script.json")
      << nlohmann::json::array({{{"name", "status"}, {"value", {{"path", status.string()}}}}}).dump();
  const auto told = [&](const char* part, const char* key) {
    std::ifstream file(status);
    const auto json = nlohmann::json::parse(file, nullptr, false);
    return json.is_discarded() || !json[part].is_object() ? nlohmann::json() : json[part][key];
  };
  const auto find = [&](const std::string& title) {
    return display.xdotool("search --onlyvisible --name '^" + title + "$'");
  };
  {
    RunningProgram program(
        display, home,
        {program_file().string(), (source_folder() / "tests/app/lessons/small.md").string(), "--presenter", "--size",
         "800x600", "--threads", "1", "--script", (home / "script.json").string()});
    std::string notes, main;
    ASSERT_TRUE(wait_until(60, [&] { return !(notes = find("Afterglow notes")).empty(); }));
    ASSERT_TRUE(wait_until(60, [&] { return told("lesson", "step") == 1 && told("lesson", "asks") == true; }));
    main = find("Afterglow");
    EXPECT_THAT(display.xdotool("getwindowgeometry " + notes), HasSubstr("Position: 808")) << "to the right";
    display.xdotool("windowfocus --sync " + notes + " key Page_Down");
    EXPECT_TRUE(wait_until(30, [&] { return told("lesson", "asks") == false; })) << "the vote is passed over";
    display.xdotool("key Page_Down");
    EXPECT_TRUE(wait_until(30, [&] { return told("lesson", "step") == 2; })) << "the keys work in both";
    display.xdotool("key Escape");
    EXPECT_TRUE(wait_until(30, [&] { return find("Afterglow notes").empty(); }));
    EXPECT_EQ(told("lesson", "step"), 2) << "the lesson goes on";
    display.xdotool("windowfocus --sync " + main + " key F6");
    EXPECT_TRUE(wait_until(30, [&] { return !find("Afterglow notes").empty(); }));
    display.xdotool("windowfocus --sync " + main + " key ctrl+q");
    EXPECT_EQ(program.exit_code(30), 0);
  }
  fs::remove_all(home);
}

}  // namespace
}  // namespace afterglow
