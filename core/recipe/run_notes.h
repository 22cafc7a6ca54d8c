// Notes: lines that the user writes on a step, a figure or a token. A recipe keeps them in its one command `note`.
#pragma once
#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace afterglow {

struct Recipe;

struct RunNote {
  std::string text{};                                   ///< one line
  std::int64_t step = 0;                                ///< number of finished steps
  std::string figure{};                                 ///< id of a figure; empty: on none
  double x = std::numeric_limits<double>::quiet_NaN();  ///< place in it, in data units; NaN: below its title
  double y = std::numeric_limits<double>::quiet_NaN();
  int token = -1;       ///< place in the inspected sequence; -1: on none
  std::string label{};  ///< of that token: the note is drawn only on such a one; empty: on any
};

/// The value of the recipe's command: an array of objects, empty without it. Both throw Error(bad_input) for what
/// cannot be read.
nlohmann::json note_list(const Recipe& recipe);
std::vector<RunNote> notes_of(const Recipe& recipe);
/// That list after the command `note` at a step: {"text": "..", "figure": "..", ..} adds one, {"number": 2, ..} changes
/// the second one, which an empty text takes away. Throws Error(bad_input).
nlohmann::json changed_notes(nlohmann::json list, nlohmann::json value, std::int64_t step);

}  // namespace afterglow
