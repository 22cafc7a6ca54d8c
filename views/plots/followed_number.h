// The name (run_numbers.h) of what a plot shows at a place: what the menu offers to follow over training. Without a
// place it is what the plot says first.
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
/// What a bar's part is worth; without a place the most needed part.
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
