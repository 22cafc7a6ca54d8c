// Reads config.json: Python's extra numbers, nulls, typed fields.
#include <algorithm>
#include <cmath>
#include <sstream>

#include "core/io/atomic_file.h"
#include "core/io/error.h"
#include "core/io/json.h"
#include "core/io/json_file.h"
#include "core/models/checkpoints/model_plan.h"
#include "core/models/model.h"

namespace afterglow {
namespace {

constexpr std::size_t largest_config = std::size_t{4} << 20;

void erase_nulls(json& value) {
  for (auto field = value.begin(); value.is_object() && field != value.end();)
    field = field->is_null() ? value.erase(field) : std::next(field);
  if (!value.is_structured()) return;
  for (json& one : value) erase_nulls(one);
}
}  // namespace

json read_config_json(const std::filesystem::path& path) {
  json config = parse_json(with_json_numbers(read_file(path, largest_config)), path.string());
  if (!config.is_object()) throw BadInput(path.string(), ": it holds no object; give the config.json of the model");
  erase_nulls(config);
  return config;
}

const json& ConfigFields::field(const char* name) const {
  read_->insert(prefix_ + name);
  return *config_;
}

std::vector<std::string> ConfigFields::unread(const std::string& harmless) const {
  std::vector<std::string> names;
  for (const auto& [name, value] : config_->items()) {
    const std::string whole = prefix_ + name, inside = whole + ".";
    if (!read_->contains(whole) && (" " + harmless + " ").find(" " + whole + " ") == std::string::npos)
      names.push_back(whole);
    const auto first = read_->lower_bound(inside);
    if (!value.is_object() || first == read_->end() || !first->starts_with(inside)) continue;
    const std::vector<std::string> parts = part(name.c_str()).unread(harmless);
    names.insert(names.end(), parts.begin(), parts.end());
  }
  return names;
}

ConfigFields ConfigFields::filled(const json& fields) const {
  ConfigFields other = *this;
  other.config_ = &fields;
  return other;
}

std::int64_t ConfigFields::integer(const char* name, std::optional<std::int64_t> fallback) const {
  return get_integer(field(name), name, fallback, 1, std::int64_t{1} << 24, where_);
}

std::int64_t ConfigFields::count(const char* name) const {
  return get_integer(field(name), name, std::nullopt, 0, std::int64_t{1} << 24, where_);
}

std::int64_t ConfigFields::layers() const {
  return get_integer(field("num_hidden_layers"), "num_hidden_layers", std::nullopt, 1, max_blocks, where_);
}

double ConfigFields::number_in(const json& value, const char* name) const {
  if (value.is_number()) return value.get<double>();
  const json word = value.is_object() ? value.value("__float__", json()) : value;
  if (word == "Infinity" || word == "inf") return INFINITY;
  if (word == "-Infinity" || word == "-inf") return -INFINITY;
  refuse(name, "a number is expected; correct it");
}

double ConfigFields::number(const char* name, double fallback) const {
  return has(name) ? number_in((*config_)[name], name) : fallback;
}

bool ConfigFields::flag(const char* name, bool fallback) const { return get_bool(field(name), name, fallback, where_); }

std::string ConfigFields::text(const char* name, const char* fallback) const {
  return get_string(field(name), name, fallback, where_);
}

std::vector<std::string> ConfigFields::layer_words(const char* name) const {
  if (!has(name)) return {};
  const json& list = (*config_)[name];
  const bool are_words =
      list.is_array() && std::ranges::all_of(list, [](const json& word) { return word.is_string(); });
  if (!are_words || list.size() != static_cast<std::size_t>(layers()))
    refuse(name, "a list with a word for each of the ", layers(), " layers is expected; correct it");
  return list.get<std::vector<std::string>>();
}

ConfigFields ConfigFields::part(const char* name) const {
  static const json nothing = json::object();
  const bool is_there = has(name);
  if (is_there && !(*config_)[name].is_object()) refuse(name, "an object is expected; correct it");
  ConfigFields own = filled(is_there ? (*config_)[name] : nothing);
  own.where_ += std::string(", ") + name;
  own.prefix_ += std::string(name) + ".";
  return own;
}

void ConfigFields::skip(const std::string& names) const {
  std::istringstream words(names);
  for (std::string word; words >> word;) read_->insert(prefix_ + word);
}

std::pair<double, double> ConfigFields::range(const char* name, std::pair<double, double> fallback) const {
  if (!has(name)) return fallback;
  const json& ends = (*config_)[name];
  if (!ends.is_array() || ends.size() != 2) refuse(name, "two numbers are expected; correct it");
  const std::pair<double, double> range{number_in(ends[0], name), number_in(ends[1], name)};
  if (!(range.first <= range.second)) refuse(name, "the first end must not lie above the second; correct it");
  return range;
}

}  // namespace afterglow
