// Which layer and head a plot is asked for, told from which there are: nothing else is drawn in their place.
#pragma once
#include <string>

#include "core/engine/observation/observation.h"
#include "views/plots/plot_kinds.h"

namespace afterglow {

/// The index into ModelSummary::layers that "3", "1.ska", "layers.1.ska" or, where there is only one, "ska" means; -1
/// for "". Throws Error(usage) that lists the layers.
int layer_of_name(const std::string& name, const ModelSummary& model);

/// Throws Error(bad_input), which names a preset that would do, for a model of which the plot never shows anything.
void require_fit(const PlotKind& kind, const Observation& observation);

/// "; --layer takes 1 (0.mamba2)": the layers of which a plot for some kinds of layers shows something; else "".
std::string layers_that_fit(const PlotKind& kind, const ModelSummary& model);

/// Throws Error(usage), which lists what there is, where the plot would show another layer, head or token than these; a
/// number below 0 was not asked for.
void require_shown(const PlotKind& kind, const Observation& observation, int layer, int head, int token);

}  // namespace afterglow
