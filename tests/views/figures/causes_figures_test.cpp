// What the figures of interventions say.
#include "views/analyses/causes/causes_figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "tests/support/sample_observations.h"

namespace afterglow {
namespace {

const Figure* named(const std::vector<Figure>& figures, std::string_view id) {
  const auto found = std::ranges::find(figures, id, &Figure::id);
  return found == figures.end() ? nullptr : &*found;
}

TEST(PatchFigures, ShowWhatIsExactElseWhatIsAttributed) {
  const Observation o = samples::mid_training();
  CurveStore curves;
  const std::vector<Figure> figures = patch_figures(o, {}, curves);
  ASSERT_EQ(figures.size(), 4U);
  const PatchView& view = *o.patch;
  const int row = patch_row(view, PatchGroup::stream, 0);
  const HeatMap& map = std::get<HeatMap>(figures[0].series[0]);
  for (int t = 0; t < view.tokens; ++t) {
    const std::size_t cell = view.cell(static_cast<std::size_t>(row), t);
    const double shown = std::isfinite(view.exact[cell]) ? view.exact[cell] : view.attributed[cell];
    EXPECT_EQ(map.cells[static_cast<std::size_t>(t)], shown) << t;
  }
  EXPECT_FALSE(std::get<Scatter>(figures[0].series[1]).points.empty()) << "exact cells have dots until all are";
  EXPECT_EQ(patch_row(view, PatchGroup::stream, 99), -1);
}

TEST(PatchFigures, TheSentenceNamesTheMemoryAndTheFirstTokenThatDoes) {
  Observation o = samples::mid_training();
  auto view = std::make_shared<PatchView>(*o.patch);
  std::fill(view->exact.begin(), view->exact.end(), 0.0);
  const int row = patch_row(*view, PatchGroup::memory, 1);
  for (int t = 5; t < view->tokens; ++t) view->exact[view->cell(static_cast<std::size_t>(row), t)] = 0.93 + 0.0001 * t;
  o.patch = view;
  const std::string said = patch_sentence(*view, PatchGroup::memory);
  EXPECT_THAT(said, testing::HasSubstr(view->rows[static_cast<std::size_t>(row)].label));
  EXPECT_THAT(said, testing::HasSubstr("after token 5"));
  EXPECT_THAT(said, testing::HasSubstr("9"));
  const double restored = std::exchange(view->exact[view->cell(static_cast<std::size_t>(row), 9)], 42.0);
  EXPECT_THAT(patch_sentence(*view, PatchGroup::memory), testing::HasSubstr("almost alike")) << "not 4200 %";
  view->exact[view->cell(static_cast<std::size_t>(row), 9)] = restored;
  view->pair.corrupted_measure = view->pair.clean_measure;
  EXPECT_THAT(patch_sentence(*view, PatchGroup::memory), testing::HasSubstr("another pair"));
  EXPECT_THAT(patch_cell_text(*view, row, 5), testing::HasSubstr("exact"));
}

TEST(PatchFigures, PathsLeadForwardsOnly) {
  const Observation o = samples::mid_training();
  CurveStore curves;
  const std::vector<Figure> figures = patch_figures(o, {}, curves);
  const Figure* paths = named(figures, patch_path_id);
  ASSERT_NE(paths, nullptr);
  const std::size_t count = o.patch->parts.size();
  EXPECT_EQ(std::get<std::vector<double>>(paths->table[2].cells).size(), count * (count - 1) / 2);
  EXPECT_EQ(patch_path_text(*o.patch, 2, 2), "");
  EXPECT_THAT(patch_path_text(*o.patch, 1, 3), testing::HasSubstr("alone"));
  EXPECT_THAT(patch_path_sentence(*o.patch), testing::HasSubstr("strongest path leads from"));
}

TEST(AblationFigures, TheTableHasEveryPartAndThePictureTheMostNeeded) {
  const Observation o = samples::mid_training();
  CurveStore curves;
  const std::vector<Figure> figures = ablation_figures(o, {}, curves);
  ASSERT_EQ(figures.size(), 1U);
  const auto& parts = std::get<std::vector<std::string>>(figures[0].table[0].cells);
  EXPECT_EQ(parts.size(), o.ablation->parts.size());
  EXPECT_LT(figures[0].y.ticks.size(), parts.size());
  EXPECT_EQ(std::get<Scatter>(figures[0].series.back()).points[0].id, parts[0]);
}

TEST(AblationFigures, PiecesOfTheListAreAllOfItInOrder) {
  const Observation o = samples::mid_training();
  const AblationView& view = *o.ablation;
  const std::size_t rows = view.parts.size() / 2 + 1;
  std::vector<std::string> names;
  for (std::size_t first = 0; first < view.parts.size(); first += rows) {
    const Figure piece = ablation_bars(view, "", first, rows);
    for (const ScatterPoint& bar : std::get<Scatter>(piece.series.back()).points) names.push_back(bar.id);
  }
  std::vector<std::string> wanted;
  for (const AblatedPart& part : view.parts) wanted.push_back(part.name);
  EXPECT_EQ(names, wanted);
}

TEST(AblationFigures, APartThatIsInTheWayHasItsWholeBar) {
  AblationView view = *samples::mid_training().ablation;
  view.parts.front().accuracy = view.accuracy + 0.5;
  view.parts.back().accuracy = view.accuracy - 0.01;
  const Figure figure = ablation_bars(view, "", 0, view.parts.size());
  for (const ScatterPoint& end : std::get<Scatter>(figure.series.back()).points) {
    EXPECT_GT(end.x, figure.x.range->low) << end.id;
    EXPECT_LT(end.x, figure.x.range->high) << end.id;
  }
}

TEST(LogitLensFigures, BarsAreThoseOfTheAskedToken) {
  const Observation o = samples::mid_training();
  CurveStore curves;
  const std::vector<Figure> figures = logit_lens_figures(o, {}, curves);
  const Figure* bars = named(figures, "logit_lens_answer");
  ASSERT_NE(bars, nullptr);
  const auto& ends = std::get<Scatter>(bars->series.back()).points;
  const LogitLensView& lens = *o.logit_lens;
  ASSERT_EQ(ends.size(), lens.depths.size());
  EXPECT_EQ(ends.back().x, lens.answer[(lens.depths.size() - 1) * static_cast<std::size_t>(lens.tokens) +
                                       static_cast<std::size_t>(lens.pair.asked)]);
}

// Over a large vocabulary no bar would be seen.
TEST(CausesFigures, SmallProbabilitiesReachAcrossTheirAxes) {
  Observation o = samples::mid_training();
  auto lens = std::make_shared<LogitLensView>(*o.logit_lens);
  for (auto& answer : lens->answer) answer *= 0.01f;
  auto transplant = std::make_shared<TransplantView>(*o.transplant);
  for (std::vector<double>* answers : {&transplant->transplanted, &transplant->corrupted})
    for (double& answer : *answers) answer *= 1e-3;
  CurveStore curves;
  const auto reach = [&](const Figure* figure) {
    return figure->id == "logit_lens_answer" ? figure->x.range->high : figure->y.range->high;
  };
  for (const bool is_small : {false, true}) {
    if (is_small) o.logit_lens = lens;
    if (is_small) o.transplant = transplant;
    const std::vector<Figure> lenses = logit_lens_figures(o, {}, curves), moved = transplant_figures(o, {}, curves);
    EXPECT_DOUBLE_EQ(reach(named(lenses, "logit_lens_answer")), is_small ? 0.013 : 1.3);
    EXPECT_DOUBLE_EQ(reach(named(moved, "transplant_answer")), is_small ? 1.04e-3 : 1.04);
  }
}

TEST(TransplantFigures, TheAnswerComesWithItsGhostAndBothStates) {
  const Observation o = samples::mid_training();
  CurveStore curves;
  const std::vector<Figure> figures = transplant_figures(o, {}, curves);
  EXPECT_NE(named(figures, "transplant_C_clean"), nullptr);
  EXPECT_NE(named(figures, "transplant_C_corrupted"), nullptr);
  const Bar& first = std::get<Bars>(figures.front().series[0]).bars.front();
  EXPECT_EQ(first.value, o.transplant->transplanted[0]);
  EXPECT_EQ(first.before, o.transplant->corrupted[0]);
  EXPECT_THAT(transplant_subtitle(o, {}), testing::HasSubstr("C after token 9"));
}

TEST(ReadoutFigures, TheControlIsTheLastRow) {
  const Observation o = samples::mid_training();
  CurveStore curves;
  const std::vector<Figure> figures = readout_figures(o, {}, curves);
  ASSERT_EQ(figures.size(), 1U);
  const HeatMap& map = std::get<HeatMap>(figures[0].series[0]);
  EXPECT_EQ(map.row_labels.back(), "shuffled");
  EXPECT_EQ(map.cells[map.cells.size() - 1], o.readout->shuffled.back());
}

TEST(ReadoutFigures, BeforeTheFirstTokenThereIsASentenceAndNoEmptyAxes) {
  Observation o = samples::mid_training();
  ReadoutView view = *o.readout;
  view.accuracy.assign(view.accuracy.size(), std::nan(""));
  view.shuffled.assign(view.shuffled.size(), std::nan(""));
  o.readout = std::make_shared<const ReadoutView>(view);
  CurveStore curves;
  EXPECT_TRUE(readout_figures(o, {}, curves).empty());
  EXPECT_THAT(readout_subtitle(o, {}), testing::HasSubstr("reading the memory after the first token"));
}

}  // namespace
}  // namespace afterglow
