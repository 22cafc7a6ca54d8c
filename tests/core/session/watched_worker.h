// A session's worker that works when the test says so, watched as a window does.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "core/engine/observation/run_numbers.h"
#include "core/engine/session/mailbox.h"
#include "core/engine/session/session_worker.h"
#include "tests/core/engine/small_recipe.h"

namespace afterglow {

struct WatchedWorker {
  explicit WatchedWorker(SessionOptions options, nlohmann::json recipe = small_recipe_json())
      : worker(recipe.dump(), std::move(options), box) {
    worker.begin();
    carry_out({"pause", "{}"});
  }
  void carry_out(const Command& command) {
    box.send(command);
    do {
      box.take();
      worker.turn();
    } while (worker.control().running());
  }
  std::shared_ptr<const Observation> after(const Command& command) {
    carry_out(command);
    return worker.look(set_of(Analysis::trace));
  }
  Mailbox box;
  SessionWorker worker;
};

/// All that reads the model and is soon made.
inline AnalysisSet looks_at_the_model() {
  AnalysisSet looks = 0;
  for (const Analysis analysis : {Analysis::spectra, Analysis::trace, Analysis::probe, Analysis::transplant,
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
