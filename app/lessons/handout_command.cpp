// `afterglow handout`: a lesson on paper or as a web page: text, formulas, and the figures at the end of each step.
// Answers are printed at the end, so that the handout can be given out before.
#include <algorithm>
#include <cmath>

#include "app/cli/interruption.h"
#include "app/cli/start.h"
#include "app/lessons/lesson_options.h"
#include "app/lessons/lesson_runner.h"
#include "app/window/window.h"
#include "core/figure/axis.h"
#include "core/figure/files/page.h"
#include "core/figure/files/xml_text.h"
#include "core/figure/math/math_text.h"
#include "core/figure/math/text_flow.h"
#include "core/figure/readout.h"
#include "core/io/json.h"
#include "core/io/number_text.h"
#include "core/recipe/lesson_lines.h"
#include "views/plots/plot_kinds.h"
#include "views/plots/report_page.h"

namespace afterglow {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t max_figures = 3;   // of a panel, on a step's page
constexpr std::int64_t max_moments = 7;  // of a step that trains, on a web page

struct PrintedStep {
  const LessonStep* step = nullptr;
  const LessonStepPlan* plan = nullptr;
  std::string number{};  ///< of its `show` line: "100 % → 61 %"; empty: none
  std::vector<Figure> figures{};
  std::int64_t at = 0;                                                  ///< their training step
  std::vector<std::pair<std::int64_t, std::vector<Figure>>> earlier{};  ///< those of steps before it

  /// The lines of the step with its question and goals, without those that reveal the answer; or only the latter.
  std::vector<const LessonLine*> lines(bool is_answer) const {
    std::vector<const LessonLine*> found;
    bool is_behind = false;
    for (const LessonLine& line : step->lines) {
      const bool is_told = line.word == LessonWord::say || line.word == LessonWord::goal;
      if ((is_told && is_behind) == is_answer && line.word != LessonWord::answer) found.push_back(&line);
      is_behind = is_behind || line.word == LessonWord::ask;
    }
    return found;
  }
  /// Figures and the large number; the question is answered at the end of the step.
  bool shows_end(bool is_answer) const { return is_answer == asks(); }
  bool asks() const { return plan->question.has_value(); }
  /// "Correct answer: 2 (34)."; empty if the lesson does not say.
  std::string answer() const {
    if (plan->answer == 0 || !asks()) return "";
    const std::string& words = plan->question->choices[static_cast<std::size_t>(plan->answer) - 1];
    return concat("Correct answer: ", plan->answer, " (", words, ").");
  }
};

constexpr const char* answers_title = "Answers";
bool has_questions(const std::vector<PrintedStep>& steps) { return std::ranges::any_of(steps, &PrintedStep::asks); }

/// Gives the figures the axes and the curves that the step's commands have set in the window.
void set_view(std::vector<Figure>& figures, const LessonStepPlan& plan) {
  for (const LessonDeed& deed : plan.deeds) {
    const std::string& name = deed.command.name;
    if (name != "axis_scale" && name != "hide") continue;
    const json& value = deed.command.value;
    for (Figure& figure : figures) {
      if (value.value("plot", "") != figure.id) continue;
      if (name == "hide") {
        const std::string hidden = value.value("series", "");
        std::erase_if(figure.series, [&](const Series& one) { return stem_of(series_name(one)) == hidden; });
        continue;
      }
      const std::string scale = value.value("scale", "linear");
      Axis& axis = value.value("axis", "y") == "x" ? figure.x : figure.y;
      axis.scale = scale == "log" ? Scale::log : scale == "symlog" ? Scale::symlog : Scale::linear;
    }
  }
}

/// Whether a figure only says that there is nothing to show yet.
bool is_empty(const Figure& figure) {
  return std::ranges::all_of(numbers_of(figure), [](const NamedNumber& one) { return one.value.number == 0; });
}

/// The figures of a step's panels as they are now.
std::vector<Figure> present_figures(LessonRunner& runner, std::size_t step) {
  std::vector<Figure> found;
  for (const LessonFocus& focus : runner.panels_of(step)) {
    const PlotKind& kind = *find_plot_kind(focus.panel);
    CurveStore curves;
    std::vector<Figure> figures =
        prepared_figures(kind, runner.observe(kind.analyses & all_analyses), runner.selection(), curves);
    set_view(figures, runner.plan(step));
    if (focus.figure > 0 && focus.figure <= std::ssize(figures))
      figures = {figures[static_cast<std::size_t>(focus.figure) - 1]};
    std::erase_if(figures, is_empty);
    figures.resize(std::min(figures.size(), max_figures));
    std::ranges::move(figures, std::back_inserter(found));
  }
  return found;
}

std::vector<PrintedStep> printed_steps(LessonRunner& runner, bool is_alive, Output& output) {
  std::vector<PrintedStep> printed;
  for (std::size_t i = 0; i < runner.steps(); ++i) {
    output.progress(runner.lesson().name, static_cast<double>(i) / static_cast<double>(runner.steps()),
                    [&] { return "step " + std::to_string(i + 1); });
    const LessonStepResult done = runner.run_step(i);
    const LargeNumber& shown = done.shown;
    PrintedStep one{&runner.lesson().steps[i], &runner.plan(i), "", present_figures(runner, i), done.at};
    if (shown.now) one.number = shown.words(one.plan->shown->name, false, one.asks());
    const bool moves = is_alive && find_line(one.step->lines, LessonWord::run) && !one.figures.empty();
    for (const std::int64_t at : spread_steps(moves ? runner.observe(0).oldest_step : done.at, done.at, max_moments)) {
      if (at == done.at) break;
      runner.go_to(at);
      one.earlier.emplace_back(at, present_figures(runner, i));
    }
    printed.push_back(std::move(one));
  }
  output.end_progress();
  return printed;
}

std::vector<std::vector<FlowToken>> paragraphs_of(const LessonLine& line) {
  std::vector<std::vector<FlowToken>> paragraphs(1);
  bool follows_space = false;
  for (const LessonPiece& piece : read_pieces(line)) {
    std::vector<FlowToken>& now = paragraphs.back();
    const bool is_word = piece.kind == LessonPiece::Kind::words || piece.kind == LessonPiece::Kind::emphasis;
    if (piece.kind == LessonPiece::Kind::paragraph_end) paragraphs.emplace_back();
    if (is_word)
      add_words(piece.text, piece.kind == LessonPiece::Kind::words ? FontFace::regular : FontFace::semibold,
                follows_space, now);
    if (piece.kind == LessonPiece::Kind::formula) now.push_back({piece.text, FontFace::regular, true, follows_space});
    if (piece.kind == LessonPiece::Kind::number)
      now.push_back({number_text(piece.number.value), FontFace::semibold, true, follows_space});
    follows_space = piece.kind == LessonPiece::Kind::words && piece.text.ends_with(' ');
  }
  std::erase_if(paragraphs, [](const auto& tokens) { return tokens.empty(); });
  return paragraphs;
}

std::vector<FlowToken> tokens_of(std::string_view text, FontFace face = FontFace::regular) {
  std::vector<FlowToken> tokens;
  add_text(text, face, tokens);
  return tokens;
}

// On paper.

/// Fills A4 pages from the top down.
class Paper {
 public:
  static constexpr PageSize page{.width_mm = 210, .height_mm = 297, .text_pt = 8, .shows_title = true};

  Paper(Canvas& canvas, const std::function<void()>& next_page) : canvas_(&canvas), next_page_(next_page) {}

  void text(const std::vector<FlowToken>& tokens, double size, double indent = 0) {
    const TextFlow flow = flow_text(tokens, width() - indent, size, *canvas_);
    need(flow.height);
    for (const PlacedToken& placed : flow.tokens)
      draw_token(*canvas_, tokens[placed.token], {margin + indent + placed.place.x, y_ + placed.place.y}, flow.size,
                 ink());
    y_ += flow.height;
  }
  void words(std::string_view text_, double size, FontFace face = FontFace::regular, double indent = 0) {
    std::vector<FlowToken> tokens;
    add_words(text_, face, false, tokens);
    text(tokens, size, indent);
  }
  /// An empty box for a tick, with a sentence.
  void goal(std::string_view sentence) {
    need(2 * body);
    canvas_->stroke_rect({margin + 1, y_ + 0.25 * body, 0.9 * body, 0.9 * body}, 1.5, {ink(), 0.8, Dash::solid});
    text(tokens_of(sentence), body, 1.7 * body);
  }
  /// Planes are square, two in a row. The last row of a page may be a little lower.
  void figures(std::span<const Figure> all) {
    const FigureView view{.show_title = true, .text_size = page.text_pt};
    while (!all.empty()) {
      const bool is_square = all[0].equal_aspect;
      const std::size_t count = is_square && all.size() > 1 && all[1].equal_aspect ? 2 : 1;
      const double column = is_square ? 0.5 * width() : width(), wanted = (is_square ? 0.54 : 0.62) * width();
      const double left = page.height_pt() - margin - body - y_;
      const double height = left < 0.75 * wanted ? wanted : std::min(left, wanted);
      need(height + body);
      for (std::size_t i = 0; i < count; ++i)
        render_figure(all[i], light_theme(), view, {margin + static_cast<double>(i) * column, y_, column, height},
                      *canvas_);
      y_ += height + body;
      all = all.subspan(count);
    }
  }
  void gap(double height) { y_ += height; }
  /// Height that must fit on the same page.
  void need(double height) {
    if (y_ + height <= page.height_pt() - margin) return;
    next_page_();
    y_ = margin;
  }

  static constexpr double body = 10.5, head = 14, title = 20;

 private:
  static constexpr double margin = 56;
  static double width() { return page.width_pt() - 2 * margin; }
  static Color ink() { return light_theme().text; }

  Canvas* canvas_;
  const std::function<void()>& next_page_;
  double y_ = margin;
};

void print_step(Paper& paper, const PrintedStep& printed, std::size_t number, bool is_answer) {
  paper.need((printed.asks() ? 15 : 8) * Paper::body);
  paper.words(std::to_string(number) + "  " + printed.step->title, Paper::head, FontFace::semibold);
  if (is_answer && !printed.answer().empty()) paper.text(tokens_of(printed.answer(), FontFace::semibold), Paper::body);
  for (const LessonLine* line : printed.lines(is_answer)) {
    if (line->word == LessonWord::say) {
      for (const auto& paragraph : paragraphs_of(*line)) paper.text(paragraph, Paper::body);
      paper.gap(0.4 * Paper::body);
    }
    if (line->word == LessonWord::ask) {
      const LessonQuestion& question = *printed.plan->question;
      paper.need(1.7 * static_cast<double>(question.choices.size() + 2) * Paper::body);  // no choice on another page
      paper.text(tokens_of(question.question, FontFace::semibold), Paper::body);
      for (std::size_t i = 0; i < question.choices.size(); ++i)
        paper.text(tokens_of(concat(i + 1, ")  ", question.choices[i])), Paper::body, Paper::body);
    }
    if (line->word == LessonWord::goal) paper.goal(read_goal(*line).sentence);
  }
  if (printed.shows_end(is_answer)) {
    if (!printed.number.empty()) {
      paper.need(4 * Paper::body);
      paper.words(printed.number, Paper::title, FontFace::semibold);
      paper.text(tokens_of(printed.plan->shown->caption), Paper::body);
      paper.gap(0.4 * Paper::body);
    }
    paper.figures(printed.figures);
  }
  paper.gap(Paper::body);
}

std::string as_pdf(const Lesson& lesson, const std::vector<PrintedStep>& steps) {
  return pdf_document(Paper::page, lesson.title, [&](Canvas& canvas, const std::function<void()>& next_page) {
    Paper paper(canvas, next_page);
    paper.words(lesson.title, Paper::title, FontFace::semibold);
    if (const LessonLine* about = find_line(lesson.head, LessonWord::about)) paper.words(about->text, Paper::body);
    paper.gap(Paper::body);
    for (std::size_t i = 0; i < steps.size(); ++i) print_step(paper, steps[i], i + 1, false);
    if (!has_questions(steps)) return;
    paper.need(Paper::page.height_pt());
    paper.words(answers_title, Paper::title, FontFace::semibold);
    paper.gap(Paper::body);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (steps[i].asks()) print_step(paper, steps[i], i + 1, true);
    }
  });
}

// As a page of a browser.

/// A formula as a small picture of text on the line's baseline.
std::string formula_html(const std::string& markup) {
  constexpr double size = 100, room = 10;  // in the picture's units
  const MathText set = set_math(markup, size, FontFace::regular, Canvas());
  const double width = set.width + 2 * room, height = set.ascent + set.descent + 2 * room;
  const auto em = [&](double units) { return shortest(std::round(1e4 * units / size) / 1e4) + "em"; };
  std::string html = "<svg role=\"img\" aria-label=\"" + xml_escaped(markup) + "\" viewBox=\"0 0 " + shortest(width) +
                     " " + shortest(height) + "\" style=\"width:" + em(width) + ";height:" + em(height) +
                     ";vertical-align:-" + em(set.descent + room) + "\">";
  const double baseline = room + set.ascent;
  for (const TextRun& run : set.runs)
    html += "<text x=\"" + shortest(room + run.x) + "\" y=\"" + shortest(baseline - run.rise) + "\" font-size=\"" +
            shortest(run.size) + "\" textLength=\"" + shortest(std::max(1.0, run.width)) + "\">" +
            xml_escaped(run.text) + "</text>";
  for (const TextRule& rule : set.rules)
    html += "<rect x=\"" + shortest(room + rule.x) + "\" y=\"" + shortest(baseline - rule.rise - rule.thickness / 2) +
            "\" width=\"" + shortest(rule.width) + "\" height=\"" + shortest(rule.thickness) + "\"/>";
  return html + "</svg>";
}

/// Joins emphasised words that follow one another.
std::string tokens_html(const std::vector<FlowToken>& tokens) {
  std::string html;
  bool is_open = false;
  for (const FlowToken& token : tokens) {
    const bool is_emphasised = token.face == FontFace::semibold;
    if (is_open && !is_emphasised) html += "</em>";
    if (token.follows_space) html += ' ';
    if (is_emphasised && !is_open) html += "<em>";
    html += token.is_math ? formula_html(token.text) : xml_escaped(token.text);
    is_open = is_emphasised;
  }
  return is_open ? html + "</em>" : html;
}

std::string paragraph_html(const std::vector<FlowToken>& tokens) {
  const bool is_display = tokens.size() == 1 && tokens.front().is_math;
  return (is_display ? "<p class=\"formula\">" : "<p>") + tokens_html(tokens) + "</p>\n";
}

/// A section of the page; its figures are added to `figures`, for the script.
std::string step_html(const PrintedStep& printed, std::size_t number, bool is_answer, Json& figures) {
  const std::string place = "data-step=\"" + std::to_string(number) + "\"";
  std::string html = concat("<section class=\"", is_answer ? "answer" : "step", "\" ", place, ">\n<h2>", number,
                            "&#160; ", xml_escaped(printed.step->title), "</h2>\n");
  if (is_answer && !printed.answer().empty())
    html += "<p>" + tokens_html(tokens_of(printed.answer(), FontFace::semibold)) + "</p>\n";
  for (const LessonLine* line : printed.lines(is_answer)) {
    if (line->word == LessonWord::say) {
      for (const auto& paragraph : paragraphs_of(*line)) html += paragraph_html(paragraph);
    }
    if (line->word == LessonWord::ask) {
      const LessonQuestion& question = *printed.plan->question;
      html += "<p>" + tokens_html(tokens_of(question.question, FontFace::semibold)) + "</p>\n<ol class=\"choices\" " +
              place + " data-correct=\"" + std::to_string(printed.plan->answer) + "\">\n";
      for (const std::string& choice : question.choices) html += "<li>" + tokens_html(tokens_of(choice)) + "</li>\n";
      html += "</ol>\n";
    }
    if (line->word == LessonWord::goal)
      html += "<p>&#9744;&#160; " + tokens_html(tokens_of(read_goal(*line).sentence)) + "</p>\n";
  }
  const bool shows_end = printed.shows_end(is_answer);
  if (shows_end && !printed.number.empty())
    html += "<div class=\"numbers\"><div><b>" + printed.number + "</b><small>" +
            tokens_html(tokens_of(printed.plan->shown->caption)) + "</small></div></div>\n";
  html += "<div class=\"figures\">\n";
  for (const Figure& figure : printed.figures) {
    if (!shows_end) break;
    Json states = Json::array();
    for (const auto& [at, drawn] : printed.earlier) {
      const auto same = std::ranges::find(drawn, figure.id, &Figure::id);
      if (same == drawn.end()) continue;
      states.push_back(living_figure(*same));
      states.back()["step"] = at;
    }
    states.push_back(living_figure(figure));
    states.back()["step"] = printed.at;
    html += "<figure><div class=\"picture\">" + states.back()["svg"].get<std::string>() + "</div><figcaption>" +
            xml_escaped(figure.heading) + "</figcaption></figure>\n";
    figures.push_back(std::move(states));
  }
  return html + "</div>\n</section>\n";
}

std::string as_html(const Lesson& lesson, const std::vector<PrintedStep>& steps) {
  const LessonLine* about = find_line(lesson.head, LessonWord::about);
  std::map<std::string, std::string> parts{{"title", xml_escaped(lesson.title)},
                                           {"lead", about ? xml_escaped(about->text) : ""},
                                           {"last", std::to_string(steps.size())}};
  std::string& html = parts["sections"];
  Json data = {{"steps", Json::array()}, {"figures", Json::array()}};
  for (std::size_t i = 0; i < steps.size(); ++i) {
    data["steps"].push_back(i + 1);
    html += step_html(steps[i], i + 1, false, data["figures"]);
  }
  if (has_questions(steps)) html += std::string("<h1 class=\"answers\">") + answers_title + "</h1>\n";
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].asks()) html += step_html(steps[i], i + 1, true, data["figures"]);
  }
  return living_page("lesson", std::move(parts), data);
}

}  // namespace

bool is_lesson(const std::string& word) {
  return std::ranges::any_of(shipped_lessons(), [&](const ShippedLesson& one) { return one.name == word; });
}

json handout(const HandoutOptions& options, const CommonOptions& common, Output& output) {
  const Interruption noticed;
  if (options.pdf.empty() && options.html.empty())
    throw UsageError("give a file for the handout: --pdf FILE or --html FILE");
  for (const std::filesystem::path& file : {options.pdf, options.html}) {
    if (!file.empty()) require_writable(file);
  }
  if (!options.pdf.empty() && !has_page_writer()) pdf_document(Paper::page, "", {});  // reports what is missing
  Lesson lesson = open_lesson(options.lesson);
  require_known_panels(lesson, workspace_names());
  LessonRunner runner(std::move(lesson), session_options(common),
                      [] { Interruption::check("before the handout was written"); });
  const std::vector<PrintedStep> steps = printed_steps(runner, !options.html.empty(), output);
  json files = json::array();
  const auto write = [&](const std::filesystem::path& path, const std::string& bytes) {
    files.push_back(output.wrote(write_file_atomically(path, bytes, existing_files(common))));
  };
  if (!options.html.empty()) write(options.html, as_html(runner.lesson(), steps));
  if (!options.pdf.empty()) write(options.pdf, as_pdf(runner.lesson(), steps));
  return {{"lesson", options.lesson}, {"files", files}};
}

}  // namespace afterglow
