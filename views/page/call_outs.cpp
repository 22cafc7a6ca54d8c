// Two hints on a first start, next to what they explain.
#include <algorithm>
#include <array>
#include <cmath>

#include "views/page/page.h"
#include "views/widgets.h"

namespace afterglow {

namespace {

/// A small sheet with a tip that points at `target`, below it or, near the lower edge, above.
void draw_call_out(const Frame& frame, Point target, std::string_view text) {
  FigureCanvas canvas(*ImGui::GetForegroundDrawList(), *frame.look.fonts);
  const Theme& theme = *frame.look.theme;
  const Rect all = window_bounds();
  const double width = canvas.text_width(text, frame.px(body_size), FontFace::semibold) + frame.px(24);
  const double height = frame.px(30), tip = frame.px(8), gap = frame.px(10);
  const bool is_below = target.y + gap + tip + height < all.bottom();
  const double side = is_below ? 1 : -1, edge = target.y + side * (gap + tip);
  const double x =
      std::clamp(target.x - width / 2, frame.px(4), std::max(frame.px(4), all.right() - width - frame.px(4)));
  const double at = std::clamp(target.x, x + 2 * tip, x + width - 2 * tip);
  const Rect box{x, is_below ? edge : edge - height, width, height};
  const std::array<Point, 3> pointer{Point{at - tip, edge}, Point{at + tip, edge}, Point{at, edge - side * tip}};
  if (frame.state.reading && frame.state.reading->overlaps(box)) return;  // readings have priority
  canvas.polygon(pointer, theme.accent);
  canvas.fill_rect(box, frame.px(8), theme.accent);
  const Color ink = theme.is_dark ? mixed(theme.ground, theme.accent, 0.15) : theme.panel;
  row_text(frame.look, canvas, box, text, {body_size, FontFace::semibold, ink, Anchor::middle});
}

}  // namespace

void draw_call_outs(Frame& frame, const Rect& top_bar) {
  const PageState& state = frame.state;
  const bool is_covered = state.presenting || state.help_is_open || state.palette.is_open || state.picker.is_open ||
                          state.menu.is_open || !state.card.pinned.empty();
  if (is_covered) return;
  if (state.hints.is_drag_due && !state.is_locked && state.hints.dot && state.dragged_point.empty())
    draw_call_out(frame, *state.hints.dot, "Each dot is one mode of the layer's memory. Drag me.");
  if (state.hints.is_time_due && frame.seen().step > 0)
    draw_call_out(frame, {top_bar.right() - frame.px(150), top_bar.bottom() - frame.px(8)},
                  "Space pauses. ← goes one step back.");
}

}  // namespace afterglow
