// A piece of work that several processes want, and one has: on this machine, or on all that share a folder.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>

namespace afterglow {

/// A file that is created and locked. It is gone when the work is done; of a process that was killed the system frees
/// the lock, and the next one takes the file over. On a file system without locks everyone gets every claim.
class Claim {
 public:
  /// Nothing where another holder has it, in this process or another. Throws Error(bad_input) where the file cannot be
  /// made.
  static std::optional<Claim> take(const std::filesystem::path& path);
  ~Claim();
  Claim(Claim&& other) noexcept;
  Claim& operator=(Claim&&) = delete;
  /// Removes the files of all claims of this process, which ends now without leaving its functions. Asks for no memory.
  static void remove_all() noexcept;

 private:
  struct Held;
  explicit Claim(std::unique_ptr<Held> held);
  std::unique_ptr<Held> held_;  // null after a move
};

}  // namespace afterglow
