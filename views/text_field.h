// A text field on a std::string, without a frame of its own.
#pragma once
#include <string>

#include "views/look.h"

namespace afterglow {

struct FieldResult {
  bool entered = false;  ///< Enter
  bool left = false;     ///< focus went elsewhere
  bool edited = false;
};
FieldResult text_field(const Look& look, const char* id, std::string& text, const Rect& box, double size, FontFace face,
                       bool wants_focus);

}  // namespace afterglow
