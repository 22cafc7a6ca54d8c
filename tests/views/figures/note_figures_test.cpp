// Notes of the user are drawn where they are about, in files as in the window.
#include <gmock/gmock.h>

#include "core/figure/files/page.h"
#include "tests/support/sample_observations.h"
#include "views/plots/plot_kinds.h"

namespace afterglow {
namespace {

using testing::HasSubstr;
using testing::Not;

struct NotesOnFigures : testing::Test {
  Observation o = samples::mid_training();
  Figure figure(const char* kind, std::size_t number = 0) {
    CurveStore curves;
    return prepared_figures(*find_plot_kind(kind), o, {}, curves).at(number);
  }
  static std::string file(const Figure& figure) { return svg_text(figure, page_size(SizePreset::one_column, figure)); }
};

TEST_F(NotesOnFigures, OnAStepAreMarksOverEveryAxisOfSteps) {
  o.notes = {{.text = "the jump", .step = 260}};
  const Figure loss = figure("training");
  EXPECT_THAT(file(loss), HasSubstr("the jump"));
  EXPECT_EQ(loss.events.back().x, 260);
  EXPECT_THAT(file(figure("spectrum")), Not(HasSubstr("the jump"))) << "it has no axis of steps";
}

TEST_F(NotesOnFigures, StandAtTheirPlaceAtTheirStepElseInTheSubtitle) {
  const std::string id = figure("spectrum").id;
  o.notes = {{.text = "the slow one", .step = o.step, .figure = id, .x = 0.5, .y = 0.2}};
  Figure spectrum = figure("spectrum");
  EXPECT_EQ(spectrum.text_labels.back().text, "← the slow one");
  EXPECT_THAT(file(spectrum), HasSubstr("the slow one"));
  o.notes[0].step = 100;
  spectrum = figure("spectrum");
  EXPECT_THAT(spectrum.subtitle, testing::StartsWith("step 100: the slow one"));
  EXPECT_THAT(file(spectrum), HasSubstr("the slow one"));
  o.notes = {{.text = "look here", .step = o.step, .figure = id}};
  EXPECT_THAT(figure("spectrum").subtitle, testing::StartsWith("look here"));
  o.notes[0].figure = "spectrum";
  EXPECT_THAT(figure("spectrum").subtitle, testing::StartsWith("look here"))
      << "the plot's own name means its first figure";
  o.notes = {{.text = "a key", .step = o.step, .token = 3, .label = "k3"}};
  EXPECT_THAT(file(figure("training")), Not(HasSubstr("a key"))) << "the chips of the tokens show it";
}

}  // namespace
}  // namespace afterglow
