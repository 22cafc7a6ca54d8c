// The papers' claims, counted by their verdicts.
#include <algorithm>
#include <array>

#include "core/studies/claims_view.h"
#include "views/analyses/theory/theory_figures.h"
#include "views/figures/sheet.h"

namespace afterglow {
namespace {

const std::vector<std::string> verdicts{"holds", "holds in part", "does not", "not tried"};

/// Of one paper, or of all for an empty name.
double count_of(std::string_view verdict, std::string_view paper) {
  return static_cast<double>(std::ranges::count_if(paper_claims(), [&](const PaperClaim& claim) {
    return claim.verdict == verdict && (paper.empty() || claim.paper == paper);
  }));
}

}  // namespace

std::string claims_subtitle(const Observation&, const Selection&) {
  constexpr std::array<const char*, 4> words{" hold", " in part", " do not", " not tried"};
  std::string text;
  for (std::size_t i = 0; i < verdicts.size(); ++i)
    text += (text.empty() ? "" : " · ") + std::to_string(static_cast<int>(count_of(verdicts[i], ""))) + words[i];
  return text;
}

std::vector<Figure> claims_figures(const Observation&, const Selection&, CurveStore&) {
  std::vector<Figure> figures;
  for (const PaperClaim& claim : paper_claims()) {
    if (!figures.empty() && figures.back().title == claim.paper) continue;  // the list goes paper by paper
    Bars bars{.name = "claims"};
    for (const std::string& verdict : verdicts)
      bars.bars.push_back({.x = static_cast<double>(bars.bars.size()), .value = count_of(verdict, claim.paper)});
    figures.push_back(sheet("claims_" + std::to_string(figures.size() + 1), claim.paper, "claims by verdict",
                            {.label = "verdict", .ticks = ticks_of(verdicts)},
                            {.label = "claims", .integer_ticks = true}));
    figures.back().series.emplace_back(std::move(bars));
  }
  return figures;
}

}  // namespace afterglow
