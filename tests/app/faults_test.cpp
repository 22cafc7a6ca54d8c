// Calls of the system fail one after the other: the program ends with a documented code and a sentence, leaves whole
// files and no others, and goes on where it can.
#include <gmock/gmock.h>

#include <cerrno>

#include "core/engine/training/saved/snapshot.h"
#include "tests/app/program_test.h"

namespace afterglow {
namespace {

namespace fs = std::filesystem;

struct FaultResult : ProgramResult {
  bool has_happened = false;
};

class Faults : public ProgramTest {
 protected:
  static fs::path library() { return build_folder() / "lib/libafterglow_faults.so"; }
  /// On a drive where names are taken neither by a link nor by a rename that never replaces: both fail with `error`.
  ProgramResult without_links(int error, const std::string& arguments, const std::string& more = "") {
    return run(arguments,
               more + " AFTERGLOW_NO_LINKS=" + std::to_string(error) + " LD_PRELOAD='" + library().string() + "'");
  }
  /// `fault` as tests/preload/faults.cpp reads it.
  FaultResult run_with(const std::string& fault, const std::string& arguments, const std::string& more = "") {
    const ProgramResult result =
        run(arguments, more + " HOME=$PWD TMPDIR=$PWD AFTERGLOW_FAULT='" + fault +
                           "' AFTERGLOW_FAULT_SEEN=seen LD_PRELOAD='" + library().string() + "'");
    std::int64_t calls = 0;
    std::ifstream(folder_ / "seen", std::ios::binary).read(reinterpret_cast<char*>(&calls), sizeof calls);
    return {result, calls >= std::stoll(fault.substr(fault.find(' ')))};
  }

  void expect_order(const FaultResult& result, const std::string& fault, std::initializer_list<int> codes) {
    EXPECT_THAT(codes, testing::Contains(result.code)) << fault << ": " << result.err;
    EXPECT_TRUE(result.code == 0 || result.err.find("afterglow: ") != std::string::npos) << fault << ": " << result.err;
    EXPECT_THAT(files(".", ".tmp"), testing::IsEmpty()) << fault;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      if (entry.path().extension() != ".safetensors") continue;
      EXPECT_NO_THROW(read_snapshot(entry.path())) << fault;
    }
  }
  static constexpr const char* training =
      "train --recipe small.json --device cpu --threads 2 --no-figures --until 2 --force --out out";
};

TEST_F(Faults, EveryCallThatWritesMayFail) {
  for (const std::string call : {"open", "write", "fsync", "rename"}) {
    bool has_happened = true;
    for (int number = 1; has_happened && number < 100; ++number) {
      const std::string fault = call + " " + std::to_string(number);
      const FaultResult result = run_with(fault, training);
      has_happened = result.has_happened;
      expect_order(result, fault, {0, 1, 3});
      EXPECT_TRUE(has_happened || result.code == 0) << fault;
    }
    EXPECT_FALSE(has_happened);
  }
}

TEST_F(Faults, ADriveWithoutLinksTakesEverythingUnderItsOwnName) {
  for (const int error : {EIO, EINVAL, EPERM, EOPNOTSUPP, ENOSYS, EXDEV, EMLINK, ENOTTY}) {
    const std::string out = "out" + std::to_string(error);
    const std::string line = "train --recipe small.json --device cpu --threads 2 --no-figures --until 2 --out " + out;
    for (int time = 0; time < 2; ++time) {
      const ProgramResult result = without_links(error, line);
      EXPECT_EQ(result.code, 0) << error << ": " << result.err;
    }
    EXPECT_THAT(files(out, ""),
                testing::UnorderedElementsAre("small_seed3_step2.safetensors", "small_seed3_step2_2.safetensors",
                                              "metrics_small_seed3_step2.csv", "metrics_small_seed3_step2_2.csv",
                                              "recipe_small_seed3_step2.json", "recipe_small_seed3_step2_2.json"));
    for (const std::string& name : files(out, ".safetensors")) EXPECT_NO_THROW(read_snapshot(folder_ / out / name));
  }
  const std::string snapshot = "out1/small_seed3_step2.safetensors";
  write("ids.txt", "1 2 3\n");
  for (const std::string& line :
       {"plot spectrum --snapshot " + snapshot + " --svg a.svg --csv a.csv",
        "forward " + snapshot + " --tokens ids.txt --out logits.safetensors",
        "export " + snapshot + " --format npz --out arrays", "eval " + snapshot + " --examples 4 --csv grid.csv",
        std::string("sweep --recipe small.json --set steps=1 --seeds 2 --out sweep")}) {
    const ProgramResult result = without_links(EPERM, line + " --device cpu");
    EXPECT_EQ(result.code, 0) << line << ": " << result.err;
  }
  for (const char* file : {"a.svg", "a.csv", "logits.safetensors", "arrays/model.npz", "grid.csv", "sweep/sweep.csv"})
    EXPECT_TRUE(fs::exists(folder_ / file) && !fs::is_empty(folder_ / file)) << file;
}

TEST_F(Faults, WritersOfOneNameOnADriveWithoutLinksAllKeepTheirFiles) {
  const ProgramResult result =
      run_line("export LD_PRELOAD='" + library().string() + "' AFTERGLOW_NO_LINKS=" + std::to_string(EPERM) +
                   "; for i in 1 2 3 4; do $AFTERGLOW plot training --recipe small.json --steps 2 --device cpu "
                   "--csv a.csv & done; wait",
               folder_.path());
  const std::string content = text_of(folder_ / "a.csv");
  EXPECT_FALSE(content.empty()) << result.err;
  EXPECT_EQ(files(".", ".csv").size(), 4u) << result.err;
  for (const std::string& name : files(".", ".csv")) EXPECT_EQ(text_of(folder_ / name), content) << name;
}

// A name that was claimed and not filled is empty, and nothing takes it for a result.
TEST_F(Faults, AKillOnADriveWithoutLinksLeavesNoHalfFile) {
  const std::string line = "train --recipe small.json --device cpu --threads 2 --no-figures --until 2 --out out";
  for (int number = 1; number <= 4; ++number) {
    const ProgramResult killed =
        without_links(EIO, line, "AFTERGLOW_FAULT='rename " + std::to_string(number) + " kill'");
    EXPECT_EQ(killed.code, 137) << number;
    for (const std::string& name : files("out", ".safetensors")) {
      if (fs::is_empty(folder_ / "out" / name)) {
        EXPECT_EQ(run("train --device cpu --no-figures --resume out/" + name).code, 3);
      } else {
        EXPECT_NO_THROW(read_snapshot(folder_ / "out" / name));
      }
    }
    EXPECT_EQ(without_links(EIO, line).code, 0);
    EXPECT_THAT(files(".", ".tmp"), testing::IsEmpty());
  }
}

TEST_F(Faults, AFolderThatTakesNoNameIsToldBeforeTheTraining) {
  const FaultResult result = run_with("rename 1 on", "train --recipe small.json --device cpu --out out --no-figures",
                                      "AFTERGLOW_NO_LINKS=" + std::to_string(EPERM));
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err,
              testing::AllOf(testing::HasSubstr("cannot write out/"), testing::Not(testing::HasSubstr("parameters"))))
      << "no step was trained";
}

TEST_F(Faults, ADriveThatKnowsNoSyncingIsWrittenTo) {
  for (const int error : {EINVAL, EOPNOTSUPP, ENOSYS, EROFS}) {
    const FaultResult result = run_with("fsync 1 on", training, "AFTERGLOW_FAULT_ERRNO=" + std::to_string(error));
    EXPECT_EQ(result.code, 0) << error << ": " << result.err;
    EXPECT_TRUE(result.has_happened);
  }
}

// The first snapshot fails in its folder and is written to the next best one.
TEST_F(Faults, ASnapshotThatCannotBeWrittenIsKeptElsewhere) {
  const FaultResult result = run_with("rename 2", training);  // the first one tries the folder
  EXPECT_EQ(result.code, 3) << result.err;
  EXPECT_THAT(result.err, testing::HasSubstr("continue with: afterglow train --resume"));
  EXPECT_EQ(read_snapshot(folder_ / "small_seed3_step2.safetensors").step, 2);
}

// From the step on that is kept first, a training never ends without a snapshot.
TEST_F(Faults, MissingMemoryLosesNoTraining) {
  const std::string longer =
      "train --recipe small.json --device cpu --threads 1 --no-figures --until 38 --force --out out";
  bool has_happened = true, was_kept = false;
  for (long number = 3000; has_happened && number < 10'000'000; number += number / 25) {
    fs::remove_all(folder_ / "out");
    const std::string fault = "malloc " + std::to_string(number);
    const FaultResult result = run_with(fault, longer);
    has_happened = result.has_happened;
    const bool is_kept = !files("out", ".safetensors").empty();
    EXPECT_TRUE(is_kept || !was_kept) << fault << ": " << result.err;
    was_kept = was_kept || (is_kept && result.code != 0);  // some allocations of the start can be done without
  }
  EXPECT_TRUE(was_kept);
}

TEST_F(Faults, ThreadsMayBeMissing) {
  const FaultResult result = run_with("thread 1 on", training);
  EXPECT_TRUE(result.has_happened);
  EXPECT_EQ(result.code, 0) << result.err;
}

TEST_F(Faults, RunsSideBySideShareTheThreadsThereAre) {
  const std::string sweep =
      "sweep --recipe small.json --set steps=2 --axis learning_rate=0.001,0.003,0.01 --jobs 3 --device cpu --threads 3";
  EXPECT_EQ(run(sweep + " --out peace").code, 0);
  // Back ends and the second run get theirs, the third run does not.
  for (const std::string number : {"1", "2", "3", "4"}) {
    const FaultResult result = run_with("thread " + number + " on", sweep + " --out on" + number);
    EXPECT_EQ(result.code, 0) << number << ": " << result.err;
    EXPECT_EQ(text_of(folder_ / ("on" + number) / "sweep.csv"), text_of(folder_ / "peace" / "sweep.csv"));
  }
}

TEST_F(Faults, AFolderThatCannotBeListedIsNamedInASentence) {
  std::filesystem::create_directory(folder_ / "out");
  for (int number = 1; number < 8; ++number) {
    const FaultResult result =
        run_with("open " + std::to_string(number) + " on",
                 "table mqar --only attention_16 --seeds 1 --set steps=1 --set batch=1 --device cpu --out out");
    EXPECT_THAT(result.err, testing::Not(testing::HasSubstr("filesystem error"))) << number;
    EXPECT_THAT(result.err, testing::HasSubstr("afterglow: ")) << number;
  }
}

// The library for fonts asked again without end. Where memory ends in the midst of its own reading it dies (139), for
// which the program can do no more than ask for enough before. A program that ends so, or whose unwinding gets no
// memory either, leaves an unfinished file, which the next one removes.
TEST_F(Faults, APageEndsWhereMemoryStaysMissing) {
  bool has_happened = true;
  for (long number = 2000; has_happened && number < 10'000'000; number += number / 8) {
    const std::string fault = "malloc " + std::to_string(number) + " on";
    const FaultResult result = run_with(
        fault, "plot training --recipe small.json --steps 1 --device cpu --threads 1 --pdf a.pdf --png a.png --force");
    has_happened = result.has_happened;
    EXPECT_THAT((std::vector{0, 5, 139}), testing::Contains(result.code)) << fault << ": " << result.err;
    if (result.code != 0)
      run_with("malloc 0", "plot training --recipe small.json --steps 1 --device cpu --csv a.csv --force");
    EXPECT_THAT(files(".", ".tmp"), testing::IsEmpty()) << fault << ", code " << result.code;
  }
  EXPECT_FALSE(has_happened);
}

// What a worker thread or the file system library makes of missing memory ends with the same exit code.
TEST_F(Faults, MissingMemoryIsFiveWhereverItIsMet) {
  EXPECT_EQ(train("--until 1").code, 0);
  write("lesson.md",
        "# Small\nabout: Two steps.\n\n## It learns\nset: preset = tiny ; seed = 7\nrun: 2 steps\nexpect: step == 2\n");
  for (const std::string& work : {std::string("check lesson.md --device cpu --threads 1"),
                                  std::string("info out/small_seed3_step1.safetensors")}) {
    bool has_happened = true;
    for (long number = 400; has_happened && number < 10'000'000; number += number / 12) {
      const FaultResult result = run_with("malloc " + std::to_string(number), work);
      has_happened = result.has_happened;
      expect_order(result, work + ", malloc " + std::to_string(number), {0, 5});
    }
    EXPECT_FALSE(has_happened);
  }
}

TEST_F(Faults, AllocationsMayFailOnceOrFromThenOn) {
  for (const char* how : {"", " on"}) {
    bool has_happened = true;
    for (long number = 1; has_happened && number < 10'000'000; number += 1 + number / 3) {
      const std::string fault = "malloc " + std::to_string(number) + how;
      const FaultResult result = run_with(fault, training);
      has_happened = result.has_happened;
      expect_order(result, fault, {0, 5});
    }
    EXPECT_FALSE(has_happened);
  }
}

}  // namespace
}  // namespace afterglow
