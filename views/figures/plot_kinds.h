// The plots there are: each turns an observation into figures, without a window. Panels, `afterglow plot` and tests
// share them.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/figure/figure.h"
#include "views/figures/curve_store.h"
#include "views/figures/selection.h"

namespace afterglow {

/// One kind of plot; its figures are pure values of observation and selection. `curves` only saves work.
struct PlotKind {
  std::string_view id;     ///< "spectrum": name of the panel, of `afterglow plot spectrum` and of the command's value
  std::string_view title;  ///< "Koopman spectrum"
  std::string_view about;  ///< one sentence for palette and help
  std::string (*subtitle)(const Observation&, const Selection&);
  std::vector<Figure> (*prepare)(const Observation&, const Selection&, CurveStore& curves);
};

/// Every plot, in the order in which they are offered.
std::span<const PlotKind> plot_kinds();
/// nullptr when there is no such plot.
const PlotKind* find_plot_kind(std::string_view id);

/// The figures of a plot, each stamped with the recipe and the line that says where it comes from. May be empty:
/// nothing to show yet.
std::vector<Figure> prepared_figures(const PlotKind& kind, const Observation& observation, const Selection& selection,
                                     CurveStore& curves);

/// "tiny · seed 7 · step 428 · 4f2a91c1d07be355 · CPU": carried into every file.
std::string provenance_of(const Observation& observation);

}  // namespace afterglow
