// Sweeps by the program: several processes in one folder, killed and interrupted at will, leave the bytes of one that
// was left in peace.
#include <gmock/gmock.h>

#include <algorithm>

#include "core/io/csv.h"
#include "tests/app/program_test.h"
#include "tests/support/csv_file.h"

namespace afterglow {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Sweep : public ProgramTest {
 protected:
  /// Eight runs of some tenths of a second.
  const std::string sweep_ =
      "sweep --recipe small.json --device cpu --threads 1 --quiet --set steps=150 "
      "--axis learning_rate=log:1e-3:1e-2:4 --axis layers.1.ska.ridge=0.001,0.1 --out ";
  std::string csv(const std::string& folder) const { return text_of(folder_ / (folder + "/sweep.csv")); }
};

TEST_F(Sweep, WritesARowForEachRunAndItsFigures) {
  const json result = parsed(run(sweep_ + "map --json --figure accuracy --figure loss"));
  ASSERT_EQ(result["runs"].size(), 8u);
  const CsvTable table = read_csv(folder_ / "map/sweep.csv");
  EXPECT_EQ(table.rows(), 8u);
  EXPECT_EQ(table.numbers("layers.1.ska.ridge")[1], 0.1);
  EXPECT_EQ(result["runs"][1]["learning_rate"], "0.001");
  for (const char* figure : {"sweep_accuracy.svg", "sweep_loss.svg"})
    EXPECT_TRUE(std::filesystem::exists(folder_ / "map" / figure)) << figure;
  const auto seen = csv("map");
  EXPECT_EQ(parsed(run(sweep_ + "map --json"))["runs"], result["runs"]) << "nothing is trained again";
  EXPECT_EQ(csv("map"), seen);
  EXPECT_EQ(parsed(run("train --recipe small.json --device cpu --threads 2 --set steps=150 --set learning_rate=0.001 "
                       "--set layers.1.ska.ridge=0.1 --no-figures --json --quiet"))["checksum"],
            result["runs"][1]["checksum"])
      << "the bits that the run has alone";
}

TEST_F(Sweep, ThreeProcessesOneKilledLeaveTheBytesOfOneInPeace) {
  ASSERT_EQ(run(sweep_ + "alone").code, 0);
  const ProgramResult result =
      run_line("$AFTERGLOW " + sweep_ + "shared & first=$!; $AFTERGLOW " + sweep_ +
                   "shared & second=$!; "
                   "$AFTERGLOW " +
                   sweep_ +
                   "shared & third=$!; "
                   "while ! ls shared/*.claim >/dev/null 2>&1; do sleep 0.01; done; sleep 0.2; kill -9 $second; "
                   "$AFTERGLOW " +
                   sweep_ + "shared && wait $first && wait $third",
               folder_.path());
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(csv("shared"), csv("alone"));
  EXPECT_EQ(files("shared", ".claim"), std::vector<std::string>());
  EXPECT_EQ(files("shared", ".json").size(), 8u);
}

TEST_F(Sweep, ShardsTogetherMakeTheWholeWhicheverEndsLast) {
  ASSERT_EQ(run(sweep_ + "alone").code, 0);
  const ProgramResult second = run(sweep_ + "shared --shard 2/3");
  EXPECT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(read_csv(folder_ / "shared/sweep.csv").rows(), 3u);
  ASSERT_EQ(
      run_line("$AFTERGLOW " + sweep_ + "shared --shard 3/3 & $AFTERGLOW " + sweep_ + "shared --shard 1/3; wait $!",
               folder_.path())
          .code,
      0);
  EXPECT_EQ(csv("shared"), csv("alone"));
  EXPECT_EQ(run(sweep_ + "shared --shard 4/3").code, 2);
  EXPECT_EQ(run(sweep_ + "shared --shard half").code, 2);
}

// The signals that schedulers send before they end a program; here as soon as a run has begun.
TEST_F(Sweep, ASignalSavesSnapshotsAndAsksToBeRunAgain) {
  ASSERT_EQ(run(sweep_ + "alone").code, 0);
  for (const std::string signal : {"USR1", "TERM"}) {
    const ProgramResult stopped =
        run_line("$AFTERGLOW " + sweep_ + signal + " --save-steps 5 & while ! ls " + signal +
                     "/*.safetensors >/dev/null 2>&1; do sleep 0.01; done; kill -" + signal + " $!; wait $!",
                 folder_.path());
    EXPECT_EQ(stopped.code, 130) << stopped.err;
    EXPECT_THAT(stopped.err, HasSubstr("run the same command again"));
    EXPECT_FALSE(files(signal, ".safetensors").empty());
    EXPECT_EQ(run(sweep_ + signal).code, 0);
    EXPECT_EQ(csv(signal), csv("alone"));
    EXPECT_EQ(files(signal, ".safetensors").size(), 0u);
  }
}

TEST_F(Sweep, ListPrintsCommandsThatDoTheWork) {
  ASSERT_EQ(run(sweep_ + "alone").code, 0);
  const ProgramResult list = run(sweep_ + "listed --list");
  ASSERT_EQ(list.code, 0) << list.err;
  EXPECT_EQ(std::ranges::count(list.out, '\n'), 8);
  EXPECT_THAT(list.out, AllOf(HasSubstr("--shard 8/8"), Not(HasSubstr("--list"))));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "listed"));
  write("all.sh", "afterglow() { \"$AFTERGLOW\" \"$@\"; }\n" + list.out);
  EXPECT_EQ(run_line(". ./all.sh", folder_.path()).code, 0);
  EXPECT_EQ(csv("listed"), csv("alone"));
}

TEST_F(Sweep, TakesNoFolderOfOthers) {
  std::filesystem::create_directory(folder_ / "mine");
  write("mine/sweep.csv", "precious");
  EXPECT_EQ(run(sweep_ + "mine").code, 3);
  EXPECT_EQ(text_of(folder_ / "mine/sweep.csv"), "precious");
}

TEST_F(Sweep, SaysWhatIsWrong) {
  const auto refusal = [&](const std::string& arguments) {
    const ProgramResult result = run("sweep --recipe small.json --device cpu --out none " + arguments);
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "none"));
    return result.err;
  };
  EXPECT_THAT(refusal(""), HasSubstr("--axis"));
  EXPECT_THAT(refusal("--axis learning_rte=1,2"), HasSubstr("'learning_rate'"));
  EXPECT_THAT(refusal("--axis batch="), HasSubstr("a value is missing"));
  EXPECT_THAT(refusal("--seeds 2 --figure acuracy"), HasSubstr("'accuracy'"));
}

TEST_F(Sweep, TablesAreShardedAndInterruptedLikeSweeps) {
  const std::string table =
      "table mqar --quiet --device cpu --threads 1 --only attention_16 --seeds 3 --set steps=3 --set batch=2 "
      "--out ";
  ASSERT_EQ(run(table + "alone").code, 0);
  for (const char* shard : {"3/3", "1/3", "2/3"}) EXPECT_EQ(run(table + "shared --shard " + shard).code, 0);
  EXPECT_EQ(text_of(folder_ / "shared/table_mqar.csv"), text_of(folder_ / "alone/table_mqar.csv"));
  EXPECT_EQ(text_of(folder_ / "shared/table_mqar_0.svg"), text_of(folder_ / "alone/table_mqar_0.svg"));
}

}  // namespace
}  // namespace afterglow
