// Runs a plan in a session's worker, on this thread.
#include "app/lessons/lesson_runner.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "core/backend/host_memory.h"
#include "core/engine/analyses/solvers/solver_view.h"
#include "core/io/json.h"
#include "core/io/json_file.h"
#include "core/io/named.h"
#include "core/recipe/lesson_lines.h"
#include "views/plots/plot_kinds.h"

namespace afterglow {
namespace {

SessionOptions at_rest(SessionOptions options) {
  options.start_running = false;
  return options;
}

/// Names that some step reads at an earlier moment.
std::set<std::string> names_at(const Lesson& lesson, const std::string& at) {
  std::set<std::string> names;
  for (const LessonStep& step : lesson.steps) {
    for (const LessonLine& line : step.lines) {
      Condition condition;
      if (line.word == LessonWord::expect) condition = read_expectation(line);
      if (line.word == LessonWord::goal) condition = read_goal(line).condition;
      for (const Comparison& comparison : condition.comparisons) {
        for (const ConditionSide* side : {&comparison.left, &comparison.right}) {
          if (side->at == at) names.insert(side->name);
        }
      }
    }
  }
  return names;
}

template <class Work>
void told_with_place(const LessonDeed& deed, const LessonStep& step, const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    if (error.code() == ExitCode::interrupted) throw;
    throw Error(error.code(), deed.line ? deed.line->place : step.place, ": ", error.what());
  }
}

}  // namespace

bool LessonStepResult::is_ok() const {
  return std::ranges::all_of(expectations, [](const ExpectationResult& one) { return one.verdict.holds; });
}

void require_known_panels(const Lesson& lesson, const std::vector<std::string>& pages) {
  std::vector<std::string> known{"page", "none"};
  for (const PlotKind& kind : plot_kinds()) known.emplace_back(kind.id);
  const auto require = [](const LessonLine& line, const std::string& name, const std::vector<std::string>& names,
                          const std::string& what) {
    if (std::ranges::find(names, name) != names.end()) return;
    throw BadInput(line.place, ": there is no ", what, " ", in_quotes(name), did_you_mean(name, names),
                   "; `afterglow info` lists them");
  };
  for (const LessonStep& step : lesson.steps) {
    for (const LessonLine& line : step.lines) {
      if (line.word == LessonWord::focus)
        require(line, std::string(present_id(read_focus(line).panel)), known, "panel");
      if (line.word == LessonWord::highlight) {
        for (const std::string& name : read_names(line)) require(line, std::string(present_id(name)), known, "panel");
      }
      if (line.word != LessonWord::set || pages.empty()) continue;
      for (const LessonAssignment& one : read_assignments(line)) {
        if (one.name == "workspace") require(line, one.value, pages, "workspace");
      }
    }
  }
}

std::vector<Command> change_selection(Selection& selection, const json& value) {
  const Selection before = std::exchange(selection, changed_selection(selection, value));
  if (selection.layer == before.layer && selection.head == before.head) return {};
  return {{"theory", {{"layer", selection.layer}, {"head", selection.head}}}};
}

LessonRunner::LessonRunner(Lesson lesson, const SessionOptions& options, std::function<void()> poll)
    : lesson_(std::move(lesson)),
      plans_(plan_lesson(lesson_)),
      poll_(std::move(poll)),
      worker_(presets().front().text, at_rest(options), mailbox_) {
  mailbox_.request(0);
  worker_.begin();
  if (!worker_.is_open()) throw Error(worker_.last_failure(), worker_.last_report());
}

void LessonRunner::send(const Command& command) {
  if (command.name == "speed") return;  // without a window the speed limit is ignored
  if (find_command(command.name)->target == CommandTarget::engine) return worker_.apply(command);
  if (command.name == "select") {
    for (const Command& next : change_selection(selection_, command.value)) worker_.apply(next);
  }
  if (command.name == "race" && !command.value.empty()) worker_.apply({"influence", {{"race", command.value}}});
}

void LessonRunner::wait_for(std::int64_t step) {
  while (worker_.control().running()) {
    poll_();
    worker_.turn();
  }
  const TrainingRun& run = worker_.run();
  if (!run.failure().empty()) throw Error(ExitCode::non_finite, run.failure());
  if (run.step() != step)
    throw Error(worker_.last_failure(), "training stopped at step ", run.step(), " instead of ", step, ": ",
                worker_.last_report());
}

void LessonRunner::go_to(std::int64_t step) {
  worker_.apply({"rewind", {{"step", step}}});
  wait_for(step);
}

Observation LessonRunner::observe(AnalysisSet analyses) { return *worker_.observe(analyses); }

Quantity LessonRunner::number_now(const std::string& name) {
  const Observation now = observe(analyses_of_number(name));
  const std::optional<Quantity> found = find_number(name, now, selection_, curves_);
  if (found) return *found;
  std::vector<std::string> names = names_of(all_numbers(now, selection_, curves_), &NamedNumber::name);
  throw BadInput("there is no number ", in_quotes(name), " at step ", now.step, did_you_mean(name, names),
                 "; `afterglow check --names` lists them");
}

void LessonRunner::keep_moment(const std::string& at) {
  for (const std::string& name : names_at(lesson_, at)) {
    try {
      moments_[at][name] = number_now(name);
    } catch (const Error&) {
      moments_[at].erase(name);  // reported if a condition uses it
    }
  }
}

Verdict LessonRunner::judge_now(const Condition& condition) {
  return judge(condition, [&](const std::string& name, const std::string& at) -> std::optional<Quantity> {
    if (!at.empty()) {
      const auto moment = moments_[at].find(name);
      return moment == moments_[at].end() ? std::nullopt : std::optional(moment->second);
    }
    const Observation now = observe(analyses_of_number(name));
    return find_number(name, now, selection_, curves_);
  });
}

LessonStepResult LessonRunner::run_step(std::size_t index) {
  const auto begun = std::chrono::steady_clock::now();
  const LessonStep& step = lesson_.steps[index];
  const LessonStepPlan& plan = plans_[index];
  LessonStepResult result{&step};
  selection_ = Selection();
  moments_["start"].clear();
  const auto take_shown = [&](bool is_open) {
    if (!plan.shown) return;
    const Observation now =
        observe(analyses_of_number(plan.shown->name) | set_of(Analysis::spectra));  // of its plain one
    result.shown.take(plan.shown->name, now, selection_, curves_, is_open);
  };
  for (std::size_t i = 0; i <= plan.deeds.size(); ++i) {
    if (i == plan.start) keep_moment("start");
    if (i == plan.deeds.size()) break;
    const LessonDeed& deed = plan.deeds[i];
    const bool asks = deed.kind == LessonDeed::Kind::ask;
    if (asks || i == std::max(plan.start, plan.shown_from)) take_shown(asks);
    told_with_place(deed, step, [&] {
      if (deed.kind == LessonDeed::Kind::send) send(deed.command);
      if (deed.kind == LessonDeed::Kind::reach) wait_for(deed.step);
      if (deed.kind != LessonDeed::Kind::expect) return;
      ExpectationResult held{deed.line, judge_now(read_expectation(*deed.line))};
      for (const std::string& name : held.verdict.unknown) {
        try {
          number_now(name);
        } catch (const Error& error) {
          held.verdict.why += std::string("; ") + error.what();
        }
      }
      result.expectations.push_back(std::move(held));
    });
  }
  take_shown(false);
  keep_moment(std::to_string(index + 1));
  result.at = worker_.run().step();
  result.checksum = worker_.run().trainer().checksum();
  result.resident_bytes = resident_bytes();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  return result;
}

std::vector<LessonFocus> LessonRunner::panels_of(std::size_t index) const {
  const std::vector<LessonLine>& lines = lesson_.steps[index].lines;
  for (const LessonWord word : {LessonWord::focus, LessonWord::highlight}) {
    const auto line =
        std::find_if(lines.rbegin(), lines.rend(), [&](const LessonLine& one) { return one.word == word; });
    if (line == lines.rend()) continue;
    std::vector<LessonFocus> panels;
    for (const std::string& name : read_names(*line)) {
      if (find_plot_kind(name)) panels.push_back(word == LessonWord::focus ? read_focus(*line) : LessonFocus{name});
    }
    if (!panels.empty()) return panels;
  }
  return {};
}

void LessonRunner::open(const Recipe& recipe) {
  selection_ = Selection();
  worker_.open_recipe(recipe, true);
  wait_for(std::max<std::int64_t>(recipe.shown_step, 0));
}

std::vector<NamedNumber> LessonRunner::numbers() {
  const AnalysisSet affordable = all_analyses & ~set_of(Analysis::race);
  return all_numbers(observe(affordable), selection_, curves_);
}

}  // namespace afterglow
