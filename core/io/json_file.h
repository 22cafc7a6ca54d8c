// JSON files within limits, and fields read from them, with messages that name field, value and allowed values.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/io/error.h"
#include "core/io/wording.h"

namespace afterglow {

struct JsonLimits {
  std::size_t bytes = std::size_t{16} << 20;
  int depth = 64;  ///< lists and objects inside each other
};

/// Throws Error(bad_input) with line and column for text that is not JSON, nests too deeply, or is too large, and for a
/// field that occurs twice in one object.
nlohmann::json read_json(const std::filesystem::path& path, const JsonLimits& limits = {});
/// The same from text; `where` names its source in messages.
nlohmann::json parse_json(std::string_view text, const std::string& where, const JsonLimits& limits = {});

/// Replaces Python's Infinity and NaN, which JSON does not have, by objects {"__float__": "NaN"}.
std::string with_json_numbers(const std::string& text);

/// Indented by two, written atomically. Throws Error(failure) for text that is not UTF-8.
void write_json(const std::filesystem::path& path, const nlohmann::json& json);

/// A number, or "nan", "inf", "-inf" as a string, since JSON has no such numbers.
nlohmann::json json_number(double value);

/// The getters below read field `key` of `object`. A missing field gives the fallback, or Error(bad_input) without one;
/// a field of another kind or outside the range is an Error(bad_input). `where` begins the
/// messages, e.g. "tiny.json, training". Ranges include their ends; infinite ends are no limit.
double get_number(const nlohmann::json& object, const std::string& key, std::optional<double> fallback, double min,
                  double max, const std::string& where);
/// Whole numbers, also when written as 3.0.
std::int64_t get_integer(const nlohmann::json& object, const std::string& key, std::optional<std::int64_t> fallback,
                         std::int64_t min, std::int64_t max, const std::string& where);
/// One whole number, a list of 1 to 1024 of them, or a range that is written "1..8" and includes its ends. Required.
std::vector<std::int64_t> get_integers(const nlohmann::json& object, const std::string& key, std::int64_t min,
                                       std::int64_t max, const std::string& where);
bool get_bool(const nlohmann::json& object, const std::string& key, std::optional<bool> fallback,
              const std::string& where);
std::string get_string(const nlohmann::json& object, const std::string& key, std::optional<std::string> fallback,
                       const std::string& where);
/// One of `allowed`; for another word the nearest is suggested.
std::string get_choice(const nlohmann::json& object, const std::string& key, const std::vector<std::string>& allowed,
                       std::optional<std::string> fallback, const std::string& where);

/// The same, as the enumerator with the word's place among them.
template <class Enum>
Enum get_enum(const nlohmann::json& object, const std::string& key, const std::vector<std::string>& words,
              Enum fallback, const std::string& where) {
  const std::string word = get_choice(object, key, words, words[static_cast<std::size_t>(fallback)], where);
  return static_cast<Enum>(std::ranges::find(words, word) - words.begin());
}

/// Reads the fields of an object, by functions as those above, and knows which were read. As the base of a
/// configuration it lets members read themselves, so that each field is written once:
///
///     struct Config : JsonFields {
///       explicit Config(const nlohmann::json& object) : JsonFields(object, "mamba") { refuse_others(); }
///       std::int64_t width = integer("d_model", {}, 1, 65536);
///     };
class JsonFields {
 public:
  JsonFields(const nlohmann::json& object, std::string where) : object_(&object), where_(std::move(where)) {}
  /// The field, or null without it; counts as read.
  const nlohmann::json* find(const std::string& key);
  bool has(const std::string& key) { return find(key) != nullptr; }
  double number(const std::string& key, std::optional<double> fallback, double min, double max);
  std::int64_t integer(const std::string& key, std::optional<std::int64_t> fallback, std::int64_t min,
                       std::int64_t max);
  bool flag(const std::string& key, std::optional<bool> fallback);
  std::string text(const std::string& key, std::optional<std::string> fallback);
  std::string word(const std::string& key, const std::vector<std::string>& allowed, const std::string& fallback);
  template <class Enum>
  Enum choice(const std::string& key, const std::vector<std::string>& words, Enum fallback) {
    const std::string one = word(key, words, words[static_cast<std::size_t>(fallback)]);
    return static_cast<Enum>(std::ranges::find(words, one) - words.begin());
  }
  /// Throws Error(bad_input) for the first field that was not read. Nothing is read afterwards.
  void refuse_others();
  /// Throws Error(bad_input) of parts as `concat` takes them, after the name of the object.
  template <class... Problem>
  [[noreturn]] void refuse(const Problem&... problem) const {
    throw BadInput(where_, problem...);
  }
  const std::string& where() const { return where_; }

 private:
  const nlohmann::json* object_;
  std::string where_;
  std::vector<std::string> read_;
};

/// Throws Error(bad_input) for the first field of `object` that is not in `known`: a misspelt setting must not be
/// ignored. Also for a value that is not an object.
void refuse_unknown_keys(const nlohmann::json& object, const std::vector<std::string>& known, const std::string& where);

}  // namespace afterglow
