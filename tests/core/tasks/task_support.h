// Shared by the task tests: short ways to make a task, to walk through examples and to pin them with a hash.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/tasks/task.h"

namespace afterglow {

inline std::unique_ptr<Task> task_of(const std::string& json) { return make_task(nlohmann::json::parse(json)); }

/// By the suite's table of tokens.
inline bool is_key(int token) { return token >= 16 && token < 48; }
inline bool is_value(int token) { return token >= 48 && token < 80; }
inline bool is_filler(int token) { return token >= 80 && token < 128; }

/// Calls `check` with examples 0 .. count - 1 of both splits.
inline void for_examples(const Task& task, int count,
                         const std::function<void(const Example&, std::uint64_t index)>& check) {
  for (const Split split : {Split::train, Split::held_out})
    for (int index = 0; index < count; ++index)
      check(task.example(42, static_cast<std::uint64_t>(index), split), static_cast<std::uint64_t>(index));
}

/// Positions that have a target.
inline std::vector<int> answer_places(const Example& example) {
  std::vector<int> places;
  for (std::size_t t = 0; t < example.targets.size(); ++t)
    if (example.targets[t] >= 0) places.push_back(static_cast<int>(t));
  return places;
}

inline bool operator==(const Example& a, const Example& b) {
  return a.tokens == b.tokens && a.targets == b.targets && a.context == b.context && a.sources == b.sources;
}

/// FNV-1a over every number of an example, each as four bytes, lowest first.
inline std::uint64_t hash_of(const Example& example, std::uint64_t hash = 14695981039346656037ull) {
  const auto add = [&](std::uint32_t word) {
    for (int byte = 0; byte < 4; ++byte) hash = (hash ^ ((word >> (8 * byte)) & 0xffu)) * 1099511628211ull;
  };
  for (const auto token : example.tokens) add(static_cast<std::uint32_t>(token));
  for (const auto target : example.targets) add(static_cast<std::uint32_t>(target));
  for (const auto role : example.context) add(role == 1);
  for (const auto source : example.sources) add(static_cast<std::uint32_t>(source));
  return hash;
}

}  // namespace afterglow
