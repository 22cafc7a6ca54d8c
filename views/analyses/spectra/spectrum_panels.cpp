// The complex plane with the readout of a mode, or all heads as small plots; eigenvalue forces with a sentence about
// the mode under the pointer, or the chosen one; the filter's plot above a slider for K, which changes the answers
// only (a slide's text has its own).
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/engine/analyses/inspected/inspected_view.h"
#include "views/analyses/causes/causes_figures.h"
#include "views/analyses/inspected/inspection_figures.h"
#include "views/analyses/spectra/spectrum_figures.h"
#include "views/panels/panel.h"
#include "views/widgets/sliders.h"
#include "views/widgets/widgets.h"

namespace afterglow {
namespace {

constexpr std::size_t worded_rows = 5;  ///< of a readout: name, half-life, period, what is kept, energy
constexpr double whole_readout = 600;   ///< height of a panel that shows the symbols too, unless it is enlarged

double draw_readout(Frame& frame, const std::vector<ReadoutRow>& rows, const Rect& area) {
  FigureCanvas canvas = frame.look.canvas();
  const Theme& theme = *frame.look.theme;
  // Rows move closer before any is left out.
  const double height =
      std::clamp(area.height / static_cast<double>(std::max<std::size_t>(rows.size(), 1)), frame.px(14), frame.px(21));
  double y = area.y;
  for (std::size_t i = 0; i < rows.size() && y + height <= area.bottom(); ++i, y += height) {
    const Rect row{area.x, y, area.width, height};
    if (i == 0) {
      row_text(frame.look, canvas, row, rows[i].label, {small_size, FontFace::semibold, theme.text, Anchor::start});
    } else {
      // If both do not fit, the unit is cut first, because the card names it.
      std::string text = rows[i].value;
      const double needed = canvas.text_width(rows[i].label, frame.px(small_size), FontFace::regular) + frame.px(6) +
                            canvas.text_width(text, frame.px(tiny_size), FontFace::mono);
      if (needed > row.width) text = text.substr(0, text.find(' '));
      const double value =
          row_text(frame.look, canvas, row, text, {tiny_size, FontFace::mono, theme.text, Anchor::end, true});
      row_text(frame.look, canvas, {row.x, row.y, row.width - value - frame.px(6), row.height}, rows[i].label,
               {small_size, FontFace::regular, theme.dim, Anchor::start, true});
    }
    card_target(frame, rows[i].card, row);
  }
  return y - area.y;
}

/// Whether modes can grow, by the largest singular value in the readout; for a Koopman MLP why none can.
std::string gain_sentence(const Frame& frame) {
  if (mlp_is_selected(frame.seen(), frame.state.selection))
    return "Each pair rotates and damps two numbers of the same token; λ is divided by max(1, |λ|), so no mode grows.";
  const HeadSpectrum* head = selected_head(frame.seen(), frame.state.selection);
  return head && head->sigma >= 1
             ? "The largest gain σ(A_w) is at least 1, so the layer divides A_w by it; only γ can amplify."
             : "The largest gain σ(A_w) is below 1, so the layer's normalisation does nothing here; only γ can "
               "amplify.";
}

void draw_gain_note(const Frame& frame, const Rect& area) {
  FigureCanvas canvas = frame.look.canvas();
  const std::vector<std::string> lines =
      wrapped_text(canvas, gain_sentence(frame), area.width, frame.px(tiny_size), FontFace::regular, 6);
  const double height = frame.px(15);
  if (static_cast<double>(lines.size()) * height <= area.height)
    text_lines(frame.look, canvas, area, lines, height,
               {tiny_size, FontFace::regular, frame.look.theme->faint, Anchor::start, true});
}

std::string percent_of(double share) { return number_text(std::round(1000 * share) / 10) + " %"; }

/// The hint of a first start; while a mode is dragged, what the answers lose. Empty words: none.
struct DragHint {
  std::string words, numbers{};
};

DragHint hint_of(const Frame& frame, const AblatedPart* needed) {
  constexpr double learned = 0.9, matters = 0.05;
  const Observation& o = frame.seen();
  const bool is_dragged = !frame.state.drag.point.empty(), is_due = frame.state.hints.is_drag_due;
  if (o.inspected && o.inspected->is_edited() && (is_dragged || is_due))
    return {"Right answers before and now:", accuracy_change(*o.inspected, percent_of)};
  if (!is_due || frame.state.presentation.is_locked || is_dragged) return {};
  const bool knows =
      !o.runs.empty() && !o.runs.back().held_out_accuracy.empty() && o.runs.back().held_out_accuracy.back() >= learned;
  if (!knows) return {"Each dot is one mode of the memory. Watch: they move while it learns."};
  if (!needed) return {"Measuring what each mode costs …"};
  if (o.ablation->accuracy - needed->accuracy < matters) return {};
  return {"The answers need this mode most. Drag it. Right answers with and without it:",
          percent_of(o.ablation->accuracy) + " → " + percent_of(needed->accuracy)};
}

/// In the strip at the right of the circle, where it covers nothing, with a tip at the mode that it speaks of; returns
/// its height, 0 where it has no room.
double draw_hint(const Frame& frame, const DragHint& hint, const Rect& area) {
  if (hint.words.empty()) return 0;
  FigureCanvas canvas = frame.look.canvas();
  const Theme& theme = *frame.look.theme;
  const Color ink = theme.is_dark ? mixed(theme.ground, theme.accent, 0.15) : theme.panel;
  const double pad = frame.px(9), line = frame.px(17), large = hint.numbers.empty() ? 0 : frame.px(28);
  const Rect row{area.x + pad, area.y + pad, area.width - 2 * pad, line};
  const auto lines = wrapped_text(canvas, hint.words, row.width, frame.px(small_size), FontFace::semibold, 6);
  const Rect box{area.x, area.y, area.width, static_cast<double>(lines.size()) * line + large + 2 * pad};
  if (box.height > area.height) return 0;
  if (const auto& dot = frame.state.hints.dot; large > 0 && dot) {
    const double y = std::clamp(dot->y, box.y + pad, box.bottom() - pad);
    const std::array<Point, 3> tip{Point{box.x, y - frame.px(6)}, Point{box.x, y + frame.px(6)}, *dot};
    canvas.polygon(tip, faded(theme.accent, 0.85));
  }
  canvas.fill_rect(box, frame.px(8), theme.accent);
  const double y =
      text_lines(frame.look, canvas, row, lines, line, {small_size, FontFace::semibold, ink, Anchor::start});
  row_text(frame.look, canvas, {row.x, y, row.width, large}, hint.numbers,
           {17, FontFace::semibold, ink, Anchor::start});
  return box.height + frame.px(10);
}

double draw_all_heads_chip(Frame& frame, double right, const Rect& row) {
  const bool is_on = frame.state.selection.all_heads;
  return command_chip(frame, {"select", {{"all_heads", !is_on}}}, "all", right, row, "all", is_on,
                      "Shows all heads, one small plot each");
}

/// What the places of the circle mean, in the lower corners of a slide, where there are no dots.
void draw_corner_words(const Frame& frame, const Rect& area) {
  FigureCanvas canvas = frame.look.canvas();
  const Rect row{area.x + frame.px(14), area.bottom() - frame.px(28), area.width - frame.px(28), frame.px(16)};
  RowText style{small_size, FontFace::regular, frame.look.theme->dim, Anchor::start};
  row_text(frame.look, canvas, row, "middle: gone at once", style);
  style.anchor = Anchor::end;
  row_text(frame.look, canvas, row, "circle: never fades", style);
}

void draw_spectrum(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area) {
  const bool is_whole = area.height >= frame.px(whole_readout) || frame.state.maximised == panel.kind->id;
  const HeadSpectrum* head = selected_head(frame.seen(), frame.state.selection);
  const AblationView* ablation = frame.seen().ablation.get();
  const AblatedPart* needed = head && ablation && ablation->is_complete ? most_needed_mode(ablation, *head) : nullptr;
  frame.state.hints.mode = needed ? needed->mode : -1;
  // Below the hint stands what it speaks of, until another mode is chosen.
  Selection read = frame.state.selection;
  if (frame.state.hints.is_drag_due && read.mode < 0) read.mode = frame.state.hints.mode;
  std::vector<ReadoutRow> rows = mode_readout(frame.seen(), read);
  if (!is_whole) rows.resize(std::min(rows.size(), worded_rows));
  const double readout = frame.px(area.width > frame.px(460) ? 176 : area.width > frame.px(360) ? 136 : 122);
  const bool shows_readout =
      !rows.empty() && !frame.state.selection.all_heads && area.width > frame.px(300) && !is_slide(frame.state);
  const double planes = shows_readout ? area.width - readout - frame.px(8) : area.width;
  // The Koopman MLP's plane is added only if both stay large.
  std::vector<Figure> shown = figures;
  if (!frame.state.selection.all_heads && planes < 1.7 * area.height && shown.size() > 1 &&
      !frame.state.shown_figure.contains(std::string(panel.kind->id))) {
    shown.resize(1);
  }
  for (Figure& figure : shown) {  // on a slide the circle is as large as possible
    const bool fits_circle = figure.x.range && figure.x.range->high < 1.2;
    if (is_slide(frame.state) && fits_circle) figure.x.range = figure.y.range = Range{-1.04, 1.04};
  }
  draw_figure_grid(frame, panel, shown, {area.x, area.y, planes, area.height});
  if (is_slide(frame.state) && shown.size() == 1) draw_corner_words(frame, {area.x, area.y, planes, area.height});
  if (!shows_readout) return;
  const Rect column{area.right() - readout - frame.px(4), area.y + frame.px(18), readout - frame.px(4),
                    area.height - frame.px(26)};
  double used = head ? draw_hint(frame, hint_of(frame, needed), column) : 0;
  used += draw_readout(frame, rows, {column.x, column.y + used, column.width, column.height - used}) + frame.px(10);
  if (is_whole) draw_gain_note(frame, {column.x, column.y + used, column.width, column.height - used});
}

double draw_spectrum_controls(Frame& frame, const Rect& row) {
  const HeadSpectrum* head = selected_head(frame.seen(), frame.state.selection);
  const Selection& selection = frame.state.selection;
  if (row.width < frame.px(80)) return row.right();
  if (!head || mlp_is_selected(frame.seen(), selection)) return draw_surgery_chip(frame, row.right(), row);
  double right = row.right();
  const double scaled = command_chip(frame, {"select", {{"scaled", !selection.scaled}}}, "scaled", right, row,
                                     selection.scaled ? "A = γ A_w" : "A_w", selection.scaled,
                                     "Shows the eigenvalues of A_w, or of A = γ A_w with the gain γ");
  right = draw_surgery_chip(frame, scaled, row);
  const int heads = heads_of_layer(*frame.seen().spectra, head->layer);
  if (row.width < frame.px(100 + 26 * std::min(heads, 9))) return right;  // the side column has them as well
  right = draw_all_heads_chip(frame, right, row);
  return draw_head_chips(frame, right, row, heads, selection.all_heads ? -1 : head->head);
}

constexpr double forces_line = 18, forces_column = 176;

/// A legend in the colours of the arrows, and the caption of the figure.
std::vector<std::pair<std::string, Color>> forces_legend(const Theme& theme, const HeadForces& forces,
                                                         const Figure& figure) {
  std::vector<std::pair<std::string, Color>> lines = {{"− −  where the loss pulls it", theme.accent},
                                                      {"––  where AdamW moves it", theme.text},
                                                      {"◆  where the step ends", theme.warning},
                                                      {"○  reach of a change of 1 %", theme.faint},
                                                      {figure.subtitle, theme.dim}};
  if (!forces.operated.empty()) lines.emplace(lines.end() - 1, "■  target of the weight edit", theme.failure);
  return lines;
}

/// Text from the top of the area, as far as it fits; returns its end.
double draw_lines(const Frame& frame, const Rect& area, const std::string& text, Color ink) {
  FigureCanvas canvas = frame.look.canvas();
  auto lines = wrapped_text(canvas, text, area.width, frame.px(small_size), FontFace::regular, 9);
  lines.resize(std::min(lines.size(), static_cast<std::size_t>(std::max(0.0, area.height / frame.px(forces_line)))));
  return text_lines(frame.look, canvas, area, lines, frame.px(forces_line),
                    {small_size, FontFace::regular, ink, Anchor::start, true});
}

void draw_forces(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area) {
  const HeadForces* forces = selected_forces(frame.seen(), frame.state.selection);
  const bool has_column = area.width > frame.px(forces_column) + 0.8 * area.height;
  if (figures.size() != 1 || !forces || !has_column) return draw_figure_grid(frame, panel, figures, area);
  const Rect plane{area.x, area.y, area.width - frame.px(forces_column), area.height};
  Figure bare = figures[0];
  bare.labels = LabelPlacement::none;
  const int hovered = draw_plot(frame, bare, plane).hovered_mode.number;
  std::string said = force_text(*forces, hovered >= 0 ? hovered : frame.state.selection.mode);
  if (said.empty()) said = "Click a dot to see how far it is pulled and moved.";
  const Theme& theme = *frame.look.theme;
  Rect column{plane.right() + frame.px(4), area.y + frame.px(6), frame.px(forces_column - 14),
              area.height - frame.px(8)};
  const auto go_on_at = [&](double y) { column = {column.x, y, column.width, area.bottom() - y}; };
  for (const auto& [text, ink] : forces_legend(theme, *forces, figures[0]))
    go_on_at(draw_lines(frame, column, text, ink));
  go_on_at(column.y + frame.px(8));
  draw_lines(frame, column, said, theme.text);
}

double draw_forces_controls(Frame& frame, const Rect& row) {
  const Observation& seen = frame.seen();
  const Selection& selection = frame.state.selection;
  const HeadForces* chosen = selected_forces(seen, selection);
  if (!chosen || row.width < frame.px(200)) return row.right();
  int heads = 0;
  for (const HeadForces& head : seen.forces->heads) heads += head.layer == chosen->layer;
  const double all = draw_all_heads_chip(frame, row.right(), row);
  return draw_head_chips(frame, draw_surgery_chip(frame, all, row), row, heads,
                         selection.all_heads ? -1 : chosen->head);
}

void draw_power_filter(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area) {
  const HeadSpectrum* head = selected_head(frame.seen(), frame.state.selection);
  const double slider = head && area.width > frame.px(200) && !is_slide(frame.state) ? frame.px(30) : 0;
  draw_figure_grid(frame, panel, figures, {area.x, area.y, area.width, area.height - slider});
  if (slider == 0) return;
  constexpr int max_powers = 8;
  FigureCanvas canvas = frame.look.canvas();
  const Theme& theme = *frame.look.theme;
  const int power = seen_head(frame.seen(), frame.state.selection)->power;
  const Rect row{area.x + frame.px(12), area.bottom() - slider, area.width - frame.px(24), slider};
  const double label =
      row_text(frame.look, canvas, row, "K", {body_size, FontFace::regular, theme.dim, Anchor::start}) + frame.px(12);
  const std::string value = std::to_string(power) + (power == head->power ? " as trained" : "");
  const double value_width = std::max(frame.px(84), canvas.text_width(value, frame.px(small_size), FontFace::mono));
  row_text(frame.look, canvas, row, value, {small_size, FontFace::mono, theme.text, Anchor::end});
  const Rect track{row.x + label, row.y, row.width - label - value_width - frame.px(12), row.height};
  const TrackResult result =
      slider_track(frame, "K", track, static_cast<double>(std::min(power, max_powers)) / max_powers);
  const double wanted = result.reset ? head->power : std::round(result.share * max_powers);
  if (!result.reset && !(result.moved && static_cast<int>(wanted) != power) && !result.released) return;
  frame.commands.send("override", {{"layer", head->layer}, {"key", "K"}, {"to", wanted}, {"live", result.held}});
}

}  // namespace

std::vector<PanelDrawing> spectrum_drawings() {
  return {{"spectrum", draw_spectrum, draw_spectrum_controls},
          {"forces", draw_forces, draw_forces_controls},
          {"power_filter", draw_power_filter}};
}

double draw_surgery_chip(Frame& frame, double right, const Rect& row) {
  const InspectedView* inspected = frame.seen().inspected.get();
  const auto moves = [](const auto& mode) { return mode.second.moved_to.has_value(); };
  const auto is_moved = [&](const auto& head) { return std::ranges::any_of(head.second.modes, moves); };
  const auto has_moved = [&](const auto& layer) { return std::ranges::any_of(layer.second.heads, is_moved); };
  if (!inspected || std::ranges::none_of(inspected->setup.interventions.layers, has_moved)) return right;
  return command_chip(frame, {"surgery", {}}, "surgery", right, row, "fit weights", true,
                      "Changes the weights until they have the moved eigenvalues; counts as one step");
}

double draw_head_chips(Frame& frame, double right, const Rect& row, int heads, int chosen, int switched) {
  const bool switches = switched >= 0;
  const int shown = heads > 8 && switches ? 5 : std::min(heads, 8);
  const int first = std::clamp(chosen - shown / 2, 0, heads - shown);
  const Interventions* made = frame.seen().inspected ? &frame.seen().inspected->setup.interventions : nullptr;
  for (int h = first + shown - 1; h >= first; --h) {
    const bool is_off = switches && made && changes_of(*made, switched, h).is_off;
    const std::string label = std::to_string(h), id = "head" + label;
    Command command{"select", {{"head", h}, {"all_heads", false}}};
    if (switches) command.value["layer"] = switched;
    if (switches && h == chosen) command = {"head_off", {{"layer", switched}, {"head", h}, {"off", !is_off}}};
    const std::string deed = is_off ? "Switches this head on" : "Switches this head off";
    right = command_chip(frame, command, id.c_str(), right, row, label + (is_off ? " off" : ""), h == chosen,
                         switches && h == chosen ? deed : "Head " + label);
  }
  return right;
}

}  // namespace afterglow
