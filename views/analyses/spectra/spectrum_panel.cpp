// The complex plane with the readout of a mode, or all heads as small plots.
#include <algorithm>
#include <array>

#include "core/engine/analyses/inspected/inspected_view.h"
#include "views/analyses/spectra/spectrum_figures.h"
#include "views/formula_cards.h"
#include "views/panels/panel_draws.h"
#include "views/widgets.h"

namespace afterglow {

namespace {

constexpr double min_header = 240;  ///< in narrower panels the switches of the heads are below the readout

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
  if (static_cast<double>(lines.size()) * height > area.height) return;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    row_text(frame.look, canvas, {area.x, area.y + static_cast<double>(i) * height, area.width, height}, lines[i],
             {tiny_size, FontFace::regular, frame.look.theme->faint, Anchor::start, true});
  }
}

/// "0 1 2 3 all" at the right end of the row; returns their left edge.
double draw_switches(Frame& frame, const Rect& row) {
  const Selection& selection = frame.state.selection;
  const HeadSpectrum* head = selected_head(frame.seen(), selection);
  if (!head || mlp_is_selected(frame.seen(), selection)) return row.right();
  const int heads = heads_of_layer(*frame.seen().spectra, head->layer);
  const double all = command_chip(frame, {"select", {{"all_heads", !selection.all_heads}}}, "all", row.right(), row,
                                  "all", selection.all_heads, "Shows all heads, one small plot each");
  return draw_head_chips(frame, all, row, heads, selection.all_heads ? -1 : head->head);
}

void draw_spectrum(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area) {
  const std::vector<ReadoutRow> rows = mode_readout(frame.seen(), frame.state.selection);
  const double readout = frame.px(area.width > frame.px(360) ? 136 : 122);
  const bool shows_readout = !rows.empty() && !frame.state.selection.all_heads && area.width > frame.px(300);
  const double planes = shows_readout ? area.width - readout - frame.px(8) : area.width;
  // The Koopman MLP's plane is added only if both stay large.
  std::vector<Figure> shown = figures;
  if (!frame.state.selection.all_heads && planes < 1.7 * area.height && shown.size() > 1 &&
      frame.state.shown_figure.find(std::string(panel.kind->id)) == frame.state.shown_figure.end()) {
    shown.resize(1);
  }
  draw_figure_grid(frame, panel, shown, {area.x, area.y, planes, area.height});
  if (!shows_readout) return;
  Rect column{area.right() - readout - frame.px(4), area.y + frame.px(18), readout - frame.px(4),
              area.height - frame.px(26)};
  if (area.width < frame.px(min_header + 140)) {
    column.height -= frame.px(26);
    draw_switches(frame,
                  {column.x - frame.px(6), column.bottom() + frame.px(4), column.width + frame.px(6), frame.px(22)});
  }
  const double used = draw_readout(frame, rows, column) + frame.px(10);
  draw_gain_note(frame, {column.x, column.y + used, column.width, column.height - used});
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
  if (row.width < frame.px(330)) return right;
  right = command_chip(frame, {"select", {{"all_heads", !selection.all_heads}}}, "all", right, row, "all",
                       selection.all_heads, "Shows all heads, one small plot each");
  return draw_head_chips(frame, right, row, heads, selection.all_heads ? -1 : head->head);
}

}  // namespace

std::span<const PanelDrawing> spectrum_drawings() {
  static constexpr std::array drawings{PanelDrawing{"spectrum", draw_spectrum, draw_spectrum_controls}};
  return drawings;
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

double draw_head_chips(Frame& frame, double right, const Rect& row, int heads, int chosen) {
  constexpr int max_chips = 8;
  for (int h = std::min(heads, max_chips) - 1; h >= 0; --h) {
    const std::string label = std::to_string(h), id = "head" + label;
    right = command_chip(frame, {"select", {{"head", std::int64_t{h}}, {"all_heads", false}}}, id.c_str(), right, row,
                         label, h == chosen, "Head " + label);
  }
  return right;
}

}  // namespace afterglow
