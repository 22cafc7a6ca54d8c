// A file under a temporary name until it is complete. It is locked while in use, which distinguishes it from a file
// that a killed program left.
#pragma once
#include <sys/types.h>

#include <filesystem>

namespace afterglow {

/// A file descriptor that closes itself, also after an error.
class Descriptor {
 public:
  explicit Descriptor(int value = -1) : value_(value) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  int get() const { return value_; }
  bool valid() const { return value_ >= 0; }
  /// Callers must check the result: network file systems report a full disk only here.
  bool close();

 private:
  int value_;
};

/// Created in `folder`, removed by the destructor unless it was renamed. If it cannot be created it is not `valid`, and
/// errno has the reason.
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

/// Whether the name is that of a temporary file; another process may be writing it.
bool is_temporary(const std::filesystem::path& path);

/// Removes files that killed programs left in `folder`; checks each folder once while the program runs.
void remove_stale_temporaries(const std::filesystem::path& folder);

}  // namespace afterglow
