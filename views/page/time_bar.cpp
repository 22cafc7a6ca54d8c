// The tokens of the traced sequence as chips, and the steps of the training as a line that the user can drag.
#include <algorithm>
#include <cmath>

#include "core/figure/axis.h"
#include "core/io/number_text.h"
#include "views/analyses/memory/memory_figures.h"
#include "views/figures/training/training_figures.h"
#include "views/page/page.h"
#include "views/widgets/widgets.h"

namespace afterglow {
namespace {

constexpr double scrub_interval = 0.05;  ///< seconds between two moves while dragging

struct TokenRow {
  int first = 0, count = 0;
  double width = 0, gap = 0;
};

double widest_chip(const Frame& frame, const Trace& trace) {
  const double letter = frame.look.canvas().text_width("0", frame.px(tiny_size), FontFace::mono);
  std::size_t letters = 0;
  for (const TokenView& token : trace.tokens) letters = std::max(letters, token.label.size());
  return std::max(frame.px(25), static_cast<double>(letters) * letter + frame.px(4));
}

/// Chips of all tokens if they fit, at most `widest` wide, else of those around the selected one.
TokenRow token_row(const Frame& frame, int tokens, int selected, double room, double widest) {
  TokenRow row;
  // Narrow chips give the room to their text.
  row.gap = room / tokens > frame.px(24) ? frame.px(3) : room / tokens > frame.px(6) ? frame.px(1) : 0;
  const bool has_audience =
      frame.state.presentation.is_on || frame.look.theme->text_scale > 1;  // an audience reads all
  const double least = frame.px(has_audience ? 25 : 2.5);
  row.count = std::clamp(static_cast<int>(room / least), 1, tokens);
  row.width = std::min(widest, room / row.count - row.gap);
  row.first = std::clamp(selected - row.count / 2, 0, tokens - row.count);
  return row;
}

/// Label of the answers: read token by token they may differ from those of the whole sequence at once, which some
/// layers compute in chunks.
constexpr const char* answers_form = "token by token";

/// "→ v2 0.991": a model's answer after a token.
std::string answer_of(const Trace& trace, std::size_t token) {
  const TokenStep& step = trace.steps[token];
  if (step.top_tokens.empty() || step.top_probabilities.empty()) return "";
  return "→ " + label_among(trace.labels, step.top_tokens.front()) + " " +
         number_text(step.top_probabilities.front(), 3);
}

/// With that of the second run, if it has read the same token there.
std::string answers_after(const Frame& frame, std::size_t token) {
  const Trace& a = *frame.seen().trace;
  const Observation* const second = frame.figures.second().get();
  const Trace* const b = second ? second->trace.get() : nullptr;
  const bool is_same =
      b && token < std::min(b->tokens.size(), b->steps.size()) && b->tokens[token].id == a.tokens[token].id;
  return answer_of(a, token) + (is_same ? "  B " + answer_of(*b, token) : "");
}

double form_width(const Frame& frame) {
  return frame.look.canvas().text_width(answers_form, frame.px(tiny_size), FontFace::regular) + frame.px(8);
}

/// Room for every answer of the sequence, so that the chips keep their places when the selection changes.
double answer_width(const Frame& frame, const Trace& trace) {
  const FigureCanvas canvas = frame.look.canvas();
  const double size = frame.px(small_size), letter = canvas.text_width("0", size, FontFace::mono);
  double width = 0;
  for (std::size_t t = 0; t < trace.steps.size(); ++t) {
    const std::string text = answers_after(frame, t);
    if (static_cast<double>(text.size()) * letter > width)  // else it cannot be longer, whatever its letters
      width = std::max(width, canvas.text_width(text, size, FontFace::mono));
  }
  return std::max(frame.px(104), width + frame.px(14)) + form_width(frame);
}

void draw_answer(const Frame& frame, const std::string& text, const Rect& area) {
  FigureCanvas canvas = frame.look.canvas();
  const Theme& theme = *frame.look.theme;
  row_text(frame.look, canvas, area, answers_form, {tiny_size, FontFace::regular, theme.faint, Anchor::start});
  row_text(frame.look, canvas, {area.x + form_width(frame), area.y, area.width - form_width(frame), area.height}, text,
           {small_size, FontFace::mono, theme.text, Anchor::start});
}

/// The number of the last note on a token of the inspected sequence; 0 without one.
std::size_t note_of_token(const Observation& o, int token) {
  const std::string& label = o.trace->tokens[static_cast<std::size_t>(token)].label;
  std::size_t number = o.notes.size();
  for (; number > 0; --number) {
    const RunNote& note = o.notes[number - 1];
    if (note.token == token && (note.label.empty() || note.label == label)) break;
  }
  return number;
}

/// Marks the corner of a chip with a note, which the pointer reads; the right button changes it, or writes one.
void draw_token_note(Frame& frame, Canvas& canvas, int token, const Rect& chip, bool is_under) {
  const std::size_t number = note_of_token(frame.seen(), token);
  const double size = std::min(frame.px(7), 0.6 * chip.width);
  const Point corner[] = {{chip.right() - size, chip.y}, {chip.right(), chip.y}, {chip.right(), chip.y + size}};
  if (number > 0) canvas.polygon(corner, frame.look.theme->accent);
  if (number > 0 && is_under) hint_box(frame, chip, frame.seen().notes[number - 1].text);
  if (!is_under || !ImGui::IsMouseClicked(1)) return;
  const std::string& label = frame.seen().trace->tokens[static_cast<std::size_t>(token)].label;
  const std::string place =
      "token=" + std::to_string(token) + (label.find('"') == label.npos ? " label=\"" + label + '"' : "");
  frame.commands.send("palette", {{"text", typed_note(frame.seen().notes, number, place)}});
}

void draw_tokens(Frame& frame, const Rect& area) {
  const auto& trace = frame.seen().trace;
  FigureCanvas canvas = frame.look.canvas();
  const int selected = selected_token(frame.seen(), frame.state.selection);
  if (selected < 0) {
    row_text(frame.look, canvas, area,
             frame.seen().model.is_forecaster
                 ? "No tokens here: choose \"next window\" in the Forecast panel to see another part of the series."
                 : "Pages that show single tokens, such as Spectrum and Stepper, list the inspected sequence here.",
             {small_size, FontFace::regular, frame.look.theme->faint, Anchor::start});
    return;
  }
  const double answer = answer_width(frame, *trace);
  const int tokens = static_cast<int>(std::min(trace->tokens.size(), trace->steps.size()));
  const TokenRow row = token_row(frame, tokens, selected, area.width - answer, widest_chip(frame, *trace));
  const double pitch = row.width + row.gap;
  const Rect strip{area.x, area.y, row.count * pitch, area.height};
  const Press press = press_area("tokens", strip);
  const int under =
      press.hovered || press.held
          ? row.first + std::clamp(static_cast<int>((mouse_place().x - strip.x) / pitch), 0, row.count - 1)
          : -1;
  const int behind = tokens - row.first - row.count;
  for (int i = 0; i < row.count; ++i) {
    const int t = row.first + i;
    const Rect chip{strip.x + i * pitch, area.y, row.width, area.height};
    const bool hides_earlier = i == 0 && row.first > 0, hides_later = i == row.count - 1 && behind > 0;
    if (hides_earlier || hides_later) {
      const std::string text = hides_earlier ? "←" + std::to_string(row.first + 1) : std::to_string(behind + 1) + "→";
      row_text(frame.look, canvas, chip, text, {tiny_size, FontFace::mono, frame.look.theme->faint, Anchor::middle});
    } else {
      draw_token_chip(frame, canvas, trace->tokens[static_cast<std::size_t>(t)], chip, {t == selected, t == under});
      draw_token_note(frame, canvas, t, chip, t == under);
    }
  }
  if (press.held && under >= 0 && under != selected) frame.commands.send("token", {{"to", under}});
  if (press.started) frame.state.time.focus = TimeFocus::tokens;
  // If no panel follows the sequence, the answers stay those of an earlier step.
  if (frame.seen().trace->step != frame.seen().step && !has(frame.state.asked, Analysis::trace)) return;
  draw_answer(frame, answers_after(frame, static_cast<std::size_t>(selected)),
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

std::int64_t latest_of(const Observation& o) { return std::max(o.step, o.latest_step); }

/// One tick for each step, with its text if there is room until the next one; later ones are grey.
void draw_marks(const Frame& frame, Canvas& canvas, const TimeScale& scale) {
  const Theme& theme = *frame.look.theme;
  const std::vector<Mark> marks = marks_by_step(frame.seen());
  for (std::size_t i = 0; i < marks.size(); ++i) {
    const Color ink = marks[i].note > 0 ? theme.accent : marks[i].step > frame.seen().step ? theme.dim : theme.warning;
    const double x = scale.x(static_cast<double>(marks[i].step));
    canvas.fill_rect({x, scale.area.y, std::max(1.0, frame.px(1)), scale.area.height}, 0, ink);
    const double end = i + 1 < marks.size() ? scale.x(static_cast<double>(marks[i + 1].step)) : scale.area.right();
    const Rect text{x + frame.px(5), scale.area.y, end - x - frame.px(10), scale.area.height};
    if (text.width > frame.px(40))
      row_text(frame.look, canvas, text, marks[i].text, {tiny_size, FontFace::regular, ink, Anchor::start});
  }
}

void draw_partings(const Frame& frame, Canvas& canvas, const TimeScale& scale) {
  const Color ink = frame.look.theme->dim;
  const double top = scale.area.y, bottom = scale.area.bottom(), fork = frame.px(6);
  for (const RunCurves& run : frame.seen().runs) {
    if (run.parted < 0) continue;
    const double x = scale.x(static_cast<double>(run.parted));
    const Point stem[] = {{x, bottom}, {x, top - frame.px(2)}},
                arm[] = {{x, bottom - fork}, {x + fork, top - frame.px(2)}};
    for (const std::span<const Point> line : {std::span<const Point>(stem), std::span<const Point>(arm)})
      canvas.polyline(line, {ink, std::max(1.0, frame.px(1.5)), Dash::solid});
  }
}

/// Under the bar a triangle for each checkpoint that can be opened, a circle for one that was deleted.
void draw_states(const Frame& frame, Canvas& canvas, const TimeScale& scale) {
  const Observation& o = frame.seen();
  const double size = frame.px(4), base = scale.area.bottom() + frame.px(7);
  if (!o.folder) return;
  for (const std::int64_t step : o.folder->states) {
    const double x = scale.x(static_cast<double>(step));
    const Point corners[] = {{x - size, base}, {x + size, base}, {x, base - 1.6 * size}};
    canvas.polygon(corners, step == o.step ? frame.look.theme->accent : frame.look.theme->dim);
  }
  for (const std::int64_t step : o.folder->deleted)
    canvas.stroke_circle({scale.x(static_cast<double>(step)), base - size}, 0.8 * size,
                         {frame.look.theme->dim, std::max(1.0, frame.px(1)), Dash::solid});
}

/// An outlined bar with its letter where the second run is.
void draw_second(const Frame& frame, Canvas& canvas, const TimeScale& scale) {
  if (!frame.figures.second()) return;
  const Color ink = frame.look.theme->text;
  const Rect& area = scale.area;
  const double x = scale.x(static_cast<double>(frame.figures.second()->step)), half = frame.px(3);
  canvas.stroke_rect({x - half, area.y - frame.px(2), 2 * half, area.height + frame.px(4)}, frame.px(1),
                     {ink, std::max(1.0, frame.px(1.2)), Dash::solid});
  const bool is_left = x + frame.px(20) > area.right();
  row_text(frame.look, canvas, {is_left ? x - frame.px(20) : x + frame.px(6), area.y, frame.px(14), area.height}, "B",
           {tiny_size, FontFace::semibold, ink, is_left ? Anchor::end : Anchor::start});
}

/// Goes to the step under the pointer, but not more often than the engine can show it.
void scrub(Frame& frame, const Press& press, const TimeScale& scale) {
  PageState& state = frame.state;
  if (press.started) state.time.focus = TimeFocus::steps;
  if (!press.held && !press.released) return;
  const Observation& o = frame.seen();
  const std::int64_t first = std::min(o.oldest_step, o.step);
  const std::int64_t wanted = std::clamp(scale.step(mouse_place().x), first, latest_of(o));
  if (wanted != state.time.scrubbed_step && (press.released || frame.time - state.time.scrubbed_at >= scrub_interval)) {
    frame.commands.send("rewind", {{"step", wanted}});
    state.time.scrubbed_step = wanted;
    state.time.scrubbed_at = frame.time;
  } else if (wanted != state.time.scrubbed_step) {
    ask_frame(state, state.time.scrubbed_at + scrub_interval);
  }
  if (press.released) state.time.scrubbed_step = -1;
}

/// Slanted lines over an area that is not available now.
void hatch(const Frame& frame, Canvas& canvas, const Rect& area, Color color) {
  const double pitch = frame.px(7);
  for (double x = area.x + pitch; x < area.right() + area.height; x += pitch) {
    const double low = std::max(area.x, x - area.height), high = std::min(area.right(), x);
    const Point line[] = {{low, area.bottom() - (low - (x - area.height))}, {high, area.y + (x - high)}};
    canvas.polyline(line, {color, std::max(1.0, frame.px(1)), Dash::solid});
  }
}

/// The trained part, the part after the present step, and the part that cannot be restored.
void draw_ranges(const Frame& frame, Canvas& canvas, const TimeScale& scale) {
  const Observation& o = frame.seen();
  const Theme& theme = *frame.look.theme;
  const Rect& area = scale.area;
  const auto range = [&](std::int64_t from, std::int64_t to) {
    const double left = scale.x(static_cast<double>(from));
    return Rect{left, area.y, scale.x(static_cast<double>(to)) - left, area.height};
  };
  canvas.fill_rect(area, frame.px(4), theme.raised);
  canvas.fill_rect(range(0, o.step), frame.px(4), mixed(theme.raised, theme.accent, 0.24));
  if (o.latest_step > o.step) {
    const Rect ahead = range(o.step, o.latest_step);
    canvas.fill_rect(ahead, frame.px(4), mixed(theme.raised, theme.faint, 0.3));
    hatch(frame, canvas, ahead, faded(theme.faint, 0.3));
  }
  // Before the snapshot from which a run continues there are curves, but no states to restore.
  if (o.oldest_step > 0) hatch(frame, canvas, range(0, o.oldest_step), faded(theme.panel, 0.9));
}

/// "Rebuilding step 460 of 1,000 · 30 s left", at the end of the bar that is farther away.
void draw_rebuilding(const Frame& frame, Canvas& canvas, const TimeScale& scale) {
  const Observation& o = frame.seen();
  if (o.rebuilds_to < 0) return;
  const Rect& area = scale.area;
  const double now = scale.x(static_cast<double>(o.step)), aim = scale.x(static_cast<double>(o.rebuilds_to));
  canvas.fill_rect({aim, area.y, std::max(1.0, frame.px(2)), area.height}, 0, frame.look.theme->text);
  std::string text = "Rebuilding step " + grouped_number(o.step) + " of " + grouped_number(o.rebuilds_to);
  if (o.steps_per_second > 0)
    text += " · " +
            grouped_number(std::llround(std::ceil(static_cast<double>(o.rebuilds_to - o.step) / o.steps_per_second))) +
            " s left";
  row_text(frame.look, canvas, {area.x + frame.px(8), area.y, area.width - frame.px(16), area.height}, text,
           {small_size, FontFace::semibold, frame.look.theme->text,
            now > area.x + area.width / 2 ? Anchor::start : Anchor::end});
}

/// Events near the pointer: a change, a note, or the branch of another run.
std::string event_hint(const Frame& frame, const TimeScale& scale, double x) {
  const auto is_near = [&](std::int64_t step) {
    return std::abs(scale.x(static_cast<double>(step)) - x) <= frame.px(4);
  };
  for (const Mark& mark : marks_by_step(frame.seen())) {
    if (is_near(mark.step)) return "step " + grouped_number(mark.step) + ": " + mark.text;
  }
  for (const RunCurves& run : frame.seen().runs) {
    if (run.parted >= 0 && is_near(run.parted))
      return "step " + grouped_number(run.parted) + ": " + run.run + " branches off here";
  }
  return "";
}

/// "kept: step 120, 4cff072…": the stored state from which the engine restores a step.
std::string kept_hint(const Observation& o, std::int64_t step) {
  if (!o.kept) return "";
  const auto next = std::ranges::upper_bound(*o.kept, step, {}, &KeptState::step);
  if (next == o.kept->begin()) return "";
  const KeptState& state = *std::prev(next);
  return " · kept" + (state.step == step ? "" : " at step " + grouped_number(state.step)) +
         (state.checksum.empty() ? "" : ": " + state.checksum);
}

/// The event at the step under the pointer, else the step's numbers.
std::string step_hint(const Frame& frame, const TimeScale& scale, double x) {
  const Observation& o = frame.seen();
  const std::int64_t step = scale.step(x);
  const std::string event = event_hint(frame, scale, x);
  if (!event.empty()) return event;
  if (step < o.oldest_step)
    return "This snapshot starts at step " + grouped_number(o.oldest_step) + "; rerun the recipe to go further back.";
  std::string text = "step " + grouped_number(step);
  if (step > latest_of(o)) return text + ": not trained yet";
  const double loss = loss_at(o, step);
  if (std::isfinite(loss)) text += " · " + o.measures.loss + " " + number_text(loss, 3);
  text += kept_hint(o, step);
  return text + (step > o.step ? " · drag to go forward" : " · drag to rewind");
}

void draw_steps(Frame& frame, const Rect& area) {
  const Observation& o = frame.seen();
  const Theme& theme = *frame.look.theme;
  FigureCanvas canvas = frame.look.canvas();
  const Observation& b = frame.figures.second() ? *frame.figures.second() : o;
  const std::int64_t last = std::max({latest_of(o), o.final_step, latest_of(b), std::int64_t{1}});
  const TimeScale scale{area, static_cast<double>(last)};
  draw_ranges(frame, canvas, scale);
  draw_marks(frame, canvas, scale);
  draw_states(frame, canvas, scale);
  draw_partings(frame, canvas, scale);
  draw_second(frame, canvas, scale);
  const double now = scale.x(static_cast<double>(o.step));
  canvas.fill_rect({now - frame.px(1), area.y - frame.px(2), frame.px(2), area.height + frame.px(4)}, 0,
                   o.stopped_non_finite ? theme.failure : theme.accent);
  draw_rebuilding(frame, canvas, scale);
  const Press press = press_area("steps", area);
  scrub(frame, press, scale);
  if (press.hovered && ImGui::IsMouseClicked(1)) {
    std::size_t number = 0;
    for (const Mark& mark : marks_by_step(o)) {
      if (std::abs(scale.x(static_cast<double>(mark.step)) - mouse_place().x) <= frame.px(4)) number = mark.note;
    }
    const std::string place = "step=" + std::to_string(scale.step(mouse_place().x));
    frame.commands.send("palette", {{"text", typed_note(o.notes, number, place)}});
  }
  if (press.hovered || press.held) {
    const double x = std::clamp(mouse_place().x, area.x, area.right());
    canvas.fill_rect({x, area.y, std::max(1.0, frame.px(1)), area.height}, 0, theme.text);
    hint_box(frame, {x, area.y, 0, area.height}, step_hint(frame, scale, x));
  }
}

}  // namespace

void draw_time_bar(Frame& frame, const Rect& area) {
  ImGui::PushID("time");
  const Rect inside{area.x + frame.px(14), area.y + frame.px(11), area.width - frame.px(28),
                    area.height - frame.px(22)};
  // While presenting, the sentence without tokens has no room, so the bar is lower.
  if (inside.height > frame.px(46)) draw_tokens(frame, {inside.x, inside.y, inside.width, frame.px(26)});
  draw_steps(frame, {inside.x, inside.bottom() - frame.px(20), inside.width, frame.px(18)});
  ImGui::PopID();
}

}  // namespace afterglow
