// Entries of a list, found by a field of theirs, and what a function makes of each.
#pragma once
#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/io/error.h"
#include "core/io/wording.h"

namespace afterglow {

/// The first entry whose field, a member or a function of it, has this value; null without one.
template <class List, class Value, class Field>
auto* find_by(List&& list, const Value& value, Field field) {
  const auto found = std::ranges::find(list, value, field);
  return found == std::ranges::end(list) ? nullptr : &*found;
}

/// The first entry for which the condition holds; null without one.
template <class List, class Condition>
auto* find_where(List&& list, Condition condition) {
  return find_by(list, true, condition);
}

/// What the function, or the member, gives for each entry.
template <class List, class Function>
auto mapped(const List& list, const Function& function) {
  std::vector<std::decay_t<decltype(std::invoke(function, *std::begin(list)))>> values;
  for (const auto& entry : list) values.push_back(std::invoke(function, entry));
  return values;
}

/// This field of each entry, as text.
template <class List, class Field>
std::vector<std::string> names_of(const List& list, Field field) {
  std::vector<std::string> names;
  for (const auto& entry : list) names.emplace_back(std::invoke(field, entry));
  return names;
}

/// Texts one after the other.
template <class List>
std::string joined(const List& texts, std::string_view between) {
  std::string all;
  for (const auto& text : texts) (all += all.empty() ? "" : between) += text;
  return all;
}

/// The entry of this name. Without one throws Error(code): `what`, as "there is no preset ", the name, and all names.
template <class List, class Field>
auto& entry_named(List&& list, std::string_view name, Field field, ExitCode code, const std::string& what) {
  if (auto* found = find_by(list, name, field)) return *found;
  throw Error(code, what, in_quotes(name), which_there_are(name, names_of(list, field)));
}

}  // namespace afterglow
