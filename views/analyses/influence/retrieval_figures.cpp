// The network of theorem 12: its scores over the lag and those of diffuse stacks, the margin, the profile.
#include <algorithm>
#include <cmath>

#include "core/engine/observation/influence_theory.h"
#include "views/analyses/influence/influence_figures.h"
#include "views/figures/semantic_colours.h"
#include "views/figures/sheet.h"

namespace afterglow {
namespace {

constexpr double lowest_shown_score = 1e-6;  ///< of the score at lag 1
constexpr double crossing_lag = 8;           ///< theory and the measured score meet at this lag

std::string signed_power(double exponent) { return "lag^" + number_text(std::abs(exponent) < 5e-3 ? 0 : exponent, 2); }

std::vector<double> powers_of(const std::vector<double>& lags, double exponent) {
  return mapped(lags, [&](double lag) { return std::pow(lag, exponent); });
}

double at_lag(const RetrievalView& view, const std::vector<double>& values, double lag) {
  std::size_t i = 0;
  while (i + 1 < view.lags.size() && view.lags[i] < lag) ++i;
  return i < values.size() ? values[i] : std::nan("");
}

Line law_line(const RetrievalView& view, std::string name, double constant, double scale, Dash dash) {
  return styled(lag_line(std::move(name), view.lags, powers_of(view.lags, view.theory), constant * scale, 0),
                {.ink = layer_ink(view.kind), .dash = dash, .width = 1.3});
}

Figure scores_figure(const RetrievalView& view) {
  Figure figure = lag_figure("retrieval_scores", "Transport", "share of lag 1", "of the selected token alone");
  const double first = view.scores.front();
  const int blocks = static_cast<int>(view.roles.size());
  figure.series.push_back(styled(lag_line(std::to_string(blocks) + " Sessa blocks, k = " + std::to_string(view.jumps) +
                                              ": " + signed_power(view.fit.power.slope),
                                          view.lags, view.scores, 1 / first, lowest_shown_score),
                                 {.ink = layer_ink(view.kind), .width = 2.6, .marker = Marker::circle}));
  const double meets = at_lag(view, view.scores, crossing_lag) / std::pow(std::max(crossing_lag, 1.0), view.theory);
  figure.series.emplace_back(
      law_line(view, "theorem 12: " + signed_power(view.theory) + ", " + std::string(regime_name(view.theory)), meets,
               1 / first, Dash::dashed));
  for (const RetrievalStack& stack : view.others) {
    const double start = stack.scores.empty() ? 0 : stack.scores.front();
    figure.series.push_back(
        styled(lag_line(stack.name, view.lags, stack.scores, 1 / start, lowest_shown_score),
               {.ink = layer_ink(stack.kind), .dash = stack.blocks == view.jumps ? Dash::solid : Dash::long_dash}));
  }
  return figure;
}

/// "others cross it at lag 40", or how far they stay below.
std::string margin_text(const RetrievalView& view) {
  double nearest = 0;
  for (std::size_t i = 0; i < view.scores.size(); ++i) {
    const double share = view.competitors[i] / view.scores[i];
    if (share >= 1) return "no margin from lag " + number_text(view.lags[i], 3);
    nearest = std::max(nearest, share);
  }
  return "all others stay below " + number_text(nearest, 2) + " of the score";
}

Figure margin_figure(const RetrievalView& view) {
  Figure figure = lag_figure("retrieval_margin", "Margin", "transport score", margin_text(view));
  std::vector<double> margins;
  for (std::size_t i = 0; i < view.scores.size(); ++i) margins.push_back(view.scores[i] - view.competitors[i]);
  figure.series.push_back(styled(lag_line("token " + std::to_string(view.source), view.lags, view.scores, 1, 0),
                                 {.ink = layer_ink(view.kind), .width = 2.6}));
  figure.series.push_back(styled(lag_line("margin", view.lags, margins, 1, 1e-14), {.ink = Role::text, .width = 1.3}));
  figure.series.push_back(styled(lag_line("all other tokens together", view.lags, view.competitors, 1, 1e-14),
                                 {.ink = Role::warning, .dash = Dash::short_dash}));
  figure.series.emplace_back(law_line(view, number_text(view.low, 3) + " l^ν ≤ score", view.low, 1, Dash::dotted));
  figure.series.emplace_back(
      law_line(view, "score ≤ " + number_text(view.high, 3) + " l^ν", view.high, 1, Dash::dotted));
  return figure;
}

Figure profile_figure(const RetrievalView& view) {
  Figure figure = lag_figure("retrieval_profile", "Profile", "profile p_t");
  figure.x.label = "token t + 1";
  figure.x.unit.clear();
  const std::vector<double> places = counted(view.profile.size(), 1);
  double low = INFINITY, high = 0;
  for (std::size_t t = 0; t < view.profile.size(); ++t) {
    const double constant = view.profile[t] / std::pow(places[t], 1 - view.beta);
    low = std::min(low, constant);
    high = std::max(high, constant);
  }
  figure.subtitle = "between " + number_text(low, 3) + " and " + number_text(high, 3) + " times (t + 1)^(1 − β)";
  figure.series.push_back(
      styled(lag_line("written", places, view.profile, 1, 0), {.ink = layer_ink(view.kind), .width = 2.2}));
  figure.series.push_back(
      styled(lag_line("(t + 1)^" + number_text(1 - view.beta, 2), places, powers_of(places, 1 - view.beta), low, 0),
             {.ink = Role::dim, .dash = Dash::dashed}));
  return figure;
}

/// The copy blocks of theorem 14, which reads the whole past from such copies.
Figure copies_figure(const RetrievalView& view) {
  Figure figure = sheet("retrieval_copies", "Copies", "lemma I.16: a block without feedback for each lag",
                        {.label = "lag", .unit = "tokens", .integer_ticks = true},
                        {.label = "largest error of a copied signal", .scale = Scale::log});
  figure.series.push_back(
      styled(counted_line("written weights", view.copy_errors, 1, layer_ink(view.kind)), {.marker = Marker::circle}));
  return figure;
}

}  // namespace

std::string selective_retrieval_subtitle(const Observation& observation, const Selection&) {
  const RetrievalView* view = observation.retrieval.get();
  if (!view)
    return why_not_yet(observation, "Network with the weights of the proof: computing, starts within seconds.");
  return "k = " + std::to_string(view->jumps) + ", β = " + number_text(view->beta, 2) + ": exponent " +
         number_text(std::abs(view->theory) < 5e-3 ? 0 : view->theory, 2) + ", " +
         std::string(regime_name(view->theory)) + " · token " + std::to_string(view->source) + " of " +
         std::to_string(view->tokens);
}

std::vector<Figure> selective_retrieval_figures(const Observation& observation, const Selection&, CurveStore&) {
  const RetrievalView* view = observation.retrieval.get();
  if (!view || view->scores.empty() || view->competitors.size() != view->scores.size()) return {};
  return {scores_figure(*view), margin_figure(*view), profile_figure(*view), copies_figure(*view)};
}

}  // namespace afterglow
