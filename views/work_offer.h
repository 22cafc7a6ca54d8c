// What a panel says of an analysis that takes long: how long, and buttons that ask for more of it.
#pragma once
#include <string>

#include "views/frame.h"

namespace afterglow {

/// The longest of the analyses behind the plot; nullptr where none takes more than some seconds.
const AnalysisWork* long_work(const PlotKind& kind, const Observation& observation);
/// In the place of figures: "All of it takes about 17 h of this model."; empty where nothing takes long.
std::string long_work_sentence(const PlotKind& kind, const Observation& observation);
/// A share of the work that takes so many seconds more, as a round number.
double larger_part(const AnalysisWork& work, double seconds);

/// A row at the lower end of `area` where only a part is made; returns its height.
double draw_work_offer(Frame& frame, const PlotKind& kind, const Rect& area);

}  // namespace afterglow
