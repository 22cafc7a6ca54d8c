// Puts the parts in their places.
#include "views/page/page.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "views/formula_cards.h"
#include "views/widgets.h"

namespace afterglow {

namespace {

void draw_edge(Canvas& canvas, const Theme& theme, double width, Point from, Point to) {
  const Point line[] = {from, to};
  canvas.polyline(line, {theme.hairline, width, Dash::solid});
}

/// The chosen plot of the focused panel, or its first one.
std::string focused_plot(const PageState& state) {
  std::string first;
  for (const ShownPlot& shown : state.shown_plots) {
    if (shown.panel != state.focused_panel) continue;
    if (shown.plot == state.focused_plot) return shown.plot;
    if (first.empty()) first = shown.plot;
  }
  return first;
}

}  // namespace

void draw_page(Frame& frame) {
  const Rect all = window_bounds();
  PageState& state = frame.state;
  state.wake_at = std::numeric_limits<double>::infinity();
  state.next_crosshair = {};
  state.hovered_panel.clear();
  state.hovered_plot.clear();
  state.shown_panels.clear();
  state.shown_plots.clear();
  state.shown_sliders.clear();
  state.right_click_is_taken = false;
  state.hints.dot.reset();
  note_events(state, frame.seen(), frame.time);

  ImGui::SetNextWindowPos({0, 0});
  ImGui::SetNextWindowSize({static_cast<float>(all.width), static_cast<float>(all.height)});
  ImGui::Begin("page", nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoBackground | ImGuiWindowFlags_NoMove |
                   ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoBringToFrontOnFocus |
                   ImGuiWindowFlags_NoScrollWithMouse | ImGuiWindowFlags_NoNav);
  const auto whole = [](double v) { return std::round(v); };
  const double top = state.presenting ? 0 : whole(frame.px(44)), status = whole(frame.px(26)),
               time = whole(frame.px(84));
  // A small or enlarged window keeps its room for what the model does.
  const double side = state.presenting || all.width < frame.px(760) ? 0 : whole(frame.px(264));
  const Rect top_bar{0, 0, all.width, top}, status_bar{0, all.height - status, all.width, status};
  const Rect time_bar{0, status_bar.y - time, all.width, time};
  const double middle = std::max(1.0, time_bar.y - top);
  const Rect column{0, top, side, middle}, centre{side, top, all.width - side, middle};

  FigureCanvas canvas = frame.look.canvas();
  const Theme& theme = *frame.look.theme;
  for (const Rect& bar : {top_bar, column, time_bar, status_bar}) canvas.fill_rect(bar, 0, theme.panel);
  draw_workspace(frame, centre);
  if (side > 0) draw_side_column(frame, column);
  if (!state.presenting) draw_top_bar(frame, top_bar);
  if (state.hovered_panel.empty()) {
    state.hovered_panel = state.focused_panel;
    state.hovered_plot = focused_plot(state);
  }
  draw_time_bar(frame, time_bar);
  draw_status_bar(frame, status_bar);
  const double hair = std::max(1.0, whole(frame.px(1)));
  draw_edge(canvas, theme, hair, {0, top - 0.5}, {all.width, top - 0.5});
  draw_edge(canvas, theme, hair, {side - 0.5, top}, {side - 0.5, time_bar.y});
  draw_edge(canvas, theme, hair, {0, time_bar.y + 0.5}, {all.width, time_bar.y + 0.5});
  draw_edge(canvas, theme, hair, {0, status_bar.y + 0.5}, {all.width, status_bar.y + 0.5});
  ImGui::End();

  draw_notes(frame, centre);
  draw_pinned_card(frame);
  draw_help(frame);
  draw_palette(frame);
  draw_menu(frame);
  draw_call_outs(frame, top_bar);
  // Every plot sees a moved crosshair in the next frame, so there has to be one.
  if (state.next_crosshair.axis.empty()) {
    state.next_crosshair = state.key_crosshair;
  } else {
    state.key_crosshair = {};
  }
  const Crosshair& next = state.next_crosshair;
  if (next.axis != state.crosshair.axis || next.x != state.crosshair.x) ask_frame(state);
  state.crosshair = next;
}

}  // namespace afterglow
