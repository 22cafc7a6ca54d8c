// Escapes text for XML and unescapes it.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace afterglow {

/// Markup characters and carriage returns as entities. The text must hold only characters that XML allows.
std::string xml_escaped(std::string_view text);

/// The reverse; nothing when an entity is unknown or broken.
std::optional<std::string> xml_unescaped(std::string_view text);

/// True when XML can hold this text: valid UTF-8 and no control characters but tab, line feed and carriage return.
bool is_xml_text(std::string_view text);

}  // namespace afterglow
