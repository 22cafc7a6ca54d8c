// Chunks, comments and elements that hold a recipe, each with a checksum.
#include "core/figure/files/carried_recipe.h"

#include <cmath>

#include "core/figure/files/xml_text.h"
#include "core/io/byte_parts.h"
#include "core/io/error.h"

namespace afterglow {
namespace {

constexpr std::string_view png_signature = "\x89PNG\r\n\x1a\n";
constexpr std::string_view png_keyword = "afterglow.recipe";
constexpr std::string_view pdf_start = "\n%afterglow.recipe ";
constexpr std::string_view pdf_end = "\n%afterglow.recipe.end\n";
constexpr std::string_view csv_start = "# afterglow.recipe ";
constexpr std::string_view svg_start = "<recipe xmlns=\"urn:afterglow:recipe\" crc32=\"";
constexpr std::string_view svg_base64 = "\" encoding=\"base64\">";
constexpr std::string_view svg_plain = "\">";
constexpr std::string_view svg_end = "</recipe>";
constexpr std::size_t base64_line = 76;
constexpr std::string_view base64_digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

[[noreturn]] void throw_damaged(const std::string& path, const std::string& what) {
  throw BadInput("cannot read the recipe in ", path, ": ", what,
                 "; export the figure again or take another copy of the file");
}

std::string hex_text(std::uint32_t value) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text(8, '0');
  for (int i = 7; i >= 0; --i, value >>= 4) text[i] = digits[value & 15];
  return text;
}

std::string base64_text(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto at = [&](std::size_t k) -> std::uint32_t {
      return k < bytes.size() ? static_cast<unsigned char>(bytes[k]) : 0;
    };
    const std::uint32_t three = at(i) << 16 | at(i + 1) << 8 | at(i + 2);
    text += base64_digits[three >> 18 & 63];
    text += base64_digits[three >> 12 & 63];
    text += i + 1 < bytes.size() ? base64_digits[three >> 6 & 63] : '=';
    text += i + 2 < bytes.size() ? base64_digits[three & 63] : '=';
  }
  return text;
}

// Skips line breaks and '%' between the digits; any other character makes the text invalid.
std::optional<std::string> from_base64(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  std::uint32_t bits = 0;
  int count = 0;
  bool is_padding = false;
  for (const char c : text) {
    if (c == '\n' || c == '\r' || c == '%') continue;
    if (c == '=') {
      is_padding = true;
      continue;
    }
    const auto digit = base64_digits.find(c);
    if (digit == std::string_view::npos || is_padding) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>(bits >> count & 0xff);
    }
  }
  return bytes;
}

std::string checked(std::optional<std::string> recipe, std::string_view expected_crc, const std::string& path) {
  if (!recipe || hex_text(crc32_of(*recipe)) != expected_crc)
    throw_damaged(path, "its checksum does not fit, the file is damaged");
  return std::move(*recipe);
}

// ---- PNG

std::string big_endian(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

std::uint32_t from_big_endian(std::string_view bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

std::string png_chunk(std::string_view type, std::string_view data) {
  const std::string body = std::string(type) + std::string(data);
  return big_endian(static_cast<std::uint32_t>(data.size())) + body + big_endian(crc32_of(body));
}

std::string international_text(std::string_view keyword, std::string_view text) {
  constexpr std::string_view plain_without_language("\0\0\0\0\0", 5);
  return png_chunk("iTXt", std::string(keyword) + std::string(plain_without_language) + std::string(text));
}

std::optional<std::string> recipe_in_text_chunk(std::string_view data, const std::string& path) {
  const std::string head = std::string(png_keyword) + '\0';
  if (!data.starts_with(head)) return std::nullopt;
  data.remove_prefix(head.size());
  if (data.size() < 2 || data[0] != 0)
    throw_damaged(path, "its text chunk is compressed, which Afterglow never writes");
  data.remove_prefix(2);
  for (int text_before = 0; text_before < 2; ++text_before) {  // language, translated keyword
    const auto end = data.find('\0');
    if (end == std::string_view::npos) throw_damaged(path, "its text chunk is cut short");
    data.remove_prefix(end + 1);
  }
  return std::string(data);
}

std::optional<std::string> recipe_in_png(std::string_view bytes, const std::string& path) {
  bytes.remove_prefix(png_signature.size());
  while (bytes.size() >= 12) {
    const std::size_t length = from_big_endian(bytes);
    const std::string_view type = bytes.substr(4, 4);
    if (length > bytes.size() - 12) throw_damaged(path, "the file ends within a chunk, it is cut short or damaged");
    if (type == "iTXt") {
      const bool is_whole = from_big_endian(bytes.substr(8 + length)) == crc32_of(bytes.substr(4, 4 + length));
      if (!is_whole) throw_damaged(path, "the checksum of a text chunk does not fit, the file is damaged");
      if (auto recipe = recipe_in_text_chunk(bytes.substr(8, length), path)) return recipe;
    }
    if (type == "IEND") return std::nullopt;
    bytes.remove_prefix(12 + length);
  }
  throw_damaged(path, "the file ends before its last chunk, it is cut short");
}

// ---- PDF

std::optional<std::string> recipe_in_pdf(std::string_view bytes, const std::string& path) {
  const auto start = bytes.rfind(pdf_start);
  if (start == std::string_view::npos) {
    if (bytes.rfind("%%EOF") == std::string_view::npos) throw_damaged(path, "the file has no end, it is cut short");
    return std::nullopt;
  }
  std::string_view rest = bytes.substr(start + pdf_start.size());
  const auto line_end = rest.find('\n'), end = rest.find(pdf_end);
  if (line_end == std::string_view::npos || end == std::string_view::npos || line_end > end)
    throw_damaged(path, "it is cut short");
  return checked(from_base64(rest.substr(line_end, end - line_end)), rest.substr(0, line_end), path);
}

// Cairo 1.16 always writes a date; overwriting it with blanks keeps every offset of the file valid.
void blank_creation_date(std::string& pdf) {
  const auto start = pdf.rfind("/CreationDate (");
  if (start == std::string::npos) return;
  const auto end = pdf.find(')', start);
  if (end != std::string::npos) pdf.replace(start, end + 1 - start, end + 1 - start, ' ');
}

// ---- CSV

// The last line of the table, a comment.
std::optional<std::string> recipe_in_csv(std::string_view bytes, const std::string& path) {
  while (bytes.ends_with('\n') || bytes.ends_with('\r')) bytes.remove_suffix(1);
  std::string_view line = bytes.substr(bytes.rfind('\n') + 1);
  if (!line.starts_with(csv_start)) return std::nullopt;
  line.remove_prefix(csv_start.size());
  const auto blank = line.find(' ');
  if (blank == std::string_view::npos) throw_damaged(path, "its last line is cut short");
  return checked(from_base64(line.substr(blank + 1)), line.substr(0, blank), path);
}

// ---- SVG

std::optional<std::string> recipe_in_svg(std::string_view bytes, const std::string& path) {
  const auto start = bytes.find(svg_start);
  if (start == std::string_view::npos) {
    if (bytes.find("</svg>") == std::string_view::npos) throw_damaged(path, "the file has no end, it is cut short");
    return std::nullopt;
  }
  std::string_view rest = bytes.substr(start + svg_start.size());
  if (rest.size() < 8) throw_damaged(path, "it is cut short");
  const std::string_view crc = rest.substr(0, 8);
  rest.remove_prefix(8);
  const auto end = rest.find(svg_end);
  if (end == std::string_view::npos) throw_damaged(path, "it is cut short");
  rest = rest.substr(0, end);
  if (rest.starts_with(svg_base64)) return checked(from_base64(rest.substr(svg_base64.size())), crc, path);
  if (rest.starts_with(svg_plain)) return checked(xml_unescaped(rest.substr(svg_plain.size())), crc, path);
  throw_damaged(path, "its element is damaged");
}

}  // namespace

std::string svg_recipe_element(std::string_view recipe) {
  const std::string head = std::string(svg_start) + hex_text(crc32_of(recipe));
  if (!is_xml_text(recipe)) return head + std::string(svg_base64) + base64_text(recipe) + std::string(svg_end);
  return head + std::string(svg_plain) + xml_escaped(recipe) + std::string(svg_end);
}

std::string png_with_recipe(std::string_view png, double dots_per_inch, std::string_view recipe,
                            std::string_view comment) {
  constexpr std::size_t header_size = 8 + 25;  // signature and IHDR, which must stay first
  const auto per_metre = static_cast<std::uint32_t>(std::lround(dots_per_inch / 0.0254));
  std::string out(png.substr(0, header_size));
  out += png_chunk("pHYs", big_endian(per_metre) + big_endian(per_metre) + '\1');
  if (!recipe.empty()) out += international_text(png_keyword, recipe);
  if (!comment.empty()) out += international_text("Comment", comment);
  out += png.substr(header_size);
  return out;
}

std::string pdf_with_recipe(std::string pdf, std::string_view recipe) {
  blank_creation_date(pdf);
  const auto table = pdf.rfind("\nxref\n"), pointer = pdf.rfind("startxref\n");
  if (recipe.empty() || table == std::string::npos || pointer == std::string::npos) return pdf;
  std::string comment = std::string(pdf_start) + hex_text(crc32_of(recipe));
  const std::string digits = base64_text(recipe);
  for (std::size_t i = 0; i < digits.size(); i += base64_line) comment += "\n%" + digits.substr(i, base64_line);
  comment += pdf_end.substr(0, pdf_end.size() - 1);
  // Everything before the comment keeps its offset; only the table itself moves.
  return pdf.substr(0, table) + comment + pdf.substr(table, pointer - table) + "startxref\n" +
         std::to_string(table + comment.size() + 1) + "\n%%EOF\n";
}

std::string csv_recipe_line(std::string_view recipe) {
  if (recipe.empty()) return "";
  return std::string(csv_start) + hex_text(crc32_of(recipe)) + " " + base64_text(recipe) + "\r\n";
}

std::optional<std::string> recipe_in(std::string_view bytes, const std::string& path) {
  if (bytes.starts_with(png_signature)) return recipe_in_png(bytes, path);
  if (bytes.starts_with("%PDF-")) return recipe_in_pdf(bytes, path);
  if (bytes.substr(0, 4096).find("<svg") != std::string_view::npos) return recipe_in_svg(bytes, path);
  if (path.ends_with(".csv") || path.ends_with(".CSV")) return recipe_in_csv(bytes, path);
  throw BadInput("cannot read ", path,
                 ": it is not an SVG, PDF, PNG or CSV file; drop a figure that Afterglow exported");
}

}  // namespace afterglow
