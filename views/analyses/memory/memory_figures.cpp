// The memory of training from its history to its tokens, left to right as the model computes it.
#include "views/analyses/memory/memory_figures.h"

#include <algorithm>

#include "core/engine/analyses/forecast/forecast_view.h"
#include "core/figure/axis.h"
#include "views/figures/semantic_colours.h"
#include "views/figures/sheet.h"
#include "views/plots/families.h"

namespace afterglow {
namespace {

Figure stage_figure(std::string id, std::string title, std::string subtitle, std::string x, std::string y) {
  return sheet("inspector_" + std::move(id), std::move(title), std::move(subtitle),
               {.label = std::move(x), .integer_ticks = true}, {std::move(y)});
}

/// `counts` rows from 1, as modes do.
void add_matrix(Figure& figure, std::string name, int rows, int columns, const std::vector<float>& cells,
                bool counts = false) {
  HeatMap map = signed_map(std::move(name), rows, columns, cells, max_magnitude(cells));
  for (int row = 1; counts && row <= rows; ++row) map.row_labels.push_back(std::to_string(row));
  figure.y.integer_ticks = true;
  figure.series.emplace_back(std::move(map));
}

/// For an error, the mode helps if the bar is above 0; for an accuracy, if it is below 0.
Figure worth_figure(const MemoryView& view) {
  const std::string better = view.is_of_error ? "above 0: the mode helps" : "below 0: the mode helps";
  Figure figure = stage_figure("worth", "Without one mode", better, "mode k",
                               view.is_of_error ? "change of the MSE" : "change of the accuracy");
  if (view.is_of_error) figure.y.unit = "%";
  figure.labels = LabelPlacement::none;
  Bars bars{.name = "without mode k", .width = 0.7};
  for (std::size_t k = 0; k < view.change_without.size(); ++k) {
    const double change = view.change_without[k] * (view.is_of_error ? 100 : 1);
    bars.bars.push_back({static_cast<double>(k + 1), change, std::nan(""), mode_ink(static_cast<int>(k))});
  }
  figure.x.range = Range{0.4, static_cast<double>(view.change_without.size()) + 0.6};
  if (std::ranges::all_of(view.change_without, [](double change) { return change == 0; }))
    figure.subtitle = "no mode changes an answer so far";
  figure.series.emplace_back(std::move(bars));
  add_level(figure, 0, "", Role::faint, Dash::solid);
  return figure;
}

/// "K' 4, M' 4, T' 250: +1.2 %", or empty if everything is used.
std::string used_text(const MemoryView& view) {
  std::string used;
  bool is_less = false;
  for (const MemoryLess& less : view.less) {
    used += (used.empty() ? "" : ", ") + less.of.substr(less.of.find(' ') + 1) + " " + grouped_number(less.now);
    is_less = is_less || less.now < less.whole;
  }
  const std::string change = (view.change_now > 0 ? "+" : "") + number_text(100 * view.change_now, 3) + " %";
  return is_less ? used + ": " + change : "";
}

Figure less_figure(const MemoryView& view) {
  Figure figure =
      stage_figure("less", "With less memory",
                   std::string("a larger K, M or T needs training") + (view.is_of_error ? ": table etth1_memory" : ""),
                   "share kept", view.is_of_error ? "change of the MSE" : "change of the accuracy");
  figure.x.integer_ticks = false;
  figure.x.unit = "%";
  figure.y.unit = "%";
  if (const std::string used = used_text(view); !used.empty()) figure.subtitle = used;
  Scatter now{.name = "present settings"};
  for (std::size_t i = 0; i < view.less.size(); ++i) {
    const MemoryLess& less = view.less[i];
    std::vector<double> x, y;
    for (std::size_t k = 0; k < std::min(less.kept.size(), less.change.size()); ++k) {
      x.push_back(100.0 * less.kept[k] / std::max(1, less.whole));
      y.push_back(100 * less.change[k]);
    }
    figure.series.push_back(styled(
        line_through(less.of + " of " + grouped_number(less.whole), std::move(x), std::move(y), static_cast<int>(i)),
        {.marker = Marker::automatic}));
    if (less.now < less.whole)
      now.points.push_back({.x = 100.0 * less.now / std::max(1, less.whole),
                            .y = 100 * view.change_now,
                            .ink = static_cast<int>(i),
                            .ring = true,
                            .id = less.of});
  }
  if (!now.points.empty()) figure.series.emplace_back(std::move(now));
  add_level(figure, 0, "", Role::faint, Dash::solid);
  return figure;
}

bool uses_all_rows(const MemoryView& view) {
  return std::ranges::none_of(view.less,
                              [](const MemoryLess& less) { return less.of == "rows T'" && less.now < less.whole; });
}

Figure buffer_figure_of(const MemoryView& view) {
  const std::string rows = (uses_all_rows(view) ? "" : "newest ") + grouped_number(view.history_rows) + " rows";
  Figure figure =
      stage_figure("buffer", "Buffer", view.history_rows > view.buffer_rows ? rows + ", averaged in blocks" : rows,
                   "channel", "row, oldest first");
  add_matrix(figure, "Hc", view.buffer_rows, view.buffer_columns, view.buffer);
  return figure;
}

Figure buffer_modes_figure(const MemoryView& view) {
  const std::string over =
      uses_all_rows(view) ? "over all its rows" : "over its newest " + grouped_number(view.history_rows) + " rows";
  Figure figure = stage_figure("modes", "Temporal modes of the buffer", over, "row, oldest first", "mode φ_k");
  add_level(figure, 0, "", Role::faint, Dash::solid);
  for (std::size_t k = 0; k < view.modes.size(); ++k)
    figure.series.emplace_back(counted_line("mode " + std::to_string(k + 1), view.modes[k], 0,
                                            mode_ink(static_cast<int>(k)), Dash::automatic, 1.5));
  return figure;
}

Figure pooling_figure(const MemoryView& view) {
  Figure figure =
      stage_figure("pooling", "Pooling weights", "dotted: equal weight on all positions", "input position", "α_t");
  figure.labels = LabelPlacement::none;
  figure.series.emplace_back(counted_line("pooling weight", view.pooling, 0, 0, Dash::automatic, 1.5));
  add_level(figure, 1 / static_cast<double>(view.pooling.size()), "", Role::dim, Dash::dotted);
  return figure;
}

}  // namespace

std::string memory_inspector_subtitle(const Observation& observation, const Selection&) {
  const MemoryView* view = observation.memory.get();
  if (!view) return "needs " + words_for(LayerTrait::training_memory);
  if (view->components.empty()) return "The history is still too short for a decomposition.";
  return "buffer → K = " + std::to_string(view->eigenvalues.size()) + " modes → M = " + std::to_string(view->tokens) +
         " tokens" + age_text(observation, view->step);
}

std::vector<Figure> memory_inspector_figures(const Observation& observation, const Selection&, CurveStore&) {
  const MemoryView* view = observation.memory.get();
  std::vector<Figure> figures;
  if (!view) return figures;
  if (!view->change_without.empty()) figures.push_back(worth_figure(*view));
  if (!view->less.empty()) figures.push_back(less_figure(*view));
  if (!view->buffer.empty()) figures.push_back(buffer_figure_of(*view));
  if (!view->modes.empty()) figures.push_back(buffer_modes_figure(*view));
  if (!view->components.empty() && view->width > 0) {
    Figure figure = stage_figure("components", "Components C_KL", "one row for each mode", "channel", "mode k");
    add_matrix(figure, "C_KL", static_cast<int>(view->components.size()) / view->width, view->width, view->components,
               true);
    figures.push_back(std::move(figure));
  }
  if (!view->token_values.empty() && view->width > 0) {
    Figure figure = stage_figure("tokens", "Tokens", "memory tokens in front of the input", "channel", "memory token");
    add_matrix(figure, "Z", static_cast<int>(view->token_values.size()) / view->width, view->width, view->token_values);
    figures.push_back(std::move(figure));
  }
  if (!view->pooling.empty()) figures.push_back(pooling_figure(*view));
  return figures;
}

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
