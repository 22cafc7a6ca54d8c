// Which elements dropout keeps: one pure function for every back end.
#pragma once
#include <cstdint>

#include "core/random/random.h"

namespace afterglow {

/// Four uniform numbers for elements 4 block .. 4 block + 3 of `site` in step `counter`; an element is kept where its
/// number is at least the rate.
constexpr PhiloxBlock dropout_block(std::uint64_t seed, std::uint32_t site, std::int32_t counter, std::uint32_t block) {
  const std::uint64_t place = (std::uint64_t{site} << 32) | static_cast<std::uint32_t>(counter);
  return philox_at(seed, dropout_stream, place, block);
}

constexpr bool dropout_keeps(std::uint32_t bits, float rate) { return philox_uniform(bits) >= rate; }

}  // namespace afterglow
