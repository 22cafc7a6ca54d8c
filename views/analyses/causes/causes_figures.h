// Interventions as figures: the patch grid, ablation, the answer by depth, replaced memories.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/engine/observation/causes_view.h"
#include "views/figures/plot_functions.h"

namespace afterglow {

/// Every eighth place of a sequence, and the named ones and the asked one with their tokens.
std::vector<AxisTick> token_ticks(const std::vector<TokenView>& tokens, int asked, std::vector<int> named = {});

SubtitleOfPlot patch_subtitle;
/// Three grids: residual stream and outputs, values inside of the mixers, memories; and the paths from part to part.
FiguresOfPlot patch_figures;
inline constexpr const char* patch_path_id = "patch_path";
/// "0 mamba2 → 1 ska: 0.97 on this path alone"; empty if there is no such path.
std::string patch_path_text(const PatchView& view, int sender, int receiver);
std::string patch_path_sentence(const PatchView& view);
/// A sentence about the brightest cell of one grid.
std::string patch_sentence(const PatchView& view, PatchGroup group);
/// The group that a grid shows.
PatchGroup patch_group(std::string_view figure);
/// Row and token of the cell that restores most, except cells that restore all by construction; -1 without one.
std::pair<int, int> brightest_cell(const PatchView& view, PatchGroup group);
/// The index into PatchView::rows of row `row` of a group's grid; -1 outside of it.
int patch_row(const PatchView& view, PatchGroup group, int row);
/// "1 ska keys at token 4 v23: 0.931 exact, 0.902 to first order".
std::string patch_cell_text(const PatchView& view, int row, int token);

SubtitleOfPlot ablation_subtitle;
/// The bars of `count` parts from the one at place `first` on, the most needed parts first; names are next to the bars.
Figure ablation_bars(const AblationView& view, const std::string& subtitle, std::size_t first, std::size_t count);
FiguresOfPlot ablation_figures;

/// The mode of a head whose removal costs most accuracy of those measured, or the one of this number; nullptr without.
const AblatedPart* most_needed_mode(const AblationView* view, const HeadSpectrum& head, int mode = -1);
/// How long each mode of the selected head lasts, and what the answers lose without it, mode by mode in the same rows.
FiguresOfPlot mode_needs_figures;

SubtitleOfPlot logit_lens_subtitle, readout_subtitle, transplant_subtitle;
FiguresOfPlot logit_lens_figures, readout_figures, transplant_figures;

}  // namespace afterglow
