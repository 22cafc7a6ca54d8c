// Notes at the top, the next step below, the time in the upper right corner.
#include "views/page/lesson_notes.h"

#include <algorithm>
#include <cmath>

#include "core/figure/math/text_flow.h"
#include "core/recipe/lesson_plan.h"

namespace afterglow {
namespace {

/// "12:34", "1:02:03".
std::string time_text(double seconds) {
  const auto all = static_cast<long long>(std::max(0.0, std::floor(seconds)));
  const auto two = [](long long number) { return (number < 10 ? "0" : "") + std::to_string(number); };
  const std::string minutes = two(all / 60 % 60) + ":" + two(all % 60);
  return all < 3600 ? minutes : std::to_string(all / 3600) + ":" + minutes;
}

std::vector<std::string> paragraphs_of(const LessonStep& step) {
  std::vector<std::string> paragraphs;
  for (const LessonLine& line : step.lines) {
    if (line.word != LessonWord::notes) continue;
    for (std::size_t begin = 0; begin <= line.text.size();) {
      const std::size_t end = std::min(line.text.find('\n', begin), line.text.size());
      paragraphs.push_back(line.text.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return paragraphs;
}

std::string answer_of(const LessonStepPlan& plan) {
  if (!plan.question || plan.answer == 0) return "";
  return std::to_string(plan.answer) + " · " + plan.question->choices[static_cast<std::size_t>(plan.answer) - 1];
}

/// Draws a text from the top of the area, or only measures it; returns its height.
double flow(const Look& look, Canvas& canvas, std::string_view text, FontFace face, const Rect& area, double units,
            Color color, bool is_drawn) {
  std::vector<FlowToken> tokens;
  add_text(text, face, tokens);
  const TextFlow set = flow_text(tokens, area.width, look.px(units), canvas);
  for (const PlacedToken& placed : set.tokens) {
    if (is_drawn)
      draw_token(canvas, tokens[placed.token], {area.x + placed.place.x, area.y + placed.place.y}, set.size, color);
  }
  return set.height;
}

double draw_body(const Look& look, Canvas& canvas, const LessonNotes& notes, const Rect& area, double units,
                 bool is_drawn) {
  const Theme& theme = *look.theme;
  double y = area.y;
  const auto line = [&](std::string_view text, FontFace face, Color color) {
    y += flow(look, canvas, text, face, {area.x, y, area.width, 1e6}, units, color, is_drawn) + look.px(0.4 * units);
  };
  for (const std::string& paragraph : notes.notes) line(paragraph, FontFace::regular, theme.text);
  if (!notes.answer.empty()) line("Answer: " + notes.answer, FontFace::semibold, theme.accent);
  return y - area.y;
}

}  // namespace

LessonNotes lesson_notes(const PageState& state, double now, const std::string& clock) {
  LessonNotes notes;
  notes.clock = clock;
  const LessonPane& pane = state.lesson;
  if (!pane.lesson) {
    notes.place = "No lesson is open";
    notes.notes = {"Ctrl O in the other window lists the lessons."};
    return notes;
  }
  const std::vector<LessonStep>& steps = pane.lesson->steps;
  notes.elapsed = time_text(now - pane.began.value_or(now));
  notes.place = pane.lesson->title + " · step " + std::to_string(pane.step + 1) + " of " + std::to_string(steps.size());
  notes.title = steps[pane.step].title;
  notes.notes = paragraphs_of(steps[pane.step]);
  notes.answer = answer_of((*pane.plans)[pane.step]);
  if (pane.step + 1 < steps.size()) notes.next = steps[pane.step + 1].title;
  return notes;
}

void draw_lesson_notes(const Look& look, Canvas& canvas, const LessonNotes& notes, const Rect& area) {
  const Theme& theme = *look.theme;
  const double margin = look.px(20), head = 26, small = 13;
  const Rect inside{area.x + margin, area.y + margin, area.width - 2 * margin, area.height - 2 * margin};
  canvas.fill_rect(area, 0, theme.panel);

  // The time keeps its place, whatever is drawn next to it.
  const double clocks = look.px(130), middle = look.px(head);
  canvas.text({inside.right(), inside.y + middle}, notes.elapsed.empty() ? notes.clock : notes.elapsed,
              {look.px(head), FontFace::mono, theme.accent, Anchor::end, 0});
  if (!notes.elapsed.empty())
    canvas.text({inside.right(), inside.y + middle + look.px(22)}, notes.clock,
                {look.px(small), FontFace::mono, theme.dim, Anchor::end, 0});
  const Rect left{inside.x, inside.y, std::max(1.0, inside.width - clocks), 1e6};
  double y = inside.y + flow(look, canvas, notes.place, FontFace::regular, left, small, theme.dim, true);
  y += flow(look, canvas, notes.title, FontFace::semibold, {left.x, y, left.width, 1e6}, 20, theme.text, true);
  y = std::max(y, inside.y + look.px(52)) + look.px(8);

  const double foot = look.px(64), bottom = inside.bottom() - foot;
  const Rect body{inside.x, y, inside.width, std::max(1.0, bottom - y)};
  double units = 24;
  while (units > small && draw_body(look, canvas, notes, body, units, false) > body.height) units -= 1;
  canvas.push_clip(body);
  draw_body(look, canvas, notes, body, units, true);
  canvas.pop_clip();

  const Point line[] = {{inside.x, bottom + look.px(8)}, {inside.right(), bottom + look.px(8)}};
  canvas.polyline(line, {theme.hairline, std::max(1.0, look.px(1)), Dash::solid});
  const std::string next = notes.next.empty() ? "This is the last step." : "Next: " + notes.next;
  flow(look, canvas, next, FontFace::semibold, {inside.x, bottom + look.px(12), inside.width, 1e6}, 16, theme.text,
       true);
  flow(look, canvas, "Page Down  next step · Page Up  step before · Shift Page Up  restart this step · Esc  close",
       FontFace::regular, {inside.x, bottom + look.px(40), inside.width, 1e6}, small, theme.dim, true);
}

}  // namespace afterglow
