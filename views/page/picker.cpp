// The sheet for opening things: presets as cards, the papers' tables, recent runs, files.
#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>

#include "core/io/json.h"
#include "views/page/page.h"
#include "views/widgets/text_field.h"
#include "views/widgets/widgets.h"

namespace afterglow {
namespace {

constexpr double card_width = 250, card_height = 230, plain_card_height = 92, card_gap = 12;  // layout units

Rect square_in(const Rect& area) {
  const double side = std::min(area.width, area.height);
  return {area.x + (area.width - side) / 2, area.y + (area.height - side) / 2, side, side};
}

void draw_points(Canvas& canvas, const Theme& theme, const Rect& area, const json& points) {
  const Rect plane = square_in(area);
  const double radius = plane.width / 2;
  const Point centre{plane.x + radius, plane.y + radius};
  canvas.stroke_circle(centre, radius, {theme.hairline, std::max(1.0, radius / 40), Dash::solid});
  for (const json& point : points) {
    const double x = point.at(0), y = point.at(1);
    canvas.fill_circle({centre.x + radius * x, centre.y - radius * y}, std::max(1.5, radius / 18),
                       ink_color(theme, Ink(point.at(2).get<int>())));
  }
}

void draw_curves(Canvas& canvas, const Theme& theme, const Rect& area, const json& curves) {
  int index = 0;
  for (const json& curve : curves) {
    std::vector<Point> points;
    for (std::size_t i = 0; i < curve.size(); ++i) {
      if (curve[i].is_null()) continue;  // the curve begins later
      const double share = curve.size() > 1 ? static_cast<double>(i) / static_cast<double>(curve.size() - 1) : 0;
      points.push_back({area.x + share * area.width, area.bottom() - curve[i].get<double>() * area.height});
    }
    canvas.polyline(points, {ink_color(theme, Ink(index++)), std::max(1.5, area.height / 50), Dash::solid});
  }
}

void draw_cells(Canvas& canvas, const Theme& theme, const Rect& area, const std::string& digits) {
  const auto side = static_cast<int>(std::lround(std::sqrt(static_cast<double>(digits.size()))));
  std::vector<Color> cells;
  for (const char digit : digits) cells.push_back(map_color(theme, ColourMap::sequential, (digit - '0') / 9.0));
  canvas.color_grid(square_in(area), side, side, cells);
}

/// Draws a small picture of a preset (assets/presets/README.md) without axes into `area`: dots in the unit circle,
/// curves, or a map of cells; nothing for an empty text.
void draw_picture(Canvas& canvas, const Theme& theme, const Rect& area, std::string_view picture) {
  if (picture.empty()) return;
  const json parts = json::parse(picture);
  if (parts.contains("points")) draw_points(canvas, theme, area, parts["points"]);
  if (parts.contains("curves")) draw_curves(canvas, theme, area, parts["curves"]);
  if (parts.contains("cells")) draw_cells(canvas, theme, area, parts["cells"]);
}

bool has_words(const PickerEntry& entry, const std::string& text) {
  const std::string all = lower_case(entry.name + " " + entry.sentence + " " + entry.words);
  std::istringstream words(lower_case(text));
  for (std::string word; words >> word;) {
    if (all.find(word) == std::string::npos) return false;
  }
  return true;
}

void open(PageState& state, CommandQueue& commands, const PickerEntry& entry) {
  const Command command = entry.command;
  if (!entry.is_folder) state.picker = {};
  commands.send(command);
}

void choose_section(PickerState& picker, int section) {
  picker.section = static_cast<PickerSection>(std::clamp(section, 0, picker_sections - 1));
  picker.text.clear();
  picker.chosen = 0;
  picker.wants_focus = true;
  ++picker.generation;
}

void draw_sections(Frame& frame, Canvas& canvas, const Rect& area) {
  const Theme& theme = *frame.look.theme;
  PickerState& picker = frame.state.picker;
  const double height = frame.px(34);
  for (int i = 0; i < picker_sections; ++i) {
    const Rect row{area.x, area.y + i * height, area.width, height - frame.px(4)};
    const std::string name(name_of(static_cast<PickerSection>(i)));
    const Press press = press_area(name.c_str(), row);
    const bool is_chosen = picker.text.empty() && static_cast<int>(picker.section) == i;
    if (is_chosen || press.hovered) canvas.fill_rect(row, frame.px(6), theme.raised);
    row_text(frame.look, canvas, {row.x + frame.px(12), row.y, row.width - frame.px(16), row.height}, name,
             {body_size, FontFace::regular, is_chosen ? theme.text : theme.dim, Anchor::start});
    if (press.clicked) choose_section(picker, i);
  }
}

void draw_card(const Frame& frame, Canvas& canvas, const PickerEntry& entry, const Rect& box, bool has_picture,
               bool is_chosen, bool is_hovered) {
  const Theme& theme = *frame.look.theme;
  canvas.fill_rect(box, frame.px(8), theme.raised);
  canvas.stroke_rect(box, frame.px(8),
                     {is_chosen    ? theme.accent
                      : is_hovered ? theme.dim
                                   : theme.hairline,
                      std::max(1.0, frame.px(1)), Dash::solid});
  const double margin = frame.px(12), width = box.width - 2 * margin;
  double y = box.y + margin;
  if (has_picture) {
    draw_picture(canvas, theme, {box.x + margin, y, width, frame.px(96)}, entry.picture);
    y += frame.px(104);
  }
  row_text(frame.look, canvas, {box.x + margin, y, width, frame.px(20)}, entry.name,
           {title_size, FontFace::semibold, theme.text, Anchor::start});
  y += frame.px(21);
  const std::size_t lines_that_fit = has_picture ? 3 : 2;
  text_lines(frame.look, canvas, {box.x + margin, y, width, 0},
             wrapped_text(canvas, entry.sentence, width, frame.px(small_size), FontFace::regular, lines_that_fit),
             frame.px(17), {small_size, FontFace::regular, theme.dim, Anchor::start});
  const Rect foot{box.x + margin, box.bottom() - frame.px(25), width, frame.px(17)};
  const double time =
      row_text(frame.look, canvas, foot, entry.time, {tiny_size, FontFace::mono, theme.accent, Anchor::end});
  row_text(frame.look, canvas, {foot.x, foot.y, foot.width - time - frame.px(6), foot.height}, entry.size,
           {tiny_size, FontFace::mono, theme.dim, Anchor::start});
}

void draw_cards(Frame& frame, Canvas& canvas, const std::vector<const PickerEntry*>& entries, const Rect& area) {
  PickerState& picker = frame.state.picker;
  const bool has_pictures =
      std::ranges::any_of(entries, [](const PickerEntry* entry) { return !entry->picture.empty(); });
  const double gap = frame.px(card_gap), height = frame.px(has_pictures ? card_height : plain_card_height);
  picker.columns = std::max(1, static_cast<int>((area.width + gap) / (frame.px(card_width) + gap)));
  const double width = (area.width - gap * (picker.columns - 1)) / picker.columns;
  const int rows = std::max(1, static_cast<int>((area.height + gap) / (height + gap)));
  picker.chosen = std::clamp(picker.chosen, 0, std::max(0, static_cast<int>(entries.size()) - 1));
  const int first = std::max(0, picker.chosen / picker.columns - rows + 1) * picker.columns;
  const int end = std::min(static_cast<int>(entries.size()), first + rows * picker.columns);
  const PickerEntry* clicked = nullptr;
  for (int i = first; i < end; ++i) {
    const int place = i - first;
    const Rect box{area.x + place % picker.columns * (width + gap), area.y + place / picker.columns * (height + gap),
                   width, height};
    ImGui::PushID(i);
    const Press press = press_area("card", box);
    ImGui::PopID();
    const PickerEntry& entry = *entries[static_cast<std::size_t>(i)];
    draw_card(frame, canvas, entry, box, has_pictures, i == picker.chosen, press.hovered);
    if (press.clicked) clicked = &entry;
  }
  const int hidden = static_cast<int>(entries.size()) - (end - first);
  if (hidden > 0) {
    row_text(frame.look, canvas, {area.x, area.bottom() + frame.px(4), area.width, frame.px(18)},
             std::to_string(first + 1) + " to " + std::to_string(end) + " of " + std::to_string(entries.size()) +
                 " · scroll or press the arrow keys for more",
             {small_size, FontFace::regular, frame.look.theme->faint, Anchor::end});
    const double wheel = static_cast<double>(ImGui::GetIO().MouseWheel);
    if (wheel != 0) picker.chosen += wheel < 0 ? picker.columns : -picker.columns;
  }
  if (clicked) open(frame.state, frame.commands, *clicked);
}

}  // namespace

std::string_view name_of(PickerSection section) {
  static constexpr std::array names{"Models", "Lessons", "Papers' tables", "Recent", "Open file…"};
  return names[static_cast<std::size_t>(section)];
}

std::vector<const PickerEntry*> picker_matches(const PickerState& picker) {
  std::vector<const PickerEntry*> matches;
  for (const PickerEntry& entry : picker.entries) {
    const bool is_meant = picker.text.empty() ? entry.section == picker.section : has_words(entry, picker.text);
    if (is_meant) matches.push_back(&entry);
  }
  return matches;
}

void picker_key(PageState& state, CommandQueue& commands, ListKey key) {
  PickerState& picker = state.picker;
  const std::vector<const PickerEntry*> entries = picker_matches(picker);
  const auto go = [&](int by) {
    picker.chosen = std::clamp(picker.chosen + by, 0, std::max(0, static_cast<int>(entries.size()) - 1));
  };
  if (key == ListKey::up) go(-picker.columns);
  if (key == ListKey::down) go(picker.columns);
  if (key == ListKey::left) go(-1);
  if (key == ListKey::right) go(1);
  if (key == ListKey::page_up) choose_section(picker, static_cast<int>(picker.section) - 1);
  if (key == ListKey::page_down) choose_section(picker, static_cast<int>(picker.section) + 1);
  if (key == ListKey::leave) picker = {};
  if (key == ListKey::accept && picker.chosen < static_cast<int>(entries.size()))
    open(state, commands, *entries[static_cast<std::size_t>(std::max(0, picker.chosen))]);
}

void draw_picker(Frame& frame) {
  PickerState& picker = frame.state.picker;
  if (!picker.is_open) return;
  const Rect all = window_bounds();
  const Theme& theme = *frame.look.theme;
  const double width = std::min(frame.px(1220), all.width - frame.px(32)),
               height = std::min(frame.px(820), all.height - frame.px(48));
  const Rect box{std::round((all.width - width) / 2), std::round((all.height - height) / 2), width, height};
  FigureCanvas canvas = begin_sheet(frame, "picker", box);
  const double head = frame.px(58), margin = frame.px(18);
  const bool is_wide = width > frame.px(720);
  const Rect row{box.x + margin, box.y + frame.px(12), width - 2 * margin, frame.px(34)};
  const double title =
      row_text(frame.look, canvas, row, "Start from", {15, FontFace::semibold, theme.text, Anchor::start}) +
      frame.px(16);
  const char* keys = "Enter opens · Esc closes · the present run continues";
  const double hint =
      is_wide ? row_text(frame.look, canvas, row, keys, {small_size, FontFace::regular, theme.faint, Anchor::end}) +
                    frame.px(16)
              : 0;
  const Rect field{row.x + title, row.y, row.width - title - hint, row.height};
  canvas.fill_rect(field, frame.px(6), theme.raised);
  const bool wants_focus = std::exchange(picker.wants_focus, false);
  const std::string id = "##filter" + std::to_string(picker.generation);
  if (text_field(frame.look, id.c_str(), picker.text,
                 {field.x + frame.px(8), field.y + frame.px(4), field.width - frame.px(16), field.height - frame.px(8)},
                 body_size, FontFace::regular, wants_focus)
          .edited)
    picker.chosen = 0;
  if (picker.text.empty()) {
    row_text(frame.look, canvas, {field.x + frame.px(10), field.y, field.width, field.height},
             "type to search layers, tasks, papers and files",
             {body_size, FontFace::regular, theme.faint, Anchor::start});
  }
  const double left = frame.px(is_wide ? 172 : 116), top = box.y + head + frame.px(12);
  draw_sections(frame, canvas, {box.x + margin, top, left - margin, height});
  const Rect cards{box.x + left + margin, top, width - left - 2 * margin, box.bottom() - top - frame.px(30)};
  const std::vector<const PickerEntry*> entries = picker_matches(picker);
  if (entries.empty()) {
    row_text(frame.look, canvas, {cards.x, cards.y, cards.width, frame.px(24)},
             picker.text.empty() ? "Nothing yet." : "No match.",
             {body_size, FontFace::regular, theme.faint, Anchor::start});
  }
  draw_cards(frame, canvas, entries, cards);
  if (ImGui::IsMouseClicked(0) && !box.contains(mouse_place())) frame.state.picker = {};
  ImGui::End();
}

}  // namespace afterglow
