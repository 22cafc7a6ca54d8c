// Input and glyphs for tests of the drawing, with every version of Dear ImGui.
#pragma once
#include "views/look/imgui_compat.h"

namespace afterglow {

inline void put_button(ImGuiIO& io, int button, bool is_down) {
#if IMGUI_VERSION_NUM >= 18700
  io.AddMouseButtonEvent(button, is_down);
#else
  io.MouseDown[button] = is_down;
#endif
}

inline void put_wheel(ImGuiIO& io, float amount) {
#if IMGUI_VERSION_NUM >= 18700
  io.AddMouseWheelEvent(0, amount);
#else
  io.MouseWheel = amount;
#endif
}
inline void put_ctrl(ImGuiIO& io, bool is_down) {
#if IMGUI_VERSION_NUM >= 18900
  io.AddKeyEvent(ImGuiMod_Ctrl, is_down);
#elif IMGUI_VERSION_NUM >= 18700
  io.AddKeyEvent(ImGuiKey_ModCtrl, is_down);
#else
  io.KeyCtrl = is_down;
#endif
}

/// The glyphs of a font at its own height; nullptr in versions that bake every height on demand.
inline ImVector<ImFontGlyph> baked_glyphs([[maybe_unused]] const ImFont* font) {
#if IMGUI_VERSION_NUM >= 19200
  return {};
#else
  return font->Glyphs;
#endif
}

}  // namespace afterglow
