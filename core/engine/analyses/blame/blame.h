// Blame: which batch shaped a training? Repeats the training without the batch of each step in a range (bit for bit as
// the command `skip`), one training step at a time.
#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "core/engine/analyses/blame/blame_view.h"
#include "core/engine/analyses/requested_study.h"
#include "core/engine/studies/recipe_run.h"

namespace afterglow {

/// Settings of the command `blame`.
struct BlameConfig {
  std::int64_t first = 0, last = 0;  ///< steps whose batches are left out; 0: the hundred before `until`
  std::int64_t until = 0;            ///< the step at which all are compared; 0: the present one
  std::string result;                ///< the metric that is compared; empty: the loss
  std::int64_t batch = -1;           ///< step of the batch whose sequences are shown; -1: none
  bool operator==(const BlameConfig&) const = default;
  /// The step that the run must have reached.
  std::int64_t needed_step() const { return until > 0 ? until : 1; }
};
/// Absent fields keep their value unless other steps are chosen. Throws Error(bad_input).
BlameConfig parse_blame(const nlohmann::json& value, const BlameConfig& before);
nlohmann::json to_json(const BlameConfig& config);

class Blame : public Study<BlameConfig, BlameView> {  // its runs hold pointers to its inquiry
 public:
  /// `run` must have been trained at least to `until`. Throws Error(bad_input) for steps that it has not.
  Blame(const TrainingRun& run, BlameConfig config);
  ~Blame();

  /// Whether another configuration needs the same repetitions and differs only in what is shown.
  bool has_runs_of(const BlameConfig& config) const;
  /// Whether `recipe` describes the training that is repeated here.
  bool is_of(const Recipe& recipe) const;
  void show(const BlameConfig& config);
  /// One training step of the present repetition, or its result; false if all are finished.
  bool advance(Backend& backend);
  bool is_complete() const { return next_ > config_.last; }
  double share_done() const;

 private:
  void begin_next(Backend& backend);
  void take_result();
  ShownBatch batch_of(std::int64_t step) const;

  Inquiry inquiry_;
  Snapshot start_;                      // at or before the first step
  std::unique_ptr<TrainingRun> whole_;  // trains from batch to batch
  std::unique_ptr<RecipeRun> now_;      // continues from there to `until`, without the next batch
  std::int64_t next_ = 0;               // the next batch to leave out; 0: none, for comparison
};

}  // namespace afterglow
