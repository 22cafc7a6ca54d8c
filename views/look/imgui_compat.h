// The differences between the versions of Dear ImGui that distributions ship (1.86 to 1.92).
#pragma once
#include <imgui.h>

namespace afterglow {

/// Distance from the top of a line of text of this height to its baseline.
inline float baseline_of(ImFont* font, float height) {
#if IMGUI_VERSION_NUM >= 19200
  return font->GetFontBaked(height)->Ascent;
#else
  return font->Ascent * height / font->FontSize;
#endif
}

/// Height at which a font was baked; newer versions bake any height on demand.
inline float baked_height(const ImFont* font, [[maybe_unused]] float wanted) {
#if IMGUI_VERSION_NUM >= 19200
  (void)font;
  return wanted;
#else
  return font->FontSize;
#endif
}

inline void push_font(ImFont* font, [[maybe_unused]] float height) {
#if IMGUI_VERSION_NUM >= 19200
  ImGui::PushFont(font, height);
#else
  ImGui::PushFont(font);
#endif
}

/// The mouse, as a back end would send it.
inline void put_mouse(ImGuiIO& io, float x, float y) {
#if IMGUI_VERSION_NUM >= 18700
  io.AddMousePosEvent(x, y);
#else
  io.MousePos = ImVec2(x, y);
#endif
}
/// A button's state from a queue of the window's own; newer versions have one.
inline void keep_button([[maybe_unused]] ImGuiIO& io, [[maybe_unused]] int button, [[maybe_unused]] bool is_down) {
#if IMGUI_VERSION_NUM < 18700
  io.MouseDown[button] = is_down;
#endif
}

inline bool has_glyph(ImFont* font, ImWchar character) {
#if IMGUI_VERSION_NUM >= 19200
  return font->IsGlyphInFont(character);
#else
  return font->FindGlyphNoFallback(character) != nullptr;
#endif
}

/// Widgets that use their own size draw fonts smaller that were baked for dense screens.
inline void scale_font([[maybe_unused]] ImFont* font, [[maybe_unused]] float scale) {
#if IMGUI_VERSION_NUM < 19200
  font->Scale = scale;
#endif
}

}  // namespace afterglow
