// Figure of the token weights: equivalent attention of one head, the same map for layers with and without attention.
#pragma once
#include <string>
#include <vector>

#include "core/figure/figure.h"
#include "views/figures/selection.h"
#include "views/figures/training/curve_store.h"

namespace afterglow {

/// The head of the weights to show, clamped to the existing ones; -1 without heads.
int selected_weights_head(const Observation& observation, const Selection& selection);

std::string token_weights_subtitle(const Observation& observation, const Selection& selection);
std::vector<Figure> token_weights_figures(const Observation& observation, const Selection& selection,
                                          CurveStore& curves);

}  // namespace afterglow
