// The parts of a session's worker, each without a thread: mailbox, archive of runs, run control, editor of the probe,
// command handlers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/engine/probing/probe_editor.h"
#include "core/engine/session/command_handlers.h"
#include "core/engine/session/mailbox.h"
#include "core/engine/session/run_archive.h"
#include "core/engine/session/run_control.h"
#include "core/engine/session/session_worker.h"
#include "core/io/error.h"
#include "tests/core/engine/small_recipe.h"

namespace afterglow {
namespace {

TEST(Mailbox, DeliversCommandsInOrderOnceAndTheRequestEveryTime) {
  Mailbox mailbox;
  EXPECT_EQ(mailbox.receive(Mailbox::Wait::none).requested, all_analyses);
  mailbox.send({"step", "{}"});
  mailbox.send({"pause", "{}"});
  mailbox.request(set_of(Analysis::theory));
  const Mailbox::Delivery delivery = mailbox.receive(Mailbox::Wait::until_something_comes);
  ASSERT_EQ(delivery.commands.size(), 2u);
  EXPECT_EQ(delivery.commands[0].name, "step");
  EXPECT_EQ(delivery.commands[1].name, "pause");
  EXPECT_EQ(delivery.requested, set_of(Analysis::theory));
  EXPECT_FALSE(delivery.is_over);
  EXPECT_TRUE(mailbox.receive(Mailbox::Wait::a_while).commands.empty());
  mailbox.close();
  EXPECT_TRUE(mailbox.receive(Mailbox::Wait::until_something_comes).is_over);
}

TEST(Mailbox, HoldsTheNewestObservationAndKnowsWhetherItWasTaken) {
  Mailbox mailbox;
  ASSERT_TRUE(mailbox.take());
  const std::uint64_t before = mailbox.revision();
  for (const std::int64_t step : {1, 2}) {
    auto observation = std::make_shared<Observation>();
    observation->step = step;
    mailbox.publish(observation);
  }
  EXPECT_FALSE(mailbox.is_taken());
  EXPECT_NE(mailbox.revision(), before);
  EXPECT_EQ(mailbox.take()->step, 2);
  EXPECT_TRUE(mailbox.is_taken());
}

RunCurves curves_of(std::size_t steps) {
  GrowingCurve loss;
  for (std::size_t i = 0; i < steps; ++i) loss.append(1.0 / static_cast<double>(i + 1));
  RunCurves curves;
  curves.loss = loss.view();
  return curves;
}

TEST(RunArchive, KeepsRunsThatWereTrainedAndTheLast32OfThem) {
  RunArchive archive;
  archive.replace(curves_of(0));
  EXPECT_TRUE(archive.runs().empty());
  EXPECT_EQ(archive.name(), "run 1");
  for (std::size_t i = 1; i <= 40; ++i) archive.replace(curves_of(i));
  EXPECT_EQ(archive.name(), "run 41");
  ASSERT_EQ(archive.runs().size(), 32u);
  EXPECT_EQ(archive.runs().front().loss.size(), 9u);
}

TEST(RunArchive, KeepsWhatARewindTookBackOnlyWhenAChangeFollows) {
  RunArchive archive;
  archive.rewind(curves_of(15), 15);
  archive.rewind(curves_of(10), 10);  // further back: the longer curve stays
  archive.change("run 1", 8);
  ASSERT_EQ(archive.runs().size(), 1u);
  EXPECT_EQ(archive.runs()[0].run, "run 1 before the change at 8");
  EXPECT_EQ(archive.runs()[0].loss.size(), 15u);
  archive.change("run 1", 9);
  archive.rewind(curves_of(15), 15);
  archive.change("run 1", 15);  // trained again as it was
  EXPECT_EQ(archive.runs().size(), 1u);
}

TEST(RunArchive, RecognisesTheSameChecksumOfAnEarlierRun) {
  RunArchive archive;
  EXPECT_EQ(archive.recognise("a", 100), "");
  EXPECT_EQ(archive.recognise("a", 100), "") << "its own";
  archive.branch(curves_of(100));
  EXPECT_EQ(archive.recognise("a", 100), "run 1");
  EXPECT_EQ(archive.recognise("b", 200), "");
  EXPECT_TRUE(archive.wants_checksum(300));
  for (int i = 0; i < 5000; ++i) archive.recognise("c" + std::to_string(i), 100 + 200 * i);
  EXPECT_FALSE(archive.wants_checksum(300)) << "more would not fit";
  EXPECT_TRUE(archive.wants_checksum(800));
}

TEST(RunControl, AddsUpStepsThatComeFasterThanTheyAreTrained) {
  RunControl control;
  EXPECT_FALSE(control.running());
  control.train_more(2, 5);
  control.train_more(3, 5);
  EXPECT_TRUE(control.running());
  EXPECT_FALSE(control.is_over(9, false));
  EXPECT_TRUE(control.is_over(10, false));
  control.pause();
  control.train_more(1, 6);
  EXPECT_TRUE(control.is_over(7, false)) << "counted from the step where it rested";
  control.start(-1);
  EXPECT_FALSE(control.is_over(99, false));
  EXPECT_TRUE(control.is_over(99, true));
  control.rest(true);
  EXPECT_TRUE(control.stopped_non_finite());
  control.open(12);
  EXPECT_FALSE(control.stopped_non_finite());
  EXPECT_TRUE(control.running());
  EXPECT_TRUE(control.is_over(12, false));
}

TEST(RunControl, HandsOutComparedPresetsUntilAnotherRunIsOpened) {
  RunControl control;
  control.compare({"a", "b", "c"});
  EXPECT_EQ(control.next_compared(), "a");
  EXPECT_EQ(control.next_compared(), "b");
  control.open(std::nullopt);
  EXPECT_EQ(control.next_compared(), std::nullopt);
}

TEST(RunControl, MeasuresSpeedOverHalfASecond) {
  RunControl control;
  control.restart_clock(10, 100.0);
  control.measure_speed(20, 100.4);
  EXPECT_EQ(control.steps_per_second(), 0) << "too early";
  control.measure_speed(40, 100.5);
  EXPECT_DOUBLE_EQ(control.steps_per_second(), 60);
}

TEST(ProbeEditor, EditsTheProbeAndGoesBack) {
  const auto backend = make_cpu_backend(1);
  TrainingRun run(small_recipe(), *backend);
  const InterventionRunner prober(run.trainer());
  ProbeEditor editor({}, run.trainer().task(), &prober);
  editor.choose(5, 0);
  editor.change({"probe_sequence", R"({"at": 3, "token": 7})"}, 0);
  EXPECT_EQ(editor.now().tokens.at(3), 7);
  editor.change({"head_off", R"({"head": 1})"}, 0);
  EXPECT_FALSE(editor.now().interventions.empty());
  const ProbeSetup edited = editor.now();
  EXPECT_THROW(editor.change({"probe_sequence", R"({"at": 3, "token": 7000})"}, 0), Error);
  EXPECT_EQ(editor.now(), edited) << "an error changes nothing";
  ASSERT_TRUE(editor.can_undo(0));
  editor.undo();
  EXPECT_TRUE(editor.now().interventions.empty());
  editor.undo();
  EXPECT_TRUE(editor.now().tokens.empty());
  EXPECT_EQ(editor.now().index, 5u);
  editor.redo();
  EXPECT_EQ(editor.now().tokens.at(3), 7);
  EXPECT_FALSE(editor.can_undo(1)) << "a change of the run is younger";
}

TEST(CommandHandlers, EveryCommandOfTheEngineHasOneAndNoOtherHas) {
  for (const CommandSpec& spec : command_table()) {
    EXPECT_EQ(find_handler(spec.name) != nullptr, spec.target == CommandTarget::engine) << spec.name;
  }
  EXPECT_EQ(find_handler("no_such_command"), nullptr);
}

/// A worker that works when the test says so.
struct Turned {
  explicit Turned(const std::string& recipe = small_recipe_json().dump())
      : worker(recipe, {"cpu", 1, false, 1e9}, box) {
    worker.begin();
  }
  /// Turns until the training rests, and once more to publish.
  std::shared_ptr<const Observation> after(const Command& command) {
    box.send(command);
    do {
      box.take();
      worker.turn();
    } while (worker.control().running());
    worker.turn();
    return box.take();
  }
  Mailbox box;
  SessionWorker worker;
};

TEST(SessionWorker, TrainsAnalysesAndPublishesInTurns) {
  Turned test;
  const auto seen = test.after({"step", R"({"count": 7})"});
  EXPECT_EQ(seen->step, 7);
  EXPECT_EQ(seen->checksum_step, 7);
  EXPECT_TRUE(has(seen->current, Analysis::spectra));
  EXPECT_EQ(test.box.trained_steps(), 7);
  EXPECT_EQ(test.after({"rewind", R"({"by": 3})"})->step, 4);
  EXPECT_THROW(test.worker.apply({"no_such_command", "{}"}), Error);
}

TEST(SessionWorker, AResumedRunGoesBackToItsSnapshotAndNoFurther) {
  const auto path = std::filesystem::temp_directory_path() / "afterglow_oldest_step_test.safetensors";
  Turned test;
  EXPECT_EQ(test.after({"step", R"({"count": 7})"})->oldest_step, 0);
  test.after({"save", nlohmann::json{{"path", path.string()}}.dump()});
  const auto loaded = test.after({"load", nlohmann::json{{"path", path.string()}}.dump()});
  EXPECT_EQ(loaded->oldest_step, 7);
  EXPECT_EQ(test.after({"step", R"({"count": 5})"})->step, 12);
  const auto back = test.after({"rewind", R"({"step": 2})"});
  EXPECT_EQ(back->step, 7);
  EXPECT_EQ(back->checksum, loaded->checksum);
  for (const Event& event : back->events) EXPECT_NE(event.severity, Severity::failure) << event.text;
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace afterglow
