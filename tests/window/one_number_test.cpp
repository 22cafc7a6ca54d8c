// What a page says twice under one name is one number.
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>

#include "tests/core/session/turned_worker.h"
#include "views/page/page.h"
#include "views/plots/plot_kinds.h"

namespace afterglow {
namespace {

using Numbers = std::map<std::string, std::set<std::string>>;

/// "inspected sequence accuracy 0.983 on 64 sequences · ..": the names in front of numbers with a fraction, behind the
/// title of the figure that says it.
void add_numbers(const std::string& words, const std::string& title, Numbers& numbers) {
  static const std::regex part("\\s*([^·;0-9]*[a-zκλσγ] )([0-9]+\\.[0-9]+)");
  const std::string sign = "·";
  for (std::size_t begin = 0; begin <= words.size();) {
    const std::size_t end = std::min(words.find(sign, begin), words.size());
    std::smatch found;
    const std::string one = words.substr(begin, end - begin);
    if (std::regex_search(one, found, part)) numbers[title + found[1].str()].insert(found[2]);
    begin = end + sign.size();
  }
}

/// What a panel says in words, its figures' among them.
void add_panel(const PlotKind& kind, const Observation& seen, const std::vector<Figure>& figures, Numbers& numbers) {
  if (kind.subtitle) add_numbers(kind.subtitle(seen, Selection()), "", numbers);
  for (const Figure& figure : figures) {
    add_numbers(figure.subtitle, figure.title + ": ", numbers);
    for (const Series& series : figure.series) {
      const auto* line = std::get_if<Line>(&series);
      if (line && !line->end_value.empty()) numbers[figure.title + ": " + line->name].insert(line->end_value);
    }
  }
}

std::vector<double> bars_of(const Figure& figure) {
  std::vector<double> values;
  for (const Series& series : figure.series) {
    if (const auto* bars = std::get_if<Bars>(&series)) {
      for (const Bar& bar : bars->bars) values.push_back(bar.value);
    }
  }
  return values;
}

void expect_one_number_a_name(const char* preset, std::int64_t step) {
  TurnedWorker turned(nlohmann::json::parse(find_preset(preset).text));
  turned.after({"run_to", nlohmann::json{{"step", step}}});
  const std::shared_ptr<const Observation> seen = turned.worker.observe(looks_at_the_model());
  for (const Workspace& workspace : workspaces()) {
    Numbers numbers;
    std::map<std::string, std::vector<Figure>> by_title;
    for (const WorkspaceRow& row : fitting_rows(workspace, seen->model)) {
      for (const WorkspacePanel& panel : row.panels) {
        const PlotKind& kind = *find_plot_kind(panel.id);
        CurveStore curves;
        const std::vector<Figure> figures = prepared_figures(kind, *seen, Selection(), curves);
        add_panel(kind, *seen, figures, numbers);
        for (const Figure& figure : figures) by_title[figure.title].push_back(figure);
      }
    }
    for (const auto& [name, values] : numbers)
      EXPECT_EQ(values.size(), 1U) << preset << ", " << workspace.title << ": " << name << " " << *values.begin()
                                   << " and " << *values.rbegin();
    for (const auto& [title, figures] : by_title) {
      for (std::size_t i = 1; i < figures.size(); ++i) {
        EXPECT_TRUE(figures[i].subtitle != figures[0].subtitle || bars_of(figures[i]) == bars_of(figures[0]))
            << preset << ", " << workspace.title << ": " << title << " has two meanings";
      }
    }
  }
}

TEST(OneNumber, OfAModelThatAnswersOtherwiseTokenByTokenThanAtOnce) { expect_one_number_a_name("tiny-echo", 371); }
TEST(OneNumber, OfASmallKoopmanModel) { expect_one_number_a_name("small-prompt", 200); }

TEST(OneNumber, BothFormsOfAnAnswerAreNamed) {
  TurnedWorker turned(nlohmann::json::parse(find_preset("tiny-echo").text));
  turned.after({"run_to", R"({"step": 371})"_json});
  const std::shared_ptr<const Observation> seen = turned.worker.observe(looks_at_the_model());
  Selection selection;
  selection.token = 15;
  CurveStore curves;
  const auto answer_of = [&](const char* panel) {
    for (const Figure& figure : prepared_figures(*find_plot_kind(panel), *seen, selection, curves)) {
      if (figure.title == "Answer") return figure;
    }
    throw std::runtime_error("no answer");
  };
  const Figure at_once = answer_of("probe"), by_token = answer_of("stepper");
  EXPECT_NE(bars_of(at_once).front(), bars_of(by_token).front()) << "the layer reads chunks of sixteen tokens";
  EXPECT_NE(at_once.subtitle.find("whole sequence at once"), std::string::npos) << at_once.subtitle;
  EXPECT_NE(by_token.subtitle.find("token by token"), std::string::npos) << by_token.subtitle;
}

}  // namespace
}  // namespace afterglow
