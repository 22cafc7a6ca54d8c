// `afterglow train` on a device that stops answering: exit code 4, and the last state in a file to go on with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/cli/command_line.h"
#include "core/engine/training/saved/saved_run.h"
#include "core/engine/training/saved/snapshot.h"
#include "tests/app/run_program.h"
#include "tests/core/engine/fading_backend.h"

namespace afterglow {
namespace {

std::unique_ptr<Backend> make_fading(std::string*) {
  auto backend = std::make_unique<FadingBackend>(std::make_shared<std::atomic<bool>>(false));
  backend->fade_after(25);
  return backend;
}

/// The program's own entry, in this process; `words` without the program's name.
int run_here(std::vector<std::string> words) {
  words.insert(words.begin(), "afterglow");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  return run_command_line(static_cast<int>(arguments.size()), arguments.data());
}

TEST(DeviceLoss, TrainKeepsTheLastStateAndGoesOnElsewhere) {
  const ScratchFolder folder("device_loss");
  register_cuda_maker(make_fading);
  testing::internal::CaptureStderr();
  const std::string out = folder.path().string();
  const int code = run_here({"train", "--preset", "tiny", "--set", "batch=2", "--steps", "40", "--device", "cuda",
                             "--quiet", "--no-figures", "--out", out});
  const std::string message = testing::internal::GetCapturedStderr();
  register_cuda_maker(nullptr);
  EXPECT_EQ(code, 4);
  EXPECT_THAT(message, testing::HasSubstr("the GPU failed or was lost"));
  const std::string kept = (folder / "tiny_seed7_step20.safetensors").string();
  EXPECT_THAT(message, testing::HasSubstr("continue with: afterglow train --resume " + kept + " --device cpu"));
  EXPECT_EQ(read_snapshot(kept).step, 20);

  const std::string rest = (folder / "rest").string(), whole = (folder / "whole").string();
  EXPECT_EQ(run_here({"train", "--resume", kept, "--device", "cpu", "--quiet", "--no-figures", "--out", rest}), 0);
  EXPECT_EQ(run_here({"train", "--preset", "tiny", "--set", "batch=2", "--steps", "40", "--device", "cpu", "--quiet",
                      "--no-figures", "--out", whole}),
            0);
  const char* end = "tiny_seed7_step40.safetensors";
  EXPECT_EQ(read_snapshot(std::filesystem::path(rest) / end).checksum,
            read_snapshot(std::filesystem::path(whole) / end).checksum);
}

}  // namespace
}  // namespace afterglow
