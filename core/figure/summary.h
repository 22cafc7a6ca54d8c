// What a figure shows, in words: for people who cannot see it, for notes and for handouts.
#pragma once
#include <string>

#include "core/figure/figure.h"

namespace afterglow {

/// What of what and when; then a sentence for each of its first eight series, and the marked lines and events: "Loss,
/// tiny. Over step from 1 to 1000: loss: falls from 4.85 to 0.33; a jump at 612." Curves: ends, where most of the
/// change happens, extremes inside. Bars: the largest. Dots: how many, where, the chosen one, and how far out where
/// there is a circle. Maps: size, smallest and largest with their places. Numbers that are not finite are counted, not
/// described.
std::string summary_of(const Figure& figure);

}  // namespace afterglow
