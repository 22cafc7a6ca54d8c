// The spectrum of one head while it reads a sequence.
#include <algorithm>
#include <cmath>
#include <set>

#include "views/analyses/inspected/inspection_figures.h"
#include "views/analyses/spectra/spectrum_figures.h"
#include "views/figures/semantic_colours.h"
#include "views/figures/sheet.h"

namespace afterglow {
namespace {

constexpr std::size_t shown_way = 16;  // tokens before the chosen one in the trails

/// The traced head to show, with the token; no head if the trace has none with eigenvalues.
struct TracedHead {
  const Trace* trace = nullptr;
  std::size_t token = 0, head = 0;

  TracedHead(const Observation& observation, const Selection& selection) {
    const int chosen = selected_token(observation, selection);
    if (chosen < 0) return;
    const int own = selected_trace_head(*observation.trace, selection);
    if (own < 0) return;
    token = static_cast<std::size_t>(chosen);
    head = static_cast<std::size_t>(own);
    if (!observation.trace->steps.back().heads[head].eigenvalues.empty()) trace = observation.trace.get();
  }
  const HeadStep& at(std::size_t t) const { return trace->steps[t].heads[head]; }
};

/// The eigenvalue of a mode after token t; NaN if it has none.
std::complex<double> eigenvalue_at(const HeadStep& step, int number) {
  for (std::size_t i = 0; i < step.eigenvalues.size() && i < step.identity.size(); ++i) {
    if (step.identity[i] == number) return step.eigenvalues[i];
  }
  return std::nan("");
}

Trail way_of(const TracedHead& traced, int number) {
  Trail trail{.ink = mode_ink(number)};
  for (std::size_t t = traced.token - std::min(traced.token, shown_way); t <= traced.token; ++t) {
    const std::complex<double> lambda = eigenvalue_at(traced.at(t), number);
    if (!std::isfinite(std::abs(lambda))) continue;
    trail.x.push_back(lambda.real());
    trail.y.push_back(lambda.imag());
  }
  return trail;
}

Figure plane_figure(const TracedHead& traced) {
  const HeadStep& now = traced.at(traced.token);
  Scatter scatter{.name = "eigenvalues", .marker = Marker::circle};
  double reach = 1;
  for (std::size_t i = 0; i < now.eigenvalues.size() && i < now.identity.size(); ++i) {
    const std::complex<double> lambda = now.eigenvalues[i];
    if (!std::isfinite(std::abs(lambda))) continue;
    reach = std::max(reach, std::abs(lambda));
    scatter.points.push_back(mode_dot({now.identity[i]}, lambda, 4, mode_ink(now.identity[i]), false));
    Trail trail = way_of(traced, now.identity[i]);
    if (trail.x.size() > 1) scatter.trails.push_back(std::move(trail));
  }
  Figure figure = eigenvalue_plane("token_spectrum", "After token " + std::to_string(traced.token), reach);
  figure.subtitle = "eigenvalues of A_w; trails: the " + std::to_string(shown_way) + " tokens before it";
  figure.series.emplace_back(std::move(scatter));
  return figure;
}

Figure modulus_figure(const TracedHead& traced) {
  const std::size_t tokens = traced.trace->steps.size();
  Figure figure =
      sheet("token_moduli", "Moduli token by token", "each mode, followed back from the last token",
            {.label = "token", .integer_ticks = true}, {.label = "|λ|", .range = Range{0, 1.05}}, LabelPlacement::none);
  for (const int number : std::set(traced.at(tokens - 1).identity.begin(), traced.at(tokens - 1).identity.end())) {
    std::vector<double> at(tokens), moduli(tokens);
    for (std::size_t t = 0; t < tokens; ++t) {
      at[t] = static_cast<double>(t);
      moduli[t] = std::abs(eigenvalue_at(traced.at(t), number));  // NaN breaks the line
      if (std::isfinite(moduli[t])) figure.y.range->high = std::max(figure.y.range->high, 1.05 * moduli[t]);
    }
    figure.series.emplace_back(line_through("mode " + std::to_string(number), std::move(at), std::move(moduli),
                                            mode_ink(number), Dash::solid, 1.4));
  }
  add_moment(figure, static_cast<double>(traced.token), "", Role::dim, Dash::dotted);
  return figure;
}

}  // namespace

std::string token_spectrum_subtitle(const Observation& observation, const Selection& selection) {
  const TracedHead traced(observation, selection);
  if (selected_token(observation, selection) < 0)
    return why_not_yet(observation, "Computing the eigenvalues token by token: starts within seconds.");
  if (!traced.trace) return why_no_layer(observation, LayerTrait::koopman_heads);
  std::string text = layer_name(observation, traced.trace->layer) + " · head " + std::to_string(traced.head);
  text += " · token " + std::to_string(traced.token);
  if (traced.token < traced.trace->tokens.size()) text += " " + traced.trace->tokens[traced.token].label;
  return text;
}

std::vector<Figure> token_spectrum_figures(const Observation& observation, const Selection& selection, CurveStore&) {
  const TracedHead traced(observation, selection);
  if (!traced.trace) return {};
  return {plane_figure(traced), modulus_figure(traced)};
}

}  // namespace afterglow
