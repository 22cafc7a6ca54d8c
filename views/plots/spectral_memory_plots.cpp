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
    PlotKind{
        .id = "trajectory",
        .title = "Trajectory",
        .about = "The path of the weights during training in its three main directions; a click rewinds to that step.",
        .analyses = set_of(Analysis::trace),
        .subtitle = trajectory_subtitle,
        .prepare = trajectory_figures,
        .smallest = {250, 190}},
    PlotKind{.id = "kl_spectrum",
             .title = "K-L spectrum",
             .about = "How few modes describe the path of training, by both strategies.",
             .analyses = set_of(Analysis::trace),
             .subtitle = kl_spectrum_subtitle,
             .prepare = kl_spectrum_figures,
             .smallest = {170, 150}},
    PlotKind{.id = "temporal_modes",
             .title = "Temporal modes",
             .about = "The main modes of training over its steps.",
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
             .about = "What the memory tokens read in a window, and which positions read them.",
             .analyses = set_of(Analysis::trace),
             .subtitle = memory_tokens_subtitle,
             .prepare = memory_tokens_figures,
             .needs = LayerTrait::training_memory,
             .smallest = {195, 140},
             .workspace = "memory"},
    PlotKind{.id = "memory_inspector",
             .title = "Memory inspector",
             .about = "What the training memory holds, from its buffer to its tokens, and how much each mode helps.",
             .analyses = set_of(Analysis::trace),
             .subtitle = memory_inspector_subtitle,
             .prepare = memory_inspector_figures,
             .needs = LayerTrait::training_memory,
             .smallest = {195, 140}},
};

constexpr CardNumbers spectral_memory_numbers[] = {
    {"trajectory", trajectory_numbers},        {"trajectory_12", trajectory_numbers},
    {"trajectory_13", trajectory_numbers},     {"kl_spectrum", trajectory_numbers},
    {"kl_explained", trajectory_numbers},      {"forecast", forecast_numbers},
    {"forecast_errors", forecast_numbers},     {"memory_tokens", memory_token_numbers},
    {"memory_reads", memory_token_numbers},    {"memory_is_read", memory_token_numbers},
    {"memory_off", memory_token_numbers},      {"memory_inspector", memory_token_numbers},
    {"inspector_worth", memory_token_numbers}, {"inspector_less", memory_token_numbers},
    {"inspector_buffer", memory_token_numbers}};

}  // namespace

PlotFamily spectral_memory_plots() { return {spectral_memory_rows, spectral_memory_numbers}; }

}  // namespace afterglow
