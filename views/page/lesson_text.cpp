// Breaks text into lines, and lets the user drag its numbers.
#include "views/page/lesson_text.h"

#include <algorithm>
#include <cmath>

#include "core/figure/axis.h"
#include "views/widgets/sliders.h"
#include "views/widgets/widgets.h"

namespace afterglow {
namespace {

constexpr double whole_range = 240;  ///< layout units of a drag from one end of the range to the other
const std::string slider_prefix = "lesson ";

/// Sends the number through the lesson, while it is dragged or at its end, so that it also works with locked controls.
void send_number(Frame& frame, const LessonNumber& number, double value, bool is_live) {
  frame.state.lesson.values[number.name] = value;
  frame.commands.send("lesson", {{"number", number.name}, {"to", value}, {"live", is_live}});
}

/// The arrow keys change this number if it is the chosen slider.
void move_by_keys(Frame& frame, const LessonNumber& number, const Setting& setting) {
  PageState& state = frame.state;
  const std::string key = slider_prefix + number.name;
  state.drawn.sliders.push_back(key);
  if (state.focus.slider != key) return;
  const int steps = std::exchange(state.focus.slider_steps, 0);
  if (steps == 0) return;
  const double wanted = moved_by(setting, setting.value, steps);
  if (wanted != setting.value) send_number(frame, number, wanted, false);
}

void handle_number(Frame& frame, Canvas& canvas, const LessonNumber& number, const Rect& box) {
  const Theme& theme = *frame.look.theme;
  LessonPane& pane = frame.state.lesson;
  const Setting setting = setting_of(frame, number);
  ImGui::PushID(number.name.c_str());
  const Press press = press_area("number", box);
  ImGui::PopID();
  if (press.started) {
    pane.dragged = number.name;
    pane.grabbed = share_of(setting, setting.value);
  }
  const ImGuiIO& io = ImGui::GetIO();
  if (pane.dragged == number.name && (press.held || press.released)) {
    const double way = mouse_place().x - static_cast<double>(io.MouseClickedPos[0].x);
    const double value = value_at(setting, std::clamp(pane.grabbed + way / frame.px(whole_range), 0.0, 1.0));
    const bool is_moved = way != 0 && (press.released || value != setting.value);
    if (is_moved) send_number(frame, number, value, !press.released);
  }
  if (press.released) pane.dragged.clear();
  move_by_keys(frame, number, setting);
  const bool is_chosen = frame.state.focus.slider == slider_prefix + number.name;
  if (press.hovered || press.held) ImGui::SetMouseCursor(ImGuiMouseCursor_ResizeEW);
  if (press.hovered && !press.held)
    hint_box(frame, box,
             setting.label + ": drag it, or press S and the arrow keys · " + number_text(setting.minimum, 3) + " to " +
                 number_text(setting.maximum, 3));
  if (is_chosen)
    canvas.stroke_rect({box.x - frame.px(2), box.y, box.width + frame.px(4), box.height}, frame.px(3),
                       {theme.accent, std::max(1.0, frame.px(1)), Dash::solid});
  const Point line[] = {{box.x, box.bottom()}, {box.right(), box.bottom()}};
  canvas.polyline(line, {theme.accent, std::max(1.5, frame.px(1.5)), Dash::dotted});
}

}  // namespace

LessonParagraph lesson_words(std::string_view text, FontFace face) {
  LessonParagraph paragraph;
  add_words(text, face, false, paragraph.tokens);
  return paragraph;
}

LessonParagraph lesson_phrase(std::string_view text, FontFace face) {
  LessonParagraph paragraph;
  add_text(text, face, paragraph.tokens);
  return paragraph;
}

Setting setting_of(const Frame& frame, const LessonNumber& number) {
  const auto held = frame.state.lesson.values.find(number.name);
  for (const Setting& known : frame.seen().settings) {
    if (known.key != number.name) continue;
    Setting setting = known;
    if (held != frame.state.lesson.values.end() && frame.state.lesson.dragged == number.name)
      setting.value = held->second;
    if (!std::isnan(number.low)) {
      setting.minimum = number.low;
      setting.maximum = number.high;
    }
    return setting;
  }
  Setting setting;
  setting.key = setting.label = number.name;
  setting.value = held == frame.state.lesson.values.end() ? number.value : held->second;
  setting.initial = number.value;
  constexpr double usual_range = 8;
  setting.minimum = std::isnan(number.low) ? std::min(0.0, number.value) : number.low;
  setting.maximum = std::isnan(number.high) ? std::max(usual_range, 2 * number.value) : number.high;
  const auto is_whole = [](double value) { return value == std::floor(value); };
  setting.integer = is_whole(number.value) && is_whole(setting.minimum) && is_whole(setting.maximum);
  return setting;
}

std::vector<LessonParagraph> lesson_paragraphs(const Frame& frame, const LessonLine& line) {
  std::vector<LessonParagraph> paragraphs(1);
  bool follows_space = false;
  for (const LessonPiece& piece : read_pieces(line)) {
    LessonParagraph& now = paragraphs.back();
    if (piece.kind == LessonPiece::Kind::paragraph_end) {
      paragraphs.emplace_back();
    } else if (piece.kind == LessonPiece::Kind::formula) {
      now.tokens.push_back({piece.text, FontFace::regular, true, follows_space});
    } else if (piece.kind == LessonPiece::Kind::number) {
      const Setting setting = setting_of(frame, piece.number);
      now.numbers[now.tokens.size()] = piece.number;
      now.tokens.push_back({setting_text(setting, setting.value), FontFace::semibold, true, follows_space});
    } else {
      const bool is_stressed = piece.kind == LessonPiece::Kind::emphasis;
      add_words(piece.text, is_stressed ? FontFace::semibold : FontFace::regular, follows_space, now.tokens);
    }
    follows_space = piece.kind == LessonPiece::Kind::words && piece.text.ends_with(' ');
  }
  std::erase_if(paragraphs, [](const LessonParagraph& one) { return one.tokens.empty(); });
  return paragraphs;
}

double draw_lesson_text(Frame& frame, Canvas& canvas, const LessonParagraph& paragraph, const Rect& area, double size,
                        Color color, bool is_drawn) {
  const TextFlow flow = flow_text(paragraph.tokens, area.width, size, canvas);
  if (!is_drawn) return flow.height;
  for (const PlacedToken& placed : flow.tokens) {
    const Point place{area.x + placed.place.x, area.y + placed.place.y};
    const auto number = paragraph.numbers.find(placed.token);
    const bool is_number = number != paragraph.numbers.end() && !frame.state.presentation.is_locked;
    draw_token(canvas, paragraph.tokens[placed.token], place, flow.size, is_number ? frame.look.theme->accent : color);
    if (is_number) handle_number(frame, canvas, number->second, {place.x, place.y - size, placed.width, 1.25 * size});
  }
  return flow.height;
}

}  // namespace afterglow
