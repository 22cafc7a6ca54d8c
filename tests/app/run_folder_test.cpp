// A training of another program as a folder: info, eval, forward and plot at its steps.
#include <gmock/gmock.h>

#include "core/io/safetensors.h"
#include "tests/app/program_test.h"

namespace afterglow {
namespace {

using nlohmann::json;
using testing::HasSubstr;
namespace fs = std::filesystem;

/// Two checkpoints of transformers' form, with the log that its Trainer writes.
class RunFolderProgram : public ProgramTest {
 protected:
  RunFolderProgram() {
    write("own.json", R"({"name": "own", "model": {"d_model": 16, "vocab": 40, "blocks": [
      {"mixer": {"kind": "mamba2", "d_state": 8, "headdim": 8, "ngroups": 2}, "repeat": 2}]},
      "task": {"kind": "ids", "vocab": 40, "length": 16}, "training": {"steps": 4, "batch": 2, "warmup": 1, "evaluate_every": 0}})");
    write("ids.txt", "1 2 3 4 5 6 7\n");
    fs::create_directories(folder_ / "run");
    for (const auto& [trained, step] : {std::pair("2", "10"), {"4", "020"}}) {
      const std::string steps = trained, to = step;
      EXPECT_EQ(run("train --recipe own.json --device cpu --threads 1 --no-figures --out own --steps " + steps).code,
                0);
      EXPECT_EQ(
          run("export own/own_seed7_step" + steps + ".safetensors --format transformers --out run/checkpoint-" + to)
              .code,
          0);
    }
    write(
        "run/checkpoint-020/trainer_state.json",
        R"({"max_steps": 30, "log_history": [{"step": 5, "loss": 3.5, "grad_norm": NaN}, {"step": 15, "loss": 3.0}]})");
    write("run/checkpoint-10/optimizer.pt", "a pickle");
  }
  std::vector<float> logits(const std::string& what) {
    const ProgramResult result = run("forward " + what + " --tokens ids.txt --out l.safetensors --force --device cpu");
    EXPECT_EQ(result.code, 0) << result.err;
    return to_floats(require_tensor(read_safetensors(folder_ / "l.safetensors"), "logits", "logits"));
  }
};

TEST_F(RunFolderProgram, TwoStepsAreComparedInOneFigure) {
  const std::string start = "plot token_weights --device cpu --json --force --svg w.svg --snapshot run@10 --against ";
  const json unlike = parsed(run(start + "run@20"));
  EXPECT_EQ(unlike["step"], 10);
  EXPECT_EQ(unlike["against"]["step"], 20);
  EXPECT_NE(unlike["against"]["checksum"], unlike["checksum"]);
  EXPECT_THAT(unlike["figure"].get<std::string>(), testing::EndsWith("_difference"));
  const json curves =
      parsed(run("plot training --device cpu --json --force --csv t.csv --snapshot run@10 --against run@20"));
  EXPECT_THAT(curves["differs"].get<std::string>(), HasSubstr("B is outlined"));
  EXPECT_EQ(run(start + "run@15").code, 2) << "there is no such checkpoint";
  EXPECT_EQ(run(start + "nothing").code, 3);
  EXPECT_EQ(run("plot costs --svg c.svg --against run@20").code, 2) << "an experiment without a model";
}

TEST_F(RunFolderProgram, IsListedAndReadAtEachStep) {
  const json info = parsed(run("info run --json"));
  ASSERT_EQ(info["states"].size(), 2u);
  EXPECT_EQ(info["states"][0]["step"], 10);
  EXPECT_THAT(info["states"][1]["path"].get<std::string>(), HasSubstr("checkpoint-020"));
  ASSERT_EQ(info["curves"].size(), 2u);
  EXPECT_EQ(info["curves"][1], (json{{"name", "loss"}, {"points", 2}, {"first_step", 5}, {"last_step", 15}}));
  EXPECT_EQ(logits("run --step 10"), logits("run/checkpoint-10"));
  EXPECT_EQ(logits("run"), logits("run/checkpoint-020"));
  EXPECT_NE(logits("run"), logits("run --step 10"));
  EXPECT_EQ(parsed(run("eval run --step 10 --examples 4 --json"))["step"], 10);
  EXPECT_EQ(parsed(run("plot token_weights --snapshot run --step 10 --svg w.svg --json"))["step"], 10);
  EXPECT_EQ(run("plot training --snapshot run --csv t.csv").code, 0);
  EXPECT_EQ(parsed(run("generate run --step 10 --tokens ids.txt --count 1 --json"))["step"], 10);
  EXPECT_EQ(parsed(run("export run --step 10 --format npz --out copy --json"))["step"], 10);
  // A figure names the folder of its weights without the way to it: next to the figure it opens at its step.
  fs::copy(folder_ / "run" / "checkpoint-10", folder_ / "checkpoint-10", fs::copy_options::recursive);
  EXPECT_EQ(parsed(run("plot token_weights --recipe w.svg --svg again.svg --json"))["step"], 10);
}

TEST_F(RunFolderProgram, WrongStepsAndFoldersHaveTheirExitCodes) {
  const ProgramResult missing = run("eval run --step 15");
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.err, HasSubstr("10, 20"));
  EXPECT_EQ(run("eval run/checkpoint-10 --step 10").code, 2);
  EXPECT_EQ(run("plot training --snapshot run --steps 3 --csv t.csv").code, 2);
  fs::create_directories(folder_ / "empty");
  EXPECT_EQ(run("info empty").code, 3);
  fs::create_directories(folder_ / "logs");
  write("logs/log.csv", "step,loss\n1,2\n");
  EXPECT_EQ(parsed(run("info logs --json"))["states"].size(), 0u);
  EXPECT_EQ(run("eval logs").code, 3);
}

TEST_F(RunFolderProgram, FilesShareOneConfig) {
  fs::create_directories(folder_ / "plain");
  fs::copy(folder_ / "run/checkpoint-10/config.json", folder_ / "plain/config.json");
  fs::copy(folder_ / "run/checkpoint-10/model.safetensors", folder_ / "plain/step_0010.safetensors");
  fs::copy(folder_ / "run/checkpoint-020/model.safetensors", folder_ / "plain/step_0020.safetensors");
  EXPECT_EQ(logits("plain --step 10"), logits("run/checkpoint-10"));
  EXPECT_EQ(logits("plain/step_0020.safetensors"), logits("run"));
}

TEST_F(RunFolderProgram, OwnSnapshotsAreARunToo) {
  const json info = parsed(run("info own --json"));
  ASSERT_EQ(info["states"].size(), 2u);
  EXPECT_EQ(info["states"][0]["step"], 2);
  EXPECT_EQ(logits("own --step 2"), logits("own/own_seed7_step2.safetensors"));
}

}  // namespace
}  // namespace afterglow
