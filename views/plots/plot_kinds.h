// The plots there are: each turns an observation into figures, without a window. Panels, `afterglow plot` and tests
// share them. To add one, write its figures and its row, with its card, in the file of its family (families.h).
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/engine/observation/analyses.h"
#include "core/figure/canvas.h"
#include "core/figure/figure.h"
#include "views/figures/selection.h"
#include "views/figures/training/curve_store.h"

namespace afterglow {

/// Smallest useful size of a figure, in layout units.
struct FigureSize {
  double width = 280, height = 150;
};

/// One kind of plot; its figures are pure values of observation and selection. Its formula card is the one with its id.
struct PlotKind {
  std::string_view id;     ///< "spectrum": name of the panel, of `afterglow plot spectrum` and of the command's value
  std::string_view title;  ///< "Koopman spectrum"
  std::string_view about;  ///< one sentence for `afterglow info` and the palette
  AnalysisSet analyses;  ///< what has to be measured for it; 0: curves and settings, which come with every observation
  std::string (*subtitle)(const Observation&, const Selection&);
  std::vector<Figure> (*prepare)(const Observation&, const Selection&,
                                 CurveStore& curves);  ///< `curves` only saves work
  LayerTraits needs = {};  ///< it says something of a model that has one of these; none: of every model
  FigureSize smallest = {};
  bool follows_probe = false;  ///< it shows the model with the probe's interventions
  bool moves_points = false;   ///< dots of its figures can be dragged
  bool moves_tokens = false;   ///< arrow keys over it move the token instead of the step
  bool steps_figures = false;  ///< its figures follow one another: while it is looked at, keys of time go through them
  bool needs_model = true;     ///< false: a fixed experiment, which asks for no model and no training
  /// The workspace whose last row it joins; empty: it has a place of its own in page/workspaces.cpp.
  std::string_view workspace = {};
  /// The name of the number at a place of one of its figures, which the menu offers to follow over training; empty:
  /// none there. Without a place what it says first.
  std::string (*followed)(const Observation&, const Selection&, const Figure&,
                          const std::optional<Point>& at) = nullptr;
  std::string_view former_id = {};  ///< an earlier name, still read in files, scripts and arguments
};

/// Whether the plot has something to say about the model; of one that is not known yet it may have.
bool fits(const PlotKind& kind, const ModelSummary& model);
/// "Needs an SKA layer."; empty where any model will do.
std::string why_not(const PlotKind& kind);

/// Every plot, in the order in which they are offered.
std::span<const PlotKind> plot_kinds();
/// By its id or its former one; nullptr when there is no such plot.
const PlotKind* find_plot_kind(std::string_view id);
/// The id of the plot that this or its former id names; any other name stays as it is.
std::string_view present_id(std::string_view name);
/// Which analyses have to be made for a plot to show this moment; everything where nothing is known of it.
AnalysisSet analyses_for(std::string_view plot);

/// " · without interventions" while some are in force that a plot of the model does not follow.
std::string without_interventions(const PlotKind& kind, const Observation& observation);
/// The figures of a plot, each stamped with the recipe and the line that says where it comes from. May be empty:
/// nothing to show yet.
std::vector<Figure> prepared_figures(const PlotKind& kind, const Observation& observation, const Selection& selection,
                                     CurveStore& curves);

/// "tiny · seed 7 · step 428 · 4f2a91c1d07be355 · CPU": carried into every file.
std::string provenance_of(const Observation& observation);

}  // namespace afterglow
