// A piece of work that several processes want, and one has: on this machine, or on all that share a folder.
#pragma once
#include <filesystem>
#include <optional>

#include "core/io/temporary_file.h"

namespace afterglow {

/// A file that is created and locked. It is gone when the work is done; of a process that was killed the system frees
/// the lock, and the next one takes the file over. On a file system without locks everyone gets every claim.
class Claim {
 public:
  /// Nothing where another holder has it, in this process or another. Throws Error(bad_input) where the file cannot be
  /// made.
  static std::optional<Claim> take(const std::filesystem::path& path);
  ~Claim();
  Claim(Claim&& other) noexcept = default;
  Claim& operator=(Claim&&) = delete;

 private:
  Claim(std::filesystem::path path, Descriptor file) : path_(std::move(path)), file_(std::move(file)) {}
  std::filesystem::path path_;
  Descriptor file_;
};

}  // namespace afterglow
