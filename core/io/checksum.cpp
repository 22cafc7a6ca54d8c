// XXH64 as its specification has it: four lanes of 8-byte words, merged and mixed at the end.
#include "core/io/checksum.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace afterglow {
namespace {

constexpr std::uint64_t prime1 = 0x9E3779B185EBCA87u;
constexpr std::uint64_t prime2 = 0xC2B2AE3D27D4EB4Fu;
constexpr std::uint64_t prime3 = 0x165667B19E3779F9u;
constexpr std::uint64_t prime4 = 0x85EBCA77C2B2AE63u;
constexpr std::uint64_t prime5 = 0x27D4EB2F165667C5u;
constexpr std::size_t stripe = 32;

template <class Word>
std::uint64_t load(const std::byte* bytes) {
  Word word;
  std::memcpy(&word, bytes, sizeof(Word));
  return word;
}

std::uint64_t mix_lane(std::uint64_t lane, std::uint64_t word) { return std::rotl(lane + word * prime2, 31) * prime1; }

void mix_stripe(std::array<std::uint64_t, 4>& lanes, const std::byte* bytes) {
  for (std::size_t i = 0; i < 4; ++i) lanes[i] = mix_lane(lanes[i], load<std::uint64_t>(bytes + 8 * i));
}

std::uint64_t merge_lanes(const std::array<std::uint64_t, 4>& lanes) {
  std::uint64_t hash =
      std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) + std::rotl(lanes[3], 18);
  for (const std::uint64_t lane : lanes) hash = (hash ^ mix_lane(0, lane)) * prime1 + prime4;
  return hash;
}

/// The last 0 to 31 bytes: whole words first, then a half, then single bytes.
std::uint64_t mix_rest(std::uint64_t hash, std::span<const std::byte> rest) {
  for (; rest.size() >= 8; rest = rest.subspan(8)) {
    hash = std::rotl(hash ^ mix_lane(0, load<std::uint64_t>(rest.data())), 27) * prime1 + prime4;
  }
  if (rest.size() >= 4) {
    hash = std::rotl(hash ^ load<std::uint32_t>(rest.data()) * prime1, 23) * prime2 + prime3;
    rest = rest.subspan(4);
  }
  for (const std::byte byte : rest) hash = std::rotl(hash ^ static_cast<std::uint64_t>(byte) * prime5, 11) * prime1;
  return hash;
}

std::uint64_t avalanche(std::uint64_t hash) {
  hash = (hash ^ hash >> 33) * prime2;
  hash = (hash ^ hash >> 29) * prime3;
  return hash ^ hash >> 32;
}

}  // namespace

Checksum::Checksum(std::uint64_t seed)
    : seed_(seed), lanes_{seed + prime1 + prime2, seed + prime2, seed, seed - prime1} {}

void Checksum::update(std::span<const std::byte> bytes) {
  const std::size_t held = length_ % stripe;
  length_ += bytes.size();
  if (held > 0) {
    const std::size_t taken = std::min(bytes.size(), stripe - held);
    std::copy_n(bytes.begin(), taken, pending_.begin() + static_cast<std::ptrdiff_t>(held));
    bytes = bytes.subspan(taken);
    if (held + taken < stripe) return;
    mix_stripe(lanes_, pending_.data());
  }
  for (; bytes.size() >= stripe; bytes = bytes.subspan(stripe)) mix_stripe(lanes_, bytes.data());
  std::copy(bytes.begin(), bytes.end(), pending_.begin());
}

std::uint64_t Checksum::digest() const {
  const std::uint64_t start = length_ >= stripe ? merge_lanes(lanes_) : seed_ + prime5;
  return avalanche(mix_rest(start + length_, std::span(pending_).first(length_ % stripe)));
}

std::uint64_t checksum(std::span<const std::byte> bytes) {
  Checksum sum;
  sum.update(bytes);
  return sum.digest();
}

std::string hex16(std::uint64_t value) {
  std::string digits(16, '0');
  for (std::size_t i = 16; i-- > 0; value >>= 4) digits[i] = "0123456789abcdef"[value & 15];
  return digits;
}

}  // namespace afterglow
