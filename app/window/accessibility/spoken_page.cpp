// Summaries of the figures, and the lesson's text without its layout.
#include "app/window/accessibility/spoken_page.h"

#include "core/figure/summary.h"
#include "core/recipe/lesson_lines.h"

namespace afterglow {
namespace {

constexpr std::size_t max_figures = 4;  // of a panel

std::string plain_text(const LessonLine& line, const std::map<std::string, double>& dragged) {
  std::string text;
  for (const LessonPiece& piece : read_pieces(line)) {
    const auto now = dragged.find(piece.number.name);
    if (piece.kind == LessonPiece::Kind::paragraph_end)
      text += ' ';
    else if (piece.kind == LessonPiece::Kind::number)
      text += number_text(now != dragged.end() ? now->second : piece.number.value);
    else
      text += piece.text;
  }
  return text;
}

/// Words and formulas of a question, a choice or a goal.
std::string sentence_of(const std::string& text) {
  const std::string plain = plain_text({LessonWord::say, text, ""}, {});
  const bool is_ended = plain.ends_with('.') || plain.ends_with('?') || plain.ends_with('!');
  return is_ended ? plain : plain + ".";
}

std::string question_text(const LessonQuestion& question) {
  std::string text = sentence_of(question.question);
  for (std::size_t i = 0; i < question.choices.size(); ++i)
    text += " " + std::to_string(i + 1) + ": " + sentence_of(question.choices[i]);
  return text;
}

SpokenPanel spoken_lesson(const LessonPane& pane) {
  const Lesson& lesson = *pane.lesson;
  SpokenPanel panel{"lesson", "Lesson: " + lesson.title, ""};
  if (pane.step >= lesson.steps.size()) return panel;
  const LessonStep& step = lesson.steps[pane.step];
  panel.name += ", step " + std::to_string(pane.step + 1) + " of " + std::to_string(lesson.steps.size());
  std::string& text = panel.description = sentence_of(step.title);
  std::size_t goal = 0;
  for (const LessonLine& line : step.lines) {
    if (line.word == LessonWord::say) text += " " + plain_text(line, pane.values);
    if (line.word == LessonWord::ask) text += " " + question_text(read_question(line));
    if (line.word != LessonWord::goal) continue;
    const bool is_reached = goal < pane.reached.size() && pane.reached[goal];
    text += (is_reached ? " Goal reached: " : " Goal: ") + sentence_of(read_goal(line).sentence);
    ++goal;
  }
  return panel;
}

std::string joined_summaries(const std::vector<Figure>& figures, int chosen) {
  if (chosen >= 0 && static_cast<std::size_t>(chosen) < figures.size())
    return summary_of(figures[static_cast<std::size_t>(chosen)]);
  std::string text;
  for (std::size_t i = 0; i < std::min(figures.size(), max_figures); ++i)
    text += (i > 0 ? " " : "") + summary_of(figures[i]);
  return text;
}

}  // namespace

std::vector<SpokenPanel> spoken_panels(const PageState& page, const std::shared_ptr<const Observation>& observation,
                                       FigureCache& figures) {
  std::vector<SpokenPanel> spoken;
  if (page.lesson.lesson) spoken.push_back(spoken_lesson(page.lesson));
  for (const ShownPanel& shown : page.drawn.panels) {
    const PlotKind* kind = find_plot_kind(shown.panel);
    if (!kind) continue;
    const auto chosen = page.shown_figure.find(shown.panel);
    std::string text = joined_summaries(figures.figures(*kind, observation, page.selection),
                                        chosen == page.shown_figure.end() ? -1 : chosen->second);
    if (text.empty()) text = kind->subtitle(*observation, page.selection);
    spoken.push_back({shown.panel, std::string(kind->title), std::move(text)});
  }
  return spoken;
}

}  // namespace afterglow
