// Sends a value while the knob moves, marked as live, and once more at the end of the drag: the effect is visible at
// once, and the whole drag is one change, one mark on the curve, one step of undo.
#include "views/widgets/sliders.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "core/figure/axis.h"
#include "views/widgets/text_field.h"
#include "views/widgets/widgets.h"

namespace afterglow {
namespace {
constexpr double longest_answer = 0.5;  ///< seconds
constexpr double longest_rest = 0.5;    ///< between two notches of one turn of the wheel; seconds
}  // namespace

TrackResult slider_track(const Frame& frame, const char* id, const Rect& row, double share) {
  TrackResult result{.share = std::clamp(std::isfinite(share) ? share : 0.0, 0.0, 1.0)};
  const double knob = frame.px(6), from = row.x + knob, length = std::max(1.0, row.width - 2 * knob);
  const Press press = press_area(id, row);
  const ImGuiIO& io = ImGui::GetIO();
  // The movement of a click is smaller than this.
  const double least = frame.px(3), dragged = std::sqrt(static_cast<double>(io.MouseDragMaxDistanceSqr[0]));
  if (press.started) frame.state.drag.share = result.share;
  const bool is_dragged = (press.held || press.released) && dragged >= least;
  result.held = press.held;
  result.reset = press.double_clicked;
  result.released = press.released && is_dragged;
  result.clicked = press.clicked && !is_dragged;
  result.moved = !result.reset && is_dragged && (press.released || io.MouseDelta.x != 0);
  if (result.moved) {
    const double way = mouse_place().x - static_cast<double>(io.MouseClickedPos[0].x);
    result.share = std::clamp(frame.state.drag.share + way / length, 0.0, 1.0);
  }
  FigureCanvas canvas = frame.look.canvas();
  const Theme& theme = *frame.look.theme;
  const double middle = row.y + row.height / 2, x = from + result.share * length;
  const double thick = frame.px(4);
  canvas.fill_rect({row.x, middle - thick / 2, row.width, thick}, thick / 2, theme.hairline);
  canvas.fill_rect({row.x, middle - thick / 2, x - row.x, thick}, thick / 2, theme.accent);
  canvas.fill_circle({x, middle}, press.hovered || press.held ? knob * 1.15 : knob, theme.text);
  return result;
}

double share_of(const Setting& s, double value) {
  if (!(s.maximum > s.minimum)) return 0;
  const double v = std::clamp(value, s.minimum, s.maximum);
  if (s.logarithmic && s.minimum > 0) return std::log(v / s.minimum) / std::log(s.maximum / s.minimum);
  return (v - s.minimum) / (s.maximum - s.minimum);
}

double value_at(const Setting& s, double share) {
  double value = s.logarithmic && s.minimum > 0 ? s.minimum * std::pow(s.maximum / s.minimum, share)
                                                : s.minimum + share * (s.maximum - s.minimum);
  if (s.integer) return std::clamp(std::round(value), s.minimum, s.maximum);
  // A drag sets two or three digits.
  if (value != 0) {
    const double unit = std::pow(10.0, std::floor(std::log10(std::abs(value))) - 1);
    value = std::round(value / unit) * unit;
  }
  return std::clamp(value, s.minimum, s.maximum);
}

double moved_by(const Setting& s, double value, double steps) {
  const double wanted = value_at(s, std::clamp(share_of(s, value) + 0.01 * steps, 0.0, 1.0));
  return s.integer && wanted == value ? std::clamp(value + (steps > 0 ? 1 : -1), s.minimum, s.maximum) : wanted;
}

double typed_value(const Setting& s, const std::string& text) {
  std::string plain = text;
  for (std::size_t at; (at = plain.find("−")) != std::string::npos;) plain.replace(at, std::string("−").size(), "-");
  std::replace(plain.begin(), plain.end(), ',', '.');
  char* end = nullptr;
  const double value = std::strtod(plain.c_str(), &end);
  if (end == plain.c_str() || !std::isfinite(value)) return std::nan("");
  const double kept = std::clamp(value, s.minimum, std::max(s.minimum, s.maximum));
  return s.integer ? std::round(kept) : kept;
}

std::string setting_text(const Setting& s, double value) {
  std::string text = number_text(value, s.integer ? 9 : 3);
  if (!s.unit.empty()) text += " " + s.unit;
  return text;
}

namespace {

/// "Sequences in a training step. ", in front of another sentence.
std::string as_sentence(std::string text) {
  if (text.empty()) return text;
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text + (text.ends_with('.') ? " " : ". ");
}

/// The field that replaces the number. Enter or a click elsewhere ends it; invalid numbers are dropped.
void draw_number_field(Frame& frame, const Setting& setting, const Rect& box,
                       const std::function<void(double, bool)>& send) {
  EditState& edit = frame.state.edit;
  const bool wants_focus = std::exchange(edit.wants_focus, false);
  const FieldResult field = text_field(frame.look, "##number", edit.text, box, small_size, FontFace::mono, wants_focus);
  if (!field.entered && !field.left) return;
  const double value = typed_value(setting, edit.text);
  if (std::isfinite(value) && value != setting.value) send(value, false);
  edit = {};
}

/// Notches of the wheel for this slider, not for the column.
double wheel_steps(Frame& frame, const Setting& setting, const Rect& area) {
  const ImGuiIO& io = ImGui::GetIO();
  PageState& state = frame.state;
  if (io.MouseWheel == 0 || !ImGui::IsWindowHovered() || !area.contains(mouse_place())) return 0;
  const bool is_scrolling = frame.time - state.column_scrolled_at < longest_rest;
  if (!io.KeyCtrl && (is_scrolling || state.focus.slider != setting.key)) return 0;
  state.pointer.wheel_is_taken = true;
  return static_cast<double>(io.MouseWheel);
}

/// Marks the chosen slider; returns its steps of the arrow keys, in hundredths of its track.
int key_steps(Frame& frame, const Setting& setting, const Rect& area) {
  PageState& state = frame.state;
  state.drawn.sliders.push_back(setting.key);
  if (state.focus.slider != setting.key) return 0;
  FigureCanvas canvas = frame.look.canvas();
  const double rim = frame.px(4);
  canvas.stroke_rect({area.x - rim, area.y - frame.px(1), area.width + 2 * rim, area.height - frame.px(2)}, frame.px(5),
                     {frame.look.theme->accent, std::max(1.0, frame.px(1)), Dash::solid});
  if (std::exchange(state.focus.slider_is_sought, false)) ImGui::SetScrollHereY();
  return std::exchange(state.focus.slider_steps, 0);
}

/// The arrow keys and the wheel.
void move_by_steps(Frame& frame, const Setting& setting, double value, const Rect& area,
                   const std::function<void(double, bool)>& send) {
  const double steps = key_steps(frame, setting, area) + wheel_steps(frame, setting, area);
  if (steps == 0) return;
  const double wanted = moved_by(setting, value, steps);
  if (wanted == value) return;
  send(wanted, false);
  frame.state.edit = {setting.key, wanted, false, false, "", frame.time};
}

}  // namespace

double value_slider(Frame& frame, const Setting& setting, const Rect& area,
                    const std::function<void(double value, bool is_live)>& send) {
  ImGui::PushID(setting.key.c_str());
  FigureCanvas canvas = frame.look.canvas();
  const Theme& theme = *frame.look.theme;
  EditState& edit = frame.state.edit;
  // Shows a sent value until the engine has taken it over, or for a moment if it does not.
  if (edit.key == setting.key && edit.sent_at >= 0) {
    if (setting.value == edit.value || frame.time - edit.sent_at > longest_answer) edit = {};
    ask_frame(frame.state, frame.time + longest_answer);
  }
  const bool is_mine = edit.key == setting.key;
  const double value = is_mine && !edit.is_typing ? edit.value : setting.value;
  const Rect row{area.x, area.y, area.width, frame.px(22)};
  const std::string text = setting_text(setting, value);
  const double number = canvas.text_width(text, frame.px(small_size), FontFace::mono);
  row_text(frame.look, canvas, {row.x, row.y, row.width - number - frame.px(10), row.height}, setting.label,
           {body_size, FontFace::regular, theme.dim, Anchor::start});
  const Rect field{row.right() - std::max(number + frame.px(8), frame.px(40)), row.y,
                   std::max(number + frame.px(8), frame.px(40)), row.height};
  if (is_mine && edit.is_typing) {
    draw_number_field(frame, setting, {row.right() - frame.px(84), row.y, frame.px(84), row.height}, send);
  } else {
    const Press press = press_area("number", field);
    if (press.hovered) {
      canvas.fill_rect(field, frame.px(4), theme.raised);
      ImGui::SetMouseCursor(ImGuiMouseCursor_TextInput);
      hint_box(frame, field, as_sentence(setting.meaning) + "Click to type a value.");
    }
    const bool differs = value != setting.initial;
    row_text(frame.look, canvas, {row.x, row.y, row.width, row.height}, text,
             {small_size, FontFace::mono, differs ? theme.accent : theme.text, Anchor::end, true});
    if (press.clicked) edit = {setting.key, setting.value, true, true, number_text(setting.value, 9), -1};
  }
  const Rect track{area.x, row.bottom() - frame.px(3), area.width, frame.px(16)};
  const TrackResult result = slider_track(frame, "track", track, share_of(setting, value));
  if (result.moved && !(is_mine && edit.is_typing)) {
    const double wanted = value_at(setting, result.share);
    if (!result.released && wanted != value) send(wanted, true);
    edit = {setting.key, wanted, false, false, "", -1};
  }
  if (result.reset) {
    if (setting.value != setting.initial) send(setting.initial, false);
    edit = {};
  } else if (result.released && edit.key == setting.key && !edit.is_typing) {
    send(edit.value, false);
    edit.sent_at = frame.time;
  }
  if (result.clicked) frame.state.focus.slider = setting.key;
  const Rect whole{area.x, area.y, area.width, frame.px(slider_height)};
  const FormulaCard* card = whole.contains(mouse_place()) ? card_of_setting(setting.key) : nullptr;
  if (card) ask_for_card(frame, card->id, whole);
  if (!(is_mine && edit.is_typing)) move_by_steps(frame, setting, value, whole, send);
  ImGui::PopID();
  return whole.height;
}

double setting_slider(Frame& frame, const Setting& setting, const Rect& area) {
  return value_slider(frame, setting, area, [&](double value, bool is_live) {
    frame.commands.send(SetNumber{setting.key, value, is_live});
  });
}

}  // namespace afterglow
