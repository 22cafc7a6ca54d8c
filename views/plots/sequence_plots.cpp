// Plots and cards of what happens token by token: the recurrent state, token weights, the probe sequence.
#include <array>

#include "views/figures/influence/token_weights_figures.h"
#include "views/figures/probing/probe_figures.h"
#include "views/figures/probing/stepper_figures.h"
#include "views/plots/families.h"

namespace afterglow {

namespace {

std::string probe_numbers(const Observation& o, const Selection&) { return accuracy_change(o); }

constexpr std::array sequence_rows{
    PlotKind{.id = "stepper",
             .title = "Stepper",
             .about = "The recurrent state token by token, and what it answers.",
             .analyses = set_of(Analysis::trace),
             .subtitle = stepper_subtitle,
             .prepare = stepper_figures,
             .needs = LayerTrait::tokens,
             .smallest = {190, 150},
             .moves_tokens = true},
    PlotKind{.id = "inside",
             .title = "Inside one step",
             .about = "What one head does with one token, in at most eight pictures.",
             .analyses = set_of(Analysis::trace),
             .subtitle = inside_subtitle,
             .prepare = inside_figures,
             .needs = LayerTrait::ridge_systems | LayerTrait::feedback,
             .smallest = {150, 120},
             .moves_tokens = true,
             .steps_figures = true,
             .workspace = "stepper"},
    PlotKind{.id = "token_spectrum",
             .title = "Spectrum over the sequence",
             .about = "How the Koopman eigenvalues of one head form while the sequence is read, token by token.",
             .analyses = set_of(Analysis::trace),
             .subtitle = token_spectrum_subtitle,
             .prepare = token_spectrum_figures,
             .needs = LayerTrait::koopman_heads,
             .smallest = {150, 150},
             .moves_tokens = true},
    PlotKind{.id = "token_weights",
             .title = "Token weights",
             .about = "Which tokens each token reads, as if every layer were attention.",
             .analyses = set_of(Analysis::trace),
             .subtitle = token_weights_subtitle,
             .prepare = token_weights_figures,
             .needs = LayerTrait::tokens},
    PlotKind{.id = "probe",
             .title = "Probe",
             .about = "What a sequence is answered, which tokens contribute, and what interventions change.",
             .analyses = Analysis::probe | Analysis::spectra | Analysis::trace,
             .subtitle = probe_subtitle,
             .prepare = probe_figures,
             .needs = LayerTrait::tokens,
             .smallest = {240, 150}},
};

constexpr std::array sequence_cards{
    FormulaCard{
        "stepper", "Recurrent state", "G = Σ z zᵀ,  M = Σ z₊ zᵀ,  C = Σ v zᵀ",
        "All that the layer keeps of the sequence: 2 r² + P r + r + 1 numbers for each head, however long it gets. "
        "Keys are divided by the longest so far, m; where it grows the sums are rescaled, which section 3.2.1 offers "
        "in "
        "a footnote and does without by freezing m after the prompt.",
        "Echo, eqs. 4 to 6 and section 3.5", nullptr},
    FormulaCard{
        "inside",
        "Inside one step",
        "y = η C L⁻ᵀ A^K L⁻¹ q,  G+εI = L Lᵀ,  A_w = L⁻¹ M L⁻ᵀ",
        "The token's key is added to the sums; their Cholesky factor whitens the operator, which acts K times "
        "before the answer is read. Of Gated KalmaNet H, U, every Chebyshev iterate x_i and what it misses: of the "
        "ridge system, and of H x = q, which the ridge never lets it reach. Of Sessa one line of the "
        "substitution: forward read, feedback row, gain, s_t.",
        "Echo, eqs. 4 to 7; Gated KalmaNet 4.1; Sessa 3.2",
        nullptr,
        {"|r_i| / |q|", "α", "α_fb"}},
    FormulaCard{"matrix_entry",
                "Entry of the state",
                "G, M: r × r, C: P × r",
                "Rows and columns count the coordinates of keys (r) and values (P).",
                "Echo, eqs. 4 to 6",
                nullptr,
                {"column", "row", "key", "next key", "key dimension", "value dimension"}},
    FormulaCard{
        "token_spectrum", "Spectrum over the sequence", "A_w(t) = L_t⁻¹ M_t L_t⁻ᵀ,  G_t + εI = L_t L_tᵀ",
        "The operator is fitted anew after every token. While all keys are new it only shifts each to the next, so "
        "that its eigenvalues are near 0 although nothing is forgotten. Modes are numbered by modulus after the last "
        "token and followed back to the nearest: where two cross, they may exchange their numbers.",
        "Echo, eqs. 4 to 6 and section 3.5", nullptr},
    FormulaCard{"state_spectrum", "State spectrum", "S_t = A_t S_{t−1} + …,  λ: eigenvalues of (A_T … A_1)^{1/T}",
                "Each dot is a part of the state: nearer the circle, longer it lasts; off the real axis it turns. The "
                "mean over the tokens of the probe sequence.",
                "state-space layers, gated and delta-rule memories", nullptr},
    FormulaCard{"state_growth", "State growth", "|S|_F,  |S|_F^4 / |S Sᵀ|_F²",
                "How much a head has written into its state, and into how many directions: 1 where every token wrote "
                "the same one.",
                "participation ratio of the squared singular values", nullptr},
    FormulaCard{"state_rank",
                "Effective rank",
                "|S|_F^4 / |S Sᵀ|_F²",
                "How many directions the state fills; never more than its smaller side.",
                "participation ratio of the squared singular values",
                nullptr,
                {"effective rank of S"}},
    FormulaCard{"state_norm",
                "Size of the state",
                "|S|_F",
                "Root of the sum of squares of all numbers in a head's state.",
                "Frobenius norm",
                nullptr,
                {"|S|"}},
    FormulaCard{
        "head", "Head", "h = 0 .. H − 1", "Each head has a memory of its own.", "multi-head layers", nullptr, {"head"}},
    FormulaCard{"token_weights",
                "Token weights",
                "y_t = η Σ_s w_ts v_s,  w_ts = z_sᵀ (G+εI)⁻¹ Φ_K q_t",
                "With what weight the value of token s enters the answer at token t. Softmax weights are shares; those "
                "of SKA, linear attention (scale · q·k) and Mamba-2 (C·B, faded) may be negative.",
                "Echo, eq. 13 and proposition I.8",
                nullptr,
                {"weight"}},
    FormulaCard{"probe", "Probe", "y = (η/m) C L⁻ᵀ W L⁻¹ q,  W = A^K or what interventions make of it",
                "The model answers one sequence, and a batch of held-out ones for the accuracy. Interventions act on "
                "this look alone: training goes on unchanged. Grey is the model without them.",
                "Echo, eq. 7", probe_numbers},
    FormulaCard{"probe_answer", "Answer", "p = softmax(logits)",
                "The most probable next tokens after the asked one; green is the right one.", "Echo, section 4",
                probe_numbers},
    FormulaCard{"probe_sources", "Token read", "w_ts = z_sᵀ (G+εI)⁻¹ Φ_K q_t",
                "With what weight the value of each token enters what the head answers at the asked token.",
                "Echo, eq. 13 and proposition I.8", nullptr},
    FormulaCard{"token",
                "Token",
                "t = 0 .. T − 1",
                "Place in the sequence.",
                "Echo, section 3.2",
                nullptr,
                {"token", "tokens", "source token", "query token", "token read"},
                "tokens"},
    FormulaCard{
        "colour_range", "Colour range", "{v − low}/{high − low}",
        "Where a value lies between the ends of the colour bar; what is beyond takes the last colour. The range "
        "follows the data. Right click, Lock the colours: it stays, so that steps and heads can be compared.",
        "this program's own", nullptr},
    FormulaCard{"next_token",
                "Next token",
                "argmax p",
                "What may follow, likeliest first.",
                "Echo, section 4",
                nullptr,
                {"next token"}},
    FormulaCard{"probability",
                "Probability",
                "p = softmax(logits)",
                "Of each token to come next.",
                "Echo, section 4",
                nullptr,
                {"probability"}}};

}  // namespace

PlotFamily sequence_plots() { return {sequence_rows, sequence_cards}; }

}  // namespace afterglow
