// Whole files with plain system calls: temporary file, fsync and rename, and messages for everything that can go wrong.
#include "core/io/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "core/io/error.h"
#include "core/io/number_text.h"

namespace afterglow {
namespace fs = std::filesystem;
namespace {

using ByteSpan = std::span<const std::byte>;

/// A file descriptor that closes itself, so that an error on the way leaves none open.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  int get() const { return value_; }
  bool valid() const { return value_ >= 0; }

  /// Network file systems report a full disk only here, so the result counts.
  bool close() {
    const int old = std::exchange(value_, -1);
    return old < 0 || ::close(old) == 0;
  }

 private:
  int value_;
};

/// Removes the temporary file unless it was renamed into place.
class TemporaryFile {
 public:
  explicit TemporaryFile(fs::path path) : path_(std::move(path)) {}
  ~TemporaryFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const fs::path& path() const { return path_; }
  void keep() { path_.clear(); }

 private:
  fs::path path_;
};

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

std::string system_text(int error) { return std::generic_category().message(error); }

[[noreturn]] void throw_path_error(int error, const fs::path& path) {
  const std::string head = "cannot write " + path.string() + ": ";
  const std::string folder = folder_of(path).string();
  switch (error) {
    case ENOENT:
      throw Error(ExitCode::bad_input, head + "the folder " + folder + " does not exist; create it or choose another");
    case ENOTDIR:
      throw Error(ExitCode::bad_input,
                  head + "a part of " + folder + " is a file, not a folder; choose another folder");
    case EACCES:
    case EPERM:
      throw Error(ExitCode::bad_input,
                  head + "no permission to write in " + folder + "; choose another folder or change its permissions");
    case EROFS:
      throw Error(ExitCode::bad_input, head + folder + " is on a read-only disk; choose another folder");
    case EISDIR:
      throw Error(ExitCode::bad_input, head + "it is a folder; give the name of a file");
    case ENAMETOOLONG:
      throw Error(ExitCode::bad_input, head + "the name is too long; choose a shorter one");
    default:
      throw Error(ExitCode::failure, head + system_text(error) + "; check the disk or choose another folder");
  }
}

[[noreturn]] void throw_disk_error(int error, const fs::path& path, std::size_t total) {
  const std::string head = "cannot write " + bytes_text(total) + " to " + path.string() + ": ";
  const std::string kept = " (what was there before is unchanged)";
  switch (error) {
    case ENOSPC:
      throw Error(ExitCode::failure, head + "the disk is full; free some space or choose another folder" + kept);
    case EDQUOT:
      throw Error(ExitCode::failure,
                  head + "your share of the disk is used up; delete something or choose another folder" + kept);
    case EFBIG:
      throw Error(
          ExitCode::failure,
          head + "the system limits the size of files to less; raise the limit (ulimit -f) or write less" + kept);
    default:
      throw Error(ExitCode::failure, head + system_text(error) + "; check the disk or choose another folder" + kept);
  }
}

/// Writes everything, also when the system takes it in parts or is interrupted. Returns 0 or errno.
int write_all(int descriptor, std::span<const ByteSpan> pieces) {
  for (ByteSpan rest : pieces) {
    while (!rest.empty()) {
      const ssize_t written = ::write(descriptor, rest.data(), std::min(rest.size(), std::size_t{1} << 30));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return errno;
      rest = rest.subspan(static_cast<std::size_t>(written));
    }
  }
  return 0;
}

/// The name is short and independent of the target's, so that the longest legal file name still works.
Descriptor create_temporary(const fs::path& folder, mode_t mode, fs::path& temporary) {
  static std::atomic<unsigned> counter{0};
  for (;;) {
    temporary = folder / (".afterglow-" + std::to_string(::getpid()) + "-" + std::to_string(counter++) + ".tmp");
    const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (descriptor >= 0 || errno != EEXIST) return Descriptor(descriptor);
  }
}

/// Makes the rename itself durable. Folders that cannot be opened or synced are no reason to call the written file
/// lost.
void sync_folder(const fs::path& folder) {
  const Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.valid()) ::fsync(descriptor.get());
}

void write_directly(const fs::path& path, std::span<const ByteSpan> pieces, std::size_t total) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.valid()) throw_path_error(errno, path);
  if (const int error = write_all(file.get(), pieces)) throw_disk_error(error, path, total);
  if (!file.close()) throw_disk_error(errno, path, total);
}

void replace_file(const fs::path& target, mode_t mode, bool existed, std::span<const ByteSpan> pieces,
                  std::size_t total) {
  const fs::path folder = folder_of(target);
  fs::path name;
  Descriptor file = create_temporary(folder, mode, name);
  if (!file.valid()) throw_path_error(errno, target);
  TemporaryFile temporary(name);
  if (existed) ::fchmod(file.get(), mode);  // the umask must not narrow what the old file allowed
  if (const int error = write_all(file.get(), pieces)) throw_disk_error(error, target, total);
  if (::fsync(file.get()) != 0) throw_disk_error(errno, target, total);
  if (!file.close()) throw_disk_error(errno, target, total);
  if (::rename(temporary.path().c_str(), target.c_str()) != 0) throw_path_error(errno, target);
  temporary.keep();
  sync_folder(folder);
}

[[noreturn]] void throw_too_large(const fs::path& path, std::size_t max_bytes) {
  throw Error(ExitCode::bad_input, "cannot read " + path.string() + ": it holds more than the " +
                                       bytes_text(max_bytes) + " that are read here; choose a smaller file");
}

Descriptor open_for_reading(const fs::path& path, struct stat& info) {
  const std::string head = "cannot read " + path.string() + ": ";
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid() && (errno == ENOENT || errno == ENOTDIR)) {
    throw Error(ExitCode::bad_input, head + "there is no such file; check the name and the folder");
  }
  if (!file.valid()) throw Error(ExitCode::bad_input, head + system_text(errno) + "; check its permissions");
  if (::fstat(file.get(), &info) != 0) throw Error(ExitCode::bad_input, head + system_text(errno) + "; check the disk");
  if (S_ISDIR(info.st_mode)) throw Error(ExitCode::bad_input, head + "it is a folder; give the name of a file");
  return file;
}

}  // namespace

void refuse_nul(const fs::path& path) {
  std::string shown = path.string();
  if (shown.find('\0') == std::string::npos) return;
  for (std::size_t at = shown.find('\0'); at != std::string::npos; at = shown.find('\0', at))
    shown.replace(at, 1, "\\0");
  throw Error(ExitCode::bad_input, "cannot write " + shown + ": the name holds a NUL character; choose another name");
}

void write_file_atomically(const fs::path& path, std::span<const ByteSpan> pieces) {
  refuse_nul(path);
  std::size_t total = 0;
  for (const ByteSpan piece : pieces) total += piece.size();
  if (path.empty()) throw Error(ExitCode::bad_input, "cannot write: no file name was given; give one");
  if (!path.has_filename()) throw_path_error(EISDIR, path);
  struct stat info {};
  const bool exists = ::stat(path.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) throw_path_error(EISDIR, path);
  if (exists && !S_ISREG(info.st_mode)) return write_directly(path, pieces, total);
  std::error_code ignored;
  const fs::path resolved = exists ? fs::canonical(path, ignored) : path;
  replace_file(resolved.empty() ? path : resolved, exists ? info.st_mode & 07777 : 0666, exists, pieces, total);
}

void write_file_atomically(const fs::path& path, ByteSpan bytes) {
  write_file_atomically(path, std::span<const ByteSpan>(&bytes, 1));
}

void write_file_atomically(const fs::path& path, std::string_view bytes) {
  write_file_atomically(path, std::as_bytes(std::span(bytes.data(), bytes.size())));
}

std::string read_file(const fs::path& path, std::size_t max_bytes) {
  struct stat info {};
  const Descriptor file = open_for_reading(path, info);
  const std::size_t size = S_ISREG(info.st_mode) ? static_cast<std::size_t>(info.st_size) : 0;
  if (size > max_bytes) throw_too_large(path, max_bytes);
  std::string content;
  content.reserve(size);
  std::array<char, 65536> block;
  for (;;) {  // to the real end: pipes have no size, and a file may grow while it is read
    const ssize_t count = ::read(file.get(), block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      throw Error(ExitCode::bad_input, "cannot read " + path.string() + ": " + system_text(errno) + "; check the disk");
    }
    if (count == 0) return content;
    if (static_cast<std::size_t>(count) > max_bytes - content.size()) throw_too_large(path, max_bytes);
    content.append(block.data(), static_cast<std::size_t>(count));
  }
}

fs::path free_path(const fs::path& path) {
  refuse_nul(path);         // every candidate would be the same file
  std::error_code ignored;  // a path that cannot be looked at is reported by the writer, with advice
  fs::path candidate = path;
  for (int number = 2; fs::exists(fs::symlink_status(candidate, ignored)); ++number) {
    candidate = path.parent_path() / (path.stem().string() + "_" + std::to_string(number) + path.extension().string());
  }
  return candidate;
}

}  // namespace afterglow
