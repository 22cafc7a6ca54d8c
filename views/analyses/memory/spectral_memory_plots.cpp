// Plots and cards of Spectral Memory: the path of training, forecasts, memory tokens.
#include "core/engine/analyses/forecast/forecast_view.h"
#include "core/figure/axis.h"
#include "views/analyses/memory/memory_figures.h"
#include "views/figures/semantic_colours.h"
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

constexpr PlotRow spectral_memory_rows[] = {
    {"trajectory", set_of(Analysis::trace), {}, trajectory_subtitle, trajectory_figures},
    {"kl_spectrum", set_of(Analysis::trace), {}, kl_spectrum_subtitle, kl_spectrum_figures},
    {"temporal_modes", set_of(Analysis::trace), {}, temporal_modes_subtitle, temporal_modes_figures},
    {"forecast", set_of(Analysis::trace), LayerTrait::series, forecast_subtitle, forecast_figures},
    {"memory_tokens", set_of(Analysis::trace), LayerTrait::training_memory, memory_tokens_subtitle,
     memory_tokens_figures},
    {"memory_inspector", set_of(Analysis::trace), LayerTrait::training_memory, memory_inspector_subtitle,
     memory_inspector_figures},
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
