// Parses JSON with positions in its messages, reads single fields of an object, with messages for wrong ones, and
// writes JSON.
#include "core/io/json_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "core/io/atomic_file.h"
#include "core/io/error.h"
#include "core/io/named.h"
#include "core/io/number_text.h"

namespace afterglow {
namespace {

using Json = nlohmann::json;

/// "settings.json, line 3, column 14" for the byte at `offset`.
std::string place_of(std::string_view text, std::size_t offset, const std::string& where) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = 1 + std::ranges::count(before, '\n');
  const std::size_t line_start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  return where + ", line " + std::to_string(line) + ", column " + std::to_string(before.size() - line_start + 1);
}

/// Counts brackets outside of strings before anything is built, so that deep nesting costs nothing.
void check_depth(std::string_view text, const std::string& where, int limit) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\') {
      ++i;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string && (c == '[' || c == '{') && ++depth > limit) {
      throw BadInput(place_of(text, i, where), ": more than ", limit,
                     " lists and objects inside each other; make it flatter");
    } else if (!in_string && (c == ']' || c == '}')) {
      --depth;
    }
  }
}

/// The library's sentence without its own prefix "[json.exception...] parse error at line 1, column 2: ".
std::string reason_of(const Json::exception& error) {
  std::string text = error.what();
  const std::size_t prefix = text.find("] ");
  if (prefix != std::string::npos) text.erase(0, prefix + 2);
  const std::size_t position = text.find(": ");
  if (text.starts_with("parse error") && position != std::string::npos) text.erase(0, position + 2);
  constexpr std::size_t longest = 200;  // it quotes the last token, which may be long
  return text.size() > longest ? text.substr(0, longest) + "..." : text;
}

/// Finds a field that occurs twice in one object; the library would silently keep the last one.
class DuplicateFinder {
 public:
  explicit DuplicateFinder(const std::string& where) : where_(where) {}

  bool operator()(int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) objects_.emplace_back();
    if (event == Json::parse_event_t::object_end) objects_.pop_back();
    if (event == Json::parse_event_t::key && !objects_.back().insert(parsed.get<std::string>()).second)
      throw BadInput(where_, ": field ", in_quotes(parsed.get_ref<const std::string&>()),
                     " is there twice in one object; remove one");
    return true;
  }

 private:
  const std::string& where_;
  std::vector<std::set<std::string>> objects_;
};

std::string shown(const Json& value) {
  if (value.is_string()) return in_quotes(value.get_ref<const std::string&>());
  if (value.is_structured()) return value.is_array() ? "a list" : "an object";
  if (value.is_number_float()) return shortest(value.get<double>());  // the library writes infinities as null
  return value.dump();
}

[[noreturn]] void refuse(const std::string& where, const std::string& key, const Json& value,
                         const std::string& expected) {
  throw BadInput(where, ": field '", key, "' is ", shown(value), " where ", expected, " should be; change it");
}

/// The field, or nullptr where the fallback applies.
const Json* field_of(const Json& object, const std::string& key, bool has_fallback, const std::string& where) {
  if (!object.is_object())
    throw BadInput(where, ": ", shown(object), " where an object with fields should be; change it");
  const auto found = object.find(key);
  if (found != object.end()) return &*found;
  if (has_fallback) return nullptr;
  const auto present = names_of(object.items(), [](const auto& item) { return item.key(); });
  throw BadInput(where, ": field '", key, "' is missing; add it", did_you_mean(key, present));
}

std::string range_of(const std::string& kind, const std::string& min, const std::string& max, bool has_min,
                     bool has_max) {
  if (has_min && has_max) return kind + " from " + min + " to " + max;
  if (has_min) return kind + " of at least " + min;
  if (has_max) return kind + " of at most " + max;
  return kind;
}

std::string integer_range(std::int64_t min, std::int64_t max) {
  return range_of("a whole number", std::to_string(min), std::to_string(max), min > INT64_MIN, max < INT64_MAX);
}

/// The value as a whole number within the range, also when written as 3.0; else nullopt.
std::optional<std::int64_t> integer_of(const Json& value, std::int64_t min, std::int64_t max) {
  std::int64_t number = 0;
  if (value.is_number_unsigned()) {
    const auto wide = value.get<std::uint64_t>();
    if (wide > static_cast<std::uint64_t>(INT64_MAX)) return std::nullopt;
    number = static_cast<std::int64_t>(wide);
  } else if (value.is_number_integer()) {
    number = value.get<std::int64_t>();
  } else if (value.is_number_float()) {
    const double real = value.get<double>();
    if (real != std::floor(real) || !(std::abs(real) < 0x1p63)) return std::nullopt;
    number = static_cast<std::int64_t>(real);
  } else {
    return std::nullopt;
  }
  return number >= min && number <= max ? std::optional(number) : std::nullopt;
}

/// The ends of "1..8", or nullopt for another text.
std::optional<std::pair<std::int64_t, std::int64_t>> ends_of_range(std::string_view text) {
  const std::size_t dots = text.find("..");
  if (dots == std::string_view::npos) return std::nullopt;
  const auto first = parse_whole_number(text.substr(0, dots)), last = parse_whole_number(text.substr(dots + 2));
  return first && last ? std::optional(std::pair(*first, *last)) : std::nullopt;
}

/// The entries of a list or range; empty where one of them is wrong.
std::vector<std::int64_t> integers_of(const Json& value, std::int64_t min, std::int64_t max) {
  constexpr std::size_t longest_list = 1024;
  std::vector<std::int64_t> numbers;
  if (value.is_string()) {
    const auto ends = ends_of_range(value.get_ref<const std::string&>());
    if (!ends || ends->first < min || ends->second > max) return {};
    for (std::int64_t number = ends->first; number <= ends->second; ++number) numbers.push_back(number);
    return numbers;
  }
  const Json list = value.is_array() ? value : Json::array({value});
  if (list.size() > longest_list) return {};
  for (const Json& entry : list) {
    const auto number = integer_of(entry, min, max);
    if (!number) return {};
    numbers.push_back(*number);
  }
  return numbers;
}

}  // namespace

std::string with_json_numbers(const std::string& text) {
  static constexpr std::array<std::string_view, 3> words{"-Infinity", "Infinity", "NaN"};
  std::string result;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') in_string = !in_string;
    if (in_string && text[i] == '\\') result += text[i++];
    const auto word =
        std::ranges::find_if(words, [&](std::string_view w) { return text.compare(i, w.size(), w) == 0; });
    if (in_string || word == words.end()) {
      if (i < text.size()) result += text[i];
      continue;
    }
    result += "{\"__float__\": \"" + std::string(*word) + "\"}";
    i += word->size() - 1;
  }
  return result;
}

Json parse_json(std::string_view text, const std::string& where, const JsonLimits& limits) {
  if (text.size() > limits.bytes)
    throw BadInput(where, " holds more than the ", bytes_text(static_cast<std::int64_t>(limits.bytes)),
                   " that are read here; choose a smaller file");
  check_depth(text, where, limits.depth);
  try {
    DuplicateFinder finder(where);
    return Json::parse(text.begin(), text.end(), std::ref(finder));
  } catch (const Json::parse_error& error) {
    throw BadInput(place_of(text, error.byte > 0 ? error.byte - 1 : 0, where), ": this is not JSON: ", reason_of(error),
                   "; correct it there");
  } catch (const Json::exception& error) {
    throw BadInput(where, ": ", reason_of(error), "; correct it");
  }
}

Json read_json(const std::filesystem::path& path, const JsonLimits& limits) {
  return parse_json(read_file(path, limits.bytes), path.string(), limits);
}

void write_json(const std::filesystem::path& path, const Json& json) {
  std::string text;
  try {
    text = json.dump(2) + "\n";
  } catch (const Json::exception&) {
    throw Error(ExitCode::failure, "cannot write ", path.string(), ": a text in it is not UTF-8; correct it");
  }
  write_file_atomically(path, text);
}

Json json_number(double value) { return std::isfinite(value) ? Json(value) : Json(shortest(value)); }

double get_number(const Json& object, const std::string& key, std::optional<double> fallback, double min, double max,
                  const std::string& where) {
  const Json* field = field_of(object, key, fallback.has_value(), where);
  if (!field) return *fallback;
  const double value = field->is_number() ? field->get<double>() : NAN;
  if (value >= min && value <= max) return value;
  refuse(where, key, *field,
         range_of("a number", shortest(min), shortest(max), std::isfinite(min), std::isfinite(max)));
}

std::int64_t get_integer(const Json& object, const std::string& key, std::optional<std::int64_t> fallback,
                         std::int64_t min, std::int64_t max, const std::string& where) {
  const Json* field = field_of(object, key, fallback.has_value(), where);
  if (!field) return *fallback;
  if (const auto value = integer_of(*field, min, max)) return *value;
  refuse(where, key, *field, integer_range(min, max));
}

std::vector<std::int64_t> get_integers(const Json& object, const std::string& key, std::int64_t min, std::int64_t max,
                                       const std::string& where) {
  const Json& field = *field_of(object, key, false, where);
  std::vector<std::int64_t> numbers = integers_of(field, min, max);
  if (!numbers.empty()) return numbers;
  refuse(where, key, field, integer_range(min, max) + ", a list of them, or a range such as '1..8'");
}

bool get_bool(const Json& object, const std::string& key, std::optional<bool> fallback, const std::string& where) {
  const Json* field = field_of(object, key, fallback.has_value(), where);
  if (!field) return *fallback;
  if (!field->is_boolean()) refuse(where, key, *field, "true or false");
  return field->get<bool>();
}

std::string get_string(const Json& object, const std::string& key, std::optional<std::string> fallback,
                       const std::string& where) {
  const Json* field = field_of(object, key, fallback.has_value(), where);
  if (!field) return *fallback;
  if (!field->is_string()) refuse(where, key, *field, "a text in quotes");
  return field->get<std::string>();
}

std::string get_choice(const Json& object, const std::string& key, const std::vector<std::string>& allowed,
                       std::optional<std::string> fallback, const std::string& where) {
  const Json* field = field_of(object, key, fallback.has_value(), where);
  if (!field) return *fallback;
  const std::string word = field->is_string() ? field->get<std::string>() : "";
  if (std::ranges::find(allowed, word) != allowed.end()) return word;
  const std::string list = "'" + joined(allowed, "', '") + "'";
  throw BadInput(where, ": field '", key, "' is ", shown(*field), " where one of ", list, " should be",
                 did_you_mean(word, allowed));
}

void refuse_unknown_keys(const Json& object, const std::vector<std::string>& known, const std::string& where) {
  if (!object.is_object()) throw BadInput(where, ": expected an object with fields in braces");
  for (const auto& item : object.items()) {
    if (std::ranges::find(known, item.key()) != known.end()) continue;
    throw BadInput(where, ": there is no field ", in_quotes(item.key()), which_there_are(item.key(), known));
  }
}

const Json* JsonFields::find(const std::string& key) {
  read_.push_back(key);
  return object_->is_object() && object_->contains(key) ? &(*object_)[key] : nullptr;
}

double JsonFields::number(const std::string& key, std::optional<double> fallback, double min, double max) {
  read_.push_back(key);
  return get_number(*object_, key, fallback, min, max, where_);
}

std::int64_t JsonFields::integer(const std::string& key, std::optional<std::int64_t> fallback, std::int64_t min,
                                 std::int64_t max) {
  read_.push_back(key);
  return get_integer(*object_, key, fallback, min, max, where_);
}

bool JsonFields::flag(const std::string& key, std::optional<bool> fallback) {
  read_.push_back(key);
  return get_bool(*object_, key, fallback, where_);
}

std::string JsonFields::text(const std::string& key, std::optional<std::string> fallback) {
  read_.push_back(key);
  return get_string(*object_, key, std::move(fallback), where_);
}

std::string JsonFields::word(const std::string& key, const std::vector<std::string>& allowed,
                             const std::string& fallback) {
  read_.push_back(key);
  return get_choice(*object_, key, allowed, fallback, where_);
}

void JsonFields::refuse_others() {
  refuse_unknown_keys(*object_, read_, where_);
  read_.clear();
}

}  // namespace afterglow
