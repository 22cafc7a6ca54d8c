// A text field on a std::string, without a frame of its own.
#pragma once
#include <optional>
#include <string>

#include "views/look.h"

namespace afterglow {

struct TextStretch;

struct FieldResult {
  bool entered = false;  ///< Enter
  bool left = false;     ///< focus went elsewhere
  bool edited = false;
};
/// All of the text is selected when it gets the keyboard, or `selected`, which is then taken.
FieldResult text_field(const Look& look, const char* id, std::string& text, const Rect& box, double size, FontFace face,
                       bool wants_focus, std::optional<TextStretch>* selected = nullptr);

}  // namespace afterglow
