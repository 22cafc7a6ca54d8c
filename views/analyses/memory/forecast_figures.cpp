// Time counts from the last input: the model sees what is left of 0 and predicts what is right of it.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/figure/axis.h"
#include "views/analyses/memory/memory_figures.h"
#include "views/figures/semantic_colours.h"
#include "views/figures/sheet.h"

namespace afterglow {
namespace {

/// "MSE 0.31 ± 0.02", over several runs.
std::string error_text(const ForecastChannel& channel) {
  const auto runs = static_cast<double>(channel.mse_of_runs.size());
  if (runs < 2) return "MSE " + number_text(channel.mse, 3) + " · MAE " + number_text(channel.mae, 3);
  double mean = 0, squares = 0;
  for (const double mse : channel.mse_of_runs) mean += mse / runs;
  for (const double mse : channel.mse_of_runs) squares += (mse - mean) * (mse - mean);
  return "MSE " + number_text(mean, 3) + " ± " + number_text(std::sqrt(squares / (runs - 1)), 2);
}

/// The mean of the runs between two lines a standard deviation above and below it.
void add_runs(const ForecastView& view, const ForecastChannel& channel, Figure& figure) {
  if (channel.mean.empty() || channel.deviation.size() != channel.mean.size()) return;
  const std::string runs = std::to_string(view.runs.size()) + " runs";
  figure.series.emplace_back(counted_line("mean of " + runs, channel.mean, 1, 2));
  for (const double side : {1.0, -1.0}) {
    std::vector<double> edge = channel.mean;
    for (std::size_t t = 0; t < edge.size(); ++t) edge[t] += side * channel.deviation[t];
    figure.series.push_back(styled(counted_line(side > 0 ? "± one deviation of " + runs : "below", edge, 1, 2),
                                   {.dash = Dash::dotted, .width = 1.2, .is_quiet = side < 0}));
  }
}

Figure channel_figure(const ForecastView& view, const ForecastChannel& channel, std::size_t c) {
  Figure figure = sheet("forecast_" + std::to_string(c + 1),
                        channel.name.empty() ? "channel " + std::to_string(c + 1) : channel.name, error_text(channel),
                        {.label = "time after the last input",
                         .unit = view.time_unit == "row" ? "rows" : view.time_unit,
                         .range = Range{1 - static_cast<double>(std::max<std::size_t>(channel.input.size(), 1)),
                                        static_cast<double>(std::max<std::size_t>(channel.truth.size(), 1))}},
                        {"value"}, LabelPlacement::legend);
  figure.series.emplace_back(counted_line("input", channel.input, 1 - static_cast<double>(channel.input.size()),
                                          Role::dim, Dash::automatic, 1.5));
  // The truth continues from the end of the input.
  std::vector<double> continued = channel.truth;
  if (!channel.input.empty()) continued.insert(continued.begin(), channel.input.back());
  figure.series.emplace_back(counted_line("truth", continued, channel.input.empty() ? 1 : 0, 0));
  figure.series.emplace_back(counted_line(view.runs.empty() ? "prediction" : "prediction, " + view.runs.front(),
                                          channel.prediction, 1, 1, Dash::automatic, 2.4));
  add_runs(view, channel, figure);
  add_moment(figure, 0, "", Role::faint, Dash::solid);
  return figure;
}

Figure errors_figure(const ForecastView& view) {
  Figure figure = sheet("forecast_errors", "Error of every window", "", {"window"}, {"channel"});
  HeatMap map{.name = "MSE",
              .rows = static_cast<int>(view.windows.front().channels.size()),
              .cols = static_cast<int>(view.windows.size()),
              .value = {.label = "MSE, standardised"}};
  std::vector<double> cells;
  double largest = 0;
  for (std::size_t c = 0; c < view.windows.front().channels.size(); ++c) {
    map.row_labels.push_back(view.windows.front().channels[c].name);
    for (const ForecastWindow& window : view.windows) {
      cells.push_back(c < window.channels.size() ? window.channels[c].mse : std::nan(""));
      if (std::isfinite(cells.back())) largest = std::max(largest, cells.back());
    }
  }
  for (const ForecastWindow& window : view.windows)
    map.col_labels.push_back(map.col_labels.empty() ? "this" : std::to_string(window.index));
  map.value.range = Range{0, colour_reach(largest)};
  map.cells = std::move(cells);
  figure.series.emplace_back(std::move(map));
  return figure;
}

/// ", layer 1", or "" if there is only one layer.
std::string of_layer(const MemoryView& view, std::size_t layer) {
  if (view.attention.size() < 2) return "";
  const std::string& label = view.attention[layer].layer;
  return ", layer " + (label.empty() ? std::to_string(layer) : label);
}

std::string numbered(const std::string& id, std::size_t layer) {
  return layer == 0 ? id : id + "_" + std::to_string(layer);
}

/// Rows are memory tokens, columns input positions.
Figure reads_figure(const MemoryView& view, std::size_t layer) {
  const MemoryAttention& attention = view.attention[layer];
  Figure figure = sheet(numbered("memory_reads", layer), "What the memory tokens read" + of_layer(view, layer), "",
                        {.label = "input position", .integer_ticks = true}, {"memory token"});
  HeatMap map{.name = "weight",
              .rows = static_cast<int>(attention.reads.size()),
              .cols = std::max(view.input_length, 0),
              .value = {.label = "softmax weight"}};
  std::vector<double> cells;
  for (std::size_t m = 0; m < attention.reads.size(); ++m) {
    map.row_labels.push_back(std::to_string(m));
    for (std::size_t t = 0; t < static_cast<std::size_t>(map.cols); ++t)
      cells.push_back(t < attention.reads[m].size() ? attention.reads[m][t] : std::nan(""));
  }
  map.cells = std::move(cells);
  figure.series.emplace_back(std::move(map));
  return figure;
}

/// If memory sees the input, all tokens see each other, and equal attention is the same everywhere.
Figure is_read_figure(const MemoryView& view, std::size_t layer) {
  const MemoryAttention& attention = view.attention[layer];
  const bool sees_all = !attention.reads.empty();
  Figure figure = sheet(numbered("memory_is_read", layer), "Which positions read memory" + of_layer(view, layer), "",
                        {.label = "input position", .integer_ticks = true}, {sees_all ? "softmax weight" : "weight"});
  for (int m = 0; m < view.tokens; ++m) {
    std::vector<double> weights;
    for (const std::vector<double>& row : attention.is_read) {
      const auto place = static_cast<std::size_t>(m);
      weights.push_back(place < row.size() ? row[place] : std::numeric_limits<double>::quiet_NaN());
    }
    figure.series.emplace_back(counted_line("m" + std::to_string(m), weights, 0, m));
  }
  if (!sees_all) return figure;
  figure.subtitle = "dotted: equal weight on all positions";
  const double tokens = static_cast<double>(view.tokens) + std::max(view.input_length, 0);
  add_level(figure, 1 / tokens, "", Role::dim, Dash::dotted);
  return figure;
}

Figure buffer_figure(const MemoryView& view) {
  Figure figure = sheet("memory_buffer", "What the buffer holds", grouped_number(view.history_rows) + " rows",
                        {.label = "modes k",
                         .range = Range{1, std::max(2.0, static_cast<double>(view.eigenvalues.size()))},
                         .integer_ticks = true},
                        {.label = "share of the variance", .range = Range{0, 1.04}});
  std::vector<double> single;
  double before = 0;
  for (const double sum : view.explained) {
    single.push_back(sum - before);
    before = sum;
  }
  figure.series.push_back(styled(counted_line("first k modes", view.explained, 1, 0), {.marker = Marker::automatic}));
  figure.series.push_back(styled(counted_line("mode k alone", single, 1, 1), {.marker = Marker::automatic}));
  return figure;
}

/// The growth of each window's error when the memory is switched off.
Figure switched_off_figure(const ForecastView& view) {
  Figure figure = sheet("memory_off", "Without memory", "memory tokens set to zero", {"window"},
                        {.label = "change of the MSE", .unit = "%"}, LabelPlacement::none);
  Bars bars{.name = "without memory"};
  for (std::size_t w = 0; w < view.windows.size(); ++w) {
    const ForecastWindow& window = view.windows[w];
    const auto x = static_cast<double>(w);
    bars.bars.push_back({x, 100 * (window.mse_without_memory / window.mse - 1), std::nan(""), Ink(1)});
    figure.x.ticks.push_back({x, w == 0 ? "this" : std::to_string(window.index)});
  }
  figure.x.range = Range{-0.6, static_cast<double>(view.windows.size()) - 0.4};
  figure.series.emplace_back(std::move(bars));
  add_level(figure, 0, "", Role::faint, Dash::solid);
  return figure;
}

}  // namespace

std::string forecast_subtitle(const Observation& observation, const Selection&) {
  const ForecastView* view = observation.forecast.get();
  if (!view)
    return observation.model.is_forecaster ? "Forecasting the first window: starts within seconds."
                                           : "input, truth and prediction need " + words_for(LayerTrait::series);
  if (view->windows.empty()) return "No window has been forecast yet.";
  const ForecastWindow& window = view->windows.front();
  const std::string when = window.first.empty() ? "" : " · " + window.first + " to " + window.last;
  const std::string runs =
      view->runs.empty() ? "" : " · dotted: one standard deviation over " + std::to_string(view->runs.size()) + " runs";
  return "window " + grouped_number(window.index) + when + " · MSE " + number_text(window.mse, 3) + runs +
         age_text(observation, view->step);
}

std::vector<Figure> forecast_figures(const Observation& observation, const Selection&, CurveStore&) {
  const ForecastView* view = observation.forecast.get();
  if (!view || view->windows.empty()) return {};
  std::vector<Figure> figures;
  const std::vector<ForecastChannel>& channels = view->windows.front().channels;
  for (std::size_t c = 0; c < channels.size(); ++c) figures.push_back(channel_figure(*view, channels[c], c));
  if (!channels.empty()) figures.push_back(errors_figure(*view));
  return figures;
}

std::string memory_tokens_subtitle(const Observation& observation, const Selection&) {
  const MemoryView* view = observation.memory.get();
  if (!view) return "needs " + words_for(LayerTrait::training_memory);
  std::string text = std::to_string(view->tokens) + " memory tokens · mean over heads";
  if (observation.forecast) text += " · first channel";
  if (std::isfinite(view->accuracy))
    text += " · accuracy " + number_text(view->accuracy, 3) + ", " + number_text(view->without, 3) + " without";
  return text + age_text(observation, view->step);
}

std::vector<Figure> memory_tokens_figures(const Observation& observation, const Selection&, CurveStore&) {
  const MemoryView* view = observation.memory.get();
  const ForecastView* forecast = observation.forecast.get();
  if (!view || view->tokens <= 0) return {};
  std::vector<Figure> first, deeper;
  for (std::size_t layer = 0; layer < view->attention.size(); ++layer) {
    std::vector<Figure>& figures = layer == 0 ? first : deeper;
    if (!view->attention[layer].reads.empty()) figures.push_back(reads_figure(*view, layer));
    figures.push_back(is_read_figure(*view, layer));
  }
  if (forecast && !forecast->windows.empty() && !std::isnan(forecast->windows.front().mse_without_memory))
    first.push_back(switched_off_figure(*forecast));
  if (!view->explained.empty()) first.push_back(buffer_figure(*view));
  // The attention of deeper layers comes last.
  for (Figure& figure : deeper) first.push_back(std::move(figure));
  return first;
}

}  // namespace afterglow
