// Parts of what a file holds, never beyond its end: readers take offsets from the file itself.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace afterglow {

using Bytes = std::span<const std::byte>;

/// `count` bytes from `offset` on. Where the bytes end before, an Error(bad_input) that begins with `where`.
Bytes part_of(Bytes bytes, std::uint64_t offset, std::uint64_t count, const std::string& where);

/// The number that at most eight bytes hold, the least one first.
std::uint64_t little_endian(Bytes bytes);

}  // namespace afterglow
