// Every number that is shown has a name, and is found by it where the right analyses are made.
#include "views/plots/plot_numbers.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/support/sample_observations.h"
#include "views/plots/plot_kinds.h"

namespace afterglow {
namespace {

TEST(PlotNumbers, NamesOfAFamilyBeginWithItsWords) {
  for (const samples::Sample& sample : samples::all()) {
    for (const NumberFamily& family : number_families()) {
      std::vector<NamedNumber> numbers;
      family.list(*sample.observation(), numbers);
      for (const NamedNumber& number : numbers) {
        const std::string name(first_word(number.name));
        const auto owner = std::ranges::find_if(number_families(), [&](const NumberFamily& other) {
          return std::ranges::find(other.words, name) != other.words.end();
        });
        const bool is_own =
            owner == number_families().end() ? &family == &number_families().back() : &*owner == &family;
        EXPECT_TRUE(is_own) << sample.name << ": " << number.name;
      }
    }
  }
}

TEST(PlotNumbers, OfFiguresAskForTheAnalysesOfTheirPlot) {
  for (const samples::Sample& sample : samples::all()) {
    for (const PlotKind& kind : plot_kinds()) {
      if (!kind.needs_model || (kind.analyses & ~all_analyses) != 0) continue;
      CurveStore curves;
      for (const Figure& figure : kind.prepare(*sample.observation(), Selection(), curves))
        EXPECT_EQ(analyses_of_number(figure.id + ".x.last") & kind.analyses, kind.analyses) << figure.id;
    }
  }
}

/// What the menu offers to follow is a number of the run, wherever it was opened.
TEST(PlotNumbers, ThatCanBeFollowedAreOfTheRun) {
  std::size_t followed = 0;
  for (const samples::Sample& sample : samples::all()) {
    const auto observation = sample.observation();
    std::set<std::string> names;
    for (const NamedNumber& number : numbers_of(*observation)) names.insert(number.name);
    for (const PlotKind& kind : plot_kinds()) {
      if (!kind.followed) continue;
      CurveStore curves;
      for (const Figure& figure : kind.prepare(*observation, Selection(), curves)) {
        std::vector<std::optional<Point>> places{std::nullopt};
        for (const double x : {-3.0, 0.0, 1.2, 5.0, 1e4}) {
          for (const double y : {-4.0, 0.0, 2.3, 1e4}) places.emplace_back(Point{x, y});
        }
        for (const std::optional<Point>& at : places) {
          const std::string name = kind.followed(*observation, Selection(), figure, at);
          if (name.empty()) continue;
          ++followed;
          EXPECT_TRUE(names.contains(name)) << sample.name << ": " << kind.id << " follows " << name;
        }
      }
    }
  }
  EXPECT_GT(followed, 20u);
}

TEST(PlotNumbers, AreThoseOfTheFigure) {
  const Observation observation = samples::mid_training();
  CurveStore curves;
  const auto find = [&](const std::string& name) { return find_number(name, observation, Selection(), curves); };
  const RunCurves& run = observation.runs.back();
  EXPECT_DOUBLE_EQ(find("accuracy")->number, run.held_out_accuracy.back());
  EXPECT_DOUBLE_EQ(find("learning_rate")->number,
                   std::ranges::find(observation.settings, "learning_rate", &Setting::key)->value);
  EXPECT_FALSE(find("nothing.of.the.kind"));
  Figure figure;
  figure.id = "two";
  figure.series = {Line{.name = "loss: 0.3", .curve = {{0, 1, 2}, {4, std::nan(""), 0.5}, {}}}};
  const std::vector<NamedNumber> numbers = numbers_of(figure);
  const auto value = [&](const std::string& name) {
    const auto found = std::ranges::find(numbers, name, &NamedNumber::name);
    return found == numbers.end() ? std::nan("") : found->value.number;
  };
  EXPECT_EQ(value("two.loss.first"), 4);
  EXPECT_EQ(value("two.loss.last"), 0.5);
  EXPECT_EQ(value("two.loss.max"), 4);
  EXPECT_EQ(value("two.loss.count"), 3);
}

TEST(PlotNumbers, ALargeNumberIsOneWhereNothingChanged) {
  const LargeNumber lost{1.0, 0.613}, same{1.0, 1.0};
  EXPECT_EQ(lost.words("probe.accuracy", false, false), "100 % → 61 %");
  EXPECT_EQ(lost.words("probe.accuracy", true, false), "100 % → ?") << "its question waits";
  EXPECT_EQ(same.words("probe.accuracy", false, false), "100 %");
  EXPECT_EQ(same.words("probe.accuracy", false, true), "100 % → 100 %") << "that is the answer";
  EXPECT_EQ(lost.words("head.1_ska.0.mode.0.gain", false, false), "1 → 0.613");
  EXPECT_EQ(LargeNumber().words("probe.accuracy", false, true), "?");
}

TEST(PlotNumbers, WordsOfLabels) {
  EXPECT_EQ(name_word("1 ska"), "1_ska");
  EXPECT_EQ(name_word("Half-life (tokens)"), "half_life_tokens");
  EXPECT_EQ(first_word("head.1_ska.0"), "head");
}

}  // namespace
}  // namespace afterglow
