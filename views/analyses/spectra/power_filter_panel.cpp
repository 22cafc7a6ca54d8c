// The filter's plot above a slider for K, which changes the answers only; training keeps its own K.
#include <algorithm>
#include <cmath>

#include "views/analyses/inspected/inspection_figures.h"
#include "views/panels/panel_draws.h"
#include "views/sliders.h"
#include "views/widgets.h"

namespace afterglow {

namespace {

void draw_power_filter(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area) {
  const HeadSpectrum* head = selected_head(frame.seen(), frame.state.selection);
  const double slider = head && area.width > frame.px(200) ? frame.px(30) : 0;
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
  std::vector<CommandField> fields{{"layer", std::int64_t{head->layer}}, {"key", std::string("K")}, {"to", wanted}};
  if (result.held) fields.emplace_back("live", true);
  frame.commands.send("override", fields);
}

}  // namespace

std::vector<PanelDrawing> power_filter_drawings() { return {{"power_filter", draw_power_filter}}; }

}  // namespace afterglow
