// Plots and cards of what sliders change: the training's settings, and those of layers and interventions by their last
// name.
#include <array>

#include "core/figure/axis.h"
#include "views/plots/families.h"

namespace afterglow {

namespace {

constexpr std::string_view adamw = "AdamW (Loshchilov and Hutter)";

std::string rate_numbers(const Observation& o, const Selection&) {
  if (o.runs.empty() || o.runs.back().learning_rate.empty()) return "";
  return "now η = " + number_text(o.runs.back().learning_rate.back(), 3);
}

constexpr std::array setting_cards{
    FormulaCard{"setting_learning_rate", "Learning rate", "θ ← θ − η {m}/{√{v} + ε}",
                "The largest step size η of the schedule, reached after warm-up; a cosine lowers it from there.", adamw,
                rate_numbers},
    FormulaCard{"setting_batch", "Batch", "L = {1}/{n} Σ_i L_i",
                "How many sequences n one training step averages over: more are smoother and slower.",
                "Echo, section 4", nullptr},
    FormulaCard{"setting_clip", "Gradient clipping", "g ← g · min(1, {c}/{|g|})",
                "The gradient of all weights together is shortened to this norm c where it is longer; 0: never.",
                "Echo, section 4", nullptr},
    FormulaCard{"setting_weight_decay", "Weight decay", "θ ← θ − η w θ",
                "Pulls matrices towards zero in every step, beside the gradient.", adamw, nullptr},
    FormulaCard{"setting_steps", "Steps", "n = 1 .. N", "The last training step N, where the schedule ends.",
                "Echo, section 4", nullptr},
    FormulaCard{"setting_warmup", "Warm-up", "η_n = η {n}/{W},  n ≤ W",
                "Steps W in which the learning rate rises to its peak.", "Echo, section 4", rate_numbers},
    FormulaCard{"setting_final_rate", "Final rate", "η_N = f η", "Share f of the peak at which the cosine ends.",
                "Echo, section 4", rate_numbers},
    FormulaCard{"setting_beta1", "Decay of the first moment", "m ← β_1 m + (1 − β_1) g",
                "How slowly the running mean of the gradient follows it.", adamw, nullptr},
    FormulaCard{"setting_beta2", "Decay of the second moment", "v ← β_2 v + (1 − β_2) g²",
                "How slowly the running mean of the squared gradient follows it.", adamw, nullptr},
    FormulaCard{"setting_epsilon", "AdamW ε", "{m}/{√{v} + ε}", "Keeps the step finite where the gradient vanishes.",
                adamw, nullptr},
    FormulaCard{"setting_evaluate_every", "Evaluate every", "n mod E = 0",
                "Steps between two looks at sequences that are never trained on; 0: none.", "Echo, section 4", nullptr},
    FormulaCard{"setting_evaluate_examples", "Held-out examples", "{1}/{n} Σ_i correct_i",
                "How many sequences the held-out accuracy is the mean of.", "Echo, section 4", nullptr},
    FormulaCard{"setting_patience", "Patience", "stop after p evaluations without a better one",
                "Training then ends and goes back to its best step; 0: it goes on to the last step.",
                "Spectral Memory, section 4", nullptr},
    FormulaCard{"setting_K", "Power K", "y = B_v L A^K L⁻¹ q",
                "How often the operator acts on a query; 0 is ridge regression.", "Echo, eq. 7", nullptr},
    FormulaCard{"setting_ridge", "Ridge", "G + εI = L Lᵀ",
                "What is added to the diagonal before the system is solved: a larger ridge is better conditioned and "
                "recalls less exactly.",
                "Echo, section 3.2.3", nullptr},
    FormulaCard{"setting_gamma", "Gain γ (eigenvalue scale)", "A = γ A_w", "Multiplies all eigenvalues of this head.",
                "Echo, section 3.2.3", nullptr},
    FormulaCard{"setting_eta", "Gain η", "y = η B_v L A^K L⁻¹ q", "Multiplies what this head answers.", "Echo, eq. 7",
                nullptr},
    FormulaCard{"setting_r", "Iterations r", "x_{i+1} = x_i + ω_i (…)",
                "Steps of the Chebyshev iteration that solves the ridge system.", "Gated KalmaNet, section 4", nullptr},
    FormulaCard{"setting_a", "Ridge strength a", "λ_t = a |H_t|_F,  κ ≤ {a + 1}/{a}",
                "The ridge grows with the matrix, so that the condition number stays bounded.",
                "Gated KalmaNet, section 4", nullptr},
    FormulaCard{"setting_lambda", "Fixed λ", "H_t + λI", "The same ridge for every token; 0: it grows with the matrix.",
                "Gated KalmaNet, section 4", nullptr},
    FormulaCard{"setting_dt_floor", "Smallest step Δ", "a_t = e^{−A Δ_t},  Δ_t ≥ f",
                "A floor f under the step of the state: a larger step forgets faster, 0: as learned.",
                "Mamba-2, section 2", nullptr},
    FormulaCard{"setting_gate_floor", "Gate floor", "e^{g_t} ≥ f",
                "The memory keeps at least this share at each token.", "Gated KalmaNet, section 4", nullptr},
    FormulaCard{"setting_alpha", "Weight α", "α x + (1 − α) q",
                "How much the solution of the system counts against the plain query; below 0: as learned.",
                "Gated KalmaNet, section 4", nullptr},
    FormulaCard{"setting_strategy", "Strategy A or B", "C = Hc Hcᵀ/T  or  k(|t_i − t_j|)",
                "0: the modes of the history itself; 1: those of a kernel over time, whatever the history.",
                "Spectral Memory, eqs. 7 and 9", nullptr},
    FormulaCard{
        "setting_kernel", "Kernel", "e^{−r/s},  e^{−r²/(2s²)},  (1 + {r}/{s}) e^{−r/s}",
        "Of strategy B: 0 exponential, 1 Gaussian, 2 Matérn. Scaled as in the official code: s = τ/T on times from 0 "
        "to 1, where eq. 30 has τ/(T − 1), and Matérn falls with r/s throughout, where eq. 21 writes 1 + r.",
        "Spectral Memory, eqs. 21 and 30", nullptr},
    FormulaCard{"setting_tau", "Time scale τ", "s = {τ}/{T}",
                "How many rows of the history a kernel of strategy B joins. Strategy A does not read it.",
                "Spectral Memory, eq. 30", nullptr},
    FormulaCard{"setting_modes", "Modes kept", "c_k = 0,  k > kept",
                "The strongest modes alone reach the tokens; the others are zeros. 0: the tokens hold what their "
                "weights make of nothing.",
                "Spectral Memory, section 3.3", nullptr},
    FormulaCard{"setting_temperature", "Temperature", "softmax(l / T)",
                "Divides the logits of the forward branch: above 1 more tokens are read, below 1 fewer.",
                "Sessa, section 3", nullptr},
    FormulaCard{"setting_feedback_temperature", "Feedback temperature", "softmax(l / T)",
                "Divides the logits of the feedback branch: above 1 diffuse, below 1 sharp.", "Sessa, section 3",
                nullptr},
    FormulaCard{"setting_gamma_max", "Feedback gain γ", "γ_t = γ_max tanh(u_t)",
                "The largest gain of the feedback; 0 switches it off.", "Sessa, eq. 18", nullptr},
    FormulaCard{"setting_beta", "β factor", "S ← S + c β (v − S k) kᵀ",
                "Multiplies how strongly each token is written; 1: as learned, 0: nothing is written.",
                "flash-linear-attention DeltaNet", nullptr},
    FormulaCard{"setting_fade", "Forgetting", "S ← e^{c g} S",
                "Multiplies every logarithm of the decay; 1: as learned, 0: nothing fades.",
                "flash-linear-attention GatedDeltaNet", nullptr}};

}  // namespace

PlotFamily setting_plots() { return {{}, setting_cards}; }

}  // namespace afterglow
