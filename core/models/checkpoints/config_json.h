// config.json as Python writes it, with Infinity and NaN, and its fields.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace afterglow {

/// Reads it: a bare Infinity or NaN becomes {"__float__": "Infinity"}, as newer libraries write it; null counts as
/// missing. Throws Error(bad_input) with line and column.
nlohmann::json read_config_json(const std::filesystem::path& path);

/// The fields of a config.json by their own names. A missing field gives the library's default.
class ConfigFields {
 public:
  ConfigFields(const nlohmann::json& config, std::string where) : config_(&config), where_(std::move(where)) {}
  const std::string& where() const { return where_; }
  const nlohmann::json& fields() const { return *config_; }

  std::int64_t integer(const char* name, std::optional<std::int64_t> fallback) const;
  std::int64_t count(const char* name) const;  ///< an integer that may be 0 and must be there
  /// Number of layers of the whole model, from num_hidden_layers.
  std::int64_t layers() const;
  double number(const char* name, double fallback) const;  ///< also infinite
  bool flag(const char* name, bool fallback) const;
  std::string text(const char* name, const char* fallback) const;
  bool has(const char* name) const { return field(name).contains(name); }
  /// A list of words, one for each layer; empty where the field is missing.
  std::vector<std::string> layer_words(const char* name) const;
  /// An object under a name, with its own fields; an empty one where it is missing.
  ConfigFields part(const char* name) const;
  /// Marks the words of a list as read: fields that change no output.
  void skip(const std::string& names) const;
  /// Two numbers, the ends of a range, which may be infinite.
  std::pair<double, double> range(const char* name, std::pair<double, double> fallback) const;
  /// Throws Error(bad_input) for a field that needs something that Afterglow does not have; `why` says what to do.
  [[noreturn]] void refuse(const char* name, const std::string& why) const;
  /// The fields that no function above has read and that are not among the words of `harmless`.
  std::vector<std::string> unread(const std::string& harmless) const;

 private:
  /// The whole object; remembers that `name` was read.
  const nlohmann::json& field(const char* name) const;
  double number_in(const nlohmann::json& value, const char* name) const;
  const nlohmann::json* config_;
  mutable std::set<std::string> read_;
  std::string where_;
};

}  // namespace afterglow
