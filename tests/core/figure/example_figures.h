// Figures of every kind, as the panels will make them; shared by the tests.
#pragma once
#include <vector>

#include "core/figure/figure.h"

namespace afterglow {

Figure training_figure();      ///< two curves with raw values behind and an event
Figure spectrum_figure();      ///< eigenvalue plane: unit circle, dots, trails
Figure tail_figure();          ///< log-log, three laws
Figure conditioning_figure();  ///< log y, limit lines
Figure heat_figure();          ///< causal matrix with colour bar
Figure diverging_figure();     ///< signed values, named rows and columns
Figure filter_figure();        ///< lines, bars with ghosts and dots together
Figure flawed_figure();        ///< NaN, infinities and isolated points
std::vector<Figure> example_figures();

/// Empty, one-point, non-finite, huge and mismatched figures of every kind.
std::vector<Figure> awkward_figures();

/// A noisy curve of a million points with 100 planted spikes of height 9, 10,000 points apart.
Figure million_point_figure();

}  // namespace afterglow
