// XXH64, a fast 64-bit hash, for checksums of weights, recipes and files.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace afterglow {

/// The XXH64 algorithm, streaming: the result depends on the bytes only, not on their division into updates. Not for
/// security.
class Checksum {
 public:
  explicit Checksum(std::uint64_t seed = 0);
  ~Checksum();
  void update(std::span<const std::byte> bytes);
  /// The hash of all bytes so far; more updates may follow.
  std::uint64_t digest() const;

 private:
  struct State;  // the library's, whose header only the source file includes
  std::unique_ptr<State> state_;
};

std::uint64_t checksum(std::span<const std::byte> bytes);
/// 16 hexadecimal digits, as checksums are shown.
std::string hex16(std::uint64_t value);

}  // namespace afterglow
