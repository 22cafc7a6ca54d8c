// Reads what inotify has to say, and forgets what it was.
#include "core/io/folder_watch.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <array>

namespace afterglow {

FolderWatch::FolderWatch() : events_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {}

FolderWatch::~FolderWatch() {
  if (events_ >= 0) ::close(events_);
}

void FolderWatch::add(const std::filesystem::path& folder) const {
  constexpr std::uint32_t changes = IN_CREATE | IN_MODIFY | IN_CLOSE_WRITE | IN_MOVE | IN_DELETE | IN_DELETE_SELF;
  if (events_ >= 0) ::inotify_add_watch(events_, folder.c_str(), changes | IN_ONLYDIR);
}

bool FolderWatch::has_changed() const {
  std::array<char, 4096> events{};
  bool has_changed = false;
  while (events_ >= 0 && ::read(events_, events.data(), events.size()) > 0) has_changed = true;
  return has_changed;
}

}  // namespace afterglow
