// Figures of influence: tails over the lag with their laws, the memory race, routing, the position code of feedback,
// and the exponents of stacked blocks.
#pragma once
#include <string>
#include <vector>

#include "core/engine/analyses/influence/influence_view.h"
#include "views/figures/plot_functions.h"

namespace afterglow {

/// "lag^−0.52 ± 0.03", "half-life 12.3 ± 0.4": half the 95 % interval follows the value. Both laws if Akaike's
/// criterion does not separate them; empty without a law.
std::string law_text(const InfluenceFit& fit);
/// The routing to show: of the selected layer, else of the first one with feedback, else the first; nullptr without
/// one.
const RoutingView* selected_routing(const Observation& observation, const Selection& selection);

/// Empty axes over the lag, both logarithmic.
Figure lag_figure(const std::string& id, const std::string& title, const std::string& quantity,
                  std::string subtitle = "");
/// Values over the lags, times `scale`; those below `lowest` are left out, because they would flatten all others.
Line lag_line(std::string name, const std::vector<double>& lags, const std::vector<double>& values, double scale,
              double lowest);

/// Figures of the race that show all layers; three more for each layer follow: state, tail and recall.
inline constexpr std::size_t race_overviews = 3, race_figures_of_a_layer = 3;
/// The text above a layer's column: name, trained or fresh weights, state, time, lag of 1 %, law (may be empty).
std::vector<std::string> race_head(const RaceView& race, const RaceEntry& entry);

SubtitleOfPlot influence_subtitle, race_subtitle, routing_subtitle, position_code_subtitle, deep_profiles_subtitle,
    selective_retrieval_subtitle;
FiguresOfPlot influence_figures, race_figures, routing_figures, position_code_figures, deep_profiles_figures,
    selective_retrieval_figures;

}  // namespace afterglow
