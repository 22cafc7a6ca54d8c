// Sweeps: axes as they are written, the runs of the grid, numbers of a trained run, and messages about mistakes.
#include "core/engine/sweeps/sweep.h"

#include <gmock/gmock.h>

#include <cmath>
#include <set>

#include "core/engine/inspection/observer.h"
#include "core/engine/observation/mode_numbers.h"
#include "core/engine/observation/run_numbers.h"
#include "core/engine/training/training_run.h"
#include "core/io/csv.h"
#include "tests/core/engine/small_recipe.h"
#include "tests/core/io/temporary_folder.h"
#include "tests/support/csv_file.h"

namespace afterglow {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Inquiry& inquiry() {
  static const Inquiry all = sweep_inquiry({}, std::numeric_limits<double>::infinity());
  return all;
}

std::string axis_refusal(const std::string& axis) {
  return message_of(ExitCode::usage, [&] { runs_of(small_recipe(), {parse_axis(axis)}, inquiry()); });
}

TEST(SweepAxis, IsWrittenAsAListOrARange) {
  EXPECT_THAT(parse_axis("batch=4,8,16").values, ElementsAre("4", "8", "16"));
  EXPECT_THAT(parse_axis("clip=lin:0:1:5").values, ElementsAre("0", "0.25", "0.5", "0.75", "1"));
  const SweepAxis rates = parse_axis("learning_rate=log:1e-4:1e-2:3");
  EXPECT_EQ(rates.field, "learning_rate");
  EXPECT_TRUE(rates.is_logarithmic);
  EXPECT_THAT(rates.values, ElementsAre("1e-04", "0.001", "0.01"));
  EXPECT_THAT(parse_axis("task.bindings=[1,2],[4]").values, ElementsAre("[1,2]", "[4]"));
  EXPECT_THAT(parse_axis("learning_rate=log:1:2:1").values, ElementsAre("1"));
}

TEST(SweepAxis, SaysWhatIsWrongWithIt) {
  const auto wrong = [](const std::string& text) { return message_of(ExitCode::usage, [&] { parse_axis(text); }); };
  EXPECT_THAT(wrong("learning_rate"), HasSubstr("FIELD=a,b,c"));
  EXPECT_THAT(wrong("learning_rate="), HasSubstr("a value is missing"));
  EXPECT_THAT(wrong("batch=4,,8"), HasSubstr("a value is missing"));
  EXPECT_THAT(wrong("batch=4,8,4"), HasSubstr("twice"));
  EXPECT_THAT(wrong("batch=lin:1:8"), HasSubstr("first, last and count"));
  EXPECT_THAT(wrong("batch=lin:1:8:0"), HasSubstr("count"));
  EXPECT_THAT(wrong("batch=lin:1:8:2.5"), HasSubstr("count"));
  EXPECT_THAT(wrong("learning_rate=log:0:1:4"), HasSubstr("positive"));
}

TEST(Sweep, UnknownFieldsAreAnsweredWithTheNearest) {
  EXPECT_THAT(axis_refusal("learning_rat=1,2"), HasSubstr("'learning_rate'"));
  EXPECT_THAT(axis_refusal("layers.1.ska.rigde=1"), HasSubstr("'layers.1.ska.ridge'"));
  EXPECT_THAT(axis_refusal("qqqqqqqq=1"), AllOf(HasSubstr("there are"), HasSubstr("model.blocks.0.mixer.d_state")));
}

TEST(Sweep, ValuesOutOfRangeAreToldBeforeAnythingIsTrained) {
  const auto refused = [](const std::string& axis) {
    return message_of(ExitCode::usage, [&] { runs_of(small_recipe(), {parse_axis(axis)}, inquiry()); });
  };
  EXPECT_THAT(refused("learning_rate=0.1,7"), AllOf(HasSubstr("--axis learning_rate"), HasSubstr("'7'")));
  EXPECT_THAT(refused("layers.1.ska.ridge=-1"), HasSubstr("--axis layers.1.ska.ridge"));
  EXPECT_THAT(refused("batch=lin:1:2:3"), HasSubstr("whole number"));
  EXPECT_THAT(refused("model.blocks.1.mixer.r=6,-3"), HasSubstr("-3"));
  EXPECT_THAT(refused("bindings=2,9999"), HasSubstr("9999"));
}

TEST(Sweep, RunsAreThoseOfTheGridWithDifferentNames) {
  const std::vector<SweepAxis> axes{parse_axis("learning_rate=0.001,0.002"), parse_axis("layers.1.ska.ridge=0.01,0.1"),
                                    seed_axis(small_recipe(), 2)};
  const std::vector<PlannedRun> runs = runs_of(small_recipe(), axes, inquiry());
  ASSERT_EQ(runs.size(), 8u);
  std::set<std::string> names;
  for (const PlannedRun& run : runs) names.insert(run.name);
  EXPECT_EQ(names.size(), 8u);
  EXPECT_EQ(runs[5].recipe.training.learning_rate, 0.002);
  EXPECT_EQ(runs[5].recipe.seed, small_recipe().seed + 1);
  EXPECT_THAT(runs[5].recipe.commands.front().command.value.dump(), AllOf(HasSubstr("ridge"), HasSubstr("0.01")));
  EXPECT_EQ(runs[5].name, runs_of(runs[5].recipe, {seed_axis(runs[5].recipe, 1)}, inquiry())[0].name)
      << "a hash does not tell in which sweep the run was";
  EXPECT_THAT(message_of(ExitCode::usage,
                         [&] {
                           runs_of(small_recipe(), {axes[0], axes[0]}, inquiry());
                         }),
              HasSubstr("already"));
}

TEST(Sweep, NumbersAreThoseOfTheTrainedRun) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  RecipeRun run(inquiry(), {0, small_recipe(), "run"}, *backend);
  while (run.train_step()) {
  }
  const RunResult result = run.result();
  const auto number = [&](const std::string& name) { return result.values[find_metric(inquiry().metrics, name)]; };
  TrainingRun same(small_recipe(), *backend, 0);
  while (!same.finished() && same.train_step()) {
  }
  EXPECT_EQ(result.checksum, same.trainer().checksum()) << "measuring changes nothing";
  EXPECT_DOUBLE_EQ(number("loss"), mean_of_last(same.curves().loss, 20));
  EXPECT_EQ(number("accuracy"), same.trainer().evaluate(256));
  Observer observer(same.trainer());
  observer.choose(0);
  const Spectra spectra = *observer.spectra(nullptr);
  EXPECT_EQ(number("half-life"), longest_half_life(spectra));
  EXPECT_THAT(result.spectrum.head, HasSubstr(" · head "));
  double slowest = 0;
  for (const std::complex<double>& lambda : result.spectrum.eigenvalues)
    slowest = std::max(slowest, mode_times(lambda).half_life);
  EXPECT_EQ(slowest, number("half-life")) << "its eigenvalues are of that head";
  EXPECT_GE(number("kappa"), 1);
  EXPECT_EQ(number("diverged"), 0);
  EXPECT_EQ(number("trained"), 40) << "a beginning is enough";
  EXPECT_TRUE(std::isnan(number("steps to 90 %"))) << "never";
}

TEST(Sweep, ARunWhoseLossGrowsHasDiverged) {
  Recipe recipe = small_recipe();
  recipe.training.learning_rate = 1;
  recipe.training.warmup = 0;
  recipe.training.clip = 0;
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  RecipeRun run(inquiry(), {0, recipe, "run"}, *backend);
  while (run.train_step()) {
  }
  EXPECT_EQ(run.result().values[find_metric(inquiry().metrics, "diverged")], 1);
}

TEST(Sweep, UnknownNumbersAreAnsweredWithTheirNames) {
  EXPECT_THAT(message_of(ExitCode::usage, [] { find_metric(inquiry().metrics, "acuracy"); }), HasSubstr("'accuracy'"));
}

class SweepFiles : public TemporaryFolder {};

TEST_F(SweepFiles, CsvHasARowForEachRunThatIsThere) {
  const SweepView all{"small", {parse_axis("batch=2,4"), parse_axis("seed=7,8")}, {{"loss", "nats"}}, {}, ""};
  const std::vector<PlannedRun> runs = runs_of(small_recipe(), all.axes, inquiry());
  SweepView some = all;
  some.results = {{1, 8, 10, "abc", {0.5}, {}}, {2, 7, 10, "def", {0.25}, {}}};
  write_sweep_csv(file("sweep.csv"), some, runs);
  const CsvTable csv = read_csv(file("sweep.csv"));
  EXPECT_THAT(csv.names(), ElementsAre("batch", "seed", "loss [nats]", "checksum", "run"));
  EXPECT_THAT(csv.numbers("batch"), ElementsAre(2, 4));
  EXPECT_THAT(csv.numbers("seed"), ElementsAre(8, 7));
  EXPECT_THAT(csv.numbers("loss [nats]"), ElementsAre(0.5, 0.25));
  EXPECT_EQ(csv.text(1, csv.column("run")), runs[2].name);
}

TEST(SweepPlaces, AreThoseOfTheGridAndSeedsAreSummedUp) {
  SweepView view{"small", {parse_axis("batch=2,4"), parse_axis("seed=7,8"), parse_axis("clip=0,1,2")}, {}, {}, ""};
  EXPECT_EQ(size_of(view.axes), 12u);
  EXPECT_THAT(place_of(view.axes, 10), ElementsAre(1, 1, 1));
  view.results = {{10, 8, 0, "", {}, {}}, {7, 7, 0, "", {}, {}}};
  EXPECT_EQ(shown_axes(view).size(), 2u);
  EXPECT_EQ(by_shown_place(view)[0].row, 4u);
  EXPECT_EQ(by_shown_place(view)[1].row, 4u);
}

}  // namespace
}  // namespace afterglow
