// Blame: which batch shaped a training? Trains through a range of steps, and from each of them on without its batch,
// bit for bit as the command `skip`, to the step of comparison.
#include <algorithm>
#include <memory>
#include <string>

#include "core/engine/analyses/requested_study.h"
#include "core/engine/analyses/studies/studies_view.h"
#include "core/engine/sweeps/sweep.h"
#include "core/io/error.h"
#include "core/io/json.h"
#include "core/tasks/task.h"

namespace afterglow {
namespace {

struct BlameConfig {
  std::int64_t first = 0, last = 0;  ///< steps whose batches are left out; 0: the hundred before `until`
  std::int64_t until = 0;            ///< the step at which all are compared; 0: the present one
  std::string result;                ///< the metric that is compared; empty: the loss
  std::int64_t batch = -1;           ///< step of the batch whose sequences are shown; -1: none
  std::int64_t needed_step() const { return std::max<std::int64_t>(1, until); }
  static constexpr const char* command = "blame";
  static constexpr ConfigField<BlameConfig> fields[] = {{"from", &BlameConfig::first, 0, max_steps},
                                                        {"to", &BlameConfig::last, 0, max_steps},
                                                        {"until", &BlameConfig::until, 0, max_steps},
                                                        {"result", &BlameConfig::result},
                                                        {"batch", &BlameConfig::batch, -1, max_steps}};
};

/// With other steps, absent fields take their defaults.
BlameConfig read_blame(const json& value, const BlameConfig& before) {
  const bool has_steps = value.contains("from") || value.contains("to") || value.contains("until") || value.empty();
  return read_fields(value, has_steps ? BlameConfig{.result = before.result} : before);
}

constexpr std::int64_t usual_batches = 100;
constexpr std::int64_t max_batches = 4096;
constexpr std::int64_t shown_sequences = 4;

/// Ordered by step, after other commands of the same step.
void leave_out(Recipe& recipe, std::int64_t step) {
  const auto later =
      std::ranges::find_if(recipe.commands, [&](const TimedCommand& timed) { return timed.step > step - 1; });
  recipe.commands.insert(later, {step - 1, {"skip"}});
}

/// Sequences in the batch of a step, which an earlier command may have changed.
std::int64_t batch_size(const Recipe& recipe, std::int64_t step) {
  std::int64_t size = recipe.training.batch;
  for (const TimedCommand& timed : recipe.commands) {
    if (timed.step >= step || timed.command.name != "set") continue;
    const SetNumber set = SetNumber::of(timed.command);
    if (set.key == "batch") size = static_cast<std::int64_t>(set.to);
  }
  return size;
}

/// The complete range. Throws Error(bad_input) if the run cannot repeat it.
BlameConfig resolved(BlameConfig config, const TrainingRun& run) {
  if (config.until == 0) config.until = run.step();
  const std::int64_t earliest = run.oldest_step() + 1;
  if (config.last == 0) config.last = config.until;
  if (config.first == 0) config.first = std::max(earliest, config.last - usual_batches + 1);
  const auto refuse = [](const auto&... what) { throw BadInput("blame: ", what...); };
  if (config.until < earliest) refuse("train some steps first; there is no batch yet that could be left out");
  if (config.until > run.latest_step())
    refuse("step ", config.until, " has not been trained; the last one is ", run.latest_step());
  if (config.first < earliest || config.first > config.last || config.last > config.until)
    refuse("the batches of steps ", config.first, " to ", config.last, " cannot be left out; choose steps from ",
           earliest, " to ", config.until);
  if (config.last - config.first >= max_batches) refuse("at most ", max_batches, " batches are left out; choose fewer");
  return config;
}

class Blame : public Study<BlameConfig, BlameView> {  // its runs hold pointers to its inquiry
 public:
  /// `run` must have been trained at least to `until`. Throws Error(bad_input) for steps that it has not.
  Blame(const TrainingRun& run, BlameConfig config)
      : Study(resolved(std::move(config), run)),
        inquiry_(sweep_inquiry(run.trainer().measures(), std::numeric_limits<double>::infinity())) {
    start_ = *run.kept_snapshot(config_.first - 1);
    start_.recipe = training_of(start_.recipe);
    change_view([&](BlameView& view) {
      view.name = start_.recipe.name;
      view.first = config_.first;
      view.last = config_.last;
      view.until = config_.until;
      view.metrics = inquiry_.metrics;
    });
    show(config_);
  }

  /// Whether another configuration needs the same repetitions and differs only in what is shown.
  bool has_runs_of(const BlameConfig& config) const {
    return config.first == config_.first && config.last == config_.last && config.until == config_.until;
  }
  /// Whether `recipe` describes the training that is repeated here.
  bool is_of(const Recipe& recipe) const { return common_step(start_.recipe, recipe) >= config_.until; }
  bool is_complete() const { return next_ > config_.last; }
  double share_done() const {
    return static_cast<double>(view_->without.size()) / static_cast<double>(config_.last - config_.first + 1);
  }
  void show(const BlameConfig& config) {
    change_view([&](BlameView& view) {
      view.shown = config.result.empty() ? 0 : find_metric(inquiry_.metrics, config.result);  // the first is the loss
      if (config.batch != view.batch.step) view.batch = batch_of(config.batch);
    });
    config_.result = config.result;
    config_.batch = config.batch;
  }

  /// One training step of the present repetition, or its result; false if all are finished.
  bool advance(Backend& backend) {
    if (is_complete()) return false;
    if (!whole_) whole_ = std::make_unique<TrainingRun>(start_, backend, 0);
    const std::int64_t wanted = std::max(next_, config_.first) - 1;
    if (whole_->step() < wanted && !now_) {
      if (!whole_->train_step()) throw Error(ExitCode::non_finite, "blame: ", whole_->failure());
      return true;
    }
    if (!now_) begin_next(backend);
    if (now_->step() < config_.until && now_->train_step()) return true;
    take_result();
    return !is_complete();
  }

 private:
  /// The batch of a step; empty for a series.
  ShownBatch batch_of(std::int64_t step) const {
    const std::unique_ptr<Task> task = make_task(start_.recipe.task);
    if (step < config_.first || step > config_.last || task->windows() != nullptr) return {};
    ShownBatch batch{step, {}};
    const std::int64_t size = batch_size(start_.recipe, step);
    for (std::int64_t i = 0; i < std::min(size, shown_sequences); ++i) {
      const auto index = static_cast<std::uint64_t>((step - 1) * size + i);
      std::string& text = batch.sequences.emplace_back();
      for (const std::int32_t token : task->example(start_.recipe.seed, index).tokens)
        text += (text.empty() ? "" : " ") + task->token_label(token);
    }
    return batch;
  }

  /// Starts before the batch that is left out; the first repetition leaves none out.
  void begin_next(Backend& backend) {
    Snapshot from = whole_->snapshot();
    from.recipe.shown_step = -1;
    if (next_ > 0) leave_out(from.recipe, next_);
    const std::size_t row = static_cast<std::size_t>(next_);
    now_ = std::make_unique<RecipeRun>(inquiry_, PlannedRun{row, from.recipe, ""}, backend, from);
  }

  void take_result() {
    RunResult result = now_->result();
    change_view([&](BlameView& view) {
      if (next_ > 0) return view.without.push_back(std::move(result));
      view.whole = result.values;
      view.loss = now_->losses_from(config_.first);
    });
    next_ = next_ == 0 ? config_.first : next_ + 1;
    now_.reset();
  }

  Inquiry inquiry_;
  Snapshot start_;                      // at or before the first step
  std::unique_ptr<TrainingRun> whole_;  // trains from batch to batch
  std::unique_ptr<RecipeRun> now_;      // continues from there to `until`, without the next batch
  std::int64_t next_ = 0;               // the next batch to leave out; 0: none, for comparison
};

}  // namespace

AnalysisInfo blame_row() {
  // A hundred repetitions of fifty steps on average.
  const auto work = [](const AnalysisSubject& subject) -> ModelWork {
    return {tokens_of_training(subject, 100 * 50), 0, 0};
  };
  return request_row<Blame, &AnalysisResults::blame, Analysis::blame, read_blame>("blame", work);
}

}  // namespace afterglow
