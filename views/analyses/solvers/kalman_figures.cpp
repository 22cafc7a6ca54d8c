// One colour for each filter; exact filters are solid, approximations dashed.
#include <algorithm>
#include <cmath>

#include "core/figure/axis.h"
#include "views/analyses/solvers/solver_figures.h"
#include "views/figures/semantic_colours.h"
#include "views/figures/sheet.h"

namespace afterglow {
namespace {

Ink filter_ink(FilterKind kind) {
  constexpr std::array<int, all_filters.size()> inks{0, 4, 3, 5, 1, 2};
  return inks[static_cast<std::size_t>(kind)];
}

Figure filter_figure(std::string id, std::string title, std::string subtitle, Axis y) {
  return sheet("kalman_" + std::move(id), std::move(title), std::move(subtitle),
               {.label = "token", .integer_ticks = true}, std::move(y));
}

void add_line(Figure& figure, std::string name, Ink ink, Dash dash, std::vector<double> x, std::vector<double> y) {
  figure.series.emplace_back(line_through(std::move(name), std::move(x), std::move(y), ink, dash));
}

void add_filter(Figure& figure, const FilterRun& run, std::vector<double> x, std::vector<double> y) {
  const bool is_exact =
      run.kind == FilterKind::kalman || run.kind == FilterKind::fading_kalman || run.kind == FilterKind::gka;
  add_line(figure, std::string(name_of(run.kind)), filter_ink(run.kind), is_exact ? Dash::solid : Dash::dashed,
           std::move(x), std::move(y));
}

Figure written_figure(const HeadFilters& filters) {
  Figure figure = filter_figure("written", "Share written", "1: reading this key now returns this value",
                                {.label = "k_t · G_t", .range = Range{0, 1.02}});
  for (const FilterRun& run : filters.runs) add_filter(figure, run, counted(run.written.size()), run.written);
  return figure;
}

Figure alignment_figure(const HeadFilters& filters) {
  Figure figure = filter_figure("alignment", "Direction of the gain",
                                "1: written along the key; below 1: turned away from directions that other keys use",
                                {"cos(G_t, k_t)"});
  for (const FilterRun& run : filters.runs) add_filter(figure, run, counted(run.alignment.size()), run.alignment);
  return figure;
}

/// The mean error of the pairs that are 1, 2, 3 to 4, 5 to 8, .. tokens old, at the oldest of them.
Figure recall_figure(const HeadFilters& filters) {
  Figure figure = filter_figure("recall", "Recall at the end",
                                "mean over the pairs of that age; 1: the pair is forgotten", {"error |v − Sᵀk| / |v|"});
  figure.x = {.label = "age", .unit = "tokens", .scale = Scale::log, .integer_ticks = true};
  for (const FilterRun& run : filters.runs) {
    std::vector<double> ages, errors;
    const std::size_t tokens = run.recall.size();
    for (std::size_t first = 1, last = 1; first <= tokens; first = last + 1, last = std::min(2 * last, tokens)) {
      ages.push_back(static_cast<double>(last));
      errors.push_back(finite_mean(std::span(run.recall).subspan(tokens - last, last - first + 1)));
      if (last == tokens) break;
    }
    add_filter(figure, run, std::move(ages), std::move(errors));
  }
  return figure;
}

Figure sigma_figure(const HeadFilters& filters) {
  Figure figure = filter_figure("sigma", "Uncertainty Σ_t", "eigenvalues: the filter's remaining uncertainty",
                                {.label = "λ(Σ_t)", .scale = Scale::log});
  const auto add = [&](std::string name, Ink ink, Dash dash, const Uncertainty& of, const std::vector<double>& y) {
    add_line(figure, std::move(name), ink, dash, {of.tokens.begin(), of.tokens.end()}, y);
  };
  const Ink steady = filter_ink(FilterKind::kalman), fading = filter_ink(FilterKind::fading_kalman);
  add("largest", steady, Dash::dashed, filters.steady, filters.steady.largest);
  add("mean", steady, Dash::solid, filters.steady, filters.steady.mean);
  add("smallest", steady, Dash::dotted, filters.steady, filters.steady.smallest);
  add("mean, fading", fading, Dash::solid, filters.fading, filters.fading.mean);
  figure.reference_lines = {{Orientation::horizontal, 1, "Σ = I of the delta rules", Role::dim, Dash::dotted}};
  return figure;
}

/// The recall of the exact filter if the model of eq. 15 assumed other process noise, with that of the solve.
Figure noise_figure(const HeadFilters& filters) {
  Figure figure = filter_figure("noise", "Process noise",
                                "exact filter; solid: mean error of all pairs, dashed: of the last eighth",
                                {"error |v − Sᵀk| / |v|"});
  figure.x = {.label = "Q_t = q I", .scale = Scale::log};
  for (const NoiseSweep& sweep : filters.sweeps) {
    const Ink ink = filter_ink(sweep.fades ? FilterKind::fading_kalman : FilterKind::kalman);
    const std::string name = sweep.fades ? "A_t of the head" : "A_t = I";
    add_line(figure, name, ink, Dash::solid, sweep.noise, sweep.all);
    add_line(figure, name + ", last eighth", ink, Dash::dashed, sweep.noise, sweep.last);
  }
  for (const FilterRun& run : filters.runs) {
    if (run.kind != FilterKind::gka || run.recall.empty()) continue;
    figure.reference_lines = {
        {Orientation::horizontal, finite_mean(run.recall), std::string(name_of(run.kind)), Role::dim, Dash::dotted}};
  }
  return figure;
}

Figure drift_figure(const HeadFilters& filters, Arithmetic arithmetic) {
  const auto of = [&](const std::vector<DriftRun>& runs) -> const DriftRun& {
    return *std::ranges::find(runs, arithmetic, &DriftRun::arithmetic);
  };
  const DriftRun &own = of(filters.drifts), &weak = of(filters.weaker_drifts);
  Figure figure = filter_figure("drift", "Recursion against solve in " + std::string(name_of(arithmetic)),
                                "λ = " + number_text(own.ridge, 2) + ", and a thousandth of it · triangle: no solution",
                                {.label = "error |Δx| / |x|", .scale = Scale::log});
  const auto add = [&](std::string name, int ink, Dash dash, const DriftRun& run, const std::vector<double>& y) {
    add_line(figure, std::move(name), ink, dash, {run.tokens.begin(), run.tokens.end()}, lifted(y));
  };
  add("recursion", 1, Dash::solid, own, own.recursion);
  add("solve", 0, Dash::solid, own, own.solve);
  add("recursion, λ/1000", 1, Dash::dashed, weak, weak.recursion);
  add("solve, λ/1000", 0, Dash::dashed, weak, weak.solve);
  return figure;
}

}  // namespace

const HeadFilters* selected_filters(const Observation& observation, const Selection& selection) {
  if (!observation.solvers || observation.solvers->filters.empty()) return nullptr;
  const std::vector<HeadFilters>& all = observation.solvers->filters;
  const auto near = [&](const HeadFilters& of) { return std::abs(of.head - std::max(0, selection.head)); };
  return &*std::ranges::min_element(all, {}, near);
}

std::string kalman_subtitle(const Observation& observation, const Selection& selection) {
  const HeadFilters* filters = selected_filters(observation, selection);
  if (!observation.solvers) return why_not_yet(observation, "Filtering the first pairs: starts within seconds.");
  if (!filters) return "Choose a layer that stores keys with values, such as Gated KalmaNet or gated DeltaNet.";
  return layer_name(observation, observation.solvers->pair_layer) + " · head " + std::to_string(filters->head) +
         " · its first " + std::to_string(filters->runs.front().written.size()) + " pairs, as each filter writes them" +
         age_text(observation, observation.solvers->step);
}

std::vector<Figure> kalman_figures(const Observation& observation, const Selection& selection, CurveStore&) {
  const HeadFilters* filters = selected_filters(observation, selection);
  if (!filters || filters->runs.empty() || filters->drifts.empty() || filters->weaker_drifts.empty()) return {};
  return {recall_figure(*filters),    written_figure(*filters),
          sigma_figure(*filters),     drift_figure(*filters, selected_arithmetic(observation, selection)),
          alignment_figure(*filters), noise_figure(*filters)};
}

}  // namespace afterglow
