// Reading of task configurations: types, ranges, lists and ranges, and the sentences for what is wrong.
#include "core/tasks/fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/io/error.h"
#include "core/io/wording.h"

namespace afterglow {
namespace {

std::string plain(double number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

std::string joined(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : ", ") + word;
  return all;
}

// A value as it stands in the file, cut to a line; bytes that are no UTF-8 are replaced, not thrown over.
std::string shown(const nlohmann::json& value) {
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return text.size() > 60 ? text.substr(0, 57) + "..." : text;
}

// Parses a whole number that fills all of `text`.
bool parse_whole(const std::string& text, int& number) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

}  // namespace

std::string accepted_values(const TaskParameter& parameter) {
  const std::string bounds = " from " + plain(parameter.minimum) + " to " + plain(parameter.maximum);
  switch (parameter.type) {
    case TaskParameter::Type::integer:
      return "a whole number" + bounds;
    case TaskParameter::Type::integers:
      return "a whole number" + bounds + ", a list of them, or a range such as \"1..8\"";
    case TaskParameter::Type::number:
      return "a number" + bounds;
    case TaskParameter::Type::choice:
      return "one of " + joined(parameter.choices);
    case TaskParameter::Type::text:
      return "a text that is not empty";
    case TaskParameter::Type::tasks:
      return "a list of task configurations or kinds";
  }
  return {};
}

Fields::Fields(const TaskInfo& info, const nlohmann::json& config) : info_(info), config_(config) {
  if (!config.is_object()) refuse("the configuration is " + shown(config) + ", but it must be an object.");
  for (const auto& item : config.items()) {
    const auto is_it = [&](const TaskParameter& known) { return known.name == item.key(); };
    if (item.key() == "kind" || std::any_of(info.parameters.begin(), info.parameters.end(), is_it)) continue;
    std::vector<std::string> names;
    for (const TaskParameter& known : info.parameters) names.push_back(known.name);
    const std::string guess = did_you_mean(item.key(), names);
    refuse("there is no field " + in_quotes(item.key()) + (guess.empty() ? "." : guess) + " Its fields are " +
           joined(names) + ".");
  }
}

bool Fields::given(const std::string& name) const { return config_.contains(name); }

int Fields::integer(const std::string& name) const { return checked(parameter(name), value(name)); }

std::vector<int> Fields::integers(const std::string& name) const {
  constexpr std::size_t longest_list = 1024;
  const TaskParameter& wanted = parameter(name);
  const nlohmann::json found = value(name);
  if (found.is_string()) return range(wanted, found.get<std::string>());
  if (!found.is_array()) return {checked(wanted, found)};
  if (found.empty() || found.size() > longest_list) refuse_value(wanted, shown(found));
  std::vector<int> numbers;
  for (const nlohmann::json& one : found) numbers.push_back(checked(wanted, one));
  return numbers;
}

std::vector<int> Fields::integers_or(const std::string& name, std::vector<int> otherwise) const {
  return given(name) ? integers(name) : std::move(otherwise);
}

int Fields::length_or(std::int64_t smallest, const std::string& reason) const {
  const TaskParameter& wanted = parameter("length");
  if (!given("length") && smallest > wanted.maximum) refuse(reason + " needs more than the longest length there is.");
  const int length = given("length") ? integer("length") : static_cast<int>(smallest);
  require_length(length, smallest, reason);
  return length;
}

double Fields::number(const std::string& name) const {
  const TaskParameter& wanted = parameter(name);
  const nlohmann::json found = value(name);
  if (!found.is_number()) refuse_value(wanted, shown(found));
  const double number = found.get<double>();
  if (!(number >= wanted.minimum && number <= wanted.maximum)) refuse_value(wanted, plain(number));
  return number;
}

std::string Fields::choice(const std::string& name) const {
  const TaskParameter& wanted = parameter(name);
  const nlohmann::json found = value(name);
  if (!found.is_string() ||
      std::find(wanted.choices.begin(), wanted.choices.end(), found.get<std::string>()) == wanted.choices.end())
    refuse_value(wanted, shown(found));
  return found.get<std::string>();
}

std::string Fields::text(const std::string& name) const {
  const nlohmann::json found = value(name);
  if (!found.is_string() || found.get<std::string>().empty()) refuse_value(parameter(name), shown(found));
  return found.get<std::string>();
}

void Fields::require_length(int length, std::int64_t smallest, const std::string& reason) const {
  if (length >= smallest) return;
  refuse(reason + " needs a length of at least " + std::to_string(smallest) + ", but 'length' is " +
         std::to_string(length) + ". Make it " + std::to_string(smallest) + " or more, or ask for less.");
}

void Fields::refuse(const std::string& problem) const {
  throw Error(ExitCode::bad_input, "Task '" + info_.kind + "': " + problem);
}

const TaskParameter& Fields::parameter(const std::string& name) const {
  const auto is_it = [&](const TaskParameter& known) { return known.name == name; };
  const auto found = std::find_if(info_.parameters.begin(), info_.parameters.end(), is_it);
  if (found == info_.parameters.end()) throw std::logic_error("task kind without parameter " + name);
  return *found;
}

nlohmann::json Fields::value(const std::string& name) const {
  if (given(name)) return config_.at(name);
  const TaskParameter& wanted = parameter(name);
  if (wanted.fallback.empty()) refuse("the field '" + name + "' is missing. Give " + accepted_values(wanted) + ".");
  return nlohmann::json::parse(wanted.fallback);
}

int Fields::checked(const TaskParameter& wanted, const nlohmann::json& found) const {
  if (!found.is_number()) refuse_value(wanted, shown(found));
  const double number = found.get<double>();  // 64.0 is as good as 64; beyond 2^53 the range refuses anyway
  if (!(number >= wanted.minimum && number <= wanted.maximum) || number != std::floor(number))
    refuse_value(wanted, found.is_number_float() ? plain(number) : shown(found));
  return static_cast<int>(number);
}

std::vector<int> Fields::range(const TaskParameter& wanted, const std::string& written) const {
  const std::size_t dots = written.find("..");
  int first = 0, last = 0;
  if (dots == std::string::npos || !parse_whole(written.substr(0, dots), first) ||
      !parse_whole(written.substr(dots + 2), last) || first > last || first < wanted.minimum || last > wanted.maximum)
    refuse_value(wanted, shown(written));
  std::vector<int> numbers;
  for (int number = first; number <= last; ++number) numbers.push_back(number);
  return numbers;
}

void Fields::refuse_value(const TaskParameter& wanted, const std::string& found) const {
  refuse("'" + wanted.name + "' is " + found + ", but it takes " + accepted_values(wanted) + ".");
}

}  // namespace afterglow
