// Follows a lesson through its recipes.
#include "core/recipe/lesson_plan.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/io/error.h"
#include "core/io/json.h"
#include "core/io/json_file.h"

namespace afterglow {
namespace {

constexpr std::string_view override_prefix = "override.";

/// Commands whose effect depends on their time or on earlier ones, or that have a line of their own.
constexpr std::array unrepeatable{
    "run",     "toggle_run", "pause",   "step",   "run_to", "rewind",      "undo",   "redo",      "save",
    "load",    "quit",       "compare", "branch", "reset",  "gka_figure6", "reseed", "lesson",    "set",
    "discard", "time_left",  "shuttle", "device", "token",  "time_right",  "next",   "precision", "time_home"};

json value_of(const std::string& text) {
  const json value = json::parse(text, nullptr, false);
  return value.is_discarded() ? json(text) : value;
}

/// The state at a point of a lesson: the recipe that reproduces it, and the commands for the page.
class LessonState {
 public:
  /// The commands that restore this state from any other for a next step that continues; none if that step opens a
  /// preset. Earlier runs belong to the step that made them.
  std::vector<LessonDeed> begin(const LessonStep& next) {
    std::vector<LessonDeed> deeds{{LessonDeed::Kind::send, {"speed", {{"to", 0}}}}};
    is_alone_ = opens_preset(next);
    if (!is_alone_ && recipe_) {
      deeds.push_back(load(true));
      deeds.push_back(reach());
    } else {
      forget_view_commands();
    }
    for (const Command& one : view_commands_) deeds.push_back({LessonDeed::Kind::send, one});
    return deeds;
  }

  std::int64_t step() const { return step_; }

  std::vector<LessonDeed> take(const LessonLine& line) {
    deeds_.clear();
    try {
      act(line);
    } catch (const Error& error) {
      const std::string what = error.what();
      throw BadInput(what.starts_with(line.place) ? what : line.place + ": " + what);
    }
    for (LessonDeed& deed : deeds_) deed.line = &line;
    return deeds_;
  }

 private:
  void act(const LessonLine& line) {
    if (line.word == LessonWord::set) set(read_assignments(line));
    if (line.word == LessonWord::run) run(read_stretch(line));
    if (line.word == LessonWord::command) command(read_command(line));
    if (line.word == LessonWord::focus) focus(read_focus(line));
    if (line.word == LessonWord::say) set_numbers(numbers_in(line));
    if (line.word == LessonWord::ask) deeds_.push_back({LessonDeed::Kind::ask});
    if (line.word == LessonWord::expect) deeds_.push_back({LessonDeed::Kind::expect});
  }

  LessonDeed load(bool is_alone) const {
    Recipe now = *recipe_;
    now.shown_step = step_;
    json value{{"recipe", to_json(now)}};
    if (is_alone) value["alone"] = true;
    return {LessonDeed::Kind::send, {"load", value}};
  }
  LessonDeed reach() const { return {LessonDeed::Kind::reach, {}, step_}; }

  void require_run() const {
    if (!recipe_) throw BadInput("nothing is open yet; begin with `set: preset = tiny`");
  }

  /// Another model needs other view commands; only the page stays.
  void forget_view_commands() {
    std::erase_if(view_commands_, [](const Command& one) { return one.name != "workspace"; });
  }

  void view(Command command) {
    deeds_.push_back({LessonDeed::Kind::send, command});
    view_commands_.push_back(std::move(command));
  }

  /// Assignments that open a run come first, whatever their order, and one command opens it.
  void set(const std::vector<LessonAssignment>& assignments) {
    bool is_opened = false;
    for (const LessonAssignment& one : assignments) is_opened = open(one) || is_opened;
    for (const LessonAssignment& one : assignments) is_opened = change(one) || is_opened;
    if (is_opened) deeds_.insert(deeds_.begin(), {load(std::exchange(is_alone_, false)), reach()});
    for (const LessonAssignment& one : assignments) add_view(one);
  }

  void set_numbers(const std::vector<LessonNumber>& numbers) {
    for (const LessonNumber& number : numbers) {
      if (!is_value_now(number)) set({{number.name, json(number.value).dump()}});
    }
  }

  /// Whether the recipe has this value already, so that a sentence with the number changes nothing.
  bool is_value_now(const LessonNumber& number) const {
    if (!recipe_) return false;
    if (const std::optional<double> value = last_set(number.name)) return *value == number.value;
    if (find_setting(number.name)) return get_setting(recipe_->training, number.name) == number.value;
    std::string path = "/" + number.name;
    std::ranges::replace(path, '.', '/');
    const json recipe = to_json(*recipe_);
    const json::json_pointer place(path);
    return recipe.contains(place) && recipe[place] == number.value;
  }

  /// The value that the recipe's commands set last; nothing without one.
  std::optional<double> last_set(const std::string& key) const {
    std::optional<double> last;
    for (const TimedCommand& timed : recipe_->commands) {
      if (timed.command.name != "set") continue;
      if (const SetNumber set = SetNumber::of(timed.command); set.key == key) last = set.to;
    }
    return last;
  }

  static bool changes_on_the_way(const std::string& name) { return find_setting(name) || is_layer_setting(name); }

  bool is_of_recipe(const std::string& name) const {
    return name == "seed" || name.starts_with("task.") || name.starts_with("model.") ||
           (recipe_ && recipe_->task.is_object() && recipe_->task.contains(name));
  }

  /// Assigns a preset, or a field that cannot change during training: the run starts at step 0, with earlier settings.
  bool open(const LessonAssignment& one) {
    if (one.name == "preset") {
      recipe_ = parse_recipe(find_preset(one.value).text, one.value);
      step_ = 0;
      forget_view_commands();
      return true;
    }
    if (!is_of_recipe(one.name)) return false;
    require_run();
    std::erase_if(recipe_->commands, [](const TimedCommand& timed) { return timed.step > 0; });
    step_ = 0;
    assign(one);
    return true;
  }

  /// Changes a hyperparameter: in the recipe before the first step, later as a slider does. Returns whether the run
  /// must be opened again.
  bool change(const LessonAssignment& one) {
    if (!changes_on_the_way(one.name)) return false;
    require_run();
    const json value = value_of(one.value);
    if (!value.is_number()) throw BadInput(one.name, " is a number, got ", in_quotes(one.value));
    if (step_ == 0) {
      assign(one);
      return true;
    }
    if (!is_layer_setting(one.name)) {
      TrainingConfig checked = recipe_->training;
      change_setting(checked, one.name, value.get<double>());
    }
    const Command command{"set", {{"key", one.name}, {"to", value}}};
    recipe_->commands.push_back({step_, command});
    deeds_.push_back({LessonDeed::Kind::send, command});
    return false;
  }

  void add_view(const LessonAssignment& one) {
    if (one.name == "preset" || changes_on_the_way(one.name) || is_of_recipe(one.name)) return;
    require_run();
    if (one.name == "workspace") return view({"workspace", {{"name", one.value}}});
    const json value = value_of(one.value);
    view(view_command(one.name, value));
    if (one.name == "layer") view({"trace", {{"layer", value}}});
  }

  void assign(const LessonAssignment& one) {
    recipe_ = changed_recipe(*recipe_, {one.name + "=" + one.value}, "the recipe with " + one.name + " = " + one.value);
  }

  static Command view_command(const std::string& name, const json& value) {
    if (name.starts_with(override_prefix))
      return {"override", {{"key", name.substr(override_prefix.size())}, {"to", value}}};
    return {"select", {{name, value}}};
  }

  std::int64_t last_step() const {
    return static_cast<std::int64_t>(last_set("steps").value_or(static_cast<double>(recipe_->training.steps)));
  }

  void run(const LessonStretch& stretch) {
    require_run();
    const std::int64_t target = stretch.is_to ? stretch.steps : step_ + stretch.steps;
    if (target > last_step())
      throw BadInput("the run ends at step ", last_step(), ", before step ", target,
                     "; raise it with `set: steps = ", target, "`");
    step_ = target;
    deeds_.push_back({LessonDeed::Kind::send, {"run_to", {{"step", step_}}}});
    deeds_.push_back(reach());
  }

  void command(Command command) {
    if (std::ranges::find(unrepeatable, command.name) != unrepeatable.end())
      throw BadInput("a lesson does not give the command ", command.name,
                     ": it could not be repeated exactly; write `run: to 600` or `set: preset = "
                     "tiny ; learning_rate = 1e-3`");
    require_run();
    view(std::move(command));
  }

  void focus(const LessonFocus& wanted) {
    if (wanted.panel == "page") return view({"maximise", {{"on", false}}});
    view({"maximise", {{"panel", wanted.panel}, {"on", true}}});
    view({"show", {{"panel", wanted.panel}, {"figure", wanted.figure - 1}}});
  }

  static bool opens_preset(const LessonStep& step) {
    // Lines before a question are shown while it waits.
    constexpr std::array acting{LessonWord::set, LessonWord::run, LessonWord::command, LessonWord::expect,
                                LessonWord::ask};
    const auto acts = [&](const LessonLine& line) { return std::ranges::find(acting, line.word) != acting.end(); };
    const auto first = std::ranges::find_if(step.lines, acts);
    if (first == step.lines.end() || first->word != LessonWord::set) return false;
    const std::vector<LessonAssignment> assignments = read_assignments(*first);
    return std::ranges::find(assignments, "preset", &LessonAssignment::name) != assignments.end();
  }

  std::optional<Recipe> recipe_;
  bool is_alone_ = false;  ///< the next run is opened without earlier ones
  std::int64_t step_ = 0;
  std::vector<Command> view_commands_;  ///< commands for window and inspected sequence since the preset was opened
  std::vector<LessonDeed> deeds_;
};

/// Whether the line prepares the step's start: `set`, text, and commands of the page.
bool makes_scene(const LessonLine* line) {
  constexpr std::array acting{LessonWord::run, LessonWord::command, LessonWord::ask, LessonWord::expect};
  return line == nullptr || std::ranges::find(acting, line->word) == acting.end();
}

/// Reads the lines that only show something.
LessonStepPlan read_step(const LessonStep& step) {
  LessonStepPlan plan;
  for (const LessonLine& line : step.lines) {
    if (line.word == LessonWord::ask) plan.question = read_question(line);
    if (line.word == LessonWord::answer) plan.answer = read_answer(line);
    if (line.word == LessonWord::goal) plan.goals.push_back(read_goal(line));
    if (line.word == LessonWord::show) plan.shown = read_shown(line);
  }
  return plan;
}

}  // namespace

std::vector<LessonStepPlan> plan_lesson(const Lesson& lesson) {
  LessonState state;
  std::vector<LessonStepPlan> plans;
  for (const LessonStep& step : lesson.steps) {
    LessonStepPlan plan = read_step(step);
    plan.deeds = state.begin(step);
    plan.first_step = state.step();
    // Numbers of the text belong to the start, whose `set` lines may follow the text.
    std::vector<const LessonLine*> texts;
    const auto take = [&](const LessonLine& line) {
      for (LessonDeed& deed : state.take(line)) plan.deeds.push_back(std::move(deed));
    };
    const auto take_texts = [&] {
      for (const LessonLine* text : std::exchange(texts, {})) take(*text);
    };
    for (const LessonLine& line : step.lines) {
      if (line.word == LessonWord::say) {
        texts.push_back(&line);
        continue;
      }
      if (!makes_scene(&line)) take_texts();
      if (line.word == LessonWord::show) plan.shown_from = plan.deeds.size();
      take(line);
    }
    take_texts();
    const auto first = std::ranges::find_if(plan.deeds, [](const LessonDeed& deed) { return !makes_scene(deed.line); });
    plan.start = static_cast<std::size_t>(first - plan.deeds.begin());
    plan.last_step = state.step();
    plans.push_back(std::move(plan));
  }
  return plans;
}

Command command_of(const std::string& name, double value) {
  if (find_setting(name) || is_layer_setting(name)) return SetNumber{name, value};
  if (name.starts_with(override_prefix))
    return {"override", {{"key", name.substr(override_prefix.size())}, {"to", value}}};
  const bool is_whole = value == static_cast<double>(static_cast<std::int64_t>(value));
  return {"select", {{name, is_whole ? json(static_cast<std::int64_t>(value)) : json(value)}}};
}

}  // namespace afterglow
