// Name of the program, pages, and buttons for the run.
#include <algorithm>
#include <span>
#include <string>

#include "core/figure/axis.h"
#include "core/io/number_text.h"
#include "views/page/page.h"
#include "views/text_field.h"
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

/// The tabs [first, end) that fit into `room`, with the present one among them.
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

/// If not all tabs fit, a last one leads to the hidden ones.
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
  if (button(frame, "more", x, row, "…", Icon::none, ButtonKind::quiet, "Shows more pages  Ctrl 1 to 9").clicked)
    frame.commands.send("workspace", {{"name", next}});
}

const char* state_word(const Observation& o) {
  if (o.model.layers.empty() && o.events.empty()) return "Opening";
  if (o.rebuilds_to >= 0) return "Rebuilding";
  if (o.folder) return o.follows ? "Following" : "Follow";
  if (o.running) return "Training";
  return o.stopped_non_finite ? "Stopped" : o.finished ? "Done" : "Paused";
}

/// As wide as its widest text, so that its neighbours do not move. Returns the left edge.
double draw_run_button(Frame& frame, double right, const Rect& row) {
  const Observation& o = frame.seen();
  const bool can_run = o.folder ? !o.follows : !o.finished && !o.stopped_non_finite;
  const bool is_done = o.finished && !o.running && o.step >= o.final_step;
  const char* hint = o.folder    ? "Shows each new checkpoint as soon as it is written  Space"
                     : o.running ? "Pause  Space"
                     : is_done   ? "Done; raise the setting \"steps\" to train on"
                                 : "Run  Space";
  const double x = right - button_width(frame, "Rebuilding", Icon::play);
  const ButtonResult run =
      button(frame, "run", x, row, state_word(o), o.running || o.follows ? Icon::pause : Icon::play,
             can_run ? ButtonKind::primary : ButtonKind::normal, hint);
  if (run.clicked) frame.commands.send("toggle_run");
  return x;
}

/// The speed limit; a click takes the next slower one, and from the slowest no limit. Returns the left edge.
double draw_speed(Frame& frame, double right, const Rect& row) {
  const double limit = frame.seen().speed_limit;
  const std::string label = limit > 0 ? number_text(limit, 3) + "/s" : "max";
  const double x = right - button_width(frame, "100/s", Icon::none);
  const std::string hint = (limit > 0 ? "At most " + number_text(limit, 3) + " steps/s" : "As fast as possible") +
                           std::string("; a click or − makes it slower, + faster");
  if (button(frame, "speed", x, row, label, Icon::none, ButtonKind::normal, hint).clicked) {
    const bool is_slowest = limit > 0 && limit <= 1;
    is_slowest ? frame.commands.send("speed", {{"to", std::int64_t{0}}})
               : frame.commands.send("speed", {{"by", std::int64_t{-1}}});
  }
  return x;
}

/// The number in the field; 1 if it is not a number.
std::int64_t step_count(const std::string& text) {
  return std::clamp<std::int64_t>(parse_whole_number(text).value_or(1), 1, 1'000'000'000);
}

/// The field for the number of steps. Returns whether the user pressed Enter.
bool draw_step_field(Frame& frame, const Rect& box) {
  std::string& text = frame.state.step_count;
  FigureCanvas canvas = frame.look.canvas();
  canvas.stroke_rect(box, frame.px(6), {frame.look.theme->hairline, std::max(1.0, frame.px(1)), Dash::solid});
  const Rect inside{box.x + frame.px(4), box.y, box.width - frame.px(8), box.height};
  const FieldResult field = text_field(frame.look, "##steps", text, inside, body_size, FontFace::mono, false);
  if (field.entered || field.left) text = std::to_string(step_count(text));
  return field.entered;
}

/// The button that trains some steps, with the field for their number. Returns the left edge.
double draw_step_button(Frame& frame, double right, const Rect& row, bool has_field) {
  const double width = has_field ? frame.px(58) : 0;
  const bool is_entered = has_field && draw_step_field(frame, {right - width, row.y, width, row.height});
  const double x = right - width - (has_field ? frame.px(2) : 0) - button_width(frame, "Step", Icon::step);
  const std::int64_t count = has_field ? step_count(frame.state.step_count) : 1;
  const std::string hint =
      count == 1 ? std::string("Trains one step, then pauses") + (has_field ? "; the field sets how many" : "") + "  →"
                 : "Trains " + std::to_string(count) + " steps, then pauses";
  const bool is_clicked = button(frame, "step", x, row, "Step", Icon::step, ButtonKind::normal, hint).clicked;
  if (is_clicked || is_entered) frame.commands.send("step", {{"count", count}});
  return x;
}

}  // namespace

void draw_top_bar(Frame& frame, const Rect& area) {
  ImGui::PushID("top");
  const double gap = frame.px(10);
  const Rect row{area.x + frame.px(14), area.y + frame.px(8), area.width - frame.px(28), frame.px(28)};
  const double mark = draw_wordmark(frame, row);

  const auto is_shown = [&](std::string_view name) { return shows_control(frame.state, name); };
  double x = row.right() + gap;
  if (is_shown("palette")) {
    x -= gap + button_width(frame, "Commands", Icon::none);
    if (button(frame, "palette", x, row, "Commands", Icon::none, ButtonKind::normal,
               "Finds and runs any command  Ctrl P")
            .clicked)
      frame.commands.send("palette");
  }
  if (is_shown("run")) x = draw_run_button(frame, x - gap, row);
  // In a narrow window the tabs need the room; keys and commands do the same.
  const bool is_wide = row.width > frame.px(1000);
  if (is_wide && is_shown("speed")) x = draw_speed(frame, x - gap, row);
  if (is_shown("step")) x = draw_step_button(frame, x - gap, row, is_wide);
  if (is_shown("restart")) {
    x -= gap + button_width(frame, "Restart", Icon::again);
    if (button(frame, "reset", x, row, "Restart", Icon::again, ButtonKind::normal,
               "Starts again from step 0 with the same seed  Ctrl R")
            .clicked)
      frame.commands.send("reset");
  }
  if (is_shown("workspaces")) draw_tabs(frame, row.x + mark + frame.px(22), row, x - gap);
  ImGui::PopID();
}

}  // namespace afterglow
