// Arranges the parts of the page.
#include "views/page/page.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "views/widgets/widgets.h"

namespace afterglow {
namespace {

std::string focused_plot(const PageState& state) {
  std::string first;
  for (const ShownPlot& shown : state.drawn.plots) {
    if (shown.panel != state.focus.panel) continue;
    if (shown.plot == state.focus.plot) return shown.plot;
    if (first.empty()) first = shown.plot;
  }
  return first;
}

/// Resets what a frame records while it is drawn.
void forget_last_frame(PageState& state) {
  state.wake_at = std::numeric_limits<double>::infinity();
  state.pointer = {};
  state.drawn = {};
  state.hints.dot.reset();
  state.card.asked.clear();
}

/// The places of the page's parts; some are empty.
struct Places {
  Rect top_bar, column, centre, time_bar, status_bar;
  LessonPlace lesson;
  explicit Places(Frame& frame) {
    const Rect all = window_bounds();
    const PageState& state = frame.state;
    const bool hidden = state.presentation.hides_controls, presenting = state.presentation.is_on || hidden,
               slide = is_slide(state);
    const bool has_status = !hidden && !slide && shows_control(state, "status"),
               has_time = !hidden && (!slide || moves_tokens(state)) && shows_control(state, "time");
    const bool has_tokens = !state.presentation.is_on || selected_token(frame.seen(), state.selection) >= 0;
    const double top = presenting ? 0 : top_bar_height(frame, all.width),
                 status = has_status ? std::round(frame.px(26)) : 0,
                 time = has_time ? std::round(frame.px(has_tokens ? 84 : 40)) : 0;
    top_bar = {0, 0, all.width, top};
    status_bar = {0, all.height - status, all.width, status};
    lesson = lesson_place(state, frame.look, {0, top, all.width, all.height - top - status - (slide ? 0 : time)});
    const double pane = lesson.text.width;
    time_bar = {0, (slide ? lesson.foot.y : status_bar.y) - time, slide ? all.width - pane : all.width, time};
    // A small or enlarged window keeps its room for the model's panels.
    const bool has_side = !presenting && all.width - pane >= frame.px(760) && has_column(frame);
    const double side = has_side ? std::round(frame.px(264)) : 0;
    const double middle = std::max(1.0, time_bar.y - top);
    column = {0, top, side, middle};
    centre = {side, top, all.width - side - pane, middle};
  }

  /// Whether the tokens are a control of what the slide shows.
  static bool moves_tokens(const PageState& state) {
    const PlotKind* kind = find_plot_kind(state.maximised);
    return kind && (kind->moves_tokens || kind->id == "probe");
  }
  /// Whether a lesson leaves anything of the column at the left.
  static bool has_column(const Frame& frame) {
    const auto is_shown = [&](std::string_view name) { return shows_control(frame.state, name); };
    return is_shown("layers") || is_shown("sliders") ||
           std::ranges::any_of(frame.seen().settings, [&](const Setting& setting) { return is_shown(setting.key); });
  }
};

void draw_edges(const Frame& frame, const Places& at, Canvas& canvas) {
  const Theme& theme = *frame.look.theme;
  if (frame.state.presentation.hides_controls || is_slide(frame.state)) return;
  const double hair = std::max(1.0, std::round(frame.px(1))), top = at.column.y - 0.5, side = at.centre.x - 0.5,
               right = at.top_bar.width, time = at.time_bar.y + 0.5, status = at.status_bar.y + 0.5;
  const auto edge = [&](Point from, Point to) {
    const Point line[] = {from, to};
    canvas.polyline(line, {theme.hairline, hair, Dash::solid});
  };
  edge({0, top}, {right, top});
  edge({side, at.column.y}, {side, at.time_bar.y});
  edge({0, time}, {right, time});
  edge({0, status}, {right, status});
}

/// Draws the parts that do not overlap; sheets above them have their own windows.
void draw_ground(Frame& frame, const Places& at) {
  const Rect all = window_bounds();
  PageState& state = frame.state;
  ImGui::SetNextWindowPos({0, 0});
  ImGui::SetNextWindowSize({static_cast<float>(all.width), static_cast<float>(all.height)});
  ImGui::Begin("page", nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoBackground | ImGuiWindowFlags_NoMove |
                   ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoBringToFrontOnFocus |
                   ImGuiWindowFlags_NoScrollWithMouse | ImGuiWindowFlags_NoNav);
  FigureCanvas canvas = frame.look.canvas();
  for (const Rect& bar : {at.top_bar, at.column, at.time_bar, at.status_bar})
    canvas.fill_rect(bar, 0, frame.look.theme->panel);
  draw_workspace(frame, at.centre);
  if (at.column.width > 0) draw_side_column(frame, at.column);
  if (at.top_bar.height > 0) draw_top_bar(frame, at.top_bar);
  if (state.pointer.panel.empty()) {
    state.pointer.panel = state.focus.panel;
    state.pointer.plot = focused_plot(state);
  }
  if (at.time_bar.height > 0) draw_time_bar(frame, at.time_bar);
  if (at.status_bar.height > 0) draw_status_bar(frame, at.status_bar);
  if (state.lesson.lesson) draw_lesson(frame, at.lesson);
  draw_edges(frame, at, canvas);
  ImGui::End();
}

/// One box for all plots that the crosshair crosses: first the readings of the plot under the pointer, then those that
/// others add.
void draw_readings(const Frame& frame) {
  const auto& readings = frame.state.pointer.readings;
  const auto first = std::ranges::find_if(readings, &CrosshairReading::is_first);
  if (first == readings.end()) return;
  const std::string& plot = frame.state.crosshair.plot;
  const auto shown = std::ranges::find(frame.state.drawn.plots, plot, &ShownPlot::plot);
  const Rect row = shown == frame.state.drawn.plots.end() ? window_bounds() : shown->area;
  std::vector<PlotReading> others;
  for (const CrosshairReading& reading : readings) {
    const bool is_in_row = reading.beside.y >= row.y - frame.px(8) && reading.beside.y < row.bottom();
    if (&reading != &*first && is_in_row) others.push_back({reading.title, reading.lines});
  }
  const Rect within = is_slide(frame.state) ? row : window_bounds();  // the text of a slide is at its side
  reading_box(frame, first->beside, joined_readings({first->title, first->lines}, others), within);
}

void move_crosshair(PageState& state) {
  // Other plots see a moved crosshair only in the next frame, so a second frame is due.
  if (state.pointer.crosshair.axis.empty()) {
    state.pointer.crosshair = state.focus.crosshair;
  } else {
    state.focus.crosshair = {};
  }
  const Crosshair& next = state.pointer.crosshair;
  if (next.axis != state.crosshair.axis || next.x != state.crosshair.x) ask_frame(state);
  state.crosshair = next;
}

void draw_blank(Frame& frame) {
  const Rect all = window_bounds();
  FigureCanvas canvas(*ImGui::GetForegroundDrawList(), *frame.look.fonts);
  canvas.fill_rect(all, 0, {0, 0, 0, 255});
  if (ImGui::IsMouseClicked(0)) frame.state.presentation.is_blank = false;
}

/// What is shown is old while the line to the session is lost.
void draw_lost_line(Frame& frame) {
  const Rect all = window_bounds();
  const Theme& theme = *frame.look.theme;
  FigureCanvas canvas(*ImGui::GetForegroundDrawList(), *frame.look.fonts);
  Color veil = theme.ground;
  veil.a = 190;
  canvas.fill_rect(all, 0, veil);
  const double width = std::min(frame.px(640), 0.8 * all.width), row = frame.px(22);
  const auto lines = wrapped_text(canvas, frame.state.line.problem, width, frame.px(title_size), FontFace::regular, 6);
  const Rect box{(all.width - width) / 2, 0.4 * all.height, width, row * static_cast<double>(lines.size())};
  const double margin = frame.px(16);
  canvas.fill_rect({box.x - margin, box.y - margin, width + 2 * margin, box.height + 2 * margin}, frame.px(8),
                   theme.raised);
  text_lines(frame.look, canvas, box, lines, row, {title_size, FontFace::regular, theme.warning, Anchor::start});
}

}  // namespace

void draw_page(Frame& frame) {
  forget_last_frame(frame.state);
  note_events(frame.state, frame.seen(), frame.time);
  const Places at(frame);
  draw_ground(frame, at);
  draw_readings(frame);
  draw_notes(frame, at.time_bar);
  draw_pinned_card(frame);
  draw_help(frame);
  draw_palette(frame);
  draw_picker(frame);
  draw_menu(frame);
  move_crosshair(frame.state);
  if (!frame.state.line.problem.empty()) draw_lost_line(frame);
  if (frame.state.presentation.is_blank) draw_blank(frame);
}

}  // namespace afterglow
