// Plots and cards that compare Echo's theorems with measurements.
#include <array>

#include "core/engine/observation/depth_view.h"
#include "core/engine/observation/theory_view.h"
#include "core/figure/axis.h"
#include "core/io/number_text.h"
#include "views/figures/koopman/depth_figures.h"
#include "views/figures/koopman/theory_figures.h"
#include "views/figures/semantic_colours.h"
#include "views/plots/families.h"
#include "views/plots/shared_numbers.h"

namespace afterglow {

namespace {

std::string vector_numbers(const Observation& o, const Selection&) {
  const TheoryView* t = o.theory.get();
  return t ? "κ(V) = " + number_text(t->eigenvector_condition, 3) + ", κ = " + number_text(t->kappa, 3) : "";
}

std::string gap_numbers(const Observation& o, const Selection&) {
  const TheoryView* t = o.theory.get();
  if (!t) return "";
  const std::string step = gradient_step_text(*t);
  return "κ = " + number_text(t->kappa, 3) + (step.empty() ? "" : ",  " + step);
}

std::string linearity_numbers(const Observation& o, const Selection&) {
  return o.theory ? linearity_text(*o.theory) : "";
}

std::string depth_numbers(const Observation& o, const Selection&) {
  const DepthView* depth = o.depth.get();
  if (!depth || depth->gradient.empty() || depth->residual_bound.empty()) return "";
  std::string text = "|g_0| = " + number_text(depth->gradient.front(), 3) + " ≤ " +
                     number_text(depth->residual_bound.front(), 3) +
                     ",  |g_m| = " + number_text(depth->gradient.back(), 3);
  if (!depth->closed_product.empty()) text += ",  along the queries ≤ " + number_text(depth->closed_product.front(), 3);
  return text;
}

std::string state_size_numbers(const Observation& o, const Selection&) {
  const TheoryView* t = o.theory.get();
  return t ? bytes_text(static_cast<std::int64_t>(t->state_bytes)) + " against " + number_text(t->cache_bytes, 4) +
                 " B per token: equal after " + number_text(t->crossing, 4)
           : "";
}

// Theory describes the model with the interventions.
constexpr AnalysisSet theory = Analysis::inspected | Analysis::spectra | Analysis::theory;

constexpr std::array theory_rows{
    PlotKind{.id = "perturbation",
             .title = "Perturbation",
             .about = "How noise in the statistics changes operator and eigenvalues, with bounds.",
             .analyses = theory,
             .subtitle = theory_subtitle,
             .prepare = perturbation_figures,
             .needs = LayerTrait::koopman_heads,
             .smallest = {260, 170}},
    PlotKind{.id = "filter_theory",
             .title = "Filter, in theory",
             .about = "Norms of the operator's powers, the error that the filter adds, and when it helps.",
             .analyses = theory,
             .subtitle = theory_subtitle,
             .prepare = filter_theory_figures,
             .needs = LayerTrait::koopman_heads,
             .smallest = {240, 170}},
    PlotKind{.id = "linear_gap",
             .title = "Linear attention",
             .about = "How far linear attention is from ridge retrieval, with the bound.",
             .analyses = theory,
             .subtitle = theory_subtitle,
             .prepare = linear_gap_figures,
             .needs = LayerTrait::koopman_heads,
             .smallest = {240, 170}},
    PlotKind{.id = "query_jacobian",
             .title = "Query Jacobian",
             .about = "How strongly the answer depends on its query, with the bounds.",
             .analyses = theory,
             .subtitle = theory_subtitle,
             .prepare = query_jacobian_figures,
             .needs = LayerTrait::koopman_heads,
             .smallest = {240, 170}},
    PlotKind{.id = "gradient_depth",
             .title = "Gradient norm by depth",
             .about = "Norms of the loss' gradient at the input of every layer, with the bounds over depth.",
             .analyses = theory,
             .subtitle = depth_subtitle,
             .prepare = depth_figures,
             .needs = LayerTrait::tokens,
             .smallest = {240, 120}},
    PlotKind{.id = "state_size",
             .title = "State size",
             .about = "Size of the state and of a key-value cache over the length, and where they are equal.",
             .analyses = theory,
             .subtitle = theory_subtitle,
             .prepare = state_size_figures,
             .needs = LayerTrait::koopman_heads,
             .smallest = {240, 170},
             .former_id = "memory"},
};

constexpr CardNumbers theory_numbers[] = {
    {"perturbation", vector_numbers},  {"perturbation_eigenvalues", vector_numbers},
    {"filter_theory", gamma_numbers},  {"filter_norms", gamma_numbers},
    {"linear_gap", gap_numbers},       {"query_jacobian_softmax", linearity_numbers},
    {"gradient_depth", depth_numbers}, {"state_size", state_size_numbers}};

}  // namespace

PlotFamily theory_plots() { return {theory_rows, theory_numbers}; }

}  // namespace afterglow
