// The line in which a prompt is typed, above the panels about a sequence.
#include <utility>

#include "views/panel.h"
#include "views/panels/panel_draws.h"
#include "views/text_field.h"
#include "views/widgets.h"

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
  if (!frame.seen().model.reads_text || frame.state.is_locked || area.height < frame.px(180)) return area;
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

}  // namespace afterglow
