// TensorBoard's event files: records with checksums, each an Event of protocol buffers, of which scalars are read.
#include <bit>
#include <optional>

#include "core/io/atomic_file.h"
#include "core/io/byte_parts.h"
#include "core/io/terminal_text.h"
#include "core/io/training_log.h"

namespace afterglow {
namespace {

/// CRC-32C as the format stores it: rotated, with a constant added.
std::uint32_t masked_checksum(Bytes bytes) {
  std::uint32_t sum = ~0u;
  for (const std::byte byte : bytes) {
    sum ^= std::to_integer<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ (sum & 1 ? 0x82F63B78u : 0u);
  }
  return std::rotr(~sum, 15) + 0xA282EAD8u;
}

std::uint64_t take_varint(Bytes& rest) {
  std::uint64_t result = 0;
  for (unsigned shift = 0; shift < 64 && !rest.empty(); shift += 7) {
    const auto byte = std::to_integer<std::uint64_t>(rest.front());
    rest = rest.subspan(1);
    result |= (byte & 127) << shift;
    if (byte < 128) break;
  }
  return result;
}

struct Field {
  std::uint64_t number = 0, value = 0;
  Bytes bytes;
};

/// The fields of a message of protocol buffers, up to the first that cannot be one.
std::vector<Field> fields_of(Bytes message) {
  std::vector<Field> fields;
  while (!message.empty()) {
    const std::uint64_t key = take_varint(message), type = key & 7;
    const std::uint64_t value = type == 0 || type == 2 ? take_varint(message) : 0;
    const std::uint64_t size = type == 2 ? value : type == 1 ? 8 : type == 5 ? 4 : 0;
    if (type == 3 || type == 4 || type > 5 || size > message.size()) break;
    fields.push_back({key >> 3, value, message.first(size)});
    message = message.subspan(size);
  }
  return fields;
}

double float_of(Bytes bytes) { return std::bit_cast<float>(static_cast<std::uint32_t>(little_endian(bytes))); }

void add_event(Bytes event, TrainingLog& log) {
  std::int64_t step = 0;  // a field of value 0 is not written
  Bytes summary;
  for (const Field& field : fields_of(event)) {
    if (field.number == 2) step = static_cast<std::int64_t>(field.value);
    if (field.number == 5) summary = field.bytes;
  }
  for (const Field& value : fields_of(step < 0 ? Bytes() : summary)) {
    std::string name;
    std::optional<double> number;
    for (const Field& field : fields_of(value.bytes)) {
      if (field.number == 1) name.assign(reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size());
      if (field.number == 2 && field.bytes.size() == 4) number = float_of(field.bytes);
      // TensorFlow 2 writes a tensor of one number.
      for (const Field& part : fields_of(field.number == 8 ? field.bytes : Bytes()))
        if (part.number == 5 && part.bytes.size() == 4) number = float_of(part.bytes);
    }
    if (number) log.add(is_utf8(name) ? name : terminal_text(name), static_cast<double>(step), *number);
  }
}

}  // namespace

// The end of a file that is still being written is left for later.
void read_event_file(const std::filesystem::path& path, TrainingLog& log) {
  constexpr std::size_t before = 12, after = 4;  // length and its checksum; checksum of the data
  const std::string text = read_file(path, std::size_t{1} << 30);
  Bytes rest = std::as_bytes(std::span(text));
  while (rest.size() >= before) {
    const std::uint64_t length = little_endian(rest.first(8));
    bool is_sound = masked_checksum(rest.first(8)) == little_endian(rest.subspan(8, 4));
    if (is_sound && (rest.size() < before + after || length > rest.size() - before - after)) return;
    const Bytes data = is_sound ? rest.subspan(before, length) : rest;
    is_sound = is_sound && masked_checksum(data) == little_endian(rest.subspan(before + length, after));
    if (!is_sound && rest.size() == text.size()) refuse_file(path, "it is no event file of TensorBoard, or damaged");
    if (!is_sound)
      return log.notes.push_back(path.string() + ": it is damaged; what follows byte " +
                                 std::to_string(text.size() - rest.size()) + " is left out");
    add_event(data, log);
    rest = rest.subspan(before + length + after);
  }
}

}  // namespace afterglow
