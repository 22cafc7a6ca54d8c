// The session: commands in, observations out, the same weights as without a thread.
#include "core/engine/session/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/engine/analyses/influence/influence_view.h"
#include "core/engine/analyses/inspected/inspected_view.h"
#include "core/engine/analyses/solvers/solver_view.h"
#include "core/engine/analyses/theory/theory_view.h"
#include "core/io/error.h"
#include "tests/core/engine/fading_backend.h"
#include "tests/core/session/turned_worker.h"

namespace afterglow {
namespace {

using Seen = std::shared_ptr<const Observation>;

/// Waits until an observation fulfils a condition; fails after minutes, for sanitizers make everything twenty times
/// slower.
Seen wait_for(const Session& session, const std::function<bool(const Observation&)>& condition) {
  for (int i = 0; i < 40000; ++i) {
    Seen seen = session.observe();
    if (condition(*seen)) return seen;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ADD_FAILURE() << "the observation did not come; the last one is of step " << session.observe()->step;
  return session.observe();
}

SessionOptions resting() { return {"cpu", 2, false, 200.0}; }

TEST(Session, TrainsToTheEndWithTheChecksumOfTheHeadlessRun) {
  SessionOptions options = resting();
  options.start_running = true;
  Session session(small_recipe_json().dump(), options);
  const Seen end =
      wait_for(session, [](const Observation& now) { return now.finished && !now.running && now.checksum_step == 40; });
  EXPECT_EQ(end->checksum, checksum_without_session(40));
  EXPECT_EQ(end->runs.back().loss.size(), 40u);
  EXPECT_FALSE(end->spectrum_history.empty());
  ASSERT_TRUE(end->trace);
  EXPECT_EQ(end->trace->step, 40);
}

/// Also where the next picture of the training would not be due for long.
TEST(Session, TheEffectOfACommandIsShownBeforeTheNextStep) {
  TurnedWorker test(small_recipe_json(), {.device = "cpu", .threads = 1, .start_running = true, .publish_hz = 1e-3});
  for (int i = 0; i < 4; ++i) {
    test.box.take();
    test.worker.turn();
  }
  const std::int64_t step = test.worker.run().step();
  EXPECT_GT(step, test.box.take()->step) << "it trains between two pictures";
  test.box.send({"note", R"({"text": "now"})"_json});
  test.worker.turn();
  EXPECT_EQ(test.box.taken_commands(), 1u);
  EXPECT_EQ(test.box.take()->step, step);
}

TEST(Session, SaysWhatItReadsFromASlowDiskAndKeepsCommandsUntilThen) {
  std::promise<void> disk;
  SessionOptions options = resting();
  const auto read = [&] {
    disk.get_future().wait();
    return SavedRun{small_recipe(), std::nullopt};
  };
  options.opened = open_aside("/far/run", read, 0);
  Session session("", options);
  const Seen waiting = wait_for(session, [](const Observation& now) { return now.title == "/far/run"; });
  EXPECT_TRUE(waiting->model.layers.empty());
  session.send({"step", R"({"count": 3})"_json});
  disk.set_value();
  wait_for(session, [](const Observation& now) { return now.step == 3; });
}

TEST(Session, AFaultIsThrownAtOnceOrBecomesAnEvent) {
  const auto fail = []() -> SavedRun { throw BadInput("run: it is damaged"); };
  EXPECT_THROW(open_aside("run", fail, 60), Error);
  std::promise<void> disk;
  SessionOptions options = resting();
  options.opened = open_aside(
      "run", [&] { return disk.get_future().wait(), fail(); }, 0);
  Session session("", options);
  disk.set_value();
  const Seen failed = wait_for(session, [](const Observation& now) { return !now.events.empty(); });
  EXPECT_EQ(failed->events.back().text, "run: it is damaged");
}

TEST(Session, StepsRewindsAndResets) {
  Session session(small_recipe_json().dump(), resting());
  wait_for(session, [](const Observation& now) { return now.preset == "small"; });
  session.send({"step", R"({"count": 12})"_json});
  const Seen twelve = wait_for(session, [](const Observation& now) { return now.checksum_step == 12 && !now.running; });
  session.send({"step", R"({"count": 3})"_json});
  wait_for(session, [](const Observation& now) { return now.step == 15; });
  session.send({"rewind", R"({"step": 12})"_json});
  const Seen back = wait_for(session, [](const Observation& now) { return now.step == 12 && now.checksum_step == 12; });
  EXPECT_EQ(back->checksum, twelve->checksum);
  session.send({"reset"});
  wait_for(session, [](const Observation& now) { return now.step == 0; });
  session.send({"step", R"({"count": 12})"_json});
  const Seen again = wait_for(
      session, [](const Observation& now) { return now.step == 12 && now.checksum_step == 12 && !now.running; });
  EXPECT_EQ(again->checksum, twelve->checksum);
  EXPECT_EQ(again->same_as, "run 1");
  EXPECT_EQ(again->runs.size(), 2u);
  session.send({"reseed", R"({"seed": 99})"_json});
  EXPECT_EQ(wait_for(session, [](const Observation& now) { return now.seed == 99; })->step, 0);
}

TEST(Session, StepsThatComeFasterThanTheyAreMadeAddUp) {
  Session session(small_recipe_json().dump(), resting());
  wait_for(session, [](const Observation& now) { return now.preset == "small"; });
  const auto rests_at = [&](std::int64_t step) {
    wait_for(session, [&](const Observation& now) { return now.step == step && !now.running; });
  };
  for (int i = 0; i < 5; ++i) session.send({"step", R"({"count": 2})"_json});
  rests_at(10);
  for (int i = 0; i < 3; ++i) session.send({"rewind", R"({"by": 1})"_json});
  rests_at(7);
  session.send({"rewind", R"({"by": 100})"_json});
  rests_at(0);
}

TEST(Session, KeepsTheCurveThatAChangeReplaces) {
  Session session(small_recipe_json().dump(), resting());
  const auto at_rest = [](std::int64_t step) {
    return [step](const Observation& now) { return now.step == step && !now.running && now.checksum_step == step; };
  };
  const auto go = [&](const char* name, const std::string& value, std::int64_t step) {
    session.send({name, nlohmann::json::parse(value)});
    return wait_for(session, at_rest(step));
  };
  const Seen before = go("step", R"({"count": 15})", 15);
  go("rewind", R"({"step": 10})", 10);
  EXPECT_EQ(go("step", R"({"count": 5})", 15)->runs.size(), 1u)
      << "trained again as it was there is nothing to compare";
  go("rewind", R"({"step": 8})", 8);
  session.send(SetNumber{"learning_rate", 0.01, true});
  session.send(SetNumber{"learning_rate", 0.02, true});
  session.send(SetNumber{"learning_rate", 0.02});
  const Seen after = go("step", R"({"count": 7})", 15);
  ASSERT_EQ(after->runs.size(), 2u) << "one change, one former curve";
  EXPECT_EQ(after->runs[0].run, "run 1 before the change at 8");
  ASSERT_EQ(after->runs[0].loss.size(), 15u);
  for (std::size_t i = 0; i < 15; ++i) EXPECT_EQ(after->runs[0].loss[i], before->runs[0].loss[i]) << i;
  EXPECT_NE(after->runs[1].loss.back(), before->runs[0].loss.back());
  session.send({"reset"});
  EXPECT_EQ(wait_for(session, [](const Observation& now) { return now.step == 0; })->runs.back().run, "run 2");
}

TEST(Session, ProbesWithOverridesAndTakesThemBack) {
  Session session(small_recipe_json().dump(), resting());
  session.send({"step", R"({"count": 12})"_json});
  const auto is_inspected = [](const Observation& now) {
    return now.step == 12 && !now.running && now.checksum_step == 12 && now.inspected && now.inspected->step == 12;
  };
  const Seen before = wait_for(session, is_inspected);
  session.send({"mode_off", R"({"head": 0})"_json});
  session.send({"drag_mode", R"({"head": 1, "mode": 0, "re": 0.5, "live": true})"_json});
  session.send({"drag_mode", R"({"head": 1, "mode": 0, "re": 0.75})"_json});
  const Seen dragged = wait_for(session, [&](const Observation& now) {
    return is_inspected(now) && !now.inspected->setup.interventions.empty() &&
           now.inspected->setup.interventions.layers.begin()->second.heads.size() == 2;
  });
  EXPECT_EQ(dragged->checksum, before->checksum);
  EXPECT_NE(dragged->recipe, before->recipe);
  session.send({"undo"});
  session.send({"undo"});
  const Seen back =
      wait_for(session, [&](const Observation& now) { return is_inspected(now) && !now.inspected->is_edited(); });
  EXPECT_EQ(back->checksum, before->checksum);
  EXPECT_EQ(back->recipe, before->recipe);
  EXPECT_EQ(back->inspected->accuracy_after, before->inspected->accuracy_after);
}

TEST(Session, MakesOnlyTheAnalysesThatAreRequested) {
  // The worker, which makes all until it is asked for some, begins when it has been asked.
  std::promise<void> asked;
  SessionOptions options = resting();
  options.make_backend = [&asked](const std::string& device, int threads) {
    asked.get_future().wait();
    return make_backend(device, threads);
  };
  Session session(small_recipe_json().dump(), options);
  session.request_analyses(set_of(Analysis::spectra));
  asked.set_value();
  session.send({"step", R"({"count": 12})"_json});
  const auto is_seen = [](const auto& view) { return view && view->step == 12; };
  const Seen first = wait_for(
      session, [&](const Observation& now) { return is_seen(now.spectra) && !now.running && now.checksum_step == 12; });
  EXPECT_FALSE(first->trace);
  EXPECT_FALSE(first->inspected);
  session.request_analyses(Analysis::trace | Analysis::solvers);
  const Seen second = wait_for(session, [&](const Observation& now) { return is_seen(now.trace) && now.solvers; });
  EXPECT_TRUE(is_seen(second->spectra)) << "what was seen stays";
  EXPECT_FALSE(second->inspected);
  EXPECT_FALSE(second->influence);
  session.send({"mode_off", R"({"head": 0})"_json});
  const Seen edited = wait_for(session, [&](const Observation& now) { return is_seen(now.inspected); });
  EXPECT_FALSE(edited->inspected->setup.interventions.empty()) << "an edit is always answered";
  EXPECT_FALSE(edited->depth);
}

TEST(Session, TrainsAsIfAloneWhileItsObservationsAreNotTaken) {
  nlohmann::json recipe = small_recipe_json();
  recipe["training"]["steps"] = 100'000;
  SessionOptions options = resting();
  options.start_running = true;
  Session session(recipe.dump(), options);
  wait_for(session, [](const Observation& now) { return now.step > 0; });
  const std::uint64_t revision = session.revision();
  const std::int64_t steps = session.trained_steps();
  for (int i = 0; i < 4000 && session.trained_steps() < steps + 30; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_GE(session.trained_steps(), steps + 30);
  EXPECT_LE(session.revision(), revision + 1) << "the one that follows the last that was taken";
  const std::int64_t reached = session.trained_steps();
  EXPECT_GE(wait_for(session, [&](const Observation& now) { return now.step >= reached; })->step, reached);
}

TEST(Session, EveryEngineCommandIsUnderstood) {
  const auto folder = std::filesystem::temp_directory_path() / "afterglow_commands_test";
  std::filesystem::create_directories(folder);
  const auto home = std::filesystem::current_path();
  std::filesystem::current_path(folder);  // `save` writes its example there
  {
    Session session(small_recipe_json().dump(), resting());
    std::size_t sent = 0;
    for (const CommandSpec& spec : command_table()) {
      // What opens another run has tests of its own.
      const bool opens = spec.name == "load" || spec.name == "compare" || spec.name == "gka_figure6";
      if (spec.target != CommandTarget::engine || opens) continue;
      session.send({std::string(spec.name), nlohmann::json::parse(spec.example)});
      ++sent;
    }
    session.send({"no_such_command"});
    session.send({"pause"});
    const Seen seen = wait_for(session, [](const Observation& now) {
      return !now.events.empty() && now.events.back().text.find("no_such_command") != std::string::npos;
    });
    EXPECT_GE(sent, 15u);
    for (std::size_t i = 0; i + 1 < seen->events.size(); ++i) {
      EXPECT_NE(seen->events[i].severity, Severity::failure) << seen->events[i].text;
    }
  }
  std::filesystem::current_path(home);
  std::filesystem::remove_all(folder);
}

TEST(Session, ErrorsBecomeEventsAndTheSessionLivesOn) {
  Session session(small_recipe_json().dump(), resting());
  session.send({"set", R"({"key": "no_such", "to": 1})"_json});
  const Seen seen = wait_for(session, [](const Observation& now) { return !now.events.empty(); });
  EXPECT_THAT(seen->events.back().text, testing::HasSubstr("no_such"));
  EXPECT_EQ(seen->events.back().severity, Severity::failure);
  session.send({"load", R"({"path": "/no/such/file.safetensors"})"_json});
  session.send({"load", R"({"recipe": "no object"})"_json});
  wait_for(session, [](const Observation& now) { return now.events.size() >= 3; });
  session.send({"step"});
  wait_for(session, [](const Observation& now) { return now.step == 1; });
}

TEST(Session, ABadRecipeIsAnEventAndAnotherCanBeLoaded) {
  Session session("{\"model\": 3}", resting());
  wait_for(session, [](const Observation& now) { return !now.events.empty(); });
  session.send({"load", R"({"preset": "tiny"})"_json});
  EXPECT_EQ(wait_for(session, [](const Observation& now) { return now.preset == "tiny"; })->preset, "tiny");
}

TEST(Session, SavesAndLoadsASnapshot) {
  const auto path = std::filesystem::temp_directory_path() / "afterglow_session_test.safetensors";
  Session session(small_recipe_json().dump(), resting());
  session.send({"step", R"({"count": 7})"_json});
  const Seen seven = wait_for(session, [](const Observation& now) { return now.step == 7 && now.checksum_step == 7; });
  session.send({"save", nlohmann::json{{"path", path.string()}}});
  session.send({"load", nlohmann::json{{"path", path.string()}}});
  const Seen loaded =
      wait_for(session, [](const Observation& now) { return now.runs.size() == 2 && now.checksum_step == 7; });
  EXPECT_EQ(loaded->checksum, seven->checksum);
  std::filesystem::remove(path);
}

TEST(Session, SavingWithoutAPathOverwritesNothing) {
  const auto folder = std::filesystem::temp_directory_path() / "afterglow_save_twice_test";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const auto home = std::filesystem::current_path();
  std::filesystem::current_path(folder);
  {
    Session session(small_recipe_json().dump(), resting());
    for (int i = 0; i < 2; ++i) session.send({"save"});
    const Seen seen = wait_for(session, [](const Observation& now) { return now.events.size() == 2; });
    EXPECT_THAT(seen->events[0].text, testing::EndsWith("small_seed3_step0.safetensors"));
    EXPECT_THAT(seen->events[1].text, testing::EndsWith("small_seed3_step0_2.safetensors"));
  }
  std::filesystem::current_path(home);
  EXPECT_TRUE(std::filesystem::exists(folder / "small_seed3_step0.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(folder / "small_seed3_step0_2.safetensors"));
  std::filesystem::remove_all(folder);
}

TEST(Session, ARunWithPatienceEndsAndNamesItsBestStep) {
  nlohmann::json json = small_recipe_json();
  json["training"] = {{"steps", 400}, {"batch", 4}, {"learning_rate", 0.01}, {"evaluate_every", 3}, {"patience", 2}};
  Session session(json.dump(), resting());
  session.send({"run"});
  const Seen ended = wait_for(session, [](const Observation& now) { return !now.events.empty() && !now.running; });
  EXPECT_THAT(ended->events.back().text, testing::HasSubstr("best at step"));
  EXPECT_TRUE(ended->finished);
  EXPECT_LT(ended->step, 400);
}

TEST(Session, MovesToAnotherDeviceAtTheSameStep) {
  Session session(small_recipe_json().dump(), resting());
  session.send({"step", R"({"count": 5})"_json});
  const Seen five = wait_for(session, [](const Observation& now) { return now.step == 5 && now.checksum_step == 5; });
  session.send({"device", R"({"name": "cpu"})"_json});
  const Seen moved =
      wait_for(session, [](const Observation& now) { return now.runs.size() == 2 && now.checksum_step == 5; });
  EXPECT_EQ(moved->checksum, five->checksum);
  session.send({"precision", R"({"name": "tf32"})"_json});
  const Seen refused = wait_for(session, [](const Observation& now) { return !now.events.empty(); });
  EXPECT_THAT(refused->events.back().text, testing::HasSubstr("fp32"));
  session.send({"device", R"({"name": "toaster"})"_json});
  wait_for(session, [](const Observation& now) { return now.events.size() == 2; });
  session.send({"step", R"({"count": 7})"_json});
  const Seen twelve =
      wait_for(session, [](const Observation& now) { return now.step == 12 && now.checksum_step == 12; });
  EXPECT_EQ(twelve->checksum, checksum_without_session(12));
}

TEST(Session, SaysThatItsDeviceLacksThePrecisionOfTheRecipe) {
  nlohmann::json recipe = small_recipe_json();
  recipe["precision"] = "bf16";
  Session session(recipe.dump(), resting());
  const Seen opened = wait_for(session, [](const Observation& now) { return !now.events.empty(); });
  EXPECT_THAT(opened->events.back().text, testing::HasSubstr("the recipe asks for bf16"));
  EXPECT_EQ(opened->precision, "fp32");
}

TEST(Session, GoesOnElsewhereWhenItsDeviceIsLost) {
  const auto gone = std::make_shared<std::atomic<bool>>(false);
  SessionOptions options = resting();
  options.device = "fading";
  options.make_backend = [gone](const std::string& device, int threads) -> std::unique_ptr<Backend> {
    if (device == "fading") return std::make_unique<FadingBackend>(gone);
    return make_backend(device, threads);
  };
  Session session(small_recipe_json().dump(), options);
  session.send({"step", R"({"count": 9})"_json});
  wait_for(session, [](const Observation& now) { return now.step == 9 && now.checksum_step == 9; });
  *gone = true;
  session.send({"step", R"({"count": 5})"_json});
  wait_for(session, [](const Observation& now) {
    return std::any_of(now.events.begin(), now.events.end(),
                       [](const Event& event) { return event.text.find("device cpu") != std::string::npos; });
  });
  session.send({"device", R"({"name": "cpu"})"_json});
  const Seen moved =
      wait_for(session, [](const Observation& now) { return now.device.find("CPU") == 0 && now.runs.size() == 2; });
  EXPECT_LE(moved->step, 9);
  session.send({"rewind", R"({"step": 12})"_json});
  const Seen twelve =
      wait_for(session, [](const Observation& now) { return now.step == 12 && now.checksum_step == 12; });
  EXPECT_EQ(twelve->checksum, checksum_without_session(12));
}

/// Has no memory left for what is read from it.
class FullBackend final : public CpuBackend {
 public:
  explicit FullBackend(std::shared_ptr<std::atomic<bool>> full) : CpuBackend(1), full_(std::move(full)) {}
  void download(void* destination, const Tensor& source) override {
    if (*full_) throw std::bad_alloc();
    CpuBackend::download(destination, source);
  }

 private:
  std::shared_ptr<std::atomic<bool>> full_;
};

TEST(Session, ASnapshotForWhichThereIsNoMemoryIsNamed) {
  const auto full = std::make_shared<std::atomic<bool>>(false);
  SessionOptions options = resting();
  options.make_backend = [full](const std::string&, int) { return std::make_unique<FullBackend>(full); };
  Session session(small_recipe_json().dump(), options);
  session.send({"step", R"({"count": 2})"_json});
  wait_for(session, [](const Observation& now) { return now.step == 2 && now.checksum_step == 2; });
  *full = true;
  session.send({"save", R"({"path": "kept.safetensors"})"_json});
  wait_for(session, [](const Observation& now) {
    return std::any_of(now.events.begin(), now.events.end(), [](const Event& event) {
      return event.text.find("kept.safetensors was not written") != std::string::npos;
    });
  });
  EXPECT_FALSE(std::filesystem::exists("kept.safetensors"));
}

TEST(Session, TrainsPresetsOneAfterTheOtherUntilSomethingElseIsOpened) {
  Session session(small_recipe_json().dump(), resting());
  const auto shorten = [&] {
    session.send(SetNumber{"batch", 1});
    session.send(SetNumber{"steps", 2});
  };
  session.send({"compare", R"({"presets": ["tiny-ssm", "tiny"]})"_json});
  shorten();
  const Seen second = wait_for(session, [](const Observation& now) { return now.preset == "tiny"; });
  ASSERT_EQ(second->runs.size(), 2u);
  EXPECT_EQ(second->runs[0].run, find_preset("tiny-ssm").title);
  EXPECT_EQ(second->runs[1].run, find_preset("tiny").title);
  shorten();
  const Seen done = wait_for(session, [](const Observation& now) { return now.finished && !now.running; });
  EXPECT_EQ(done->preset, "tiny") << "nothing comes after it";

  session.send({"compare", R"({"presets": ["tiny", "tiny-ssm"]})"_json});
  session.send({"load", R"({"preset": "mqar-attention"})"_json});
  shorten();
  session.send({"run"});
  const Seen alone =
      wait_for(session, [](const Observation& now) { return now.preset == "mqar-attention" && now.finished; });
  EXPECT_FALSE(alone->running) << "opening a preset ends the comparison";
  session.send({"compare", R"({"presets": ["nothing"]})"_json});
  const Seen refused = wait_for(session, [](const Observation& now) { return !now.events.empty(); });
  EXPECT_THAT(refused->events.back().text, testing::HasSubstr("nothing"));
}

TEST(Session, LiveChangesLeaveAMark) {
  Session session(small_recipe_json().dump(), resting());
  session.send({"step", R"({"count": 4})"_json});
  wait_for(session, [](const Observation& now) { return now.step == 4 && !now.running; });
  session.send({"set", R"({"key": "learning_rate", "to": 0.0007})"_json});
  session.send({"step", R"({"count": 1})"_json});
  const Seen seen = wait_for(session, [](const Observation& now) { return now.step == 5; });
  ASSERT_EQ(seen->runs.back().marks.size(), 1u);
  EXPECT_EQ(seen->runs.back().marks[0].step, 4);
  EXPECT_EQ(seen->runs.back().marks[0].text, "learning rate 0.003 → 0.0007");
  EXPECT_THAT(seen->recipe, testing::HasSubstr("0.0007"));
}

TEST(Session, UnderAFloodOfRandomCommandsItStaysConsistent) {
  Session session(small_recipe_json().dump(), resting());
  const Command commands[] = {{"toggle_run"},
                              {"step", R"({"count": 2})"_json},
                              {"rewind", R"({"step": 1})"_json},
                              {"pause"},
                              {"set", R"({"key":"clip","to":0.5})"_json},
                              {"undo"},
                              {"probe", R"({"index": 3})"_json},
                              {"trace", R"({"layer": 1})"_json},
                              {"branch"},
                              {"run_to", R"({"step": 9})"_json}};
  for (int i = 0; i < 120; ++i) session.send(commands[i * 7 % 10]);
  session.send({"pause"});
  session.send({"rewind", R"({"step": 0})"_json});
  session.send({"reseed", R"({"seed": 77})"_json});
  session.send({"step", R"({"count": 6})"_json});
  const Seen seen = wait_for(
      session, [](const Observation& now) { return now.seed == 77 && now.checksum_step == 6 && !now.running; });
  const auto backend = make_cpu_backend(1);
  Recipe fresh = small_recipe();
  fresh.seed = 77;
  TrainingRun run(fresh, *backend);
  run.go_to(6);
  EXPECT_EQ(seen->checksum, run.trainer().checksum());
}

}  // namespace
}  // namespace afterglow
