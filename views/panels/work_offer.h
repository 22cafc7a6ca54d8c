// A panel's offer about a slow analysis: its time, and buttons that compute more of it.
#pragma once
#include <string>

#include "views/frame/frame.h"

namespace afterglow {

/// The longest of the analyses behind the plot; nullptr if each takes at most some seconds.
const AnalysisWork* long_work(const PlotKind& kind, const Observation& observation);
/// Instead of figures: "All of it takes about 17 h."; empty if no analysis is slow.
std::string long_work_sentence(const PlotKind& kind, const Observation& observation);
/// The share of the work that takes this many seconds more, as a round number.
double larger_part(const AnalysisWork& work, double seconds);

/// A row at the lower end of `area` if only a part is computed; returns its height.
double draw_work_offer(Frame& frame, const PlotKind& kind, const Rect& area);

}  // namespace afterglow
