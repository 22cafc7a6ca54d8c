// Wordmark, workspaces, and the actions that are always at hand.
#include <span>
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

/// The tabs [first, end) that fit into `room`, the present one among them.
struct TabRange {
  std::size_t first = 0, end = 0;
};
TabRange tabs_that_fit(const Frame& frame, double room, std::size_t present) {
  const std::span<const Workspace> all = workspaces();
  const auto width = [&](std::size_t i) { return button_width(frame, all[i].title, Icon::none) + frame.px(2); };
  for (TabRange tabs;; ++tabs.first) {
    double used = 0;
    for (tabs.end = tabs.first; tabs.end < all.size() && used + width(tabs.end) <= room; ++tabs.end)
      used += width(tabs.end);
    if (present < tabs.end || tabs.first >= present) return tabs;
  }
}

/// Where not all tabs fit, a last one leads on to those that are hidden.
void draw_tabs(Frame& frame, double x, const Rect& row, double right) {
  const std::span<const Workspace> all = workspaces();
  std::size_t present = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (frame.state.workspace == all[i].id) present = i;
  }
  TabRange tabs = tabs_that_fit(frame, right - x, present);
  const bool is_cut = tabs.end - tabs.first < all.size();
  if (is_cut) tabs = tabs_that_fit(frame, right - x - button_width(frame, "…", Icon::none), present);
  for (std::size_t i = tabs.first; i < tabs.end; ++i) {
    const std::string why = why_not(all[i], frame.seen().model);
    const ButtonKind kind = i == present ? ButtonKind::chosen : why.empty() ? ButtonKind::quiet : ButtonKind::dim;
    const std::string hint = why.empty() ? "" : why + " A click shows a preset that has one.";
    const ButtonResult tab = button(frame, all[i].id.data(), x, row, all[i].title, Icon::none, kind, hint);
    if (tab.clicked) frame.commands.send("workspace", {{"name", std::string(all[i].id)}});
    x += tab.width + frame.px(2);
  }
  if (!is_cut) return;
  const std::string next(all[tabs.end % all.size()].id);
  if (button(frame, "more", x, row, "…", Icon::none, ButtonKind::quiet, "More workspaces  Ctrl 1 to 8").clicked)
    frame.commands.send("workspace", {{"name", next}});
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
