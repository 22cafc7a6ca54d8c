// How the spectrum of one head forms while a sequence is read.
#include <algorithm>
#include <cmath>
#include <map>

#include "views/figures/koopman/spectrum_figures.h"
#include "views/figures/probing/probe_figures.h"
#include "views/figures/probing/stepper_figures.h"
#include "views/figures/semantic_colours.h"

namespace afterglow {

namespace {

constexpr std::size_t shown_way = 16;  // tokens before the chosen one that the trails show

/// The traced head that is meant, with the token; no head where the trace has none with eigenvalues.
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

/// Place i of a mode in another step's list: of the same number and on the same side of the real axis; -1 without.
int place_of(const HeadStep& step, int identity, bool is_upper) {
  int either = -1;
  for (std::size_t i = 0; i < step.eigenvalues.size() && i < step.identity.size(); ++i) {
    if (step.identity[i] != identity) continue;
    either = static_cast<int>(i);
    if ((step.eigenvalues[i].imag() >= 0) == is_upper) return either;
  }
  return either;
}

Trail way_of(const TracedHead& traced, int identity, bool is_upper) {
  Trail trail;
  trail.ink = mode_ink(identity);
  for (std::size_t t = traced.token - std::min(traced.token, shown_way); t <= traced.token; ++t) {
    const HeadStep& step = traced.at(t);
    const int place = place_of(step, identity, is_upper);
    if (place < 0) continue;
    const std::complex<double> lambda = step.eigenvalues[static_cast<std::size_t>(place)];
    if (!std::isfinite(std::abs(lambda))) continue;
    trail.x.push_back(lambda.real());
    trail.y.push_back(lambda.imag());
  }
  return trail;
}

Figure plane_figure(const TracedHead& traced) {
  const HeadStep& now = traced.at(traced.token);
  Scatter scatter;
  scatter.name = "eigenvalues";
  scatter.marker = Marker::circle;
  double reach = 1;
  for (std::size_t i = 0; i < now.eigenvalues.size() && i < now.identity.size(); ++i) {
    const std::complex<double> lambda = now.eigenvalues[i];
    if (!std::isfinite(std::abs(lambda))) continue;
    reach = std::max(reach, std::abs(lambda));
    scatter.points.push_back({lambda.real(), lambda.imag(), 4, mode_ink(now.identity[i]), false,
                              "mode " + std::to_string(now.identity[i]), ""});
    Trail trail = way_of(traced, now.identity[i], lambda.imag() >= 0);
    if (trail.x.size() > 1) scatter.trails.push_back(std::move(trail));
  }
  Figure figure = eigenvalue_plane("token_spectrum", "After token " + std::to_string(traced.token), reach);
  figure.subtitle = "eigenvalues of A_w; trails: the " + std::to_string(shown_way) + " tokens before";
  figure.series.emplace_back(std::move(scatter));
  return figure;
}

/// A line for each mode: its modulus after every token.
Figure modulus_figure(const TracedHead& traced) {
  const std::size_t tokens = traced.trace->steps.size();
  struct Way {
    std::vector<double> token, modulus;
  };
  std::map<int, Way> ways;  // without the tokens at which two modes were one pair
  for (std::size_t t = 0; t < tokens; ++t) {
    const HeadStep& step = traced.at(t);
    for (std::size_t i = 0; i < step.eigenvalues.size() && i < step.identity.size(); ++i) {
      Way& way = ways[step.identity[i]];
      const auto at = static_cast<double>(t);
      if (!std::isfinite(std::abs(step.eigenvalues[i])) || (!way.token.empty() && way.token.back() == at)) continue;
      way.token.push_back(at);
      way.modulus.push_back(std::abs(step.eigenvalues[i]));
    }
  }
  Figure figure;
  figure.id = "token_moduli";
  figure.title = "Moduli token by token";
  figure.subtitle = "each mode, followed back from the last token";
  figure.x.label = "token";
  figure.x.integer_ticks = true;
  figure.y.label = "|λ|";
  figure.labels = LabelPlacement::none;
  figure.y.range = Range{0, 1.05};
  for (auto& [identity, way] : ways) {
    for (const double modulus : way.modulus) figure.y.range->high = std::max(figure.y.range->high, 1.05 * modulus);
    Line line;
    line.name = "mode " + std::to_string(identity);
    line.ink = mode_ink(identity);
    line.dash = Dash::solid;
    line.width = 1.4;
    line.curve.x = std::move(way.token);
    line.curve.y = std::move(way.modulus);
    figure.series.emplace_back(std::move(line));
  }
  figure.reference_lines.push_back(
      {Orientation::vertical, static_cast<double>(traced.token), "", Role::dim, Dash::dotted});
  return figure;
}

}  // namespace

std::string token_spectrum_subtitle(const Observation& observation, const Selection& selection) {
  const TracedHead traced(observation, selection);
  if (selected_token(observation, selection) < 0)
    return why_not_yet(observation, "the first sequence is traced within seconds of the start");
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
