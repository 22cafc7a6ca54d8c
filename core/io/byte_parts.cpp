// Checks bounds before it reads.
#include "core/io/byte_parts.h"

#include <algorithm>
#include <boost/crc.hpp>

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

std::uint32_t crc32_of(std::string_view bytes, std::string_view more) {
  boost::crc_32_type crc;
  for (const std::string_view part : {bytes, more}) crc.process_bytes(part.data(), part.size());
  return crc.checksum();
}

}  // namespace afterglow
