// Which analyses have to be made for a plot to show this moment.
#pragma once
#include <string_view>

#include "core/engine/observation/analyses.h"

namespace afterglow {

/// Of a plot by its id (plot_kinds.h); everything where nothing is known of it.
AnalysisSet analyses_for(std::string_view plot);

}  // namespace afterglow
