// What a figure shows, in words: for screen readers, notes and handouts.
#pragma once
#include <string>

#include "core/figure/figure.h"

namespace afterglow {

/// Title, subject and time; then a sentence for each of its first eight series, and the marked lines and events: "Loss,
/// tiny. Over step from 1 to 1000: loss: falls from 4.85 to 0.33; a jump at 612." Curves: ends, where most of the
/// change happens, extremes inside. Bars: the largest. Dots: their number, range and the selected one, and their
/// distance from the origin where there is a circle. Maps: size, smallest and largest with their positions. Numbers
/// that are not finite are only counted.
std::string summary_of(const Figure& figure);

}  // namespace afterglow
