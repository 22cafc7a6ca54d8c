// Which ticks an axis gets, and how numbers are written.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "core/figure/axis.h"

namespace afterglow {
namespace {

constexpr const char* minus_sign = "\u2212";
constexpr int max_ticks = 200;

std::string with_minus(std::string digits) {
  const bool is_zero = digits.find_first_of("123456789") == std::string::npos;
  if (digits.starts_with('-')) digits = (is_zero ? "" : minus_sign) + digits.substr(1);
  return digits;
}

std::string fixed_text(double value, int decimals) {
  std::array<char, 400> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed,
                                 std::clamp(decimals, 0, 17));
  return with_minus(std::string(buffer.data(), end.ptr));
}

std::string exponent_text(int exponent) {
  return "e" + (exponent < 0 ? minus_sign + std::to_string(-exponent) : std::to_string(exponent));
}

// floor(log10(|value|)), exact at powers of ten although pow and log10 round.
int decade_of(double value) {
  int decade = static_cast<int>(std::floor(std::log10(std::abs(value))));
  if (std::abs(value) >= std::pow(10.0, decade + 1) * (1 - 1e-12)) ++decade;
  return decade;
}

// Decimals that distinguish multiples of the step: 2 for 0.25, 0 for 20.
int decimals_of(double step) {
  const int decade = decade_of(step);
  const double lead = step / std::pow(10.0, decade);
  const bool half = std::abs(lead - 2.5) < 1e-6;
  return std::max(0, -decade + (half ? 1 : 0));
}

std::string stripped(std::string text, int keep_decimals) {
  const auto point = text.find('.');
  if (point == std::string::npos) return text;
  while (text.size() > point + 1 + keep_decimals && text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string scientific_text(double value, int decimals) {
  int decade = decade_of(value);
  double mantissa = value / std::pow(10.0, decade);
  if (!std::isfinite(mantissa)) mantissa = value * 1e300 / std::pow(10.0, decade + 300);  // denormals
  std::string digits = fixed_text(mantissa, decimals);
  if (digits.find("10") == 0 || digits.find(std::string(minus_sign) + "10") == 0) {  // rounded up to the next decade
    ++decade;
    digits = fixed_text(mantissa / 10, decimals);
  }
  return digits + exponent_text(decade);
}

double linear_step(Range range, int max_labels, bool integer) {
  const double width = 2 * (0.5 * range.high - 0.5 * range.low);
  const double wanted = std::min(width, 1.7e308) / std::max(1, max_labels);
  const double power = std::pow(10.0, std::floor(std::log10(wanted)));
  for (const double factor : {1.0, 2.0, 2.5, 5.0, 10.0}) {
    const double step = factor * power;
    const bool fits = step >= wanted * (1 - 1e-9);
    if (fits && (!integer || (step >= 1 && std::abs(step - std::round(step)) < 1e-9 * step))) return step;
  }
  return integer ? 1 : 10 * power;
}

std::vector<Tick> ticks_at_steps(Range range, int max_labels, bool integer) {
  const double step = linear_step(range, max_labels, integer);
  const double first = std::ceil(range.low / step - 1e-9), last = std::floor(range.high / step + 1e-9);
  const double magnitude = std::max(std::abs(first * step), std::abs(last * step));
  std::vector<Tick> ticks;
  for (double i = first; i <= last && ticks.size() < max_ticks; ++i) {
    const double at = i == 0 ? 0 : std::clamp(i * step, range.low, range.high);
    ticks.push_back({at, tick_text(i * step, step, magnitude), false});
  }
  return ticks;
}

/// At least two ticks, because one number alone does not show the scale; for that it may exceed `max_labels` a little.
std::vector<Tick> linear_ticks(Range range, int max_labels, bool integer) {
  std::vector<Tick> ticks = ticks_at_steps(range, max_labels, integer);
  for (int more = 1; ticks.size() < 2 && more <= 3; ++more) ticks = ticks_at_steps(range, max_labels + more, integer);
  return ticks;
}

int decade_stride(int decades, int max_labels) {
  for (const int stride : {1, 2, 3, 4, 5, 10, 20, 50, 100}) {
    if ((decades + stride - 1) / stride <= max_labels) return stride;
  }
  return 200;
}

// Within one decade: 1, 2, 5 where at least two of them fall into the range, otherwise an ordinary division.
std::vector<Tick> ticks_within_decade(Range range, int max_labels) {
  std::vector<Tick> ticks;
  const int first = decade_of(range.low);
  for (int decade = first; decade <= first + 2; ++decade) {
    for (int factor = 1; factor <= 9; ++factor) {
      const double at = factor * std::pow(10.0, decade);
      if (at < range.low * (1 - 1e-9) || at > range.high * (1 + 1e-9)) continue;
      const bool labelled = factor == 1 || factor == 2 || factor == 5;
      ticks.push_back({at, labelled ? tick_text(at, at, range.high) : "", !labelled});
    }
  }
  const auto labelled = std::ranges::count_if(ticks, [](const Tick& t) { return !t.is_minor; });
  return labelled >= 2 ? ticks : linear_ticks(range, max_labels, false);
}

std::vector<Tick> log_ticks(Range range, int max_labels) {
  const int first = static_cast<int>(std::ceil(std::log10(range.low) - 1e-9));
  const int last = static_cast<int>(std::floor(std::log10(range.high) + 1e-9));
  if (last - first < 1) return ticks_within_decade(range, max_labels);
  const int stride = decade_stride(last - first + 1, std::max(2, max_labels));
  const bool plain = first >= -2 && last <= 5;
  // Counts decades from 10^0 where that gives two labels, else from the first decade.
  const int multiples = static_cast<int>(std::floor(double(last) / stride) - std::floor(double(first - 1) / stride));
  const int origin = multiples >= 2 ? 0 : first;
  std::vector<Tick> ticks;
  const auto add = [&](double at, const std::string& label) {
    if (at >= range.low * (1 - 1e-9) && at <= range.high * (1 + 1e-9)) ticks.push_back({at, label, label.empty()});
  };
  for (int decade = first - 1; decade <= last && ticks.size() < max_ticks; ++decade) {
    const double at = std::pow(10.0, decade);
    const bool labelled = (decade - origin) % stride == 0;
    if (labelled || last - first <= 40) add(at, labelled ? decade_text(at, plain) : "");
    for (int factor = 2; stride == 1 && factor <= 9; ++factor) add(factor * at, "");
  }
  return ticks;
}

std::vector<Tick> symlog_ticks(const AxisTransform& transform, int max_labels) {
  const Range range = transform.range();
  const double reach = std::max(std::abs(range.low), std::abs(range.high));
  if (reach <= 10 * transform.threshold()) return linear_ticks(range, max_labels, false);
  const int first = decade_of(transform.threshold()), last = decade_of(reach);
  const int sides = (range.low < 0 ? 1 : 0) + (range.high > 0 ? 1 : 0);
  const int stride = decade_stride(last - first + 1, std::max(1, (max_labels - 1) / std::max(1, sides)));
  const bool plain = first >= -2 && last <= 5;
  std::vector<Tick> ticks;
  const auto add = [&](double at) {
    const std::string sign = at < 0 ? minus_sign : "";
    const std::string label = at == 0 ? "0" : sign + decade_text(std::abs(at), plain);
    if (at >= range.low - reach * 1e-9 && at <= range.high + reach * 1e-9) ticks.push_back({at, label, false});
  };
  for (int decade = last; decade >= first; --decade) {
    if ((last - decade) % stride == 0) add(-std::pow(10.0, decade));
  }
  add(0);
  for (int decade = first; decade <= last; ++decade) {
    if ((last - decade) % stride == 0) add(std::pow(10.0, decade));
  }
  return ticks.size() >= 2 ? ticks : linear_ticks(range, max_labels, false);
}

std::vector<Tick> explicit_ticks(const Axis& axis, Range range) {
  std::vector<Tick> ticks;
  for (const AxisTick& tick : axis.ticks) {
    if (tick.at >= range.low && tick.at <= range.high) ticks.push_back({tick.at, tick.label, tick.label.empty()});
  }
  return ticks;
}

}  // namespace

std::vector<Tick> choose_ticks(const Axis& axis, const AxisTransform& transform, int max_labels) {
  if (!axis.ticks.empty()) return explicit_ticks(axis, transform.range());
  if (transform.scale() == Scale::log) return log_ticks(transform.range(), max_labels);
  if (transform.scale() == Scale::symlog) return symlog_ticks(transform, max_labels);
  return linear_ticks(transform.range(), max_labels, axis.integer_ticks);
}

std::string number_text(double value, int digits) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "∞" : std::string(minus_sign) + "∞";
  if (value == 0) return "0";
  const double size = std::abs(value);
  if (size < 1e-3 * (1 - 1e-9) || size >= 1e6) {
    std::string text = scientific_text(value, std::max(0, digits - 1));
    const auto exponent = text.find('e');
    return stripped(text.substr(0, exponent), digits > 1 ? 1 : 0) + text.substr(exponent);
  }
  if (value == std::round(value)) return fixed_text(value, 0);
  return stripped(fixed_text(value, std::max(0, digits - 1 - decade_of(value))), 0);
}

std::string grouped_number(std::int64_t number) {
  std::string digits = std::to_string(number);
  const std::size_t sign = number < 0 ? 1 : 0;
  for (std::size_t at = digits.size(); at > 3 + sign;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

std::string count_text(double number, int digits) {
  const bool is_whole = number == std::round(number) && std::abs(number) < 1e15;
  return is_whole ? grouped_number(std::llround(number)) : number_text(number, digits);
}

std::string place_text(const Axis& axis, double at, int digits) {
  const auto tick = std::ranges::find(axis.ticks, at, &AxisTick::at);
  if (tick != axis.ticks.end() && !tick->label.empty()) return tick->label;
  return axis.integer_ticks ? count_text(at, digits) : number_text(at, digits);
}

std::string tick_text(double value, double step, double max_magnitude) {
  if (value == 0 || std::abs(value) < step * 1e-6) return "0";
  const auto scientific = [&] {
    const int finest = -decimals_of(step / std::pow(10.0, decade_of(step))) + decade_of(step);
    return scientific_text(value, std::max(0, decade_of(value) - finest));
  };
  if (max_magnitude < 1e-3 || max_magnitude >= 1e9) return scientific();
  if (max_magnitude >= 1e6 && step >= 1e4) return stripped(fixed_text(value / 1e6, decimals_of(step / 1e6)), 0) + "M";
  if (max_magnitude >= 1e4 && step >= 100) return stripped(fixed_text(value / 1e3, decimals_of(step / 1e3)), 0) + "k";
  return stripped(fixed_text(value, decimals_of(step)), 0);
}

std::string decade_text(double value, bool plain) {
  const int decade = decade_of(value);
  if (decade == 0) return "1";
  if (!plain) return "1" + exponent_text(decade);
  if (decade >= 3) return fixed_text(value / 1000, 0) + "k";
  return fixed_text(value, std::max(0, -decade));
}

}  // namespace afterglow
