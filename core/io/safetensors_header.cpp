// Reads the header as a stream of JSON events, so that hostile nesting or sizes are refused before they cost memory.
#include "core/io/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "core/io/byte_parts.h"
#include "core/io/error.h"
#include "core/io/number_text.h"
#include "core/io/wording.h"

namespace afterglow {
namespace {

using Json = nlohmann::json;
constexpr const char* metadata_key = "__metadata__";
// More than any real file has; they keep what a hostile header can allocate near its own size.
constexpr std::size_t max_axes = 32;
constexpr std::size_t max_metadata = 4096;
constexpr std::uint64_t longest_header = 100'000'000;  // the limit of the format

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw Error(ExitCode::bad_input,
              "cannot read " + where + ": " + what + "; the file is damaged, get or write it again");
}

/// One state for each place of the header where a value can stand.
enum class Place { start, tensors, metadata, tensor, shape, offsets };

class HeaderReader : public nlohmann::json_sax<Json> {
 public:
  explicit HeaderReader(const std::string& where) : where_(where) {}

  Header take() { return std::move(header_); }

  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("true or false"); }
  bool number_integer(number_integer_t value) override { unexpected("the negative number " + std::to_string(value)); }
  bool number_float(number_float_t, const string_t&) override {
    unexpected("a number that is fractional or too large");
  }
  bool binary(binary_t&) override { unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::shape) {
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) overflow();
      if (entry().shape.size() == max_axes) refuse(where_, position() + ": more than 32 axes");
      entry().shape.push_back(static_cast<std::int64_t>(value));
    } else if (place_ == Place::offsets && offsets_read_ < 2) {
      (offsets_read_++ == 0 ? entry().begin : entry().end) = value;
    } else {
      unexpected("the number " + std::to_string(value));
    }
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::metadata) {
      if (header_.metadata.size() == max_metadata) refuse(where_, "__metadata__ has more than 4096 fields");
      header_.metadata[key_] = std::move(value);
    } else if (place_ == Place::tensor && key_ == "dtype") {
      const auto type = stored_type_of(value);
      if (!type) {
        throw Error(ExitCode::bad_input,
                    "cannot read " + where_ + ": " + position() + ": the type " + in_quotes(value) +
                        " is not one of BOOL, U8, F16, BF16, I32, F32, F64, I64; convert it first");
      }
      entry().type = *type;
    } else {
      unexpected("the text " + in_quotes(value));
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::start) {
      place_ = Place::tensors;
    } else if (place_ == Place::tensors && key_ == metadata_key) {
      if (std::exchange(metadata_seen_, true)) refuse(where_, "the header has __metadata__ twice");
      place_ = Place::metadata;
    } else if (place_ == Place::tensors) {
      place_ = Place::tensor;
      header_.entries.push_back({key_, {}, {}, 0, 0});
      fields_seen_.clear();
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::tensor) {
      for (const char* field : {"dtype", "shape", "data_offsets"}) {
        if (!saw(field)) refuse(where_, "tensor " + in_quotes(entry().name) + " has no field '" + field + "'");
      }
    }
    place_ = Place::tensors;
    return true;
  }

  bool key(string_t& value) override {
    key_ = std::move(value);
    if (place_ == Place::metadata && header_.metadata.contains(key_)) refuse(where_, position() + " is there twice");
    if (place_ != Place::tensor) return true;
    if (key_ != "dtype" && key_ != "shape" && key_ != "data_offsets") refuse(where_, position() + " is unknown");
    if (saw(key_)) refuse(where_, position() + " is there twice");
    fields_seen_.push_back(key_);
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ == Place::tensor && key_ == "shape") {
      place_ = Place::shape;
    } else if (place_ == Place::tensor && key_ == "data_offsets") {
      place_ = Place::offsets;
      offsets_read_ = 0;
    } else {
      unexpected("a list");
    }
    return true;
  }

  bool end_array() override {
    if (place_ == Place::offsets && offsets_read_ < 2) refuse(where_, position() + ": fewer than two numbers");
    place_ = Place::tensor;
    return true;
  }

  bool parse_error(std::size_t byte, const std::string&, const nlohmann::detail::exception&) override {
    refuse(where_, "the header is not valid JSON at its byte " + std::to_string(byte));
  }

 private:
  HeaderEntry& entry() { return header_.entries.back(); }
  bool saw(std::string_view field) const {
    return std::find(fields_seen_.begin(), fields_seen_.end(), field) != fields_seen_.end();
  }

  std::string position() {
    if (place_ == Place::start) return "the header";
    if (place_ == Place::tensors) return "tensor " + in_quotes(key_);
    if (place_ == Place::metadata) return "__metadata__ field " + in_quotes(key_);
    return "tensor " + in_quotes(entry().name) + ", field " + in_quotes(key_);
  }

  std::string expected() const {
    if (place_ == Place::metadata) return "a text";
    if (place_ == Place::shape) return "whole numbers that are not negative";
    if (place_ == Place::offsets) return "two whole numbers that are not negative";
    if (place_ == Place::tensor) return key_ == "dtype" ? "a text" : "a list of whole numbers";
    return "an object";
  }

  [[noreturn]] void unexpected(const std::string& found) {
    refuse(where_, position() + ": " + found + " where " + expected() + " should be");
  }
  [[noreturn]] void overflow() { refuse(where_, position() + ": the size is larger than any memory"); }

  const std::string& where_;
  Header header_;
  Place place_ = Place::start;
  std::string key_;
  std::vector<std::string> fields_seen_;
  int offsets_read_ = 0;
  bool metadata_seen_ = false;
};

/// Compares one entry with itself: the offsets must be in order, inside the data, and hold exactly the shape's
/// elements.
void check_entry(const HeaderEntry& entry, std::uint64_t data_bytes, const std::string& where) {
  const std::string tensor = "tensor " + in_quotes(entry.name);
  const std::string range = std::to_string(entry.begin) + " to " + std::to_string(entry.end);
  if (entry.begin > entry.end) refuse(where, tensor + ", field 'data_offsets': " + range + " runs backwards");
  if (entry.end > data_bytes) {
    refuse(where, tensor + ", field 'data_offsets': " + range + " reaches beyond the " + std::to_string(data_bytes) +
                      " bytes of data in the file");
  }
  const auto bytes = bytes_of(entry.type, entry.shape);
  if (!bytes) refuse(where, tensor + ", field 'shape': the size is larger than any memory");
  if (*bytes != entry.end - entry.begin) {
    refuse(where, tensor + ": its shape takes " + std::to_string(*bytes) + " bytes, its 'data_offsets' hold " +
                      std::to_string(entry.end - entry.begin));
  }
}

/// Brings entries into the order of their data, which they must cover exactly once.
void check_layout(std::vector<HeaderEntry>& entries, std::uint64_t data_bytes, const std::string& where) {
  std::sort(entries.begin(), entries.end(), [](const HeaderEntry& a, const HeaderEntry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::uint64_t position = 0;
  for (const HeaderEntry& entry : entries) {
    if (entry.begin != position) {
      refuse(where, "tensor " + in_quotes(entry.name) + ", field 'data_offsets': begins at " +
                        std::to_string(entry.begin) +
                        (entry.begin < position ? ", overlapping" : ", with a gap behind") +
                        " the tensor before it, which ends at " + std::to_string(position));
    }
    position = entry.end;
  }
  if (position != data_bytes) {
    refuse(where, std::to_string(data_bytes - position) + " bytes at the end belong to no tensor");
  }
}

void check_names(const std::vector<HeaderEntry>& entries, const std::string& where) {
  std::vector<std::string_view> names;
  names.reserve(entries.size());
  for (const HeaderEntry& entry : entries) names.push_back(entry.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) refuse(where, "tensor " + in_quotes(*twice) + " is there twice");
}

}  // namespace

void check_header_length(std::uint64_t length, std::uint64_t file_bytes, const std::string& where) {
  if (file_bytes < header_length_bytes)
    refuse(where, "with " + bytes_text(static_cast<std::int64_t>(file_bytes)) + " it is too short for a header");
  if (length > file_bytes - header_length_bytes) {
    refuse(where, "the header's length of " + std::to_string(length) + " bytes does not fit into the " +
                      std::to_string(file_bytes) +
                      " bytes of the file, so this is no safetensors file or a part of one");
  }
  if (length > longest_header) refuse(where, "the header is longer than " + bytes_text(longest_header));
}

std::string_view header_text(std::span<const std::byte> file, const std::string& where) {
  const std::uint64_t length = little_endian(file.first(std::min<std::size_t>(file.size(), header_length_bytes)));
  check_header_length(length, file.size(), where);
  const Bytes text = part_of(file, header_length_bytes, length, where);
  return {reinterpret_cast<const char*>(text.data()), text.size()};
}

Header parse_header(std::string_view text, std::uint64_t data_bytes, const std::string& where) {
  HeaderReader reader(where);
  Json::sax_parse(text.begin(), text.end(), &reader);
  Header header = reader.take();
  for (const HeaderEntry& entry : header.entries) check_entry(entry, data_bytes, where);
  check_names(header.entries, where);
  check_layout(header.entries, data_bytes, where);
  return header;
}

// No JSON array or object is made here: their destructors allocate, and without memory that would end the program
// before a snapshot is written.
std::string format_header(const Header& header) {
  const auto escaped = [](const std::string& text) { return Json(text).dump(); };
  const auto listed = [](const auto& sizes) {
    std::string text;
    for (const auto size : sizes) text += (text.empty() ? "" : ",") + std::to_string(size);
    return "[" + text + "]";
  };
  std::string result = "{";
  if (!header.metadata.empty()) {
    result += "\"__metadata__\":{";
    for (const auto& [key, value] : header.metadata) result += escaped(key) + ":" + escaped(value) + ",";
    result.back() = '}';
    result += ',';
  }
  for (const HeaderEntry& entry : header.entries) {
    result += escaped(entry.name) + ":{\"dtype\":\"" + name_of(entry.type) + "\",\"shape\":" + listed(entry.shape) +
              ",\"data_offsets\":[" + std::to_string(entry.begin) + "," + std::to_string(entry.end) + "]},";
  }
  if (result.back() == ',') result.pop_back();
  result += '}';
  result.append((8 - result.size() % 8) % 8, ' ');
  return result;
}

}  // namespace afterglow
