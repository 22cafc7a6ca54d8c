// What closed windows keep: bounded, the newest first, each moment once.
#include "core/engine/session/kept_runs.h"

#include <gmock/gmock.h>

#include "core/recipe/recipe.h"
#include "tests/core/io/temporary_folder.h"

namespace afterglow {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

class KeptRuns : public TemporaryFolder {
 protected:
  static Snapshot snapshot(std::int64_t step, std::uint64_t seed) {
    Snapshot made{"test", parse_recipe(find_preset("tiny").text, "tiny"), step, "00ff" + std::to_string(step), {}};
    made.recipe.seed = seed;
    made.file.metadata = {{"step", std::to_string(step)}, {"afterglow.recipe", to_json(made.recipe).dump()}};
    return made;
  }
  /// Each a minute older than the next, whatever the clock of the disk resolves.
  void keep(std::int64_t step, std::uint64_t seed) {
    for (const KeptRun& run : kept_runs(folder_))
      fs::last_write_time(run.path, fs::last_write_time(run.path) - std::chrono::minutes(1));
    keep_run(folder_, snapshot(step, seed));
  }
  std::vector<std::string> labels() const {
    std::vector<std::string> all;
    for (const KeptRun& run : kept_runs(folder_)) all.push_back(run.label);
    return all;
  }
};

TEST_F(KeptRuns, TheNewestComeFirstAndTheOldestGo) {
  EXPECT_THAT(labels(), ElementsAre());
  for (const int step : {1, 2, 3}) keep(step, 10U - step);
  EXPECT_THAT(labels(), ElementsAre("tiny, step 3", "tiny, step 2", "tiny, step 1"));
  for (const int step : {4, 5, 6, 7}) keep(step, 10U - step);
  EXPECT_THAT(labels(), ElementsAre("tiny, step 7", "tiny, step 6", "tiny, step 5", "tiny, step 4", "tiny, step 3"));
}

TEST_F(KeptRuns, EarlierMomentsOfTheSameRunGoAndAllOthersStay) {
  put("notes.txt", "mine");
  keep(500, 1);
  for (const int step : {100, 300, 300, 200}) keep(step, 7);
  EXPECT_THAT(labels(), ElementsAre("tiny, step 200", "tiny, step 300", "tiny, step 500"))
      << "what was trained further is no earlier moment";
  EXPECT_EQ(content_of(file("notes.txt")), "mine");
}

TEST_F(KeptRuns, MoreThanTheBytesLeavesTheNewestAlone) {
  const fs::path large = put("large_seed1_step1_0.safetensors", "");
  fs::resize_file(large, std::uintmax_t{3} << 30);  // with a hole, so that it takes no room
  EXPECT_EQ(kept_runs(folder_).size(), 1u);
  keep(2, 7);
  EXPECT_THAT(labels(), ElementsAre("tiny, step 2"));
}

TEST_F(KeptRuns, AFolderThatIsMissingHoldsNone) { EXPECT_TRUE(kept_runs(file("none")).empty()); }

}  // namespace
}  // namespace afterglow
