// Echo's theorems and the selected head: bounds dashed, measurements solid.
#pragma once
#include <string>

#include "views/figures/plot_functions.h"

namespace afterglow {

struct TheoryView;

SubtitleOfPlot theory_subtitle;
/// "|C q − B_1 q| ≤ 3e−8" for the displayed queries; empty if it is unknown.
std::string gradient_step_text(const TheoryView& theory);
/// "deviation from linear: softmax 0.43, SKA 2e−16", shares of the answers; empty if it is unknown.
std::string linearity_text(const TheoryView& theory);

/// Change of operator and eigenvalues under noise, with the bounds of theorems C.1 and C.3.
FiguresOfPlot perturbation_figures;
/// Norms of the powers (D.2, D.3), the error that the filter adds (I.10) and when it helps (I.11).
FiguresOfPlot filter_theory_figures;
/// Linear attention's distance from ridge retrieval for each token's query, with its bound (I.6), and its distance from
/// one gradient step on the ridge loss (I.5).
FiguresOfPlot linear_gap_figures;
/// Singular values of the answer's derivative by its query, with the bounds (J.4, J.6), and those of softmax attention
/// in the head's place; how the latter fades as one token takes all the weight (J.2, J.3), and how far both are from a
/// linear map (I.13).
FiguresOfPlot query_jacobian_figures;
/// Bytes of the state and of a key-value cache, with the length at which they are equal (I.14).
FiguresOfPlot state_size_figures;

SubtitleOfPlot depth_subtitle;
/// |∂L/∂h| before every layer with the bounds of theorem J.9, from measured norms and in closed form, and the norms of
/// the branches with their closed forms: of Koopman MLPs (J.8), and of the path through the queries of SKA (J.4) and
/// softmax attention (J.2).
FiguresOfPlot depth_figures;

/// How many claims of each paper hold (claims_view.h).
SubtitleOfPlot claims_subtitle;
FiguresOfPlot claims_figures;

}  // namespace afterglow
