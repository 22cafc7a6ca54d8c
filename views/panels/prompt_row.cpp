// Above the plots of a panel: the line in which a prompt is typed, and rows of sliders.
#include <algorithm>
#include <utility>

#include "views/panels/panel.h"
#include "views/widgets/sliders.h"
#include "views/widgets/text_field.h"
#include "views/widgets/widgets.h"

namespace afterglow {
namespace {

constexpr const char* prompt_key = "prompt";
constexpr std::int64_t written_tokens = 32;

void draw_prompt_field(Frame& frame, const Rect& box) {
  EditState& edit = frame.state.edit;
  const bool wants_focus = std::exchange(edit.wants_focus, false);
  const FieldResult field =
      text_field(frame.look, "##prompt", edit.text, box, small_size, FontFace::regular, wants_focus);
  if (!field.entered && !field.left) return;
  if (field.entered && !edit.text.empty()) frame.commands.send("probe_sequence", {{"text", edit.text}});
  edit = {};
}

}  // namespace

Rect draw_prompt_row(Frame& frame, const Rect& area) {
  if (!frame.seen().model.reads_text || frame.state.presentation.is_locked || area.height < frame.px(180)) return area;
  const double height = frame.px(26), used = height + frame.px(6);
  const Rect row{area.x + frame.px(10), area.y + frame.px(2), area.width - frame.px(20), height};
  const Rect below{area.x, area.y + used, area.width, area.height - used};
  const double right =
      command_chip(frame, {"probe_sequence", {{"write", written_tokens}}}, "write", row.right(), row, "write on", false,
                   "The model writes " + std::to_string(written_tokens) + " tokens after these, always the likeliest");
  const Rect box{row.x, row.y, right - row.x - frame.px(6), height};
  FigureCanvas canvas = frame.look.canvas();
  canvas.fill_rect(box, frame.px(5), frame.look.theme->raised);
  const Rect inside{box.x + frame.px(8), box.y, box.width - frame.px(16), box.height};
  if (frame.state.edit.key == prompt_key) {
    draw_prompt_field(frame, inside);
    return below;
  }
  const Press press = press_area("prompt", box);
  row_text(
      frame.look, canvas, inside, "Type a prompt; Enter asks.",
      {small_size, FontFace::regular, press.hovered ? frame.look.theme->text : frame.look.theme->faint, Anchor::start});
  if (press.clicked) frame.state.edit = {prompt_key, 0, true, true, "", -1};
  return below;
}

double draw_slider_rows(const Frame& frame, const std::vector<Setting>& knobs, double min_width, const Rect& area,
                        const std::function<void(const Setting& knob, const Rect& place)>& draw) {
  const double row = frame.px(slider_height), gap = frame.px(14), most = static_cast<double>(knobs.size());
  const auto columns = static_cast<std::size_t>(std::clamp(area.width / (frame.px(min_width) + gap), 0.0, most));
  if (columns < 2) return 0;
  const std::size_t rows = area.height < frame.px(420) ? 1 : (knobs.size() + columns - 1) / columns;
  const double width = (area.width - gap) / static_cast<double>(columns) - gap;
  for (std::size_t i = 0; i < std::min(knobs.size(), rows * columns); ++i)
    draw(knobs[i], {area.x + gap + static_cast<double>(i % columns) * (width + gap),
                    area.y + static_cast<double>(i / columns) * row, width, row});
  return static_cast<double>(rows) * row;
}

}  // namespace afterglow
