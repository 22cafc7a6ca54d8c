// Estimates how long an analysis of a large model takes, and chooses the part that runs without a request.
#pragma once
#include "core/engine/session/analysis_table.h"

namespace afterglow {

/// Seconds for one token in a pass, and for one step of the recurrent form.
struct Pace {
  double token = 0, step = 0;
};
/// Times one short pass and one step of the model itself.
Pace measure_pace(Trainer& trainer);
double seconds_of(const ModelWork& work, const Pace& pace);

/// The share of the work that runs without a request for a model with this many weights: some seconds on two cores.
/// Depends on the numbers alone, so it is the same on every machine. 0 if even the smallest piece is more.
double first_part(const ModelWork& work, std::int64_t parameters);

// The `work` functions of the table's rows.
ModelWork work_of_inspection(const AnalysisSubject& subject);
ModelWork work_of_transplant(const AnalysisSubject& subject);
ModelWork work_of_theory(const AnalysisSubject& subject);
ModelWork work_of_logit_lens(const AnalysisSubject& subject);
ModelWork work_of_influence(const AnalysisSubject& subject);
ModelWork work_of_race(const AnalysisSubject& subject);
ModelWork work_of_patch(const AnalysisSubject& subject);
ModelWork work_of_ablation(const AnalysisSubject& subject);
ModelWork work_of_readout(const AnalysisSubject& subject);
ModelWork work_of_accuracy(const AnalysisSubject& subject);
ModelWork work_of_blame(const AnalysisSubject& subject);
ModelWork work_of_microscope(const AnalysisSubject& subject);
ModelWork work_of_bisect(const AnalysisSubject& subject);
ModelWork work_of_over_training(const AnalysisSubject& subject);
ModelWork work_of_phase_map(const AnalysisSubject& subject);

}  // namespace afterglow
