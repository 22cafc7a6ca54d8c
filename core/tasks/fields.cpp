// Reads task configurations: declared defaults and ranges, and error messages.
#include "core/tasks/fields.h"

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "core/io/atomic_file.h"
#include "core/io/checksum.h"
#include "core/io/error.h"
#include "core/io/json_file.h"
#include "core/io/named.h"

namespace afterglow {

bool takes(const TaskInfo& info, std::string_view parameter) {
  return find_by(info.parameters, parameter, &TaskParameter::name) != nullptr;
}

Fields::Fields(const TaskInfo& info, const nlohmann::json& config)
    : info_(info), config_(config), where_("Task '" + info.kind + "'") {
  std::vector<std::string> known = names_of(info.parameters, &TaskParameter::name);
  known.push_back("kind");
  if (takes(info, "path")) known.push_back("hash");
  refuse_unknown_keys(config, known, where_);
  nlohmann::json filled = config;
  for (const TaskParameter& parameter : info.parameters) {
    if (!given(parameter.name) && !parameter.fallback.empty())
      filled[parameter.name] = nlohmann::json::parse(parameter.fallback);
  }
  filled_ = std::make_shared<const nlohmann::json>(std::move(filled));
}

bool Fields::given(const std::string& name) const { return config_.contains(name); }

int Fields::integer(const std::string& name) const {
  const TaskParameter& wanted = parameter(name);
  return static_cast<int>(get_integer(*filled_, name, {}, static_cast<std::int64_t>(wanted.minimum),
                                      static_cast<std::int64_t>(wanted.maximum), where_));
}

std::vector<int> Fields::integers(const std::string& name) const {
  const TaskParameter& wanted = parameter(name);
  const std::vector<std::int64_t> numbers = get_integers(*filled_, name, static_cast<std::int64_t>(wanted.minimum),
                                                         static_cast<std::int64_t>(wanted.maximum), where_);
  return {numbers.begin(), numbers.end()};
}

std::vector<int> Fields::integers_or(const std::string& name, std::vector<int> otherwise) const {
  return given(name) ? integers(name) : std::move(otherwise);
}

int Fields::length_or(std::int64_t smallest, const std::string& reason) const {
  const TaskParameter& wanted = parameter("length");
  if (!given("length") && smallest > wanted.maximum) refuse(reason, " needs more than the longest length there is.");
  const int length = given("length") ? integer("length") : static_cast<int>(smallest);
  require_length(length, smallest, reason);
  return length;
}

double Fields::number(const std::string& name) const {
  const TaskParameter& wanted = parameter(name);
  return get_number(*filled_, name, {}, wanted.minimum, wanted.maximum, where_);
}

std::string Fields::choice(const std::string& name) const {
  return get_choice(*filled_, name, parameter(name).choices, {}, where_);
}

std::string Fields::text(const std::string& name) const {
  std::string text = get_string(*filled_, parameter(name).name, {}, where_);
  if (text.empty()) refuse("field '", name, "' is empty; write a text between its quotes.");
  return text;
}

std::string Fields::file(const std::string& name, std::size_t max_bytes) const {
  const std::string path = text(name);
  std::string content;
  try {
    content = read_file(path, max_bytes);
  } catch (const Error& error) {
    throw Error(error.code(), error.what(), " (--data FILE says where it is)");
  }
  if (!given("hash")) return content;
  const std::string wanted = get_string(config_, "hash", {}, where_);
  const std::string found = hex16(checksum(std::as_bytes(std::span(content))));
  if (found != wanted)
    refuse(path, " is not the file that the recipe was made with: its content has the hash ", found, ", not ", wanted,
           ". Give that file, or this one with --data.");
  return content;
}

void Fields::require_length(int length, std::int64_t smallest, const std::string& reason) const {
  if (length >= smallest) return;
  refuse(reason, " needs a length of at least ", smallest, ", but 'length' is ", length, ". Make it ", smallest,
         " or more, or ask for less.");
}

const TaskParameter& Fields::parameter(const std::string& name) const {
  if (const TaskParameter* found = find_by(info_.parameters, name, &TaskParameter::name)) return *found;
  throw std::logic_error("task kind without parameter " + name);
}

}  // namespace afterglow
