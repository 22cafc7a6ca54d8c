// A text field on a std::string, without a frame.
#pragma once
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "views/look/look.h"

namespace afterglow {

struct TextStretch;

struct FieldResult {
  bool entered = false;  ///< Enter
  bool left = false;     ///< the keyboard focus went elsewhere
  bool edited = false;
};
/// When it gets the keyboard focus, all text is selected, or `selected`, which is then reset.
FieldResult text_field(const Look& look, const char* id, std::string& text, const Rect& box, double size, FontFace face,
                       bool wants_focus, std::optional<TextStretch>* selected = nullptr);

/// For searches; changes ASCII letters only.
inline std::string lower_case(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return result;
}

}  // namespace afterglow
