// The step at which a condition over a training begins to hold, with all of the model learning and with one part frozen
// at a time: plain values.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace afterglow {

/// What came of one repetition.
struct BisectedPart {
  std::string part;        ///< "1 ska": frozen; empty: none
  std::string kind;        ///< of the part, for its colour
  std::int64_t step = -1;  ///< after which the condition first held; -1: not until the end
};

struct BisectView {
  std::string name;                   ///< of the recipe
  std::string condition;              ///< "accuracy > 0.5"
  std::int64_t from = 0, until = 0;   ///< steps between which it is looked for
  std::int64_t at = 0;                ///< the step that the present repetition has come to
  std::vector<BisectedPart> parts{};  ///< with nothing frozen first; as far as they are there
  std::size_t planned = 0;
  bool is_complete() const { return parts.size() == planned; }
};

}  // namespace afterglow
