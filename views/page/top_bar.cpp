// Wordmark, workspaces, and the actions that are always at hand.
#include <string>

#include "views/page/page.h"
#include "views/widgets.h"

namespace afterglow {

namespace {

double draw_wordmark(const Frame& frame, const Rect& row) {
  FigureCanvas canvas = frame.look.canvas();
  const Theme& theme = *frame.look.theme;
  const double first = row_text(frame.look, canvas, row, "after", {15, FontFace::semibold, theme.text, Anchor::start});
  const double second = row_text(frame.look, canvas, {row.x + first, row.y, row.width, row.height}, "glow",
                                 {15, FontFace::semibold, theme.accent, Anchor::start});
  return first + second;
}

void draw_tabs(Frame& frame, double x, const Rect& row, double right) {
  for (const Workspace& workspace : workspaces()) {
    const double width = button_width(frame, workspace.title, Icon::none);
    if (x + width > right) break;
    const bool is_on = frame.state.workspace == workspace.id;
    const ButtonResult tab = button(frame, workspace.id.data(), x, row, workspace.title, Icon::none,
                                    is_on ? ButtonKind::chosen : ButtonKind::quiet);
    if (tab.clicked) frame.commands.send("workspace", {{"name", std::string(workspace.id)}});
    x += tab.width + frame.px(2);
  }
}

}  // namespace

void draw_top_bar(Frame& frame, const Rect& area) {
  ImGui::PushID("top");
  const Observation& o = frame.seen();
  const double gap = frame.px(10);
  const Rect row{area.x + frame.px(14), area.y + frame.px(8), area.width - frame.px(28), frame.px(28)};
  const double mark = draw_wordmark(frame, row);

  // The run button is as wide as its widest state, so that nothing beside it moves.
  const bool can_run = !o.finished && !o.stopped_non_finite;
  const char* state = o.running ? "training" : o.stopped_non_finite ? "stopped" : o.finished ? "finished" : "paused";
  double x = row.right() - button_width(frame, "Ctrl P", Icon::none);
  if (button(frame, "palette", x, row, "Ctrl P", Icon::none, ButtonKind::normal, "Find and run any command  Ctrl P")
          .clicked)
    frame.commands.send("palette");
  const double run_width = button_width(frame, "finished", Icon::play);
  x -= gap + run_width;
  if (button(frame, "run", x, row, state, o.running ? Icon::pause : Icon::play,
             can_run ? ButtonKind::primary : ButtonKind::normal, o.running ? "Pause  Space" : "Run  Space")
          .clicked) {
    frame.commands.send("toggle_run");
  }
  x -= gap + button_width(frame, "step", Icon::step);
  if (button(frame, "step", x, row, "step", Icon::step, ButtonKind::normal, "Train one step, then pause  →").clicked) {
    frame.commands.send("step", {{"count", std::int64_t{1}}});
  }
  x -= gap + button_width(frame, "same seed", Icon::again);
  if (button(frame, "reset", x, row, "same seed", Icon::again, ButtonKind::normal,
             "Start again with the same seed  Ctrl R")
          .clicked) {
    frame.commands.send("reset");
  }
  draw_tabs(frame, row.x + mark + frame.px(22), row, x - gap);
  ImGui::PopID();
}

}  // namespace afterglow
