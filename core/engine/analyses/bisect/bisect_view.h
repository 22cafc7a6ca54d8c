// The step at which a condition over a training begins to hold, with all parts learning and with one part frozen at a
// time: plain values.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace afterglow {

/// The result of one repetition.
struct BisectedPart {
  std::string part;        ///< "1 ska": frozen; empty: none
  std::string kind;        ///< of the part, for its colour
  std::int64_t step = -1;  ///< at which the condition first held; -1: never
};

struct BisectView {
  std::string name;                   ///< of the recipe
  std::string condition;              ///< "accuracy > 0.5"
  std::int64_t from = 0, until = 0;   ///< the range of steps that is searched
  std::int64_t at = 0;                ///< step of the repetition in progress
  std::vector<BisectedPart> parts{};  ///< finished ones, the one with nothing frozen first
  std::size_t planned = 0;
  bool is_complete() const { return parts.size() == planned; }
};

}  // namespace afterglow
