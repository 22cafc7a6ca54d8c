// The parts of a session's worker, each without a thread: mailbox, archive of runs, run control, editor of the
// inspected sequence, command handlers.
#include "core/engine/session/session_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "core/engine/analyses/inspected/inspected_view.h"
#include "core/engine/inspection/inspection_editor.h"
#include "core/engine/observation/trajectory_view.h"
#include "core/figure/files/figure_files.h"
#include "core/io/error.h"
#include "tests/core/session/turned_worker.h"

namespace afterglow {
namespace {

TEST(Mailbox, DeliversCommandsInOrderOnceAndTheRequestEveryTime) {
  Mailbox mailbox;
  EXPECT_EQ(mailbox.receive(std::chrono::milliseconds(0)).requested, all_analyses);
  mailbox.send({"step"});
  mailbox.send({"pause"});
  mailbox.request(set_of(Analysis::theory));
  const Mailbox::Delivery delivery = mailbox.receive(std::chrono::hours(1));
  ASSERT_EQ(delivery.commands.size(), 2u);
  EXPECT_EQ(delivery.commands[0].name, "step");
  EXPECT_EQ(delivery.commands[1].name, "pause");
  EXPECT_EQ(delivery.requested, set_of(Analysis::theory));
  EXPECT_FALSE(delivery.is_over);
  EXPECT_TRUE(mailbox.receive(std::chrono::milliseconds(4)).commands.empty());
  mailbox.close();
  EXPECT_TRUE(mailbox.receive(std::chrono::hours(1)).is_over);
}

TEST(Mailbox, HoldsTheNewestObservationAndKnowsWhetherItWasTaken) {
  Mailbox mailbox;
  ASSERT_TRUE(mailbox.take());
  const std::uint64_t before = mailbox.revision();
  for (const std::int64_t step : {1, 2}) {
    auto observation = std::make_shared<Observation>();
    observation->step = step;
    mailbox.publish(observation, 0);
  }
  EXPECT_FALSE(mailbox.is_taken());
  EXPECT_NE(mailbox.revision(), before);
  EXPECT_EQ(mailbox.take()->step, 2);
  EXPECT_TRUE(mailbox.is_taken());
}

EarlierRun run_of(std::size_t steps, const std::string& name = "run 1") {
  GrowingCurve loss;
  for (std::size_t i = 0; i < steps; ++i) loss.append(1.0 / static_cast<double>(i + 1));
  EarlierRun run;
  run.curves.run = name;
  run.curves.loss = loss.view();
  return run;
}

TEST(RunArchive, KeepsRunsThatWereTrainedAndTheLast32OfThem) {
  RunArchive archive;
  archive.replace(run_of(0));
  EXPECT_TRUE(archive.runs().empty());
  EXPECT_EQ(archive.name(), "run 1");
  for (std::size_t i = 1; i <= 40; ++i) archive.replace(run_of(i));
  EXPECT_EQ(archive.name(), "run 41");
  ASSERT_EQ(archive.runs().size(), 32u);
  EXPECT_EQ(archive.runs().front().curves.loss.size(), 9u);
}

TEST(RunArchive, KeepsWhatAChangeReplacedWithTheRecipeThatMakesItAgain) {
  RunArchive archive;
  archive.change(run_of(15), 8);
  ASSERT_EQ(archive.runs().size(), 1u);
  EXPECT_EQ(archive.runs()[0].curves.run, "run 1 before the change at 8");
  EXPECT_EQ(archive.runs()[0].curves.loss.size(), 15u);
  EXPECT_EQ(archive.runs()[0].recipe.shown_step, 15);
  EXPECT_EQ(archive.name(), "run 1") << "the present run is the same";
}

TEST(RunArchive, ThrowsRunsAway) {
  RunArchive archive;
  EXPECT_FALSE(archive.take_newest());
  for (const char* name : {"run 1", "run 2", "run 3"}) archive.replace(run_of(5, name));
  EXPECT_FALSE(archive.discard("run 7"));
  EXPECT_TRUE(archive.discard("run 2"));
  ASSERT_EQ(archive.runs().size(), 2u);
  EXPECT_EQ(archive.runs()[1].curves.run, "run 3");
  EXPECT_EQ(archive.take_newest()->curves.run, "run 3");
  EXPECT_EQ(archive.runs().size(), 1u);
}

TEST(RunArchive, RecognisesTheSameChecksumOfAnEarlierRun) {
  RunArchive archive;
  EXPECT_EQ(archive.recognise("a", 100), "");
  EXPECT_EQ(archive.recognise("a", 100), "") << "its own";
  archive.branch(run_of(100), 60);
  EXPECT_EQ(archive.recognise("a", 100), "run 1");
  EXPECT_EQ(archive.recognise("b", 200), "");
  EXPECT_TRUE(archive.wants_checksum(300, 1000));
  EXPECT_FALSE(archive.wants_checksum(300, 50'000'000)) << "of 200 MB";
  EXPECT_TRUE(archive.wants_checksum(2500, 50'000'000));
  for (int i = 0; i < 5000; ++i) archive.recognise("c" + std::to_string(i), 100 + 200 * i);
  EXPECT_FALSE(archive.wants_checksum(300, 1000)) << "more would not fit";
  EXPECT_TRUE(archive.wants_checksum(800, 1000));
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

TEST(RunControl, GoesNoFasterThanItsLimit) {
  RunControl control;
  EXPECT_TRUE(control.is_due(0));
  control.limit_speed(10);
  std::vector<double> begun;
  for (double now = 0; now < 1.01; now += 0.001) {
    if (!control.is_due(now)) continue;
    control.count_step(now);
    begun.push_back(now);
  }
  EXPECT_NEAR(static_cast<double>(begun.size()), 11, 1);
  for (std::size_t i = 1; i < begun.size(); ++i) EXPECT_GE(begun[i] - begun[i - 1], 0.098) << i;
  EXPECT_TRUE(control.is_due(100));
  control.count_step(100);
  EXPECT_FALSE(control.is_due(100.04)) << "a pause is not made up for";
  control.rebuild(12);
  EXPECT_TRUE(control.is_due(100.04)) << "what was trained before comes as fast as it goes";
}

TEST(RunControl, ChangesItsSpeedByPlaces) {
  RunControl control;
  control.change_speed(1);
  EXPECT_EQ(control.speed_limit(), 0) << "nothing is faster";
  control.change_speed(-1);
  EXPECT_EQ(control.speed_limit(), 100);
  control.change_speed(-3);
  EXPECT_EQ(control.speed_limit(), 10);
  control.limit_speed(7);
  control.change_speed(1);
  EXPECT_EQ(control.speed_limit(), 20);
  control.change_speed(-100);
  EXPECT_EQ(control.speed_limit(), 1);
}

TEST(RunControl, ARebuildingEndsWithAnythingElse) {
  RunControl control;
  EXPECT_EQ(control.rebuilds_to(), -1);
  control.open(460);
  EXPECT_EQ(control.rebuilds_to(), 460);
  control.pause();
  EXPECT_EQ(control.rebuilds_to(), -1);
  control.rebuild(12);
  control.start(-1);
  EXPECT_EQ(control.rebuilds_to(), -1);
}

TEST(RunControl, HandsOutComparedPresetsUntilAnotherRunIsOpened) {
  RunControl control;
  control.compare({{"a", ""}, {"b", "{}"}, {"c", ""}});
  EXPECT_EQ(control.next_compared()->name, "a");
  EXPECT_EQ(control.next_compared()->recipe, "{}");
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

TEST(InspectionEditor, TakesAPromptOfAnyLengthAndLetsTheModelWriteOn) {
  const auto backend = make_cpu_backend(1);
  TrainingRun run(small_recipe(), *backend);
  InterventionRunner inspector(run.trainer());
  const Task& task = run.trainer().task();
  InspectionEditor editor({}, task, &inspector);
  const std::string text = task.token_label(9) + " " + task.token_label(4) + " " + task.token_label(9);
  editor.take(editor.changed({"probe_sequence", nlohmann::json{{"text", text}}}));
  EXPECT_EQ(editor.now().tokens, (std::vector{9, 4, 9}));
  const Example asked = inspector.sequence_of(editor.now());
  EXPECT_EQ(asked.targets, (std::vector<std::int32_t>{4, 9, -1})) << "each token is answered with the next one";
  editor.take(editor.changed({"probe_sequence", R"({"write": 5})"_json}));
  const std::vector<int> written = editor.now().tokens;
  ASSERT_EQ(written.size(), 8u);
  EXPECT_EQ(std::vector(written.begin(), written.begin() + 3), (std::vector{9, 4, 9}));
  EXPECT_THROW(editor.changed({"probe_sequence", R"({"write": 600})"_json}), Error);
  EXPECT_THROW(editor.changed({"probe_sequence", R"({"text": ""})"_json}), Error);
}

TEST(InspectionEditor, WritesWithThePartsThatAreOff) {
  const auto backend = make_cpu_backend(1);
  TrainingRun run(small_recipe(), *backend);
  InterventionRunner inspector(run.trainer());
  InspectionEditor editor({}, run.trainer().task(), &inspector);
  editor.take(editor.changed({"head_off", R"({"head": 0})"_json}));
  editor.take(editor.changed({"head_off", R"({"head": 1})"_json}));
  for (int i = 0; i < 6; ++i) {
    const auto view = inspector.inspect(editor.now(), -1, nullptr);
    const InspectedAnswer& answer = view->answers.back();
    const auto most = std::ranges::max_element(answer.after) - answer.after.begin();
    editor.take(editor.changed({"probe_sequence", R"({"write": 1})"_json}));
    EXPECT_EQ(editor.now().tokens.size(), view->tokens.size() + 1);
    EXPECT_EQ(editor.now().tokens.back(), answer.tokens[static_cast<std::size_t>(most)]) << "not what the page shows";
  }
  EXPECT_FALSE(editor.now().interventions.empty());
}

TEST(InspectionEditor, EditsTheInspectedSequence) {
  const auto backend = make_cpu_backend(1);
  TrainingRun run(small_recipe(), *backend);
  InterventionRunner inspector(run.trainer());
  InspectionEditor editor({}, run.trainer().task(), &inspector);
  editor.take(editor.chosen({{"index", 5}}));
  editor.take(editor.changed({"probe_sequence", R"({"at": 3, "token": 7})"_json}));
  EXPECT_EQ(editor.now().tokens.at(3), 7);
  EXPECT_EQ(editor.now().index, 5u);
  editor.take(editor.changed({"head_off", R"({"head": 1})"_json}));
  EXPECT_FALSE(editor.now().interventions.empty());
  EXPECT_THROW(editor.changed({"probe_sequence", R"({"at": 3, "token": 7000})"_json}), Error);
}

TEST(CommandHandlers, EveryCommandOfTheEngineHasOneAndNoOtherHas) {
  for (const CommandSpec& spec : command_table()) {
    EXPECT_EQ(SessionWorker::knows(spec.name), spec.target == CommandTarget::engine) << spec.name;
  }
  EXPECT_FALSE(SessionWorker::knows("no_such_command"));
}

TEST(SessionWorker, TrainsAnalysesAndPublishesInTurns) {
  TurnedWorker test;
  const auto seen = test.after({"step", R"({"count": 7})"_json});
  EXPECT_EQ(seen->step, 7);
  EXPECT_EQ(seen->checksum_step, 7);
  EXPECT_TRUE(has(seen->current, Analysis::spectra));
  EXPECT_EQ(test.box.trained_steps(), 7);
  EXPECT_EQ(test.after({"rewind", R"({"by": 3})"_json})->step, 4);
  EXPECT_THROW(test.worker.apply({"no_such_command"}), Error);
}

TEST(SessionWorker, ComparesSeedsOfOneRecipe) {
  TurnedWorker test;
  const auto seen = test.after({"compare", R"({"seeds": 3})"_json});
  ASSERT_GE(seen->runs.size(), 3U);
  const std::size_t first = seen->runs.size() - 3;
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(seen->runs[first + i].run, "seed " + std::to_string(3 + i));
    EXPECT_EQ(seen->runs[first + i].loss.size(), 40U) << "trained to its end";
    EXPECT_EQ(seen->runs[first + i].siblings, seen->runs.back().siblings);
  }
  EXPECT_NE(seen->runs[first].loss.back(), seen->runs[first + 1].loss.back());
  EXPECT_FALSE(seen->runs.back().siblings.empty());
  test.after({"rewind", R"({"step": 10})"_json});
  const auto changed = test.after({"set", R"({"key": "learning_rate", "to": 0.001})"_json});
  EXPECT_NE(changed->runs.back().siblings, seen->runs.back().siblings) << "another training";
  EXPECT_THROW(test.worker.apply({"compare", R"({"seeds": 0})"_json}), Error);
}

TEST(SessionWorker, AModelIsSeenBeforeItsFirstStep) {
  int published = 0;
  Mailbox box([&] { ++published; });
  SessionWorker worker(small_recipe_json().dump(), {"cpu", 1, true, 1e9}, box);
  worker.begin();
  EXPECT_TRUE(box.take()->model.layers.empty());
  EXPECT_EQ(published, 0);
  worker.turn();
  EXPECT_EQ(published, 1);
  const auto seen = box.take();
  EXPECT_FALSE(seen->model.layers.empty());
  EXPECT_TRUE(seen->running);
  EXPECT_EQ(seen->step, 0);
  worker.turn();
  EXPECT_GT(box.take()->step, 0);
}

TEST(SessionWorker, AnEditDuringTrainingIsAnsweredBeforeItIsCounted) {
  TurnedWorker test;
  test.at_rest();
  const auto next = [&] {
    test.worker.turn();
    return test.box.take();
  };
  test.box.send({"step", R"({"count": 1000000})"_json});
  next();
  test.box.send({"drag_mode", R"({"head": 1, "mode": 0, "re": 0.5})"_json});
  auto seen = next();
  ASSERT_TRUE(seen->running);
  ASSERT_TRUE(seen->inspected && seen->inspected->is_edited());
  EXPECT_EQ(seen->inspected->step, seen->step);
  EXPECT_TRUE(seen->inspected->accuracy_is_old);
  while (seen->running && seen->inspected->accuracy_is_old) seen = next();
  EXPECT_TRUE(seen->running) << "it is counted while training goes on";
}

TEST(SessionWorker, AModelAtRestIsSeenBeforeItIsAnalysed) {
  Mailbox box;
  SessionWorker worker(small_recipe_json().dump(), {"cpu", 1, false, 1e9}, box);
  worker.begin();
  box.take();
  const std::uint64_t before = box.revision();
  worker.turn();
  EXPECT_EQ(box.revision(), before + 2);
  EXPECT_TRUE(has(box.take()->current, Analysis::spectra)) << "which comes in the same turn";
}

TEST(SessionWorker, AResumedRunGoesBackToItsSnapshotAndNoFurther) {
  const auto path = std::filesystem::temp_directory_path() / "afterglow_oldest_step_test.safetensors";
  TurnedWorker test;
  EXPECT_EQ(test.after({"step", R"({"count": 7})"_json})->oldest_step, 0);
  test.after({"save", nlohmann::json{{"path", path.string()}}});
  const auto loaded = test.after({"load", nlohmann::json{{"path", path.string()}}});
  EXPECT_EQ(loaded->oldest_step, 7);
  EXPECT_EQ(test.after({"step", R"({"count": 5})"_json})->step, 12);
  const auto back = test.after({"rewind", R"({"step": 2})"_json});
  EXPECT_EQ(back->step, 7);
  EXPECT_THAT(back->events.back().text, testing::HasSubstr("This snapshot starts at step 7"));
  EXPECT_EQ(back->checksum, loaded->checksum);
  for (const Event& event : back->events) EXPECT_NE(event.severity, Severity::failure) << event.text;
  std::filesystem::remove(path);
}

TEST(SessionWorker, TimeGoesBothWays) {
  TurnedWorker test;
  std::map<std::int64_t, std::string> checksums;
  for (std::int64_t step = 1; step <= 15; ++step) checksums[step] = test.after({"step"})->checksum;
  const auto whole = test.at_rest();
  const auto back = test.after({"rewind", R"({"step": 4})"_json});
  EXPECT_EQ(back->checksum, checksums[4]);
  EXPECT_EQ(back->latest_step, 15);
  EXPECT_EQ(back->runs.back().loss.size(), 4u);
  ASSERT_TRUE(back->ahead);
  ASSERT_EQ(back->ahead->loss.size(), 15u);
  for (std::size_t i = 0; i < 15; ++i) EXPECT_EQ(back->ahead->loss[i], whole->runs.back().loss[i]) << i;
  const auto on = test.after({"rewind", R"({"step": 13})"_json});
  EXPECT_EQ(on->step, 13) << "forwards, too";
  EXPECT_EQ(on->checksum, checksums[13]);
  EXPECT_EQ(test.after({"step", R"({"count": 1})"_json})->checksum, checksums[14]);
  const auto end = test.after({"run_to", R"({"step": 15})"_json});
  EXPECT_EQ(end->checksum, checksums[15]);
  EXPECT_FALSE(end->ahead);
  EXPECT_EQ(end->runs.size(), 1u) << "nothing was changed";
}

TEST(SessionWorker, OnlyAChangeBeginsAnotherFuture) {
  TurnedWorker test;
  test.after({"step", R"({"count": 15})"_json});
  test.after({"rewind", R"({"step": 8})"_json});
  EXPECT_TRUE(test.after({"probe", R"({"index": 3})"_json})->ahead) << "looking changes nothing";
  EXPECT_TRUE(test.after({"drag_mode", R"({"head": 1, "mode": 0, "re": 0.5})"_json})->ahead);
  const auto changed = test.after({"set", R"({"key": "learning_rate", "to": 0.02})"_json});
  EXPECT_FALSE(changed->ahead);
  EXPECT_EQ(changed->latest_step, 8);
  ASSERT_EQ(changed->runs.size(), 2u);
  EXPECT_EQ(changed->runs[0].loss.size(), 15u);
  test.after({"rewind", R"({"step": 2})"_json});
  const auto far = test.after({"rewind", R"({"step": 8})"_json});
  EXPECT_EQ(far->step, 8);
  EXPECT_DOUBLE_EQ(far->settings.front().value, 0.02) << "the new future is the one to go on to";
}

TEST(SessionWorker, SpectraAheadStayAndTheModesKeepTheirIdentities) {
  nlohmann::json recipe = small_recipe_json();
  recipe["training"]["steps"] = 80;
  TurnedWorker straight(recipe), wandering(recipe);
  const auto expected = straight.after({"step", R"({"count": 60})"_json});
  wandering.after({"step", R"({"count": 60})"_json});
  for (const int step : {5, 47, 23}) wandering.after({"rewind", {{"step", step}}});
  const auto seen = wandering.at_rest();
  for (const auto& spectra : seen->spectrum_history) EXPECT_LE(spectra->step, 23);
  const auto again = wandering.after({"rewind", R"({"step": 60})"_json});
  ASSERT_EQ(again->spectrum_history.size(), expected->spectrum_history.size());
  for (std::size_t i = 0; i < expected->spectrum_history.size(); ++i) {
    EXPECT_EQ(again->spectrum_history[i]->step, expected->spectrum_history[i]->step);
    EXPECT_EQ(again->spectrum_history[i]->heads[0].identity, expected->spectrum_history[i]->heads[0].identity);
  }
}

TEST(SessionWorker, ABranchLeavesTheOldRunWholeAndHasNoFutureYet) {
  TurnedWorker test;
  test.after({"step", R"({"count": 12})"_json});
  test.after({"rewind", R"({"step": 5})"_json});
  const auto branched = test.after({"branch"});
  ASSERT_EQ(branched->runs.size(), 2u);
  EXPECT_EQ(branched->runs[0].loss.size(), 12u);
  EXPECT_EQ(branched->latest_step, 5);
}

TEST(SessionWorker, RunsAreThrownAway) {
  TurnedWorker test;
  const auto twelve = test.after({"step", R"({"count": 12})"_json});
  test.after({"rewind", R"({"step": 5})"_json});
  test.after({"set", R"({"key": "learning_rate", "to": 0.02})"_json});
  const auto changed = test.after({"step", R"({"count": 3})"_json});
  ASSERT_EQ(changed->runs.size(), 2u);
  const auto former = test.after({"discard"});
  EXPECT_EQ(former->step, 12) << "the run before the change is back where it was";
  EXPECT_EQ(former->checksum, twelve->checksum);
  EXPECT_EQ(former->runs.size(), 1u);
  const auto fresh = test.after({"discard"});
  EXPECT_EQ(fresh->step, 0) << "no step comes before it";
  EXPECT_EQ(fresh->runs.size(), 1u) << "and it leaves nothing";
  test.after({"step", R"({"count": 2})"_json});
  test.after({"reset"});
  EXPECT_EQ(test.at_rest()->runs.size(), 2u);
  EXPECT_EQ(test.after({"discard", R"({"run": "run 1"})"_json})->runs.size(), 1u);
  EXPECT_THAT(test.after({"discard", R"({"run": "run 9"})"_json})->events.back().text, testing::HasSubstr("run 9"));
}

TEST(SessionWorker, WhatIsThrownAwayCostsOnlyTheStepsSinceTheLastStateInCommon) {
  TurnedWorker test;
  const auto whole = test.after({"step", R"({"count": 34})"_json});
  test.after({"rewind", R"({"step": 25})"_json});
  const auto changed = test.after({"set", R"({"key": "learning_rate", "to": 0.02})"_json});
  EXPECT_EQ(changed->runs.front().parted, 25);
  test.after({"step", R"({"count": 12})"_json});
  const std::int64_t trained = test.box.trained_steps();
  const auto former = test.after({"discard"});
  EXPECT_EQ(former->step, 34);
  EXPECT_EQ(former->checksum, whole->checksum);
  EXPECT_EQ(test.box.trained_steps() - trained, 14) << "from step 20 on";
  ASSERT_EQ(former->runs.size(), 1u);
  EXPECT_EQ(former->runs.back().loss.size(), 34u);
  EXPECT_TRUE(former->runs.back().marks.empty());
  ASSERT_TRUE(former->kept);
  EXPECT_EQ(former->kept->back().step, 30);
}

TEST(SessionWorker, AnotherBeginningHasNoPartingAndIsMadeAgainFromItsStart) {
  TurnedWorker test;
  const auto first = test.after({"step", R"({"count": 12})"_json});
  test.after({"reseed"});
  const auto other = test.after({"step", R"({"count": 12})"_json});
  EXPECT_NE(other->checksum, first->checksum);
  EXPECT_EQ(other->runs.front().parted, -1);
  EXPECT_EQ(test.after({"discard"})->checksum, first->checksum);
}

TEST(SessionWorker, TheEndSaysWhatToDo) {
  TurnedWorker test;
  const auto end = test.after({"run"});
  ASSERT_TRUE(end->finished);
  const std::size_t events = end->events.size();
  const auto said = test.after({"toggle_run"});
  ASSERT_EQ(said->events.size(), events + 1);
  EXPECT_EQ(said->events.back().text, "Done · raise steps to continue");
  EXPECT_FALSE(said->running);
  test.after({"set", R"({"key": "steps", "to": 45})"_json});
  EXPECT_EQ(test.after({"toggle_run"})->step, 45);
}

/// A figure as a file carries it.
struct CarriedFigure {
  explicit CarriedFigure(std::int64_t step) {
    nlohmann::json recipe = small_recipe_json();
    recipe["shown_step"] = step;
    recipe["view"] = {{"panel", "training"}};
    Figure figure;
    figure.recipe = recipe.dump();
    path = write_figure(figure, std::filesystem::temp_directory_path() / "afterglow_reopened_test.csv", {}).front();
  }
  ~CarriedFigure() { std::filesystem::remove(path); }
  std::filesystem::path path;
};

TEST(SessionWorker, AFigureIsRebuiltAndSaysHowFarItIs) {
  const CarriedFigure figure(30);
  SessionOptions options{"cpu", 1, true, 1e9};
  options.opened = open_aside("figure", [&] { return open_saved_run(figure.path); });
  Mailbox box;
  SessionWorker worker(small_recipe_json().dump(), options, box);
  worker.begin();
  worker.turn();
  const auto begun = box.take();
  EXPECT_EQ(begun->rebuilds_to, 30);
  EXPECT_TRUE(begun->running);
  EXPECT_EQ(nlohmann::json::parse(begun->view)["panel"], "training");
  while (worker.control().running()) worker.turn();
  box.take();
  worker.turn();
  const auto shown = box.take();
  EXPECT_EQ(shown->step, 30);
  EXPECT_EQ(shown->rebuilds_to, -1);
  EXPECT_EQ(shown->runs.size(), 1u) << "no other run was begun";
  EXPECT_EQ(shown->runs[0].run, "run 1");
  EXPECT_EQ(shown->recipe.find("\"view\""), std::string::npos) << "the view is no part of the run";
}

TEST(SessionWorker, SavesWithoutAPathIntoItsFolder) {
  const auto folder = std::filesystem::temp_directory_path() / "afterglow_save_folder_test" / "inside";
  std::filesystem::remove_all(folder.parent_path());
  SessionOptions options{"cpu", 1, false, 1e9};
  options.save_folder = folder;
  Mailbox box;
  SessionWorker worker(small_recipe_json().dump(), options, box);
  worker.begin();
  worker.apply({"save"});
  EXPECT_TRUE(std::filesystem::exists(folder / "small_seed3_step0.safetensors"));
  std::filesystem::remove_all(folder.parent_path());
}

TEST(SessionWorker, AResumedRunShowsItsPast) {
  const auto path = std::filesystem::temp_directory_path() / "afterglow_past_test.safetensors";
  TurnedWorker test;
  test.after({"step", R"({"count": 5})"_json});
  test.after({"set", R"({"key": "clip", "to": 0.5})"_json});
  const auto saved = test.after({"step", R"({"count": 17})"_json});
  test.after({"save", nlohmann::json{{"path", path.string()}}});
  TurnedWorker other;
  const auto loaded = other.after({"load", nlohmann::json{{"path", path.string()}}});
  const RunCurves &then = saved->runs.back(), &now = loaded->runs.back();
  EXPECT_EQ(now.first_step, 1);
  ASSERT_EQ(now.loss.size(), 22u);
  for (std::size_t i = 0; i < 22; ++i) {
    EXPECT_EQ(now.loss[i], then.loss[i]);
    EXPECT_EQ(now.gradient_norm[i], then.gradient_norm[i]);
    for (std::size_t l = 0; l < then.layer_gradient_norms.size(); ++l)
      EXPECT_EQ(now.layer_gradient_norms[l].values[i], then.layer_gradient_norms[l].values[i]);
  }
  ASSERT_EQ(now.held_out_step.size(), 2u);
  EXPECT_EQ(now.held_out_accuracy.back(), then.held_out_accuracy.back());
  ASSERT_EQ(now.marks.size(), 1u);
  EXPECT_EQ(now.marks[0].step, 5);
  ASSERT_TRUE(loaded->trajectory);
  EXPECT_EQ(loaded->trajectory->steps, saved->trajectory->steps);
  EXPECT_EQ(loaded->oldest_step, 22) << "the past is shown, but cannot be gone to";
  EXPECT_EQ(other.after({"step"})->runs.back().loss.size(), 23u);
  std::filesystem::remove(path);
}

/// A value with which the command changes the small recipe's run.
nlohmann::json acting_value(const CommandSpec& spec) {
  static const std::map<std::string_view, nlohmann::json> own{
      {"freeze", R"({"part": "head"})"_json},
      {"surgery",
       R"({"overrides": [{"name": "drag_mode", "value": {"layer": 3, "head": 0, "mode": 0, "re": 0.8}}]})"_json},
      {"mode_off", R"({"layer": 3, "head": 0, "mode": 0})"_json},
      {"drag_mode", R"({"layer": 3, "head": 0, "mode": 0, "re": 0.5, "im": 0})"_json},
      {"clear_overrides", nullptr},
      {"pair", R"({"at": 4, "label": "k1"})"_json}};
  const auto found = own.find(spec.name);
  return found == own.end() ? nlohmann::json::parse(spec.example) : found->second;
}

TEST(Undo, TakesBackExactlyTheCommandsThatAreCountedAsUndoable) {
  const std::set<std::string_view> undoable{"set", "freeze", "surgery", "probe", "note"};
  // These train for long, or open another run.
  const std::set<std::string_view> left_out{"undo", "redo", "compare", "gka_figure6", "load", "run", "toggle_run"};
  for (const CommandSpec& spec : command_table()) {
    if (spec.target != CommandTarget::engine || left_out.contains(spec.name)) continue;
    TurnedWorker turned;
    turned.after({"step", R"({"count": 2})"_json});
    const bool needs_an_edit = spec.name == "clear_overrides";
    if (needs_an_edit) turned.after({"head_off", R"({"layer": 3, "head": 0})"_json});
    turned.after({std::string(spec.name), acting_value(spec)});
    turned.after({"undo"});
    const std::vector<Event> events = turned.box.take()->events;
    const bool was_nothing = !events.empty() && events.back().text == "there is nothing to undo";
    EXPECT_EQ(!was_nothing, spec.edits_inspection || undoable.contains(spec.name))
        << spec.name << (events.empty() ? "" : ": " + events.back().text);
  }
}

/// Pictures of 60 a second between steps of 15 ms, and after an analysis that took three times as long.
TEST(EvenRate, KeepsItsRateWhereItsEventsComeLate) {
  for (const double pause : {0.0, 0.045}) {
    EvenRate pictures(4);
    int count = 0;
    for (double now = 0; now < 100; now += 0.015) {
      if (pictures.is_due(now)) {
        pictures.count(now, 60);
        ++count;
      }
      if (count % 60 == 59) now += pause;
    }
    EXPECT_NEAR(count, 6000, pause > 0 ? 60 : 2) << pause;
  }
  EvenRate steps(0.5);
  steps.count(100, 1);
  EXPECT_FALSE(steps.is_due(100.4)) << "what was late is not made up at once";
  EXPECT_TRUE(steps.is_due(100.6));
}

}  // namespace
}  // namespace afterglow
