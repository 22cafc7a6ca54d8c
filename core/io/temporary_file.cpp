// Names, locks and the removal of temporary files.
#include "core/io/temporary_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <set>
#include <string>
#include <system_error>
#include <utility>

namespace afterglow {
namespace fs = std::filesystem;
namespace {

constexpr const char *prefix = ".afterglow-", *suffix = ".tmp";

bool is_named_here(int descriptor) {
  struct stat info {};
  return ::fstat(descriptor, &info) == 0 && info.st_nlink > 0;
}

/// A process that holds the lock still writes the file. On a file system without locks the file stays.
void remove_if_stale(const fs::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (file.valid() && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(path.c_str());
}

}  // namespace

bool is_temporary(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with(prefix) && name.ends_with(suffix);
}

Descriptor::Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this == &other) return *this;
  close();
  value_ = std::exchange(other.value_, -1);
  return *this;
}

bool Descriptor::close() {
  const int old = std::exchange(value_, -1);
  return old < 0 || ::close(old) == 0;
}

TemporaryFile::TemporaryFile(const fs::path& folder, mode_t mode) {
  while (!create(folder, mode)) {
  }
}

/// False where another program removed it as stale before it was locked.
bool TemporaryFile::create(const fs::path& folder, mode_t mode) {
  static std::atomic<unsigned> counter{0};
  // The name is short and independent of the target's, so that the longest legal file name still works.
  path_ = folder / (prefix + std::to_string(::getpid()) + "-" + std::to_string(counter++) + suffix);
  file_ = Descriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!file_.valid()) return errno != EEXIST;
  ::flock(file_.get(), LOCK_EX | LOCK_NB);
  if (!is_named_here(file_.get())) return false;
  lock_ = Descriptor(::fcntl(file_.get(), F_DUPFD_CLOEXEC, 0));
  return true;
}

TemporaryFile::~TemporaryFile() {
  if (lock_.valid()) ::unlink(path_.c_str());  // a renamed file has no temporary name left
}

void remove_stale_temporaries(const fs::path& folder) {
  static std::mutex mutex;
  static std::set<fs::path> seen;
  std::error_code failed;
  const fs::path place = fs::canonical(folder, failed);
  const std::lock_guard lock(mutex);
  if (failed || !seen.insert(place).second) return;
  for (fs::directory_iterator entry(place, failed); !failed && entry != fs::directory_iterator();
       entry.increment(failed)) {
    if (is_temporary(entry->path())) remove_if_stale(entry->path());
  }
}

}  // namespace afterglow
