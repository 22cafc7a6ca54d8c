// A folder that tells of its changes.
#include "core/io/folder_watch.h"

#include "tests/core/io/temporary_folder.h"

namespace afterglow {
namespace {

class FolderWatches : public TemporaryFolder {
 protected:
  /// Whether the folder tells of something , and then only once.
  bool is_told() const {
    const bool is_told = watch_.has_changed();
    return is_told && !watch_.has_changed();
  }
  void append(const std::string& name, const std::string& text) const {
    std::ofstream(file(name), std::ios::app) << text;
  }
  FolderWatch watch_;
};

TEST_F(FolderWatches, TellOfFilesThatComeGrowMoveAndGo) {
  watch_.add(folder_);
  EXPECT_FALSE(is_told());
  append("log", "begun");
  EXPECT_TRUE(is_told());
  append("log", "grown");
  EXPECT_TRUE(is_told());
  std::filesystem::rename(file("log"), file("moved"));
  EXPECT_TRUE(is_told());
  std::filesystem::remove(file("moved"));
  EXPECT_TRUE(is_told());
  std::filesystem::remove(folder_);
  EXPECT_TRUE(is_told());
  std::filesystem::create_directories(folder_);
  watch_.add(folder_);
  append("log", "again");
  EXPECT_TRUE(is_told()) << "of a folder that was made again";
}

TEST_F(FolderWatches, OfAMissingFolderAreQuiet) {
  watch_.add(file("nothing"));
  EXPECT_FALSE(is_told());
}

TEST_F(FolderWatches, ReadAllOfManyChangesAtOnce) {
  watch_.add(folder_);
  for (int i = 0; i < 500; ++i) append(std::to_string(i), "a line");
  EXPECT_TRUE(is_told());
}

}  // namespace
}  // namespace afterglow
