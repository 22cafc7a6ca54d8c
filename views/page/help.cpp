// All keys on one sheet, written from the table of commands.
#include <algorithm>
#include <array>
#include <cmath>

#include "views/page/page.h"
#include "views/widgets.h"

namespace afterglow {

namespace {

struct KeyLine {
  std::string_view keys, meaning;
};

// What the mouse does on plots; the keys come from the table of commands.
constexpr std::array mouse_lines{
    KeyLine{"Drag", "Move the view"},
    KeyLine{"Wheel", "Zoom at the pointer; over an axis: that axis"},
    KeyLine{"Shift + drag", "Zoom to a box"},
    KeyLine{"Double click", "Show all data again and follow"},
    KeyLine{"Ctrl + click", "Measuring cursors A, then B, then none"},
    KeyLine{"Click a name", "Hide or show a curve"},
    KeyLine{"Click a dot", "Select a mode in every panel"},
    KeyLine{"Drag a dot", "Move the eigenvalue: probe with another operator"},
    KeyLine{"Right click a dot", "Switch the mode off or on"},
    KeyLine{"Click a number", "Type the exact value"},
    KeyLine{"Double click a slider", "Back to the default"},
    KeyLine{"Rest on a title or axis", "Formula card; F1 keeps it"},
};

std::vector<KeyLine> key_lines() {
  std::vector<KeyLine> lines;
  for (const CommandSpec& spec : command_table()) {
    if (!spec.keys.empty()) lines.push_back({spec.keys, spec.title});
  }
  return lines;
}

void draw_column(const Frame& frame, Canvas& canvas, const Rect& area, std::string_view head,
                 const std::vector<KeyLine>& lines) {
  const Theme& theme = *frame.look.theme;
  double y = area.y + section_head(frame, area, head);
  const double keys = std::min(frame.px(172), area.width * 0.45), row = frame.px(24);
  for (const KeyLine& line : lines) {
    row_text(frame.look, canvas, {area.x, y, keys - frame.px(8), row}, line.keys,
             {tiny_size, FontFace::mono, theme.text, Anchor::start});
    row_text(frame.look, canvas, {area.x + keys, y, area.width - keys, row}, line.meaning,
             {small_size, FontFace::regular, theme.dim, Anchor::start});
    y += row;
  }
}

}  // namespace

void draw_help(Frame& frame) {
  if (!frame.state.help_is_open) return;
  const Rect all = window_bounds();
  const Theme& theme = *frame.look.theme;
  const std::vector<KeyLine> keys = key_lines();
  const double row = frame.px(24), width = std::min(frame.px(960), all.width - frame.px(32));
  const double height = std::min(all.height - frame.px(32),
                                 frame.px(90) + row * static_cast<double>(std::max(keys.size(), mouse_lines.size())));
  const Rect box{std::round((all.width - width) / 2), std::round((all.height - height) / 2), width, height};
  ImGui::SetNextWindowPos({0, 0});
  ImGui::SetNextWindowSize({static_cast<float>(all.width), static_cast<float>(all.height)});
  ImGui::SetNextWindowFocus();
  ImGui::Begin("help", nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings |
                   ImGuiWindowFlags_NoBackground | ImGuiWindowFlags_NoNav);
  FigureCanvas canvas = frame.look.canvas();
  canvas.fill_rect(all, 0, faded(theme.ground, 0.6));
  canvas.fill_rect(box, frame.px(10), theme.panel);
  canvas.stroke_rect(box, frame.px(10), {theme.hairline, std::max(1.0, frame.px(1)), Dash::solid});
  const Rect inside{box.x + frame.px(24), box.y + frame.px(18), width - frame.px(48), height - frame.px(36)};
  row_text(frame.look, canvas, {inside.x, inside.y, inside.width, frame.px(22)}, "Keys and mouse",
           {15, FontFace::semibold, theme.text, Anchor::start});
  row_text(frame.look, canvas, {inside.x, inside.y, inside.width, frame.px(22)}, "F1 or Esc closes",
           {small_size, FontFace::regular, theme.faint, Anchor::end});
  const double gap = frame.px(32), half = (inside.width - gap) / 2, top = inside.y + frame.px(38);
  draw_column(frame, canvas, {inside.x, top, half, height}, "Keys", keys);
  draw_column(frame, canvas, {inside.x + half + gap, top, half, height}, "Mouse",
              {mouse_lines.begin(), mouse_lines.end()});
  if (ImGui::IsMouseClicked(0)) frame.state.help_is_open = false;
  ImGui::End();
}

}  // namespace afterglow
