// One plane and one line for each head, for states that fade, rotate and grow.
#include <algorithm>
#include <cmath>

#include "core/engine/observation/mode_numbers.h"
#include "views/analyses/spectra/spectrum_figures.h"
#include "views/figures/semantic_colours.h"
#include "views/figures/sheet.h"

namespace afterglow {
namespace {

/// The states of the selected layer, or of the first layer with states.
std::vector<const StateSpectrum*> seen_states(const Observation& observation, const Selection& selection) {
  std::vector<const StateSpectrum*> seen;
  if (!observation.spectra || observation.spectra->states.empty()) return seen;
  const std::vector<StateSpectrum>& all = observation.spectra->states;
  const bool has_selected = std::ranges::any_of(all, [&](const auto& s) { return s.layer == selection.layer; });
  const int layer = has_selected ? selection.layer : all.front().layer;
  for (const StateSpectrum& state : all) {
    if (state.layer == layer) seen.push_back(&state);
  }
  return seen;
}

int emphasised_head(const Selection& selection, std::size_t heads) {
  return std::clamp(selection.head, 0, static_cast<int>(heads) - 1);
}

Figure plane_of(const Observation& observation, const Selection& selection,
                const std::vector<const StateSpectrum*>& states) {
  Figure figure = eigenvalue_plane("state_spectrum", "Modes", 1);
  figure.subtitle = layer_name(observation, states.front()->layer) + " · mean over the tokens";
  const int chosen = emphasised_head(selection, states.size());
  for (const StateSpectrum* state : states) {
    Scatter scatter{.name = "head " + std::to_string(state->head), .marker = Marker::circle};
    for (const std::complex<double>& mode : state->eigenvalues) {
      if (!std::isfinite(std::abs(mode))) continue;
      scatter.points.push_back({mode.real(), mode.imag(), state->head == chosen ? 5.0 : 3.0, head_ink(state->head)});
    }
    figure.series.emplace_back(std::move(scatter));
  }
  return figure;
}

/// The half-life of each mode; the axis has no place for modes that do not fade.
Figure half_lives_of(const std::vector<const StateSpectrum*>& states) {
  Figure figure =
      sheet("state_spectrum_half_lives", "Half-lives", "one dot for each mode of the state",
            {.label = "head", .range = Range{-0.5, static_cast<double>(states.size()) - 0.5}, .integer_ticks = true},
            {.label = "half-life", .unit = "tokens", .scale = Scale::log}, LabelPlacement::none);
  Scatter scatter{.name = "half-life", .marker = Marker::circle};
  for (const StateSpectrum* state : states) {
    for (const std::complex<double>& mode : state->eigenvalues) {
      const double half_life = mode_times(mode).half_life;
      if (half_life > 0 && std::isfinite(half_life))
        scatter.points.push_back({static_cast<double>(state->head), half_life, 3, head_ink(state->head)});
    }
  }
  if (!scatter.points.empty()) figure.series.emplace_back(std::move(scatter));
  return figure;
}

const Trace* trace_with_states(const Observation& observation) {
  const Trace* trace = observation.trace.get();
  return trace && !trace->steps.empty() && !trace->steps.front().state_norm.empty() ? trace : nullptr;
}

Figure growth_figure(const Trace& trace, const Selection& selection, std::string id, std::string title,
                     std::string subtitle, std::string label, std::vector<double> TokenStep::*values) {
  Figure figure = sheet(std::move(id), std::move(title), std::move(subtitle), {.label = "token", .integer_ticks = true},
                        {std::move(label)});
  const std::size_t heads = (trace.steps.front().*values).size();
  const int chosen = emphasised_head(selection, heads);
  for (std::size_t head = 0; head < heads; ++head) {
    std::vector<double> y;
    for (const TokenStep& step : trace.steps) {
      const std::vector<double>& of_token = step.*values;
      y.push_back(head < of_token.size() ? of_token[head] : std::nan(""));
    }
    add_head_line(figure, static_cast<int>(head), heads, chosen, {counted(y.size()), y});
  }
  return figure;
}

}  // namespace

std::string state_spectrum_subtitle(const Observation& observation, const Selection& selection) {
  const std::vector<const StateSpectrum*> states = seen_states(observation, selection);
  if (states.empty()) return why_not_yet(observation, "Computing the spectra of the states: starts within seconds.");
  return layer_name(observation, states.front()->layer) + " · factors by which one token multiplies the state";
}

std::vector<Figure> state_spectrum_figures(const Observation& observation, const Selection& selection, CurveStore&) {
  const std::vector<const StateSpectrum*> states = seen_states(observation, selection);
  if (states.empty()) return {};
  std::vector<Figure> figures{plane_of(observation, selection, states)};
  if (Figure half_lives = half_lives_of(states); !half_lives.series.empty()) figures.push_back(std::move(half_lives));
  return figures;
}

std::string state_growth_subtitle(const Observation& observation, const Selection&) {
  if (!observation.trace)
    return why_not_yet(observation, "Computing the states token by token: starts within seconds.");
  if (!trace_with_states(observation)) return "Choose a layer with a recurrent state in the list on the left.";
  return layer_name(observation, observation.trace->layer) + " · one line for each head" +
         age_text(observation, observation.trace->step);
}

std::vector<Figure> state_growth_figures(const Observation& observation, const Selection& selection, CurveStore&) {
  const Trace* trace = trace_with_states(observation);
  if (!trace) return {};
  return {growth_figure(*trace, selection, "state_rank", "Filled directions", "1: every token wrote the same direction",
                        "effective rank of S", &TokenStep::state_rank),
          growth_figure(*trace, selection, "state_norm", "Size of the state", "", "|S|", &TokenStep::state_norm)};
}

}  // namespace afterglow
