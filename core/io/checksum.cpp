// XXH64 by libxxhash, compiled in from its header, so that the program needs no further library at run time.
#include "core/io/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace afterglow {

struct Checksum::State {
  XXH64_state_t hash;
};

Checksum::Checksum(std::uint64_t seed) : state_(std::make_unique<State>()) { XXH64_reset(&state_->hash, seed); }

Checksum::~Checksum() = default;

void Checksum::update(std::span<const std::byte> bytes) { XXH64_update(&state_->hash, bytes.data(), bytes.size()); }

std::uint64_t Checksum::digest() const { return XXH64_digest(&state_->hash); }

std::uint64_t checksum(std::span<const std::byte> bytes) { return XXH64(bytes.data(), bytes.size(), 0); }

std::string hex16(std::uint64_t value) {
  std::string digits(16, '0');
  for (std::size_t i = 16; i-- > 0; value >>= 4) digits[i] = "0123456789abcdef"[value & 15];
  return digits;
}

}  // namespace afterglow
