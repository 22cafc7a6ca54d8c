// Frame, header and the usual body of a panel.
#include "views/panels/panel.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "core/figure/axis.h"
#include "core/io/named.h"
#include "views/analyses/inspected/inspection_figures.h"
#include "views/analyses/memory/memory_figures.h"
#include "views/analyses/spectra/spectrum_figures.h"
#include "views/figures/semantic_colours.h"
#include "views/widgets/widgets.h"

namespace afterglow {
namespace {

constexpr double header_height = 32;

struct Grid {
  int count = 1, columns = 1;
  int rows() const { return (count + columns - 1) / columns; }
};

/// The largest number of figures that fit at a useful size; among the arrangements, the one with the least stretched
/// cells.
Grid best_grid(int figures, double width, double height, double min_width, double min_height) {
  for (int count = figures; count > 1; --count) {
    Grid best{0, 0};
    double best_score = 0;
    for (int columns = 1; columns <= count; ++columns) {
      const Grid grid{count, columns};
      const double w = width / columns, h = height / grid.rows();
      if (w < min_width || h < min_height || columns * grid.rows() - count >= columns) continue;
      const double score = std::min(w / min_width, h / min_height) / (columns * grid.rows());
      if (score > best_score) {
        best = grid;
        best_score = score;
      }
    }
    if (best.count) return best;
  }
  return {};
}

void draw_nothing_yet(Frame& frame, const Panel& panel, const Rect& area) {
  if (const std::string why = why_no_model(frame.seen()); !why.empty()) return void(draw_sentence(frame, why, area));
  if (panel.kind->needs_model && !fits(*panel.kind, frame.seen().model))
    return draw_missing(frame, area, why_not(*panel.kind), first_preset_that_shows(panel.kind->needs));
  if (frame.seen().folder && (panel.kind->analyses & (Analysis::blame | Analysis::microscope | Analysis::bisect)) != 0)
    return void(draw_sentence(frame, trained_elsewhere, area));
  std::string text = panel.kind->subtitle(frame.seen(), frame.state.selection);
  if (const AnalysisWork* work = long_work(*panel.kind, frame.seen())) {
    const bool ends = text.ends_with('.') || text.ends_with('?');
    text = (work->part > 0 ? text + (ends ? " " : ". ") : "") + long_work_sentence(*panel.kind, frame.seen());
  }
  const auto& [command, title] = panel.kind->asks;
  // What is being computed is also said in the words of the list of plots, as a sentence of its own.
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  if (title.empty() && panel.kind->analyses != 0 && !is_slide(frame.state) && area.height > frame.px(90))
    text = std::string(panel.kind->about) + (text.empty() ? "" : " " + text);
  if (title.empty() || frame.state.presentation.is_locked) return void(draw_sentence(frame, text, area));
  if (draw_offer(frame, text, area, title, panel.kind->about)) frame.commands.send(command);
}

int shown_figure(const Frame& frame, const Panel& panel, std::size_t figures) {
  const int index = frame.state.figure_of(panel.kind->id);
  return index < static_cast<int>(figures) ? index : -1;
}

/// The switch that goes through "all" and each figure alone.
double draw_figure_chip(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, double right,
                        const Rect& row) {
  if (figures.size() < 2 || row.width < frame.px(250)) return right;
  const int shown = shown_figure(frame, panel, figures.size());
  const std::string label = shown < 0 ? "all plots" : figures[static_cast<std::size_t>(shown)].title;
  const std::int64_t next = shown + 1 < static_cast<int>(figures.size()) ? shown + 1 : -1;
  return command_chip(frame, {"show", {{"panel", panel.kind->id}, {"figure", next}}}, "which", right, row, label,
                      shown >= 0, "Switches between all plots and each plot alone");
}

void draw_header(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area) {
  FigureCanvas canvas = frame.look.canvas();
  const Theme& theme = *frame.look.theme;
  const Rect row{area.x + frame.px(12), area.y + frame.px(3), area.width - frame.px(22), frame.px(26)};
  const bool is_alone = frame.state.maximised == panel.kind->id;
  // The title has priority; switches take the rest of the row, and the subtitle what they leave.
  const double wanted = canvas.text_width(panel.kind->title, frame.px(title_size), FontFace::semibold);
  const double title = std::min(wanted, row.width - frame.px(24));
  const Rect title_row{row.x, row.y, title + frame.px(1), row.height};
  const double left = title_row.right() + frame.px(7);
  const Command maximise{"maximise", {{"panel", panel.kind->id}}};
  const double enlarge =
      command_chip(frame, is_alone ? Command{"restore"} : maximise, "enlarge", row.right(), row, "", false,
                   is_alone ? "Back to all panels  Esc" : "Enlarge  Enter", is_alone ? Icon::shrink : Icon::enlarge);
  const auto rest = [&](double right) { return Rect{left, row.y, std::max(0.0, right - left), row.height}; };
  double right = draw_figure_chip(frame, panel, figures, enlarge, rest(enlarge));
  if (panel.draw_controls) right = panel.draw_controls(frame, rest(right));

  row_text(frame.look, canvas, title_row, panel.kind->title,
           {title < wanted ? title_size * std::max(0.7, 0.92 * title / wanted) : title_size, FontFace::semibold,
            theme.text, Anchor::start});
  const Press press = press_area("header", {row.x, row.y, std::max(1.0, right - row.x), row.height});
  if (press.double_clicked) frame.commands.send(maximise);
  // Without a figure the sentence is shown in its place. What does not fit is in the hint.
  if (const Rect text = rest(right - frame.px(8)); !figures.empty()) {
    const auto is_here = [&](const RunNote& note) {
      return note.figure == figures.front().id || note.figure == panel.kind->id;
    };
    const bool has_own = frame.figures.second() || std::ranges::any_of(frame.seen().notes, is_here);
    const std::string whole = has_own ? figures.front().subtitle
                                      : panel.kind->subtitle(frame.seen(), frame.state.selection) +
                                            without_interventions(*panel.kind, frame.seen());
    const std::string shown = fitting_parts(canvas, whole, text.width, frame.px(small_size));
    row_text(frame.look, canvas, text, shown, {small_size, FontFace::regular, theme.faint, Anchor::start, true});
    if (press.hovered && shown != whole && mouse_place().x > left) hint_box(frame, row, whole);
  }
  card_target(frame, panel.kind->id, title_row);
}

std::vector<Panel> all_panels() {
  std::vector<Panel> list;
  for (const PlotKind& kind : plot_kinds()) list.push_back({&kind, draw_figure_grid, nullptr});
  for (const auto drawings : panel_drawings) {
    for (const PanelDrawing& drawing : drawings()) {
      Panel* const panel = find_by(list, drawing.plot, [](const Panel& known) { return known.kind->id; });
      if (panel == nullptr) throw std::logic_error("a panel is drawn of no plot: " + std::string(drawing.plot));
      panel->draw = drawing.draw;
      panel->draw_controls = drawing.draw_controls;
    }
  }
  return list;
}

}  // namespace

PlotResponse draw_plot(Frame& frame, const Figure& figure, const Rect& area) {
  PlotResponse response = plot_widget(frame, figure, area, {.shows_caption = false});
  handle_response(frame, response);
  return response;
}

double draw_sentence(const Frame& frame, std::string_view text, const Rect& area, double below) {
  FigureCanvas canvas = frame.look.canvas();
  const double width = area.width - frame.px(32), height = frame.px(20);
  const std::vector<std::string> lines = wrapped_text(canvas, text, width, frame.px(body_size), FontFace::regular, 4);
  const double y = area.y + (area.height - below - static_cast<double>(lines.size()) * height) / 2;
  return text_lines(frame.look, canvas, {area.x + frame.px(16), y, width, height}, lines, height,
                    {body_size, FontFace::regular, frame.look.theme->faint, Anchor::middle});
}

bool draw_offer(const Frame& frame, std::string_view text, const Rect& area, std::string_view label,
                std::string_view hint) {
  const double gap = frame.px(8), height = frame.px(28), width = button_width(frame, label, Icon::none);
  const double end = draw_sentence(frame, text, area, gap + height);
  const Rect row{area.x + (area.width - width) / 2, end + gap, width, height};
  return button(frame, "offer", row.x, row, label, Icon::none, ButtonKind::normal, hint).clicked;
}

void draw_missing(Frame& frame, const Rect& area, std::string_view why, const Preset* preset) {
  const std::string& model = frame.seen().model.name;
  const std::string text = std::string(why) + (model.empty() ? "" : " The model " + model + " has none.");
  if (!preset) return void(draw_sentence(frame, text, area));
  if (draw_offer(frame, text, area, "Open " + preset->name, preset->title))
    frame.commands.send("load", {{"preset", preset->name}});
}

ChipResult header_chip(const Frame& frame, const char* id, double right, const Rect& row, std::string_view label,
                       bool is_on, std::string_view hint, Icon icon) {
  FigureCanvas canvas = frame.look.canvas();
  const Theme& theme = *frame.look.theme;
  const double width = icon == Icon::none
                           ? canvas.text_width(label, frame.px(tiny_size), FontFace::regular) + frame.px(14)
                           : frame.px(22);
  if (right - width < row.x) return {right, false};  // there is no room for it
  const Rect box{right - width, row.y + row.height / 2 - frame.px(10), width, frame.px(20)};
  const Press press = press_area(id, box);
  if (is_on) canvas.fill_rect(box, frame.px(5), mixed(theme.raised, theme.accent, 0.18));
  if (!is_on && press.hovered) canvas.fill_rect(box, frame.px(5), theme.raised);
  row_text(frame.look, canvas, box, label,
           {tiny_size, FontFace::regular, is_on || press.hovered ? theme.text : theme.dim, Anchor::middle, true});
  draw_icon(canvas, icon, {box.x + frame.px(6), box.y + frame.px(5), frame.px(10), frame.px(10)},
            press.hovered ? theme.text : theme.dim);
  if (press.hovered && !hint.empty()) hint_box(frame, box, hint);
  return {box.x - frame.px(2), press.clicked};
}

double command_button(const Frame& frame, double right, const Rect& row, const Command& command, std::string_view label,
                      Icon icon, ButtonKind kind, std::string_view hint) {
  const double x = right - button_width(frame, label, icon);
  if (button(frame, (command.name + std::string(label)).c_str(), x, row, label, icon, kind, hint).clicked)
    frame.commands.send(command);
  return x;
}

double command_chip(const Frame& frame, const Command& command, const char* id, double right, const Rect& row,
                    std::string_view label, bool is_on, std::string_view hint, Icon icon) {
  const ChipResult chip = header_chip(frame, id, right, row, label, is_on, hint, icon);
  if (chip.clicked) frame.commands.send(command);
  return chip.left;
}

void draw_figure_grid(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area) {
  draw_handled_figures(frame, panel, figures, area, {});
}

void draw_handled_figures(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area,
                          const FigureHandler& handler) {
  if (figures.empty()) return draw_nothing_yet(frame, panel, area);
  const auto draw = [&](std::size_t i, const Rect& place, const PlotOptions& options) {
    const PlotResponse response = plot_widget(frame, figures[i], place, options);
    handle_response(frame, response);
    if (handler) handler(figures[i], response);
  };
  const int chosen = shown_figure(frame, panel, figures.size());
  if (chosen >= 0) {
    PlotOptions options{.moves_points = panel.kind->moves_points};
    return draw(static_cast<std::size_t>(chosen), area, options);
  }
  const Grid grid = best_grid(static_cast<int>(figures.size()), area.width, area.height,
                              frame.px(panel.kind->smallest.width), frame.px(panel.kind->smallest.height));
  const double gap = frame.px(4), width = area.width / grid.columns, height = area.height / grid.rows();
  for (int i = 0; i < grid.count; ++i) {
    const Rect cell{area.x + i % grid.columns * width, area.y + i / grid.columns * height, width - gap, height - gap};
    // The panel's header names a single figure.
    PlotOptions options{.shows_caption = grid.count > 1 || figures.size() > 1,
                        .moves_points = panel.kind->moves_points};
    draw(static_cast<std::size_t>(i), cell, options);
  }
}

void draw_panel(Frame& frame, const Panel& panel, const Rect& area) {
  FigureCanvas canvas = frame.look.canvas();
  const Theme& theme = *frame.look.theme;
  const bool slide = is_slide(frame.state);
  if (!slide) {
    const bool is_focused = frame.state.focus.panel == panel.kind->id;
    canvas.fill_rect(area, frame.px(8), theme.panel);
    canvas.stroke_rect(
        area, frame.px(8),
        {is_focused ? theme.accent : theme.hairline, std::max(1.0, std::round(frame.px(1))), Dash::solid});
  }
  if (area.contains(mouse_place()) &&
      ImGui::IsWindowHovered(ImGuiHoveredFlags_ChildWindows | ImGuiHoveredFlags_AllowWhenBlockedByActiveItem)) {
    frame.state.pointer.panel = panel.kind->id;
  }
  frame.state.drawn.panels.push_back({std::string(panel.kind->id), area});
  frame.state.drawn.panel = panel.kind->id;
  ImGui::PushID(panel.kind->id.data());
  const std::vector<Figure>& figures = frame.figures.figures(*panel.kind, frame.observation, frame.state.selection);
  // On a slide only panels next to others need their names.
  const double head = slide && area.width > 0.4 * window_bounds().width ? 0 : frame.px(header_height);
  if (!slide) draw_header(frame, panel, figures, area);
  if (slide && head > 0)
    row_text(frame.look, canvas, {area.x + frame.px(8), area.y, area.width, head}, panel.kind->title,
             {title_size, FontFace::semibold, theme.text, Anchor::start});
  Rect body{area.x + frame.px(4), area.y + head, area.width - frame.px(8),
            area.height - head - (slide ? 0 : frame.px(6))};
  if (fits(*panel.kind, frame.seen().model)) body.height -= draw_work_offer(frame, *panel.kind, body);
  if (body.width > frame.px(60) && body.height > frame.px(40)) panel.draw(frame, panel, figures, body);
  ImGui::PopID();
  if (!is_stressed(frame.state, panel.kind->id)) {
    FigureCanvas veil = frame.look.canvas();
    veil.fill_rect(area, frame.px(6), faded(frame.look.theme->ground, 0.4));
  }
  // The panel's menu opens wherever nothing else uses the right button.
  const auto& pointer = frame.state.pointer;
  if (pointer.panel == panel.kind->id && ImGui::IsMouseReleased(1) && !pointer.right_click_is_taken &&
      !is_dragged(frame, 1))
    frame.commands.send("menu", {{"panel", panel.kind->id}});
}

namespace {

/// The selection of this dot's mode; empty if the dot is not a mode.
std::optional<Selection> selection_of(const Frame& frame, const DotMode& dot) {
  Selection there = frame.state.selection;
  there.mode = dot.number;
  const MlpSpectrum* mlp = dot.is_pair ? selected_mlp(frame.seen(), there) : nullptr;
  const HeadSpectrum* head = dot.is_pair ? nullptr : selected_head(frame.seen(), there);
  if (dot.number < 0 || (!mlp && !head)) return std::nullopt;
  if (mlp) there.layer = mlp->layer;
  if (head && mlp_is_selected(frame.seen(), there)) there.layer = head->layer;
  return there;
}

void interfere(Frame& frame, const PlotResponse& response) {
  const auto there = selection_of(frame, response.drag ? response.drag->mode : response.switched_mode);
  const auto mode = there ? meant_mode(frame.seen(), *there) : std::nullopt;
  if (!mode) return;
  if (!response.drag) return frame.commands.send(mode_off(mode->name, !mode->is_off));
  const double scale =
      mlp_is_selected(frame.seen(), *there) ? 1 : shown_scale(*seen_head(frame.seen(), *there), *there);
  if (!(std::abs(scale) > 0)) return;
  frame.commands.send(drag_mode(
      mode->name, {std::clamp(response.drag->x / scale, -4.0, 4.0), std::clamp(response.drag->y / scale, -4.0, 4.0)},
      !response.drag->is_over));
  // The readout is that of the dragged mode.
  if (frame.state.selection.mode != there->mode)
    frame.commands.send("select", {{"layer", there->layer}, {"mode", there->mode}});
}

/// The path of training: a click on a recorded step rewinds to it.
void handle_step_response(Frame& frame, const PlotResponse& response) {
  if (const std::int64_t step = step_of_point(response.clicked_point); step >= 0)
    frame.commands.send("rewind", {{"step", step}});
  const std::int64_t hovered = step_of_point(response.hovered_point);
  if (hovered < 0) return;
  std::vector<ReadingLine> lines{{"step", grouped_number(hovered), Ink(0), true}};
  if (const double loss = loss_at(frame.seen(), hovered); std::isfinite(loss))
    lines.push_back({"loss", number_text(loss, 4), Ink(0), false});
  lines.push_back({"click", "rewind to this step", Ink(0), false});
  reading_box(frame, response.beside, lines, window_bounds());
}

}  // namespace

void handle_response(Frame& frame, const PlotResponse& response) {
  handle_mode_response(frame, response);
  handle_step_response(frame, response);
  if (!frame.state.pointer.reading && !response.drag)
    reading_box(frame, response.beside, response.point_lines, window_bounds());
}

void handle_mode_response(Frame& frame, const PlotResponse& response) {
  const Selection& now = frame.state.selection;
  if (const auto there = selection_of(frame, response.clicked_mode)) {
    const bool is_chosen = *there == now;
    nlohmann::json fields{{"mode", is_chosen ? -1 : there->mode}};
    if (there->layer != now.layer) fields["layer"] = there->layer;
    frame.commands.send("select", fields);
  }
  interfere(frame, response);
  const auto hovered = selection_of(frame, response.hovered_mode);
  if (!hovered || response.drag) return;
  const Ink ink =
      mlp_is_selected(frame.seen(), *hovered) ? layer_ink(LayerTrait::koopman_modes) : mode_ink(hovered->mode);
  std::vector<ReadingLine> lines;
  for (const ReadoutRow& row : mode_readout(frame.seen(), *hovered))
    lines.push_back({row.label, row.value, ink, lines.empty()});
  reading_box(frame, response.beside, lines, window_bounds());
}

std::span<const Panel> panels() {
  static const std::vector<Panel> list = all_panels();
  return list;
}

const Panel* find_panel(std::string_view id) { return find_by(panels(), find_plot_kind(id), &Panel::kind); }

}  // namespace afterglow
