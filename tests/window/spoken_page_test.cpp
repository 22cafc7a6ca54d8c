// What screen readers announce of the page.
#include "app/window/accessibility/spoken_page.h"

#include <gmock/gmock.h>

#include "tests/support/sample_observations.h"

namespace afterglow {
namespace {

using testing::HasSubstr;
using testing::Not;

struct SpokenPage : testing::Test {
  PageState page;
  FigureCache figures;
  std::shared_ptr<const Observation> observation = std::make_shared<const Observation>(samples::mid_training());
  std::vector<SpokenPanel> spoken() { return spoken_panels(page, observation, figures); }
};

TEST_F(SpokenPage, HasAPanelForEachThatIsShown) {
  page.drawn.panels = {{"training", {}}, {"spectrum", {}}};
  const std::vector<SpokenPanel> panels = spoken();
  ASSERT_EQ(panels.size(), 2u);
  EXPECT_EQ(panels[0].name, "Training");
  EXPECT_THAT(panels[0].description, testing::AllOf(HasSubstr("Loss"), HasSubstr("falls from")));
  EXPECT_EQ(panels[1].name, "Koopman spectrum");
  EXPECT_THAT(panels[1].description, HasSubstr("outside the circle"));
}

TEST_F(SpokenPage, TellsTheFigureThatWasChosenAlone) {
  page.drawn.panels = {{"training", {}}};
  page.shown_figure["training"] = 1;
  EXPECT_THAT(spoken()[0].description, testing::AllOf(HasSubstr("Loss"), Not(HasSubstr("Accuracy"))));
}

TEST_F(SpokenPage, SaysWhyAPanelShowsNothing) {
  observation = std::make_shared<const Observation>(samples::forecast());
  page.drawn.panels = {{"spectrum", {}}};
  EXPECT_THAT(spoken()[0].description, HasSubstr("needs"));
}

TEST_F(SpokenPage, BeginsWithTheLesson) {
  page.drawn.panels = {{"training", {}}};
  page.lesson.lesson = std::make_shared<const Lesson>(parse_lesson(R"(# Fading

## First step

say: Words with a {power=2 0..8} number.

ask: Which $λ$ lasts? | the near one | the far one
answer: 1
goal: loss < 100 | The loss is small.
)",
                                                                   "fading.md"));
  page.lesson.reached = {true};
  page.lesson.values["power"] = 5;
  const SpokenPanel lesson = spoken()[0];
  EXPECT_EQ(lesson.name, "Lesson: Fading, step 1 of 1");
  EXPECT_EQ(lesson.description,
            "First step. Words with a 5 number. Which λ lasts? 1: the near one. 2: the far one. Goal reached: The loss "
            "is small.");
  EXPECT_EQ(spoken()[1].id, "training");
}

}  // namespace
}  // namespace afterglow
