// The tokens of the traced sequence as chips, and the steps of the training as a line that one can drag.
#include <algorithm>
#include <cmath>

#include "core/figure/axis.h"
#include "views/figures/semantic_colours.h"
#include "views/page/page.h"
#include "views/token_chip.h"
#include "views/widgets.h"

namespace afterglow {

namespace {

constexpr double scrub_interval = 0.05;  ///< seconds between two rewinds while dragging

struct TokenRow {
  int first = 0, count = 0;
  double width = 0, gap = 0;
};

/// Chips of all tokens where they fit, else of those around the selected one.
TokenRow token_row(const Frame& frame, int tokens, int selected, double room) {
  TokenRow row;
  // Where chips get narrow the room goes to their text.
  row.gap = room / tokens > frame.px(24) ? frame.px(3) : room / tokens > frame.px(6) ? frame.px(1) : 0;
  const double least = frame.px(frame.state.presenting ? 25 : 2.5);  // an audience reads every label
  row.count = std::clamp(static_cast<int>(room / least), 1, tokens);
  row.width = std::min(frame.px(25), room / row.count - row.gap);
  row.first = std::clamp(selected - row.count / 2, 0, tokens - row.count);
  return row;
}

std::string label_of(const Trace& trace, int id) {
  return id >= 0 && id < static_cast<int>(trace.labels.size()) ? trace.labels[static_cast<std::size_t>(id)]
                                                               : "#" + std::to_string(id);
}

/// "→ v2 0.991": what the model answers after the selected token.
void draw_answer(const Frame& frame, const TokenStep& step, const Trace& trace, const Rect& area) {
  if (step.top_tokens.empty() || step.top_probabilities.empty()) return;
  FigureCanvas canvas = frame.look.canvas();
  const Theme& theme = *frame.look.theme;
  const double used = row_text(frame.look, canvas, area, "→ " + label_of(trace, step.top_tokens.front()),
                               {small_size, FontFace::mono, theme.dim, Anchor::start});
  const double x = area.x + used + frame.px(8);
  row_text(frame.look, canvas, {x, area.y, area.right() - x, area.height},
           number_text(step.top_probabilities.front(), 3),
           {small_size, FontFace::mono, theme.series[0], Anchor::start});
}

void draw_tokens(Frame& frame, const Rect& area) {
  const auto& trace = frame.seen().trace;
  FigureCanvas canvas = frame.look.canvas();
  const int selected = selected_token(frame.seen(), frame.state.selection);
  if (selected < 0) {
    row_text(frame.look, canvas, area,
             frame.seen().model.is_forecaster
                 ? "A forecast has no tokens: next window, in its panel, shows another stretch of the series."
                 : "The tokens of a held-out sequence appear here with the first observation of the run.",
             {small_size, FontFace::regular, frame.look.theme->faint, Anchor::start});
    return;
  }
  const double answer = frame.px(104);
  const int tokens = static_cast<int>(std::min(trace->tokens.size(), trace->steps.size()));
  const TokenRow row = token_row(frame, tokens, selected, area.width - answer);
  const double pitch = row.width + row.gap;
  const Rect strip{area.x, area.y, row.count * pitch, area.height};
  const Press press = press_area("tokens", strip);
  const int under =
      press.hovered || press.held
          ? row.first + std::clamp(static_cast<int>((mouse_place().x - strip.x) / pitch), 0, row.count - 1)
          : -1;
  for (int i = 0; i < row.count; ++i) {
    const int t = row.first + i;
    draw_token_chip(frame, canvas, trace->tokens[static_cast<std::size_t>(t)],
                    {strip.x + i * pitch, area.y, row.width, area.height}, {t == selected, t == under});
  }
  if (press.held && under >= 0 && under != selected) frame.commands.send("token", {{"to", std::int64_t{under}}});
  if (press.started) frame.state.time_focus = TimeFocus::tokens;
  draw_answer(frame, trace->steps[static_cast<std::size_t>(selected)], *trace,
              {strip.right() + frame.px(10), area.y, area.right() - strip.right() - frame.px(10), area.height});
}

struct TimeScale {
  Rect area;
  double last = 1;
  double x(double step) const { return area.x + area.width * std::clamp(step / last, 0.0, 1.0); }
  std::int64_t step(double place) const {
    return static_cast<std::int64_t>(std::llround(std::clamp((place - area.x) / area.width, 0.0, 1.0) * last));
  }
};

void draw_marks(const Frame& frame, Canvas& canvas, const TimeScale& scale) {
  const Theme& theme = *frame.look.theme;
  if (frame.seen().runs.empty()) return;
  const std::vector<Mark>& marks = frame.seen().runs.back().marks;
  for (std::size_t i = 0; i < marks.size(); ++i) {
    const double x = scale.x(static_cast<double>(marks[i].step));
    canvas.fill_rect({x, scale.area.y, std::max(1.0, frame.px(1)), scale.area.height}, 0, theme.warning);
    const double end = i + 1 < marks.size() ? scale.x(static_cast<double>(marks[i + 1].step)) : scale.area.right();
    const Rect text{x + frame.px(5), scale.area.y, end - x - frame.px(10), scale.area.height};
    if (text.width > frame.px(40))
      row_text(frame.look, canvas, text, marks[i].text, {tiny_size, FontFace::regular, theme.warning, Anchor::start});
  }
}

/// Rewinds while dragging, but not more often than the engine can show it.
void scrub(Frame& frame, const Press& press, const TimeScale& scale) {
  PageState& state = frame.state;
  if (press.started) state.time_focus = TimeFocus::steps;
  if (!press.held && !press.released) return;
  const std::int64_t reached = std::max<std::int64_t>(frame.seen().step, state.scrubbed_step);
  const std::int64_t wanted = std::min(scale.step(mouse_place().x), reached);
  if (wanted != state.scrubbed_step && (press.released || frame.time - state.scrubbed_at >= scrub_interval)) {
    frame.commands.send("rewind", {{"step", wanted}});
    state.scrubbed_step = wanted;
    state.scrubbed_at = frame.time;
  } else if (wanted != state.scrubbed_step) {
    ask_frame(state, state.scrubbed_at + scrub_interval);
  }
  if (press.released) state.scrubbed_step = -1;
}

void draw_steps(Frame& frame, const Rect& area) {
  const Observation& o = frame.seen();
  const Theme& theme = *frame.look.theme;
  FigureCanvas canvas = frame.look.canvas();
  std::int64_t last = std::max<std::int64_t>(o.step, 1);
  if (o.final_step > 0) last = std::max(last, o.final_step);
  const TimeScale scale{area, static_cast<double>(last)};
  canvas.fill_rect(area, frame.px(4), theme.raised);
  const double now = scale.x(static_cast<double>(o.step));
  canvas.fill_rect({area.x, area.y, now - area.x, area.height}, frame.px(4), mixed(theme.raised, theme.accent, 0.24));
  if (o.oldest_step > 0) {
    // Steps before the snapshot that a run goes on from cannot be reached again, so they are shown fainter.
    canvas.fill_rect({area.x, area.y, scale.x(static_cast<double>(o.oldest_step)) - area.x, area.height}, frame.px(4),
                     faded(theme.raised, 0.6));
  }
  draw_marks(frame, canvas, scale);
  canvas.fill_rect({now - frame.px(1), area.y, frame.px(2), area.height}, 0,
                   o.stopped_non_finite ? theme.failure : theme.accent);
  const Press press = press_area("steps", area);
  scrub(frame, press, scale);
  if (press.hovered || press.held) {
    const double x = std::clamp(mouse_place().x, area.x, area.right());
    const std::int64_t step = scale.step(x);
    canvas.fill_rect({x, area.y, std::max(1.0, frame.px(1)), area.height}, 0, theme.text);
    const std::string hint = step <= o.step ? "step " + grouped_number(step) + ": drag to go back"
                                            : "step " + grouped_number(step) + ": not there yet";
    hint_box(frame, {x, area.y, 0, area.height}, hint);
  }
}

}  // namespace

void draw_time_bar(Frame& frame, const Rect& area) {
  ImGui::PushID("time");
  const Rect inside{area.x + frame.px(14), area.y + frame.px(11), area.width - frame.px(28),
                    area.height - frame.px(22)};
  draw_tokens(frame, {inside.x, inside.y, inside.width, frame.px(26)});
  draw_steps(frame, {inside.x, inside.bottom() - frame.px(20), inside.width, frame.px(18)});
  ImGui::PopID();
}

}  // namespace afterglow
