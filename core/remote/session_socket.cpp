// Unix sockets in the user's runtime folder. A logout empties that, and a session outlives it: then it listens in a
// folder below /tmp, where the locks are that keep two sessions from one name. One that does not answer was left by a
// session that was killed.
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
#include <set>
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

/// Whether only the user may enter it, so that what is in it is the user's alone.
bool is_private(const fs::path& folder) {
  struct stat info {};
  const bool is_own = ::lstat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::getuid();
  return is_own && (info.st_mode & 077) == 0;
}

/// The folder outlives a login.
fs::path lasting_folder() {
  const fs::path folder = fs::temp_directory_path() / ("afterglow-" + std::to_string(::getuid()));
  ensure_folder(folder);
  if (!is_private(folder)) refuse(folder, "others may enter this folder; remove it");
  return folder;
}

/// Where sessions listen; the first one is preferred.
std::vector<fs::path> session_folders() {
  std::vector<fs::path> folders{lasting_folder()};
  const fs::path runtime = process_environment()("XDG_RUNTIME_DIR").value_or("");
  if (runtime.is_absolute() && is_private(runtime)) folders.insert(folders.begin(), runtime / "afterglow");
  return folders;
}

sockaddr_un address_of(const fs::path& folder, const std::string& name) {
  const auto fits = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_'; };
  if (name.empty() || name.size() > 40 || !std::ranges::all_of(name, fits))
    throw UsageError(in_quotes(name) + " is no name of a session: letters, digits, - and _, at most 40");
  const fs::path path = folder / (name + ".sock");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.native().size() >= sizeof address.sun_path) refuse(path, "this name is too long for a socket");
  std::memcpy(address.sun_path, path.c_str(), path.native().size());
  return address;
}

}  // namespace

std::set<std::string> session_names() {
  std::set<std::string> names;
  for (const fs::path& folder : session_folders()) {
    std::error_code missing;
    for (const auto& entry : fs::directory_iterator(folder, missing)) {
      if (entry.path().extension() == ".sock") names.insert(entry.path().stem().string());
    }
  }
  return names;
}

Descriptor connect_to_session(const std::string& name) {
  Descriptor socket;
  for (const fs::path& folder : session_folders()) {
    const sockaddr_un address = address_of(folder, name);
    socket = Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) break;
    socket.close();
  }
  return socket;
}

SessionSocket::SessionSocket(std::string name) : name_(std::move(name)) {
  const std::string lock = address_of(lasting_folder(), name_).sun_path + std::string(".lock");
  lock_ = Descriptor(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0)
    throw Error(ExitCode::failure, "a session " + in_quotes(name_) + " runs; `afterglow session --stop " + name_ + "`");
  renewed();
}

const Descriptor& SessionSocket::renewed() {
  if (socket_.valid() && ::access(path_.c_str(), F_OK) == 0) return socket_;
  const fs::path folder = session_folders().front();
  ensure_folder(folder);
  const sockaddr_un address = address_of(folder, name_);
  path_ = address.sun_path;
  socket_ = Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ::unlink(path_.c_str());
  if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::chmod(path_.c_str(), 0600) != 0 || ::listen(socket_.get(), 8) != 0)
    refuse(path_, std::generic_category().message(errno));
  return socket_;
}

}  // namespace afterglow
