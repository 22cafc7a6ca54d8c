// The style of the few widgets that Dear ImGui draws itself.
#include "views/look/look.h"

#include <algorithm>

namespace afterglow {
namespace {
ImVec4 vec(Color c) { return ImGui::ColorConvertU32ToFloat4(packed(c)); }
}  // namespace

const Theme& theme_named(std::string_view name) {
  return name == "light" ? light_theme() : name == "projector" ? projector_theme() : dark_theme();
}

float look_scale(const Theme& theme, double content_scale, double zoom) {
  return static_cast<float>(std::clamp(content_scale, 0.5, 4.0) * std::clamp(zoom, 0.5, 3.0) * theme.text_scale);
}

float presenting_scale(double window_height) {
  constexpr double smallest_text = 10.5, lines = 40;  // of labels at marks in figures
  return static_cast<float>(std::clamp(window_height / (lines * smallest_text), 0.5, 8.0));
}

void apply_style(const Look& look) {
  const Theme& t = *look.theme;
  ImGuiStyle style;
  const auto px = [&](double units) { return static_cast<float>(look.px(units)); };
  style.WindowPadding = style.CellPadding = ImVec2(0, 0);
  style.FramePadding = ImVec2(px(6), px(3));
  style.ItemSpacing = ImVec2(0, 0);
  style.WindowRounding = style.ChildRounding = style.PopupRounding = px(8);
  style.FrameRounding = style.GrabRounding = style.ScrollbarRounding = px(5);
  style.ScrollbarSize = px(8);
  style.WindowBorderSize = style.ChildBorderSize = style.PopupBorderSize = style.FrameBorderSize = 0;
  style.AntiAliasedLinesUseTex = true;
  ImVec4* colors = style.Colors;
  colors[ImGuiCol_Text] = vec(t.text);
  colors[ImGuiCol_TextDisabled] = vec(t.faint);
  colors[ImGuiCol_WindowBg] = vec(t.ground);
  colors[ImGuiCol_ChildBg] = ImVec4(0, 0, 0, 0);
  colors[ImGuiCol_PopupBg] = vec(t.panel);
  colors[ImGuiCol_Border] = vec(t.hairline);
  colors[ImGuiCol_FrameBg] = colors[ImGuiCol_FrameBgHovered] = colors[ImGuiCol_FrameBgActive] = vec(t.raised);
  colors[ImGuiCol_TextSelectedBg] = vec(faded(t.accent, 0.35));
  colors[ImGuiCol_ScrollbarBg] = ImVec4(0, 0, 0, 0);
  colors[ImGuiCol_ScrollbarGrab] = vec(t.hairline);
  colors[ImGuiCol_ScrollbarGrabHovered] = colors[ImGuiCol_ScrollbarGrabActive] = vec(t.faint);
  ImGui::GetStyle() = style;
}

}  // namespace afterglow
