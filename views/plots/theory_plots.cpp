// Plots and cards of Echo's theorems beside measurements.
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
                 " B a token: equal after " + number_text(t->crossing, 4)
           : "";
}

// Theory is shown of the model that is being probed.
constexpr AnalysisSet theory = Analysis::probe | Analysis::spectra | Analysis::theory;

constexpr std::array theory_rows{
    PlotKind{.id = "perturbation",
             .title = "Perturbation",
             .about = "What noise in the statistics does to operator and eigenvalues, with bounds.",
             .analyses = theory,
             .subtitle = theory_subtitle,
             .prepare = perturbation_figures,
             .needs = LayerTrait::koopman_heads,
             .smallest = {260, 170}},
    PlotKind{.id = "filter_theory",
             .title = "Filter, in theory",
             .about = "Norms of the powers, what the filter costs, and when it helps.",
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
             .about = "How the answer moves with its query, with the bounds.",
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
             .about = "Bytes of the state against a key-value cache, and where they cross.",
             .analyses = theory,
             .subtitle = theory_subtitle,
             .prepare = state_size_figures,
             .needs = LayerTrait::koopman_heads,
             .smallest = {240, 170},
             .former_id = "memory"},
};

constexpr std::array theory_cards{
    FormulaCard{"perturbation", "Perturbation", "|Â − A| ≤ |E_M|/σ + |A| κ |E_G|/σ",
                "Noise is added to G and M; solid is the worst of three draws, dashed what the theorems allow.",
                "Echo, theorems C.1 and C.3", vector_numbers},
    FormulaCard{
        "perturbation_operator", "Change of the operator", "|Â − A|,  A = M (G+εI)⁻¹",
        "σ is the smallest singular value of the noisy G + εI. The proof of C.1 loses a factor κ; without it the "
        "dotted line holds.",
        "Echo, theorem C.1", nullptr},
    FormulaCard{
        "perturbation_eigenvalues", "Change of the eigenvalues", "|λ′ − λ| ≤ κ(V) |Â − A|",
        "How far the farthest eigenvalue moves. κ(V) is the condition number of the eigenvectors: 1 for a normal "
        "operator.",
        "Echo, theorem C.3 and corollary C.4", vector_numbers},
    FormulaCard{"noise",
                "Relative noise",
                "|E_G|/|G| = |E_M|/|M|",
                "Seeded Gaussian directions, scaled.",
                "Echo, appendix C",
                nullptr,
                {"relative noise in G and M"}},
    FormulaCard{
        "filter_theory", "Filter, in theory", "|A^K| ≤ γ^K",
        "The normalised operator never grows a vector; only γ amplifies. The filter pays with ridge loss and helps "
        "where transient modes spoil the answer.",
        "Echo, propositions D.2, D.3, I.10 and theorem I.11", gamma_numbers},
    FormulaCard{"filter_norms", "Norm of the powers", "|A^K| = γ^K |Â^K|", "The largest factor on any whitened query.",
                "Echo, propositions D.2 and D.3", gamma_numbers},
    FormulaCard{
        "filter_excess_risk", "Excess risk", "|B* (Φ_K − I) (G+εI)^½|² = |F (A^K − I)|²",
        "How much the loss of ridge regression grows when its answer is filtered. At the dashed line the filter has "
        "undone the regression.",
        "Echo, proposition I.10", nullptr},
    FormulaCard{
        "filter_helps", "When K > 0 helps", "|y/η − F q_pers|",
        "Distance of the answer from what the modes near 1 alone would say; below the value at K = 0 the filter "
        "helps.",
        "Echo, theorem I.11 and corollary I.12", nullptr},
    FormulaCard{"linear_gap", "Linear attention's gap", "min_a |C q − a C (G+εI)⁻¹ q| ≤ |C| (κ − 1)/(κ + 1) |q|",
                "How far linear attention is from ridge retrieval, up to one positive factor. Its map C is B_1, what "
                "one gradient step of size ½ makes of B = 0 on the ridge loss Σ |v − B z|² + ε |B|²: |C q − B_1 q| is "
                "0 up to rounding. Ridge retrieval is where such steps end.",
                "Echo, proposition I.5 and theorem I.6", gap_numbers},
    FormulaCard{"query_jacobian", "Query Jacobian", "∂y/∂q = η B_v L A^K L⁻¹",
                "The statistics are held fixed, so the map is linear: the same for every query.",
                "Echo, propositions J.4 to J.6", nullptr},
    FormulaCard{"query_jacobian_softmax", "Softmax saturates", "|Vᵀ (Diag(w) − w wᵀ) K| / √r ≤ 2 (1 − m) |V| |K| / √r",
                "Softmax attention with the keys, values and queries of this head: the more weight one token has, the "
                "less the answer follows the query. J.2 has ½ in place of 2 (1 − m). Off linear: the most that the "
                "answer half-way between two successive queries differs from the mean of their answers, as a share of "
                "it. SKA's is rounding alone, softmax attention's is not: no fixed SKA head can replace it.",
                "Echo, propositions I.13, J.2 and corollary J.3", linearity_numbers},
    FormulaCard{"singular_value",
                "Singular values",
                "σ_1 ≥ σ_2 ≥ ..",
                "Directions of the query by how much they count.",
                "Echo, appendix J",
                nullptr,
                {"singular value"}},
    FormulaCard{"gradient_depth", "Gradient norm by depth",
                "g_l = g_{l+1} + J_lᵀ g_{l+1},  |g_l| ≤ |g_m| Π (1 + |J_j|)",
                "How the gradient of the probe sequence's loss grows or fades on its way down. Theorem J.9 follows the "
                "branches alone; a residual model passes its gradient beside them, too, so its bound has 1 + |J|. "
                "Dotted: the product of the measured norms of the branches. Dash-dotted: the theorem in closed form, "
                "with J.8 for a Koopman MLP, J.4 for SKA and J.2 for softmax attention, and the measured norm for "
                "any other branch. J.4 and J.2 hold keys, values and statistics fixed: it bounds what passes every "
                "branch, and those two through their queries alone, not the whole gradient.",
                "Echo, propositions J.2, J.4, J.7, J.8 and theorem J.9", depth_numbers},
    FormulaCard{
        "branch_norms", "Branch norms", "|J_l| = max |J_lᵀ u|,  |u| = 1",
        "The most that a branch, without its residual, can lengthen a gradient; found by a power iteration that "
        "starts at the gradient itself, and so from below: the bounds made of it hold for this gradient, not for every "
        "one as theorem J.9 says. Marks are closed forms, with the norm in front: J.8 of the whole branch, J.2 and "
        "J.4, between the projections, of the path through the queries alone, which a branch's own norm may exceed.",
        "Echo, propositions J.2, J.4, J.8 and theorem J.9", nullptr},
    FormulaCard{
        "state_size",
        "State size",
        "2 r² + P r + r + 1 numbers a head, against (r + P) T",
        "The state stays as it is however long the sequence gets; a cache keeps a key and a value of each token.",
        "Echo, section 3.5 and proposition I.14",
        state_size_numbers,
        {},
        "bytes"}};

}  // namespace

PlotFamily theory_plots() { return {theory_rows, theory_cards}; }

}  // namespace afterglow
