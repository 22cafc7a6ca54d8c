// Condition numbers of every head along the traced sequence, against what bf16, tf32 and fp32 can resolve.
#include "views/figures/conditioning_figures.h"

#include <algorithm>
#include <cmath>

#include "core/figure/axis.h"
#include "views/figures/meaning.h"

namespace afterglow {

namespace {

/// 1/u of a precision with `bits` significand bits: beyond it a solution has no correct digit.
constexpr double inverse_unit(int bits) { return static_cast<double>(1ll << bits); }

constexpr std::size_t most_named_heads = 8;

std::size_t head_count(const Trace& trace) { return trace.steps.empty() ? 0 : trace.steps.front().heads.size(); }

Figure token_figure(const Observation& observation, std::string id, std::string title, std::string label) {
  Figure figure;
  figure.id = "conditioning_" + std::move(id);
  figure.title = std::move(title);
  figure.subtitle = layer_name(observation, observation.trace->layer);
  figure.x.label = "token";
  figure.x.integer_ticks = true;
  figure.x.range = Range{0, std::max(1.0, static_cast<double>(observation.trace->steps.size()) - 1)};
  figure.y.label = std::move(label);
  return figure;
}

void add_heads(Figure& figure, const Trace& trace, const Selection& selection, double HeadStep::*member) {
  const int chosen = selected_trace_head(trace, selection);
  // More names than colours are a list nobody reads: then only the selected head stands out, and the pointer names the
  // others.
  const bool are_many = head_count(trace) > most_named_heads;
  if (are_many) figure.labels = LabelPlacement::none;
  for (std::size_t h = 0; h < head_count(trace); ++h) {
    std::vector<double> x, y;
    for (std::size_t t = 0; t < trace.steps.size(); ++t) {
      if (h >= trace.steps[t].heads.size()) continue;
      x.push_back(static_cast<double>(t));
      y.push_back(trace.steps[t].heads[h].*member);
    }
    Line line;
    line.name = "head " + std::to_string(h);
    line.ink = are_many && static_cast<int>(h) != chosen ? Ink(Role::faint) : head_ink(static_cast<int>(h));
    line.width = static_cast<int>(h) == chosen ? 2.4 : 1.3;
    line.curve.x = std::move(x);
    line.curve.y = std::move(y);
    figure.series.emplace_back(std::move(line));
  }
}

/// Marks of factorisations that needed help: one for each token, the heads named.
void add_jitter(Figure& figure, const Trace& trace) {
  for (std::size_t t = 0; t < trace.steps.size(); ++t) {
    std::string heads;
    for (std::size_t h = 0; h < trace.steps[t].heads.size(); ++h) {
      if (trace.steps[t].heads[h].jitter > 0) heads += (heads.empty() ? "jitter, head " : ", ") + std::to_string(h);
    }
    if (!heads.empty()) figure.events.push_back({static_cast<double>(t), heads, Role::warning});
  }
}

Figure kappa_figure(const Observation& observation, const Selection& selection) {
  Figure figure = token_figure(observation, "kappa", "Condition number", "κ(G + εI)");
  figure.y.scale = Scale::log;
  double largest = 1e8;
  for (const TokenStep& step : observation.trace->steps) {
    for (const HeadStep& head : step.heads) {
      if (std::isfinite(head.kappa)) largest = std::max(largest, head.kappa * 2);
    }
  }
  figure.y.range = Range{1, largest};
  figure.reference_lines = {{Orientation::horizontal, inverse_unit(8), "1/u bf16", Role::warning, Dash::dashed},
                            {Orientation::horizontal, inverse_unit(11), "1/u tf32", Role::warning, Dash::dashed},
                            {Orientation::horizontal, inverse_unit(24), "1/u fp32", Role::warning, Dash::dashed}};
  add_heads(figure, *observation.trace, selection, &HeadStep::kappa);
  add_jitter(figure, *observation.trace);
  return figure;
}

Figure smallest_figure(const Observation& observation, const Selection& selection) {
  Figure figure = token_figure(observation, "lambda_min", "Smallest eigenvalue", "λ_min(G + εI)");
  figure.y.scale = Scale::log;
  add_heads(figure, *observation.trace, selection, &HeadStep::lambda_min);
  if (const HeadSpectrum* head = selected_head(observation, selection); head && head->ridge > 0) {
    figure.reference_lines.push_back({Orientation::horizontal, head->ridge, "ridge ε", Role::dim, Dash::dashed});
  }
  add_jitter(figure, *observation.trace);
  return figure;
}

Figure sigma_figure(const Observation& observation, const Selection& selection) {
  Figure figure = token_figure(observation, "sigma", "Largest singular value", "σ(A_w)");
  figure.reference_lines.push_back(
      {Orientation::horizontal, 1, "1: above it the operator is scaled down", Role::dim, Dash::dashed});
  add_heads(figure, *observation.trace, selection, &HeadStep::sigma);
  return figure;
}

}  // namespace

std::string conditioning_subtitle(const Observation& observation, const Selection&) {
  if (!observation.trace || head_count(*observation.trace) == 0) return "trace a Koopman attention layer to see it";
  int events = 0;
  for (const TokenStep& step : observation.trace->steps) {
    for (const HeadStep& head : step.heads) events += head.jitter > 0;
  }
  std::string text = std::to_string(head_count(*observation.trace)) + " heads";
  text += events == 0   ? " · no jitter"
          : events == 1 ? " · one jitter event"
                        : " · " + std::to_string(events) + " jitter events";
  return text;
}

std::vector<Figure> conditioning_figures(const Observation& observation, const Selection& selection, CurveStore&) {
  if (!observation.trace || head_count(*observation.trace) == 0) return {};
  return {kappa_figure(observation, selection), smallest_figure(observation, selection),
          sigma_figure(observation, selection)};
}

}  // namespace afterglow
