// The suite's labels, roles and drawing helpers.
#include "core/tasks/suite.h"

#include <algorithm>
#include <numeric>

namespace afterglow {

TokenRole SuiteTask::token_role(int token) const {
  switch (token) {
    case suite::start:
      return TokenRole::start;
    case suite::separator:
      return TokenRole::separator;
    case suite::query:
      return TokenRole::query;
    case suite::arrow:
      return TokenRole::arrow;
    case suite::equals:
      return TokenRole::equals;
    default:
      break;
  }
  if (token < suite::first_key || token >= suite::vocab) return TokenRole::blank;
  if (token < suite::first_value) return TokenRole::key;
  return token < suite::first_filler ? TokenRole::value : TokenRole::filler;
}

std::string SuiteTask::token_label(int token) const {
  if (token < 0 || token >= suite::vocab) return "?!";
  switch (token_role(token)) {
    case TokenRole::start:
      return "^";
    case TokenRole::separator:
      return "|";
    case TokenRole::query:
      return "?";
    case TokenRole::arrow:
      return "→";
    case TokenRole::equals:
      return "=";
    case TokenRole::key:
      return "k" + std::to_string(token - suite::first_key);
    case TokenRole::value:
      return "v" + std::to_string(token - suite::first_value);
    case TokenRole::filler:
      return "·";
    default:
      return "_";
  }
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

int entry_at(const std::vector<int>& list, std::uint64_t turn) {
  return list[static_cast<std::size_t>(turn % list.size())];
}

std::string spread(const std::vector<int>& list) {
  const auto [low, high] = std::minmax_element(list.begin(), list.end());
  return *low == *high ? std::to_string(*low) : std::to_string(*low) + " to " + std::to_string(*high);
}

int largest(const std::vector<int>& list) { return *std::max_element(list.begin(), list.end()); }

void Tape::fill(Random& random, int remaining) {
  const int end = static_cast<int>(example_.tokens.size()) - remaining;
  while (at_ < end) put(draw_from(random, suite::first_filler, suite::fillers));
}

}  // namespace afterglow
