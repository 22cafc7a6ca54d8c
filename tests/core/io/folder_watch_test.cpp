// A folder that tells of its changes.
#include "core/io/folder_watch.h"

#include <condition_variable>
#include <mutex>

#include "tests/core/io/temporary_folder.h"

namespace afterglow {
namespace {

class FolderWatches : public TemporaryFolder {
 protected:
  /// Whether the folder tells of something within so many seconds; waits until it is quiet again.
  bool is_told(double seconds = 30) {
    std::unique_lock lock(mutex_);
    const auto wait = [&](double most) {
      count_ = 0;
      return told_.wait_for(lock, std::chrono::duration<double>(most), [this] { return count_ > 0; });
    };
    if (count_ == 0 && !wait(seconds)) return false;
    while (wait(0.2)) {
    }
    return true;
  }
  void append(const std::string& name, const std::string& text) const {
    std::ofstream(file(name), std::ios::app) << text;
  }
  std::mutex mutex_;
  std::condition_variable told_;
  int count_ = 0;
  FolderWatch watch_{[this] {
    const std::lock_guard lock(mutex_);
    ++count_;
    told_.notify_all();
  }};
};

TEST_F(FolderWatches, TellOfFilesThatComeGrowMoveAndGo) {
  watch_.add(folder_);
  EXPECT_FALSE(is_told(0.2));
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

TEST_F(FolderWatches, OfAMissingFolderAreQuietAndEnd) {
  watch_.add(file("nothing"));
  EXPECT_FALSE(is_told(0.1));
}

TEST_F(FolderWatches, TellSeldomOfAFastWriter) {
  watch_.add(folder_);
  std::ofstream log(file("log"));
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  while (std::chrono::steady_clock::now() < end) log << "a line" << std::endl;
  const std::lock_guard lock(mutex_);
  EXPECT_GT(count_, 0);
  EXPECT_LT(count_, 40);
}

}  // namespace
}  // namespace afterglow
