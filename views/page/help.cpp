// A sheet with all keys, written from the table of commands.
#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "views/page/page.h"
#include "views/plots/families.h"
#include "views/widgets/widgets.h"

namespace afterglow {
namespace {

struct KeyLine {
  std::string keys, meaning;
};

/// The lines of assets/page/keys.json: "mouse" on plots, or "keys" whose action differs from the title of their
/// command.
std::vector<KeyLine> lines_of(const char* part) {
  const auto data = nlohmann::json::parse(page_texts().front().json);
  std::vector<KeyLine> lines;
  for (const nlohmann::json& line : data.at(part)) lines.push_back({line.at(0), line.at(1)});
  return lines;
}

/// "Ctrl+1 … 9" if a command has many keys.
std::string short_keys(std::string_view keys) {
  const std::size_t first = keys.find(' '), last = keys.rfind(' ');
  if (first == last) return std::string(keys);
  const std::string_view begin = keys.substr(0, first), end = keys.substr(last + 1);
  const auto parting = std::ranges::mismatch(begin, end);
  const std::string_view shared(end.begin(), parting.in2);
  const std::size_t modifiers = shared.rfind('+') + 1;  // 0 without modifiers
  return std::string(begin) + " … " + std::string(end.substr(modifiers));
}

std::vector<KeyLine> key_lines() {
  static const std::vector<KeyLine> other_keys = lines_of("keys");
  std::vector<KeyLine> lines;
  for (const CommandSpec& spec : command_table()) {
    std::string keys(spec.keys);
    for (const KeyLine& other : other_keys) {
      const std::size_t at = keys.find(other.keys);
      if (at == std::string::npos) continue;
      keys.erase(at > 0 ? at - 1 : 0, other.keys.size() + 1);
      lines.push_back(other);
    }
    if (!keys.empty()) lines.push_back({short_keys(keys), std::string(spec.title)});
  }
  return lines;
}

struct KeyColumn {
  std::string_view head;
  std::span<const KeyLine> lines;
  double keys = 0, width = 0;  ///< widths of the texts
};

KeyColumn measured(const Frame& frame, std::string_view head, std::span<const KeyLine> lines) {
  const FigureCanvas canvas(*ImGui::GetForegroundDrawList(), *frame.look.fonts);  // no window has begun yet
  double keys = 0, meanings = 0;
  for (const KeyLine& line : lines) {
    keys = std::max(keys, canvas.text_width(line.keys, frame.px(tiny_size), FontFace::mono));
    meanings = std::max(meanings, canvas.text_width(line.meaning, frame.px(small_size), FontFace::regular));
  }
  keys += frame.px(14);
  return {head, lines, keys, keys + meanings + frame.px(4)};
}

void draw_column(const Frame& frame, Canvas& canvas, const Rect& area, const KeyColumn& column, double row) {
  const Theme& theme = *frame.look.theme;
  double y = area.y + section_head(frame, area, column.head);
  const double keys = std::min(column.keys, area.width * 0.55);
  for (const KeyLine& line : column.lines) {
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
  static const std::vector<KeyLine> mouse_lines = lines_of("mouse");
  const std::vector<KeyLine> keys = key_lines();
  // Two columns of keys and one of the mouse; rows move closer in a low window.
  const std::size_t half = (keys.size() + 1) / 2, most = std::max(half, mouse_lines.size());
  const std::span<const KeyLine> all_keys(keys);
  const std::array columns{measured(frame, "Keys", all_keys.first(half)), measured(frame, "", all_keys.subspan(half)),
                           measured(frame, "Mouse", mouse_lines)};
  const double gap = frame.px(24), texts = columns[0].width + columns[1].width + columns[2].width;
  const double head = frame.px(98), width = std::min(texts + 4 * gap, all.width - frame.px(16));
  const double room = (all.height - frame.px(16) - head) / static_cast<double>(most);
  const double row = std::clamp(room, frame.px(14), frame.px(24));
  const double height = std::min(all.height - frame.px(16), head + row * static_cast<double>(most));
  const Rect box{std::round((all.width - width) / 2), std::round((all.height - height) / 2), width, height};
  FigureCanvas canvas = begin_sheet(frame, "help", box);
  const Rect inside{box.x + frame.px(24), box.y + frame.px(18), width - frame.px(48), height - frame.px(36)};
  row_text(frame.look, canvas, {inside.x, inside.y, inside.width, frame.px(22)}, "Keys and mouse",
           {15, FontFace::semibold, theme.text, Anchor::start});
  row_text(frame.look, canvas, {inside.x, inside.y, inside.width, frame.px(22)}, "F1 or Esc closes",
           {small_size, FontFace::regular, theme.faint, Anchor::end});
  double x = inside.x;
  for (const KeyColumn& column : columns) {
    const double share = column.width * (inside.width - 2 * gap) / texts;  // all of it in a wide window
    draw_column(frame, canvas, {x, inside.y + frame.px(38), share, height}, column, row);
    x += share + gap;
  }
  if (ImGui::IsMouseClicked(0)) frame.state.help_is_open = false;
  ImGui::End();
}

}  // namespace afterglow
