// A session's worker without its thread, and what its run and its looks are compared with.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/observation/run_numbers.h"
#include "core/engine/session/mailbox.h"
#include "core/engine/session/session_worker.h"
#include "tests/core/engine/small_recipe.h"

namespace afterglow {

/// A worker that works when the test says so.
struct TurnedWorker {
  explicit TurnedWorker(const nlohmann::json& recipe = small_recipe_json(),
                        SessionOptions options = {"cpu", 1, false, 1e9})
      : worker(recipe.dump(), std::move(options), box) {
    worker.begin();
  }
  /// Turns until the training rests, and once more to publish, unless the last turn has done so.
  std::shared_ptr<const Observation> after(const Command& command) {
    box.send(command);
    return at_rest();
  }
  std::shared_ptr<const Observation> at_rest() {
    do {
      box.take();
      worker.turn();
    } while (worker.control().running());
    box.take();
    if (worker.wait() < std::chrono::hours(1)) worker.turn();
    return box.take();
  }
  Mailbox box;
  SessionWorker worker;
};

inline std::string checksum_without_session(std::int64_t step) {
  const auto backend = make_cpu_backend(1);
  TrainingRun run(small_recipe(), *backend);
  run.go_to(step);
  return run.trainer().checksum();
}

/// All that reads the model and is soon made.
inline AnalysisSet looks_at_the_model() {
  AnalysisSet looks = 0;
  for (const Analysis analysis : {Analysis::spectra, Analysis::trace, Analysis::inspected, Analysis::transplant,
                                  Analysis::solvers, Analysis::theory, Analysis::logit_lens, Analysis::influence,
                                  Analysis::forces, Analysis::patch, Analysis::ablation, Analysis::readout})
    looks = looks | analysis;
  return looks;
}

inline void expect_same_numbers(const Observation& seen, const Observation& expected) {
  const std::vector<NamedNumber> numbers = numbers_of(seen), others = numbers_of(expected);
  ASSERT_EQ(numbers.size(), others.size());
  EXPECT_GT(numbers.size(), 500U);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const Quantity value = numbers[i].value, other = others[i].value;
    EXPECT_EQ(numbers[i].name, others[i].name);
    EXPECT_EQ(value.word, other.word) << numbers[i].name;
    EXPECT_TRUE(value.number == other.number || (std::isnan(value.number) && std::isnan(other.number)))
        << numbers[i].name << " is " << value.number << " and " << other.number;
  }
}

}  // namespace afterglow
