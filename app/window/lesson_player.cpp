// Runs the plan of a step, and waits where it has to.
#include "app/window/lesson_player.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include "app/lessons/lesson_runner.h"
#include "app/window/commands/window_commands.h"
#include "core/io/error.h"
#include "core/io/named.h"
#include "views/page/page.h"
#include "views/plots/plot_numbers.h"

namespace afterglow {
namespace {

struct OpenLesson : Immovable {  // the plans point into the lesson
  explicit OpenLesson(Lesson read) : lesson(std::move(read)), plans(plan_lesson(lesson)) {}
  Lesson lesson;
  std::vector<LessonStepPlan> plans;
};

std::shared_ptr<const OpenLesson> read(const std::string& name_or_path) {
  Lesson lesson = open_lesson(name_or_path);
  require_known_panels(lesson, names_of(workspaces(), &Workspace::id));
  return std::make_shared<const OpenLesson>(std::move(lesson));
}

/// Time of the file's last change; 0 for a lesson without a file.
std::int64_t written_at(const std::string& source) {
  std::error_code none;
  const auto time = std::filesystem::last_write_time(source, none);
  return none ? 0 : static_cast<std::int64_t>(time.time_since_epoch().count());
}

void show(LessonPane& pane, const std::shared_ptr<const OpenLesson>& opened) {
  pane.lesson = {opened, &opened->lesson};
  pane.plans = {opened, &opened->plans};
  pane.problem.clear();
}

const LessonStepPlan& plan_of(const LessonPane& pane) { return (*pane.plans)[pane.step]; }

template <class Visit>
void each_side(const std::vector<LessonGoal>& goals, const Visit& visit) {
  for (const LessonGoal& goal : goals) {
    for (const Comparison& comparison : goal.condition.comparisons) {
      visit(comparison.left);
      visit(comparison.right);
    }
  }
}

/// Whether the results of all these belong to the present moment.
bool are_current(const Observation& now, AnalysisSet needed) { return (now.current & needed) == needed; }

/// Whether what the number needs does.
bool is_current(const Observation& now, const std::string& name) { return are_current(now, analyses_of_number(name)); }

/// Those of the numbers that an expectation compares; none of another deed.
AnalysisSet analyses_of(const LessonDeed& deed) {
  AnalysisSet analyses = 0;
  if (deed.kind == LessonDeed::Kind::expect)
    each_side({{read_expectation(*deed.line), ""}},
              [&](const ConditionSide& side) { analyses |= analyses_of_number(side.name); });
  return analyses;
}

/// The numbers at the step's start that goals compare with; false while they are being measured.
bool keep_start(PageState& page, const Observation& now) {
  LessonPane& pane = page.lesson;
  bool is_whole = true;
  CurveStore curves;
  each_side(plan_of(pane).goals, [&](const ConditionSide& side) {
    if (side.at != "start" || pane.at_start.contains(side.name)) return;
    if (!is_current(now, side.name)) {
      is_whole = false;
    } else if (const auto found = find_number(side.name, now, page.selection, curves)) {
      pane.at_start[side.name] = *found;
    }
  });
  return is_whole;
}

void tick_goals(PageState& page, const Observation& now) {
  LessonPane& pane = page.lesson;
  CurveStore curves;
  const QuantityFinder find = [&](const std::string& name, const std::string& at) -> std::optional<Quantity> {
    if (at.empty()) return is_current(now, name) ? find_number(name, now, page.selection, curves) : std::nullopt;
    const auto kept = pane.at_start.find(name);
    return kept == pane.at_start.end() ? std::nullopt : std::optional(kept->second);
  };
  const std::vector<LessonGoal>& goals = plan_of(pane).goals;
  pane.reached.resize(goals.size());
  for (std::size_t i = 0; i < goals.size(); ++i) {
    if (!pane.reached[i] && judge(goals[i].condition, find).holds) pane.reached[i] = true;
  }
}

/// Takes the step's large number, from its line or its question on.
void follow_shown(PageState& page, const Observation& now) {
  LessonPane& pane = page.lesson;
  const LessonStepPlan& plan = plan_of(pane);
  const bool is_due = pane.deed >= plan.shown_from || pane.asks || pane.answered != 0;
  if (!plan.shown || !is_due || !is_current(now, plan.shown->name)) return;
  CurveStore curves;
  pane.shown.take(plan.shown->name, now, page.selection, curves, pane.asks);
}

/// Whether the deed is done, so that the next one may follow.
bool is_done(PageState& page, const LessonDeed& deed, const LessonSurroundings& around) {
  LessonPane& pane = page.lesson;
  const Observation& now = around.now;
  if (deed.kind == LessonDeed::Kind::send) {
    around.give(deed.command);
    return true;
  }
  if (deed.kind == LessonDeed::Kind::ask) {
    pane.asks = pane.answered == 0;
    return !pane.asks;
  }
  if (deed.kind == LessonDeed::Kind::expect)  // what is said next speaks of what is measured now
    return around.taken >= around.sent() && are_current(now, analyses_of(deed));
  if (!pane.waits_for) pane.waits_for = around.sent();
  const bool is_at_rest = around.taken >= *pane.waits_for && !now.running && now.rebuilds_to < 0;
  if (!is_at_rest || now.step != deed.step) return false;
  pane.waits_for.reset();
  return true;
}

/// The page at the start of a step depends only on the lesson and its model, not on earlier pages.
void choose_workspace(PageState& page, const ModelSummary& model) {
  page.opened.workspace_is_chosen = false;
  page.opened.model.clear();
  follow_model(page, model);
}

/// Reads a changed file again; if that fails, the lesson stays unchanged and the pane says why.
void read_again_when_saved(PageState& page, double time) {
  LessonPane& pane = page.lesson;
  const auto half_seconds = static_cast<std::int64_t>(2 * time);
  if (pane.written == 0 || half_seconds == pane.looked_at) return;
  pane.looked_at = half_seconds;
  const std::int64_t written = written_at(pane.source);
  if (written == 0 || written == pane.written) return;
  pane.written = written;
  try {
    show(pane, read(pane.source));
    begin_lesson_step(page, static_cast<std::int64_t>(pane.step));
  } catch (const Error& error) {
    pane.problem = error.what();
  }
}

}  // namespace

void open_lesson_on(PageState& page, const std::string& name_or_path) {
  const std::shared_ptr<const OpenLesson> opened = read(name_or_path);
  LessonPane pane;
  pane.width = page.lesson.width;
  pane.source = name_or_path;
  pane.written = written_at(name_or_path);
  show(pane, opened);
  page.lesson = std::move(pane);
  page.hints.is_drag_due = false;
  begin_lesson_step(page, 0);
}

void begin_lesson_step(PageState& page, std::int64_t step) {
  LessonPane& pane = page.lesson;
  if (!pane.lesson) return;
  const auto last = static_cast<std::int64_t>(pane.lesson->steps.size()) - 1;
  pane.step = static_cast<std::size_t>(std::clamp<std::int64_t>(step, 0, last));
  ++pane.begun;
  pane.deed = 0;
  pane.waits_for.reset();
  pane.asks = false;
  pane.answered = 0;
  pane.reached.assign(plan_of(pane).goals.size(), false);
  pane.at_start.clear();
  pane.shown = {};
  pane.values.clear();
  pane.dragged.clear();
  PageView fresh;  // until the lesson names a workspace
  fresh.splits = page.splits;
  static_cast<PageView&>(page) = fresh;
  page.plots.clear();
  page.focus.crosshair = {};
  page.focus.panel.clear();
  page.time.focus = TimeFocus::steps;
}

bool answer_lesson(PageState& page, int choice) {
  LessonPane& pane = page.lesson;
  if (!pane.lesson || !pane.asks) return false;
  const auto choices = static_cast<int>(plan_of(pane).question->choices.size());
  if (choice != no_vote && (choice < 1 || choice > choices)) return false;
  pane.answered = choice;
  pane.asks = false;
  return true;
}

void follow_lesson(PageState& page, const LessonSurroundings& around) {
  LessonPane& pane = page.lesson;
  if (!pane.lesson) return;
  read_again_when_saved(page, around.time);
  if (!pane.began) pane.began = around.time;
  if (around.time >= lesson_returns_at(page, around.last_input)) {
    pane.began = around.time;
    page.presentation.is_blank = false;
    begin_lesson_step(page, 0);
  }
  const LessonStepPlan& plan = plan_of(pane);
  while (pane.deed < plan.deeds.size()) {
    if (pane.deed == plan.start && !keep_start(page, around.now)) return;
    if (!is_done(page, plan.deeds[pane.deed], around)) break;
    ++pane.deed;
    if (pane.deed == plan.start) choose_workspace(page, around.now.model);
  }
  // Until all commands are carried out the numbers may be those of an earlier moment.
  if (pane.deed < plan.start || around.taken < around.sent()) return;
  follow_shown(page, around.now);
  if (pane.deed >= plan.deeds.size() && keep_start(page, around.now)) tick_goals(page, around.now);
}

double lesson_returns_at(const PageState& page, double last_input) {
  constexpr double quiet = 60;
  const bool is_touched = page.lesson.lesson && page.lesson.began && last_input > *page.lesson.began;
  return page.presentation.is_locked && is_touched ? last_input + quiet : std::numeric_limits<double>::infinity();
}

AnalysisSet analyses_of_lesson(const PageState& page) {
  AnalysisSet analyses = 0;
  if (!page.lesson.lesson) return analyses;
  const LessonStepPlan& plan = plan_of(page.lesson);
  each_side(plan.goals, [&](const ConditionSide& side) { analyses |= analyses_of_number(side.name); });
  if (page.lesson.deed < plan.deeds.size()) analyses |= analyses_of(plan.deeds[page.lesson.deed]);
  if (plan.shown) analyses |= analyses_of_number(plan.shown->name);
  return analyses;
}

}  // namespace afterglow
