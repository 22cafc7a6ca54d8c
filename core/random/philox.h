// Philox4x32-10: a counter-based random number generator; the same bits on every machine, host or device.
#pragma once
#include <cstdint>

namespace afterglow {

/// 128 bits of counter, or of random output.
struct PhiloxBlock {
  std::uint32_t x0 = 0, x1 = 0, x2 = 0, x3 = 0;
};

/// 64 bits of key; different keys give independent sequences of blocks.
struct PhiloxKey {
  std::uint32_t k0 = 0, k1 = 0;
};

/// The ten-round bijection of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011), section 3.3.
/// A pure function: every (counter, key) is an index into the random sequence, so any thread can draw any number
/// without state. Plain arithmetic only, so that device code may call it, too (nvcc --expt-relaxed-constexpr).
constexpr PhiloxBlock philox4x32(PhiloxBlock counter, PhiloxKey key) {
  constexpr std::uint32_t multiplier0 = 0xD2511F53u;
  constexpr std::uint32_t multiplier1 = 0xCD9E8D57u;
  constexpr std::uint32_t weyl0 = 0x9E3779B9u;  // golden ratio
  constexpr std::uint32_t weyl1 = 0xBB67AE85u;  // sqrt(3) - 1
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = static_cast<std::uint64_t>(multiplier0) * counter.x0;
    const std::uint64_t product1 = static_cast<std::uint64_t>(multiplier1) * counter.x2;
    counter = PhiloxBlock{
        static_cast<std::uint32_t>(product1 >> 32) ^ counter.x1 ^ key.k0, static_cast<std::uint32_t>(product1),
        static_cast<std::uint32_t>(product0 >> 32) ^ counter.x3 ^ key.k1, static_cast<std::uint32_t>(product0)};
    key.k0 += weyl0;
    key.k1 += weyl1;
  }
  return counter;
}

/// The block number `position` of the sequence (seed, stream, index); see Random. The seed is the key; stream, index
/// and position fill the counter, so different triples give different blocks as long as stream < 2^32, index < 2^64 and
/// position < 2^32.
constexpr PhiloxBlock philox_at(std::uint64_t seed, std::uint32_t stream, std::uint64_t index, std::uint32_t position) {
  return philox4x32(
      PhiloxBlock{position, stream, static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32)},
      PhiloxKey{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
}

/// A uniform float in [0, 1) from the upper 24 bits; exact, so host and device agree bit for bit.
constexpr float philox_uniform(std::uint32_t bits) { return static_cast<float>(bits >> 8) * (1.0f / 16777216.0f); }

}  // namespace afterglow
