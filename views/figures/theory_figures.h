// Echo's theorems beside what the selected head does: bounds dashed, measurements solid.
#pragma once
#include <string>
#include <vector>

#include "core/figure/figure.h"
#include "views/figures/curve_store.h"
#include "views/figures/selection.h"

namespace afterglow {

std::string theory_subtitle(const Observation& observation, const Selection& selection);

/// Change of operator and eigenvalues under noise, with the bounds of theorems C.1 and C.3.
std::vector<Figure> perturbation_figures(const Observation& observation, const Selection& selection, CurveStore&);
/// Norms of the powers (D.2, D.3), what the filter costs (I.10) and when it helps (I.11).
std::vector<Figure> filter_theory_figures(const Observation& observation, const Selection& selection, CurveStore&);
/// Linear attention's distance from ridge retrieval for each token's query, with its bound (I.6).
std::vector<Figure> linear_gap_figures(const Observation& observation, const Selection& selection, CurveStore&);
/// Singular values of the answer's derivative by its query, with the bounds (J.4, J.6), beside those of softmax
/// attention in the head's place; and how the latter fades as one token takes all the weight (J.2, J.3).
std::vector<Figure> query_jacobian_figures(const Observation& observation, const Selection& selection, CurveStore&);
/// Bytes of the state against a key-value cache, with the length where they cross (I.14).
std::vector<Figure> state_size_figures(const Observation& observation, const Selection& selection, CurveStore&);

}  // namespace afterglow
