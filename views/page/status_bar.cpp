// The state of the run, and notes about events.
#include <algorithm>
#include <cmath>

#include "core/engine/observation/run_numbers.h"
#include "core/figure/axis.h"
#include "core/io/number_text.h"
#include "core/recipe/lesson_condition.h"
#include "views/page/page.h"
#include "views/panels/panel.h"
#include "views/widgets/widgets.h"

namespace afterglow {
namespace {

constexpr double info_seconds = 8;  ///< warnings and failures stay until they are clicked
constexpr double narrow_bar = 1000;

std::string speed_text(double steps_per_second) {
  if (!(steps_per_second > 0)) return "";
  const bool is_fast = steps_per_second >= 100;
  return (is_fast ? grouped_number(std::llround(std::min(steps_per_second, 1e15))) : number_text(steps_per_second, 3)) +
         " steps/s";
}

/// Returns whether the user clicked the note away.
bool draw_note(Frame& frame, const Note& note, const Rect& bar) {
  FigureCanvas canvas(*ImGui::GetForegroundDrawList(), *frame.look.fonts);
  const Theme& theme = *frame.look.theme;
  const Color ink = note.severity == Severity::failure   ? theme.failure
                    : note.severity == Severity::warning ? theme.warning
                                                         : theme.accent;
  const double most = std::min(frame.px(640), bar.width - frame.px(48));
  const std::vector<std::string> lines =
      wrapped_text(canvas, note.text, most - frame.px(36), frame.px(small_size), FontFace::regular, 3);
  double width = 0;
  for (const std::string& line : lines)
    width = std::max(width, canvas.text_width(line, frame.px(small_size), FontFace::regular));
  width += frame.px(40);
  const double row = frame.px(17), height = row * static_cast<double>(lines.size()) + frame.px(14);
  const Rect box{bar.x + (bar.width - width) / 2, bar.bottom() - frame.px(4) - height, width, height};
  canvas.fill_rect(box, frame.px(8), mixed(mixed(theme.raised, theme.panel, 0.25), ink, 0.06));
  canvas.stroke_rect(box, frame.px(8), {mixed(theme.hairline, ink, 0.6), std::max(1.0, frame.px(1)), Dash::solid});
  canvas.fill_circle({box.x + frame.px(15), box.y + frame.px(7) + row / 2}, frame.px(4), ink);
  text_lines(frame.look, canvas, {box.x + frame.px(28), box.y + frame.px(7), width - frame.px(36), height}, lines, row,
             {small_size, FontFace::regular, theme.text, Anchor::start});
  return box.contains(mouse_place()) && ImGui::IsMouseReleased(0);
}

/// A button that opens the run of the last window. Returns the left edge.
double draw_kept_run(Frame& frame, double right, const Rect& row) {
  if (frame.state.opened.kept_run.empty()) return right;
  const std::string label = "Go on: " + frame.state.opened.kept_run;
  const double x =
      command_button(frame, right, {0, row.y + frame.px(2), 0, row.height - frame.px(4)}, {"go_on", {}}, label,
                     Icon::play, ButtonKind::primary, "Opens the run that was saved when the window was closed.");
  return x - frame.px(22);
}

}  // namespace

void draw_status_bar(Frame& frame, const Rect& area) {
  const Observation& o = frame.seen();
  const Theme& theme = *frame.look.theme;
  FigureCanvas canvas = frame.look.canvas();
  const Rect row{area.x + frame.px(14), area.y, area.width - frame.px(28), area.height};
  // An audience sees the state of the run; the presenter knows the keys.
  const char* keys = frame.state.presentation.is_on      ? ""
                     : area.width < frame.px(narrow_bar) ? "F1 keys"
                                                         : "Space run · ← → step · Ctrl E export · F1 keys";
  const double keys_width = canvas.text_width(keys, frame.px(small_size), FontFace::regular);
  const double right = draw_kept_run(frame, row.right() - keys_width - frame.px(22), row);
  double x = row.x;
  const auto add = [&](const std::string& text, FontFace face, Color color) {
    const double left = right - x;
    if (text.empty() || left < frame.px(30)) return;
    x += row_text(frame.look, canvas, {x, row.y, std::min(left, frame.px(420)), row.height}, text,
                  {small_size, face, color, Anchor::start}) +
         frame.px(22);
  };
  if (const bool is_lost = !frame.state.line.problem.empty(); !frame.state.line.text.empty()) {
    const Point dot{x + frame.px(4), row.y + row.height / 2};
    is_lost ? canvas.stroke_circle(dot, frame.px(3.5), {theme.warning, frame.px(1.5), Dash::solid})
            : canvas.fill_circle(dot, frame.px(4), theme.accent);
    x += frame.px(14);
    add(frame.state.line.text, FontFace::mono, is_lost ? theme.warning : theme.text);
  }
  std::string device = o.device;
  if (o.device_bytes > 0) device += " · " + bytes_text(o.device_bytes);
  add(device, FontFace::regular, theme.dim);
  if (!o.preset.empty() || o.step > 0)
    add("seed " + std::to_string(o.seed) + " · step " + grouped_number(o.step), FontFace::mono, theme.dim);
  if (!o.checksum.empty()) {
    const std::string same = o.same_as.empty() ? "" : " = " + o.same_as;
    const bool is_current = o.checksum_step == o.step;
    add(o.checksum.substr(0, 8) + same, FontFace::mono,
        is_current ? (same.empty() ? theme.text : theme.series[0]) : theme.faint);
  }
  if (o.running || o.rebuilds_to >= 0) add(speed_text(o.steps_per_second), FontFace::mono, theme.dim);
  if (!o.stop_when.empty())
    add("stops when " + in_words(parse_condition(o.stop_when, "stop_when")), FontFace::regular, theme.warning);
  if (o.precision != "") add(o.precision, FontFace::mono, theme.faint);
  const PendingWork pending = pending_work(o);
  const double left = x;
  add(pending.shown, FontFace::regular, theme.dim);
  const Rect entry{left, row.y, x - left, row.height};
  if (entry.contains(mouse_place())) hint_box(frame, entry, pending.all);
  row_text(frame.look, canvas, row, keys, {small_size, FontFace::regular, theme.dim, Anchor::end});
}

void draw_notes(Frame& frame, const Rect& bar) {
  auto& notes = frame.state.notes;
  const auto is_over = [&](const Note& note) {
    return note.severity == Severity::info && frame.time - note.born > info_seconds;
  };
  while (!notes.empty() && is_over(notes.back())) notes.pop_back();
  if (!frame.state.report.empty()) {
    if (draw_note(frame, {Severity::info, frame.state.report}, bar)) frame.state.report.clear();
    return;
  }
  if (notes.empty()) return;
  if (frame.state.presentation.is_on && notes.back().severity != Severity::failure) return;
  // One note at a time: the next one shows when this one was clicked away or has faded.
  const Note& newest = notes.back();
  if (newest.severity == Severity::info) ask_frame(frame.state, newest.born + info_seconds + 0.01);
  if (draw_note(frame, newest, bar)) notes.pop_back();
}

}  // namespace afterglow
