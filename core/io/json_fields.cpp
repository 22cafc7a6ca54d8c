// Reads single fields of a JSON object and says what is wrong with them.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/io/error.h"
#include "core/io/json_file.h"
#include "core/io/number_text.h"

namespace afterglow {
namespace {

using Json = nlohmann::json;

std::string shown(const Json& value) {
  if (value.is_string()) return in_quotes(value.get_ref<const std::string&>());
  if (value.is_structured()) return value.is_array() ? "a list" : "an object";
  return value.dump();
}

[[noreturn]] void refuse(const std::string& where, const std::string& key, const Json& value,
                         const std::string& expected) {
  throw Error(ExitCode::bad_input,
              where + ": field '" + key + "' is " + shown(value) + " where " + expected + " should be; change it");
}

/// The field, or nullptr where the fallback holds.
const Json* field_of(const Json& object, const std::string& key, bool has_fallback, const std::string& where) {
  if (!object.is_object()) {
    throw Error(ExitCode::bad_input,
                where + ": " + shown(object) + " where an object with fields should be; change it");
  }
  const auto found = object.find(key);
  if (found != object.end()) return &*found;
  if (has_fallback) return nullptr;
  std::vector<std::string> present;
  for (const auto& item : object.items()) present.push_back(item.key());
  throw Error(ExitCode::bad_input, where + ": field '" + key + "' is missing; add it" + did_you_mean(key, present));
}

std::string range_of(const std::string& kind, const std::string& min, const std::string& max, bool has_min,
                     bool has_max) {
  if (has_min && has_max) return kind + " from " + min + " to " + max;
  if (has_min) return kind + " of at least " + min;
  if (has_max) return kind + " of at most " + max;
  return kind;
}

}  // namespace

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
  std::optional<std::int64_t> value;
  if (field->is_number_unsigned()) {
    const auto number = field->get<std::uint64_t>();
    if (number <= static_cast<std::uint64_t>(INT64_MAX)) value = static_cast<std::int64_t>(number);
  } else if (field->is_number_integer()) {
    value = field->get<std::int64_t>();
  } else if (field->is_number_float()) {
    const double number = field->get<double>();
    if (number == std::floor(number) && std::abs(number) < 0x1p63) value = static_cast<std::int64_t>(number);
  }
  if (value && *value >= min && *value <= max) return *value;
  refuse(where, key, *field,
         range_of("a whole number", std::to_string(min), std::to_string(max), min > INT64_MIN, max < INT64_MAX));
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
  if (std::find(allowed.begin(), allowed.end(), word) != allowed.end()) return word;
  std::string list;
  for (const std::string& choice : allowed) list += (list.empty() ? "'" : ", '") + choice + "'";
  throw Error(ExitCode::bad_input, where + ": field '" + key + "' is " + shown(*field) + " where one of " + list +
                                       " should be" + did_you_mean(word, allowed));
}

void warn_unknown_keys(const Json& object, const std::vector<std::string>& known, const std::string& where,
                       std::vector<std::string>& warnings) {
  if (!object.is_object()) return;
  for (const auto& item : object.items()) {
    if (std::find(known.begin(), known.end(), item.key()) != known.end()) continue;
    warnings.push_back(where + ": unknown field " + in_quotes(item.key()) + " is kept and has no effect" +
                       did_you_mean(item.key(), known));
  }
}

void refuse_unknown_keys(const Json& object, const std::vector<std::string>& known, const std::string& where) {
  if (!object.is_object()) throw Error(ExitCode::bad_input, where + ": expected an object with fields in braces");
  for (const auto& item : object.items()) {
    if (std::find(known.begin(), known.end(), item.key()) != known.end()) continue;
    std::string names;
    for (const std::string& name : known) names += (names.empty() ? "" : ", ") + name;
    throw Error(ExitCode::bad_input, where + ": there is no field " + in_quotes(item.key()) +
                                         did_you_mean(item.key(), known) + "; there are " + names);
  }
}

}  // namespace afterglow
