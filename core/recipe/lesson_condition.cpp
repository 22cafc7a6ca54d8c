// Reads and evaluates conditions.
#include "core/recipe/lesson_condition.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "core/io/error.h"
#include "core/io/number_text.h"
#include "core/io/wording.h"

namespace afterglow {
namespace {

struct RelationInfo {
  Relation relation;
  std::string_view sign;
};
/// Longer signs first: "<=" is not "<".
constexpr std::array relations{RelationInfo{Relation::less_equal, "<="}, RelationInfo{Relation::greater_equal, ">="},
                               RelationInfo{Relation::equal, "=="},      RelationInfo{Relation::unequal, "!="},
                               RelationInfo{Relation::less, "<"},        RelationInfo{Relation::greater, ">"}};

constexpr const char* grammar =
    "; a condition is NAME < NUMBER, as `accuracy > 0.9 and loss < 0.5 * loss@start`, with < <= > >= == !=";

/// Parts between ";" and the word "and".
std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_and = text.substr(i).starts_with("and") && i > 0 && is_blank(text[i - 1]) && i + 3 < text.size() &&
                        is_blank(text[i + 3]);
    if (!is_and && text[i] != ';') continue;
    parts.push_back(text.substr(begin, i - begin));
    begin = i + (is_and ? 3 : 1);
  }
  parts.push_back(text.substr(begin));
  return parts;
}

/// Whether the text is a valid name.
bool is_name(std::string_view text) {
  return !text.empty() && std::ranges::none_of(text, [](char c) {
    return is_blank(c) || std::string_view("<>=!*@|;{}\"").find(c) != std::string_view::npos;
  });
}

ConditionSide parse_side(std::string_view text, const std::string& place) {
  const auto refuse = [&](const std::string& what) { return BadInput(place, ": ", what, grammar); };
  text = trimmed(text);
  if (text.empty()) throw refuse("one side of a comparison is missing");
  ConditionSide side;
  if (const std::optional<double> number = parse_number(text)) {
    side.number = *number;
    return side;
  }
  if (const std::size_t star = text.find('*'); star != std::string_view::npos) {
    const std::optional<double> factor = parse_number(text.substr(0, star));
    if (!factor) throw refuse(in_quotes(text.substr(0, star)) + " is not a number; write a factor before its name");
    side.number = *factor;
    text = trimmed(text.substr(star + 1));
  }
  const std::size_t at = std::min(text.find('@'), text.size());
  side.name = trimmed(text.substr(0, at));
  if (at < text.size()) {
    side.at = trimmed(text.substr(at + 1));
    const bool is_step = !side.at.empty() && side.at.size() < 4 && side.at[0] != '0' &&
                         std::ranges::all_of(side.at, [](unsigned char c) { return std::isdigit(c) != 0; });
    if (side.at != "start" && !is_step)
      throw refuse("after @ write `start` or the number of a step, not " + in_quotes(side.at));
  }
  if (!is_name(side.name)) throw refuse(in_quotes(text) + " is neither a number nor a name");
  return side;
}

Comparison parse_comparison(std::string_view text, const std::string& place) {
  const std::size_t sign = text.find_first_of("<>=!");
  for (const RelationInfo& known : relations) {
    if (sign == std::string_view::npos || !text.substr(sign).starts_with(known.sign)) continue;
    Comparison comparison{parse_side(text.substr(0, sign), place),
                          parse_side(text.substr(sign + known.sign.size()), place), known.relation};
    if (comparison.left.name.empty()) throw BadInput(place, ": write the name on the left of a comparison", grammar);
    return comparison;
  }
  throw BadInput(place, ": ", in_quotes(trimmed(text)), " is not a comparison", grammar);
}

std::string_view sign_of(Relation relation) {
  return std::ranges::find(relations, relation, &RelationInfo::relation)->sign;
}

std::string text_of(const ConditionSide& side) {
  if (side.name.empty()) return shortest(side.number);
  return (side.number == 1 ? "" : shortest(side.number) + " * ") + side.name + (side.at.empty() ? "" : "@" + side.at);
}

std::string text_of(const Quantity& quantity) {
  return quantity.word.empty() ? shortest(quantity.number) : quantity.word;
}

bool holds(double left, Relation relation, double right) {
  constexpr double equality = 1e-9;
  const bool is_equal = left == right || std::abs(left - right) <= equality * std::max(std::abs(left), std::abs(right));
  const bool is_unequal = left != right && !is_equal && !std::isnan(left) && !std::isnan(right);
  const std::array<bool, 6> all{(left < right), left <= right, (left > right), left >= right, is_equal, is_unequal};
  return all[static_cast<std::size_t>(relation)];  // in the order of Relation
}

/// A word that is no name of a quantity is compared as a word: `law == power`.
bool holds(const Quantity& left, Relation relation, const Quantity& right) {
  if (left.word.empty() && right.word.empty()) return holds(left.number, relation, right.number);
  return relation == Relation::equal ? left.word == right.word
                                     : relation == Relation::unequal && left.word != right.word;
}

}  // namespace

Condition parse_condition(std::string_view text, const std::string& place) {
  Condition condition;
  for (const std::string_view part : parts_of(text)) {
    if (trimmed(part).empty()) throw BadInput(place, ": a comparison is missing", grammar);
    condition.comparisons.push_back(parse_comparison(part, place));
  }
  return condition;
}

std::string in_words(const Condition& condition) {
  const auto words = [](ConditionSide side) {
    if (side.name == "accuracy" || side.name == "held_out_accuracy") side.name = "held-out accuracy";
    if (side.name == "batch_accuracy") side.name = "batch accuracy";
    return text_of(side);
  };
  std::string text;
  for (const Comparison& one : condition.comparisons)
    text += (text.empty() ? "" : " and ") + words(one.left) + " " + std::string(sign_of(one.relation)) + " " +
            words(one.right);
  return text;
}

Verdict judge(const Condition& condition, const QuantityFinder& find) {
  Verdict verdict;
  const auto fail = [&](const std::string& why) {
    if (verdict.holds) verdict.why = why;
    verdict.holds = false;
  };
  const auto value_of = [&](const ConditionSide& side) -> std::optional<Quantity> {
    if (side.name.empty()) return Quantity{side.number};
    std::optional<Quantity> found = find(side.name, side.at);
    if (found && found->word.empty()) found->number *= side.number;
    return found;
  };
  for (const Comparison& comparison : condition.comparisons) {
    std::optional<Quantity> left = value_of(comparison.left);
    std::optional<Quantity> right = value_of(comparison.right);
    if (!right && left && !left->word.empty() && comparison.right.at.empty())
      right = Quantity{0, comparison.right.name};
    for (const auto& [side, value] : {std::pair(&comparison.left, &left), std::pair(&comparison.right, &right)}) {
      if (value->has_value()) continue;
      verdict.unknown.push_back(side->name);
      fail("there is no number " + text_of(*side));
    }
    if (!left || !right || holds(*left, comparison.relation, *right)) continue;
    const std::string expected = std::string(sign_of(comparison.relation)) + " " + text_of(comparison.right);
    fail(text_of(comparison.left) + " is " + text_of(*left) + ", expected " + expected +
         (comparison.right.name.empty() || !right->word.empty() ? "" : " = " + text_of(*right)));
  }
  return verdict;
}

}  // namespace afterglow
