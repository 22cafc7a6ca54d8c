// A claim on a piece of work, which one of several processes gets: on one machine, or on all that share a folder.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>

namespace afterglow {

/// A file that is created and locked, and removed when the work is done. The system releases the lock of a killed
/// process, and the next process takes the file over. On a file system without locks every process gets every claim.
class Claim {
 public:
  /// Nullopt where this or another process holds the claim. Throws Error(bad_input) where the file cannot be created.
  static std::optional<Claim> take(const std::filesystem::path& path);
  ~Claim();
  Claim(Claim&& other) noexcept;
  Claim& operator=(Claim&&) = delete;
  /// Removes the files of all claims of this process, before an exit without destructors. Allocates no memory.
  static void remove_all() noexcept;

 private:
  struct Held;
  explicit Claim(std::unique_ptr<Held> held);
  std::unique_ptr<Held> held_;  // null after a move
};

}  // namespace afterglow
