// The moment that a recipe shows is gone to exactly, whatever was done in between.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "core/engine/analyses/inspected/inspected_view.h"
#include "core/engine/session/session_worker.h"
#include "tests/core/engine/small_recipe.h"

namespace afterglow {
namespace {

using nlohmann::json;

struct LessonMoment : testing::Test {
  Mailbox mailbox;
  SessionWorker worker{small_recipe_json().dump(), options(), mailbox};

  static SessionOptions options() {
    SessionOptions options;
    options.device = "cpu";
    options.threads = 1;
    options.start_running = false;
    return options;
  }
  LessonMoment() {
    mailbox.request(0);
    worker.begin();
  }
  void give(const std::string& name, const json& value = json::object()) {
    worker.apply({name, value});
    while (worker.control().running()) worker.turn();
  }
  json recipe_at(std::int64_t step) const {
    json recipe = small_recipe_json();
    recipe["shown_step"] = step;
    return recipe;
  }
  Observation now() { return *worker.observe(set_of(Analysis::inspected) | Analysis::spectra); }
};

TEST_F(LessonMoment, IsTheSameToTheBitAfterAnyChanges) {
  give("load", {{"recipe", recipe_at(12)}, {"alone", true}});
  const Observation first = now();
  EXPECT_EQ(first.step, 12);
  give("set", {{"key", "learning_rate"}, {"to", 0.01}});
  give("head_off", {{"head", 0}, {"off", true}});
  give("probe_sequence", {{"at", 0}, {"token", 1}});
  give("influence", {{"tokens", 32}});
  give("run_to", {{"step", 20}});
  give("branch");
  ASSERT_NE(now().checksum, first.checksum);
  give("load", {{"recipe", recipe_at(12)}, {"alone", true}});
  const Observation again = now();
  EXPECT_EQ(again.step, 12);
  EXPECT_EQ(again.checksum, first.checksum);
  EXPECT_EQ(again.latest_step, 12) << "nothing of the future is shown";
  EXPECT_EQ(again.runs.size(), 1u) << "what was tried is gone";
  EXPECT_TRUE(again.runs.back().marks.empty());
  EXPECT_EQ(again.inspected->accuracy_before, first.inspected->accuracy_before);
  EXPECT_FALSE(again.inspected->is_edited());
  EXPECT_EQ(again.inspected->tokens[0].id, first.inspected->tokens[0].id);
  EXPECT_EQ(again.spectra->heads[0].eigenvalues, first.spectra->heads[0].eigenvalues);
}

TEST_F(LessonMoment, KeepsEarlierRunsWhereItIsNotAlone) {
  give("load", {{"recipe", recipe_at(5)}, {"alone", true}});
  json other = recipe_at(0);
  other["seed"] = 99;
  give("load", {{"recipe", other}});
  EXPECT_EQ(now().runs.size(), 2u);
  EXPECT_EQ(now().seed, 99u);
}

TEST_F(LessonMoment, IsToldApartFromTheOneBeforeByTheCountOfCommands) {
  mailbox.send({"load", json{{"recipe", recipe_at(3)}, {"alone", true}}});
  mailbox.take();
  while (mailbox.taken_commands() < 1 || worker.control().running()) {
    mailbox.take();
    worker.turn();
  }
  EXPECT_EQ(worker.run().step(), 3);
}

}  // namespace
}  // namespace afterglow
