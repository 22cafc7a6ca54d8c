// Every plot on every sample observation: figures that can be drawn and exported, whatever the data.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "core/figure/files/page.h"
#include "core/figure/layout.h"
#include "tests/support/sample_observations.h"
#include "views/plots/plot_kinds.h"

namespace afterglow {
namespace {

struct Case {
  const PlotKind* kind;
  samples::Sample sample;
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.kind->id << " of " << one.sample.name; }

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const PlotKind& kind : plot_kinds()) {
    for (const samples::Sample& sample : samples::all()) cases.push_back({&kind, sample});
  }
  return cases;
}

/// Selections that point beyond what is there are part of the deal: a model was exchanged under them.
std::vector<Selection> selections() {
  Selection none, far, every;
  far.layer = 99;
  far.head = 99;
  far.mode = 99;
  far.token = 9999;
  far.power = 8;
  every.all_heads = every.scaled = every.change = true;
  every.mode = 1;
  every.token = 3;
  every.smoothing = 0;
  Selection mlp;
  mlp.layer = 2;
  return {none, far, every, mlp};
}

/// The recipe, and with it what is shown of the run.
void expect_carried(const Figure& figure, const PlotKind& kind, const std::string& recipe) {
  if (recipe.empty()) {
    EXPECT_TRUE(figure.recipe.empty());
    return;
  }
  nlohmann::json carried = nlohmann::json::parse(figure.recipe);
  EXPECT_EQ(carried["view"]["panel"], kind.id);
  EXPECT_EQ(carried["view"]["plot"], figure.id);
  carried.erase("view");
  EXPECT_EQ(carried, nlohmann::json::parse(recipe));
}

class FiguresOfSamples : public testing::TestWithParam<Case> {};

TEST_P(FiguresOfSamples, CanAlwaysBePreparedAndHaveNamesAndAxes) {
  const auto& [kind, sample] = GetParam();
  for (const Selection& selection : selections()) {
    CurveStore curves;
    std::set<std::string> ids;
    EXPECT_FALSE(kind->subtitle(*sample.observation(), selection).empty());
    for (const Figure& figure : prepared_figures(*kind, *sample.observation(), selection, curves)) {
      EXPECT_TRUE(ids.insert(figure.id).second) << "two figures are called " << figure.id;
      EXPECT_FALSE(figure.title.empty());
      EXPECT_FALSE(figure.x.label.empty()) << figure.id;
      EXPECT_FALSE(figure.y.label.empty()) << figure.id;
      EXPECT_FALSE(figure.provenance.empty());
      expect_carried(figure, *kind, sample.observation()->recipe);
      std::set<std::string> names;
      for (const Series& series : figure.series)
        EXPECT_TRUE(names.insert(series_name(series)).second) << figure.id << ": " << series_name(series);
      const FigureRanges ranges = figure_ranges(figure, {});
      EXPECT_LT(ranges.x.low, ranges.x.high) << figure.id;
      EXPECT_LT(ranges.y.low, ranges.y.high) << figure.id;
    }
  }
}

/// Without those that run the same code, more slowly.
std::vector<Case> quick_cases() {
  std::vector<Case> cases = all_cases();
  std::erase_if(cases,
                [](const Case& one) { return one.sample.name == "million points" || one.sample.name == "many heads"; });
  return cases;
}

class FiguresOfQuickSamples : public testing::TestWithParam<Case> {};

TEST_P(FiguresOfQuickSamples, DependOnObservationAndSelectionAlone) {
  const auto& [kind, sample] = GetParam();
  CurveStore kept;
  for (int round = 0; round < 2; ++round) {
    for (const Selection& selection : selections()) {
      CurveStore fresh;
      const auto first = prepared_figures(*kind, *sample.observation(), selection, kept);
      const auto second = prepared_figures(*kind, *sample.observation(), selection, fresh);
      ASSERT_EQ(first.size(), second.size());
      for (std::size_t i = 0; i < first.size(); ++i) {
        const PageSize page = page_size(SizePreset::one_column, first[i]);
        EXPECT_EQ(svg_text(first[i], page), svg_text(second[i], page)) << first[i].id;
      }
    }
  }
}

TEST(PlotsOfSamples, EachShowsSomethingOfOne) {
  for (const PlotKind& kind : plot_kinds()) {
    bool shows = false;
    for (const samples::Sample& sample : samples::all()) {
      CurveStore curves;
      for (const Figure& figure : kind.prepare(*sample.observation(), {}, curves))
        shows = shows || !figure.series.empty();
      if (shows) break;
    }
    EXPECT_TRUE(shows) << kind.id;
  }
}

std::string name_of_case(const testing::TestParamInfo<Case>& test) {
  std::string name = std::string(test.param.kind->id) + "_" + test.param.sample.name;
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, FiguresOfSamples, testing::ValuesIn(all_cases()), name_of_case);
INSTANTIATE_TEST_SUITE_P(All, FiguresOfQuickSamples, testing::ValuesIn(quick_cases()), name_of_case);

}  // namespace
}  // namespace afterglow
