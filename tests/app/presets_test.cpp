// What the first run promises: the small model with SKA learns the task, the one without does not.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/app/run_program.h"

namespace afterglow {
namespace {

double held_out_accuracy(const std::string& preset, const std::string& more, const std::filesystem::path& folder) {
  const ProgramResult result =
      run_program("train --json --quiet --device cpu --no-figures --preset " + preset + " " + more, folder);
  const nlohmann::json json = nlohmann::json::parse(result.out, nullptr, false);
  EXPECT_FALSE(json.is_discarded()) << result.err;
  return json.is_discarded() ? -1.0 : json.value("accuracy", -1.0);
}

TEST(Presets, TinyLearnsWhatItsTwinWithoutSkaDoesNot) {
  const ScratchFolder folder("presets");
  EXPECT_GE(held_out_accuracy("tiny", "--set evaluate_examples=256", folder.path()), 0.99);
  const double twin = held_out_accuracy("tiny-ssm", "--set evaluate_examples=256", folder.path());
  EXPECT_LT(twin, 0.4);
  EXPECT_GT(twin, 0.1);
}

TEST(Presets, EchoWithFiftyMillionParametersBuildsAndSteps) {
  const ScratchFolder folder("echo");
  const ProgramResult result = run_program(
      "train --json --quiet --device cpu --no-figures --preset echo-50m --until 1 --set batch=1 --set task.length=128 "
      "--set evaluate_examples=1",
      folder.path());
  const nlohmann::json json = nlohmann::json::parse(result.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << result.err;
  EXPECT_EQ(json["steps"], 1);
  EXPECT_NEAR(json["parameters"].get<double>(), 50e6, 0.5e6);
}

}  // namespace
}  // namespace afterglow
