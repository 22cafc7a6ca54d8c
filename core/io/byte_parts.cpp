// Checks bounds before it reads.
#include "core/io/byte_parts.h"

#include <algorithm>
#include <array>

#include "core/io/error.h"

namespace afterglow {

Bytes part_of(Bytes bytes, std::uint64_t offset, std::uint64_t count, const std::string& where) {
  if (offset > bytes.size() || count > bytes.size() - offset)
    throw BadInput(where, ": ", count, " bytes are named from ", offset, " on, and there are ", bytes.size(),
                   "; get or write the file again");
  return bytes.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(count));
}

std::uint64_t little_endian(Bytes bytes) {
  std::uint64_t number = 0;
  for (std::size_t i = std::min<std::size_t>(bytes.size(), 8); i-- > 0;)
    number = number << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  return number;
}

std::uint32_t crc32_of(std::string_view bytes, std::uint32_t before) {
  static constexpr auto table = [] {
    std::array<std::uint32_t, 256> t{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      t[i] = i;
      for (int bit = 0; bit < 8; ++bit) t[i] = t[i] & 1 ? 0xedb88320u ^ t[i] >> 1 : t[i] >> 1;
    }
    return t;
  }();
  std::uint32_t crc = ~before;
  for (const char c : bytes) crc = table[(crc ^ static_cast<unsigned char>(c)) & 0xff] ^ crc >> 8;
  return ~crc;
}

}  // namespace afterglow
