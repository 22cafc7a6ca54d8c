// Unix sockets in /tmp/afterglow-UID, as tmux has them, because a logout empties the user's runtime folder. One that
// does not answer was left by a session that was killed.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "core/io/error.h"
#include "core/io/folders.h"
#include "core/io/wording.h"
#include "core/remote/remote.h"

namespace afterglow {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void refuse(const fs::path& path, const std::string& what) {
  throw Error(ExitCode::failure, path.string() + ": " + what);
}

/// Only the user may enter it, so the sockets are the user's alone.
fs::path sessions_folder() {
  const fs::path folder = fs::temp_directory_path() / ("afterglow-" + std::to_string(::getuid()));
  ensure_folder(folder);
  struct stat info {};
  const bool is_own = ::lstat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::getuid();
  if (!is_own || (info.st_mode & 077) != 0) refuse(folder, "others may enter this folder; remove it");
  return folder;
}

sockaddr_un address_of(const std::string& name) {
  const auto fits = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_'; };
  if (name.empty() || name.size() > 40 || !std::ranges::all_of(name, fits))
    throw UsageError(in_quotes(name) + " is no name of a session: letters, digits, - and _, at most 40");
  const fs::path path = sessions_folder() / (name + ".sock");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.native().size() >= sizeof address.sun_path) refuse(path, "this name is too long for a socket");
  std::memcpy(address.sun_path, path.c_str(), path.native().size());
  return address;
}

}  // namespace

std::vector<std::string> session_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(sessions_folder())) {
    if (entry.path().extension() == ".sock") names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

Descriptor connect_to_session(const std::string& name) {
  const sockaddr_un address = address_of(name);
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) socket.close();
  return socket;
}

Descriptor listen_for_windows(const std::string& name) {
  const sockaddr_un address = address_of(name);
  const std::string lock_path = address.sun_path + std::string(".lock");
  static Descriptor lock;  // until the process ends: of two that begin at once, one listens
  lock = Descriptor(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
    throw Error(ExitCode::failure, "a session " + in_quotes(name) + " runs; `afterglow session --stop " + name + "`");
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ::unlink(address.sun_path);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::chmod(address.sun_path, 0600) != 0 || ::listen(socket.get(), 8) != 0)
    refuse(address.sun_path, std::generic_category().message(errno));
  return socket;
}

}  // namespace afterglow
