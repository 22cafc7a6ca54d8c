// A thread that sleeps until inotify has something to read, or an eventfd says that it is over.
#include "core/io/folder_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>

namespace afterglow {

FolderWatch::FolderWatch(std::function<void()> changed)
    : events_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)), stop_(::eventfd(0, EFD_CLOEXEC)) {
  if (events_ >= 0 && stop_ >= 0) thread_ = std::thread([this, changed = std::move(changed)] { listen(changed); });
}

FolderWatch::~FolderWatch() {
  const std::uint64_t one = 1;
  if (thread_.joinable() && ::write(stop_, &one, sizeof(one)) == sizeof(one)) thread_.join();
  for (const int file : {events_, stop_}) {
    if (file >= 0) ::close(file);
  }
}

void FolderWatch::add(const std::filesystem::path& folder) const {
  constexpr std::uint32_t changes = IN_CREATE | IN_MODIFY | IN_CLOSE_WRITE | IN_MOVE | IN_DELETE | IN_DELETE_SELF;
  if (events_ >= 0) ::inotify_add_watch(events_, folder.c_str(), changes | IN_ONLYDIR);
}

void FolderWatch::listen(const std::function<void()>& changed) const {
  constexpr int rest_ms = 20;
  std::array<char, 4096> events{};
  std::array<pollfd, 2> awaited{{{events_, POLLIN, 0}, {stop_, POLLIN, 0}}};
  while (::poll(awaited.data(), awaited.size(), -1) >= 0 || errno == EINTR) {
    if (awaited[1].revents != 0) return;
    if ((awaited[0].revents & POLLIN) == 0) continue;
    while (::read(events_, events.data(), events.size()) > 0) {
    }
    changed();
    ::poll(&awaited[1], 1, rest_ms);
  }
}

}  // namespace afterglow
