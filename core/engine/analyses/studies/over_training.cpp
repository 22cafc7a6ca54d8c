// One number of a panel for all saved states: opens one state at a time as a separate run, and computes the number
// there, piece by piece.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>

#include "core/engine/analyses/requested_study.h"
#include "core/engine/analyses/studies/studies_view.h"
#include "core/engine/observation/run_numbers.h"
#include "core/engine/session/analysed_run.h"
#include "core/engine/training/saved/run_folder.h"
#include "core/io/error.h"

namespace afterglow {
namespace {

struct OverTrainingConfig {
  std::string number = "spectral_radius";  ///< a name of run_numbers.h
  static constexpr const char* command = "over_training";
  static constexpr ConfigField<OverTrainingConfig> fields[] = {{"number", &OverTrainingConfig::number}};
};

/// Steps to the nearest known state.
std::int64_t gap_at(const std::vector<double>& known, std::int64_t step) {
  const auto after = std::ranges::lower_bound(known, static_cast<double>(step));
  auto gap = std::numeric_limits<double>::infinity();
  if (after != known.end()) gap = *after - static_cast<double>(step);
  if (after != known.begin()) gap = std::min(gap, static_cast<double>(step) - *std::prev(after));
  return std::isinf(gap) ? std::numeric_limits<std::int64_t>::max() : static_cast<std::int64_t>(gap);
}

class OverTraining : public Study<OverTrainingConfig, OverTrainingView> {
 public:
  /// `run` must outlive this object. Begins with the last saved state. Throws Error(bad_input) if the run has no such
  /// number.
  OverTraining(const TrainingRun& run, OverTrainingConfig config)
      : Study(std::move(config)), run_(&run), measured_(run.recipe()) {
    // A number of no family exists in every run and needs no analysis.
    if (const NumberFamily* family = family_of(config_.number)) analyses_ = family->analyses;
    change_view([&](OverTrainingView& view) {
      view.name = measured_.name;
      view.number = config_.number;
      view.missing = missing({}).size();
    });
    begin(run.folder() ? run.folder()->near(run.step()).step : run.kept_snapshot(run.step())->step,
          run.trainer().backend());
    bool is_left = true;
    while (is_left && !number()) is_left = measure_next();
    if (!number())
      throw BadInput("over_training: at step ", measured_step_, " this run has no number \"", config_.number,
                     "\"; `afterglow check --names` lists those that it has");
  }

  /// Whether the measured states belong to this recipe's past; after a change the states before it stay valid.
  bool is_of(const Recipe& recipe) const {
    if (run_->folder()) return measured_.inspected == recipe.inspected;
    const auto last = view_->step.empty() ? 0 : static_cast<std::int64_t>(view_->step.back());
    return measured_.inspected == recipe.inspected && common_step(measured_, recipe) >= std::max(last, measured_step_);
  }
  bool is_complete() const { return missing(view_->step).empty(); }
  double share_done() const {
    const auto done = static_cast<double>(view_->step.size());
    return done / std::max(1.0, done + static_cast<double>(view_->missing));
  }

  /// Computes one piece at the next saved state, wide gaps first; false if none is left.
  bool advance(Backend& backend) {
    if (!now_) {
      const std::vector<std::int64_t> left = missing(view_->step);
      if (left.empty()) return false;
      begin(*std::ranges::max_element(left, {}, [&](std::int64_t step) { return gap_at(view_->step, step); }), backend);
    }
    std::optional<double> found = number();
    const bool is_known = found && std::isfinite(*found);
    if (is_known || !measure_next()) take(is_known ? *found : number().value_or(std::nan("")));
    return !is_complete();
  }

 private:
  /// Saved steps up to the present one that are not in the list.
  std::vector<std::int64_t> missing(const std::vector<double>& known) const {
    std::vector<std::int64_t> steps;
    for (const KeptState& kept : *run_->kept()) {
      const bool is_known = std::ranges::binary_search(known, static_cast<double>(kept.step));
      if ((run_->folder() || kept.step <= run_->step()) && !is_known) steps.push_back(kept.step);
    }
    return steps;
  }

  /// Opens a saved state as a separate run.
  void begin(std::int64_t step, Backend& backend) {
    measured_ = run_->recipe();
    if (run_->folder()) {
      now_ = std::make_unique<AnalysedRun>(open_state(run_->folder()->at(step)), backend, 0);
      now_->choose_as(measured_);
    } else {
      Snapshot snapshot = *run_->kept_snapshot(step);
      snapshot.recipe.shown_step = -1;
      now_ = std::make_unique<AnalysedRun>(SavedRun{snapshot.recipe, snapshot}, backend, 0);
    }
    now_->trainer().only_read();
    measured_step_ = step;
  }

  /// One piece of the analyses that the number needs; false if none is left.
  bool measure_next() {
    for (const AnalysisInfo& row : analysis_table()) {
      if (!has(analyses_, row.analysis) || !now_->has_work(row.analysis)) continue;
      const bool is_piecewise = row.cost == AnalysisCost::piecewise;
      now_->advance(row.analysis, is_piecewise ? Budget::piece : Budget::whole);
      if (is_piecewise) return true;
    }
    return false;
  }

  /// The number if it is known; NaN if it is still missing.
  std::optional<double> number() const {
    const std::optional<Quantity> found = number_in(numbers_of(now_->describe()), config_.number);
    return found ? std::optional(found->number) : std::nullopt;
  }

  void take(double value) {
    change_view([&](OverTrainingView& view) {
      const auto place = std::ranges::lower_bound(view.step, static_cast<double>(measured_step_)) - view.step.begin();
      view.step.insert(view.step.begin() + place, static_cast<double>(measured_step_));
      view.value.insert(view.value.begin() + place, value);
      view.missing = missing(view.step).size();
    });
    now_.reset();
  }

  AnalysisSet analyses_ = 0;  // that the number needs
  const TrainingRun* run_;
  Recipe measured_;                   // of the measured states
  std::unique_ptr<AnalysedRun> now_;  // at the state that is being measured
  std::int64_t measured_step_ = 0;
};

}  // namespace

AnalysisInfo over_training_row() {
  // Opens each saved state and measures the number there.
  const auto work = [](const AnalysisSubject& subject) -> ModelWork {
    const auto asked = subject.chosen<RequestedStudy<OverTraining>>().config.value_or(OverTrainingConfig());
    const NumberFamily* family = family_of(asked.number);
    ModelWork one{0, 1, 0};
    for (const AnalysisInfo& row : analysis_table()) {
      if (!family || !row.work || row.analysis == Analysis::over_training || !has(family->analyses, row.analysis))
        continue;
      const ModelWork more = row.work(subject);
      one.tokens += more.tokens;
      one.steps += more.steps;
    }
    const auto states = static_cast<double>(subject.run->kept()->size());
    return {states * one.tokens, states * one.steps, 0};
  };
  return request_row<OverTraining, &AnalysisResults::over_training, Analysis::over_training>("over training", work);
}

}  // namespace afterglow
