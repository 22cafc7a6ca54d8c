// Lessons as text: what is read, what is refused and how, and what their lines come to.
#include "core/recipe/lesson.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "core/io/error.h"
#include "core/recipe/lesson_lines.h"
#include "core/recipe/lesson_plan.h"
#include "tests/core/io/temporary_folder.h"
#include "tests/support/lesson_text.h"

namespace afterglow {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Lesson read(const std::string& lines) { return parse_lesson("# Title\n## Step\n" + lines, "x.md"); }

std::string refusal_of(const std::string& text) {
  return message_of(ExitCode::bad_input, [&] { plan_lesson(parse_lesson(text, "x.md")); });
}
std::string refusal(const std::string& lines) { return refusal_of("# Title\n## Step\n" + lines); }

/// Names of the commands that a step sends, with "reach", "ask" and "expect" between them.
std::vector<std::string> deeds_of(const LessonStepPlan& plan) {
  std::vector<std::string> names;
  for (const LessonDeed& deed : plan.deeds) {
    names.push_back(deed.kind == LessonDeed::Kind::send    ? deed.command.name
                    : deed.kind == LessonDeed::Kind::reach ? "reach " + std::to_string(deed.step)
                    : deed.kind == LessonDeed::Kind::ask   ? "ask"
                                                           : "expect");
  }
  return names;
}

json recipe_of(const LessonStepPlan& plan) {
  for (const LessonDeed& deed : plan.deeds) {
    if (deed.command.name == "load") return deed.command.value.at("recipe");
  }
  return nullptr;
}

TEST(Lessons, AreReadLineByLineAndWrittenAsTheyAreRead) {
  const std::string text =
      "# A title\nabout: One sentence.\nminutes: 6\n\n## First step\nsay: A sentence that\ngoes on   here\n\n"
      "  and has a second paragraph: with a colon.\n<!-- for the author -->\nset: preset = tiny ; seed = 7\n"
      "run: 200 steps\n## Second\nask: Which? | this | that\nanswer: 2\nnotes: Wait.\n";
  const Lesson lesson = parse_lesson(text, "x.md");
  EXPECT_EQ(lesson.title, "A title");
  ASSERT_EQ(lesson.steps.size(), 2u);
  EXPECT_EQ(lesson.steps[0].lines[0].text, "A sentence that goes on here\nand has a second paragraph: with a colon.");
  EXPECT_EQ(lesson.steps[0].lines[1].place, "x.md:11");
  const std::string written = text_of(lesson);
  EXPECT_EQ(text_of(parse_lesson(written, "x.md")), written);
  EXPECT_EQ(parse_lesson(written, "x.md").steps[0].lines[0].text, lesson.steps[0].lines[0].text);
}

TEST(Lessons, RefuseWhatIsWrongWithItsPlaceAndWhatToWrite) {
  EXPECT_THAT(refusal_of("say: before anything\n"), AllOf(HasSubstr("x.md:1"), HasSubstr("title")));
  EXPECT_THAT(refusal_of("# Title\n"), HasSubstr("at least one step"));
  EXPECT_THAT(refusal_of("# Title\nrun: 20 steps\n## Step\n"), AllOf(HasSubstr("x.md:2"), HasSubstr("## Title")));
  EXPECT_THAT(refusal("rum: 20 steps\n"), AllOf(HasSubstr("x.md:3"), HasSubstr("did you mean 'run'")));
  EXPECT_THAT(refusal("run: some steps\n"), AllOf(HasSubstr("x.md:3"), HasSubstr("`run: 200 steps`")));
  EXPECT_THAT(refusal("set: preset tiny\n"), HasSubstr("`set: preset = tiny ; seed = 7`"));
  EXPECT_THAT(refusal("set: preset = tinny\n"), AllOf(HasSubstr("x.md:3"), HasSubstr("there is no preset")));
  EXPECT_THAT(refusal("run: 20 steps\n"), HasSubstr("begin with `set: preset = tiny`"));
  EXPECT_THAT(refusal("set: preset = tiny ; task.nothing.at.all = 3\n"), HasSubstr("x.md:3"));
  EXPECT_THAT(refusal("set: preset = tiny\nrun: to 5000\n"), AllOf(HasSubstr("x.md:4"), HasSubstr("steps = 5000")));
  EXPECT_THAT(refusal("command: selekt {}\n"), HasSubstr("did you mean 'select'"));
  EXPECT_THAT(refusal("command: select {\"head\": }\n"), HasSubstr("x.md:3"));
  EXPECT_THAT(refusal("set: preset = tiny\ncommand: undo\n"), HasSubstr("could not be repeated exactly"));
  EXPECT_THAT(refusal("ask: Which? | one\n"), HasSubstr("two or three choices"));
  EXPECT_THAT(refusal("answer: 2\n"), HasSubstr("question above it"));
  EXPECT_THAT(refusal("ask: Which? | a | b\nanswer: 3\n"), HasSubstr("2 choices"));
  EXPECT_THAT(refusal("expect: loss 3\n"), HasSubstr("NAME < NUMBER"));
  EXPECT_THAT(refusal("expect: 3 < loss\n"), HasSubstr("on the left"));
  EXPECT_THAT(refusal("goal: loss < 3\n"), HasSubstr("sentence after it"));
  EXPECT_THAT(refusal("goal: loss < loss@2 | Done\n"), HasSubstr("@start"));
  EXPECT_THAT(refusal("say: a formula $x without an end\n"), HasSubstr("begins and ends with $"));
  EXPECT_THAT(refusal("ask: Is $λ^2 large? | yes | no\n"), HasSubstr("begins and ends with $"));
  EXPECT_THAT(refusal("ask: Is it large? | $λ | no\n"), HasSubstr("begins and ends with $"));
  EXPECT_THAT(refusal("goal: loss < 3 | $λ has grown\n"), HasSubstr("begins and ends with $"));
  EXPECT_THAT(refusal("focus: inside three\n"), HasSubstr("focus: inside 3"));
  EXPECT_THAT(refusal("focus: inside 0\n"), HasSubstr("focus: inside 3"));
  EXPECT_THAT(refusal("say: a number {power}\n"), HasSubstr("{power=2}"));
  EXPECT_THAT(refusal("say: a number {power=9 0..8}\n"), HasSubstr("not a range"));
  EXPECT_THAT(refusal("say: \xff\n"), HasSubstr("UTF-8"));
  EXPECT_THAT(message_of(ExitCode::usage, [] { open_lesson("no such lesson"); }), HasSubstr("there is no lesson"));
  EXPECT_THAT(message_of(ExitCode::bad_input, [] { open_lesson("no_such.md"); }), HasSubstr("there is no lesson"));
  EXPECT_THAT(message_of(ExitCode::usage, [] { open_lesson("circle"); }),
              HasSubstr("did you mean '01_forgetting_is_a_circle'?"));
}

TEST(Lessons, TextHasFormulasEmphasisAndNumbers) {
  const std::vector<LessonPiece> pieces =
      read_pieces(read("say: Raise $λ^K$ to *the* power {power=2 0..8}.\n\n  Again.\n").steps[0].lines[0]);
  ASSERT_EQ(pieces.size(), 9u);
  EXPECT_EQ(pieces[1].kind, LessonPiece::Kind::formula);
  EXPECT_EQ(pieces[1].text, "λ^K");
  EXPECT_EQ(pieces[3].kind, LessonPiece::Kind::emphasis);
  EXPECT_EQ(pieces[5].number.name, "power");
  EXPECT_EQ(pieces[5].number.high, 8);
  EXPECT_EQ(pieces[7].kind, LessonPiece::Kind::paragraph_end);
}

TEST(Lessons, BarsWithoutSpacesBelongToTheText) {
  const Lesson lesson =
      read("ask: What is |λ|^2 for |λ| = 0.9? | 0.81 | |λ| + |λ|\nanswer: 1\ngoal: loss < 9 | |λ| has grown\n");
  EXPECT_THAT(read_question(lesson.steps[0].lines[0]).choices, ElementsAre("0.81", "|λ| + |λ|"));
  EXPECT_EQ(read_goal(lesson.steps[0].lines[2]).sentence, "|λ| has grown");
}

TEST(Lessons, ConditionsCompareNumbersAndWordsOfAnyMoment) {
  const QuantityFinder find = [](const std::string& name, const std::string& at) -> std::optional<Quantity> {
    if (name == "loss") return Quantity{at == "start" ? 4.0 : 1.0};
    if (name == "tail.law") return Quantity{0, "power"};
    return std::nullopt;
  };
  const auto verdict = [&](const std::string& text) { return judge(parse_condition(text, "x"), find); };
  for (const char* true_one : {"loss < 2", "loss <= 0.25 * loss@start and loss == 1", "tail.law == power ; loss > 0",
                               "tail.law != exponential", "loss != loss@start", "loss > -1e-3"})
    EXPECT_TRUE(verdict(true_one).holds) << true_one;
  for (const char* false_one :
       {"loss > 2", "loss == 1 and loss > 3", "tail.law == exponential", "loss < 0.1 * loss@start"})
    EXPECT_FALSE(verdict(false_one).holds) << false_one;
  EXPECT_EQ(verdict("loss < 0.1 * loss@start").why, "loss is 1, expected < 0.1 * loss@start = 0.4");
  EXPECT_THAT(verdict("lost < 1").unknown, ElementsAre("lost"));
}

TEST(Lessons, StepsBeginWhereTheOneBeforeEndedAsWritten) {
  const Lesson lesson = parse_lesson(
      "# T\n## One\nset: preset = tiny ; task.bindings = 2\nrun: 20 steps\nset: learning_rate = 0.002\n"
      "command: head_off {\"head\": 1, \"off\": true}\nrun: to 30\n## Two\nexpect: loss < 9\n## Three\nset: preset = "
      "tiny-ssm\n",
      "x.md");
  const std::vector<LessonStepPlan> plans = plan_lesson(lesson);
  EXPECT_THAT(deeds_of(plans[0]),
              ElementsAre("speed", "load", "reach 0", "run_to", "reach 20", "set", "head_off", "run_to", "reach 30"));
  EXPECT_EQ(plans[0].start, 3u) << "the scene is set before the first run";
  EXPECT_THAT(deeds_of(plans[1]), ElementsAre("speed", "load", "reach 30", "head_off", "expect"));
  const json recipe = recipe_of(plans[1]);
  EXPECT_EQ(recipe["task"]["bindings"], 2);
  EXPECT_EQ(recipe["shown_step"], 30);
  EXPECT_EQ(recipe["commands"],
            json::parse(R"([{"step": 20, "name": "set", "value": {"key": "learning_rate", "to": 0.002}}])"));
  EXPECT_THAT(deeds_of(plans[2]), ElementsAre("speed", "load", "reach 0")) << "a preset needs nothing of before";
}

TEST(Lessons, AQuestionBeforeThePresetIsAskedWhereTheStepBeforeEnded) {
  const std::vector<LessonStepPlan> plans = plan_lesson(parse_lesson(
      "# T\n## One\nset: preset = tiny\nrun: to 20\n## Two\nask: Which? | a | b\nset: preset = tiny-ssm\n", "x.md"));
  EXPECT_THAT(deeds_of(plans[1]), ElementsAre("speed", "load", "reach 20", "ask", "load", "reach 0"));
}

TEST(Lessons, WhatCannotChangeOnTheWayBeginsTheRunAgain) {
  const std::vector<LessonStepPlan> plans = plan_lesson(parse_lesson(
      "# T\n## One\nset: preset = tiny ; learning_rate = 0.002\nrun: 20 steps\nset: batch = 8\nset: seed = 9\n",
      "x.md"));
  EXPECT_EQ(plans[0].last_step, 0);
  const Recipe last = parse_recipe(plans[0].deeds[plans[0].deeds.size() - 2].command.value["recipe"], "x");
  EXPECT_EQ(last.seed, 9u);
  EXPECT_EQ(last.training.learning_rate, 0.002);
  EXPECT_TRUE(last.commands.empty()) << "a change on the way belongs to the way";
}

TEST(Lessons, ANumberInTheTextIsSetWhereItIsNotSo) {
  const std::vector<LessonStepPlan> plans =
      plan_lesson(parse_lesson("# T\n## One\nsay: The rate is {learning_rate=0.002} and K {power=4}.\n"
                               "set: preset = tiny\nrun: 20 steps\n## Two\nsay: Still {learning_rate=0.002}.\n",
                               "x.md"));
  EXPECT_THAT(deeds_of(plans[0]),
              ElementsAre("speed", "load", "reach 0", "load", "reach 0", "select", "run_to", "reach 20"));
  EXPECT_THAT(deeds_of(plans[1]), ElementsAre("speed", "load", "reach 20", "select"));
  EXPECT_EQ(command_of("learning_rate", 0.1).name, "set");
  EXPECT_EQ(command_of("override.K", 4).value, R"({"key":"K","to":4.0})"_json);
  EXPECT_EQ(command_of("power", 4).value, R"({"power":4})"_json);
}

TEST(Lessons, AWorkspaceStaysUntilAnotherIsNamedAlsoForOtherPresets) {
  const std::vector<LessonStepPlan> plans =
      plan_lesson(parse_lesson("# T\n## One\nset: preset = tiny ; workspace = probe ; head = 1\n## Two\nset: preset = "
                               "tiny-ssm\n## Three\nsay: x\n",
                               "x.md"));
  EXPECT_THAT(deeds_of(plans[1]), ElementsAre("speed", "workspace", "load", "reach 0"));
  EXPECT_THAT(deeds_of(plans[2]), ElementsAre("speed", "load", "reach 0", "workspace"));
}

TEST(Lessons, AFocusMayNameOneFigureOfAPanel) {
  const std::vector<LessonStepPlan> plans =
      plan_lesson(parse_lesson("# T\n## One\nset: preset = tiny\nfocus: inside 3\n## Two\nfocus: inside\n", "x.md"));
  const auto shown = [](const LessonStepPlan& plan) {
    std::vector<std::string> values;
    for (const LessonDeed& deed : plan.deeds) {
      if (deed.command.name == "show") values.push_back(deed.command.value.dump());
    }
    return values;
  };
  EXPECT_THAT(shown(plans[0]), ElementsAre(R"({"figure":2,"panel":"inside"})"));
  EXPECT_THAT(shown(plans[1]), ElementsAre(R"({"figure":2,"panel":"inside"})", R"({"figure":-1,"panel":"inside"})"))
      << "the step begins as the one before ended, then all pictures are back";
}

TEST(Lessons, ThePlanHoldsQuestionAnswerAndGoalsOfEachStep) {
  const std::vector<LessonStepPlan> plans = plan_lesson(parse_lesson(
      "# T\n## One\nset: preset = tiny\nask: What is $λ^2$? | $0.9^2$ | 1\nanswer: 2\n"
      "goal: loss < 2 | $λ$ has grown\ngoal: step > 3 and loss < 0.5 * loss@start | Trained\n## Two\nsay: x\n",
      "x.md"));
  ASSERT_TRUE(plans[0].question);
  EXPECT_THAT(plans[0].question->choices, ElementsAre("$0.9^2$", "1"));
  EXPECT_EQ(plans[0].answer, 2);
  ASSERT_EQ(plans[0].goals.size(), 2u);
  EXPECT_EQ(plans[0].goals[0].sentence, "$λ$ has grown");
  EXPECT_EQ(plans[0].goals[1].condition.comparisons.size(), 2u);
  EXPECT_FALSE(plans[1].question);
  EXPECT_TRUE(plans[1].goals.empty());
}

TEST(Lessons, ThatAreShippedCanBePlanned) {
  for (const ShippedLesson& shipped : shipped_lessons()) {
    EXPECT_NO_THROW({
      const Lesson lesson = parse_lesson(shipped.text, shipped.name);
      plan_lesson(lesson);
      EXPECT_EQ(text_of(parse_lesson(text_of(lesson), shipped.name)), text_of(lesson));
    }) << shipped.name;
  }
}

/// The panel that a step enlarges; empty: none.
std::string enlarged_by(const LessonStep& step) {
  std::string enlarged;
  for (const LessonLine& line : step.lines) {
    if (line.word == LessonWord::focus) enlarged = read_names(line).front();
  }
  return enlarged == "page" ? "" : enlarged;
}

TEST(Lessons, ThatAreShippedDimNoPanelThatTheyEnlarge) {
  for (const ShippedLesson& shipped : shipped_lessons()) {
    const Lesson lesson = parse_lesson(shipped.text, shipped.name);
    for (const LessonStep& step : lesson.steps) {
      const std::string enlarged = enlarged_by(step);
      for (const LessonLine& line : step.lines) {
        if (line.word != LessonWord::highlight || enlarged.empty()) continue;
        EXPECT_THAT(read_names(line), ::testing::Contains(enlarged)) << line.place;
      }
    }
  }
}

}  // namespace
}  // namespace afterglow
