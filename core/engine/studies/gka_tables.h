// The tables of Gated KalmaNet's ablations and of its figure 3a.
#pragma once
#include "core/engine/studies/table.h"

namespace afterglow {

/// Appendices F and G in miniature (tables 6 and 7, figures 7 and 9): gating, alpha connection, strength of the ridge,
/// adaptive or constant, and iterations; short context on stories, long context as recall at lengths beyond training's.
Table gka_ablation_table(bool is_small = false);
/// Figure 3a with the settings of appendix D: no gates and no alpha connection, four learning rates of which the best
/// counts, 256 tokens with 16 and 64 pairs.
Table gka_figure3_table(bool is_small = false);

}  // namespace afterglow
