// The suite's labels, roles and drawing helpers.
#include "core/tasks/suite.h"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace afterglow {
namespace {

struct Special {
  TokenRole role;
  const char* label;
};

// Tokens below the keys, in order; others are unused.
constexpr Special specials[] = {{TokenRole::blank, "_"},      {TokenRole::start, "^"},     {TokenRole::separator, "|"},
                                {TokenRole::query, "?"},      {TokenRole::arrow, "→"},     {TokenRole::equals, "="},
                                {TokenRole::separator, ":"},  {TokenRole::action, "mine"}, {TokenRole::action, "trade"},
                                {TokenRole::action, "build"}, {TokenRole::key, "gold"},    {TokenRole::key, "wood"}};

bool is_special(int token) { return token >= 0 && token < static_cast<int>(std::size(specials)); }

}  // namespace

TokenRole SuiteTask::token_role(int token) const {
  if (is_special(token)) return specials[token].role;
  if (token < suite::first_key || token >= suite::vocab) return TokenRole::blank;
  if (token < suite::first_value) return TokenRole::key;
  return token < suite::first_filler ? TokenRole::value : TokenRole::filler;
}

std::string SuiteTask::token_label(int token) const {
  if (token < 0 || token >= suite::vocab) return "?!";
  if (is_special(token)) return specials[token].label;
  if (token < suite::first_key) return "_";
  if (token < suite::first_value) return "k" + std::to_string(token - suite::first_key);
  return token < suite::first_filler ? "v" + std::to_string(token - suite::first_value) : "·";
}

std::string BindingsTask::describe() const { return said({{"bindings", spread(bindings_)}}); }

int BindingsTask::most() const { return largest(bindings_); }

std::string AgentTask::token_label(int token) const {
  if (token >= suite::first_agent && token < suite::first_agent + suite::agents)
    return "a" + std::to_string(token - suite::first_agent);
  if (token >= suite::first_tool && token < suite::first_tool + suite::tools)
    return "t" + std::to_string(token - suite::first_tool);
  return SuiteTask::token_label(token);
}

std::vector<int> draw_distinct(Random& random, int count, int first, int size) {
  std::vector<int> pool(static_cast<std::size_t>(size));
  std::iota(pool.begin(), pool.end(), first);
  for (int i = 0; i < count; ++i)
    std::swap(pool[static_cast<std::size_t>(i)], pool[static_cast<std::size_t>(draw_from(random, i, size - i))]);
  pool.resize(static_cast<std::size_t>(count));
  return pool;
}

int draw_from(Random& random, int first, int size) {
  return first + static_cast<int>(random.uniform_int(static_cast<std::uint64_t>(size)));
}

int draw_value(Random& random) { return draw_from(random, suite::first_value, suite::values); }

int draw_entry(Random& random, const std::vector<int>& list) {
  return list[static_cast<std::size_t>(random.uniform_int(list.size()))];
}

std::vector<int> span_of(int first, int last) {
  std::vector<int> numbers(static_cast<std::size_t>(last - first + 1));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

int entry_at(const std::vector<int>& list, std::uint64_t turn) {
  return list[static_cast<std::size_t>(turn % list.size())];
}

std::string spread(const std::vector<int>& list) {
  const auto [low, high] = std::ranges::minmax_element(list);
  return *low == *high ? std::to_string(*low) : std::to_string(*low) + " to " + std::to_string(*high);
}

int largest(const std::vector<int>& list) { return *std::ranges::max_element(list); }

void ExampleWriter::fill(Random& random, int remaining) {
  const int end = static_cast<int>(example_.tokens.size()) - remaining;
  while (at_ < end) put(draw_from(random, suite::first_filler, suite::fillers));
}

int put_pairs(Random& random, ExampleWriter& tape, std::span<const int> keys) {
  tape.put(suite::start);
  const int first = tape.at();
  for (const int key : keys) tape.put_fact(key, draw_value(random));
  tape.put(suite::separator);
  return first;
}

}  // namespace afterglow
