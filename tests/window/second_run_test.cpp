// The second run of a comparison looks where the first one looks.
#include "app/window/second_run.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/support/sample_observations.h"
#include "tests/views/drawing/null_window.h"
#include "views/panels/panel.h"

namespace afterglow {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Given {
  std::vector<std::string> commands;
  AnalysisSet asked = 0;
  Observation seen = samples::mid_training();
  std::uint64_t revision = 1;
};

class GivenSource final : public ObservationSource {
 public:
  explicit GivenSource(Given& given) : given_(given) {}
  void send(Command command) override { given_.commands.push_back(command.name + " " + command.value.dump()); }
  std::shared_ptr<const Observation> observe() const override {
    return std::make_shared<const Observation>(given_.seen);
  }
  std::uint64_t revision() const override { return given_.revision; }
  void request_analyses(AnalysisSet analyses) override { given_.asked = analyses; }

 private:
  Given& given_;
};

TEST(SecondRun, FollowsWhatIsLookedAtAndTheTimeUnlessItsStepWasChosen) {
  for (const bool keeps_step : {false, true}) {
    Given given;
    SecondRun second(std::make_unique<GivenSource>(given), keeps_step);
    for (const char* name : {"trace", "set", "rewind", "drag_mode", "influence", "save"}) second.follow({name});
    if (keeps_step)
      EXPECT_THAT(given.commands, ElementsAre("trace {}", "influence {}"));
    else
      EXPECT_THAT(given.commands, ElementsAre("trace {}", "rewind {}", "influence {}"));
  }
}

TEST(SecondRun, GetsTheAnalysesOfThePageAndTheSequenceOnce) {
  Given given;
  SecondRun second(std::make_unique<GivenSource>(given), false);
  Observation first = given.seen;
  second.observe(first, Analysis::spectra | Analysis::trace);
  EXPECT_EQ(given.asked, Analysis::spectra | Analysis::trace);
  EXPECT_TRUE(given.commands.empty()) << "both read the same tokens";
  auto trace = std::make_shared<Trace>(*first.trace);
  trace->tokens[0].id += 1;
  first.trace = trace;
  first.inspected = nullptr;
  given.seen.inspected = nullptr;
  for (int i = 0; i < 2; ++i) second.observe(first, Analysis::spectra | Analysis::trace);
  ASSERT_EQ(given.commands.size(), 1u);
  EXPECT_THAT(given.commands[0],
              HasSubstr(R"(probe_sequence {"tokens":[)" + std::to_string(trace->tokens[0].id) + ","));
}

TEST(SecondRun, ItsFailuresAreToldOnce) {
  Given given;
  given.seen.events = {{0, Severity::failure, "has no token 40"}};
  SecondRun second(std::make_unique<GivenSource>(given), false);
  EXPECT_EQ(second.new_problem(), "has no token 40");
  EXPECT_EQ(second.new_problem(), std::nullopt);
}

TEST(SecondRun, ASequenceThatItCannotReadIsSaidWithAdviceAndDoesNotEndItsTraining) {
  Given given;
  given.seen.running = true;
  given.seen.inspected = nullptr;
  SecondRun second(std::make_unique<GivenSource>(given), false);
  Observation first = given.seen;
  auto trace = std::make_shared<Trace>(*first.trace);
  trace->tokens[0].id = 99;
  first.trace = trace;
  second.observe(first, 0);
  given.seen.running = false;
  given.seen.events = {{0, Severity::failure, "token 99 is outside the vocabulary of 32"}};
  second.observe(first, 0);
  EXPECT_THAT(second.new_problem().value(), HasSubstr("of 32; B shows a sequence of its own until A inspects one"));
  ASSERT_EQ(given.commands.size(), 2u);
  EXPECT_EQ(given.commands[1], "run {}");
  given.seen.events.push_back({0, Severity::failure, "the device is lost"});
  second.observe(first, 0);
  EXPECT_EQ(second.new_problem(), "the device is lost");
}

TEST(Comparison, EveryPlotOfThePageDrawsBothRuns) {
  FigureCache figures;
  const auto first = std::make_shared<const Observation>(samples::mid_training());
  figures.compare(std::make_shared<const Observation>(samples::training_at(150)));
  const auto with_b = [&](const char* panel) {
    for (const Figure& figure : figures.figures(*find_panel(panel)->kind, first, {})) {
      for (const Series& series : figure.series) {
        if (series_name(series).starts_with("B: ")) return true;
      }
    }
    return false;
  };
  for (const char* panel : {"training", "spectrum", "power_filter"}) EXPECT_TRUE(with_b(panel)) << panel;
  figures.compare(nullptr);
  EXPECT_FALSE(with_b("training"));
}

TEST(Comparison, AModeOfTheSecondRunIsNeitherDraggedNorChosen) {
  NullWindow window(700, 700);
  Figure figure{.id = "spectrum_layer1_head0", .equal_aspect = true};
  figure.x.range = figure.y.range = Range{-1, 1};
  Scatter b{.name = "B: eigenvalues", .points = {ScatterPoint{.x = 0, .y = 0, .radius = 40, .id = "B: mode 0"}}};
  b.points[0].mode.number = 0;
  for (const bool is_outlined : {true, false}) {
    b.is_outlined = is_outlined;
    figure.series = {b};
    PlotResponse response;
    Point middle;
    for (int i = 0; i < 3; ++i) {
      window.draw([&](Frame& frame) {
        response = plot_widget(frame, figure, {0, 0, 700, 700}, {.moves_points = true});
        const ShownPlot& shown = frame.state.drawn.plots.back();
        middle = {shown.area.x + shown.area.width / 2, shown.area.y + shown.area.height / 2};
      });
      window.mouse(middle.x, middle.y);
    }
    EXPECT_FALSE(response.point_lines.empty()) << "the dot is under the mouse";
    EXPECT_EQ(response.hovered_mode.number, is_outlined ? -1 : 0);
  }
}

TEST(SecondRun, ChangesPlacesWithTheFirst) {
  Given a, b;
  a.seen.preset = "a";
  b.seen.preset = "b";
  std::unique_ptr<ObservationSource> first = std::make_unique<GivenSource>(a);
  SecondRun second(std::make_unique<GivenSource>(b), false);
  second.swap(first);
  EXPECT_EQ(first->observe()->preset, "b");
  EXPECT_EQ(second.observe(*first->observe(), 0)->preset, "a");
  second.follow({"rewind"});
  EXPECT_THAT(a.commands, ElementsAre("rewind {}"));
  EXPECT_TRUE(b.commands.empty());
}

}  // namespace
}  // namespace afterglow
