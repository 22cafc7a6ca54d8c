// Numbers as text that reads back exactly, with a decimal point whatever the locale.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace afterglow {

/// The fewest digits that read back as exactly this number: "0.1", "1e-20", "-0"; "nan", "inf", "-inf".
std::string shortest(double value);
/// The same for the nearest float: shortest(0.1f) is "0.1".
std::string shortest(float value);

/// The number that the whole text is, spaces around it allowed; also "nan", "inf", "-inf" in any case. Nothing for an
/// empty text, anything else around the number, or a number beyond double's range.
std::optional<double> parse_number(std::string_view text);

}  // namespace afterglow
