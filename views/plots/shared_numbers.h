// Numbers that formula cards of several plot families show.
#pragma once
#include <string>

#include "views/figures/selection.h"

namespace afterglow {

/// The gain γ of the selected head and its effect on A_w; empty without a head.
std::string gamma_numbers(const Observation& observation, const Selection& selection);
/// Condition number, smallest eigenvalue and ridge of the selected head's Gram matrix; empty without a head.
std::string kappa_numbers(const Observation& observation, const Selection& selection);

}  // namespace afterglow
