// What can be found out of a model beside its training. Each analysis takes time, so only what is asked for is made.
#pragma once

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
constexpr Analyses all_analyses = 63;
constexpr Analyses operator|(Analysis a, Analysis b) { return static_cast<Analyses>(a) | static_cast<Analyses>(b); }
constexpr Analyses operator|(Analyses a, Analysis b) { return a | static_cast<Analyses>(b); }

}  // namespace afterglow
