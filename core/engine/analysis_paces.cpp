// One pace for each kind of analysis.
#include "core/engine/analysis_paces.h"

#include <algorithm>
#include <utility>

namespace afterglow {

namespace {

template <std::size_t... i>
std::array<Pace, analysis_kinds.size()> fresh_paces(std::index_sequence<i...>) {
  return {Pace(analysis_kinds[i].least_interval)...};
}

std::size_t index_of(Analysis analysis) {
  const auto found = std::ranges::find(analysis_kinds, analysis, &AnalysisKind::analysis);
  return static_cast<std::size_t>(found - analysis_kinds.begin());
}

}  // namespace

void Pace::begin(double now) {
  begin_ = now;
  last_ = -1e9;
}

bool Pace::due(double share, double now) const {
  const double waited = now - last_, age = now - begin_;
  return waited >= least_interval_ && (waited >= cost_ / share || waited >= age / 2);
}

void Pace::looked(double from, double until) {
  last_ = from;
  cost_ = until - from;
}

AnalysisPaces::AnalysisPaces() : paces_(fresh_paces(std::make_index_sequence<analysis_kinds.size()>{})) {}

double AnalysisPaces::part_of(Analysis analysis, Analyses asked) {
  double total = 0;
  for (const AnalysisKind& kind : analysis_kinds) total += has(asked, kind.analysis) ? kind.weight : 0;
  return analysis_kinds[index_of(analysis)].weight / total;
}

Pace& AnalysisPaces::of(Analysis analysis) { return paces_[index_of(analysis)]; }

void AnalysisPaces::begin(Analyses analyses, double now) {
  for (std::size_t i = 0; i < paces_.size(); ++i) {
    if (has(analyses, analysis_kinds[i].analysis)) paces_[i].begin(now);
  }
}

}  // namespace afterglow
