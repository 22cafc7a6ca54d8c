// The benchmark of being watched, with a run that is small enough for a test.
#include <gtest/gtest.h>

#include "app/cli/bench/bench_runs.h"
#include "core/io/error.h"
#include "tests/core/engine/small_recipe.h"

namespace afterglow {
namespace {

SessionOptions on_one_thread() {
  SessionOptions options;
  options.device = "cpu";
  options.threads = 1;
  return options;
}

TEST(PublishBench, TrainsOnWithAReaderAndWithout) {
  PublishBench bench(parse_recipe(quickly_measured_recipe_json(), "quick"), all_analyses, on_one_thread());
  for (const PublishBench::Stretch& stretch : {bench.watched(0.2), bench.alone(0.2), bench.watched(0.1)}) {
    EXPECT_GE(stretch.seconds, 0.1);
    EXPECT_GE(stretch.steps, 20);
    EXPECT_NEAR(stretch.step_ms() * static_cast<double>(stretch.steps), 1e3 * stretch.seconds, 1e-6);
  }
}

TEST(PublishBench, SaysWhatKeepsTheSessionFromTraining) {
  nlohmann::json recipe = quickly_measured_recipe_json();
  recipe["model"]["vocab"] = 5;  // fewer than the task has tokens
  EXPECT_THROW(PublishBench(parse_recipe(recipe, "quick"), all_analyses, on_one_thread()), Error);
}

}  // namespace
}  // namespace afterglow
