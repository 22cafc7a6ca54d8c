// Bounds-checked parts of a file's bytes, because readers take offsets from the file itself, and their CRC-32.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace afterglow {

using Bytes = std::span<const std::byte>;

/// `count` bytes from `offset` on. Throws Error(bad_input) that begins with `where` if the bytes end before.
Bytes part_of(Bytes bytes, std::uint64_t offset, std::uint64_t count, const std::string& where);

/// The number in at most eight bytes, least significant first.
std::uint64_t little_endian(Bytes bytes);

/// CRC-32 as in PNG and zip (ISO 3309) of these bytes and of those that follow them.
std::uint32_t crc32_of(std::string_view bytes, std::string_view more = {});

}  // namespace afterglow
