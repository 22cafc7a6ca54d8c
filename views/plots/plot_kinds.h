// All plots: each turns an observation into figures, without a window. Panels, `afterglow plot` and tests share them.
// To add one, write its figures and its row, with its card, in the file of its family (families.h).
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/recipe/command.h"
#include "views/figures/plot_functions.h"

namespace afterglow {

/// Smallest useful size of a figure, in layout units.
struct FigureSize {
  double width = 280, height = 150;
};

/// The command that starts what a plot shows, offered while it is empty; without a title it needs none.
struct PlotAsks {
  Command command;
  std::string_view title;
};

/// One kind of plot; its figures are pure functions of observation and selection. Its formula card is the one with its
/// id.
struct PlotKind {
  std::string_view id;     ///< "spectrum": name of the panel, of `afterglow plot spectrum` and of the command's value
  std::string_view title;  ///< "Koopman spectrum"
  std::string_view about;  ///< one sentence for `afterglow info` and the palette
  AnalysisSet analyses;    ///< analyses that it needs; 0: curves and settings, which every observation has
  SubtitleOfPlot* subtitle;
  FiguresOfPlot* prepare;
  LayerTraits needs = {};  ///< it can show models with one of these; empty: every model
  FigureSize smallest = {};
  bool follows_inspected = false;  ///< it shows the model with the interventions
  bool moves_points = false;       ///< dots of its figures can be dragged
  bool moves_tokens = false;       ///< arrow keys over it move the token instead of the step
  bool steps_figures = false;  ///< its figures follow one another: while it is visible, keys of time go through them
  bool needs_model = true;     ///< false: a fixed experiment without model and training
  FollowedNumber* followed = nullptr;
  PlotAsks asks = {};
  std::string_view former_id = {};  ///< an earlier name, still read in files, scripts and arguments
};

/// Whether the plot can show the model; true while the model is not known yet.
bool fits(const PlotKind& kind, const ModelSummary& model);
/// "Needs an SKA layer."; empty if it can show any model.
std::string why_not(const PlotKind& kind);

/// Every plot, in the order in which they are listed.
std::span<const PlotKind> plot_kinds();
/// By its id or its former one; nullptr when there is no such plot.
const PlotKind* find_plot_kind(std::string_view id);
/// The id of the plot with this id or former id; any other name is returned unchanged.
std::string_view present_id(std::string_view name);
/// The analyses that a plot needs for this moment; all of them if the plot is unknown.
AnalysisSet analyses_for(std::string_view plot);

/// " · without interventions" while interventions exist that the plot does not follow.
std::string without_interventions(const PlotKind& kind, const Observation& observation);
/// The figures of a plot, each with the recipe and the line about its source. Empty while there is nothing to show.
std::vector<Figure> prepared_figures(const PlotKind& kind, const Observation& observation, const Selection& selection,
                                     CurveStore& curves);

/// The figures of a plot of the first observation with those of a second one over them (core/figure/overlay.h).
std::vector<Figure> compared_figures(const PlotKind& kind, std::vector<Figure> figures, const Observation& first,
                                     const Observation& second, Selection selection, CurveStore& curves);

/// "tiny · seed 7 · step 428 · 4f2a91c1d07be355 · CPU": stored in every file.
std::string provenance_of(const Observation& observation);
/// "few-modes, seed 7, step 600": a run of a comparison, told apart from the other one by folder, seed or checksum.
std::string name_beside(const Observation& one, const Observation& other);
/// Lets a second run inspect the tokens of the first; nothing where it does already, or one of them is not known yet.
std::optional<Command> same_sequence(const Observation& first, const Observation& second);

}  // namespace afterglow
