// What a figure shows, in words: for people who cannot see it, for notes and for handouts.
#pragma once
#include <string>

#include "core/figure/figure.h"

namespace afterglow {

/// A sentence for the figure and one for each of its first eight series: "Loss, tiny. loss: falls from 4.85 at step 1
/// to 0.33 at step 1000; most of it between 600 and 640." Curves: ends, extremes inside, where most of the change
/// happens. Bars: the largest. Dots: how many and where. Maps: size, range, place of the largest. Numbers that are not
/// finite are counted, not described.
std::string summary_of(const Figure& figure);

}  // namespace afterglow
