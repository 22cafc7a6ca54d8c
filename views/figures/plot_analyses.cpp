// The analyses of each plot.
#include "views/figures/plot_analyses.h"

#include <algorithm>
#include <array>

namespace afterglow {

namespace {

constexpr AnalysisSet nothing = 0;  // curves and settings come with every observation
constexpr AnalysisSet spectra = static_cast<AnalysisSet>(Analysis::spectra),
                      trace = static_cast<AnalysisSet>(Analysis::trace),
                      solvers = static_cast<AnalysisSet>(Analysis::solvers),
                      influence = static_cast<AnalysisSet>(Analysis::influence);
// Theory is shown of the model that is being probed.
constexpr AnalysisSet probe = Analysis::probe | Analysis::spectra, theory = probe | Analysis::theory;

struct PlotAnalyses {
  std::string_view plot;
  AnalysisSet analyses;
};

constexpr std::array table{
    PlotAnalyses{"training", nothing},
    PlotAnalyses{"spectrum", spectra},
    PlotAnalyses{"power_filter", spectra},
    PlotAnalyses{"stepper", trace},
    PlotAnalyses{"conditioning", spectra | trace | solvers},
    PlotAnalyses{"token_weights", trace},
    PlotAnalyses{"solver_race", solvers},
    PlotAnalyses{"gate", solvers},
    PlotAnalyses{"gradient_check", solvers},
    PlotAnalyses{"influence", influence},
    PlotAnalyses{"race", influence},
    PlotAnalyses{"routing", influence},
    PlotAnalyses{"position_code", influence},
    PlotAnalyses{"deep_profiles", influence},
    PlotAnalyses{"probe", probe | trace},
    PlotAnalyses{"perturbation", theory},
    PlotAnalyses{"filter_theory", theory},
    PlotAnalyses{"linear_gap", theory},
    PlotAnalyses{"query_jacobian", theory},
    PlotAnalyses{"gradient_depth", theory},
    PlotAnalyses{"memory", theory},
    PlotAnalyses{"trajectory", trace},
    PlotAnalyses{"kl_spectrum", trace},
    PlotAnalyses{"temporal_modes", trace},
    PlotAnalyses{"forecast", trace},
    PlotAnalyses{"memory_tokens", trace},
};

}  // namespace

AnalysisSet analyses_for(std::string_view plot) {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const PlotAnalyses& known) { return known.plot == plot; });
  return found == table.end() ? all_analyses : found->analyses;
}

}  // namespace afterglow
