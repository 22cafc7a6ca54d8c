// The interface of libafterglow-accessibility.so, which speaks to AT-SPI. It is plain C, so that program and plugin may
// come from different builds; a changed interface gets another function name.
#pragma once
#include <cstddef>

namespace afterglow {

inline constexpr const char* accessibility_file = "libafterglow-accessibility.so";
inline constexpr const char* accessibility_function = "afterglow_accessibility_1";

struct SpokenText {
  const char *id, *name, *description;
};

/// The functions of AccessibleWindow; `self` is the result of `open`.
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

/// The only function that the plugin exports.
extern "C" const afterglow::AccessibilityPlugin* afterglow_accessibility_1();
