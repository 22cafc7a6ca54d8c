// A read-out finds what a linear state holds, and nothing where labels are shuffled.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/analysis/linear_readout.h"
#include "core/engine/observation/causes_view.h"
#include "core/engine/session/analysed_run.h"
#include "core/random/random.h"
#include "tests/core/engine/small_recipe.h"

namespace afterglow {
namespace {

TEST(LinearReadout, FindsLabelsInALinearStateAndNothingInShuffledOnes) {
  constexpr int samples = 240, fitted = 160, choices = 4, width = 40;
  Random random(5, readout_stream, 1);
  std::vector<std::vector<double>> codes(choices, std::vector<double>(width));
  for (auto& code : codes) {
    for (double& value : code) value = random.normal();
  }
  std::vector<double> features;
  std::vector<std::vector<int>> labels(2);
  for (int i = 0; i < samples; ++i) {
    const int label = static_cast<int>(random.uniform_int(choices));
    labels[0].push_back(label);
    labels[1].push_back(static_cast<int>(random.uniform_int(choices)));
    for (int j = 0; j < width; ++j)
      features.push_back(codes[static_cast<std::size_t>(label)][static_cast<std::size_t>(j)] + 0.1 * random.normal());
  }
  const std::vector<double> found = readout_accuracies(features, samples, fitted, labels, choices, 1e-3);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0], 1.0);
  EXPECT_NEAR(found[1], 0.25, 0.2);
}

TEST(LinearReadout, RefusesWhatDoesNotFitAndSaysWhatIsNotFinite) {
  const std::vector<std::vector<int>> labels(1, std::vector<int>(4, 0));
  EXPECT_TRUE(readout_accuracies(std::vector<double>(7, 1.0), 4, 2, labels, 2, 1e-3).empty());
  EXPECT_TRUE(readout_accuracies(std::vector<double>(8, 1.0), 4, 4, labels, 2, 1e-3).empty());
  EXPECT_TRUE(std::isnan(readout_accuracies(std::vector<double>(8, NAN), 4, 2, labels, 2, 1e-3).front()));
}

TEST(ReadoutMeasurement, AStateHoldsAValueAfterItsTokenAndNotBefore) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  AnalysedRun run({small_recipe(), std::nullopt}, *backend);
  const auto view = run.observe(set_of(Analysis::readout)).readout;
  ASSERT_TRUE(view->is_complete);
  ASSERT_EQ(view->keys.size(), 2U);
  EXPECT_EQ(view->layer, 3);  // the SKA layer
  const auto tokens = static_cast<int>(view->tokens.size());
  for (std::size_t key = 0; key < view->keys.size(); ++key) {
    const auto at = [&](int t) { return view->accuracy[key * view->tokens.size() + static_cast<std::size_t>(t)]; };
    EXPECT_LT(at(view->places[key] - 1), 0.4) << key;
    EXPECT_GT(at(view->places[key]), 0.9) << key;  // an untrained state sums what it has seen, and forgets nothing
    EXPECT_GT(at(tokens - 1), 0.8) << key;
  }
  double shuffled = 0;
  for (const double accuracy : view->shuffled) shuffled += accuracy / tokens;
  EXPECT_NEAR(shuffled, 1.0 / view->choices, 0.08);
}

}  // namespace
}  // namespace afterglow
