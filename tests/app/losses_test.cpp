// Nothing that was trained or written is lost: signals, full disks, bad commands, missing memory, other processes.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "core/engine/training/saved/snapshot.h"
#include "tests/app/program_test.h"

namespace afterglow {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class Losses : public ProgramTest {};

TEST_F(Losses, WhatTheSystemSendsBeforeTheEndSavesAsCtrlCDoes) {
  for (const std::string signal : {"TERM", "HUP", "USR1", "USR2", "XCPU"}) {
    const ProgramResult result = signalled(
        "train --recipe small.json --set steps=1000000 --device cpu --threads 1 --no-figures --out " + signal, signal);
    EXPECT_EQ(result.code, 130) << signal << ": " << result.err;
    EXPECT_THAT(result.out, HasSubstr("--resume " + signal + "/small_seed3_step"));
    ASSERT_EQ(files(signal, ".safetensors").size(), 1u) << signal;
    EXPECT_GT(read_snapshot(folder_ / signal / files(signal, ".safetensors").front()).step, 0);
  }
}

TEST_F(Losses, AnEndAskedForBySignalDoesNotWaitForAnalysesOfTheFigures) {
  const ProgramResult result = run_line(
      "$AFTERGLOW train --preset tiny --steps 3 --device cpu --threads 1 --figures all --out out & until [ -d "
      "out/figures_* ] || ! kill -0 $!; do sleep 0.01; done; kill -TERM $!; wait $!",
      folder_.path());
  EXPECT_EQ(result.code, 130) << result.err;
  EXPECT_THAT(result.err, HasSubstr("The snapshot is written: out/tiny_seed"));
  EXPECT_TRUE(files("out", ".svg").empty());
}

TEST_F(Losses, AKilledTrainingGoesOnFromItsLastSnapshot) {
  const std::string long_training =
      "train --recipe small.json --set steps=1000000 --device cpu --threads 1 --no-figures --quiet --save-steps 5";
  EXPECT_EQ(signalled(long_training + " --out killed", "KILL", 23).code, 137);
  std::int64_t last = 0;
  for (const std::string& name : files("killed", ".safetensors"))
    last = std::max(last, read_snapshot(folder_ / "killed" / name).step);
  EXPECT_GE(last, 20);
  const std::vector<std::string> kept = files("killed", ".safetensors");
  EXPECT_TRUE(kept.size() == 2 || kept.size() == 3) << "3: killed before the oldest one was removed";
  const std::string until = " --json --until " + std::to_string(last + 7) + " --out ";
  const ProgramResult resumed =
      run("train --device cpu --threads 1 --no-figures --quiet --resume killed/small_seed3_step" +
          std::to_string(last) + ".safetensors" + until + "resumed");
  EXPECT_EQ(parsed(resumed)["checksum"], parsed(run(long_training + until + "whole"))["checksum"]);
  EXPECT_EQ(files("whole", ".safetensors").size(), 1u) << "the end's snapshot replaces those on the way";
  const std::string own = folder_ / "killed/small_seed3_step3.safetensors";
  std::filesystem::copy_file(folder_ / "whole" / files("whole", ".safetensors")[0], own);
  run("train --device cpu --threads 1 --no-figures --quiet --resume killed/small_seed3_step" + std::to_string(last) +
      ".safetensors --until " + std::to_string(last + 7) + " --out killed");
  EXPECT_EQ(files("killed", ".safetensors").size(), 2u)
      << "what the killed process left is gone, a person's file is not";
}

TEST_F(Losses, TheLastStepIsWrittenOnce) {
  const ProgramResult result = train("--until 4 --save-steps 2");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(files("out", ".safetensors"), testing::ElementsAre("small_seed3_step4.safetensors"))
      << "under its own name: no snapshot on the way had it";
}

TEST_F(Losses, SignalsThatWereIgnoredStayIgnored) {
  const ProgramResult result = run_line(
      "trap '' HUP INT; $AFTERGLOW train --recipe small.json --set steps=2000 --device cpu --threads 1 --no-figures "
      "--out out & sleep 0.3; kill -HUP $!; kill -INT $!; wait $!",
      folder_.path());
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(files("out", ".safetensors"), testing::ElementsAre("small_seed3_step2000.safetensors"));
}

TEST_F(Losses, ReadingCommandsEndCleanlyAtCtrlC) {
  const std::string snapshot = parsed(train("--until 1 --json"))["snapshot"];
  for (const std::string& command :
       {"eval '" + snapshot + "' --bindings 1,2 --lengths 16,17,18,19,20,21,22,23,24,25,26,27,28 --examples 1048576",
        std::string("plot training --recipe small.json --set steps=1000000 --svg a.svg"),
        std::string("bench 'layer swiglu' --repeats 10000")}) {
    const ProgramResult result =
        run(command + " --device cpu --threads 1", "timeout --foreground --preserve-status -s INT 1");
    EXPECT_EQ(result.code, 130) << command << ": " << result.err;
    EXPECT_THAT(result.err, HasSubstr("interrupted")) << command;
  }
}

TEST_F(Losses, CommandsOfARecipeAreCheckedBeforeTrainingBegins) {
  json recipe = small_recipe_json();
  for (const char* value : {R"({"key": "learning_rate", "to": 1000000})", R"({"key": "no_such", "to": 1})",
                            R"({"key": "learning_rate", "to": "fast"})", R"({"to": 1})", R"(7)"}) {
    recipe["commands"] = json::array({{{"step", 39}, {"name", "set"}, {"value", json::parse(value)}}});
    write("small.json", recipe.dump());
    const ProgramResult result = train("");
    EXPECT_EQ(result.code, 3) << value << ": " << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr("step 39"), Not(HasSubstr("json.exception"))));
    EXPECT_THAT(files("out", ".safetensors"), IsEmpty()) << value;
  }
  recipe["commands"] = json::parse(R"([{"step": 39, "name": "set", "value": {"key": "learning_rate", "to": 2}}])");
  write("small.json", recipe.dump());
  EXPECT_THAT(train("").err, HasSubstr("learning rate must be between 1e-07 and 1"));
}

TEST_F(Losses, AFullDiskAtTheEndLeavesTheTrainingElsewhere) {
  // A folder in which nothing can be written any more when training has ended.
  const ProgramResult result = run_line(
      "mkdir out rescue; (sleep 1; rmdir out; touch out) & export HOME=$PWD/rescue; cd rescue; "
      "timeout --foreground --preserve-status -s INT 4 $AFTERGLOW train --recipe ../small.json --set steps=1000000 "
      "--device cpu --threads 1 --no-figures --out ../out",
      folder_.path());
  EXPECT_EQ(result.code, 3) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("../out"), HasSubstr("continue with: afterglow train --resume ")));
  ASSERT_EQ(files("rescue", ".safetensors").size(), 1u) << result.err;
  EXPECT_GT(read_snapshot(folder_ / "rescue" / files("rescue", ".safetensors").front()).step, 0);
}

TEST_F(Losses, AFolderThatCannotBeWrittenIsToldBeforeTraining) {
  if (::geteuid() == 0) GTEST_SKIP() << "the superuser may write everywhere";
  std::filesystem::create_directory(folder_ / "out");
  ::chmod((folder_ / "out").c_str(), 0500);
  EXPECT_EQ(train("--set steps=1000000", "timeout 20").code, 3);
}

TEST_F(Losses, TwoProgramsInOneFolderKeepBothResults) {
  for (int pair = 0; pair < 4; ++pair) {
    const std::string out = "out" + std::to_string(pair);
    const std::string command =
        "$AFTERGLOW train --recipe small.json --device cpu --threads 1 --quiet --until 2 --no-figures --out " + out;
    const ProgramResult result = run_line(
        command + " --set learning_rate=0.001 & " + command + " --set learning_rate=0.002 & wait", folder_.path());
    EXPECT_EQ(result.code, 0) << result.err;
    for (const char* ending : {".safetensors", ".csv", ".json"}) EXPECT_EQ(files(out, ending).size(), 2u) << ending;
  }
}

TEST_F(Losses, ATableTakesNoFolderOfOthers) {
  const std::string command =
      "table mqar --quiet --device cpu --threads 1 --only attention_16 --seeds 1 --set steps=1 --set batch=2 --out "
      "mine";
  std::filesystem::create_directory(folder_ / "mine");
  write("mine/table_mqar.csv", "precious");
  const ProgramResult refused = run(command);
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("mine"), HasSubstr("--force")));
  EXPECT_EQ(text_of(folder_ / "mine/table_mqar.csv"), "precious");
  ASSERT_EQ(run(command + " --force").code, 0);
  EXPECT_EQ(run(command).code, 0) << "now it is the table's own";
  const ProgramResult other = run(command + " --set steps=2");
  EXPECT_EQ(other.code, 3) << "the same runs with other settings";
  EXPECT_THAT(other.err, HasSubstr("other settings"));
}

TEST_F(Losses, ALayersResultReplacesNothingUnlessForced) {
  const std::string golden = golden_folder() / "swiglu_tiny.safetensors";
  std::filesystem::copy_file(golden, folder_ / "mine.safetensors");
  const std::string before = text_of(golden);
  EXPECT_EQ(run("layer mine.safetensors --out mine.safetensors --device cpu").code, 3);
  EXPECT_EQ(text_of(folder_ / "mine.safetensors"), before);
  EXPECT_EQ(run("layer mine.safetensors --out theirs.safetensors --device cpu").code, 0);
  EXPECT_EQ(run("layer mine.safetensors --out theirs.safetensors --device cpu --force").code, 0);
}

TEST_F(Losses, ForcedWritingFollowsNoLinkOutOfTheFolder) {
  std::filesystem::create_directory(folder_ / "out");
  write("precious", "old");
  std::filesystem::create_symlink("../precious", folder_ / "out/small_seed3_step1.safetensors");
  const ProgramResult result = train("--until 1 --force", "HOME=$PWD TMPDIR=$PWD");
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("symbolic link"));
  EXPECT_EQ(text_of(folder_ / "precious"), "old");
}

TEST_F(Losses, WhatKilledProgramsLeftIsRemovedAtTheNextStart) {
  std::filesystem::create_directory(folder_ / "out");
  write("out/.afterglow-1-0.tmp", "half a snapshot");
  EXPECT_EQ(train("--until 1").code, 0);
  EXPECT_THAT(files("out", ".tmp"), IsEmpty());
}

TEST_F(Losses, KilledAtAnyMomentLeavesWholeFilesAndNoRests) {
  for (const char* seconds : {"0.02", "0.04", "0.05", "0.06", "0.07", "0.08", "0.10", "0.13", "0.17", "0.22"}) {
    train("--until 3 --force", std::string("timeout -s KILL ") + seconds);
    for (const std::string& name : files("out", ".safetensors"))
      EXPECT_EQ(read_snapshot(folder_ / "out" / name).step, 3) << "killed after " << seconds << " s";
  }
  EXPECT_EQ(train("--until 3 --force").code, 0);
  EXPECT_THAT(files("out", ".tmp"), IsEmpty());
}

TEST_F(Losses, OutputThatDoesNotArriveIsAFailure) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP();
  for (const std::string command : {"info", "--version", "train --help", "info --json"}) {
    EXPECT_EQ(run_line("$AFTERGLOW " + command + " >/dev/full", folder_.path()).code, 1) << command;
    EXPECT_EQ(run_line("$AFTERGLOW " + command + " >&-", folder_.path()).code, 1) << command;
  }
  const ProgramResult trained = run_line(
      "$AFTERGLOW train --recipe small.json --device cpu --no-figures --until 3 "
      "--follow --out out >&- 2>&-",
      folder_.path());
  EXPECT_EQ(trained.code, 1);
  EXPECT_EQ(read_snapshot(folder_ / "out/small_seed3_step3.safetensors").step, 3) << "no line went into a file";
}

TEST_F(Losses, MissingMemoryIsFiveAndSaysHowMuch) {
  const ProgramResult result = train("--set batch=4096 --set task.length=4096", "ulimit -v 3000000;");
  EXPECT_EQ(result.code, 5) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("are needed"), HasSubstr("are free"), HasSubstr("ulimit -v")));
  const ProgramResult json_result = train("--json --set batch=4096 --set task.length=4096", "ulimit -v 3000000;");
  EXPECT_EQ(json_result.code, 5);
  EXPECT_EQ(parsed(json_result)["code"], 5);
}

TEST_F(Losses, ForeignNamesCannotSteerTheTerminal) {
  json recipe = small_recipe_json();
  recipe["title"] = "red \x1b[31m\x07 \u009b2J";
  write("small.json", recipe.dump());
  const ProgramResult result = train("--until 1");
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err, AllOf(HasSubstr("red \\x1b[31m"), Not(HasSubstr("\x1b")), Not(HasSubstr("\xc2\x9b"))));
  const ProgramResult missing = run("info $(printf 'a\\033[2Jb.json')");
  EXPECT_EQ(missing.code, 3);
  EXPECT_THAT(missing.err, Not(HasSubstr("\x1b")));
}

TEST_F(Losses, NamesThatAreNoTextAreHandled) {
  const ProgramResult out =
      run("train --recipe small.json --device cpu --no-figures --until 1 --json --out \"$(printf 'caf\\351')\"");
  EXPECT_EQ(out.code, 0) << out.err;
  EXPECT_EQ(parsed(out)["ok"], true);
  const std::string series = "printf 'date,x\\n1,2\\n' > \"$(printf 'caf\\351.csv')\"; ";
  const ProgramResult data = run_line(
      series + "$AFTERGLOW train --preset forecast --device cpu --data \"$(printf 'caf\\351.csv')\"", folder_.path());
  EXPECT_EQ(data.code, 3);
  EXPECT_THAT(data.err, AllOf(HasSubstr("caf\\xe9.csv"), HasSubstr("UTF-8")));
}

TEST_F(Losses, ValuesOfAnotherKindAreThreeInPlainWords) {
  json recipe = small_recipe_json();
  recipe["commands"] = json::parse(R"([{"step": 0, "name": "influence", "value": {"tokens": {"a": 1}}}])");
  write("small.json", recipe.dump());
  const ProgramResult result = train("--until 1");
  EXPECT_EQ(result.code, 3) << result.err;
  EXPECT_THAT(result.err, Not(HasSubstr("json.exception")));
  EXPECT_EQ(run("train --recipe small.json --set model.blocks.99999999999999999999.mixer=1").code, 2);
}

}  // namespace
}  // namespace afterglow
