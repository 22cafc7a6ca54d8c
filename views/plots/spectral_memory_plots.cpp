// Plots and cards of Spectral Memory: the path of training, forecasts, memory tokens.
#include <array>

#include "core/engine/observation/forecast_view.h"
#include "core/engine/observation/memory_view.h"
#include "core/engine/observation/trajectory_view.h"
#include "core/figure/axis.h"
#include "views/figures/semantic_colours.h"
#include "views/figures/training/forecast_figures.h"
#include "views/figures/training/memory_figures.h"
#include "views/figures/training/trajectory_figures.h"
#include "views/plots/families.h"

namespace afterglow {

namespace {

std::string trajectory_numbers(const Observation& o, const Selection&) {
  if (!o.trajectory || o.trajectory->explained.empty()) return "";
  const std::vector<double>& explained = o.trajectory->explained;
  const std::size_t last = std::min<std::size_t>(explained.size(), 3);
  return number_text(100 * explained[last - 1], 3) + " % of the variance in " + std::to_string(last) +
         (last == 1 ? " mode" : " modes");
}

std::string forecast_numbers(const Observation& o, const Selection&) {
  if (!o.forecast || o.forecast->windows.empty()) return "";
  const ForecastWindow& window = o.forecast->windows.front();
  return "MSE " + number_text(window.mse, 4) + ", MAE " + number_text(window.mae, 4);
}

std::string memory_token_numbers(const Observation& o, const Selection&) {
  if (!o.memory) return "";
  return "M = " + std::to_string(o.memory->tokens) + ", " + grouped_number(o.memory->history_rows) + " rows of history";
}

constexpr std::array spectral_memory_rows{
    PlotKind{.id = "trajectory",
             .title = "Trajectory",
             .about = "The path of training in its first three modes; a click goes back there.",
             .analyses = set_of(Analysis::trace),
             .subtitle = trajectory_subtitle,
             .prepare = trajectory_figures,
             .smallest = {250, 190}},
    PlotKind{.id = "kl_spectrum",
             .title = "K-L spectrum",
             .about = "How few modes hold the path of training, by both strategies.",
             .analyses = set_of(Analysis::trace),
             .subtitle = kl_spectrum_subtitle,
             .prepare = kl_spectrum_figures,
             .smallest = {170, 150}},
    PlotKind{.id = "temporal_modes",
             .title = "Temporal modes",
             .about = "The first modes of training over its steps.",
             .analyses = set_of(Analysis::trace),
             .subtitle = temporal_modes_subtitle,
             .prepare = temporal_modes_figures,
             .smallest = {250, 150}},
    PlotKind{.id = "forecast",
             .title = "Forecast",
             .about = "Input, truth and prediction of a window, channel by channel.",
             .analyses = set_of(Analysis::trace),
             .subtitle = forecast_subtitle,
             .prepare = forecast_figures,
             .needs = LayerTrait::series,
             .smallest = {215, 130}},
    PlotKind{.id = "memory_tokens",
             .title = "Memory tokens",
             .about = "What the memory of training reads in a window, and who reads it.",
             .analyses = set_of(Analysis::trace),
             .subtitle = memory_tokens_subtitle,
             .prepare = memory_tokens_figures,
             .needs = LayerTrait::training_memory,
             .smallest = {195, 140},
             .workspace = "memory"},
    PlotKind{.id = "memory_inspector",
             .title = "Memory inspector",
             .about = "What the memory of training holds, from its buffer to its tokens, and what each mode is worth.",
             .analyses = set_of(Analysis::trace),
             .subtitle = memory_inspector_subtitle,
             .prepare = memory_inspector_figures,
             .needs = LayerTrait::training_memory,
             .smallest = {195, 140}},
};

constexpr std::array spectral_memory_cards{
    FormulaCard{"trajectory", "Trajectory", "Hc = H − mean,  path_k = √(T λ_k) φ_k",
                "Every recorded step leaves one vector, a row of H: what the model made of that batch. Seen along the "
                "directions in which training moved most, it is a path. A click on it goes back to that step.",
                "Spectral Memory, section 3.3", trajectory_numbers},
    FormulaCard{"trajectory_12", "Modes 1 and 2", "path_k = √(T λ_k) φ_k",
                "Coordinates of the recorded vectors along the two strongest directions. % is the share of the "
                "variance that lies along an axis.",
                "Spectral Memory, section 3.3", trajectory_numbers},
    FormulaCard{"trajectory_13", "Modes 1 and 3", "path_k = √(T λ_k) φ_k",
                "The same path, seen along the first and the third direction.", "Spectral Memory, section 3.3",
                trajectory_numbers},
    FormulaCard{"kl_spectrum", "K-L spectrum", "C = Hc Hcᵀ/T,  C φ_k = λ_k φ_k",
                "Strategy A takes the covariance between steps as it is measured; B a kernel that only knows how far "
                "apart two steps are. No choice of k modes rebuilds the path better than A.",
                "Spectral Memory, section 3.3", trajectory_numbers},
    FormulaCard{"kl_eigenvalues", "Eigenvalues", "C φ_k = λ_k φ_k",
                "Each divided by the largest one: those of B belong to its kernel, not to the path.",
                "Spectral Memory, section 3.3", nullptr},
    FormulaCard{"kl_explained", "Explained variance", "1 − |Hc − P_k Hc|² / |Hc|²",
                "Share of the path's variance that its first k modes keep; for A that is Σ λ_k of them over Σ λ.",
                "Spectral Memory, section 3.3", trajectory_numbers},
    FormulaCard{"kl_error", "Reconstruction error", "|Hc − P_k Hc| / |Hc|",
                "What is lost when the path is rebuilt from its first k modes, in Frobenius norms.",
                "Spectral Memory, section 3.3", nullptr},
    FormulaCard{"temporal_modes",
                "Temporal modes",
                "C φ_k = λ_k φ_k,  |φ_k| = 1",
                "When training moved along a mode: flat where it rests, steep where it learns. The sign of a mode is "
                "free.",
                "Spectral Memory, section 3.3",
                nullptr,
                {"mode φ_k"}},
    FormulaCard{"modes_kept",
                "Modes",
                "k = 1 .. K",
                "How many modes are kept, strongest first.",
                "Spectral Memory, section 3.3",
                nullptr,
                {"modes k"}},
    FormulaCard{
        "forecast",
        "Forecast",
        "L = mean (prediction − truth)²",
        "The model sees the input and tells the next values of every channel, each as a sequence of its own less "
        "its window's mean, as the official code does. Errors are those of the standardised series, values are "
        "in its own units.",
        "Spectral Memory, section 4.1",
        forecast_numbers,
        {"value"}},
    FormulaCard{"forecast_errors",
                "Error of every window",
                "MSE = mean (prediction − truth)²",
                "Of the standardised series, for each channel and window.",
                "Spectral Memory, section 4.1",
                forecast_numbers,
                {"MSE, standardised"}},
    FormulaCard{"forecast_time",
                "Time",
                "0 is the last input",
                "Left of 0 is seen, right of 0 is forecast.",
                "Spectral Memory, section 4.1",
                nullptr,
                {"time after the last input", "input position"}},
    FormulaCard{"memory_tokens",
                "Memory tokens",
                "Z = LayerNorm(W_2 gelu(W_1 vec(√λ_k φ_kᵀ Hc)))",
                "The history of training, decomposed, becomes a few tokens in front of the input. They read the series "
                "and are read by it like any other token.",
                "Spectral Memory, sections 3.4 and 3.5",
                memory_token_numbers,
                {"memory token", "softmax weight"}},
    FormulaCard{"memory_reads", "What memory reads", "softmax(q_m · k_t / √d)",
                "Weight that a memory token gives to each input position, mean over heads.",
                "Spectral Memory, section 3.5", memory_token_numbers},
    FormulaCard{"memory_is_read", "Who reads memory", "softmax(q_t · k_m / √d)",
                "Weight that each input position gives to a memory token, mean over heads; dotted is 1/(M + L).",
                "Spectral Memory, section 3.5", memory_token_numbers},
    FormulaCard{
        "memory_off", "Without memory", "MSE(tokens = 0) / MSE − 1",
        "What the memory is worth: the same windows with zeros for its tokens, as the model sees them before the "
        "history is long enough.",
        "Spectral Memory, section 3.5", memory_token_numbers},
    FormulaCard{"memory_inspector", "Memory inspector", "Hc = H − mean,  c_k = √λ_k φ_kᵀ Hc,  Z = f(c_1 .. c_K)",
                "The way from the batches that were trained on to the tokens in front of the input, stage by stage, of "
                "the whole buffer; Trajectory shows at most 256 recorded steps. Strategy, kernel, τ and how much "
                "of K, M and T is used are sliders. A larger K, M or T needs training, as they shape weights: --set "
                "model.n_components=, memory_tokens=, memory_depth=, in a stack model.memory.n_components=; "
                "afterglow table etth1_memory compares trained ones.",
                "Spectral Memory, sections 3.2 to 3.5", memory_token_numbers},
    FormulaCard{
        "inspector_worth",
        "Without one mode",
        "MSE(C_KL without row k) / MSE − 1",
        "The same windows with zeros in the place of one mode's component; where tokens are asked, the share of "
        "right answers. Whether memory amplifies modes that predict and suppresses noise shows here. The tokens "
        "were trained with all modes, so this is their use, not the information in them; a few windows are "
        "shown, so small changes are noise.",
        "Spectral Memory, section 3.4",
        memory_token_numbers,
        {"mode k", "change of the accuracy", "change of the MSE"}},
    FormulaCard{"inspector_less",
                "With less of it",
                "MSE(first K' modes, first M' tokens, newest T' rows) / MSE(K, M, T) − 1",
                "The same windows, with less of one thing and all of the others: the strongest K' modes, the first M' "
                "tokens (zeros stand in the place of the others), the newest T' rows, of which spectrum, modes and "
                "components are then taken. A ring is where the sliders stand. This is what a trained memory loses, "
                "not what a smaller one would learn: a smaller or larger one has to be trained.",
                "Spectral Memory, section 3.1",
                memory_token_numbers,
                {"share kept"}},
    FormulaCard{"inspector_buffer",
                "Buffer",
                "Hc = H − mean",
                "Each row is the summary of one batch, oldest first, less the mean of all rows.",
                "Spectral Memory, section 3.2",
                memory_token_numbers,
                {"channel", "row, oldest first"}},
    FormulaCard{"inspector_modes", "Temporal modes of the buffer", "C φ_k = λ_k φ_k",
                "When in the buffer each mode is strong. The sign of a mode is free: here its largest entry is "
                "positive, so a mode may flip from one step to the next.",
                "Spectral Memory, section 3.3", nullptr},
    FormulaCard{"inspector_components", "Components C_KL", "c_k = √λ_k φ_kᵀ Hc",
                "What the tokens are made of: for each mode the direction in which the summaries moved, as long as the "
                "mode is strong.",
                "Spectral Memory, eq. 8", nullptr},
    FormulaCard{"inspector_tokens", "Tokens", "Z = LayerNorm(W_2 gelu(W_1 vec(C_KL)))",
                "The memory tokens themselves: the same for every sequence, until the history grows by a row.",
                "Spectral Memory, section 3.4", nullptr},
    FormulaCard{"inspector_pooling",
                "Pooling weights",
                "α = softmax_t(w · h_t),  row = mean Σ_t α_t h_t",
                "What the next row of the buffer takes of each position, in the mean over the sequences shown. No "
                "gradient reaches w, as the decomposition has none: the weights stay as they were drawn, though h_t "
                "changes.",
                "Spectral Memory, eqs. 3 to 5 and 15",
                nullptr,
                {"α_t"}},
    FormulaCard{"memory_buffer", "What the buffer holds", "λ_k / Σ λ",
                "The buffer keeps a summary of each batch that was trained on; its strongest modes feed the tokens.",
                "Spectral Memory, sections 3.2 and 3.3", nullptr}};

}  // namespace

PlotFamily spectral_memory_plots() { return {spectral_memory_rows, spectral_memory_cards}; }

}  // namespace afterglow
