// Resolves the layer and head of a plot from the options; a missing one is an error, never replaced by another.
#pragma once
#include <string>

#include "core/engine/observation/observation.h"
#include "views/plots/plot_kinds.h"

namespace afterglow {

/// The index into ModelSummary::layers that "3", "1.ska", "layers.1.ska" or, where there is only one, "ska" means; -1
/// for "". Throws Error(usage) with the list of layers.
int layer_of_name(const std::string& name, const ModelSummary& model);

/// Throws Error(usage) with a suggestion where there is no such plot.
const PlotKind& plot_kind_named(const std::string& name);

/// Throws Error(bad_input), which names a suitable preset, for a model of which the plot never shows anything.
void require_fit(const PlotKind& kind, const Observation& observation);

/// "; --layer takes 1 (0.mamba2)": the layers that the plot can show, where it cannot show all; else "".
std::string layers_that_fit(const PlotKind& kind, const ModelSummary& model);

/// Throws Error(usage) with the possible values where the plot cannot show this layer, head or token; a number below 0
/// means that the option is absent.
void require_shown(const PlotKind& kind, const Observation& observation, int layer, int head, int token);

}  // namespace afterglow
