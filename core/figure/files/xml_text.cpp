// Entities of XML 1.0.
#include "core/figure/files/xml_text.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/figure/canvas.h"

namespace afterglow {
namespace {

using Entity = std::pair<char, std::string_view>;
constexpr std::array<Entity, 6> entities = {
    {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&apos;"}, {'\r', "&#13;"}}};

}  // namespace

std::string xml_escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto known = std::ranges::find(entities, c, &Entity::first);
    const bool is_plain =
        known == entities.end() || c == '\'';  // the writers delimit attributes with double quotes only
    is_plain ? out += c : out += known->second;
  }
  return out;
}

std::optional<std::string> xml_unescaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto known = std::ranges::find_if(entities, [&](const Entity& one) { return text.starts_with(one.second); });
    const bool is_plain = known == entities.end();
    if (is_plain && text.starts_with('&')) return std::nullopt;
    out += is_plain ? text.front() : known->first;
    text.remove_prefix(is_plain ? 1 : known->second.size());
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
