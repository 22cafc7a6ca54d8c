// Plots and cards that compare Echo's theorems with measurements.
#include "core/engine/analyses/theory/theory_view.h"
#include "core/figure/axis.h"
#include "core/io/number_text.h"
#include "views/analyses/theory/theory_figures.h"
#include "views/plots/families.h"

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

constexpr PlotRow theory_rows[] = {
    {"perturbation", theory, LayerTrait::koopman_heads, theory_subtitle, perturbation_figures},
    {"filter_theory", theory, LayerTrait::koopman_heads, theory_subtitle, filter_theory_figures},
    {"linear_gap", theory, LayerTrait::koopman_heads, theory_subtitle, linear_gap_figures},
    {"query_jacobian", theory, LayerTrait::koopman_heads, theory_subtitle, query_jacobian_figures},
    {"gradient_depth", theory, LayerTrait::tokens, depth_subtitle, depth_figures},
    {"state_size", theory, LayerTrait::koopman_heads, theory_subtitle, state_size_figures},
};

constexpr CardNumbers theory_numbers[] = {
    {"perturbation", vector_numbers},  {"perturbation_eigenvalues", vector_numbers},
    {"filter_theory", gamma_numbers},  {"filter_norms", gamma_numbers},
    {"linear_gap", gap_numbers},       {"query_jacobian_softmax", linearity_numbers},
    {"gradient_depth", depth_numbers}, {"state_size", state_size_numbers}};

}  // namespace

PlotFamily theory_plots() { return {theory_rows, theory_numbers}; }

}  // namespace afterglow
