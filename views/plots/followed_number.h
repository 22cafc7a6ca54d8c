// The name (run_numbers.h) of the number at a place of a plot, which the menu offers to follow over training. Without a
// place it is the plot's main number.
#pragma once
#include <optional>
#include <string>

#include "core/figure/canvas.h"
#include "core/figure/figure.h"
#include "views/figures/selection.h"

namespace afterglow {

/// A cell of a grid, or a path; without a place the brightest cell.
std::string followed_patch(const Observation& observation, const Selection& selection, const Figure& figure,
                           const std::optional<Point>& at);
/// The accuracy lost without a bar's part; without a place that of the most needed part.
std::string followed_ablation(const Observation& observation, const Selection& selection, const Figure& figure,
                              const std::optional<Point>& at);
/// A cell; without a place the first value after the last token that was read.
std::string followed_readout(const Observation& observation, const Selection& selection, const Figure& figure,
                             const std::optional<Point>& at);
/// A cell or bar; without a place the model's own answer.
std::string followed_lens(const Observation& observation, const Selection& selection, const Figure& figure,
                          const std::optional<Point>& at);
std::string followed_transplant(const Observation& observation, const Selection& selection, const Figure& figure,
                                const std::optional<Point>& at);
/// The modulus of the chosen mode, or of the strongest one.
std::string followed_mode(const Observation& observation, const Selection& selection, const Figure& figure,
                          const std::optional<Point>& at);

}  // namespace afterglow
