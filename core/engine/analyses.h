// What can be found out of a model beside its training. Each analysis takes time, so only what is asked for is made.
#pragma once

#include <array>

namespace afterglow {

enum class Analysis : unsigned {
  spectra = 1,
  trace = 2,  ///< with token weights and the path of training; of a forecaster its forecasts
  probe = 4,
  solvers = 8,
  theory = 16,  ///< with the gradient by depth
  influence = 32
};

/// Analyses together: the sum of their numbers.
using Analyses = unsigned;
constexpr Analyses operator|(Analysis a, Analysis b) { return static_cast<Analyses>(a) | static_cast<Analyses>(b); }
constexpr Analyses operator|(Analyses a, Analysis b) { return a | static_cast<Analyses>(b); }
constexpr bool has(Analyses analyses, Analysis one) { return (analyses & static_cast<Analyses>(one)) != 0; }

/// How often an analysis is made while training goes on (analysis_paces.h).
struct AnalysisKind {
  Analysis analysis;
  double least_interval;  ///< seconds from one to the next, however cheap it is
  double weight;          ///< its parts of the time that all that are asked for share
};

constexpr std::array analysis_kinds{
    AnalysisKind{Analysis::spectra, 1.0 / 30, 1}, AnalysisKind{Analysis::trace, 0.25, 1},
    AnalysisKind{Analysis::probe, 0.25, 1},       AnalysisKind{Analysis::solvers, 0.5, 1},
    AnalysisKind{Analysis::theory, 1, 1},         AnalysisKind{Analysis::influence, 0, 3},
};

constexpr Analyses all_analyses = [] {
  Analyses all = 0;
  for (const AnalysisKind& kind : analysis_kinds) all = all | kind.analysis;
  return all;
}();

}  // namespace afterglow
