// Sorts the curves of a log into figures by the words in their names.
#include <algorithm>

#include "views/figures/semantic_colours.h"
#include "views/figures/sheet.h"
#include "views/figures/training/training_figures.h"

namespace afterglow {

std::vector<Figure> log_figures(const Observation& observation) {
  std::vector<Figure> figures;
  for (const LoggedCurve& curve : observation.folder->curves) {
    std::string title = curve.name;
    for (const char* word : {"learning_rate", "grad_norm", "accuracy", "loss"}) {
      if (curve.name.find(word) != std::string::npos) title = word;
    }
    std::string id = "training_" + title;
    std::ranges::replace_if(
        id, [](unsigned char c) { return !std::isalnum(c); }, '_');
    auto figure = std::ranges::find(figures, id, &Figure::id);
    if (figure == figures.end()) {
      figures.push_back(sheet(id, title, "", {.label = "step"}, {.label = title}));
      figure = std::prev(figures.end());
      figure->x.range = Range{0, static_cast<double>(observation.final_step)};
      figure->reference_lines.push_back(
          {Orientation::vertical, static_cast<double>(observation.step), "", Role::accent, Dash::solid});
    }
    Line line = line_through(curve.name, Values(curve.steps), Values(curve.values), run_ink(figure->series.size()));
    figure->series.emplace_back(styled(line, {.marker = curve.steps.size() > 60 ? Marker::none : Marker::circle}));
  }
  return figures;
}

}  // namespace afterglow
