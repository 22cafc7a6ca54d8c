// Two runs in one figure: A as it is, and over it B with outlines.
#pragma once
#include <string>
#include <vector>

#include "core/figure/figure.h"

namespace afterglow {

/// The figures of A with those of B over them. A figure of B is found by its id, else by its place if both runs have as
/// many. Its curves, dots and bars are outlined and named "B: loss"; dots of modes take the colour of the nearest mode
/// of A, with a line from there. At the end follow, with "_difference" after the id, B - A (on a logarithmic scale the
/// decades between them) of maps of one size, and with "_b" maps and figures with other rows of B. Maps of one size
/// have one scale of colours. Every subtitle begins with where the two differ most, or with the reason why A is alone:
/// `why_none` where B has no figures. `b_name` is part of headings. `only_difference`: of maps with a difference it
/// alone.
std::vector<Figure> overlaid_figures(std::vector<Figure> a, const std::vector<Figure>& b, const std::string& b_name,
                                     const std::string& why_none, bool only_difference = false);

}  // namespace afterglow
