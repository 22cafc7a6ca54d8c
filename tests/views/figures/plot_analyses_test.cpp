// A plot says all it has to say when nothing but its own analyses has been made.
#include "views/figures/plot_analyses.h"

#include <gtest/gtest.h>

#include "core/figure/svg_writer.h"
#include "tests/support/sample_observations.h"
#include "views/figures/plot_kinds.h"

namespace afterglow {
namespace {

/// What is seen where nothing but these is made, interventions aside.
Observation seen_by(Observation o, AnalysisSet analyses) {
  if (!has(analyses, Analysis::spectra)) {
    o.spectra = nullptr;
    o.spectrum_history.clear();
  }
  if (!has(analyses, Analysis::trace)) {
    o.trace = nullptr;
    o.token_weights = nullptr;
    o.trajectory = nullptr;
    o.forecast = nullptr;
    o.memory = nullptr;
  }
  if (!has(analyses, Analysis::probe)) o.probe = nullptr;
  if (!has(analyses, Analysis::solvers)) o.solvers = nullptr;
  if (!has(analyses, Analysis::theory)) {
    o.theory = nullptr;
    o.depth = nullptr;
  }
  if (!has(analyses, Analysis::influence)) o.influence = nullptr;
  return o;
}

std::vector<std::string> drawn(const PlotKind& kind, const Observation& o) {
  CurveStore curves;
  std::vector<std::string> drawn{kind.subtitle(o, {})};
  for (const Figure& figure : kind.prepare(o, {}, curves))
    drawn.push_back(svg_text(figure, page_size(SizePreset::one_column, figure)));
  return drawn;
}

TEST(PlotAnalyses, ArePerPlotAllThatItNeeds) {
  for (const Observation& o : {samples::mid_training(), samples::forecast(), samples::attention_trace()}) {
    for (const PlotKind& kind : plot_kinds())
      EXPECT_TRUE(drawn(kind, o) == drawn(kind, seen_by(o, analyses_for(kind.id)))) << o.preset << ", " << kind.id;
  }
}

TEST(PlotAnalyses, EveryPlotHasItsOwnAndAnUnknownOneAsksForAll) {
  for (const PlotKind& kind : plot_kinds()) EXPECT_NE(analyses_for(kind.id), all_analyses) << kind.id;
  EXPECT_EQ(analyses_for("a plot to come"), all_analyses);
}

}  // namespace
}  // namespace afterglow
