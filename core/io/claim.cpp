// Claims by file locks.
#include "core/io/claim.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <system_error>

#include "core/io/error.h"
#include "core/io/temporary_file.h"

namespace afterglow {

struct Claim::Held {
  explicit Held(std::filesystem::path of) : path(std::move(of)) {}
  ~Held() {
    const std::lock_guard lock(of_all);
    if (!file.valid()) return;
    (before ? before->after : first) = after;
    if (after) after->before = before;
    ::unlink(path.c_str());
  }
  void enter(Descriptor locked) {
    const std::lock_guard lock(of_all);
    file = std::move(locked);
    after = first;
    if (first) first->before = this;
    first = this;
  }

  std::filesystem::path path;
  Descriptor file;  // valid once it is in the list
  Held *before = nullptr, *after = nullptr;

  static constinit std::mutex of_all;  // of the list
  static constinit Held* first;
};
constinit std::mutex Claim::Held::of_all;
constinit Claim::Held* Claim::Held::first = nullptr;

std::optional<Claim> Claim::take(const std::filesystem::path& path) {
  auto held = std::make_unique<Held>(path);
  for (;;) {
    Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (!file.valid())
      throw BadInput("cannot write ", path.string(), ": ", std::generic_category().message(errno),
                     "; choose another folder");
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return std::nullopt;
    // Its last holder may have removed the file in the meantime; the lock of a removed file excludes no other process.
    struct stat opened {};
    struct stat named {};
    const bool is_there = ::fstat(file.get(), &opened) == 0 && ::stat(path.c_str(), &named) == 0;
    if (!is_there || opened.st_ino != named.st_ino || opened.st_dev != named.st_dev) continue;
    held->enter(std::move(file));
    return Claim(std::move(held));
  }
}

Claim::Claim(std::unique_ptr<Held> held) : held_(std::move(held)) {}
Claim::Claim(Claim&& other) noexcept = default;
Claim::~Claim() = default;

void Claim::remove_all() noexcept {
  if (!Held::of_all.try_lock()) return;  // a claim that another thread takes or releases now may stay
  for (const Held* held = Held::first; held; held = held->after) ::unlink(held->path.c_str());
  Held::of_all.unlock();
}

}  // namespace afterglow
