// The JSON header of a safetensors file: checked reading and canonical writing.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/io/host_tensor.h"

namespace afterglow {

/// One tensor's entry. Offsets are in bytes from the first data byte.
struct HeaderEntry {
  std::string name;
  StoredType type = StoredType::f32;
  std::string other_type;  ///< a type that is not read, in the place of `type`; then the shape is not checked
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct Header {
  std::map<std::string, std::string> metadata;
  std::vector<HeaderEntry> entries;  ///< in the order of their data, which they cover without a gap
};

inline constexpr std::uint64_t header_length_bytes = 8;

/// Throws Error(bad_input) for a header of `length` bytes that cannot be one of a file of `file_bytes`.
void check_header_length(std::uint64_t length, std::uint64_t file_bytes, const std::string& where);
/// The header's text in the bytes of a whole file.
std::string_view header_text(std::span<const std::byte> file, const std::string& where);

/// Parses and checks everything against `data_bytes`, the number of bytes after the header. `where` names the file.
/// Memory stays within a small multiple of the text for any content.
Header parse_header(std::string_view text, std::uint64_t data_bytes, const std::string& where);

/// The text, padded with spaces to a multiple of 8, for entries in the given order.
std::string format_header(const Header& header);

}  // namespace afterglow
