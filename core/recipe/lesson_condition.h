// Conditions of lessons: comparisons of named numbers, as `accuracy > 0.9 and loss < 0.5 * loss@start`. The names are
// those of core/engine/observation/run_numbers.h and of the figures.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace afterglow {

/// The value of a name: a number, or a word such as "power".
struct Quantity {
  double number = 0;
  std::string word{};
};

/// One side of a comparison: a number, or a name with a factor.
struct ConditionSide {
  double number = 1;  ///< the number itself, or the factor of the name
  std::string name;   ///< empty: a number
  std::string at;     ///< "start", or the number of a step of the lesson; empty: now
};

enum class Relation { less, less_equal, greater, greater_equal, equal, unequal };

struct Comparison {
  ConditionSide left, right;
  Relation relation = Relation::less;
};

/// All of them must hold.
struct Condition {
  std::vector<Comparison> comparisons;
};

/// Throws Error(bad_input) that begins with `place`.
Condition parse_condition(std::string_view text, const std::string& place);
/// As the page writes it, which has two accuracies: "held-out accuracy > 0.5 and loss < 0.5 * loss@start".
std::string in_words(const Condition& condition);

/// Finds the value of a name at a moment (ConditionSide::at); nothing if there is no such number.
using QuantityFinder = std::function<std::optional<Quantity>(const std::string& name, const std::string& at)>;

/// Whether a condition holds, and the first comparison that fails with its present numbers.
struct Verdict {
  bool holds = true;
  std::string why;                   ///< "accuracy is 0.42, expected > 0.9"
  std::vector<std::string> unknown;  ///< names without a value
};
Verdict judge(const Condition& condition, const QuantityFinder& find);

}  // namespace afterglow
