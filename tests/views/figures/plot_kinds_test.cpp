// What the row of a plot says holds: its analyses are enough, it has a card, and former names still find it.
#include "views/plots/plot_kinds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/figure/files/page.h"
#include "core/figure/summary.h"
#include "core/io/number_text.h"
#include "tests/support/sample_observations.h"
#include "views/plots/formula_card.h"

namespace afterglow {
namespace {

/// The figures as files, in front of them the subtitle.
std::vector<std::string> drawn(const PlotKind& kind, const Observation& o) {
  CurveStore curves;
  std::vector<std::string> drawn{kind.subtitle(o, {})};
  for (const Figure& figure : kind.prepare(o, {}, curves))
    drawn.push_back(svg_text(figure, page_size(SizePreset::one_column, figure)));
  return drawn;
}

TEST(PlotKinds, NeedNothingButTheirAnalyses) {
  std::set<std::string_view> shown;
  for (const Observation& o : {samples::mid_training(), samples::forecast(), samples::attention_trace()}) {
    for (const PlotKind& kind : plot_kinds()) {
      const std::vector<std::string> all = drawn(kind, o);
      EXPECT_TRUE(all == drawn(kind, samples::seen_by(o, kind.analyses))) << o.preset << ", " << kind.id;
      if (all.size() > 1) shown.insert(kind.id);
    }
  }
  for (const PlotKind& kind : plot_kinds()) EXPECT_TRUE(shown.contains(kind.id)) << kind.id << " was empty everywhere";
}

TEST(PlotKinds, TwoRunsOfOnePresetAreToldApart) {
  Observation a = samples::mid_training(), b = a;
  b.checksum = "ffff0000ffff0000";
  EXPECT_NE(name_beside(a, b), name_beside(b, a)) << "by their weights";
  b.step += 1000;
  EXPECT_EQ(name_beside(b, a), b.preset + ", step " + grouped_number(b.step));
  b.seed = a.seed + 1;
  EXPECT_EQ(name_beside(b, a), b.preset + ", seed " + std::to_string(b.seed) + ", step " + grouped_number(b.step));
  b.folder = std::make_shared<FolderView>(FolderView{"fine-tuned", {}, {}, {}});
  EXPECT_EQ(name_beside(b, a), "fine-tuned, step " + grouped_number(b.step));
}

/// What a summary says beyond the figure's names: the words after the first sentence.
std::string said_of(const Figure& figure) {
  std::string text = summary_of(figure);
  for (const std::string& name : {figure.heading, figure.title, figure.subject, figure.subtitle}) {
    for (std::size_t at; !name.empty() && (at = text.find(name)) != text.npos;) text.erase(at, name.size());
  }
  const std::size_t end = text.find(". ");
  return end == text.npos ? "" : text.substr(end);
}

TEST(PlotKinds, AreSummedUpByWhatTheyShow) {
  std::set<std::string_view> summed_up;
  for (const Observation& o : {samples::mid_training(), samples::forecast(), samples::attention_trace()}) {
    for (const PlotKind& kind : plot_kinds()) {
      CurveStore curves;
      for (const Figure& figure : prepared_figures(kind, o, {}, curves)) {
        const std::string said = said_of(figure);
        const bool has_number = std::ranges::any_of(said, [](char c) { return c >= '0' && c <= '9'; });
        EXPECT_TRUE(has_number) << kind.id << ": " << summary_of(figure);
        EXPECT_EQ(said.find("nan"), said.npos) << kind.id << ": " << said;
        summed_up.insert(kind.id);
      }
    }
  }
  EXPECT_EQ(summed_up.size(), plot_kinds().size());
}

TEST(PlotKinds, ShowLessWhereNothingIsAnalysed) {
  for (const PlotKind& kind : plot_kinds()) {
    bool differs = false;
    for (const Observation& o : {samples::mid_training(), samples::forecast(), samples::attention_trace()})
      differs = differs || drawn(kind, o) != drawn(kind, samples::seen_by(o, 0));
    EXPECT_EQ(differs, kind.analyses != 0) << kind.id;
  }
}

TEST(PlotKinds, AskForTheirOwnAnalysesAndUnknownOnesForAll) {
  for (const PlotKind& kind : plot_kinds()) {
    EXPECT_EQ(analyses_for(kind.id), kind.analyses);
    EXPECT_NE(kind.analyses, all_analyses) << kind.id;
  }
  EXPECT_EQ(analyses_for("a plot to come"), all_analyses);
}

TEST(PlotKinds, HaveNamesOfTheirOwnAndACard) {
  std::set<std::string_view> names;
  for (const PlotKind& kind : plot_kinds()) {
    EXPECT_TRUE(names.insert(kind.id).second) << kind.id;
    EXPECT_TRUE(kind.former_id.empty() || names.insert(kind.former_id).second) << kind.former_id;
    EXPECT_TRUE(kind.about.ends_with('.')) << kind.id;
    EXPECT_GT(kind.smallest.width * kind.smallest.height, 0) << kind.id;
    EXPECT_NE(find_card(kind.id), nullptr) << kind.id;
  }
}

TEST(PlotKinds, HeadingsInFilesSayWhatOfWhatAndWhen) {
  CurveStore curves;
  const auto heading = [&](const char* kind, const Observation& o) {
    return prepared_figures(*find_plot_kind(kind), o, {}, curves).at(0).heading;
  };
  Observation o = samples::mid_training();
  EXPECT_EQ(heading("training", o), "Training · Accuracy · tiny · step 428");
  EXPECT_EQ(heading("spectrum", o), "Koopman spectrum · layer 1 ska, head 0 · step 428");
  EXPECT_EQ(heading("token_weights", o), "Token weights · layer 1 ska, head 0 · step 428");
  o.step = 1500;
  EXPECT_EQ(heading("training", o), "Training · Accuracy · tiny · step 1,500");
  EXPECT_EQ(heading("spectrum", o), "Koopman spectrum · layer 1 ska, head 0 · step 428") << "when it was measured";
  EXPECT_EQ(heading("deep_profiles", o), "Deep profiles") << "no training";
}

TEST(PlotKinds, AreFoundByTheirFormerNames) {
  ASSERT_NE(find_plot_kind("memory"), nullptr);
  EXPECT_EQ(find_plot_kind("memory"), find_plot_kind("state_size"));
  EXPECT_EQ(present_id("memory"), "state_size");
  EXPECT_EQ(present_id("training_loss"), "training_loss") << "no plot: stays as it is";
  EXPECT_EQ(find_plot_kind(""), nullptr) << "most plots have no former name";
}

}  // namespace
}  // namespace afterglow
