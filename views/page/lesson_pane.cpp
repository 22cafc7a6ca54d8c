// The lesson next to the panels: its place, text, question and goals. While presenting it is the text of a slide, at
// the side of the picture or, in a narrow window, below it.
#include <algorithm>
#include <array>
#include <tuple>

#include "core/figure/axis.h"
#include "core/recipe/lesson_plan.h"
#include "views/page/lesson_text.h"
#include "views/page/page.h"
#include "views/panels/panel.h"
#include "views/widgets/widgets.h"

namespace afterglow {
namespace {

constexpr double narrowest = 280, widest = 640;  ///< layout units
constexpr std::array usual_sizes{17.0, 16.0, 15.0, 14.0, 13.0};
/// While presenting no text is smaller than the smallest one (presenting_scale); the first two are for text alone.
constexpr std::array hall_sizes{18.0, 15.5, 13.5, 13.0, 12.5, 12.0, 11.5, tiny_size};

const LessonStep& step_of(const PageState& state) { return state.lesson.lesson->steps[state.lesson.step]; }
const LessonStepPlan& plan_of(const LessonPane& pane) { return (*pane.plans)[pane.step]; }

/// Whether all commands of the step have been carried out.
bool is_over(const LessonPane& pane) { return pane.deed >= plan_of(pane).deeds.size(); }

/// Whether the step points at a panel. Without one its slide is text alone.
bool has_picture(const PageState& state) {
  const LessonLine* line = find_line(step_of(state).lines, LessonWord::highlight);
  return find_panel(state.maximised) || (line && line->text != "none");
}

/// A column of texts from the top down; measured first, then drawn.
class Column {
 public:
  Column(Frame& frame, Canvas& canvas, const Rect& area, double text_units, bool is_drawn)
      : frame_(&frame), canvas_(&canvas), area_(area), y_(area.y), units_(text_units), is_drawn_(is_drawn) {}

  double height() const { return y_ - area_.y; }
  /// Size of the text; while presenting never below the smallest one.
  double size(double times = 1) const {
    const double smallest = frame_->state.presentation.is_on ? tiny_size : 0;
    return frame_->px(std::max(smallest, units_ * times));
  }
  /// A length in units of the text size.
  double em(double times) const { return frame_->px(units_ * times); }
  void gap(double units) { y_ += frame_->px(units); }

  void text(const LessonParagraph& paragraph, double times, Color color, double indent = 0) {
    const Rect room{area_.x + indent, y_, area_.width - indent, 1e6};
    y_ += draw_lesson_text(*frame_, *canvas_, paragraph, room, size(times), color, is_drawn_);
  }

  /// A number large enough for a hall, as wide as the column at most.
  void large(const std::string& words, Color color) {
    const double wanted = frame_->px(46), width = canvas_->text_width(words, wanted, FontFace::semibold);
    const double size = wanted * std::min(1.0, area_.width / std::max(width, 1.0));
    if (is_drawn_) canvas_->text({area_.x, y_ + size}, words, {size, FontFace::semibold, color, Anchor::start, 0});
    y_ += 1.2 * size;
  }

  /// A choice in its box: filled if it is right, outlined if it is the vote; `tag` says so.
  bool choice(const char* id, const std::string& sign, std::string_view words, std::string_view tag, Color color,
              bool is_right, bool is_vote) {
    const Theme& theme = *frame_->look.theme;
    const double top = y_, indent = em(1.9), pad = em(0.3);
    const LessonParagraph paragraph =
        lesson_phrase(words, is_right || is_vote ? FontFace::semibold : FontFace::regular);
    const double tag_width = tag.empty() ? 0 : canvas_->text_width(tag, size(0.85), FontFace::semibold) + em(0.8);
    const Rect room{area_.x + indent, y_ + pad, area_.width - indent - tag_width, 1e6};
    const double height = draw_lesson_text(*frame_, *canvas_, paragraph, room, size(), color, false) + 2 * pad;
    y_ += height + em(0.2);
    if (!is_drawn_) return false;
    const Rect box{area_.x, top, area_.width, height};
    const Color ink = is_right ? (theme.is_dark ? mixed(theme.ground, theme.accent, 0.15) : theme.panel) : color;
    if (is_right) canvas_->fill_rect(box, em(0.3), theme.accent);
    if (is_vote && !is_right)
      canvas_->stroke_rect(box, em(0.3), {theme.dim, std::max(1.0, frame_->px(1.5)), Dash::solid});
    draw_lesson_text(*frame_, *canvas_, paragraph, room, size(), ink, true);
    const double line = room.y + 0.75 * size() + 0.355 * size();
    canvas_->text({area_.x + em(0.5), line}, sign, {size(), FontFace::semibold, ink, Anchor::start, 0});
    canvas_->text({box.right() - em(0.5), line}, tag, {size(0.85), FontFace::semibold, ink, Anchor::end, 0});
    return press_area(id, box).clicked;
  }

  void goal(std::string_view sentence, bool is_reached) {
    const Theme& theme = *frame_->look.theme;
    const double top = y_, indent = em(1.7), side = em(0.95);
    text(lesson_phrase(sentence, FontFace::regular), 1, is_reached ? theme.text : theme.dim, indent);
    if (!is_drawn_) return;
    const Rect box{area_.x + em(0.1), top + 0.75 * size() - side / 2, side, side};
    const double width = std::max(1.0, frame_->px(1.5));
    canvas_->stroke_rect(box, frame_->px(3), {is_reached ? theme.accent : theme.dim, width, Dash::solid});
    if (!is_reached) return;
    const Point tick[] = {{box.x + 0.2 * side, box.y + 0.52 * side},
                          {box.x + 0.43 * side, box.y + 0.76 * side},
                          {box.x + 0.82 * side, box.y + 0.24 * side}};
    canvas_->polyline(tick, {theme.accent, 1.4 * width, Dash::solid});
  }

 private:
  Frame* frame_;
  Canvas* canvas_;
  Rect area_;
  double y_, units_;
  bool is_drawn_;
};

enum class Asked { nothing, not_yet, now, answered, decided };
Asked asked(const LessonPane& pane) {
  if (!plan_of(pane).question) return Asked::nothing;
  if (pane.asks) return Asked::now;
  if (pane.answered == 0) return Asked::not_yet;
  return is_over(pane) ? Asked::decided : Asked::answered;
}

/// Whether the run has come to the moment that this line expects; true for a line without an expectation.
bool is_reached(const LessonPane& pane, const LessonLine& line) {
  const std::vector<LessonDeed>& deeds = plan_of(pane).deeds;
  const auto found = std::ranges::find_if(
      deeds, [&](const LessonDeed& deed) { return deed.line == &line && deed.kind == LessonDeed::Kind::expect; });
  return found == deeds.end() || static_cast<std::size_t>(found - deeds.begin()) < pane.deed;
}

/// What a step that is not over waits for.
std::string awaited(const Frame& frame) {
  const LessonStepPlan& plan = plan_of(frame.state.lesson);
  const LessonDeed& deed = plan.deeds[frame.state.lesson.deed];
  if (deed.kind == LessonDeed::Kind::expect) return "Measuring …";
  const std::int64_t step = std::max(deed.step, plan.last_step), now = frame.seen().step;
  return now >= step ? "Opening …" : "Training: step " + grouped_number(now) + " of " + grouped_number(step);
}

/// The text above the question, or the text after it, which would reveal the answer. Text after `expect` appears only
/// when the run has reached it and its numbers are measured.
std::vector<LessonParagraph> text_of(const Frame& frame, const LessonStep& step, bool is_behind_question) {
  const LessonPane& pane = frame.state.lesson;
  std::vector<LessonParagraph> text;
  bool is_behind = false;
  for (const LessonLine& line : step.lines) {
    is_behind = is_behind || line.word == LessonWord::ask;
    if (!is_reached(pane, line)) {
      if (is_behind == is_behind_question && !frame.state.presentation.is_on)  // below a slide it stands in its foot
        text.push_back(lesson_words(awaited(frame), FontFace::regular));
      break;
    }
    if (line.word != LessonWord::say || is_behind != is_behind_question) continue;
    std::ranges::move(lesson_paragraphs(frame, line), std::back_inserter(text));
  }
  return text;
}

void draw_text(const Frame& frame, Column& column, const std::vector<LessonParagraph>& text, double gap) {
  for (const LessonParagraph& paragraph : text) {
    column.text(paragraph, 1, frame.look.theme->text);
    column.gap(gap);
  }
}

/// "Correct: 2 (34). You chose 1."
std::string verdict_of(const LessonPane& pane, int answer) {
  const std::string chosen = pane.answered == no_vote ? "" : "You chose " + std::to_string(pane.answered) + ".";
  if (answer == 0) return chosen;
  const std::string& words = plan_of(pane).question->choices[static_cast<std::size_t>(answer) - 1];
  return "Correct: " + std::to_string(answer) + " (" + words + "). " +
         (answer == pane.answered ? "You chose it." : chosen);
}

std::string hint_of(const LessonPane& pane, std::size_t choices, Asked asked) {
  if (asked == Asked::not_yet) return "the question appears in a moment";
  if (asked == Asked::now)
    return std::string(choices == 2 ? "press 1 or 2" : "press 1, 2 or 3") + "; the run gives the answer";
  if (asked == Asked::answered) return "the run gives the answer …";
  return asked == Asked::decided ? verdict_of(pane, plan_of(pane).answer) : "";
}

/// The question, its choices and, when the run has the answer, the right one.
void draw_question(Frame& frame, Column& column) {
  const Theme& theme = *frame.look.theme;
  const LessonPane& pane = frame.state.lesson;
  if (!plan_of(pane).question) return;
  const LessonQuestion& question = *plan_of(pane).question;
  const bool is_decided = asked(pane) == Asked::decided;
  const int answer = is_decided ? plan_of(pane).answer : 0;
  column.gap(4);
  column.text(lesson_phrase(question.question, FontFace::semibold), 1, theme.text);
  column.gap(2);
  for (std::size_t i = 0; i < question.choices.size(); ++i) {
    const int number = static_cast<int>(i) + 1;
    const bool is_vote = pane.answered == number, is_right = answer == number;
    const Color color = is_vote || pane.asks ? theme.text : theme.dim;
    const std::string_view tag = is_right ? "correct" : is_vote ? "your vote" : "";
    constexpr std::array ids{"choice 1", "choice 2", "choice 3"};
    if (column.choice(ids[i], std::to_string(number), question.choices[i], tag, color, is_right, is_vote) && pane.asks)
      frame.commands.send("lesson", {{"answer", number}});
  }
  column.text(lesson_phrase(hint_of(pane, question.choices.size(), asked(pane)),
                            is_decided ? FontFace::semibold : FontFace::regular),
              is_decided ? 1 : 0.8, is_decided ? theme.text : theme.dim);
  column.gap(8);
}

/// "100 % → 61 %", and "100 % → ?" until the run has answered the question.
void draw_shown(const Frame& frame, Column& column) {
  const LessonPane& pane = frame.state.lesson;
  const Asked question = asked(pane);
  if (!plan_of(pane).shown || question == Asked::not_yet) return;
  const auto& [name, caption] = *plan_of(pane).shown;
  const bool is_open = question == Asked::now || question == Asked::answered;
  column.gap(6);
  column.large(pane.shown.words(name, is_open, question == Asked::decided), frame.look.theme->text);
  column.text(lesson_phrase(caption, FontFace::regular), 0.85, frame.look.theme->dim);
}

void draw_goals(const Frame& frame, Column& column) {
  const std::vector<LessonGoal>& goals = plan_of(frame.state.lesson).goals;
  const std::vector<bool>& reached = frame.state.lesson.reached;
  for (std::size_t i = 0; i < goals.size(); ++i) {
    column.goal(goals[i].sentence, i < reached.size() && reached[i]);
    column.gap(4);
  }
}

/// The whole pane, or the text of a slide; returns its height.
double draw_parts(Frame& frame, Canvas& canvas, const Rect& area, double units, bool is_drawn) {
  const Theme& theme = *frame.look.theme;
  const PageState& state = frame.state;
  const LessonStep& step = step_of(state);
  Column column(frame, canvas, area, units, is_drawn);
  const double gap = state.presentation.is_on ? 5 : 8;
  if (!state.presentation.is_on) {
    column.text(lesson_words(state.lesson.lesson->title + " · step " + std::to_string(state.lesson.step + 1) + " of " +
                                 std::to_string(state.lesson.lesson->steps.size()),
                             FontFace::regular),
                0.72, theme.dim);
    column.gap(6);
  }
  column.text(lesson_words(step.title, FontFace::semibold), state.presentation.is_on ? 1.6 : 1.25, theme.text);
  column.gap(state.presentation.is_on ? 6 : 10);
  const bool is_decided = asked(state.lesson) == Asked::decided;
  draw_text(frame, column, text_of(frame, step, false), gap);
  draw_question(frame, column);
  if (is_decided) draw_text(frame, column, text_of(frame, step, true), gap);
  // What there is to do may tell the answer, and under a lock it cannot be done.
  if (!state.presentation.is_locked && (is_decided || asked(state.lesson) == Asked::nothing)) draw_goals(frame, column);
  if (state.presentation.is_on) draw_shown(frame, column);
  if (!state.lesson.problem.empty())
    column.text(lesson_words(state.lesson.problem, FontFace::regular), 0.8, theme.failure);
  return column.height();
}

std::span<const double> sizes_of(const PageState& state) {
  if (!state.presentation.is_on) return usual_sizes;
  return has_picture(state) ? std::span(hall_sizes).subspan(2) : std::span<const double>(hall_sizes);
}

/// The largest size in which the text fits. A slide has the size that it will have at its end, after a wrong vote,
/// which has the most words, so that its words keep their places.
double fitting_size(Frame& frame, Canvas& canvas, const Rect& area) {
  LessonPane& pane = frame.state.lesson;
  const std::tuple now(pane.asks, pane.answered, pane.deed);
  if (frame.state.presentation.is_on)
    std::tie(pane.asks, pane.answered, pane.deed) =
        std::tuple(false, plan_of(pane).answer == 1 ? 2 : 1, plan_of(pane).deeds.size());
  const std::span<const double> sizes = sizes_of(frame.state);
  const auto fits = [&](double units) { return draw_parts(frame, canvas, area, units, false) <= area.height; };
  const auto found = std::ranges::find_if(sizes, fits);
  std::tie(pane.asks, pane.answered, pane.deed) = now;
  return found == sizes.end() ? sizes.back() : *found;
}

void draw_edge_grip(Frame& frame, const Rect& area) {
  const Rect grip{area.x - frame.px(4), area.y, frame.px(8), area.height};
  const Press press = press_area("lesson edge", grip);
  if (press.hovered || press.held) ImGui::SetMouseCursor(ImGuiMouseCursor_ResizeEW);
  if (press.held && !press.started) {
    const double moved = static_cast<double>(ImGui::GetIO().MouseDelta.x) / static_cast<double>(frame.look.scale);
    frame.state.lesson.width = std::clamp(frame.state.lesson.width - moved, narrowest, widest);
  }
  if (press.double_clicked) frame.state.lesson.width = LessonPane().width;
}

void draw_foot(Frame& frame, const Rect& area) {
  const PageState& state = frame.state;
  const bool is_first = state.lesson.step == 0, is_last = state.lesson.step + 1 == state.lesson.lesson->steps.size();
  double x = area.x;
  const auto press = [&](const char* id, std::string_view label, ButtonKind kind, std::string_view hint) {
    const ButtonResult pressed = button(frame, id, x, area, label, Icon::none, kind, hint);
    x += pressed.width + frame.px(6);
    return pressed.clicked;
  };
  if (press("lesson back", "←", is_first ? ButtonKind::dim : ButtonKind::normal, "Back  Page Up"))
    frame.commands.send("lesson", {{"by", -1}});
  if (press("lesson again", "Again", ButtonKind::normal,
            "Restarts this step from exactly the same state  Shift Page Up"))
    frame.commands.send("lesson", {{"again", true}});
  if (press("lesson on", "Next →", is_last ? ButtonKind::dim : ButtonKind::primary, "Next step  Page Down"))
    frame.commands.send("lesson", {{"by", 1}});
  x = area.right() - button_width(frame, "Close", Icon::none);
  if (press("lesson close", "Close", ButtonKind::quiet, "Ends the lesson; the run stays unchanged"))
    frame.commands.send("lesson", {{"close", true}});
}

/// In the middle of a slide's foot, behind what is written there already: past steps filled, the present one long,
/// later ones hollow.
void draw_step_dots(const Frame& frame, Canvas& canvas, const Rect& row, double taken) {
  const LessonPane& pane = frame.state.lesson;
  const Theme& theme = *frame.look.theme;
  const double size = frame.px(7), length = frame.px(17), space = frame.px(7);
  const std::size_t count = pane.lesson->steps.size();
  const double width = static_cast<double>(count - 1) * (size + space) + length;
  Rect dot{row.x + (row.width - width) / 2, row.y + (row.height - size) / 2, size, size};
  if (dot.x < row.x + taken + space) return;
  for (std::size_t i = 0; i < count; ++i, dot.x += dot.width + space) {
    dot.width = i == pane.step ? length : size;
    if (i <= pane.step) canvas.fill_rect(dot, size / 2, i == pane.step ? theme.accent : theme.dim);
    if (i > pane.step) canvas.stroke_rect(dot, size / 2, {theme.faint, std::max(1.0, frame.px(1)), Dash::solid});
  }
}

/// Below a slide: the lesson and its steps, and the key that goes on or what the step waits for; a click there goes on.
void draw_slide_foot(Frame& frame, const Rect& area) {
  FigureCanvas canvas = frame.look.canvas();
  const Theme& theme = *frame.look.theme;
  const LessonPane& pane = frame.state.lesson;
  const Rect row{area.x + frame.px(14), area.y, area.width - frame.px(28), area.height};
  const std::string key = pane.asks                                   ? "1, 2, 3: your vote; Page Down: the answer"
                          : !is_over(pane)                            ? awaited(frame)
                          : pane.step + 1 < pane.lesson->steps.size() ? "Page Down: next"
                                                                      : "Escape: end";
  const double left =
      row_text(frame.look, canvas, row, pane.lesson->title, {tiny_size, FontFace::semibold, theme.dim, Anchor::start});
  draw_step_dots(frame, canvas, row, left);
  const Rect rest{row.x + left, row.y, row.width - left, row.height};
  if (press_area("slide on", rest).clicked) frame.commands.send("lesson", {{"by", 1}});
  row_text(frame.look, canvas, rest, key,
           {tiny_size, FontFace::regular, is_over(pane) ? theme.dim : theme.accent, Anchor::end});
}

Rect inside_of(const Frame& frame, const Rect& area) {
  const double margin = frame.px(frame.state.presentation.is_on ? 14 : 18);
  const bool is_alone = frame.state.presentation.is_on && !has_picture(frame.state);
  const double side = is_alone ? std::max(margin, (area.width - 1.3 * area.height) / 2) : margin;
  return {area.x + side, area.y + margin, area.width - 2 * side, area.height - 2 * margin};
}

}  // namespace

LessonPlace lesson_place(const PageState& state, const Look& look, const Rect& all) {
  if (!state.lesson.lesson) return {};
  if (!state.presentation.is_on) {
    const double width = std::round(std::min(look.px(state.lesson.width), all.width / 2));
    return {{all.right() - width, all.y, width, all.height}, {}};
  }
  const double foot = state.presentation.hides_controls ? 0 : std::round(look.px(24)), height = all.height - foot;
  const double width = has_picture(state) ? std::round(std::max(look.px(300), all.width - 1.06 * height)) : all.width;
  return {{all.right() - width, all.y, width, height}, {all.x, all.y + height, all.width, foot}};
}

void draw_lesson(Frame& frame, const LessonPlace& place) {
  const Rect& area = place.text;
  const Theme& theme = *frame.look.theme;
  constexpr double check_interval = 0.5;  // seconds
  if (frame.state.lesson.written != 0) ask_frame(frame.state, frame.time + check_interval);
  ImGui::SetCursorScreenPos({static_cast<float>(area.x), static_cast<float>(area.y)});
  FigureCanvas ground = frame.look.canvas();
  const bool presents = frame.state.presentation.is_on;
  if (!presents) {
    ground.fill_rect(area, 0, theme.panel);
    const Point edge[] = {{area.x, area.y}, {area.x, area.bottom()}};
    ground.polyline(edge, {theme.hairline, std::max(1.0, frame.px(1)), Dash::solid});
    draw_edge_grip(frame, area);
  }
  const double foot = presents || frame.state.presentation.hides_controls ? 0 : frame.px(44);
  const Rect body{area.x, area.y, area.width, area.height - foot};
  if (foot > 0)
    draw_foot(frame, {area.x + frame.px(18), body.bottom() + frame.px(4), area.width - frame.px(36), frame.px(28)});
  if (place.foot.height > 0) draw_slide_foot(frame, place.foot);
  ImGui::SetCursorScreenPos({static_cast<float>(body.x + frame.px(4)), static_cast<float>(body.y)});
  ImGui::BeginChild("lesson", {static_cast<float>(body.width - frame.px(4)), static_cast<float>(body.height)}, false,
                    ImGuiWindowFlags_NoNav);
  FigureCanvas canvas = frame.look.canvas();
  Rect inside = inside_of(frame, body);
  const double units = fitting_size(frame, canvas, inside);
  if (presents && !has_picture(frame.state))
    inside.y += 0.35 * std::max(0.0, inside.height - draw_parts(frame, canvas, inside, units, false));
  inside.y -= static_cast<double>(ImGui::GetScrollY());
  const double height = draw_parts(frame, canvas, inside, units, true);
  frame.state.lesson.is_cut = height > inside.height;
  ImGui::SetCursorScreenPos({static_cast<float>(inside.x), static_cast<float>(inside.y + height)});
  ImGui::Dummy({1, 1});
  ImGui::EndChild();
}

}  // namespace afterglow
