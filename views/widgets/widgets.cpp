// Draws the small parts and handles clicks on them.
#include "views/widgets/widgets.h"

#include <algorithm>
#include <cmath>

#include "core/figure/math/math_text.h"
#include "views/figures/semantic_colours.h"

namespace afterglow {
namespace {

// Letters are drawn slightly below the middle of their row.
double baseline_in(const Rect& row, double size) { return row.y + row.height / 2 + 0.355 * size; }

std::string upper_case(std::string_view text) {
  std::string upper(text);
  for (char& c : upper) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return upper;
}

double icon_room(const Frame& frame, std::string_view label, Icon icon) {
  if (icon == Icon::none) return 0;
  return frame.px(label.empty() ? 12 : 18);
}

/// A box of the wanted size that does not cover its place and stays inside `bounds`.
Rect placed_box(const Frame& frame, Point beside, double width, double height, const Rect& bounds) {
  const double gap = frame.px(14);
  double x = beside.x + gap, y = beside.y + gap;
  if (x + width > bounds.right()) x = beside.x - gap - width;
  if (y + height > bounds.bottom()) y = beside.y - gap - height;
  return {std::max(bounds.x, x), std::max(bounds.y, y), width, height};
}

void card_ground(const Frame& frame, Canvas& canvas, const Rect& box) {
  const Theme& theme = *frame.look.theme;
  for (int i = 3; i > 0; --i) {
    const double grow = frame.px(i);
    canvas.fill_rect({box.x - grow, box.y - grow + frame.px(2), box.width + 2 * grow, box.height + 2 * grow},
                     frame.px(6 + i), faded({0, 0, 0, 255}, theme.is_dark ? 0.16 : 0.035));
  }
  canvas.fill_rect(box, frame.px(6), mixed(theme.raised, theme.panel, 0.25));
  canvas.stroke_rect(box, frame.px(6), {theme.hairline, std::max(1.0, frame.px(1)), Dash::solid});
}

struct ReadingWidths {
  double names = 0, values = 0;
};
ReadingWidths reading_widths(const Frame& frame, std::span<const ReadingLine> lines) {
  const FigureCanvas canvas(*ImGui::GetForegroundDrawList(), *frame.look.fonts);
  const double size = frame.px(tiny_size), widest = frame.px(220);
  ReadingWidths widths;
  for (const ReadingLine& line : lines) {
    widths.names = std::max(widths.names, std::min(widest, math_width(canvas, line.name, size, FontFace::regular)));
    widths.values = std::max(widths.values, math_width(canvas, line.value, size, FontFace::mono));
  }
  return widths;
}

constexpr double reading_row = 17, reading_padding = 8, reading_swatch = 14;

/// The box in its place, or moved to another side so that it covers no box of the measuring cursors.
Rect free_box(const Frame& frame, const Rect& box, Point beside, const Rect& bounds) {
  const std::vector<Rect>& kept = frame.state.pointer.measured;
  const double gap = frame.px(14), width = box.width, height = box.height;
  std::vector<Rect> places{box};
  for (const double x : {beside.x + gap, beside.x - gap - width}) {
    for (const double y : {beside.y + gap, beside.y - gap - height}) places.push_back({x, y, width, height});
  }
  for (const Rect& one : kept) {
    for (const double y : {one.bottom() + gap, one.y - gap - height}) places.push_back({box.x, y, width, height});
    for (const double x : {one.right() + gap, one.x - gap - width}) places.push_back({x, box.y, width, height});
  }
  const auto is_free = [&](const Rect& place) {
    return place.x >= bounds.x && place.y >= bounds.y && place.right() <= bounds.right() &&
           place.bottom() <= bounds.bottom() &&
           std::ranges::none_of(kept, [&](const Rect& one) { return one.overlaps(place); });
  };
  const auto found = std::ranges::find_if(places, is_free);
  return found == places.end() ? box : *found;
}

/// Adds the missing full stop, before a key that two blanks separate.
std::string as_sentence(std::string_view text) {
  const std::size_t end = std::min(text.find("  "), text.size());
  const std::string_view sentence = text.substr(0, end);
  const bool is_ended = sentence.ends_with('.') || sentence.ends_with('?');
  return std::string(sentence) + (is_ended ? "" : ".") + std::string(text.substr(end));
}

}  // namespace

std::string cut_text(const Canvas& canvas, std::string_view text, double width, double size, FontFace face) {
  if (canvas.text_width(text, size, face) <= width) return std::string(text);
  std::string cut;
  std::string_view rest = text;
  double used = canvas.text_width("…", size, face);
  while (!rest.empty()) {
    std::string next;
    append_utf8(next, take_character(rest));
    used += canvas.text_width(next, size, face);
    if (used > width) break;
    cut += next;
  }
  return cut.empty() ? "" : cut + "…";
}

std::string fitting_parts(const Canvas& canvas, std::string text, double width, double size) {
  while (!text.empty() && math_width(canvas, text, size, FontFace::regular) > width) {
    const std::size_t end = text.rfind(" · ");
    text.resize(end == std::string::npos ? 0 : end);
  }
  return text;
}

std::vector<std::string> wrapped_text(const Canvas& canvas, std::string_view text, double width, double size,
                                      FontFace face, std::size_t max_lines) {
  std::vector<std::string> lines(1);
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    const std::string_view word = rest.substr(0, end);
    const std::string longer = lines.back().empty() ? std::string(word) : lines.back() + " " + std::string(word);
    if (lines.back().empty() || canvas.text_width(longer, size, face) <= width) {
      lines.back() = longer;
    } else if (lines.size() == max_lines) {
      lines.back() += " " + std::string(rest);
      break;
    } else {
      lines.emplace_back(word);
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  for (std::string& line : lines) line = cut_text(canvas, line, width, size, face);
  return lines;
}

double row_text(const Look& look, Canvas& canvas, const Rect& row, std::string_view text, const RowText& style) {
  const double size = look.px(style.size);
  const std::string cut = style.is_math ? fitted_math(canvas, text, row.width, size, style.face)
                                        : cut_text(canvas, text, row.width, size, style.face);
  const double x = style.anchor == Anchor::start    ? row.x
                   : style.anchor == Anchor::middle ? row.x + row.width / 2
                                                    : row.right();
  const TextStyle drawn{size, style.face, style.color, style.anchor, 0};
  if (!style.is_math) {
    canvas.text({x, baseline_in(row, size)}, cut, drawn);
    return canvas.text_width(cut, size, style.face);
  }
  draw_math(canvas, {x, baseline_in(row, size)}, cut, drawn);
  return math_width(canvas, cut, size, style.face);
}

double text_lines(const Look& look, Canvas& canvas, const Rect& area, std::span<const std::string> lines, double height,
                  const RowText& style) {
  double y = area.y;
  for (const std::string& line : lines) {
    row_text(look, canvas, {area.x, y, area.width, height}, line, style);
    y += height;
  }
  return y;
}

Press press_area(const char* id, const Rect& area) {
  Press press;
  if (area.width < 1 || area.height < 1) return press;
  ImGui::SetCursorScreenPos({static_cast<float>(area.x), static_cast<float>(area.y)});
  press.clicked = ImGui::InvisibleButton(id, {static_cast<float>(area.width), static_cast<float>(area.height)});
  press.hovered = ImGui::IsItemHovered();
  press.held = ImGui::IsItemActive();
  press.started = ImGui::IsItemActivated();
  press.released = ImGui::IsItemDeactivated();
  press.double_clicked = press.hovered && ImGui::IsMouseDoubleClicked(0);
  return press;
}

void draw_icon(Canvas& canvas, Icon icon, const Rect& box, Color color) {
  const double s = std::min(box.width, box.height), x = box.x + box.width / 2, y = box.y + box.height / 2, r = s / 2;
  const Stroke line{color, std::max(1.2, s * 0.14), Dash::solid};
  const auto triangle = [&](double cx, double reach) {
    const Point corners[] = {
        {cx - 0.62 * reach, y - 0.78 * reach}, {cx + 0.82 * reach, y}, {cx - 0.62 * reach, y + 0.78 * reach}};
    canvas.polygon(corners, color);
  };
  switch (icon) {
    case Icon::none:
      break;
    case Icon::play:
      triangle(x, r);
      break;
    case Icon::pause:
      canvas.fill_rect({x - 0.6 * r, y - 0.75 * r, 0.42 * r, 1.5 * r}, 0, color);
      canvas.fill_rect({x + 0.18 * r, y - 0.75 * r, 0.42 * r, 1.5 * r}, 0, color);
      break;
    case Icon::step:
      triangle(x - 0.2 * r, 0.85 * r);
      canvas.fill_rect({x + 0.62 * r, y - 0.68 * r, 0.3 * r, 1.36 * r}, 0, color);
      break;
    case Icon::again: {
      std::vector<Point> arc;
      for (int i = 0; i <= 20; ++i) {
        const double angle = -0.6 + 5.2 * i / 20;
        arc.push_back({x + 0.72 * r * std::cos(angle), y + 0.72 * r * std::sin(angle)});
      }
      canvas.polyline(arc, line);
      const Point tip = arc.front();
      const Point head[] = {{tip.x - 0.52 * r, tip.y - 0.1 * r},
                            {tip.x + 0.25 * r, tip.y + 0.32 * r},
                            {tip.x + 0.26 * r, tip.y - 0.5 * r}};
      canvas.polygon(head, color);
      break;
    }
    case Icon::enlarge:
    case Icon::shrink: {
      // Two corners that point outwards, or inwards.
      const double out = icon == Icon::enlarge ? 0.85 : 0.15, in = icon == Icon::enlarge ? 0.15 : 0.85;
      for (const double side : {1.0, -1.0}) {
        const Point corner[] = {{x + side * in * r, y - side * out * r},
                                {x + side * out * r, y - side * out * r},
                                {x + side * out * r, y - side * in * r}};
        canvas.polyline(corner, line);
      }
      break;
    }
  }
}

double button_width(const Frame& frame, std::string_view label, Icon icon) {
  const FigureCanvas canvas(*ImGui::GetForegroundDrawList(), *frame.look.fonts);  // also before the frame has a window
  const FontFace face = FontFace::regular;
  return frame.px(24) + icon_room(frame, label, icon) + canvas.text_width(label, frame.px(body_size), face);
}

ButtonResult button(const Frame& frame, const char* id, double x, const Rect& row, std::string_view label, Icon icon,
                    ButtonKind kind, std::string_view hint) {
  FigureCanvas canvas = frame.look.canvas();
  const Theme& theme = *frame.look.theme;
  const Rect box{x, row.y, button_width(frame, label, icon), row.height};
  const Press press = press_area(id, box);
  const bool is_primary = kind == ButtonKind::primary;
  const Color on_accent = theme.is_dark ? mixed(theme.ground, theme.accent, 0.15) : theme.panel;
  Color ink = is_primary ? on_accent : kind == ButtonKind::quiet ? theme.dim : theme.text;
  if (kind == ButtonKind::quiet && press.hovered) ink = theme.text;
  if (kind == ButtonKind::dim) ink = press.hovered ? theme.dim : mixed(theme.faint, theme.panel, 0.45);
  const double radius = frame.px(6);
  if (is_primary) {
    canvas.fill_rect(box, radius,
                     press.held      ? mixed(theme.accent, theme.text, 0.2)
                     : press.hovered ? mixed(theme.accent, theme.text, 0.1)
                                     : theme.accent);
  } else if ((kind != ButtonKind::quiet && kind != ButtonKind::dim) || press.hovered) {
    canvas.fill_rect(box, radius,
                     press.hovered ? mixed(theme.raised, theme.text, press.held ? 0.12 : 0.06) : theme.raised);
    if (kind == ButtonKind::normal)
      canvas.stroke_rect(box, radius, {theme.hairline, std::max(1.0, frame.px(1)), Dash::solid});
  }
  const double room = icon_room(frame, label, icon);
  if (icon != Icon::none)
    draw_icon(canvas, icon, {box.x + frame.px(12), box.y + box.height / 2 - frame.px(6), frame.px(12), frame.px(12)},
              ink);
  row_text(frame.look, canvas, {box.x + frame.px(12) + room, box.y, box.width, box.height}, label,
           {body_size, is_primary ? FontFace::semibold : FontFace::regular, ink, Anchor::start});
  if (press.hovered && !hint.empty()) hint_box(frame, box, hint);
  return {box.width, press.clicked};
}

void draw_token_chip(const Frame& frame, Canvas& canvas, const TokenView& token, const Rect& chip, ChipState state) {
  constexpr double min_letters = 7;     // layout units; smaller ones cannot be read
  constexpr std::size_t least_cut = 6;  // bytes of three letters and "…"; fewer say nothing
  const Theme& theme = *frame.look.theme;
  const Ink ink = token_ink(token.role);
  const bool is_quiet = ink.role == Role::faint;
  const double radius = std::min(frame.px(4), chip.width / 3);
  Color fill = is_quiet ? theme.raised : mixed(theme.raised, ink_color(theme, ink), 0.35);
  if (state.is_hovered) fill = mixed(fill, theme.text, 0.12);
  canvas.fill_rect({chip.x, chip.bottom() - state.weight * chip.height, chip.width, state.weight * chip.height}, radius,
                   fill);
  if (state.weight < 1) canvas.stroke_rect(chip, radius, {fill, frame.px(1), Dash::solid});
  const double needed = canvas.text_width(token.label, frame.px(tiny_size), FontFace::mono),
               room = chip.width - frame.px(1);
  const double fitting = tiny_size * std::min(1.0, room / std::max(needed, 1.0)), size = std::max(min_letters, fitting);
  const bool fits = fitting >= min_letters;  // measured again it might be cut, by a rounding
  const std::string label = fits ? token.label : cut_text(canvas, token.label, room, frame.px(size), FontFace::mono);
  if (fits || label.size() >= least_cut)
    canvas.text({chip.x + chip.width / 2, baseline_in(chip, frame.px(size))}, label,
                {frame.px(size), FontFace::mono, is_quiet ? theme.dim : theme.text, Anchor::middle, 0});
  if (token.target >= 0)
    canvas.fill_rect({chip.x, chip.bottom() + frame.px(2), chip.width, frame.px(2)}, frame.px(1), theme.accent);
  if (state.is_selected) {
    const double out = frame.px(1);
    canvas.stroke_rect({chip.x - out, chip.y - out, chip.width + 2 * out, chip.height + 2 * out}, radius + out,
                       {theme.text, frame.px(2), Dash::solid});
  }
}

double section_head(const Frame& frame, const Rect& row, std::string_view text) {
  FigureCanvas canvas = frame.look.canvas();
  const double size = frame.px(tiny_size), spacing = frame.px(0.9);
  const std::string upper = upper_case(text);
  std::string_view rest = upper;
  double x = row.x;
  while (!rest.empty()) {
    std::string letter;
    append_utf8(letter, take_character(rest));
    const double width = canvas.text_width(letter, size, FontFace::semibold);
    if (x + width > row.right()) break;
    canvas.text({x, row.y + frame.px(11)}, letter,
                {size, FontFace::semibold, frame.look.theme->faint, Anchor::start, 0});
    x += width + spacing;
  }
  return frame.px(21);
}

Point reading_size(const Frame& frame, std::span<const ReadingLine> lines) {
  const ReadingWidths widths = reading_widths(frame, lines);
  return {frame.px(2 * reading_padding + reading_swatch + 14) + widths.names + widths.values,
          static_cast<double>(lines.size()) * frame.px(reading_row) + frame.px(8)};
}

void reading_box_at(const Frame& frame, const Rect& box, std::span<const ReadingLine> lines) {
  FigureCanvas canvas(*ImGui::GetForegroundDrawList(), *frame.look.fonts);
  const Theme& theme = *frame.look.theme;
  const double row = frame.px(reading_row), padding = frame.px(reading_padding), swatch = frame.px(reading_swatch);
  const double names = reading_widths(frame, lines).names;
  card_ground(frame, canvas, box);
  double y = box.y + frame.px(4);
  for (const ReadingLine& line : lines) {
    const Rect text_row{box.x + padding + (line.is_heading ? 0 : swatch), y, names + (line.is_heading ? swatch : 0),
                        row};
    if (!line.is_heading && !line.name.empty()) {
      canvas.fill_rect({box.x + padding, y + row / 2 - frame.px(1.5), frame.px(9), frame.px(3)}, frame.px(1.5),
                       ink_color(theme, line.ink));
    }
    row_text(frame.look, canvas, text_row, line.name,
             {tiny_size, FontFace::regular, line.is_heading ? theme.faint : theme.dim, Anchor::start, true});
    row_text(frame.look, canvas, {text_row.x, y, box.right() - padding - text_row.x, row}, line.value,
             {tiny_size, FontFace::mono, theme.text, Anchor::end, true});
    y += row;
  }
}

void reading_box(const Frame& frame, Point beside, std::span<const ReadingLine> lines, const Rect& bounds) {
  if (lines.empty()) return;
  const Point size = reading_size(frame, lines);
  const Rect box = free_box(frame, placed_box(frame, beside, size.x, size.y, bounds), beside, bounds);
  reading_box_at(frame, box, lines);
  frame.state.pointer.reading = box;
}

void hint_box(const Frame& frame, const Rect& area, std::string_view text) {
  FigureCanvas canvas(*ImGui::GetForegroundDrawList(), *frame.look.fonts);
  const Rect bounds = window_bounds();
  const std::vector<std::string> lines =
      wrapped_text(canvas, as_sentence(text), frame.px(320), frame.px(small_size), FontFace::regular, 4);
  double width = 0;
  for (const std::string& line : lines)
    width = std::max(width, canvas.text_width(line, frame.px(small_size), FontFace::regular));
  width += frame.px(20);
  const double row = frame.px(18), height = static_cast<double>(lines.size()) * row + frame.px(8);
  const double x = std::clamp(area.x + area.width / 2 - width / 2, bounds.x + frame.px(4),
                              std::max(bounds.x, bounds.right() - width - frame.px(4)));
  const double below = area.bottom() + frame.px(6);
  const Rect box{x, below + height < bounds.bottom() ? below : area.y - frame.px(6) - height, width, height};
  card_ground(frame, canvas, box);
  text_lines(frame.look, canvas, {box.x + frame.px(10), box.y + frame.px(4), width, height}, lines, row,
             {small_size, FontFace::regular, frame.look.theme->dim, Anchor::start});
}

void scroll_by_wheel(Frame& frame) {
  const ImGuiIO& io = ImGui::GetIO();
  if (io.MouseWheel == 0 || io.KeyCtrl || frame.state.pointer.wheel_is_taken || !ImGui::IsWindowHovered()) return;
  constexpr double notch = 60;
  const double wanted = static_cast<double>(ImGui::GetScrollY()) - frame.px(notch) * static_cast<double>(io.MouseWheel);
  ImGui::SetScrollY(std::clamp(static_cast<float>(wanted), 0.0f, ImGui::GetScrollMaxY()));
  frame.state.column_scrolled_at = frame.time;
  ask_frame(frame.state);
}

FigureCanvas begin_overlay(const Frame& frame, const char* name) {
  const Rect all = window_bounds();
  ImGui::SetNextWindowPos({0, 0});
  ImGui::SetNextWindowSize({static_cast<float>(all.width), static_cast<float>(all.height)});
  ImGui::SetNextWindowFocus();
  ImGui::Begin(name, nullptr, bare_window);
  return frame.look.canvas();
}

FigureCanvas begin_sheet(const Frame& frame, const char* name, const Rect& box) {
  const Theme& theme = *frame.look.theme;
  FigureCanvas canvas = begin_overlay(frame, name);
  canvas.fill_rect(window_bounds(), 0, faded(theme.ground, 0.6));
  canvas.fill_rect(box, frame.px(10), theme.panel);
  canvas.stroke_rect(box, frame.px(10), {theme.hairline, std::max(1.0, frame.px(1)), Dash::solid});
  return canvas;
}

Rect window_bounds() {
  const ImVec2 size = ImGui::GetIO().DisplaySize;
  return {0, 0, static_cast<double>(size.x), static_cast<double>(size.y)};
}

Point mouse_place() {
  const ImVec2 p = ImGui::GetIO().MousePos;
  return {static_cast<double>(p.x), static_cast<double>(p.y)};
}

Point press_place(int button) {
  const ImVec2 p = ImGui::GetIO().MouseClickedPos[button];
  return {static_cast<double>(p.x), static_cast<double>(p.y)};
}

bool is_dragged(const Frame& frame, int button) {
  const Point mouse = mouse_place(), start = press_place(button);
  return std::hypot(mouse.x - start.x, mouse.y - start.y) > frame.px(3);
}

}  // namespace afterglow
