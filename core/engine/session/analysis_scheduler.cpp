// One pace for each kind of analysis.
#include "core/engine/session/analysis_scheduler.h"

#include <algorithm>
#include <utility>

namespace afterglow {

namespace {

template <std::size_t... i>
std::array<AnalysisThrottle, analysis_infos.size()> fresh_paces(std::index_sequence<i...>) {
  return {AnalysisThrottle(analysis_infos[i].min_interval)...};
}

std::size_t index_of(Analysis analysis) {
  const auto found = std::ranges::find(analysis_infos, analysis, &AnalysisInfo::analysis);
  return static_cast<std::size_t>(found - analysis_infos.begin());
}

}  // namespace

void AnalysisThrottle::begin(double now) {
  begin_ = now;
  last_ = -1e9;
}

bool AnalysisThrottle::due(double share, double now) const {
  const double waited = now - last_, age = now - begin_;
  return waited >= min_interval_ && (waited >= cost_ / share || waited >= age / 2);
}

void AnalysisThrottle::looked(double from, double until) {
  last_ = from;
  cost_ = until - from;
}

AnalysisScheduler::AnalysisScheduler() : paces_(fresh_paces(std::make_index_sequence<analysis_infos.size()>{})) {}

double AnalysisScheduler::part_of(Analysis analysis, AnalysisSet asked) {
  double total = 0;
  for (const AnalysisInfo& kind : analysis_infos) total += has(asked, kind.analysis) ? kind.weight : 0;
  return analysis_infos[index_of(analysis)].weight / total;
}

AnalysisThrottle& AnalysisScheduler::of(Analysis analysis) { return paces_[index_of(analysis)]; }

void AnalysisScheduler::begin(AnalysisSet analyses, double now) {
  for (std::size_t i = 0; i < paces_.size(); ++i) {
    if (has(analyses, analysis_infos[i].analysis)) paces_[i].begin(now);
  }
}

}  // namespace afterglow
