// What the figures of the influence laboratory say about measurements whose laws are known.
#include "views/analyses/influence/influence_figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "core/analysis/influence/influence.h"
#include "core/engine/observation/influence_theory.h"
#include "core/engine/observation/run_numbers.h"
#include "core/figure/decimate.h"
#include "core/figure/readout.h"
#include "tests/support/sample_influence.h"
#include "tests/support/sample_observations.h"

namespace afterglow {
namespace {

const Line* line_that_starts(const Figure& figure, const std::string& start) {
  for (const Series& series : figure.series) {
    const auto* line = std::get_if<Line>(&series);
    if (line && line->name.rfind(start, 0) == 0) return line;
  }
  return nullptr;
}

std::vector<Figure> figures_of(std::vector<Figure> (*make)(const Observation&, const Selection&, CurveStore&),
                               const Observation& observation, const Selection& selection = {}) {
  CurveStore curves;
  return make(observation, selection, curves);
}

TEST(InfluenceFigures, NameTheLawOfEveryLayerAndTheSilentOnes) {
  const Observation o = samples::mid_training();
  const std::vector<Figure> figures = figures_of(influence_figures, o);
  ASSERT_EQ(figures.size(), 2u);
  EXPECT_EQ(figures[0].id, "influence_blocks");
  EXPECT_TRUE(line_that_starts(figures[0], "0 mamba2: half-life 6.93"));
  EXPECT_TRUE(line_that_starts(figures[0], "1 sessa: lag^−0.4"));
  EXPECT_TRUE(line_that_starts(figures[0], "2 ska: no influence yet"));
  EXPECT_TRUE(line_that_starts(figures[0], "whole stack: lag^−0.4"));
}

TEST(InfluenceFigures, SayHowSureAFitIsAndWhenTheOtherLawIsAsGood) {
  InfluenceFit fit;
  fit.law = InfluenceLaw::power;
  fit.preference = 30;
  fit.power = {.slope = -0.4, .slope_low = -0.43, .slope_high = -0.37};
  fit.half_life = 12;
  fit.half_life_low = 10;
  fit.half_life_high = 16;
  EXPECT_EQ(law_text(fit), "lag^−0.4 ± 0.03");
  fit.preference = 1;
  EXPECT_EQ(law_text(fit), "lag^−0.4 ± 0.03, or half-life 12 ± 3");
  fit.law = InfluenceLaw::exponential;
  fit.preference = 30;
  EXPECT_EQ(law_text(fit), "half-life 12 ± 3");
  fit.half_life_high = 40;
  EXPECT_EQ(law_text(fit), "half-life 12 (10 to 40)") << "far from symmetric";
  fit.half_life_high = INFINITY;
  EXPECT_EQ(law_text(fit), "half-life 12 (> 10)") << "the tail may not fade at all";
}

TEST(InfluenceFigures, EstimatesStandBetweenTheirBoundsAndExactNormsHaveNone) {
  const Observation o = samples::mid_training();
  const std::vector<Figure> figures = figures_of(influence_figures, o);
  const Line* low = line_that_starts(figures[0], "1 sessa: at least");
  const Line* high = line_that_starts(figures[0], "1 sessa: at most");
  const Line* own = line_that_starts(figures[0], "1 sessa: lag^");
  ASSERT_TRUE(low && high && own);
  EXPECT_TRUE(low->is_quiet && high->is_quiet) << "the estimate speaks for them in the legend";
  const CurveView below(low->curve), at(own->curve), above(high->curve);
  for (std::size_t i = 0; i < at.size(); ++i) {
    EXPECT_LT(below.y(i), at.y(i));
    EXPECT_GT(above.y(i), at.y(i));
  }
  EXPECT_FALSE(line_that_starts(figures[1], "0 mamba2: at least")) << "weights of tokens are exact";
}

TEST(InfluenceFigures, TheoryMeetsTheMeasuredTailAndFollowsItsOwnLaw) {
  const Observation o = samples::mid_training();
  const Figure figure = figures_of(influence_figures, o)[0];
  const Line* exponential = line_that_starts(figure, "0 mamba2 in theory: exp(−0.1 lag), forgetting");
  const Line* measured = line_that_starts(figure, "0 mamba2");
  ASSERT_TRUE(exponential && measured);
  const CurveView theory(exponential->curve), tail(measured->curve);
  ASSERT_EQ(theory.size(), tail.size());
  for (std::size_t i = 0; i < theory.size(); ++i) EXPECT_NEAR(theory.y(i), tail.y(i), 1e-9);
  const Line* uniform = line_that_starts(figure, "1 sessa if uniform: γ = 0.6");
  ASSERT_TRUE(uniform);
  const CurveView closed(uniform->curve);
  for (std::size_t i = 1; i < closed.size(); ++i) {
    EXPECT_NEAR(closed.y(i) / closed.y(0),
                uniform_routing_influence(0.6, 3, closed.x(i)) / uniform_routing_influence(0.6, 3, closed.x(0)), 1e-9);
  }
}

// A feedback with gain 0.6 whose weights reach 1.3/t: the envelope of theorem 8, and one block makes no deep law.
TEST(InfluenceFigures, TheoryNamesItsRegime) {
  Observation o = samples::mid_training();
  const Figure figure = figures_of(influence_figures, o)[0];
  EXPECT_TRUE(line_that_starts(figure, "1 sessa if uniform: γ = 0.6, lag^−0.4, decaying"));
  const Line* envelope = line_that_starts(figure, "1 sessa envelope: lag^−");
  ASSERT_TRUE(envelope);
  const double beta = 1 - 0.6 * o.influence->routing[1].c2;
  const CurveView curve(envelope->curve);
  EXPECT_NEAR(curve.y(5) / curve.y(2), std::pow(curve.x(5) / curve.x(2), -beta), 1e-9);
  EXPECT_FALSE(line_that_starts(figure, "whole stack, theorem 12"));

  auto doubled = std::make_shared<InfluenceView>(*o.influence);
  doubled->routing.push_back(doubled->routing[1]);
  doubled->routing.back().layer = 5;
  o.influence = doubled;
  const Line* deep =
      line_that_starts(figures_of(influence_figures, o)[0], "whole stack, theorem 12: k = 2, lag^0.2, increasing");
  EXPECT_TRUE(deep) << "2 (1 - 0.4) - 1";
}

TEST(InfluenceFigures, TheHeadlineSaysWhereTheorem8DoesNotApply) {
  Observation o = samples::mid_training();
  EXPECT_EQ(influence_subtitle(o, {}).find("theorem 8"), std::string::npos);
  auto broken = std::make_shared<InfluenceView>(*o.influence);
  broken->routing[1].c2 = 2;
  o.influence = broken;
  EXPECT_TRUE(influence_subtitle(o, {}).starts_with("theorem 8 does not apply: γ_max c₂ ≥ 1 in 1 ska"))
      << influence_subtitle(o, {});
}

// The constants of theorem 23 are measured: its curve does not depend on the tail, and names what fails.
TEST(InfluenceFigures, EndToEndEnvelopesStandAtTheirHeight) {
  Observation o = samples::mid_training();
  auto measured = std::make_shared<InfluenceView>(*o.influence);
  SourceForcing forcing;
  forcing.own = 1;
  forcing.outlet = 2;
  for (int t = 0; t < measured->tokens; ++t) {
    forcing.forward.push_back(t > 0 ? 1.5 / t : 0);
    forcing.logits.push_back(t > 0 ? 0.4 / t : 0);
  }
  forcing.routing = forcing.logits;
  measured->routing[1].forcing = {forcing};
  o.influence = measured;
  const Figure figure = figures_of(influence_figures, o)[0];
  const Line* line = line_that_starts(figure, "1 sessa, theorem 23: β = ");
  ASSERT_TRUE(line);
  EXPECT_NE(line->name.find("dilution 1.5, logits 0.4, own input 1"), std::string::npos) << line->name;
  EXPECT_EQ(line->name.find("assumption"), std::string::npos) << line->name;
  const CurveView curve(line->curve);
  const double beta = 1 - 0.6 * measured->routing[1].c2;
  const std::vector<double> heights = forced_envelope(forcing, beta);
  for (std::size_t i = 0; i < curve.size(); ++i)
    EXPECT_NEAR(curve.y(i), heights[static_cast<std::size_t>(curve.x(i))], 1e-9);

  auto broken = std::make_shared<InfluenceView>(*measured);
  broken->routing[1].c2 = 2;
  broken->routing[1].forcing[0].forward[40] *= 4;
  for (InfluenceTail& tail : broken->blocks) {
    for (double& value : tail.values) value *= 1e3;
  }
  o.influence = broken;
  const Figure above = figures_of(influence_figures, o)[0];
  const Line* solve = line_that_starts(above, "1 sessa, theorem 23 with the measured solve");
  ASSERT_TRUE(solve);
  for (const char* part : {"γ_max c₂ = 1.2 ≥ 1, so assumption 16 does not hold", "above it at lag 1",
                           "assumption 21 does not hold: its constant is 4 times larger beyond the first half"})
    EXPECT_NE(solve->name.find(part), std::string::npos) << solve->name;

  auto silent = std::make_shared<InfluenceView>(*measured);
  for (InfluenceTail& tail : silent->blocks) tail.is_silent = tail.is_silent || tail.kind == "sessa";
  SourceForcing state;
  state.own = 4;
  state.forward.assign(static_cast<std::size_t>(silent->tokens), INFINITY);
  for (std::size_t t = 4; t < state.forward.size(); ++t)
    state.forward[t] = 4 * std::exp(-0.05 * static_cast<double>(t));
  silent->routing[0].forcing = {state};
  o.influence = silent;
  const Figure of_state = figures_of(influence_figures, o)[0];
  const Line* fading = line_that_starts(of_state, "0 mamba2, proposition 4: at most 4 e^−Δ");
  ASSERT_TRUE(fading) << "the feedback says nothing yet";
  EXPECT_EQ(CurveView(fading->curve).x(0), 4) << "after the convolution";
  EXPECT_NEAR(CurveView(fading->curve).y(0), 4 * std::exp(-0.2), 1e-9);
}

TEST(InfluenceFigures, AChosenLayerStandsWithItsTheoryAlone) {
  const Observation o = samples::mid_training();
  Selection mamba;
  mamba.layer = 1;
  const Figure figure = figures_of(influence_figures, o, mamba)[0];
  EXPECT_TRUE(line_that_starts(figure, "0 mamba2 in theory"));
  EXPECT_TRUE(line_that_starts(figure, "0 mamba2: at least"));
  EXPECT_TRUE(line_that_starts(figure, "whole stack: at least"));
  EXPECT_TRUE(line_that_starts(figure, "1 sessa: lag^")) << "the others' tails stay";
  for (const char* gone : {"1 sessa if uniform", "1 sessa envelope", "1 sessa: at least"})
    EXPECT_FALSE(line_that_starts(figure, gone)) << gone;
}

TEST(InfluenceFigures, OfAFixedRoutingTheFeedbackAloneHasItsLaw) {
  const Observation o = samples::mid_training();
  auto both = std::make_shared<InfluenceView>(*o.influence);
  InfluenceTail whole = both->fixed.back();
  whole.is_resolvent = false;
  whole.label = "1 sessa";
  both->fixed.insert(both->fixed.begin(), whole);
  Observation seen = o;
  seen.influence = both;
  const Figure figure = figures_of(influence_figures, seen)[1];
  EXPECT_TRUE(line_that_starts(figure, "1 sessa, feedback alone if uniform: γ = 0.6, lag^−0.4, decaying"));
  EXPECT_FALSE(line_that_starts(figure, "1 sessa if uniform: γ = 0.6, lag^−0.4, decaying"));
}

TEST(InfluenceFigures, LayersOfAModelThatCostAlikeHaveOneName) {
  Observation o = samples::mid_training();
  auto race = std::make_shared<RaceView>(*o.race);
  RaceEntry trained = race->entries[1];
  trained.weights = "trained";
  for (const char* label : {"3 mamba2", "5 mamba2", "7 mamba2"}) {
    trained.tail.label = label;
    trained.step_ms *= 1.1;
    race->entries.push_back(trained);
  }
  o.race = race;
  const Figure cost = figures_of(race_figures, o)[2];
  std::vector<std::string> labels, names;
  for (const ScatterPoint& point : std::get<Scatter>(cost.series[0]).points) {
    labels.push_back(point.label);
    names.push_back(point.id);
  }
  EXPECT_THAT(labels, ::testing::ElementsAre("sessa", "mamba2", "3 × mamba2", "", ""));
  EXPECT_THAT(names, ::testing::Contains("5 mamba2 trained")) << "the pointer still tells them apart";
}

TEST(InfluenceFigures, RaceStartsEveryTailAtOneAndHasAColumnForEach) {
  const Observation o = samples::mid_training();
  const std::vector<Figure> figures = figures_of(race_figures, o);
  ASSERT_EQ(figures.size(), race_overviews + 2 * race_figures_of_a_layer) << "three overviews, two columns";
  for (const Series& series : figures[0].series) {
    const CurveView curve(std::get<Line>(series).curve);
    EXPECT_EQ(curve.y(0), 1);
  }
  EXPECT_TRUE(line_that_starts(figures[0], "sessa: above 1 % up to lag 47 · 24.6 KB · 0.04 ms · lag^−0.4"))
      << std::get<Line>(figures[0].series[0]).name;
  EXPECT_TRUE(line_that_starts(figures[0], "mamba2: falls to 1 % at lag 16.2 · 4.1 KB · 0.02 ms · half-life 2.31"))
      << std::get<Line>(figures[0].series[1]).name;
  const Line* recall = line_that_starts(figures[1], "mamba2");
  ASSERT_TRUE(recall);
  EXPECT_EQ(CurveView(recall->curve).y(0), o.race->entries[1].recall[0]);
  const Scatter& price = std::get<Scatter>(figures[2].series[0]);
  EXPECT_EQ(price.points[0].y, 24576);
  for (const ScatterPoint& point : price.points) {
    EXPECT_LT(figures[2].x.range->low, point.x / 1.5) << "no dot is cut by the frame";
    EXPECT_GT(figures[2].y.range->high, point.y * 2.5);
  }

  const HeatMap& state = std::get<HeatMap>(figures[3].series[0]);
  EXPECT_EQ(figures[3].id, "race_1_sessa_state");
  EXPECT_EQ(state.rows, 12);
  EXPECT_EQ(state.cols, 8);
  EXPECT_EQ(state.cells[5], static_cast<double>(o.race->entries[0].state[5]));
  EXPECT_THAT(figures[3].subtitle, testing::HasSubstr("0.04 ms per token · state · 12 × 8"));
  EXPECT_EQ(figures[4].x.range, figures[7].x.range);
  EXPECT_EQ(figures[4].y.range, figures[7].y.range);
  EXPECT_EQ(figures[4].title, "sessa");
  EXPECT_EQ(figures[8].id, "race_2_mamba2_recall");
  EXPECT_EQ(figures[8].x.range, figures[7].x.range) << "the lags of a column stand over each other";
}

TEST(InfluenceFigures, EveryColumnOfTheRaceIsHeadedByItsPrice) {
  const Observation o = samples::mid_training();
  const RaceView& race = *o.race;
  EXPECT_THAT(race_head(race, race.entries[1]),
              testing::ElementsAre("mamba2", "4.1 KB", "0.02 ms per token", "1 % at lag 16.2", "half-life 2.31"));
  for (const RaceEntry& entry : race.entries) {
    const std::vector<std::string> head = race_head(race, entry);
    EXPECT_THAT(head[1], testing::HasSubstr("B"));
    EXPECT_THAT(head[2], testing::HasSubstr(" ms per token"));
  }
}

TEST(InfluenceFigures, WhatIsStillBeingMeasuredSaysSo) {
  Observation o = samples::mid_training();
  auto race = std::make_shared<RaceView>(*o.race);
  race->entries.clear();
  race->contestants = 8;
  o.race = race;
  EXPECT_THAT(race_subtitle(o, {}), testing::StartsWith("Measuring 8 layers: 0 done"));
  auto influence = std::make_shared<InfluenceView>(*o.influence);
  influence->is_complete = false;
  o.influence = influence;
  EXPECT_THAT(influence_subtitle(o, {}), testing::StartsWith("measuring"));
}

TEST(InfluenceFigures, TheRaceNamesLayersThatItLeavesOut) {
  Observation o = samples::mid_training();
  EXPECT_THAT(race_subtitle(o, {}), testing::Not(testing::HasSubstr("without")));
  auto race = std::make_shared<RaceView>(*o.race);
  race->left_out = {"sessa", "gka"};
  o.race = race;
  EXPECT_THAT(race_subtitle(o, {}), testing::HasSubstr(" · without sessa, gka (too wide for this device) · seed"));
}

TEST(InfluenceFigures, TheRaceSaysWhichWeightsAreTrained) {
  Observation o = samples::mid_training();
  EXPECT_THAT(race_subtitle(o, {}), testing::EndsWith("fresh weights"));
  auto race = std::make_shared<RaceView>(*o.race);
  race->entries.push_back(race->entries[0]);
  race->entries.back().weights = "trained, step 120";
  o.race = race;
  EXPECT_THAT(race_subtitle(o, {}), testing::Not(testing::HasSubstr("initial")));
  const auto begins_with = [&](const RaceEntry& entry) {
    const std::vector<std::string> head = race_head(*race, entry);
    return std::vector(head.begin(), head.begin() + 2);
  };
  EXPECT_THAT(begins_with(race->entries[0]), testing::ElementsAre("sessa", "fresh weights"));
  EXPECT_THAT(begins_with(race->entries[2]), testing::ElementsAre("sessa", "trained, step 120"));
}

TEST(InfluenceFigures, NoTwoLinesOfTheRaceLookAlikeAndALayerLooksTheSameInBothPlots) {
  Observation o = samples::mid_training();
  auto race = std::make_shared<RaceView>(*o.race);
  while (race->entries.size() < 12) {
    race->entries.push_back(race->entries[race->entries.size() % 2]);
    race->entries.back().weights = "trained, step " + std::to_string(race->entries.size());
  }
  race->entries[3].recall.clear();  // not yet measured
  o.race = race;
  const std::vector<Figure> figures = figures_of(race_figures, o);
  std::map<std::string, Line> tails;
  std::set<std::tuple<Role, int, Marker>> looks;
  const auto fades = [](const RaceEntry& one) { return one.tail.fit.law == InfluenceLaw::exponential; };
  const auto fading = std::ranges::find_if(race->entries, fades);
  ASSERT_NE(fading, race->entries.end());
  int time_invariant = 0;
  for (const Series& series : figures[0].series) {
    const Line& line = std::get<Line>(series);
    if (line.name.starts_with("constant feedback (proposition 3), half-life of ")) {
      const double ratio = line.curve.y.span()[1] / line.curve.y.span()[0];
      const double lags = line.curve.x.span()[1] - line.curve.x.span()[0];
      EXPECT_NEAR(-lags / std::log2(ratio), fading->tail.fit.half_life, 1e-6);
      ++time_invariant;
      continue;
    }
    EXPECT_TRUE(looks.insert({line.ink.role, line.ink.index, line.marker}).second) << line.name;
    tails[std::string(stem_of(line.name))] = line;
  }
  EXPECT_EQ(time_invariant, 1);
  EXPECT_EQ(tails.size(), 12u);
  EXPECT_EQ(figures[1].series.size(), 11u);
  for (const Series& series : figures[1].series) {
    const Line& line = std::get<Line>(series);
    ASSERT_TRUE(tails.contains(line.name)) << line.name;
    EXPECT_EQ(line.marker, tails[line.name].marker) << line.name;
    EXPECT_EQ(line.ink, tails[line.name].ink) << line.name;
  }
}

// Over training follows it by its name.
TEST(InfluenceFigures, BetaOfAFeedbackIsANumberOfTheRun) {
  const Observation o = samples::mid_training();
  int found = 0, feedbacks = 0;
  for (const RoutingView& routing : o.influence->routing) {
    if (routing.gain.empty()) continue;
    ++feedbacks;
    const double beta = 1 - bounds_of(routing).mass;
    found += static_cast<int>(std::ranges::count_if(numbers_of(o), [&](const NamedNumber& one) {
      return one.name.starts_with("influence.routing.") && one.name.ends_with(".beta") &&
             std::abs(one.value.number - beta) < 1e-12;
    }));
  }
  EXPECT_GE(feedbacks, 1);
  EXPECT_EQ(found, feedbacks);
}

TEST(InfluenceFigures, TailsOfKindsThatShareAColourDifferInTheirMarkers) {
  Observation o = samples::mid_training();
  auto view = std::make_shared<InfluenceView>(*o.influence);
  InfluenceTail other = view->blocks.at(0);
  ASSERT_EQ(other.kind, "mamba2");
  other.kind = "mamba3";
  other.label = "3 mamba3";
  view->blocks.push_back(other);
  o.influence = view;
  const Figure figure = figures_of(influence_figures, o)[0];
  const Line *first = line_that_starts(figure, "0 mamba2: half"), *second = line_that_starts(figure, "3 mamba3");
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->ink, second->ink);
  EXPECT_NE(first->marker, second->marker);
}

TEST(InfluenceFigures, RoutingShowsWhatTheKindHas) {
  const Observation o = samples::mid_training();
  const auto ids = [](const std::vector<Figure>& figures) {
    std::string text;
    for (const Figure& figure : figures) text += figure.id + " ";
    return text;
  };
  EXPECT_EQ(ids(figures_of(routing_figures, o)),
            "routing_feedback routing_resolvent routing_hops routing_assumptions routing_reach routing_gain "
            "routing_effective "
            "routing_spread "
            "routing_hop_profiles ")
      << "a feedback comes first";
  Selection mamba;
  mamba.layer = 1;
  EXPECT_EQ(ids(figures_of(routing_figures, o, mamba)), "routing_weights routing_decay routing_freeze ");
}

TEST(InfluenceFigures, TokensStandBelowWhatPropositionTwentyFiveAllows) {
  const Observation o = samples::mid_training();
  const auto figures = figures_of(routing_figures, o);
  const Bars shares = std::get<Bars>(figures[3].series[0]);
  ASSERT_EQ(shares.bars.size(), 5u);
  EXPECT_NEAR(shares.bars[4].value, 4.0 / 40, 1e-3) << "the longest answer against the bound of the longest token";
  const Figure& reach = figures[4];
  ASSERT_EQ(reach.id, "routing_reach");
  const Scatter& dots = std::get<Scatter>(reach.series[0]);
  const CurveView bound(std::get<Line>(reach.series[1]).curve);
  EXPECT_EQ(dots.points.size(), static_cast<std::size_t>(o.influence->routing[0].tokens));
  EXPECT_EQ(bound.y(2), 40);
  for (const ScatterPoint& point : dots.points) EXPECT_LT(point.y, bound.y(0));
}

TEST(InfluenceFigures, HopsStandOverTheLagWithTheirSum) {
  const Observation o = samples::mid_training();
  const Figure figure = figures_of(routing_figures, o).back();
  ASSERT_EQ(figure.series.size(), 3u);
  const CurveView one(std::get<Line>(figure.series[0]).curve), two(std::get<Line>(figure.series[1]).curve),
      all(std::get<Line>(figure.series[2]).curve);
  EXPECT_EQ(std::get<Line>(figure.series[2]).name, "all hops");
  EXPECT_EQ(one.x(0), 1);
  EXPECT_EQ(two.x(0), 2) << "two hops take two tokens";
  for (std::size_t i = 0; i < two.size(); ++i) EXPECT_LE(one.y(i + 1) + two.y(i), all.y(i + 1) * (1 + 1e-9));
}

TEST(InfluenceFigures, PositionCodeRisesAndStandsAloneWithoutAFeedback) {
  const Observation o = samples::mid_training();
  const Figure seen = figures_of(position_code_figures, o)[0];
  const Line* code = line_that_starts(seen, "sessa");
  ASSERT_TRUE(code);
  const CurveView values(code->curve);
  EXPECT_EQ(values.y(0), 1);
  EXPECT_GT(values.y(values.size() - 1), 1.5);
  EXPECT_EQ(figures_of(position_code_figures, samples::nothing())[0].series.size(), 3u);
}

TEST(InfluenceFigures, DecaySaysTheMeanStepAndWhenTimeIsFrozen) {
  Observation o = samples::mid_training();
  Selection mamba;
  mamba.layer = 1;
  EXPECT_EQ(figures_of(routing_figures, o, mamba)[1].subtitle,
            "dashed: geometric mean · mean step Δ 0.05 · mean rate 0.1 per token (0.1 in the slowest 16): fades over "
            "10 tokens");
  auto still = std::make_shared<InfluenceView>(*o.influence);
  still->routing[0].mean_rate = 0.001;
  o.influence = still;
  EXPECT_THAT(figures_of(routing_figures, o, mamba)[1].subtitle,
              testing::EndsWith("fades over 1000 tokens, frozen time"));
}

TEST(InfluenceFigures, DeepProfilesNameTheRegimesAndTheirIntervals) {
  const Observation o = samples::mid_training();
  const std::vector<Figure> figures = figures_of(deep_profiles_figures, o);
  ASSERT_EQ(figures.size(), 2u);
  EXPECT_TRUE(line_that_starts(figures[0], "k = 1 decaying: lag^−0.5"));
  const Line* frozen = line_that_starts(figures[0], "k = 2 frozen: lag^");
  ASSERT_TRUE(frozen);
  EXPECT_THAT(frozen->name, testing::EndsWith(" (0)"));
  EXPECT_TRUE(line_that_starts(figures[0], "k = 3 increasing: lag^0.5"));
  const auto& points = std::get<Scatter>(figures[1].series.back()).points;
  ASSERT_EQ(points.size(), 3u);
  for (int k = 1; k <= 3; ++k) {
    const DeepProfile& deep = (*o.influence->deep)[static_cast<std::size_t>(k - 1)];
    EXPECT_EQ(points[static_cast<std::size_t>(k - 1)].y, deep.fit.power.slope);
    const Line* interval = line_that_starts(figures[1], "interval, β = 0.5, k = " + std::to_string(k));
    ASSERT_TRUE(interval);
    EXPECT_EQ(CurveView(interval->curve).y(0), deep.fit.power.slope_low);
    EXPECT_EQ(CurveView(interval->curve).y(1), deep.fit.power.slope_high);
  }
  EXPECT_TRUE(figures_of(deep_profiles_figures, samples::nothing()).empty());
}

}  // namespace
}  // namespace afterglow
