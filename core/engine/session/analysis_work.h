// How long an analysis of a large model takes, told before it begins, and the part of it that is made without being
// asked for.
#pragma once
#include "core/engine/session/analysis_table.h"

namespace afterglow {

/// What one token takes in a pass, and one step of the recurrent form, in seconds.
struct Pace {
  double token = 0, step = 0;
};
/// Measured on the model itself: one short pass and a step.
Pace measure_pace(Trainer& trainer);
double seconds_of(const ModelWork& work, const Pace& pace);

/// The share of the work that a model of so many weights is asked by itself, some seconds on two cores: a function of
/// the numbers alone, so that it is the same on every machine. 0 where even the smallest piece is more.
double first_part(const ModelWork& work, std::int64_t parameters);

// Of the rows of the table.
ModelWork work_of_probe(const AnalysisSubject& subject);
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
