// Numbers, sizes, tokens and CSV fields as text, in one form everywhere and independent of the locale.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace afterglow {

/// The fewest digits that read back as exactly this number: "0.1", "1e-20", "-0"; "nan", "inf", "-inf".
std::string shortest(double value);
/// The same for the nearest float: shortest(0.1f) is "0.1".
std::string shortest(float value);

/// The whole text as a number, with spaces around it allowed; also "nan", "inf", "-inf" in any case. Nullopt for an
/// empty text, other characters around the number, or a number outside of double's range.
std::optional<double> parse_number(std::string_view text);

/// The whole text as an integer: digits with an optional minus. Exact, also where a double is not. Nullopt for other
/// texts and numbers of more than 64 bits.
std::optional<std::int64_t> parse_whole_number(std::string_view text);

/// A size in decimal units of bytes: "17 B", "4.2 KB", "412 MB", "-1.0 GB".
std::string bytes_text(std::int64_t bytes);

/// "12 s", "3 min 20 s", "2 h 05 min".
std::string duration_text(double seconds);
/// For an estimate: "12 s", "3 min", "2 h", "4 days".
std::string rough_duration_text(double seconds);

/// "#17": a token without a label; texts may contain this form, too.
std::string token_number(int token);
/// The label of a token; its number without a label, because a model's vocabulary may be larger than its task's.
std::string label_among(std::span<const std::string> labels, int token);

/// A field of a CSV file (RFC 4180): in quotes, with its own quotes doubled, where it holds a comma, a quote or a line
/// end, or begins with a byte order mark; else unchanged. Spaces belong to a field and need no quotes.
std::string csv_field(std::string_view text);

}  // namespace afterglow
