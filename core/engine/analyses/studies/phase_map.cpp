// A map over two fields of a recipe from whole trainings, one step at a time, so that it fills while other work goes
// on. Runs, numbers and bits are those of a sweep.
#include <algorithm>
#include <memory>
#include <optional>

#include "core/engine/analyses/requested_study.h"
#include "core/engine/analyses/studies/studies_view.h"
#include "core/engine/sweeps/sweep.h"
#include "core/engine/training/objective.h"
#include "core/io/json.h"
#include "core/io/named.h"
#include "core/io/number_text.h"
#include "core/recipe/recipe.h"

namespace afterglow {
namespace {

struct PhaseMapConfig {
  std::string x, y;  ///< axes as `parse_axis` reads them; empty: the learning rate, and the layers' strength or decay
  std::int64_t steps = 200;  ///< of each run
  std::string result;        ///< the metric shown as colour; empty: the accuracy
  static constexpr const char* command = "phase_map";
  static constexpr ConfigField<PhaseMapConfig> fields[] = {{"x", &PhaseMapConfig::x},
                                                           {"y", &PhaseMapConfig::y},
                                                           {"steps", &PhaseMapConfig::steps, 1, max_steps},
                                                           {"result", &PhaseMapConfig::result}};
};

/// `opened_run` reads "open".
PhaseMapConfig read_phase_map(const json& value, const PhaseMapConfig& before) {
  return read_fields_among({"open"}, value, before);
}

constexpr std::size_t max_map_runs = 4096;
constexpr int usual_count = 16;
constexpr std::size_t usual_metric = 1;  // the accuracy

/// The recipe with which every run begins: settings made before the first step belong to it, later ones do not.
Recipe beginning_of(Recipe recipe) {
  std::erase_if(recipe.commands,
                [](const TimedCommand& timed) { return timed.step > 0 || !changes_training(timed.command); });
  recipe.shown_step = -1;
  recipe.inspected = {};
  return recipe;
}

/// A factor of thirty to both sides, within the setting's range.
std::string around(const std::string& key, double value, double minimum, double maximum) {
  const double low = std::max(value / 30, minimum), high = std::min(value * 30, maximum);
  return key + "=log:" + shortest(low) + ":" + shortest(high) + ":" + std::to_string(usual_count);
}

/// The first strength of a layer, such as a ridge; for a model without one the weight decay.
std::string usual_y(const Recipe& recipe, const Objective& objective) {
  for (const Setting& setting : objective.settings()) {
    const bool is_of_layer = setting.key.starts_with("layers.");  // a memory's τ may have no effect
    const bool is_strength = is_of_layer && setting.logarithmic && !setting.integer;
    if (is_strength && setting.value > 0) return around(setting.key, setting.value, setting.minimum, setting.maximum);
  }
  return around("weight_decay", std::max(recipe.training.weight_decay, 1e-3), 1e-5, 1);
}

class PhaseMap : public Study<PhaseMapConfig, PhaseMapView> {
 public:
  /// Starts from the recipe at step 0 without later changes. Throws Error for invalid axes.
  PhaseMap(const Recipe& recipe, PhaseMapConfig config) : Study(std::move(config)) {
    Recipe base = beginning_of(recipe);
    base.training.steps = config_.steps;
    ParameterStore declared;
    const std::unique_ptr<Objective> objective = make_objective(base, declared);
    if (config_.x.empty()) config_.x = around("learning_rate", base.training.learning_rate, 1e-7, 1);
    if (config_.y.empty()) config_.y = usual_y(base, *objective);
    inquiry_ = sweep_inquiry(objective->measures(), std::numeric_limits<double>::infinity());
    if (config_.result.empty()) config_.result = inquiry_.metrics[usual_metric].name;
    change_view([&](PhaseMapView& view) {
      view.steps = config_.steps;
      view.x = config_.x;
      view.y = config_.y;
      view.shown = find_metric(inquiry_.metrics, config_.result);
      view.sweep = {
          recipe.name, {parse_axis(config_.x), parse_axis(config_.y)}, inquiry_.metrics, {}, carried_text(base)};
    });
    if (size_of(view_->sweep.axes) > max_map_runs)
      throw BadInput("a map has at most ", max_map_runs, " runs; take fewer values");
    runs_ = runs_of(base, view_->sweep.axes, inquiry_);
    next_ = next_place(view_->sweep, view_->shown);
  }

  /// Whether another configuration needs the same runs and differs only in what is shown.
  bool has_runs_of(const PhaseMapConfig& config) const {
    return config.x == config_.x && config.y == config_.y && config.steps == config_.steps;
  }
  void show(const std::string& result) {
    const std::size_t shown = result.empty() ? usual_metric : find_metric(inquiry_.metrics, result);
    change_view([&](PhaseMapView& view) { view.shown = shown; });
    config_.result = inquiry_.metrics[shown].name;
  }
  bool is_complete() const { return !now_ && next_ == runs_.size(); }
  double share_done() const {
    return static_cast<double>(view_->sweep.results.size()) / static_cast<double>(runs_.size());
  }
  /// The present run starts again later, because its back end is being destroyed.
  void drop_present() { now_.reset(); }

  /// One training step of the present run, or its result; false if all are finished.
  bool advance(Backend& backend) {
    if (is_complete()) return false;
    if (!now_) now_ = std::make_unique<RecipeRun>(inquiry_, runs_[next_], backend);
    const bool goes_on = now_->train_step();
    if (goes_on && !view_->sweep.results.empty()) return true;
    change_view([&](PhaseMapView& view) { goes_on ? void(view.first_run_at = now_->step()) : take_result(view); });
    return !is_complete();
  }

  /// The recipe of the run at this grid point, to be opened at its end. Throws Error(bad_input) if it is not finished.
  Recipe finished_run(std::int64_t place) const {
    const RunResult* result = find_by(view_->sweep.results, static_cast<std::size_t>(place), &RunResult::row);
    if (!result) throw BadInput("run ", place, " of the map has not been trained yet");
    Recipe recipe = runs_[result->row].recipe;
    recipe.shown_step = static_cast<std::int64_t>(result->values[find_metric(inquiry_.metrics, "trained")]);
    return recipe;
  }

  /// Whether the recipe is that of a point on the map.
  bool holds(const Recipe& recipe) const {
    const std::string name = hash_of(beginning_of(recipe), inquiry_);
    return find_by(runs_, name, &PlannedRun::name) != nullptr;
  }

 private:
  void take_result(PhaseMapView& view) {
    view.sweep.results.push_back(now_->result());
    now_.reset();
    next_ = next_place(view.sweep, view.shown);
  }

  Inquiry inquiry_;
  std::vector<PlannedRun> runs_;
  std::size_t next_ = 0;
  std::unique_ptr<RecipeRun> now_;
};

/// The settings, and the map once it is requested; a run opened from the map keeps both.
struct RunMap {
  PhaseMapConfig config;
  std::shared_ptr<PhaseMap> map;
};

/// Other trainings in spare time. The map belongs to no step and stays when the user opens one of its runs.
class PhaseMapAnalysis final : public UntiedAnalysis {
 public:
  using UntiedAnalysis::UntiedAnalysis;
  AnalysisState state() const override {
    if (!map()) return {.has_news = has_news_};
    AnalysisState now = study_state(*map(), has_news_);
    const double part = of_->part_of(Analysis::phase_map);
    if (part < 1 && now.share_done >= part) now.phase = AnalysisPhase::current;
    return now;
  }
  void advance(Budget) override {
    const std::shared_ptr<const PhaseMapView> before = map() ? map()->view() : nullptr;
    if (map()) {
      map()->advance(of_->run->trainer().backend());
    } else {
      map() = std::make_shared<PhaseMap>(of_->run->recipe(), of_->chosen<RunMap>().config);
    }
    has_news_ = map()->view() != before;
  }
  void publish(AnalysisResults& results) const override {
    if (map()) results.phase_map = map()->view();
  }
  void release() override {
    if (map()) map()->drop_present();
  }
  void take_over(const AnalysisSubject& before) override {
    const std::shared_ptr<PhaseMap>& other = before.chosen<RunMap>().map;
    if (!other || !other->holds(of_->run->recipe())) return;
    if (&before.run->trainer().backend() != &of_->run->trainer().backend()) other->drop_present();
    of_->chosen<RunMap>() = {other->config(), other};
    of_->run->note({"phase_map", to_json(other->config())});
  }

 private:
  std::shared_ptr<PhaseMap>& map() const { return of_->chosen<RunMap>().map; }
};

AnalysisSet choose_phase_map(AnalysisSubject& subject, const json& value) {
  auto& [config, map] = subject.chosen<RunMap>();
  const PhaseMapConfig asked = read_phase_map(value, map ? map->config() : config);
  if (map && map->has_runs_of(asked)) {
    map->show(asked.result);
  } else {
    map = std::make_shared<PhaseMap>(subject.run->recipe(), asked);
  }
  config = asked;
  return 0;
}

std::optional<Recipe> opened_run(const AnalysisSubject& subject, const json& value) {
  if (!value.is_object() || !value.contains("open")) return std::nullopt;
  const std::shared_ptr<PhaseMap>& map = subject.chosen<RunMap>().map;
  if (!map) throw BadInput("there is no phase map yet; its workspace makes one");
  return map->finished_run(value["open"].is_number_integer() ? value["open"].get<std::int64_t>() : -1);
}

}  // namespace

AnalysisInfo phase_map_row() {
  const auto work = [](const AnalysisSubject& subject) -> ModelWork {
    constexpr double usual_cells = 256;
    const auto& [config, map] = subject.chosen<RunMap>();
    const double cells = map ? static_cast<double>(size_of(map->view()->sweep.axes)) : usual_cells;
    return {tokens_of_training(subject, cells * static_cast<double>(config.steps)), 0, 1 / cells};
  };
  AnalysisSettings settings{PhaseMapConfig::command, choose_phase_map};
  settings.replay = [](AnalysisSubject& subject, const json& value) {
    subject.chosen<RunMap>().config = read_phase_map(value, {});
  };
  settings.written = [](const AnalysisSubject& subject) { return to_json(subject.chosen<RunMap>().config); };
  settings.opened = opened_run;
  return {{}, Analysis::phase_map, "phase map", make_of_any<PhaseMapAnalysis>, work, settings};
}

}  // namespace afterglow
