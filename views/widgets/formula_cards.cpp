// Draws formula cards and decides when they open.
#include <algorithm>

#include "core/figure/math/math_text.h"
#include "views/widgets/widgets.h"

namespace afterglow {
namespace {

constexpr double rest_before_card = 0.4;  ///< seconds

/// Returns the card's box; a pinned card has room for a button below the text.
Rect draw_card(const Frame& frame, const FormulaCard& card, const Rect& area, bool is_pinned = false) {
  FigureCanvas canvas(*ImGui::GetForegroundDrawList(), *frame.look.fonts);
  const Theme& theme = *frame.look.theme;
  struct Text {
    std::string text;
    double size;
    FontFace face;
    Color color;
    double height;
  };
  const double width = frame.px(336), padding = frame.px(14), inside = width - 2 * padding;
  std::vector<Text> lines{{card.name, title_size, FontFace::semibold, theme.text, 22}};
  const auto add = [&](std::string_view text, double size, FontFace face, Color color, double height) {
    for (const std::string& line : wrapped_math(canvas, text, inside, frame.px(size), face)) {
      const MathText set = set_math(line, size, face, canvas);  // a fraction is taller than its line
      lines.push_back({line, size, face, color, std::max(height, set.ascent + set.descent + 7)});
    }
  };
  add(card.formula, body_size, FontFace::mono, theme.accent, 24);
  add(card.numbers ? card.numbers(frame.seen(), frame.state.selection) : "", small_size, FontFace::mono, theme.text,
      21);
  add(card.meaning, small_size, FontFace::regular, theme.dim, 17);
  if (!card.unit.empty()) lines.push_back({"in " + card.unit, small_size, FontFace::regular, theme.dim, 17});
  lines.push_back({card.source, tiny_size, FontFace::regular, theme.faint, 20});
  double height = frame.px(is_pinned ? 46 : 20);
  for (const Text& line : lines) height += frame.px(line.height);
  const Rect bounds = window_bounds();
  const double x = std::min(area.x, bounds.right() - width - frame.px(8));
  const double below = area.bottom() + frame.px(8);
  const double y = below + height < bounds.bottom() ? below : std::max(bounds.y, area.y - frame.px(8) - height);
  const Rect box{x, y, width, height};
  canvas.fill_rect({box.x - frame.px(2), box.y, box.width + frame.px(4), box.height + frame.px(4)}, frame.px(9),
                   faded({0, 0, 0, 255}, theme.is_dark ? 0.4 : 0.08));
  canvas.fill_rect(box, frame.px(8), mixed(theme.raised, theme.panel, 0.25));
  canvas.stroke_rect(box, frame.px(8), {theme.hairline, std::max(1.0, frame.px(1)), Dash::solid});
  double top = box.y + frame.px(10);
  for (const Text& line : lines) {
    row_text(frame.look, canvas, {box.x + padding, top, width - 2 * padding, frame.px(line.height)}, line.text,
             {line.size, line.face, line.color, Anchor::start, true});
    top += frame.px(line.height);
  }
  return box;
}

}  // namespace

void draw_pinned_card(Frame& frame) {
  const FormulaCard* card = find_card(frame.state.card.pinned);
  if (!card) return;
  const Rect box = draw_card(frame, *card, frame.state.card.beside, true);
  const Rect all = window_bounds();
  ImGui::SetNextWindowPos({static_cast<float>(box.x), static_cast<float>(box.bottom() - frame.px(34))});
  ImGui::SetNextWindowSize({static_cast<float>(box.width), static_cast<float>(frame.px(32))});
  ImGui::Begin("card", nullptr, bare_window);
  const Rect row{box.x, box.bottom() - frame.px(32), std::min(box.width, all.width), frame.px(26)};
  FigureCanvas over(*ImGui::GetForegroundDrawList(), *frame.look.fonts);
  const double width = button_width(frame, "Copy formula", Icon::none);
  const Rect area{row.right() - width - frame.px(10), row.y, width, row.height};
  const Press press = press_area("copy", area);
  over.fill_rect(area, frame.px(5), press.hovered ? frame.look.theme->hairline : frame.look.theme->raised);
  row_text(frame.look, over, area, "Copy formula",
           {small_size, FontFace::regular, frame.look.theme->text, Anchor::middle});
  if (press.clicked) frame.commands.send("copy", {{"what", "formula"}, {"card", frame.state.card.pinned}});
  ImGui::End();
}

void ask_for_card(Frame& frame, std::string_view id, const Rect& area) {
  frame.state.card.asked = id;
  frame.state.card.asked_beside = area;
}

void card_target(Frame& frame, std::string_view id, const Rect& area) {
  CardState& state = frame.state.card;
  if (!area.contains(mouse_place()) || ImGui::IsMouseDown(0)) {
    // Neighbouring plots have the same axes: the card of the one under the pointer stays.
    const bool is_of_another = state.pinned.empty() && state.beside.contains(mouse_place()) && !ImGui::IsMouseDown(0);
    if (state.card == id && !is_of_another) state.card.clear();
    return;
  }
  if (state.card != id) {
    state.card = id;
    state.since = frame.time;
  }
  if (state.pinned.empty()) state.beside = area;
  const FormulaCard* card = find_card(id);
  // While presenting the pointer may rest anywhere, so only F1 opens a card.
  if (!card || frame.state.presentation.is_on) return;
  if (frame.time - state.since < rest_before_card) {
    ask_frame(frame.state, state.since + rest_before_card + 0.01);
  } else if (state.pinned.empty()) {
    draw_card(frame, *card, area);
  }
}

}  // namespace afterglow
