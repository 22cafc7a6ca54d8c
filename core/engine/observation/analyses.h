// What can be found out of a model beside its training. Each analysis takes time, so the worker makes only those that
// are requested (core/engine/session/analysis_table.h has a row for each).
#pragma once

namespace afterglow {

/// One bit each, so that a set of them is a sum.
enum class Analysis : unsigned {
  spectra = 1,
  trace = 2,  ///< with token weights and the path of training; of a forecaster its forecasts
  probe = 4,
  solvers = 8,
  theory = 16,  ///< with the gradient by depth
  influence = 32,
  race = 64,       ///< all layers on one input
  phase_map = 128  ///< other trainings, over two fields of the recipe: minutes or hours
};
constexpr Analysis last_analysis = Analysis::race;

using AnalysisSet = unsigned;
constexpr AnalysisSet set_of(Analysis one) { return static_cast<AnalysisSet>(one); }
constexpr AnalysisSet operator|(Analysis a, Analysis b) { return set_of(a) | set_of(b); }
constexpr AnalysisSet operator|(AnalysisSet a, Analysis b) { return a | set_of(b); }
constexpr bool has(AnalysisSet analyses, Analysis one) { return (analyses & set_of(one)) != 0; }

/// Of the present moment: all but those that train runs of their own, which are made where they are asked for by name.
constexpr AnalysisSet all_analyses = 2 * set_of(last_analysis) - 1;

}  // namespace afterglow
