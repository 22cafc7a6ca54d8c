// What the program asks of libafterglow-accessibility.so, which speaks to AT-SPI. Plain C, so that it matters not which
// build either comes from; what changes here changes the name of the function.
#pragma once
#include <cstddef>

namespace afterglow {

inline constexpr const char* accessibility_file = "libafterglow-accessibility.so";
inline constexpr const char* accessibility_function = "afterglow_accessibility_1";

struct SpokenText {
  const char *id, *name, *description;
};

/// The functions of AccessibleWindow; `self` is what `open` gave.
struct AccessibilityPlugin {
  void* (*open)(const char* title);
  void (*close)(void* self);
  void (*serve)(void* self);
  bool (*is_heard)(const void* self);
  void (*show)(void* self, const SpokenText* panels, std::size_t count);
  void (*focus)(void* self, const char* id);
  void (*announce)(void* self, const char* text);
};

}  // namespace afterglow

/// The only one that the plugin exports.
extern "C" const afterglow::AccessibilityPlugin* afterglow_accessibility_1();
