// Structs of settings as JSON objects: one list names their fields, for reading and for writing.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "core/io/json_file.h"

namespace afterglow {

/// One field of a struct, which lists them as `static constexpr ConfigField<Config> fields[]`, and whose `command` (the
/// command that sets it) begins messages.
template <class Config>
struct ConfigField {
  const char* name;
  std::variant<int Config::*, std::int64_t Config::*, double Config::*, bool Config::*, std::string Config::*> member;
  double least = 0, most = 0;  ///< of a number
};

/// Fields that are absent in `value` keep what `config` has. Throws Error(bad_input) as the getters of json_file.h do,
/// and for a field that is neither one of the struct's nor of the `others`, which the caller reads.
template <class Config>
Config read_fields_among(std::vector<std::string> others, const nlohmann::json& value, Config config) {
  for (const ConfigField<Config>& field : Config::fields) others.emplace_back(field.name);
  refuse_unknown_keys(value, others, Config::command);
  for (const ConfigField<Config>& field : Config::fields) {
    const auto read = [&](auto member) {
      auto& now = config.*member;
      using Value = std::decay_t<decltype(now)>;
      if constexpr (std::is_same_v<Value, bool>) {
        now = get_bool(value, field.name, now, Config::command);
      } else if constexpr (std::is_same_v<Value, std::string>) {
        now = get_string(value, field.name, now, Config::command);
      } else if constexpr (std::is_same_v<Value, double>) {
        now = get_number(value, field.name, now, field.least, field.most, Config::command);
      } else {
        const auto least = static_cast<std::int64_t>(field.least), most = static_cast<std::int64_t>(field.most);
        now = static_cast<Value>(get_integer(value, field.name, now, least, most, Config::command));
      }
    };
    std::visit(read, field.member);
  }
  return config;
}
template <class Config>
Config read_fields(const nlohmann::json& value, const Config& config) {
  return read_fields_among({}, value, config);
}

/// All fields.
template <class Config>
requires requires { Config::fields; }
nlohmann::json to_json(const Config& config) {
  nlohmann::json value;
  for (const ConfigField<Config>& field : Config::fields)
    std::visit([&](auto member) { value[field.name] = config.*member; }, field.member);
  return value;
}

}  // namespace afterglow
