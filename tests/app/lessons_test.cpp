// Lessons by the program: checked, graded, printed.
#include <gmock/gmock.h>

#include <regex>

#include "core/figure/files/page.h"
#include "tests/app/program_test.h"

namespace afterglow {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Lessons : public ProgramTest {
 protected:
  Lessons() { write("small.md", text_of(source_folder() / "tests/app/lessons/small.md")); }
  void replace(const std::string& what, const std::string& by) {
    std::string text = text_of(folder_ / "small.md");
    const std::size_t at = text.find(what);
    ASSERT_NE(at, std::string::npos) << what;
    write("small.md", text.replace(at, what.size(), by));
  }
  const std::string where_ = " --device cpu --threads 2 ";
};

TEST_F(Lessons, CheckSaysOfEveryStepWhatItTookAndThatItIsSo) {
  const ProgramResult result = run("check small.md --json" + where_);
  ASSERT_EQ(result.code, 0) << result.out << result.err;
  const json steps = parsed(result)["lessons"][0]["steps"];
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_TRUE(steps[0]["ok"]);
  EXPECT_EQ(steps[0]["step"], 20);
  EXPECT_EQ(steps[1]["step"], 30);
  EXPECT_EQ(steps[0]["expectations"].size(), 2u);
  EXPECT_GT(steps[0]["memory_bytes"], 1 << 20);
  EXPECT_GE(steps[0]["seconds"], 0);
  EXPECT_THAT(run("check small.md" + where_).out, AllOf(HasSubstr("ok on this machine: 2 steps"), HasSubstr("learns")));
}

TEST_F(Lessons, AnExpectationThatIsNotMetIsCode7WithItsPlaceAndNumbers) {
  replace("expect: spectral_radius > 0 and kappa >= 1", "expect: spectral_radius > 100");
  const ProgramResult result = run("check small.md" + where_);
  EXPECT_EQ(result.code, 7);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("small.md:15"), HasSubstr("spectral_radius is "), HasSubstr("expected > 100")));
  EXPECT_THAT(result.out, AllOf(HasSubstr("WRONG"), HasSubstr("ok")));
}

TEST_F(Lessons, ANameThatIsNoneIsToldWithTheNearest) {
  replace("expect: spectral_radius > 0", "expect: spectral_radios > 0");
  const ProgramResult result = run("check small.md" + where_);
  EXPECT_EQ(result.code, 7);
  EXPECT_THAT(result.err, HasSubstr("did you mean 'spectral_radius'"));
}

TEST_F(Lessons, WhatIsNoLessonIsCode3BeforeAnythingIsTrained) {
  replace("focus: spectrum", "focus: spectrom");
  const ProgramResult result = run("check small.md" + where_);
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, AllOf(HasSubstr("small.md:22"), HasSubstr("did you mean 'spectrum'")));
  EXPECT_THAT(result.out, Not(HasSubstr("ok")));
  EXPECT_EQ(run("check missing.md").code, 3);
}

TEST_F(Lessons, NamesAreListedWithTheirValues) {
  const json names = parsed(run("check --names tiny --json" + where_))["names"];
  for (const char* name :
       {"loss", "step", "learning_rate", "layers.1.ska.ridge", "spectral_radius", "head.1_ska.0.mode.0.half_life",
        "probe.probability", "solvers.kappa", "influence.1_ska.law", "training_loss.loss.last"})
    EXPECT_TRUE(names.contains(name)) << name;
  EXPECT_EQ(names["step"], 20);
}

TEST_F(Lessons, GradeSaysWhichGoalsARecipeReaches) {
  const ProgramResult trained =
      run("train --preset tiny --set steps=200 --until 26 --no-figures --out pupil --json" + where_);
  const std::string recipe_file = parsed(trained)["recipe"];
  json pupil = json::parse(text_of(folder_ / recipe_file));
  write("missed.json", pupil.dump());
  EXPECT_EQ(run("grade small.md missed.json" + where_).code, 7);
  pupil["commands"] =
      json::array({{{"step", 20}, {"name", "set"}, {"value", {{"key", "learning_rate"}, {"to", 0.002}}}}});
  write("reached.json", pupil.dump());
  const ProgramResult graded = run("grade small.md reached.json --json" + where_);
  ASSERT_EQ(graded.code, 0) << graded.out << graded.err;
  EXPECT_EQ(parsed(graded)["reached"], 2);
  EXPECT_EQ(parsed(graded)["changes"], 1);
}

TEST_F(Lessons, HandoutHasTextFormulasAndFigures) {
  const ProgramResult result = run("handout small.md --html out.html" + where_);
  ASSERT_EQ(result.code, 0) << result.err;
  const std::string html = text_of(folder_ / "out.html");
  EXPECT_THAT(html, AllOf(HasSubstr("A small lesson"), HasSubstr("What does the loss do?"),
                          HasSubstr("aria-label=\"λ^K\""), HasSubstr("<svg role=\"img\" aria-label=\"")));
  EXPECT_TRUE(std::regex_search(html, std::regex("<svg role=\"img\" aria-label=\"[^\"]* from ")))
      << "screen readers alone hear what a figure shows";
  EXPECT_THAT(html, AllOf(HasSubstr("data-correct=\"1\""), HasSubstr("<section class=\"answer\" data-step=\"1\">")));
  EXPECT_THAT(html, Not(HasSubstr("{{"))) << "every part is filled in";
  const std::size_t question = html.find("What does the loss do?"), answers = html.find(">Answers</h1>");
  const std::size_t answer = html.find("Correct answer: 1 (falls).");
  ASSERT_NE(answer, std::string::npos);
  EXPECT_LT(question, answers) << "one can give it out before the answers are known";
  EXPECT_LT(answers, answer);
  EXPECT_THAT(html, Not(HasSubstr("Let them guess"))) << "notes are the presenter's";
  EXPECT_EQ(run("handout small.md" + where_).code, 2);
  if (!has_page_writer()) return;
  EXPECT_EQ(run("handout small.md --pdf out.pdf" + where_).code, 0);
  EXPECT_TRUE(text_of(folder_ / "out.pdf").starts_with("%PDF"));
}

TEST_F(Lessons, HandoutPrintsTheLargeNumberWithTheAnswer) {
  replace("run: 20 steps", "show: step | steps done\nrun: 20 steps");
  ASSERT_EQ(run("handout small.md --html out.html" + where_).code, 0);
  const std::string html = text_of(folder_ / "out.html");
  const std::size_t number = html.find("<b>0 → 20</b><small>steps done</small>");
  ASSERT_NE(number, std::string::npos) << "at the question and at the end";
  EXPECT_LT(html.find(">Answers</h1>"), number);
}

TEST_F(Lessons, HandoutDrawsTheAxesThatTheStepSets) {
  const auto page_with = [&](const std::string& scale) {
    replace(scale == "linear" ? "focus: spectrum" : "\"scale\": \"linear\"",
            scale == "linear" ? "focus: training\ncommand: axis_scale {\"plot\": \"training_loss\", \"axis\": \"x\", "
                                "\"scale\": \"linear\"}"
                              : "\"scale\": \"log\"");
    EXPECT_EQ(run("handout small.md --force --html out.html" + where_).code, 0);
    return text_of(folder_ / "out.html");
  };
  const std::string linear = page_with("linear"), log = page_with("log");
  EXPECT_THAT(linear, AllOf(HasSubstr(">20</text>"), Not(HasSubstr(">10⁰</text>"))));
  EXPECT_NE(linear, log);
}

}  // namespace
}  // namespace afterglow
