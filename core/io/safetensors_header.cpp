// Reads the header entry by entry, so that hostile nesting or sizes are refused before they cost memory.
#include "core/io/safetensors_header.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "core/io/atomic_file.h"
#include "core/io/byte_parts.h"
#include "core/io/error.h"
#include "core/io/number_text.h"
#include "core/io/wording.h"

namespace afterglow {
namespace {

using Json = nlohmann::json;
constexpr const char* metadata_key = "__metadata__";
// More than any real file has; these limits keep the memory for a hostile header near its own size.
constexpr std::size_t max_axes = 32;
constexpr std::size_t max_metadata = 4096;
constexpr int deepest = 64;
constexpr std::uint64_t longest_header = 100'000'000;  // the limit of the format

template <class... What>
[[noreturn]] void refuse(const std::string& where, const What&... what) {
  throw BadInput("cannot read ", where, ": ", what..., "; the file is damaged, get or write it again");
}

/// A value as a message names what was found.
std::string described(const Json& value) {
  if (value.is_number_float()) return "a number that is fractional or too large";
  if (value.is_number()) return (value.is_number_unsigned() ? "the number " : "the negative number ") + value.dump();
  if (value.is_string()) return "the text " + in_quotes(value.get_ref<const std::string&>());
  return value.is_null() ? "null" : value.is_boolean() ? "true or false" : value.is_array() ? "a list" : "an object";
}

/// Takes one entry after the other from the parser, which keeps none of them.
class HeaderReader {
 public:
  explicit HeaderReader(const std::string& where) : where_(where) {}

  Header read(std::string_view text) {
    try {
      std::ignore = Json::parse(
          text, [this](int depth, Json::parse_event_t event, Json& value) { return keeps(depth, event, value); });
    } catch (const Json::parse_error& error) {
      refuse(where_, "the header is not valid JSON at its byte ", error.byte);
    } catch (const Json::exception&) {
      refuse(where_, "the header is not valid JSON: a number in it is too large");
    }
    return std::move(header_);
  }

 private:
  /// Whether the parser keeps what it has just read: the fields of the entry that it is in.
  bool keeps(int depth, Json::parse_event_t event, Json& value) {
    using Event = Json::parse_event_t;
    if (depth > deepest) refuse(where_, position(), ": lists in lists without end");
    if (event == Event::key) return depth == 1 ? begin_entry(value) : depth == 2 ? begin_field(value) : true;
    if (event == Event::object_end && depth == 1) end_entry(value);
    if (event == Event::array_start && depth < 2) unexpected(Json::array(), "an object");
    if (event == Event::value && depth < 2 && !(value.is_null() && is_metadata())) unexpected(value, "an object");
    if (event == Event::value && depth == 3 && ++numbers_ > max_axes && is_known_)
      refuse(where_, position(), ": more than 32 axes");
    return depth != 1 || event == Event::object_start;
  }

  bool begin_entry(const Json& name) {
    name_ = name.get<std::string>();
    field_.clear();
    seen_.clear();
    if (is_metadata() && std::exchange(metadata_seen_, true)) refuse(where_, "the header has __metadata__ twice");
    return true;
  }

  /// Further fields of a tensor are read past.
  bool begin_field(const Json& name) {
    field_ = name.get<std::string>();
    numbers_ = 0;
    is_known_ = field_ == "dtype" || field_ == "shape" || field_ == "data_offsets";
    if (!is_known_ && !is_metadata()) return false;
    if (!seen_.insert(field_).second) refuse(where_, position(), " is there twice");
    if (seen_.size() > max_metadata) refuse(where_, "__metadata__ has more than 4096 fields");
    return true;
  }

  void end_entry(const Json& entry) {
    if (is_metadata()) {
      for (const auto& [key, value] : entry.items()) header_.metadata[key] = text_of(key, value);
      return;
    }
    for (const char* field : {"dtype", "shape", "data_offsets"}) {
      if (!entry.contains(field)) refuse(where_, "tensor ", in_quotes(name_), " has no field '", field, "'");
    }
    HeaderEntry& read = header_.entries.emplace_back();
    read.name = name_;
    const std::string type = text_of("dtype", entry["dtype"]);
    const std::optional<StoredType> known = stored_type_of(type);
    if (known) read.type = *known;
    if (!known) read.other_type = type;
    for (const std::uint64_t size : numbers_of("shape", entry["shape"])) {
      if (size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        refuse(where_, position(), ": the size is larger than any memory");
      read.shape.push_back(static_cast<std::int64_t>(size));
    }
    const std::vector<std::uint64_t> offsets = numbers_of("data_offsets", entry["data_offsets"]);
    if (offsets.size() != 2)
      refuse(where_, position(), offsets.size() < 2 ? ": fewer than two numbers" : ": more than two numbers");
    read.begin = offsets[0];
    read.end = offsets[1];
  }

  std::string text_of(const std::string& field, const Json& value) {
    field_ = field;
    if (!value.is_string()) unexpected(value, "a text");
    return value.get<std::string>();
  }

  std::vector<std::uint64_t> numbers_of(const std::string& field, const Json& list) {
    field_ = field;
    if (!list.is_array()) unexpected(list, "a list of whole numbers");
    std::vector<std::uint64_t> numbers;
    for (const Json& number : list) {
      if (!number.is_number_unsigned()) unexpected(number, "whole numbers that are not negative");
      numbers.push_back(number.get<std::uint64_t>());
    }
    return numbers;
  }

  bool is_metadata() const { return name_ == metadata_key; }
  std::string position() const {
    if (name_.empty() && field_.empty()) return "the header";
    if (is_metadata() && !field_.empty()) return "__metadata__ field " + in_quotes(field_);
    return "tensor " + in_quotes(name_) + (field_.empty() ? "" : ", field " + in_quotes(field_));
  }
  [[noreturn]] void unexpected(const Json& found, const std::string& wanted) const {
    refuse(where_, position(), ": ", described(found), " where ", wanted, " should be");
  }

  const std::string& where_;
  Header header_;
  std::string name_, field_;  ///< of the entry and of its field that is read
  std::set<std::string> seen_;
  std::size_t numbers_ = 0;
  bool metadata_seen_ = false, is_known_ = false;
};

/// Checks one entry: the offsets must be in order, inside the data, and as far apart as the shape needs.
void check_entry(const HeaderEntry& entry, std::uint64_t data_bytes, const std::string& where) {
  const std::string tensor = "tensor " + in_quotes(entry.name);
  const std::string range = std::to_string(entry.begin) + " to " + std::to_string(entry.end);
  if (entry.begin > entry.end) refuse(where, tensor, ", field 'data_offsets': ", range, " runs backwards");
  if (entry.end > data_bytes)
    refuse(where, tensor, ", field 'data_offsets': ", range, " reaches beyond the ", data_bytes,
           " bytes of data in the file");
  if (!entry.other_type.empty()) return;
  const auto bytes = bytes_of(entry.type, entry.shape);
  if (!bytes) refuse(where, tensor, ", field 'shape': the size is larger than any memory");
  if (*bytes != entry.end - entry.begin)
    refuse(where, tensor, ": its shape takes ", *bytes, " bytes, its 'data_offsets' hold ", entry.end - entry.begin);
}

/// Sorts entries by their data, which they must cover exactly once.
void check_layout(std::vector<HeaderEntry>& entries, std::uint64_t data_bytes, const std::string& where) {
  std::ranges::sort(entries, [](const HeaderEntry& a, const HeaderEntry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::uint64_t position = 0;
  for (const HeaderEntry& entry : entries) {
    if (entry.begin != position)
      refuse(where, "tensor ", in_quotes(entry.name), ", field 'data_offsets': begins at ", entry.begin,
             entry.begin < position ? ", overlapping" : ", with a gap behind", " the tensor before it, which ends at ",
             position);
    position = entry.end;
  }
  if (position != data_bytes) refuse(where, data_bytes - position, " bytes at the end belong to no tensor");
}

void check_names(const std::vector<HeaderEntry>& entries, const std::string& where) {
  std::vector<std::string_view> names;
  names.reserve(entries.size());
  for (const HeaderEntry& entry : entries) names.push_back(entry.name);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice != names.end()) refuse(where, "tensor ", in_quotes(*twice), " is there twice");
}

}  // namespace

void check_header_length(std::uint64_t length, std::uint64_t file_bytes, const std::string& where) {
  std::uint64_t pointer = 0;
  std::memcpy(&pointer, lfs_pointer.data(), sizeof pointer);
  if (length == pointer) refuse_lfs_pointer(where);
  if (file_bytes < header_length_bytes)
    refuse(where, "with ", bytes_text(static_cast<std::int64_t>(file_bytes)), " it is too short for a header");
  if (length > file_bytes - header_length_bytes)
    refuse(where, "the header's length of ", length, " bytes does not fit into the ", file_bytes,
           " bytes of the file, so this is no safetensors file or a part of one");
  if (length > longest_header) refuse(where, "the header is longer than ", bytes_text(longest_header));
}

std::string_view header_text(std::span<const std::byte> file, const std::string& where) {
  const std::uint64_t length = little_endian(file.first(std::min<std::size_t>(file.size(), header_length_bytes)));
  check_header_length(length, file.size(), where);
  const Bytes text = part_of(file, header_length_bytes, length, where);
  return {reinterpret_cast<const char*>(text.data()), text.size()};
}

Header parse_header(std::string_view text, std::uint64_t data_bytes, const std::string& where) {
  Header header = HeaderReader(where).read(text);
  for (const HeaderEntry& entry : header.entries) check_entry(entry, data_bytes, where);
  check_names(header.entries, where);
  check_layout(header.entries, data_bytes, where);
  return header;
}

// Makes no JSON array or object: their destructors allocate, which without memory would end the program before it has
// written a snapshot.
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
  for (const HeaderEntry& entry : header.entries)
    result += escaped(entry.name) + ":{\"dtype\":\"" + name_of(entry.type) + "\",\"shape\":" + listed(entry.shape) +
              ",\"data_offsets\":[" + std::to_string(entry.begin) + "," + std::to_string(entry.end) + "]},";
  if (result.back() == ',') result.pop_back();
  result += '}';
  result.append((8 - result.size() % 8) % 8, ' ');
  return result;
}

}  // namespace afterglow
