// Twins in lockstep: the same against the same is zero, and each twin is the training that it would be alone.
#include <gmock/gmock.h>

#include <cmath>

#include "core/engine/analyses/studies/studies_view.h"
#include "core/engine/session/analysed_run.h"
#include "core/io/error.h"
#include "tests/core/engine/small_recipe.h"
#include "tests/core/engine/train_to.h"

namespace afterglow {
namespace {

class MicroscopeTest : public testing::Test {
 protected:
  void SetUp() override { run.go_to(8); }
  MicroscopeView look(const std::string& change, std::int64_t from, std::int64_t steps, double ulps) {
    run.choose("microscope", {{"change", change}, {"from", from}, {"steps", steps}, {"ulps", ulps}});
    return *run.observe(set_of(Analysis::microscope)).microscope;
  }
  std::unique_ptr<Backend> backend = make_cpu_backend(1);
  AnalysedRun run{{small_recipe(), std::nullopt}, *backend};
};

TEST_F(MicroscopeTest, OfTheSameAgainstTheSameStaysAtZero) {
  const MicroscopeView view = look("same", 5, 6, 0);
  EXPECT_THAT(view.step, testing::ElementsAre(5, 6, 7, 8, 9, 10, 11));
  EXPECT_THAT(view.whole, testing::Each(0.0));
  for (const std::vector<double>& part : view.distance) EXPECT_THAT(part, testing::Each(0.0));
  EXPECT_TRUE(view.is_zero());
  EXPECT_EQ(view.first.step, -1);
  EXPECT_TRUE(std::isnan(view.slope));
}

TEST_F(MicroscopeTest, SeesOneBitWhereItIs) {
  const std::string weight = "layers.1.ska.k_proj.weight";
  const MicroscopeView view = look("bit " + weight + "[3]", 5, 4, 0);
  run.go_to(5);
  const ParameterStore& store = run.trainer().parameters();
  std::size_t part = 0;
  while (run.trainer().parts()[part].label != "1 ska") ++part;
  for (std::size_t i = 0; i < view.parts.size(); ++i) {
    EXPECT_EQ(view.distance[i][0] > 0, i == part) << view.parts[i] << " before the first step";
    EXPECT_GT(view.distance[i].back(), 0) << view.parts[i] << " after some";
  }
  double one = 0;
  for (const Parameter& parameter : store.all()) {
    if (parameter.name == weight) one = store.download(parameter.value)[3];
  }
  const auto bits = std::abs(std::nextafter(static_cast<float>(one), INFINITY) - static_cast<float>(one));
  double norm = 0;
  for (const double value : store.download(store.values())) norm += value * value;
  EXPECT_NEAR(view.whole[0] * std::sqrt(norm) / static_cast<double>(bits), 1, 0.51) << "one unit, up or down";
  EXPECT_EQ(view.first.step, 5);
  EXPECT_EQ(view.first.operation, "linear_many") << "nothing before it reads the weight";
  EXPECT_EQ(view.first.place, "layers.1.ska.keys");
  EXPECT_EQ(view.first.head, 0);
}

TEST_F(MicroscopeTest, ATwinIsTheTrainingWithTheChange) {
  const MicroscopeView view = look("learning_rate=0.001", 0, 7, 16);
  Recipe changed = small_recipe();
  changed.training.learning_rate = 0.001;
  TrainingRun alone(changed, *backend), itself(small_recipe(), *backend);
  train_to(alone, 7);
  train_to(itself, 7);
  const auto weights = [](TrainingRun& of) {
    return of.trainer().parameters().download(of.trainer().parameters().values());
  };
  const std::vector<double> a = weights(itself), b = weights(alone);
  double apart = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    apart += (a[i] - b[i]) * (a[i] - b[i]);
    norm += a[i] * a[i];
  }
  EXPECT_EQ(view.whole.back(), std::sqrt(apart) / std::sqrt(norm)) << "both twins are the trainings alone";
  EXPECT_EQ(view.whole[0], 0) << "the weights begin alike";
  EXPECT_GT(view.whole[1], 0);
  EXPECT_EQ(view.first.step, 1);
}

TEST_F(MicroscopeTest, OfALayersSettingNamesTheFirstPlaceThatReadsIt) {
  const MicroscopeView view = look("layers.1.ska.ridge=0.5", 5, 2, 16);
  EXPECT_EQ(view.whole[0], 0);
  EXPECT_EQ(view.first.step, 5);
  EXPECT_EQ(view.first.place, "layers.1.ska.readout");
  EXPECT_EQ(view.first.operation, "ridge_readout");
  EXPECT_GE(view.first.head, 0);
}

TEST_F(MicroscopeTest, OfATokenBeginsWithTheStepThatReadsIt) {
  const Example first = run.trainer().task().example(3, 5 * 4);
  const int other = first.tokens[1] == 7 ? 8 : 7;
  const MicroscopeView view = look("token 1=" + std::to_string(other), 5, 2, 0);
  EXPECT_EQ(view.whole[0], 0) << "before the batch";
  EXPECT_GT(view.whole[1], 0) << "after it";
  EXPECT_GT(view.whole[2], 0) << "the next batch has its own tokens again";
  const MicroscopeView same = look("token 1=" + std::to_string(first.tokens[1]), 5, 2, 0);
  EXPECT_TRUE(same.is_zero()) << "the token that is there anyway";
}

TEST_F(MicroscopeTest, AnotherBackEndOfTheSameSortIsTheSame) {
  EXPECT_TRUE(look("device=cpu", 5, 3, 0).is_zero()) << "any number of threads gives the same bits";
}

TEST_F(MicroscopeTest, RefusesWhatCannotBe) {
  const auto refused = [&](const char* change) { EXPECT_THROW(look(change, 5, 2, 0), Error) << change; };
  for (const char* change : {"bit no.such.weight", "bit embedding.weight[99999999]", "token 1", "token 999=1",
                             "token 1=9999", "learning_rate", "no_such=3", "precision=bf16", "precision=fp7"})
    refused(change);
  EXPECT_THROW(look("same", 99, 2, 0), Error) << "not trained";
  EXPECT_THROW(run.choose("microscope", {{"steps", 0}}), Error);
  EXPECT_THROW(run.choose("microscope", {{"step", 1}}), Error);
}

TEST_F(MicroscopeTest, IsMadeWhereItIsAskedForAndDroppedWithItsPast) {
  AnalysedRun analysed({small_recipe(), std::nullopt}, *backend);
  analysed.go_to(4);
  EXPECT_FALSE(analysed.has_work(Analysis::microscope));
  analysed.ask({"microscope", R"({"change": "bit", "steps": 3})"_json});
  EXPECT_TRUE(analysed.has_work(Analysis::microscope));
  const auto view = analysed.observe(set_of(Analysis::microscope)).microscope;
  ASSERT_TRUE(view);
  EXPECT_EQ(view->from, 4);
  EXPECT_TRUE(view->is_complete);
  analysed.go_to(6);
  EXPECT_TRUE(analysed.describe().microscope);
  AnalysedRun again({analysed.recipe(), std::nullopt}, *backend);
  again.go_to(6);
  EXPECT_EQ(again.observe(set_of(Analysis::microscope)).microscope->whole, view->whole) << "its recipe asks the same";
  analysed.go_to(2);
  analysed.set("learning_rate", 1e-2);
  analysed.forget_results(2);
  EXPECT_FALSE(analysed.describe().microscope);
}

}  // namespace
}  // namespace afterglow
