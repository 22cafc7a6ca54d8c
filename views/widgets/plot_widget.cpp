// Renders a figure, then applies this frame's input to the view of the next one.
#include "views/widgets/plot_widget.h"

#include <algorithm>
#include <cmath>

#include "core/figure/decimate.h"
#include "views/widgets/widgets.h"

namespace afterglow {
namespace {

constexpr double zoom_per_notch = 0.85;
constexpr int max_legend_rows = 2;

void draw_caption(Frame& frame, const Figure& figure, const Rect& row) {
  FigureCanvas canvas = frame.look.canvas();
  const Theme& theme = *frame.look.theme;
  const double title = row_text(frame.look, canvas, row, figure.title,
                                {small_size, FontFace::semibold, theme.text, Anchor::start, true});
  const double x = row.x + title + frame.px(8);
  row_text(frame.look, canvas, {x, row.y, row.right() - x, row.height},
           fitting_parts(canvas, figure.subtitle, row.right() - x, frame.px(tiny_size)),
           {tiny_size, FontFace::regular, theme.faint, Anchor::start, true});
  if (const FormulaCard* card = card_of_figure(figure.id))
    card_target(frame, card->id, {row.x, row.y, title, row.height});
}

/// The lit button of a plot that does not follow its data.
Rect follow_button(const Frame& frame, const FigureGeometry& geometry) {
  return {geometry.plot.right() - frame.px(54), geometry.plot.y + frame.px(6), frame.px(48), frame.px(18)};
}

void draw_follow_button(const Frame& frame, const Rect& box) {
  FigureCanvas canvas = frame.look.canvas();
  const Theme& theme = *frame.look.theme;
  const bool hovered = box.contains(mouse_place());
  canvas.fill_rect(box, frame.px(9), mixed(theme.panel, theme.accent, hovered ? 0.45 : 0.25));
  canvas.stroke_rect(box, frame.px(9), {theme.accent, std::max(1.0, frame.px(1)), Dash::solid});
  row_text(frame.look, canvas, box, "follow", {tiny_size, FontFace::semibold, theme.text, Anchor::middle});
}

AxisChoice axes_at(const FigureGeometry& geometry, Point place, bool equal_aspect) {
  if (equal_aspect) return {true, true};
  if (place.y > geometry.plot.bottom()) return {true, false};
  if (place.x < geometry.plot.x) return {false, true};
  return {true, true};
}

bool is_line_plot(const Figure& figure) {
  return std::ranges::any_of(figure.series, [](const Series& s) { return std::holds_alternative<Line>(s); });
}

void draw_box(const Frame& frame, Point from, Point to, const Rect& plot) {
  FigureCanvas canvas = frame.look.canvas();
  const Theme& theme = *frame.look.theme;
  const Rect box{std::min(from.x, to.x), std::min(from.y, to.y), std::abs(from.x - to.x), std::abs(from.y - to.y)};
  canvas.push_clip(plot);
  canvas.fill_rect(box, 0, faded(theme.accent, 0.14));
  canvas.stroke_rect(box, 0, {theme.accent, std::max(1.0, frame.px(1)), Dash::solid});
  canvas.pop_clip();
}

int pressed_button() { return ImGui::IsMouseDown(1) || ImGui::IsMouseReleased(1) ? 1 : 0; }

/// Drags, wheel and double clicks. Returns true for a plain click.
bool handle_gestures(const Frame& frame, const Figure& figure, const FigureGeometry& geometry, PlotState& state,
                     bool hovered, bool active) {
  const ImGuiIO& io = ImGui::GetIO();
  const Point mouse = mouse_place();
  const bool is_box = ImGui::IsMouseDown(1) || ImGui::IsMouseReleased(1) || io.KeyShift;
  const Point start = press_place(pressed_button());
  const bool moved = is_dragged(frame, pressed_button());
  if (hovered && io.MouseWheel != 0) {
    zoom_at(state, geometry, mouse, std::pow(zoom_per_notch, static_cast<double>(io.MouseWheel)),
            axes_at(geometry, mouse, figure.equal_aspect));
  }
  if (hovered && ImGui::IsMouseDoubleClicked(0)) {
    state.fit();
    return false;
  }
  if (active && moved && is_box) {
    draw_box(frame, start, mouse, geometry.plot);
  } else if (active && moved && (io.MouseDelta.x != 0 || io.MouseDelta.y != 0)) {
    const AxisChoice axes = axes_at(geometry, start, figure.equal_aspect);
    pan(state, geometry, axes.x ? static_cast<double>(io.MouseDelta.x) : 0,
        axes.y ? static_cast<double>(io.MouseDelta.y) : 0);
  }
  const bool released = ImGui::IsItemDeactivated();
  if (released && moved && is_box) zoom_to_box(state, geometry, start, mouse);
  return released && !moved && !ImGui::IsMouseReleased(1);
}

/// A press on a dot drags it once the pointer has moved; until then it may still be a click.
void drag_point(Frame& frame, const Figure& figure, const FigureGeometry& geometry,
                const std::optional<DrawnPoint>& point, PlotResponse& response) {
  PageState& page = frame.state;
  if (point && ImGui::IsItemActivated() && ImGui::IsMouseClicked(0) && !response.hovered_point.empty()) {
    page.drag.plot = figure.id;
    page.drag.point = response.hovered_point;
    page.drag.mode = response.hovered_mode;
  }
  if (page.drag.point.empty() || page.drag.plot != figure.id) return;
  const Point mouse = mouse_place();
  const bool is_over = !ImGui::IsMouseDown(0);
  if (is_dragged(frame, pressed_button())) {
    const double x = std::clamp(mouse.x, geometry.plot.x, geometry.plot.right());
    const double y = std::clamp(mouse.y, geometry.plot.y, geometry.plot.bottom());
    response.drag = {page.drag.point, page.drag.mode, geometry.x.to_data(x), geometry.y.to_data(y), is_over};
    ImGui::SetMouseCursor(ImGuiMouseCursor_Hand);
  }
  if (is_over) page.drag.point.clear();
}

/// A press on a measuring cursor drags it; the end of the drag does not count as a click.
bool drag_cursor(Frame& frame, const Figure& figure, const FigureGeometry& geometry, PlotState& state, bool hovered) {
  PageState& page = frame.state;
  const Point mouse = mouse_place();
  const char near =
      hovered && geometry.plot.contains(mouse) ? cursor_near(state, geometry, mouse.x, frame.px(6)) : char{0};
  if (near != 0 && ImGui::IsItemActivated() && ImGui::IsMouseClicked(0) && !ImGui::GetIO().KeyCtrl) {
    page.drag.plot = figure.id;
    page.drag.cursor = near;
  }
  const bool is_held = page.drag.cursor != 0 && page.drag.plot == figure.id;
  if (near != 0 || is_held) ImGui::SetMouseCursor(ImGuiMouseCursor_ResizeEW);
  if (!is_held) return false;
  if (std::abs(mouse.x - press_place(pressed_button()).x) > frame.px(2)) {
    const double x = std::clamp(mouse.x, geometry.plot.x, geometry.plot.right());
    move_cursor(state, page.drag.cursor, geometry.x.to_data(x));
  }
  if (!ImGui::IsMouseDown(0)) page.drag.cursor = 0;
  return true;
}

/// A right click without a drag: on a named dot it belongs to the dot, elsewhere it opens the menu.
void handle_right_click(Frame& frame, const Figure& figure, const FigureGeometry& geometry, PlotResponse& response) {
  const Point mouse = mouse_place();
  if (!response.hovered || !ImGui::IsMouseReleased(1)) return;
  frame.state.pointer.right_click_is_taken = true;
  if (is_dragged(frame, 1)) return;
  if (!response.hovered_point.empty()) {
    response.switched_mode = response.hovered_mode;
    return;
  }
  nlohmann::json fields{{"plot", figure.id}};
  if (geometry.plot.contains(mouse)) {
    fields["x"] = geometry.x.to_data(mouse.x);
    fields["y"] = geometry.y.to_data(mouse.y);
  }
  frame.commands.send("menu", fields);
}

/// The dot of the mode that the answers need most, for the hint about dragging.
void note_hinted_dot(Frame& frame, const Figure& figure, const FigureGeometry& geometry) {
  for (const DrawnPoint& drawn : geometry.points) {
    const auto& scatter = std::get<Scatter>(figure.series[drawn.series]);
    const DotMode mode = scatter.points[drawn.point].mode;
    if (scatter.is_outlined) continue;
    if (mode.number == frame.state.hints.mode && mode.number >= 0 && !mode.is_pair)
      frame.state.hints.dot = Point{drawn.place.x + drawn.radius, drawn.place.y};
  }
}

/// Reads the dot, the cell or the curves under the pointer; in plots with the same axis the curves at the crosshair.
void note_readings(Frame& frame, const Figure& figure, const FigureView& view, const FigureGeometry& geometry,
                   bool hovered, const std::optional<DrawnPoint>& point) {
  const Point mouse = mouse_place();
  const bool inside = hovered && geometry.plot.contains(mouse);
  if (inside && !point) {
    const std::vector<ReadingLine> cell = cell_at(figure, geometry.x.to_data(mouse.x), geometry.y.to_data(mouse.y));
    if (!cell.empty()) return reading_box(frame, mouse, cell, window_bounds());
  }
  if (!view.cursor_x || point || (hovered && !inside) || !is_line_plot(figure)) return;
  const Point top{geometry.x.to_canvas(*view.cursor_x), geometry.plot.y};
  if (!geometry.plot.contains(top)) return;
  const bool is_first = hovered || (frame.state.focus.crosshair.plot == figure.id);
  const auto pointed_at = inside ? std::optional(geometry.y.to_data(mouse.y)) : std::nullopt;
  frame.state.pointer.readings.push_back({figure.title, values_at(figure, view, *view.cursor_x, pointed_at), is_first,
                                          inside ? mouse : Point{top.x, top.y - frame.px(8)}});
}

void draw_measurements(const Frame& frame, const Figure& figure, const FigureView& view,
                       const FigureGeometry& geometry) {
  const std::vector<ReadingLine> measured = measurement_lines(figure, view);
  const PageState& page = frame.state;  // sheets are above the plots
  if (measured.empty() || page.help_is_open || page.palette.is_open || page.picker.is_open) return;
  Rect corner = free_place(figure, geometry, reading_size(frame, measured), frame.px(8));
  corner.x = std::min(corner.x, window_bounds().right() - corner.width - frame.px(4));
  reading_box_at(frame, corner, measured);
  frame.state.pointer.measured.push_back(corner);
}

/// The titles of axes and colour bars open their cards.
void explain_axes(Frame& frame, const Figure& figure, const FigureGeometry& geometry, const Rect& body) {
  const double line = frame.px(18);
  const auto explain = [&](const std::string& label, const Rect& area) {
    const FormulaCard* card = label.empty() ? nullptr : card_of_axis(figure, label);
    if (card) card_target(frame, card->id, area);
  };
  explain(figure.x.label, {geometry.plot.x, body.bottom() - line, geometry.plot.width, line});
  explain(figure.y.label, {body.x, geometry.plot.y, line, geometry.plot.height});
  for (const DrawnColorBar& bar : geometry.color_bars) {
    const auto& map = std::get<HeatMap>(figure.series[bar.series]);
    card_target(frame, "colour_range", bar.rect);
    explain(map.value.label.empty() ? map.name : map.value.label,
            {bar.rect.right(), bar.rect.y, std::max(0.0, body.right() - bar.rect.right()), bar.rect.height});
  }
}

/// The curve within reach of the pointer, or the heat map under it; nullptr without one.
const Series* series_under(const Frame& frame, const Figure& figure, const FigureView& view,
                           const FigureGeometry& geometry) {
  const Point mouse = mouse_place();
  for (const Series& series : figure.series) {
    if (std::holds_alternative<HeatMap>(series)) return &series;
  }
  const Series* nearest = nullptr;
  double least = frame.px(8);
  for (const NearestPoint& point : nearest_points(figure, view, geometry.x.to_data(mouse.x))) {
    const double distance = std::abs(geometry.y.to_canvas(point.y) - mouse.y);
    if (!(distance < least)) continue;
    least = distance;
    nearest = &figure.series[point.series];
  }
  return nearest;
}

/// The target of F1: the dot, name or curve under the pointer, else the figure.
void ask_card(Frame& frame, const Figure& figure, const FigureView& view, const FigureGeometry& geometry,
              const std::optional<DrawnPoint>& point, const std::optional<std::size_t>& label) {
  const Point mouse = mouse_place();
  const FormulaCard* card = card_of_figure(figure.id);
  if (point) {
    card = card_of_point(figure, std::get<Scatter>(figure.series[point->series]).points[point->point].id);
  } else if (label) {
    card = card_of_axis(figure, stem_of(series_name(figure.series[*label])));
  } else if (const Series* series =
                 geometry.plot.contains(mouse) ? series_under(frame, figure, view, geometry) : nullptr) {
    card = card_of_axis(figure, stem_of(series_name(*series)));
  }
  if (card) ask_for_card(frame, card->id, {mouse.x, mouse.y, 0, 0});
}

/// A rim in the accent colour shows that the colours are locked.
void mark_locked_colours(const Frame& frame, const FigureGeometry& geometry, const PlotState& state) {
  if (!state.colours) return;
  FigureCanvas canvas = frame.look.canvas();
  const double rim = frame.px(2);
  for (const DrawnColorBar& bar : geometry.color_bars)
    canvas.stroke_rect({bar.rect.x - rim, bar.rect.y - rim, bar.rect.width + 2 * rim, bar.rect.height + 2 * rim}, 0,
                       {frame.look.theme->accent, std::max(1.0, frame.px(1.5)), Dash::solid});
}

void draw_hidden_labels(const Frame& frame, const std::vector<HiddenLabel>& labels) {
  FigureCanvas canvas = frame.look.canvas();
  const Theme& theme = *frame.look.theme;
  for (const HiddenLabel& label : labels) {
    const bool hovered = label.rect.contains(mouse_place());
    canvas.fill_rect(label.rect, frame.px(4), faded(hovered ? theme.hairline : theme.raised, 0.85));
    row_text(frame.look, canvas, label.rect, label.name,
             {tiny_size, FontFace::regular, hovered ? theme.text : theme.faint, Anchor::middle});
  }
}

/// The view of the figure: its own zoom and hidden curves, crosshair and selected mode of the page.
FigureView view_in(const Frame& frame, PlotState& state, const Figure& figure, const PlotOptions& options) {
  FigureView view = view_of(state, frame.look.figure_text(options.text_size));
  view.thinned = &state.thinned;
  view.legend_rows = max_legend_rows;
  view.is_bare = is_slide(frame.state) && figure.equal_aspect;
  if (!frame.state.crosshair.axis.empty() && frame.state.crosshair.axis == figure.x.label)
    view.cursor_x = frame.state.crosshair.x;
  const Selection& selection = frame.state.selection;
  const char* sort = mlp_is_selected(frame.seen(), selection) ? "pair " : "mode ";
  if (selection.mode >= 0) view.selected = sort + std::to_string(selection.mode);
  return view;
}

FigureGeometry draw_body(const Frame& frame, const Figure& figure, const FigureView& view, const Rect& body) {
  FigureCanvas canvas = frame.look.canvas();
  canvas.push_clip(body);
  const FigureGeometry geometry = render_figure(figure, *frame.look.theme, view, body, canvas);
  canvas.pop_clip();
  return geometry;
}

/// The area that receives the pointer over the plot; Dear ImGui's later queries about the last item refer to it.
void take_pointer(const Figure& figure, const Rect& body) {
  ImGui::SetCursorScreenPos({static_cast<float>(body.x), static_cast<float>(body.y)});
  ImGui::InvisibleButton(
      figure.id.c_str(),
      {static_cast<float>(std::max(1.0, body.width)), static_cast<float>(std::max(1.0, body.height))},
      ImGuiButtonFlags_MouseButtonLeft | ImGuiButtonFlags_MouseButtonRight);
}

struct Hovered {
  std::optional<DrawnPoint> point;
  std::optional<std::size_t> label;   ///< index of a series
  std::optional<std::string> hidden;  ///< name of a hidden curve
};

Hovered hovered_parts(const Frame& frame, const FigureGeometry& geometry, const std::vector<HiddenLabel>& hidden) {
  const Point mouse = mouse_place();
  Hovered over{geometry.point_at(mouse, frame.px(5)), geometry.label_at(mouse), std::nullopt};
  for (const HiddenLabel& label : hidden) {
    if (!over.hidden && label.rect.contains(mouse)) over.hidden = label.name;
  }
  return over;
}

void handle_click(const Frame& frame, const Figure& figure, const FigureGeometry& geometry, const Hovered& over,
                  PlotState& state, PlotResponse& response) {
  const Point mouse = mouse_place();
  if (!state.follows() && follow_button(frame, geometry).contains(mouse)) {
    state.fit();
  } else if (over.hidden) {
    state.hidden.erase(*over.hidden);
  } else if (ImGui::GetIO().KeyCtrl && geometry.plot.contains(mouse)) {
    place_cursor(state, geometry.x.to_data(mouse.x));
  } else if (over.label) {
    state.hidden.emplace(stem_of(series_name(figure.series[*over.label])));
  } else if (over.point) {
    response.clicked_point = response.hovered_point;
    response.clicked_mode = response.hovered_mode;
  } else if (response.place) {
    response.clicked = response.place;
  }
}

/// Records the plot for commands and other plots.
void note_on_page(PageState& page, const Figure& figure, const FigureGeometry& geometry, const Rect& body,
                  bool hovered) {
  page.drawn.plots.push_back(
      {page.drawn.panel, figure.id, body, geometry.plot, geometry.x.range(), geometry.y.range(), geometry.x.scale(),
       geometry.y.scale(), figure.x.label, is_line_plot(figure),
       geometry.color_bars.empty() ? std::nullopt : std::optional(geometry.color_bars.front().range)});
  if (!hovered) return;
  page.pointer.plot = figure.id;
  const Point mouse = mouse_place();
  if (geometry.plot.contains(mouse) && is_line_plot(figure))
    page.pointer.crosshair = {figure.x.label, figure.id, geometry.x.to_data(mouse.x)};
}

}  // namespace

std::vector<HiddenLabel> hidden_labels(const Frame& frame, const FigureGeometry& geometry, const PlotState& state) {
  const FigureCanvas canvas = frame.look.canvas();
  std::vector<HiddenLabel> labels;
  double x = geometry.plot.x + frame.px(6);
  for (const std::string& name : state.hidden) {
    const double width = canvas.text_width(name, frame.px(tiny_size), FontFace::regular) + frame.px(12);
    if (x + width > geometry.plot.right()) break;
    labels.push_back({name, {x, geometry.plot.bottom() - frame.px(24), width, frame.px(18)}});
    x += width + frame.px(4);
  }
  return labels;
}

PlotResponse plot_widget(Frame& frame, const Figure& figure, const Rect& area, const PlotOptions& options) {
  PlotResponse response;
  PlotState& state = frame.state.plots[figure.id];
  const double caption = options.shows_caption && !figure.title.empty() ? frame.px(20) : 0;
  if (caption > 0) draw_caption(frame, figure, {area.x + frame.px(8), area.y, area.width - frame.px(12), caption});
  const Rect body{area.x, area.y + caption, area.width, area.height - caption};
  const FigureView view = view_in(frame, state, figure, options);
  const FigureGeometry geometry = draw_body(frame, figure, view, body);
  const std::vector<HiddenLabel> hidden =
      is_slide(frame.state) ? std::vector<HiddenLabel>{} : hidden_labels(frame, geometry, state);
  take_pointer(figure, body);
  response.hovered = ImGui::IsItemHovered();
  if (const Point mouse = mouse_place(); response.hovered && geometry.plot.contains(mouse))
    response.place = {geometry.x.to_data(mouse.x), geometry.y.to_data(mouse.y)};
  const Hovered over = response.hovered ? hovered_parts(frame, geometry, hidden) : Hovered{};
  const auto& point = over.point;
  if (point) {
    const auto& scatter = std::get<Scatter>(figure.series[point->series]);
    const ScatterPoint& dot = scatter.points[point->point];
    if (!scatter.is_outlined) response.hovered_point = dot.id;  // a mode of a second run is only read
    if (!scatter.is_outlined) response.hovered_mode = dot.mode;
    response.beside = {point->place.x + point->radius, point->place.y};
  }
  if (point || over.label) ImGui::SetMouseCursor(ImGuiMouseCursor_Hand);
  draw_hidden_labels(frame, hidden);
  if (options.moves_points) note_hinted_dot(frame, figure, geometry);
  if (options.moves_points) drag_point(frame, figure, geometry, point, response);
  const bool holds_cursor = drag_cursor(frame, figure, geometry, state, response.hovered);
  const bool clicked = !response.drag && !holds_cursor &&
                       handle_gestures(frame, figure, geometry, state, response.hovered, ImGui::IsItemActive());
  handle_right_click(frame, figure, geometry, response);
  if (!state.follows()) draw_follow_button(frame, follow_button(frame, geometry));
  if (clicked) handle_click(frame, figure, geometry, over, state, response);
  note_on_page(frame.state, figure, geometry, body, response.hovered);
  if (point) response.point_lines = point_lines(figure, *point);
  if (response.hovered) ask_card(frame, figure, view, geometry, point, over.label);
  note_readings(frame, figure, view, geometry, response.hovered, point);
  draw_measurements(frame, figure, view, geometry);
  mark_locked_colours(frame, geometry, state);
  explain_axes(frame, figure, geometry, body);
  return response;
}

}  // namespace afterglow
