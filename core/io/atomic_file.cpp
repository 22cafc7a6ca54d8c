// Whole files with plain system calls: temporary file, fsync and rename, and messages for all failures.
#include "core/io/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <optional>
#include <system_error>

#include "core/io/error.h"
#include "core/io/number_text.h"
#include "core/io/temporary_file.h"

namespace afterglow {
namespace fs = std::filesystem;
namespace {

using ByteSpan = std::span<const std::byte>;

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

std::string system_text(int error) { return std::generic_category().message(error); }

/// The advice for an error of the system; without an own sentence the system's.
using Advice = std::map<int, std::string>;

[[noreturn]] void throw_path_error(int error, const fs::path& path) {
  const std::string head = "cannot write " + path.string() + ": ", folder = folder_of(path).string();
  const std::string no_permission =
      "no permission to write in " + folder + "; choose another folder or change its permissions";
  const Advice advice{{ENOENT, "the folder " + folder + " does not exist; create it or choose another"},
                      {ENOTDIR, "a part of " + folder + " is a file, not a folder; choose another folder"},
                      {EACCES, no_permission},
                      {EPERM, no_permission},
                      {EROFS, folder + " is on a read-only disk; choose another folder"},
                      {EISDIR, "it is a folder; give the name of a file"},
                      {ENXIO, "it is a pipe that nothing reads; give the name of a file"},
                      {ENAMETOOLONG, "the name is too long; choose a shorter one"}};
  if (const auto known = advice.find(error); known != advice.end()) throw BadInput(head + known->second);
  throw Error(ExitCode::failure, head, system_text(error), "; check the disk or choose another folder");
}

[[noreturn]] void throw_disk_error(int error, const fs::path& path, std::size_t total) {
  static const Advice advice{
      {ENOSPC, "the disk is full; free some space or choose another folder"},
      {EDQUOT, "your share of the disk is used up; delete something or choose another folder"},
      {EFBIG, "the system limits the size of files to less; raise the limit (ulimit -f) or write less"}};
  const auto known = advice.find(error);
  throw Error(ExitCode::failure, "cannot write ", bytes_text(static_cast<std::int64_t>(total)), " to ", path.string(),
              ": ",
              known != advice.end() ? known->second : system_text(error) + "; check the disk or choose another folder",
              " (what was there before is unchanged)");
}

/// Writes everything, also after partial or interrupted writes. Returns 0 or errno.
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

/// Makes the rename durable. A folder that cannot be opened or synced is not an error, because the file is written.
void sync_folder(const fs::path& folder) {
  const Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.valid()) ::fsync(descriptor.get());
}

/// Calls fsync; returns 0 or errno, and 0 on drives that do not support it, because the data are written.
int sync(int descriptor) {
  if (::fsync(descriptor) == 0) return 0;
  const bool is_unknown = errno == EINVAL || errno == ENOTSUP || errno == ENOSYS || errno == EROFS;
  return is_unknown ? 0 : errno;
}

/// Renames to a free name. It creates the name first, which only one program can do. False with errno on failure.
bool rename_over_claim(const char* from, const char* to) {
  Descriptor claim(::open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!claim.valid()) return false;
  claim.close();
  if (::rename(from, to) == 0) return true;
  const int error = errno;
  ::unlink(to);
  errno = error;
  return false;
}

/// Writes to a device or pipe, which cannot be replaced. A pipe without a reader is an error instead of an endless
/// wait.
void write_directly(const fs::path& path, std::span<const ByteSpan> pieces, std::size_t total) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  if (!file.valid()) throw_path_error(errno, path);
  ::fcntl(file.get(), F_SETFL, 0);
  if (const int error = write_all(file.get(), pieces)) throw_disk_error(error, path, total);
  if (!file.close()) throw_disk_error(errno, path, total);
}

/// The whole content, synced to disk under a temporary name in the folder of `target`.
class PreparedFile {
 public:
  PreparedFile(const fs::path& target, std::span<const ByteSpan> pieces, std::size_t total,
               std::optional<mode_t> old_mode)
      : folder_(folder_of(target)), file_(folder_, old_mode.value_or(0666)) {
    if (!file_.valid()) throw_path_error(errno, target);
    remove_stale_temporaries(folder_);
    if (old_mode) ::fchmod(file_.descriptor(), *old_mode);  // keeps the old file's permissions against the umask
    if (const int error = write_all(file_.descriptor(), pieces)) throw_disk_error(error, target, total);
    if (const int error = sync(file_.descriptor())) throw_disk_error(error, target, total);
    if (!file_.close()) throw_disk_error(errno, target, total);
  }

  void take_place_of(const fs::path& target) {
    if (::rename(file_.path().c_str(), target.c_str()) != 0) throw_path_error(errno, target);
    sync_folder(folder_);
  }
  /// False where another file has taken that name in the meantime. Every drive supports one of three ways to take a
  /// name.
  bool take_free_name(const fs::path& target) {
    const char *from = file_.path().c_str(), *to = target.c_str();
    const bool is_taken = ::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0 ||
                          (errno != EEXIST && ::link(from, to) == 0) ||
                          (errno != EEXIST && rename_over_claim(from, to));
    if (!is_taken && errno == EEXIST) return false;
    if (!is_taken) throw_path_error(errno, target);
    sync_folder(folder_);
    return true;
  }
  /// Creates a name in the same folder and removes it.
  void try_a_name() {
    fs::path name = file_.path();
    name.replace_extension(".trial.tmp");  // if the program is killed here, it is removed as stale
    take_free_name(name);
    ::unlink(name.c_str());
  }

 private:
  fs::path folder_;
  TemporaryFile file_;
};

[[noreturn]] void throw_too_large(const fs::path& path, std::size_t max_bytes) {
  refuse_file(path, "it holds more than the " + bytes_text(static_cast<std::int64_t>(max_bytes)) +
                        " that are read here; choose a smaller file");
}

Descriptor open_for_reading(const fs::path& path, struct stat& info) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));  // or a pipe waits for its writer
  if (!file.valid() && (errno == ENOENT || errno == ENOTDIR)) refuse_missing_file(path);
  if (!file.valid()) refuse_file(path, system_text(errno) + "; check its permissions");
  if (::fstat(file.get(), &info) != 0) refuse_file(path, system_text(errno) + "; check the disk");
  if (S_ISDIR(info.st_mode)) refuse_file(path, "it is a folder; give the name of a file");
  if (S_ISFIFO(info.st_mode)) refuse_file(path, "it is a pipe, which need not end; write it to a file and give that");
  ::fcntl(file.get(), F_SETFL, 0);
  return file;
}

std::size_t size_of(std::span<const ByteSpan> pieces) {
  std::size_t total = 0;
  for (const ByteSpan piece : pieces) total += piece.size();
  return total;
}

/// The existing file, if any, under the name to write.
struct Place {
  bool exists = false, is_device = false;
  std::optional<mode_t> mode;  // of the existing file
  fs::path target;             // the target of a symbolic link, else the path itself
};

/// Throws for names that no file can have.
Place look_at(const fs::path& path) {
  refuse_nul(path);
  if (path.empty()) throw BadInput("cannot write: no file name was given; give one");
  if (!path.has_filename()) throw_path_error(EISDIR, path);
  struct stat info {};
  Place place;
  place.target = path;
  place.exists = ::stat(path.c_str(), &info) == 0;
  if (!place.exists) return place;
  if (S_ISDIR(info.st_mode)) throw_path_error(EISDIR, path);
  place.is_device = !S_ISREG(info.st_mode);
  place.mode = info.st_mode & 07777;
  std::error_code ignored;
  const fs::path resolved = fs::canonical(path, ignored);
  if (!resolved.empty()) place.target = resolved;
  return place;
}

/// Refuses links out of the folder: another user may have made the link, to overwrite a file elsewhere.
void refuse_to_leave(const fs::path& path, const Place& place) {
  std::error_code ignored;
  if (!fs::is_symlink(fs::symlink_status(path, ignored))) return;
  if (place.exists && place.target.parent_path() == fs::canonical(folder_of(path), ignored)) return;
  throw BadInput("cannot write ", path.string(), ": it is a symbolic link to ",
                 fs::read_symlink(path, ignored).string(),
                 ", which lies elsewhere; remove the link or choose another name");
}

}  // namespace

void refuse_nul(const fs::path& path) {
  std::string shown = path.string();
  if (shown.find('\0') == std::string::npos) return;
  for (std::size_t at = shown.find('\0'); at != std::string::npos; at = shown.find('\0', at))
    shown.replace(at, 1, "\\0");
  throw BadInput("cannot write ", shown, ": the name holds a NUL character; choose another name");
}

fs::path write_file_atomically(const fs::path& path, std::span<const ByteSpan> pieces, Existing existing) {
  const std::size_t total = size_of(pieces);
  const Place place = look_at(path);
  if (place.is_device) {
    write_directly(path, pieces, total);
    return path;
  }
  if (existing == Existing::keep) {
    PreparedFile file(path, pieces, total, std::nullopt);
    fs::path name = free_path(path);
    while (!file.take_free_name(name)) name = free_path(path);
    return name;
  }
  if (existing == Existing::replace_in_folder) refuse_to_leave(path, place);
  PreparedFile(place.target, pieces, total, place.mode).take_place_of(place.target);
  return path;
}

bool create_file_atomically(const fs::path& path, std::string_view bytes) {
  if (look_at(path).exists) return false;
  const ByteSpan piece = std::as_bytes(std::span(bytes.data(), bytes.size()));
  return PreparedFile(path, std::span(&piece, 1), bytes.size(), std::nullopt).take_free_name(path);
}

void require_writable(const fs::path& path) {
  const Place place = look_at(path);
  if (!place.is_device) PreparedFile(place.target, {}, 0, std::nullopt).try_a_name();
}

fs::path write_file_atomically(const fs::path& path, ByteSpan bytes, Existing existing) {
  return write_file_atomically(path, std::span<const ByteSpan>(&bytes, 1), existing);
}

fs::path write_file_atomically(const fs::path& path, std::string_view bytes, Existing existing) {
  return write_file_atomically(path, std::as_bytes(std::span(bytes.data(), bytes.size())), existing);
}

void refuse_file(const fs::path& path, const std::string& what) {
  throw BadInput("cannot read ", path.string(), ": ", what);
}

void refuse_missing_file(const fs::path& path) {
  refuse_file(path, "there is no such file; check the name and the folder");
}

std::string read_file(const fs::path& path, std::size_t max_bytes) {
  struct stat info {};
  const Descriptor file = open_for_reading(path, info);
  const std::size_t size = S_ISREG(info.st_mode) ? static_cast<std::size_t>(info.st_size) : 0;
  if (size > max_bytes) throw_too_large(path, max_bytes);
  std::string content;
  content.reserve(size);
  std::array<char, 65536> block;
  for (;;) {  // to the end of the data: pipes have no size, and a file may grow during the read
    const ssize_t count = ::read(file.get(), block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw BadInput("cannot read ", path.string(), ": ", system_text(errno), "; check the disk");
    if (count == 0 && content.starts_with(lfs_pointer)) refuse_lfs_pointer(path);
    if (count == 0) return content;
    if (static_cast<std::size_t>(count) > max_bytes - content.size()) throw_too_large(path, max_bytes);
    content.append(block.data(), static_cast<std::size_t>(count));
  }
}

void refuse_lfs_pointer(const fs::path& path) {
  refuse_file(path, "this is a Git LFS pointer, not the file itself; run git lfs pull in its folder");
}

fs::path free_path(const fs::path& path) {
  refuse_nul(path);         // all candidates would be the same file
  std::error_code ignored;  // the writer reports a path that cannot be read, with advice
  fs::path candidate = path;
  for (int number = 2; fs::exists(fs::symlink_status(candidate, ignored)); ++number)
    candidate = path.parent_path() / (path.stem().string() + "_" + std::to_string(number) + path.extension().string());
  return candidate;
}

}  // namespace afterglow
