// Made-up observations for the views: ordinary ones that look like a real run, and awkward ones.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/engine/observation/observation.h"

namespace afterglow::samples {

/// A run of the first-run preset as it looks after `step` steps: accuracy climbs around step 260, four heads, a trace
/// of 64 tokens.
Observation training_at(std::int64_t step);

/// What is left of it where nothing but these is made, interventions aside.
Observation seen_by(Observation observation, AnalysisSet analyses);

Observation nothing();           ///< before the first observation of the engine
Observation one_step();          ///< a single value in every curve, no trail
Observation mid_training();      ///< step 428 of 800
Observation rewound();           ///< gone back from there to step 150, with two changes at step 100 and one at 300
Observation non_finite();        ///< losses and states that turned NaN and infinite
Observation huge_values();       ///< 1e30 and 1e-30, kappa beyond float
Observation million_points();    ///< curves of 1,000,000 steps
Observation several_runs();      ///< two finished runs and a branch
Observation long_texts();        ///< names and messages far longer than any label
Observation many_heads();        ///< 16 heads of rank 64 and a trace of 700 tokens
Observation softmax_weights();   ///< token weights of softmax attention, which are shares
Observation inspected();         ///< interventions in force: a moved mode, one switched off, a head off
Observation broken_inspected();  ///< an inspected sequence whose lists do not fit each other, with NaN in them
Observation forecast();          ///< a forecasting run with memory: no tokens, no spectra
Observation broken_forecast();   ///< paths and forecasts whose lists do not fit each other, with NaN in them
Observation attention_trace();   ///< a trace of a layer that is no Koopman attention; its growing state has modes

struct Sample {
  std::string name;
  Observation (*make)();
  /// Made when it is asked for, once: a test that looks at one need not wait for all.
  std::shared_ptr<const Observation> observation() const;
};
/// All of the above.
const std::vector<Sample>& all();

}  // namespace afterglow::samples
