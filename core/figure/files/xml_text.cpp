// Entities of XML 1.0.
#include "core/figure/files/xml_text.h"

#include <array>
#include <utility>

#include "core/figure/text_metrics.h"

namespace afterglow {
namespace {

constexpr std::array<std::pair<char, std::string_view>, 6> entities = {
    {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&apos;"}, {'\r', "&#13;"}}};

}  // namespace

std::string xml_escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    std::string_view replacement;
    for (const auto& [plain, entity] : entities) {
      if (c == plain && c != '\'') replacement = entity;  // the writers delimit attributes with double quotes only
    }
    if (replacement.empty()) {
      out += c;
    } else {
      out += replacement;
    }
  }
  return out;
}

std::optional<std::string> xml_unescaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    if (text.front() != '&') {
      out += text.front();
      text.remove_prefix(1);
      continue;
    }
    bool is_known = false;
    for (const auto& [plain, entity] : entities) {
      if (!text.starts_with(entity)) continue;
      out += plain;
      text.remove_prefix(entity.size());
      is_known = true;
      break;
    }
    if (!is_known) return std::nullopt;
  }
  return out;
}

bool is_xml_text(std::string_view text) {
  while (!text.empty()) {
    const std::string_view before = text;
    const char32_t c = take_character(text);
    const bool is_broken = c == 0xfffd && !before.starts_with("\xef\xbf\xbd");
    const bool is_control = c < 0x20 && c != '\t' && c != '\n' && c != '\r';
    if (is_broken || is_control || c == 0xfffe || c == 0xffff) return false;
  }
  return true;
}

}  // namespace afterglow
