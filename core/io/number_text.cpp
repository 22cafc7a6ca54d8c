// Numbers to text and back by <charconv>, which knows no locale.
#include "core/io/number_text.h"

#include <array>
#include <charconv>
#include <cmath>

namespace afterglow {
namespace {

template <class Real>
std::string shortest_digits(Real value) {
  if (std::isnan(value)) return "nan";  // also with a sign bit, which to_chars would show
  std::array<char, 64> buffer;
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return std::string(buffer.data(), result.ptr);
}

}  // namespace

std::string shortest(double value) { return shortest_digits(value); }

std::string shortest(float value) { return shortest_digits(value); }

std::optional<double> parse_number(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);  // from_chars knows no plus
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace afterglow
