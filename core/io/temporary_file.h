// A file under a temporary name, on its way to its own one. It is locked as long as it is in use, so that what a killed
// program left behind can be told from what another one is writing.
#pragma once
#include <sys/types.h>

#include <filesystem>

namespace afterglow {

/// A file descriptor that closes itself, so that an error on the way leaves none open.
class Descriptor {
 public:
  explicit Descriptor(int value = -1) : value_(value) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  int get() const { return value_; }
  bool valid() const { return value_ >= 0; }
  /// Network file systems report a full disk only here, so the result counts.
  bool close();

 private:
  int value_;
};

/// Created in `folder`, removed at the end unless it was renamed. Where it could not be created it is not `valid`, and
/// errno says why.
class TemporaryFile {
 public:
  TemporaryFile(const std::filesystem::path& folder, mode_t mode);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  bool valid() const { return file_.valid(); }
  int descriptor() const { return file_.get(); }
  const std::filesystem::path& path() const { return path_; }
  /// Ends the writing; the lock stays until the file has its own name. False, with errno, where the disk is full.
  bool close() { return file_.close(); }

 private:
  bool create(const std::filesystem::path& folder, mode_t mode);
  std::filesystem::path path_;
  Descriptor file_, lock_;
};

/// Whether the name is one of these files'; another process may be writing it.
bool is_temporary(const std::filesystem::path& path);

/// Removes what programs that were killed left in `folder`. Looks once for each folder, as long as the program runs.
void remove_stale_temporaries(const std::filesystem::path& folder);

}  // namespace afterglow
