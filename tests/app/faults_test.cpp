// Calls of the system fail one after the other: the program ends with a documented code and a sentence, leaves whole
// files and no others, and goes on where it can.
#include <gmock/gmock.h>

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
  /// `fault` as tests/preload/faults.cpp reads it.
  FaultResult run_with(const std::string& fault, const std::string& arguments) {
    const fs::path library = build_folder() / "lib/libafterglow_faults.so";
    const ProgramResult result =
        run(arguments, "HOME=$PWD TMPDIR=$PWD AFTERGLOW_FAULT='" + fault + "' AFTERGLOW_FAULT_SEEN=seen LD_PRELOAD='" +
                           library.string() + "'");
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

// The first snapshot fails in its folder and is written to the next best one.
TEST_F(Faults, ASnapshotThatCannotBeWrittenIsKeptElsewhere) {
  const FaultResult result = run_with("rename 1", training);
  EXPECT_EQ(result.code, 3) << result.err;
  EXPECT_THAT(result.err, testing::HasSubstr("go on with: afterglow train --resume"));
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
// memory either, leaves the file that was on its way, which the next one removes.
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

// What a worker thread or the file system library makes of missing memory is told by the same exit code.
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
