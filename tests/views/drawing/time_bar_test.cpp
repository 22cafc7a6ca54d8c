// The time bar and the controls of the run, by mouse and keyboard.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>

#include "tests/support/sample_observations.h"
#include "tests/views/drawing/null_window.h"

namespace afterglow {
namespace {

struct TimeBar : testing::Test {
  NullWindow window{1600, 1000};
  TimeBar() { show(samples::rewound()); }
  void show(Observation observation) {
    window.show(std::move(observation));
    window.draw_page(3);
    window.commands.take();
  }
  /// The place of a step of 800 on the bar.
  static double place(double step) { return 14 + (1600 - 28) * step / 800; }
  /// Drags from one step to another and returns the step of the last command.
  std::int64_t dragged(double from, double to) {
    window.mouse(place(from), 950);
    window.draw_page(2);
    window.button(true);
    window.draw_page(2);
    window.mouse(place(to), 950);
    window.draw_page(8);
    window.button(false);
    window.draw_page(2);
    const auto sent = window.commands.take();
    EXPECT_FALSE(sent.empty());
    for (const Command& command : sent) EXPECT_EQ(command.name, "rewind");
    return sent.empty() ? -1 : sent.back().value["step"].get<std::int64_t>();
  }
  std::vector<Command> clicked(double x, double y) {
    window.mouse(x, y);
    window.draw_page(2);
    window.button(true);
    window.draw_page(2);
    window.button(false);
    window.draw_page(2);
    return window.commands.take();
  }
};

TEST_F(TimeBar, ADragGoesBackAndOn) {
  EXPECT_NEAR(static_cast<double>(dragged(150, 60)), 60, 1);
  EXPECT_NEAR(static_cast<double>(dragged(150, 400)), 400, 1);
}

TEST_F(TimeBar, OffersExactlyWhatCanBeReached) {
  EXPECT_EQ(dragged(150, 700), 428) << "what was never trained is no place to go to";
  Observation resumed = samples::rewound();
  resumed.oldest_step = 100;
  show(resumed);
  EXPECT_EQ(dragged(150, 20), 100);
  show(samples::mid_training());
  EXPECT_EQ(dragged(100, 700), 428);
}

TEST_F(TimeBar, StepsAheadAreDrawn) {
  const Rect ahead{place(200), 940, place(400) - place(200), 26};
  const int with = window.vertices_in(ahead);
  show(samples::training_at(150));
  EXPECT_GT(with, window.vertices_in(ahead) + 40) << "a hatch over them";
}

TEST_F(TimeBar, AnAnswerOfAnEarlierStepIsNotTakenForThisStepsWhereNothingFollowsIt) {
  const auto vertices_beside_the_tokens = [&](AnalysisSet asked, std::int64_t steps_behind) {
    window.state.asked = asked;
    Observation o = samples::mid_training();
    o.step = o.trace->step + steps_behind;
    show(o);
    return window.vertices_in({1480, 885, 120, 45});
  };
  const AnalysisSet nothing = 0, trace = set_of(Analysis::trace);
  const int with = vertices_beside_the_tokens(nothing, 0), without = vertices_beside_the_tokens(nothing, 1);
  EXPECT_GT(with, without);
  EXPECT_EQ(vertices_beside_the_tokens(trace, 1), vertices_beside_the_tokens(trace, 0)) << "it is in progress";
}

TEST_F(TimeBar, WhereAnotherRunPartedIsDrawn) {
  Observation o = samples::rewound();
  o.runs.insert(o.runs.begin(), o.runs.back());
  const Rect place_of_it{place(77), 936, place(83) - place(77), 34};
  show(o);
  const int without = window.vertices_in(place_of_it);
  o.runs.front().parted = 80;
  show(o);
  EXPECT_GT(window.vertices_in(place_of_it), without);
}

TEST_F(TimeBar, UnderThePointerTheKeptStateIsTold) {
  const auto vertices_over = [&](double step) {
    window.mouse(place(step), 950);
    window.draw_page(3);
    return window.vertices();
  };
  Observation o = samples::rewound();
  o.kept = std::make_shared<const std::vector<KeptState>>();
  show(o);
  const int without = vertices_over(60);
  o.kept = std::make_shared<const std::vector<KeptState>>(std::vector<KeptState>{{50, "0123456789abcdef"}});
  show(o);
  EXPECT_GT(vertices_over(60), without + 4 * 16) << "a checksum has 16 digits";
}

TEST_F(TimeBar, ARebuildingShowsHowFarItIs) {
  Observation o = samples::training_at(150);
  const Rect bar{14, 940, 1572, 26};
  show(o);
  const int without = window.vertices_in(bar);
  o.rebuilds_to = 700;
  show(o);
  EXPECT_GT(window.vertices_in(bar), without + 80) << "a sentence and the aim";
}

/// The left edge of the palette's button, and how the others lie from there, is the top bar's own affair: they are
/// found by what they send.
std::vector<Command> all_of_the_top_bar(TimeBar& test) {
  std::vector<Command> sent;
  for (double x = 1590; x > 950; x -= 12) {
    for (Command& command : test.clicked(x, 22)) sent.push_back(std::move(command));
    test.window.state.palette = {};
  }
  return sent;
}

TEST_F(TimeBar, TheTopBarRestartsStepsRunsAndChangesTheSpeed) {
  std::set<std::string> names;
  for (const Command& command : all_of_the_top_bar(*this)) names.insert(command.name);
  for (const char* name : {"reset", "step", "speed", "toggle_run", "palette"})
    EXPECT_TRUE(names.contains(name)) << name;
}

/// The value of the first command of that name that the top bar sends.
std::string value_of(TimeBar& test, const std::string& name) {
  for (const Command& command : all_of_the_top_bar(test)) {
    if (command.name == name) return command.value.dump();
  }
  return "";
}

TEST_F(TimeBar, TheStepButtonTrainsAsManyAsTheFieldSays) {
  window.state.time.step_count = "200";
  EXPECT_EQ(value_of(*this, "step"), "{\"count\":200}");
  window.state.time.step_count = "many";
  EXPECT_EQ(value_of(*this, "step"), "{\"count\":1}") << "what is no number is one step";
}

TEST_F(TimeBar, FromTheSlowestSpeedAClickGoesToTheFastest) {
  const auto value_of_speed = [&](double limit) {
    Observation o = samples::training_at(150);
    o.speed_limit = limit;
    show(o);
    return value_of(*this, "speed");
  };
  EXPECT_EQ(value_of_speed(0), "{\"by\":-1}");
  EXPECT_EQ(value_of_speed(10), "{\"by\":-1}");
  EXPECT_EQ(value_of_speed(1), "{\"to\":0}");
}

TEST_F(TimeBar, TheRightButtonWritesANoteOrChangesTheOneThere) {
  const auto pressed = [&](double x, double y) {
    window.mouse(x, y);
    window.draw_page(2);
    window.button(true, 1);
    window.draw_page(2);
    window.button(false, 1);
    window.draw_page(2);
    const std::vector<Command> sent = window.commands.take();
    return sent.size() == 1 ? sent[0].name + " " + sent[0].value.dump() : "";
  };
  Observation noted = samples::rewound();
  noted.notes = {{.text = "a key", .token = 1, .label = noted.trace->tokens[1].label},
                 {.text = "the jump", .step = 300}};
  show(noted);
  EXPECT_EQ(pressed(place(300), 950), R"(palette {"text":"note text=\"the jump\" number=2"})");
  EXPECT_THAT(pressed(place(100), 950), testing::StartsWith(R"(palette {"text":"note text=\"\" step=)"));
  EXPECT_EQ(pressed(20, 915), R"(palette {"text":"note text=\"\" token=0 label=\")" +
                                  samples::rewound().trace->tokens[0].label + R"(\""})");
}

}  // namespace
}  // namespace afterglow
