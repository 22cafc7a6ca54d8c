// Folders of checkpoints as trainers of many kinds write them.
#include "core/engine/training/saved/run_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/io/error.h"
#include "core/io/safetensors.h"

namespace afterglow {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class RunFolders : public testing::Test {
 protected:
  RunFolders() : folder_(fs::temp_directory_path() / "afterglow_run_folder") {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~RunFolders() override { fs::remove_all(folder_); }
  void weights(const std::string& name) {
    fs::create_directories((folder_ / name).parent_path());
    TensorFile file;
    const float number = 1;
    file.tensors.push_back(make_tensor("a", {1}, std::span<const float>(&number, 1)));
    write_safetensors(folder_ / name, file);
    write((fs::path(name).parent_path() / "config.json").string(), "{}");
  }
  void write(const std::string& name, const std::string& text) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  std::vector<std::int64_t> steps() { return RunFolder(folder_).view()->states; }
  fs::path folder_;
};

TEST_F(RunFolders, NamesHoldTheSteps) {
  for (const char* name : {"checkpoint-500/model.safetensors", "step_001000.safetensors",
                           "epoch=1-step=1500.safetensors", "Schritt é 2000 step 2000.safetensors",
                           "iter_0002500/weights.safetensors", "global_step3000/model.safetensors.index.json"})
    weights(name);
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{500, 1000, 1500, 2000, 2500, 3000}));
}

TEST_F(RunFolders, NumbersThatAreNoSteps) {
  for (const char* name : {"mamba-130m.safetensors", "mamba-370m.safetensors", "model-00001-of-00002.safetensors",
                           "model-00002-of-00002.safetensors", "v1.5.safetensors", "v1.6.safetensors",
                           "llama-3.safetensors", "qwen3_5.safetensors"})
    weights(name);
  EXPECT_THAT(steps(), IsEmpty());
  weights("0100/model.safetensors");
  EXPECT_THAT(steps(), IsEmpty()) << "one number alone is no series";
  weights("0200/model.safetensors");
  EXPECT_THAT(steps(), ElementsAre(100, 200));
}

TEST_F(RunFolders, DamageIsSaidAndTheRestGoesOn) {
  weights("step_10.safetensors");
  weights("step_010.safetensors");
  weights("step_20.safetensors");
  fs::resize_file(folder_ / "step_20.safetensors", fs::file_size(folder_ / "step_20.safetensors") - 1);
  weights("step_99999999999.safetensors");
  write("step_30.pt", "pickle");
  fs::create_directories(folder_ / "checkpoint-40");
  fs::create_directory_symlink(folder_ / "checkpoint-50", folder_ / "checkpoint-50");
  fs::create_directory_symlink(folder_, folder_ / "again");
  write("log.jsonl", "{\"step\": 3, \"loss\": 1}\n");
  const RunFolder folder(folder_);
  EXPECT_THAT(folder.view()->states, ElementsAre(10));
  const auto& notes = folder.notes();
  EXPECT_THAT(notes, Contains(HasSubstr("step 10 is there twice")));
  EXPECT_THAT(notes, Contains(HasSubstr("step_20.safetensors: it is damaged or not written to its end")));
  EXPECT_THAT(notes, Contains(HasSubstr("too large for a step")));
  EXPECT_THAT(notes, Contains(HasSubstr("step_30.pt")));
  EXPECT_THAT(notes, Contains(HasSubstr("checkpoint-40: there are no weights")));
  EXPECT_THAT(notes, Contains(HasSubstr("checkpoint-50: it cannot be read")));
  ASSERT_EQ(folder.view()->curves.size(), 1u);
  EXPECT_EQ(folder.view()->curves[0].name, "loss");
}

TEST_F(RunFolders, TheLastCheckpointsLogCounts) {
  const auto log = [](int step) {
    return R"({"max_steps": 90, "log_history": [{"step": )" + std::to_string(step) + R"(, "loss": 1}]})";
  };
  for (const int step : {20, 40}) {
    weights("checkpoint-" + std::to_string(step) + "/model.safetensors");
    write("checkpoint-" + std::to_string(step) + "/trainer_state.json", log(step));
  }
  EXPECT_THAT(RunFolder(folder_).view()->curves.at(0).steps, ElementsAre(40));
  EXPECT_EQ(RunFolder(folder_).planned_steps(), 90);
  write("checkpoint-40/trainer_state.json", "{\"log_hist");
  const RunFolder folder(folder_);
  EXPECT_THAT(folder.view()->curves.at(0).steps, ElementsAre(20));
}

TEST_F(RunFolders, NewStatesComeAndDeletedOnesKeepTheirSteps) {
  weights("step_1.safetensors");
  weights("step_2.safetensors");
  RunFolder folder(folder_);
  EXPECT_FALSE(folder.update());
  weights("step_3.safetensors");
  fs::remove(folder_ / "step_1.safetensors");
  EXPECT_TRUE(folder.update());
  EXPECT_THAT(folder.view()->states, ElementsAre(2, 3));
  EXPECT_THAT(folder.view()->deleted, ElementsAre(1));
  EXPECT_EQ(folder.near(1).step, 2);
  EXPECT_EQ(folder.near(2, 5).step, 3);
  EXPECT_EQ(folder.near(3, -1).step, 2);
  EXPECT_EQ(folder.at(newest_state).step, 3);
  EXPECT_THROW(folder.at(1), Error);
  write("log.csv", "step,loss\n1,2\n");
  EXPECT_TRUE(folder.update());
  EXPECT_EQ(folder.view()->curves.size(), 1u);
  EXPECT_FALSE(folder.update());
}

TEST_F(RunFolders, TheSystemTellsOfChangesAtOnce) {
  weights("step_1/model.safetensors");
  RunFolder run(folder_);
  EXPECT_TRUE(run.has_news()) << "the first call begins to listen";
  run.update();
  EXPECT_FALSE(run.has_news());
  write("step_1/trainer_state.json", "{}");
  EXPECT_TRUE(run.has_news()) << "in the folder of a state";
  EXPECT_FALSE(run.has_news()) << "all is read";
  weights("step_2/model.safetensors");
  EXPECT_TRUE(run.has_news());
  run.update();
  fs::rename(folder_ / "step_2", folder_ / "step_3");
  EXPECT_TRUE(run.has_news());
  fs::remove_all(folder_);
  EXPECT_TRUE(run.has_news());
  EXPECT_THROW(run.update(), Error);
  weights("step_4/model.safetensors");
  EXPECT_FALSE(run.has_news()) << "the new folder is not known yet";
  EXPECT_TRUE(run.update());
  write("step_4/trainer_state.json", "{}");
  EXPECT_TRUE(run.has_news()) << "a folder that was made again";
}

TEST_F(RunFolders, AStateWhoseNameIsNotUtf8IsSaid) {
  weights("step_1.safetensors");
  weights("step_2\xff.safetensors");
  const RunFolder run(folder_);
  EXPECT_THAT(run.view()->states, ElementsAre(1));
  EXPECT_THAT(run.notes(), ElementsAre(HasSubstr("not UTF-8")));
}

TEST_F(RunFolders, AStateWaitsForItsConfig) {
  weights("step-1/model.safetensors");
  weights("step-2/model.safetensors");
  fs::remove(folder_ / "step-2/config.json");
  RunFolder run(folder_);
  EXPECT_THAT(run.view()->states, ElementsAre(1));
  EXPECT_THAT(run.notes(), ElementsAre(HasSubstr("config.json")));
  write("step-2/config.json", "{}");
  EXPECT_TRUE(run.update());
  EXPECT_THAT(run.view()->states, ElementsAre(1, 2));
}

TEST_F(RunFolders, AnotherRunBelowIsLeftOut) {
  weights("a/step_1.safetensors");
  weights("b/step_2.safetensors");
  const RunFolder folder(folder_);
  EXPECT_THAT(folder.view()->states, ElementsAre(1));
  EXPECT_THAT(folder.notes(), Contains(HasSubstr("of another run")));
}

}  // namespace
}  // namespace afterglow
