// Condition numbers of every head along the traced sequence, with the limits of bf16, tf32 and fp32.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "core/engine/analyses/inspected/inspected_view.h"
#include "core/engine/observation/mode_numbers.h"
#include "core/figure/axis.h"
#include "views/analyses/solvers/solver_figures.h"
#include "views/figures/semantic_colours.h"
#include "views/figures/sheet.h"

namespace afterglow {
namespace {

/// Above 1/u of a precision a solution has no correct digit; the precision in use is highlighted.
std::vector<ReferenceLine> precision_lines(const Observation& observation, const Selection& selection) {
  std::vector<ReferenceLine> lines;
  for (const Arithmetic arithmetic : {Arithmetic::bf16, Arithmetic::tf32, Arithmetic::fp32}) {
    const bool is_used = arithmetic == selected_arithmetic(observation, selection);
    lines.push_back({Orientation::horizontal, inverse_unit(arithmetic), "1/u " + std::string(name_of(arithmetic)),
                     is_used ? Role::warning : Role::dim, is_used ? Dash::solid : Dash::dashed});
  }
  return lines;
}

std::size_t head_count(const Trace& trace) { return trace.steps.empty() ? 0 : trace.steps.front().heads.size(); }

Figure token_figure(const Observation& observation, std::string id, std::string title, Axis y) {
  return sheet("conditioning_" + std::move(id), std::move(title), layer_name(observation, observation.trace->layer),
               {.label = "token",
                .range = Range{0, std::max(1.0, static_cast<double>(observation.trace->steps.size()) - 1)},
                .integer_ticks = true},
               std::move(y));
}

/// The change of the traced layer's ridge by the user; 0 if it is the trained one.
double ridge_shift(const Observation& observation) {
  if (!observation.inspected || !observation.spectra || !observation.trace) return 0;
  const int layer = observation.trace->layer;
  const auto& changed = observation.inspected->setup.interventions.layers;
  const auto change = changed.find(layer);
  const auto trained = std::ranges::find(observation.spectra->heads, layer, &HeadSpectrum::layer);
  if (change == changed.end() || !change->second.ridge || trained == observation.spectra->heads.end()) return 0;
  return *change->second.ridge - trained->ridge;
}

/// Extreme eigenvalues of G + εI at one token with this additional ridge: a multiple of I shifts all of them equally.
double smallest_with(const HeadStep& head, double shift) { return head.lambda_min + shift; }
double kappa_with(const HeadStep& head, double shift) {
  return shift == 0 ? head.kappa : (head.kappa * head.lambda_min + shift) / (head.lambda_min + shift);
}

/// "inspected sequence ε 0.01", after the layer's name.
void name_inspected_ridge(Figure& figure, const Observation& observation, double shift) {
  if (shift == 0) return;
  const double ridge = *observation.inspected->setup.interventions.layers.at(observation.trace->layer).ridge;
  figure.subtitle += " · inspected with ε " + number_text(ridge, 2);
}

void add_heads(Figure& figure, const Trace& trace, const Selection& selection,
               const std::function<double(const HeadStep&)>& value) {
  const int chosen = selected_trace_head(trace, selection);
  for (std::size_t h = 0; h < head_count(trace); ++h) {
    std::vector<double> x, y;
    for (std::size_t t = 0; t < trace.steps.size(); ++t) {
      if (h >= trace.steps[t].heads.size()) continue;
      x.push_back(static_cast<double>(t));
      y.push_back(value(trace.steps[t].heads[h]));
    }
    add_head_line(figure, static_cast<int>(h), head_count(trace), chosen, {std::move(x), std::move(y)});
  }
}

/// Marks of factorisations that needed jitter: one for each token, with the heads.
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
  Figure figure = token_figure(observation, "kappa", "Condition number", {.label = "κ(G + εI)", .scale = Scale::log});
  const double shift = ridge_shift(observation);
  double largest = 1e8;
  for (const TokenStep& step : observation.trace->steps) {
    for (const HeadStep& head : step.heads) {
      if (const double kappa = kappa_with(head, shift); std::isfinite(kappa)) largest = std::max(largest, kappa * 2);
    }
  }
  name_inspected_ridge(figure, observation, shift);
  figure.y.range = Range{1, largest};
  figure.reference_lines = precision_lines(observation, selection);
  add_heads(figure, *observation.trace, selection, [&](const HeadStep& head) { return kappa_with(head, shift); });
  add_jitter(figure, *observation.trace);
  return figure;
}

Figure smallest_figure(const Observation& observation, const Selection& selection) {
  Figure figure =
      token_figure(observation, "lambda_min", "Smallest eigenvalue", {.label = "λ_min(G + εI)", .scale = Scale::log});
  const double shift = ridge_shift(observation);
  name_inspected_ridge(figure, observation, shift);
  add_heads(figure, *observation.trace, selection, [&](const HeadStep& head) { return smallest_with(head, shift); });
  if (const HeadSpectrum* head = selected_head(observation, selection); head && head->ridge + shift > 0)
    add_level(figure, head->ridge + shift, "ridge ε", Role::dim, Dash::dashed);
  add_jitter(figure, *observation.trace);
  return figure;
}

Figure sigma_figure(const Observation& observation, const Selection& selection) {
  Figure figure = token_figure(observation, "sigma", "Largest singular value", {"σ(A_w)"});
  add_level(figure, 1, "1: above it the operator is scaled down", Role::dim, Dash::dashed);
  add_heads(figure, *observation.trace, selection, [](const HeadStep& head) { return head.sigma; });
  return figure;
}

/// The chosen head with the chosen token; no step if the trace has no spectrum of its G.
struct ChosenGram {
  const HeadStep* step = nullptr;
  int head = 0, token = 0;
  std::string place;  ///< "1 ska · head 0"

  ChosenGram(const Observation& observation, const Selection& selection) {
    token = selected_token(observation, selection);
    head = token < 0 ? -1 : selected_trace_head(*observation.trace, selection);
    if (head < 0) return;
    place = layer_name(observation, observation.trace->layer) + " · head " + std::to_string(head);
    const auto& heads = observation.trace->steps[static_cast<std::size_t>(token)].heads;
    if (static_cast<std::size_t>(head) < heads.size() && !heads[static_cast<std::size_t>(head)].gram.empty())
      step = &heads[static_cast<std::size_t>(head)];
  }
};

/// "5.3 of 16 directions": the sum of the shares that remain after the ridge.
std::string kept_text(const std::vector<double>& kept) {
  return number_text(std::accumulate(kept.begin(), kept.end(), 0.0), 3) + " of " + std::to_string(kept.size()) +
         " directions";
}

Figure shrinkage_figure(const Observation& observation, const ChosenGram& chosen) {
  const double ridge = chosen.step->ridge + ridge_shift(observation);
  const std::vector<double> kept = ridge_shrinkage(chosen.step->gram, ridge);
  Figure figure = sheet("conditioning_shrinkage", "Ridge shrinkage",
                        chosen.place + " · token " + std::to_string(chosen.token) + " · ε " + number_text(ridge, 2) +
                            " keeps " + kept_text(kept),
                        {.label = "direction j of the keys", .integer_ticks = true},
                        {.label = "σ_j/(σ_j + ε)", .range = Range{0, 1.03}});
  figure.series.push_back(
      styled(counted_line("kept by the ridge", kept, 1, head_ink(chosen.head)), {.marker = Marker::circle}));
  add_level(figure, 0.5, "σ_j = ε", Role::dim, Dash::dashed);
  return figure;
}

/// One of the sizes of the chosen head's G, token by token.
Line size_line(const ChosenGram& chosen, const Trace& trace, const char* name, double GramSize::*member, Ink ink) {
  std::vector<double> tokens, sizes;
  for (std::size_t t = 0; t < trace.steps.size(); ++t) {
    const auto& heads = trace.steps[t].heads;
    const auto head = static_cast<std::size_t>(chosen.head);
    if (head >= heads.size() || heads[head].gram.empty()) continue;
    tokens.push_back(static_cast<double>(t));
    sizes.push_back(gram_size(heads[head].gram).*member);
  }
  return line_through(name, std::move(tokens), std::move(sizes), ink, Dash::solid);  // dashed: bound
}

Figure size_figure(const Observation& observation, const ChosenGram& chosen) {
  const Trace& trace = *observation.trace;
  Figure figure = token_figure(observation, "size", "Size of G", {"size of G"});
  figure.subtitle = chosen.place;
  figure.series.emplace_back(size_line(chosen, trace, "tr G", &GramSize::trace, 0));
  figure.series.emplace_back(size_line(chosen, trace, "|G|_F", &GramSize::frobenius, 1));
  figure.series.emplace_back(size_line(chosen, trace, "λ_max(G)", &GramSize::largest, 2));
  // E.1 assumes that m is still the longest key.
  const std::size_t all = trace.steps.size(), kept = static_cast<std::size_t>(trace.scale_kept_behind + 1),
                    bounded = kept == 0 ? all : std::min(all, kept);
  figure.series.emplace_back(counted_line("bound E.1", counted(bounded, 1), 0, Role::warning, Dash::dashed, 1.5));
  return figure;
}

// Layers without a traced recurrent Gram matrix use H_t + λ_t I of the solver view.

bool has_systems(const Observation& observation) {
  return observation.solvers && !observation.solvers->conditioning.empty();
}

Figure system_figure(const Observation& observation, std::string id, std::string title, std::string label) {
  return sheet(
      "conditioning_" + std::move(id), std::move(title), layer_name(observation, observation.solvers->layer),
      {.label = "token",
       .range = Range{0, std::max(1.0, static_cast<double>(observation.solvers->conditioning.front().tokens.back()))},
       .integer_ticks = true},
      {.label = std::move(label), .scale = Scale::log});
}

double kappa_with(const HeadConditioning& head, std::size_t i, double ridge) {
  return (head.largest[i] + ridge) / (head.smallest[i] + ridge);
}

template <class Value>
Curve over_tokens(const HeadConditioning& head, const Value& value) {
  std::vector<double> x(head.tokens.begin(), head.tokens.end()), y;
  for (std::size_t i = 0; i < x.size(); ++i) y.push_back(value(i));
  return {std::move(x), std::move(y)};
}

const HeadConditioning& chosen_head(const Observation& observation, const Selection& selection) {
  const std::vector<HeadConditioning>& heads = observation.solvers->conditioning;
  return heads[static_cast<std::size_t>(std::clamp(selection.head, 0, static_cast<int>(heads.size()) - 1))];
}

template <class Value>
void add_system_heads(Figure& figure, const Observation& observation, const Selection& selection, const Value& value) {
  const std::vector<HeadConditioning>& heads = observation.solvers->conditioning;
  for (const HeadConditioning& head : heads)
    add_head_line(figure, head.head, heads.size(), selection.head,
                  over_tokens(head, [&](std::size_t i) { return value(head, i); }));
}

Figure system_kappa_figure(const Observation& observation, const Selection& selection) {
  Figure figure = system_figure(observation, "kappa", "Condition number", "κ(H_t + λ_t I)");
  add_system_heads(figure, observation, selection,
                   [](const HeadConditioning& head, std::size_t i) { return kappa_with(head, i, head.ridge[i]); });
  figure.reference_lines = precision_lines(observation, selection);
  if (const double strength = observation.solvers->strength; strength > 0) {
    figure.y.range = Range{1, 1e4};
    add_level(figure, kappa_bound(strength), "(a + 1)/a", Role::accent, Dash::dashed);
  }
  return figure;
}

/// How many steps of Chebyshev bring the residual surely below this share of the query.
int steps_to(double residual, const HeadConditioning& head, std::size_t i) {
  int step = 0;
  const double mu = head.smallest[i] + head.ridge[i], L = head.largest[i] + head.ridge[i];
  while (step < 1000 && residual_bound(SolverKind::chebyshev, mu, L, step) > residual) ++step;
  return step;
}

/// With the layer's own number; of the chosen head also for residuals that are larger and smaller.
Figure steps_figure(const Observation& observation, const Selection& selection) {
  constexpr double target = 1e-3;
  Figure figure = system_figure(observation, "steps", "Steps that κ asks for", "steps of Chebyshev");
  figure.y.scale = Scale::linear;
  figure.subtitle += " · until |r|/|q| is at most " + number_text(target, 1);
  add_system_heads(figure, observation, selection, std::bind_front(steps_to, target));
  const HeadConditioning& chosen = chosen_head(observation, selection);
  for (const double other : {1e-1, 1e-2, 1e-4, 1e-6})
    figure.series.push_back(
        Line{.name = "head " + std::to_string(chosen.head) + " to " + number_text(other, 1),
             .curve = over_tokens(chosen, [&](std::size_t i) { return steps_to(other, chosen, i); }),
             .ink = Role::dim,
             .dash = Dash::dotted});
  const int own = observation.solvers->own_iterations;
  if (own >= 0) add_level(figure, own, "r of the layer", Role::accent, Dash::dashed);
  return figure;
}

Figure ridge_figure(const Observation& observation, const Selection& selection) {
  Figure figure = system_figure(observation, "lambda", "Regularisation", "λ_t");
  figure.subtitle += observation.solvers->strength > 0
                         ? " · λ_t = " + number_text(observation.solvers->strength, 2) + " |H_t|_F"
                         : " · λ is fixed";
  add_system_heads(figure, observation, selection,
                   [](const HeadConditioning& head, std::size_t i) { return head.ridge[i]; });
  return figure;
}

/// The effect of adaptive and fixed regularisation on the same H_t (GKA, appendix F.1).
Figure regularisation_figure(const Observation& observation, const Selection& selection) {
  constexpr double usual_strength = 0.02, fixed_ridge = 0.25;
  const HeadConditioning& head = chosen_head(observation, selection);
  const double strength = observation.solvers->strength > 0 ? observation.solvers->strength : usual_strength;
  Figure figure = system_figure(observation, "regularisation", "Adaptive or fixed λ", "κ(H_t + λI)");
  figure.subtitle += " · head " + std::to_string(head.head);
  const auto adaptive = [&](std::size_t i) { return kappa_with(head, i, strength * head.norm[i]); };
  const auto fixed = [&](std::size_t i) { return kappa_with(head, i, fixed_ridge); };
  figure.series.push_back(
      Line{.name = "λ = " + number_text(strength, 2) + " |H|_F", .curve = over_tokens(head, adaptive)});
  figure.series.push_back(
      Line{.name = "λ = " + number_text(fixed_ridge, 2), .curve = over_tokens(head, fixed), .ink = 3});
  figure.reference_lines = {
      {Orientation::horizontal, kappa_bound(strength), "(a + 1)/a", Role::accent, Dash::dashed},
      {Orientation::horizontal, inverse_unit(Arithmetic::bf16), "1/u bf16", Role::dim, Dash::dashed}};
  return figure;
}

}  // namespace

std::string conditioning_subtitle(const Observation& observation, const Selection&) {
  if (!observation.trace || head_count(*observation.trace) == 0) {
    if (!observation.solvers) return why_not_yet(observation, "Solving the ridge systems: starts within seconds.");
    if (!has_systems(observation)) return "Choose a layer that solves ridge systems in the list on the left.";
    return layer_name(observation, observation.solvers->layer) + " · " +
           heads_text(observation.solvers->conditioning.size()) + age_text(observation, observation.solvers->step);
  }
  int events = 0;
  for (const TokenStep& step : observation.trace->steps) {
    for (const HeadStep& head : step.heads) events += head.jitter > 0;
  }
  return heads_text(head_count(*observation.trace)) +
         (events == 0   ? " · no jitter was added"
          : events == 1 ? " · jitter was added once"
                        : " · jitter was added " + std::to_string(events) + " times");
}

std::string conditioning_advice(const Observation& observation, const Selection& selection) {
  double kappa = 0, smallest = 0, ridge = 0;
  const auto see = [&](double its_kappa, double its_smallest, double its_ridge) {
    if (!std::isfinite(its_kappa) || its_kappa <= kappa) return;
    kappa = its_kappa;
    smallest = its_smallest;
    ridge = its_ridge;
  };
  if (observation.trace && head_count(*observation.trace) > 0) {
    const HeadSpectrum* spectrum = selected_head(observation, selection);
    const double shift = ridge_shift(observation);
    for (const TokenStep& step : observation.trace->steps) {
      for (const HeadStep& head : step.heads)
        see(kappa_with(head, shift), smallest_with(head, shift), spectrum ? spectrum->ridge + shift : 0);
    }
  } else if (has_systems(observation)) {
    for (const HeadConditioning& head : observation.solvers->conditioning) {
      for (std::size_t i = 0; i < head.tokens.size(); ++i)
        see(kappa_with(head, i, head.ridge[i]), head.smallest[i] + head.ridge[i], head.ridge[i]);
    }
  }
  return kappa > 0 ? precision_advice(selected_arithmetic(observation, selection), smallest, kappa * smallest, ridge)
                   : "";
}

std::string shrinkage_numbers(const Observation& observation, const Selection& selection) {
  const ChosenGram chosen(observation, selection);
  if (!chosen.step) return "";
  const std::vector<double> kept = ridge_shrinkage(chosen.step->gram, chosen.step->ridge + ridge_shift(observation));
  return "first " + number_text(kept.front(), 3) + ", last " + number_text(kept.back(), 3) + ", together " +
         kept_text(kept);
}

std::string gram_size_numbers(const Observation& observation, const Selection& selection) {
  const ChosenGram chosen(observation, selection);
  if (!chosen.step) return "";
  const GramSize size = gram_size(chosen.step->gram);
  return "T = " + std::to_string(chosen.token + 1) + ": tr G = " + number_text(size.trace, 3) +
         ", |G|_F = " + number_text(size.frobenius, 3) + ", λ_max = " + number_text(size.largest, 3);
}

std::vector<Figure> conditioning_figures(const Observation& observation, const Selection& selection, CurveStore&) {
  std::vector<Figure> figures;
  if (observation.trace && head_count(*observation.trace) > 0) {
    figures = {kappa_figure(observation, selection), smallest_figure(observation, selection),
               sigma_figure(observation, selection)};
    if (const ChosenGram chosen(observation, selection); chosen.step) {
      figures.push_back(shrinkage_figure(observation, chosen));
      figures.push_back(size_figure(observation, chosen));
    }
  } else if (has_systems(observation)) {
    figures = {system_kappa_figure(observation, selection), ridge_figure(observation, selection)};
  }
  if (has_systems(observation)) {
    figures.push_back(regularisation_figure(observation, selection));
    figures.push_back(steps_figure(observation, selection));
  }
  return figures;
}

}  // namespace afterglow
