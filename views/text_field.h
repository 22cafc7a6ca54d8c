// A text field on a std::string, without a frame.
#pragma once
#include <optional>
#include <string>

#include "views/look.h"

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

}  // namespace afterglow
