// Claims by locks of files.
#include "core/io/claim.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "core/io/error.h"

namespace afterglow {

std::optional<Claim> Claim::take(const std::filesystem::path& path) {
  for (;;) {
    Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (!file.valid())
      throw Error(ExitCode::bad_input, "cannot write " + path.string() + ": " + std::generic_category().message(errno) +
                                           "; choose another folder");
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return std::nullopt;
    // Its last holder may have removed it in between; a lock of a file without a name keeps no process out.
    struct stat opened {};
    struct stat named {};
    const bool is_there = ::fstat(file.get(), &opened) == 0 && ::stat(path.c_str(), &named) == 0;
    if (is_there && opened.st_ino == named.st_ino && opened.st_dev == named.st_dev) return Claim(path, std::move(file));
  }
}

Claim::~Claim() {
  if (file_.valid()) ::unlink(path_.c_str());
}

}  // namespace afterglow
