// Sliders above the memory inspector: how much of the memory is used, and how its modes are chosen.
#include <algorithm>
#include <array>

#include "core/engine/observation/memory_view.h"
#include "views/panels/panel_draws.h"
#include "views/plot_widget.h"
#include "views/sliders.h"
#include "views/widgets.h"

namespace afterglow {

namespace {

constexpr std::array memory_knobs{"memory.modes",    "memory.tokens", "memory.rows", "memory.without",
                                  "memory.strategy", "memory.kernel", "memory.tau"};

/// Has an ImGui id of its own, because the left column can show the same setting at the same time.
void draw_memory_knob(Frame& frame, const Setting& setting, const Rect& place) {
  Setting own = setting;
  own.key = "inspector." + setting.key;
  if (own.label.starts_with("memory ")) own.label.erase(0, std::string_view("memory ").size());
  value_slider(frame, own, place, [&](double value, bool is_live) {
    std::vector<CommandField> fields{{"key", setting.key}, {"to", value}};
    if (is_live) fields.emplace_back("live", true);
    frame.commands.send("set", fields);
  });
}

/// The sliders in rows above the plots, if they fit, and a note on their limits.
void draw_memory_inspector(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area) {
  const double knob_width = frame.px(150), row = frame.px(slider_height), gap = frame.px(14), line = frame.px(20);
  const auto columns =
      static_cast<std::size_t>(std::clamp(area.width / (knob_width + gap), 0.0, double{memory_knobs.size()}));
  std::vector<Setting> knobs;
  for (const char* key : memory_knobs) {
    const auto& settings = frame.seen().settings;
    const auto found = std::ranges::find(settings, std::string_view(key), &Setting::key);
    if (found != settings.end()) knobs.push_back(*found);
  }
  if (!frame.seen().memory || knobs.empty() || columns < 2 || area.height < frame.px(280))
    return draw_figure_grid(frame, panel, figures, area);
  const std::size_t rows = area.height < frame.px(420) ? 1 : (knobs.size() + columns - 1) / columns;
  const double width = (area.width - gap) / static_cast<double>(columns) - gap;
  for (std::size_t i = 0; i < std::min(knobs.size(), rows * columns); ++i) {
    draw_memory_knob(frame, knobs[i],
                     {area.x + gap + static_cast<double>(i % columns) * (width + gap),
                      area.y + static_cast<double>(i / columns) * row, width, row});
  }
  const double below = area.y + static_cast<double>(rows) * row;
  FigureCanvas canvas = frame.look.canvas();
  row_text(frame.look, canvas, {area.x + gap, below, area.width - 2 * gap, line},
           frame.seen().memory->is_of_error
               ? "Uses less than was trained; more needs training: afterglow table etth1_memory."
               : "Uses less than was trained; more needs training.",
           {small_size, FontFace::regular, frame.look.theme->dim, Anchor::start});
  const double above = below + line - area.y;
  draw_figure_grid(frame, panel, figures, {area.x, area.y + above, area.width, area.height - above});
}

}  // namespace

std::vector<PanelDrawing> memory_drawings() { return {{"memory_inspector", draw_memory_inspector}}; }

}  // namespace afterglow
