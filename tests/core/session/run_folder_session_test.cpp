// A session goes through the states of a folder as it rewinds its own training.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "core/engine/training/saved/model_copy.h"
#include "tests/core/session/turned_worker.h"

namespace afterglow {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(RunFolderSession, WalksOverTheStatesAndFollowsTheNewest) {
  const auto folder = std::filesystem::temp_directory_path() / "afterglow_run_folder_session";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  TurnedWorker test;
  std::map<std::int64_t, std::string> checksums;
  for (int i = 0; i < 3; ++i) {
    const auto trained = test.after({"step", R"({"count": 4})"_json});
    checksums[trained->step] = trained->checksum;
    const auto file = folder / ("step_" + std::to_string(trained->step) + ".safetensors");
    test.after({"save", nlohmann::json{{"path", file.string()}}});
  }
  std::ofstream(folder / "log.csv") << "step,loss\n1,2\n50000,1\n";
  const auto opened = test.after({"load", nlohmann::json{{"path", folder.string()}}});
  ASSERT_TRUE(opened->folder);
  EXPECT_THAT(opened->folder->states, ElementsAre(4, 8, 12));
  EXPECT_EQ(opened->step, 12);
  EXPECT_EQ(opened->oldest_step, 4);
  EXPECT_TRUE(opened->follows);
  EXPECT_EQ(opened->final_step, 50000) << "as far as the log goes";
  EXPECT_TRUE(opened->settings.empty()) << "sliders that could change nothing";
  const auto back = test.after({"rewind", R"({"by": 1})"_json});
  EXPECT_EQ(back->step, 8);
  EXPECT_EQ(back->checksum, checksums[8]);
  EXPECT_FALSE(back->follows) << "as in a log viewer";
  EXPECT_EQ(test.after({"rewind", R"({"step": 7})"_json})->step, 4);
  EXPECT_EQ(test.after({"rewind", R"({"step": 0})"_json})->step, 4);
  const auto forward = test.after({"step", R"({"count": 1})"_json});
  EXPECT_EQ(forward->step, 8);
  EXPECT_GT(forward->spectrum_history.size(), 1u) << "the trail over the visited states";
  const auto refused = test.after({"set", R"({"key": "learning_rate", "to": 0.001})"_json});
  EXPECT_THAT(refused->events.back().text, HasSubstr("another program trains this run"));
  const auto newest = test.after({"toggle_run"});
  EXPECT_EQ(newest->step, 12);
  EXPECT_TRUE(newest->follows);
  EXPECT_EQ(newest->checksum, checksums[12]);
  EXPECT_EQ(newest->latest_step, 12) << "nothing is trained";
  std::filesystem::remove_all(folder);
}

/// Its analyses read the weights in place, and begin again where other weights are loaded.
TEST(RunFolderSession, AStateHasTheNumbersThatItHasAlone) {
  const auto folder = std::filesystem::temp_directory_path() / "afterglow_run_folder_numbers";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const auto file = [&](int step) { return folder / ("step_" + std::to_string(step) + ".safetensors"); };
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  TrainingRun trained(small_recipe(), *backend);
  for (const int step : {4, 8}) {
    trained.go_to(step);
    write_snapshot(file(step), trained.snapshot());
  }
  AnalysedRun analysed(open_saved_run(folder), *backend);
  EXPECT_EQ(analysed.step(), 8);
  for (const Analysis begun : {Analysis::influence, Analysis::patch, Analysis::readout}) analysed.advance(begun);
  analysed.go_to(4);
  ModelCopy copy(analysed.recipe().model, analysed.trainer());
  EXPECT_EQ(&copy.model(), &analysed.trainer().model());
  AnalysedRun alone(open_saved_run(file(4)), *backend);
  Observation expected = alone.observe(looks_at_the_model());
  expected.settings.clear();  // sliders that could change nothing
  expect_same_numbers(analysed.observe(looks_at_the_model()), expected);
  std::filesystem::remove_all(folder);
}

TEST(RunFolderSession, NotesStayBesideTheUsersFilesAndOutOfTheFolder) {
  namespace fs = std::filesystem;
  const fs::path home = fs::temp_directory_path() / "afterglow_run_folder_notes", folder = home / "run";
  fs::remove_all(home);
  fs::create_directories(folder);
  const char* before = std::getenv("XDG_DATA_HOME");
  const std::string data = before ? before : "";
  setenv("XDG_DATA_HOME", (home / "data").c_str(), 1);
  const Command load{"load", nlohmann::json{{"path", folder.string()}}};
  {
    TurnedWorker test;
    test.after({"step", R"({"count": 2})"_json});
    test.after({"save", nlohmann::json{{"path", (folder / "step_2.safetensors").string()}}});
    test.after(load);
    test.after({"note", R"({"text": "first"})"_json});
    test.after({"note", R"({"text": "second"})"_json});
    test.after({"undo"});
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1) << "nothing is written there";
  TurnedWorker again;
  const auto opened = again.after(load);
  ASSERT_EQ(opened->notes.size(), 1u);
  EXPECT_EQ(opened->notes[0].text, "first");
  std::ofstream(RunFolder(folder).notes_file()) << "{\"notes\": [{\"step\": -1}]}";
  const auto damaged = again.after(load);
  EXPECT_TRUE(damaged->notes.empty());
  EXPECT_THAT(damaged->events.back().text, HasSubstr("these notes are left out"));
  before ? setenv("XDG_DATA_HOME", data.c_str(), 1) : unsetenv("XDG_DATA_HOME");
  fs::remove_all(home);
}

TEST(RunFolderSession, ShowsNewStatesAndAFolderThatWasMadeAgain) {
  namespace fs = std::filesystem;
  using Clock = std::chrono::steady_clock;
  const fs::path folder = fs::temp_directory_path() / "afterglow_run_folder_news",
                 written = folder.string() + "_written";
  fs::remove_all(folder);
  fs::remove_all(written);
  fs::create_directories(folder);
  fs::create_directories(written);
  TurnedWorker test;
  const auto name = [](int step) { return "step_" + std::to_string(step) + ".safetensors"; };
  for (int step = 1; step <= 6; ++step) {
    test.after({"step", R"({"count": 1})"_json});
    test.after({"save", nlohmann::json{{"path", (written / name(step)).string()}}});
  }
  const auto show = [&](int step) { fs::rename(written / name(step), folder / name(step)); };
  const auto wait_for = [&](int step) {
    const auto last = Clock::now() + std::chrono::seconds(60);
    while (test.box.take()->step != step && Clock::now() < last) test.worker.turn();
    EXPECT_EQ(test.box.take()->step, step);
  };
  show(1);
  test.after({"load", nlohmann::json{{"path", folder.string()}}});
  for (int step = 2; step <= 5; ++step) {
    show(step);
    wait_for(step);
  }
  const std::size_t told = test.box.take()->events.size();
  fs::remove_all(folder);
  for (int turn = 0; turn < 5; ++turn) test.at_rest();
  EXPECT_EQ(test.box.take()->step, 5) << "what was opened stays";
  EXPECT_EQ(test.box.take()->events.size(), told + 1) << "said once";
  fs::create_directories(folder);
  show(6);
  wait_for(6);
  EXPECT_THAT(test.box.take()->folder->deleted, ElementsAre(1, 2, 3, 4, 5));
  fs::remove_all(folder);
  fs::remove_all(written);
}

}  // namespace
}  // namespace afterglow
