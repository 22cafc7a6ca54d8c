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

/// AnalysisSet together: the sum of their numbers.
using AnalysisSet = unsigned;
constexpr AnalysisSet operator|(Analysis a, Analysis b) {
  return static_cast<AnalysisSet>(a) | static_cast<AnalysisSet>(b);
}
constexpr AnalysisSet operator|(AnalysisSet a, Analysis b) { return a | static_cast<AnalysisSet>(b); }
constexpr bool has(AnalysisSet analyses, Analysis one) { return (analyses & static_cast<AnalysisSet>(one)) != 0; }

/// How often an analysis is made while training goes on (analysis_paces.h).
struct AnalysisInfo {
  Analysis analysis;
  double min_interval;  ///< seconds from one to the next, however cheap it is
  double weight;        ///< its parts of the time that all that are asked for share
};

constexpr std::array analysis_infos{
    AnalysisInfo{Analysis::spectra, 1.0 / 30, 1}, AnalysisInfo{Analysis::trace, 0.25, 1},
    AnalysisInfo{Analysis::probe, 0.25, 1},       AnalysisInfo{Analysis::solvers, 0.5, 1},
    AnalysisInfo{Analysis::theory, 1, 1},         AnalysisInfo{Analysis::influence, 0, 3},
};

constexpr AnalysisSet all_analyses = [] {
  AnalysisSet all = 0;
  for (const AnalysisInfo& kind : analysis_infos) all = all | kind.analysis;
  return all;
}();

}  // namespace afterglow
