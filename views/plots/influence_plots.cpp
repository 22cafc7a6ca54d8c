// Plots and cards of influence over the lag, the memory race, routing and deep profiles.
#include <array>

#include "views/figures/influence/influence_figures.h"
#include "views/figures/studies/paper_figures.h"
#include "views/plots/families.h"

namespace afterglow {

namespace {

constexpr std::array influence_rows{
    PlotKind{.id = "influence",
             .title = "Influence tail",
             .about = "How the influence of a token fades with the lag, beside theory.",
             .analyses = set_of(Analysis::influence),
             .subtitle = influence_subtitle,
             .prepare = influence_figures,
             .needs = LayerTrait::tokens,
             .smallest = {330, 250}},
    PlotKind{.id = "race",
             .title = "Memory race",
             .about = "All layers on one input: tails, recall of a planted token, state and time per token.",
             .analyses = set_of(Analysis::race),
             .subtitle = race_subtitle,
             .prepare = race_figures,
             .needs = LayerTrait::tokens,
             .smallest = {250, 170}},
    PlotKind{.id = "routing",
             .title = "Routing",
             .about = "What a layer reads, over how many hops, and what it keeps.",
             .analyses = set_of(Analysis::influence),
             .subtitle = routing_subtitle,
             .prepare = routing_figures,
             .needs = LayerTrait::tokens,
             .smallest = {230, 170}},
    PlotKind{.id = "position_code",
             .title = "Position code",
             .about = "The positions that a feedback writes by itself.",
             .analyses = set_of(Analysis::influence),
             .subtitle = position_code_subtitle,
             .prepare = position_code_figures,
             .needs = LayerTrait::feedback},
    PlotKind{.id = "deep_profiles",
             .title = "Deep profiles",
             .about = "Decaying, frozen and increasing influence of 1, 2 and 3 blocks.",
             .analyses = set_of(Analysis::influence),
             .subtitle = deep_profiles_subtitle,
             .prepare = deep_profiles_figures,
             .needs = LayerTrait::feedback,
             .needs_model = false},
    PlotKind{.id = "selective_retrieval",
             .title = "Selective retrieval",
             .about = "The network of theorem 12, weights written down: one token kept, beside diffuse stacks.",
             .analyses = set_of(Analysis::retrieval),
             .subtitle = selective_retrieval_subtitle,
             .prepare = selective_retrieval_figures,
             .needs = LayerTrait::feedback,
             .needs_model = false},
    PlotKind{.id = "costs",
             .title = "Cost of length",
             .about = "Time and memory of attention, Mamba-2 and SKA over the length, measured on this machine.",
             .analyses = set_of(Analysis::costs),
             .subtitle = costs_subtitle,
             .prepare = costs_figures,
             .smallest = {250, 170},
             .needs_model = false},
};

constexpr std::array influence_cards{
    FormulaCard{
        "influence",
        "Influence tail",
        "|∂y_t/∂x_τ|₂ over the lag t − τ",
        "How much an output still depends on an old token. A straight line on log-log axes is a power law, a "
        "straight line on semi-log axes an exponential. ± is half the 95 % interval; two laws stand where the tail "
        "does not tell them apart (Akaike's criterion). Dashed: theory with this layer's own numbers. Long dashes: "
        "the envelope l^−β, β = 1 − γ c₂, where γ c₂ < 1. A click on a layer leaves its theory alone.",
        "Sessa, definition 3, theorems 8 and 12",
        nullptr,
        {"lag"}},
    FormulaCard{
        "influence_blocks", "End to end", "|∂y_t/∂x_τ|₂",
        "Spectral norm of a Jacobian block by reverse passes: exact with a cotangent for every channel, else "
        "between √(tr A²/tr A) and (tr A²)^¼ for A = J Jᵀ; the dotted lines are these bounds, wider by what the "
        "sampling of so few cotangents may be off (95 %). Theorem 11's path sum multiplies the blocks' own tails along "
        "every path, at its own height: by how much it is too high says how little the paths add up. Theorem 23 "
        "(Sessa), proposition 10 (attention) and proposition 4 (Mamba-2, C e^−Δ behind the convolution) stand at their "
        "absolute height, too, from constants measured on this layer: "
        "dilution t |∂f_t/∂x_τ| (assumption 21), logits t Σ_j α_tj |∂ℓ_tj/∂x_τ| (22), own |u_τ| (17, 19). A constant "
        "that grows along the sequence is none: its assumption is named. Where γ_max c₂ ≥ 1 (assumption 16) the "
        "measured solve stands in for the tail that is not promised.",
        "Sessa, section 4.2.2, theorem 11, theorem 23, corollary B.7, propositions 4 and 10", nullptr},
    FormulaCard{
        "influence_fixed", "Routing held fixed", "|w_tτ|: α_tτ, C_t Π a B_τ, ((I − B)⁻¹ α)_tτ",
        "The same with the routing frozen: attention weights, the impulse of a state, the feedback's solve, with the "
        "branch in front of it and alone: (I − B)⁻¹. Long dashes here are at their absolute height: C l^−β with "
        "C = (1 − β) e^{1−β} of the resolvent (theorem 8), c₂/(τ + l + 1) of attention and max |C·B| e^−Δ of a state "
        "(proposition 9). Other theory "
        "meets the tail at lag 4, as its constants are not measured.",
        "Sessa, section 4.2.1, theorem 8, proposition 9", nullptr},
    FormulaCard{"race", "Memory race", "lag at which influence falls to 1 %",
                "Every layer gets the same noise of the run's seed. Who remembers longest stands first, with the bytes "
                "of state and the milliseconds a token that it costs.",
                "Sessa, section 4.2; Echo, section 3.5", nullptr},
    FormulaCard{"race_tails",
                "All tails",
                "|∂y_t/∂x_τ| / |∂y_τ+1/∂x_τ|",
                "Each divided by its own value at lag 1.",
                "Sessa, definition 3",
                nullptr,
                {"share of lag 1"}},
    FormulaCard{
        "race_recall",
        "Recall of the planted token",
        "nearest mean among four, leaving one context out",
        "One of four tokens, a cue and a value of its own, is planted among white noise; later the cue stands there "
        "again. A decoder that has learned from other noise says from the answer which one it was: 1 is perfect "
        "recall, "
        "a quarter is guessing.",
        "this program's own measure",
        nullptr,
        {"right answers"}},
    FormulaCard{
        "race_cost", "Memory cost", "bytes of state, ms per token",
        "Of one sequence as long as the race, in float32; the time is the median of single recurrent steps at its end.",
        "Echo, section 3.5", nullptr},
    FormulaCard{"routing", "Routing", "s = (I − B)⁻¹ f,  B_tj = γ_t α_tj",
                "What the layer reads at each token, and for a feedback over how many hops.",
                "Sessa, eqs. 4, 5, 17 to 20", nullptr},
    FormulaCard{"routing_weights", "Weights", "y_t = Σ_τ w_tτ v_τ", "Equivalent attention of one head.",
                "Sessa, eq. 26", nullptr},
    FormulaCard{"routing_feedback", "Feedback weights", "α_tj = softmax over j < t of q_t·k_j / √D",
                "One head over the full width, without any position code.", "Sessa, eq. 17", nullptr},
    FormulaCard{"routing_resolvent", "Resolvent", "(I − B)⁻¹ = Σ_k B^k",
                "What a unit at τ becomes at t over paths of any number of hops.", "Sessa, eq. 27", nullptr},
    FormulaCard{"routing_hops", "Hops", "(B^k 1)_T",
                "Mass that reaches the last token over exactly k hops; all bars add "
                "to the position code's last value.",
                "Sessa, eq. 5", nullptr},
    FormulaCard{
        "routing_hop_profiles", "Hops over the lag", "(B^k)_t0, Σ_k B^k = (I − B)⁻¹",
        "What an impulse at token 0 brings to token t over exactly k hops, and over all of them together: the longer "
        "paths are what makes the tail a power law.",
        "Sessa, eq. 5 and section 4.2.1", nullptr},
    FormulaCard{"routing_gain", "Feedback gain", "γ_t = γ_max tanh(γ_b + γ_c·u_t)",
                "How much of the past returns. The tail is lag^−(1 − γ) for uniform routing.", "Sessa, eq. 18",
                nullptr},
    FormulaCard{
        "routing_assumptions",
        "Assumptions",
        "ρ = max |γ_t| < 1,  γ_max c₂ = 1 − β < 1",
        "What Sessa's theorems assume of this feedback, and how near its solve comes to what they promise. "
        "|s|: the largest row sum of |(I − B)⁻¹| beside 1/(1 − ρ) (proposition 2). tail: the largest "
        "|(I − B)⁻¹_tτ| beside C l^−β, C = (1 − β) e^{1−β} (theorem 8); no bar where γ_max c₂ ≥ 1. |y|: the "
        "longest answer beside the constant of proposition 25. Measured on this sequence: another one may break "
        "what this one keeps, but not |y|, which holds for all.",
        "Sessa, assumptions 1, 6, 7, propositions 2 and 25, theorem 8",
        nullptr,
        {"share of the limit", "quantity"}},
    FormulaCard{
        "routing_reach",
        "Ball to ball",
        "|y_t| ≤ R + |W_out| G F/(1 − ρ) + |b_out|,  |x_t| ≤ R",
        "The block is stable: tokens of at most the length R are answered by tokens of at most this length, "
        "however long the sequence. F, G and ρ bound f, the gate and γ by the spectral norms of the weights: "
        "through LayerNorm max |w| R / √(R²/D + ε) + |b|, then |W_in|, |W_v|, and "
        "ρ = γ_max tanh(|γ_b| + |γ_c| |u|). Each dot is a token of the sequence. The bound holds for all sequences, "
        "and lies far above any one: the weights alone allow a ρ near γ_max, so 1/(1 − ρ) is most of its "
        "height.",
        "Sessa, proposition 25, lemmas D.2 and D.3, remark D.1",
        nullptr,
        {"R, length of a token |x_t|", "|y_t|"}},
    FormulaCard{
        "routing_decay", "State retention factor", "a_t = exp(−A Δ_t)",
        "Geometric mean over the heads. A mean rate above 0 is failed freeze time: an exponential tail, that of "
        "a time-invariant system with this rate (proposition 3). Proposition 5 asks for a rate that holds over "
        "every stretch: the least over 16 tokens in a row.",
        "Sessa, propositions 3 and 5", nullptr},
    FormulaCard{
        "routing_freeze", "Accumulated step", "Δ(τ, t) = −Σ log a_j over τ < j ≤ t  ≥ c (t − τ)",
        "What the memory has faded by. Solid: the least over every head and source at this lag: where it keeps to "
        "a line, time cannot be frozen and the memory is exponentially small. c is its slope over 16 tokens, "
        "the worst constant. Dashed: a time-invariant system with the mean rate. A layer forgets as slowly as "
        "its slowest head.",
        "Sessa, propositions 3, 4 and 5", nullptr},
    FormulaCard{"routing_effective", "Effective number of tokens", "exp(−Σ α log α)",
                "As many as there are for a diffuse routing, 1 for a sharp one.", "Sessa, definition 4", nullptr},
    FormulaCard{"routing_spread", "Logit spread", "max − min of the logits of a row",
                "Bounded in the diffuse regime: then weights are within a factor of 1/t.", "Sessa, definition 4",
                nullptr},
    FormulaCard{
        "position_code", "Position code", "(I − B) s = 1",
        "The answer of the feedback to a constant signal rises from token to token: an absolute position, "
        "without any position code. Dashed: 1 + γ/(1−γ) (1 − Γ(t+γ)/(Γ(γ)Γ(t+1))). Where it is ordered, the nearest "
        "code tells the position as long as noise stays below half the smallest step.",
        "Sessa, corollaries I.8 and 4.11 to 4.13", nullptr},
    FormulaCard{
        "position_recovery",
        "Recovery of the position",
        "P(nearest s_j to s_t + noise is s_t), mean over t",
        "A decoder reads the position from the code alone, as the nearest value. Exact, from the gaps between "
        "neighbouring values: half a gap of noise may be added. A code that turns back has positions with nearly "
        "the same value, which little noise confuses.",
        "Sessa, corollaries 4.11 to 4.13",
        nullptr,
        {"positions told", "noise on the code, standard deviation"}},
    FormulaCard{"deep_profiles", "Deep profiles", "lag^(k(1 − β) − 1)",
                "Transport of an impulse through k blocks of uniform routing with gain 1 − β and profile (t+1)^(1−β): "
                "one block forgets, two keep, three amplify. Ours passes on what has jumped in every block and reads "
                "f_t = p_t x_t alone. Lemma K.22 (dotted) reads the uniform average of p x over the prefix and keeps x "
                "beside it: other heights, the same exponent.",
                "Sessa, theorem 12, lemma K.22", nullptr},
    FormulaCard{"deep_exponents",
                "Deep exponents",
                "k(1 − β) − 1",
                "Fitted to the Jacobian of k stacked feedback solves from lag 128 to 1,023, by reverse passes. Short "
                "stacks still bend there: the fit of the recursion beyond lag 10,000 agrees within 0.01. Negative: "
                "decaying, 0: frozen, positive: increasing.",
                "Sessa, theorem 12 and corollary 4.8",
                nullptr,
                {"exponent", "blocks k"}},
    FormulaCard{
        "selective_retrieval",
        "Selective retrieval",
        "S(τ*, t) = e_sᵀ (∂h_t/∂x_τ*) e_s ~ (t − τ*)^(k(1 − β) − 1)",
        "A network of Sessa blocks without norm whose weights are those of the proof: it writes positions, a profile "
        "(t + 1)^(1 − β), selects token τ*, and carries its signal through k macro-layers of diffuse feedback. The "
        "score is read off real layers by reverse passes. β, k, τ* and what the selector leaves to others are sliders.",
        "Sessa, definition 5, theorem 12, proposition 13",
        nullptr,
        {"Kernel exponent β", "Macro-layers k", "Selected token τ*", "Leak of the selector",
         "Step of the failed freeze"}},
    FormulaCard{
        "retrieval_scores", "Transport", "|S(τ*, τ* + l)| / |S(τ*, τ* + 1)|",
        "The selected token's score over the lag, as a share of lag 1. Beside it uniform attention, x += mean(x), "
        "and a state that fades by e^−Δ, as deep as the macro-layers (solid) and as the whole network (dashed). "
        "Both decay in the end, as proposition 13 says; but a deep stack rises first, up to lags of about "
        "e^(depth − 1) for attention and depth/Δ for the state: longer than any sequence here.",
        "Sessa, corollaries 4.7 to 4.9, proposition 13", nullptr},
    FormulaCard{"retrieval_margin",
                "Margin",
                "S(τ*, t) − Σ_{τ < t} |S(τ, t)| without τ*",
                "What the selected token brings to t, and what all others before t bring together. Between the dotted "
                "lines the constants of definition 5: c l^ν and C l^ν with c and C as measured. The margin is gone "
                "where the others cross the score.",
                "Sessa, definition 5, lemma K.26",
                nullptr,
                {"transport score"}},
    FormulaCard{"retrieval_profile",
                "Profile",
                "p_t ~ (t + 1)^(1 − β)",
                "What the first blocks write on a channel of its own: an impulse at token 0, which a diffuse feedback "
                "lets fade as t^−β, summed up by a feedback that reads its predecessor. It makes up for the age of "
                "the source.",
                "Sessa, corollary K.21",
                nullptr,
                {"profile p_t", "token t + 1"}},
    FormulaCard{
        "costs",
        "Cost of length",
        "T^2 d,  T d,  T r^2/S + r^3",
        "What a longer sequence costs: a pass there and back, one more token behind so many, what is carried on, "
        "what a pass keeps. The three layers of the transfer study, one sequence in float32, processor time "
        "of one thread. Dashed: the power of T that the table names, through the last point; short sequences lie above "
        "it where what does not grow with T still counts.",
        "Echo, table 1",
        nullptr,
        {"tokens T", "time of a pass", "time of a token", "state of a sequence", "memory of a pass"}}};

}  // namespace

PlotFamily influence_plots() { return {influence_rows, influence_cards}; }

}  // namespace afterglow
