// Numbers to text and back by <charconv>, which ignores the locale; sizes, tokens and CSV fields.
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

template <class Number>
std::optional<Number> whole_text_as(std::string_view text) {
  Number value{};
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::string shortest(double value) { return shortest_digits(value); }

std::string shortest(float value) { return shortest_digits(value); }

std::optional<double> parse_number(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);  // from_chars accepts no plus
  return whole_text_as<double>(text);
}

std::optional<std::int64_t> parse_whole_number(std::string_view text) { return whole_text_as<std::int64_t>(text); }

std::string bytes_text(std::int64_t bytes) {
  static constexpr std::array units{"B", "KB", "MB", "GB", "TB"};
  double size = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; std::abs(size) >= 1000 && unit + 1 < units.size(); ++unit) size /= 1000;
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), size, std::chars_format::fixed,
                                 unit == 0 || std::abs(size) >= 100 ? 0 : 1);
  return std::string(digits.data(), end.ptr) + " " + units[unit];
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<long long>(std::ceil(seconds));
  char text[48];
  if (whole < 60) {
    std::snprintf(text, sizeof text, "%lld s", whole);
  } else if (whole < 3600) {
    std::snprintf(text, sizeof text, "%lld min %02lld s", whole / 60, whole % 60);
  } else {
    std::snprintf(text, sizeof text, "%lld h %02lld min", whole / 3600, whole / 60 % 60);
  }
  return text;
}

std::string rough_duration_text(double seconds) {
  constexpr double minute = 60, hour = 3600, day = 86400;
  const auto rounded = [](double value) { return std::to_string(static_cast<long long>(std::ceil(value - 0.1))); };
  if (seconds < 2 * minute) return rounded(seconds) + " s";
  if (seconds < 2 * hour) return rounded(seconds / minute) + " min";
  if (seconds < 2 * day) return rounded(seconds / hour) + " h";
  return rounded(seconds / day) + " days";
}

std::string token_number(int token) { return "#" + std::to_string(token); }

std::string label_among(std::span<const std::string> labels, int token) {
  const auto place = static_cast<std::size_t>(token);  // a negative one becomes larger than all indices
  return place < labels.size() && !labels[place].empty() ? labels[place] : token_number(token);
}

std::string csv_field(std::string_view text) {
  // Readers would take an unquoted byte order mark at the start of a file for that of the file, and guess the separator
  // from unquoted characters that often are one.
  if (text.find_first_of(",;\t\"\r\n") == std::string_view::npos && !text.starts_with("\xef\xbb\xbf"))
    return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

}  // namespace afterglow
