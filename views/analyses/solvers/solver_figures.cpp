// The race: one colour for each solver; dashed: the bound of theory.
#include "views/analyses/solvers/solver_figures.h"

#include <algorithm>
#include <cmath>

#include "core/figure/axis.h"
#include "views/figures/semantic_colours.h"
#include "views/figures/sheet.h"
#include "views/plots/families.h"

namespace afterglow {
namespace {

/// An iteration axis for all figures that follow the solvers.
Axis iterations_of(const Observation& observation) {
  return {.label = "iteration",
          .range = Range{0, static_cast<double>(observation.solvers->iterations)},
          .integer_ticks = true};
}

/// The lowest, or highest, residual of all problems at each iteration; NaN if one of them has failed.
std::vector<double> envelope(const std::vector<const RacedProblem*>& problems, std::size_t arithmetic,
                             std::size_t solver, bool highest) {
  std::vector<double> result;
  for (const RacedProblem* problem : problems) {
    const std::vector<double>& residuals = problem->races[arithmetic][solver];
    if (result.empty()) result = residuals;
    for (std::size_t i = 0; i < std::min(result.size(), residuals.size()); ++i) {
      const bool is_further = highest ? !(residuals[i] <= result[i]) : residuals[i] < result[i];
      if (is_further) result[i] = residuals[i];
    }
  }
  return result;
}

/// The bound of theory for the worst of the problems.
std::vector<double> bounds_of(SolverKind kind, const std::vector<const RacedProblem*>& problems, std::size_t count) {
  std::vector<double> bounds(count, 0);
  for (const RacedProblem* problem : problems) {
    for (std::size_t i = 0; i < count; ++i)
      bounds[i] = std::max(bounds[i], residual_bound(kind, problem->mu, problem->L, static_cast<int>(i)));
  }
  return bounds;
}

void add_solver(Figure& figure, const std::vector<const RacedProblem*>& problems, std::size_t arithmetic,
                std::size_t solver) {
  const SolverKind kind = all_solvers[solver];
  std::vector<double> highest = envelope(problems, arithmetic, solver, true);
  const std::size_t count = static_cast<std::size_t>(std::max(2.0, figure.x.range->high + 1));
  Line line{.name = std::string(name_of(kind)), .ink = solver_ink(kind)};
  if (kind == SolverKind::cholesky) {
    if (highest.empty()) return;
    line.dash = Dash::dotted;
    line.curve = {std::vector<double>{0, figure.x.range->high}, lifted({highest.front(), highest.front()})};
    figure.series.emplace_back(std::move(line));
    return;
  }
  const std::string name = line.name;
  line.dash = Dash::solid;
  line.curve = {counted(highest.size()), lifted(std::move(highest))};
  if (problems.size() > 1) {
    line.raw.y = lifted(envelope(problems, arithmetic, solver, false));
    line.raw.x = counted(line.raw.y.size());
  }
  figure.series.emplace_back(std::move(line));
  figure.series.push_back(
      styled(counted_line(name + ", bound", bounds_of(kind, problems, count), 0, solver_ink(kind), Dash::dashed, 1.1),
             {.is_quiet = true}));
}

Figure residual_figure(const Observation& observation, const Selection& selection,
                       const std::vector<const RacedProblem*>& problems) {
  const Arithmetic arithmetic = selected_arithmetic(observation, selection);
  const std::array lowest{1e-4, 1e-6, 1e-10, 1e-16};
  Figure figure =
      sheet("solver_race", "Residual",
            std::string(name_of(arithmetic)) +
                (problems.size() > 1 ? " · thick: worst of " + std::to_string(problems.size()) + " systems, thin: best"
                                     : "") +
                " · dashed: bound",
            iterations_of(observation),
            {.label = "residual |r| / |q|", .scale = Scale::log, .range = Range{lowest[index_of(arithmetic)], 10}});
  for (std::size_t solver = 0; solver < all_solvers.size(); ++solver) {
    add_solver(figure, problems, index_of(arithmetic), solver);
    // A system of the user's own may let a method explode, and that is what there is to see.
    if (!observation.solvers->made) continue;
    for (const double residual : envelope(problems, index_of(arithmetic), solver, true))
      if (residual > figure.y.range->high) figure.y.range->high = std::min(residual, 1e12);
  }
  const int own = observation.solvers->own_iterations;
  if (own >= 0 && own <= observation.solvers->iterations && !observation.solvers->made)
    figure.reference_lines = {
        {Orientation::vertical, static_cast<double>(own), "iterations r of the layer", Role::dim, Dash::dotted}};
  return figure;
}

/// Eigenvalues of one problem in the user's order, or ascending; dots of the user's problem can be dragged.
Scatter spectrum_dots(const Observation& observation, const RacedProblem& problem) {
  const std::optional<MadeProblem>& made = observation.solvers->made_of;
  const std::vector<double>& values = made ? made->eigenvalues : problem.eigenvalues;
  Scatter dots{.name = "eigenvalues"};
  for (std::size_t i = 0; i < values.size(); ++i) {
    ScatterPoint& dot = dots.points.emplace_back();
    dot.x = static_cast<double>(i + 1);
    dot.y = values[i];
    dot.radius = made ? 5 : 3.5;
    dot.ink = 0;
    if (made) dot.id = "eigenvalue " + std::to_string(i);
  }
  return dots;
}

Figure spectrum_figure(const Observation& observation, const std::vector<const RacedProblem*>& problems) {
  const auto hardest = std::max_element(problems.begin(), problems.end(),
                                        [](const auto* a, const auto* b) { return a->kappa() < b->kappa(); });
  const double count = static_cast<double>((*hardest)->eigenvalues.size());
  Figure figure = sheet("solver_spectrum", "Spectrum",
                        "κ " + number_text((*hardest)->kappa(), 3) +
                            (observation.solvers->made_of ? " · the dots can be dragged"
                             : problems.size() > 1        ? ", the worst"
                                                          : ""),
                        {.label = "eigenvalue", .range = Range{0.5, count + 0.5}, .integer_ticks = true},
                        {.label = "λ_i(H + λI)", .scale = Scale::log});
  figure.series.emplace_back(spectrum_dots(observation, **hardest));
  figure.reference_lines = {{Orientation::horizontal, (*hardest)->L, "L", Role::dim, Dash::dashed},
                            {Orientation::horizontal, (*hardest)->mu, "μ", Role::dim, Dash::dashed}};
  double low = (*hardest)->mu, high = (*hardest)->L;
  for (const double value : (*hardest)->eigenvalues) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  // Fixed during a drag, so that the place under the pointer keeps its value.
  if (observation.solvers->made_of) figure.y.range = Range{std::min(low, 1e-6), std::max(high, 10.0)};
  return figure;
}

/// Solvers down, arithmetics to the right: the final residual on a logarithmic scale.
Figure floor_figure(const Observation& observation, const std::vector<const RacedProblem*>& problems) {
  Figure figure = sheet("solver_floor", "Final residual by solver and precision",
                        "log₁₀ of the residual after " + std::to_string(observation.solvers->iterations) +
                            " iterations, worst system; triangle: no finite result",
                        {"precision"}, {"solver"});
  HeatMap map{.name = "residual",
              .rows = static_cast<int>(all_solvers.size()),
              .cols = static_cast<int>(all_arithmetics.size()),
              .value = {.label = "log₁₀ |r| / |q|", .range = Range{-16, 0}}};
  std::vector<double> cells;
  for (std::size_t solver = 0; solver < all_solvers.size(); ++solver) {
    map.row_labels.emplace_back(name_of(all_solvers[solver]));
    for (std::size_t arithmetic = 0; arithmetic < all_arithmetics.size(); ++arithmetic) {
      const std::vector<double> highest = envelope(problems, arithmetic, solver, true);
      cells.push_back(highest.empty() ? std::nan("") : std::log10(std::max(highest.back(), floor_of_axis)));
    }
  }
  for (const Arithmetic arithmetic : all_arithmetics) map.col_labels.emplace_back(name_of(arithmetic));
  map.cells = std::move(cells);
  figure.series.emplace_back(std::move(map));
  return figure;
}

Figure omega_figure(const Observation& observation, const std::vector<const RacedProblem*>& problems) {
  const RacedProblem& problem = *problems.front();
  const int iterations = observation.solvers->iterations;
  Figure figure = sheet("solver_omega", "Chebyshev weights",
                        "bounds of lemmas 3 and 4, L/μ = " + number_text(problem.L / problem.mu, 3),
                        iterations_of(observation), {"ω"});
  std::vector<double> omega = omega_schedule(problem.mu, problem.L, iterations), above;
  for (int i = 0; i <= iterations; ++i) above.push_back(omega_bound(problem.mu, problem.L, i));
  figure.series.emplace_back(
      line_through("lemma 4", counted(omega.size()), std::move(above), Role::dim, Dash::dashed, 1.2));
  figure.series.emplace_back(counted_line("ω", std::move(omega), 0, solver_ink(SolverKind::chebyshev), Dash::solid));
  figure.reference_lines = {
      {Orientation::horizontal, omega_limit(problem.mu, problem.L), "ω* of lemma 3", Role::dim, Dash::dotted}};
  return figure;
}

}  // namespace

std::vector<double> lifted(std::vector<double> values) {
  for (double& value : values) {
    if (value >= 0) value = std::max(value, floor_of_axis);
  }
  return values;
}

std::size_t index_of(Arithmetic arithmetic) {
  return static_cast<std::size_t>(std::ranges::find(all_arithmetics, arithmetic) - all_arithmetics.begin());
}

Arithmetic selected_arithmetic(const Observation& observation, const Selection& selection) {
  if (selection.arithmetic >= 0 && selection.arithmetic < static_cast<int>(all_arithmetics.size()))
    return all_arithmetics[static_cast<std::size_t>(selection.arithmetic)];
  return arithmetic_named(observation.precision);
}

std::vector<const RacedProblem*> selected_problems(const Observation& observation, const Selection& selection) {
  std::vector<const RacedProblem*> chosen;
  if (!observation.solvers) return chosen;
  const SolverView& view = *observation.solvers;
  const auto add = [&](const RacedProblem& problem) {
    if (!problem.eigenvalues.empty()) chosen.push_back(&problem);
  };
  if (view.made) {
    add(*view.made);
    return chosen;
  }
  for (const RacedProblem& problem : view.problems) add(problem);
  if (selection.band || chosen.empty()) return chosen;
  const int head = std::clamp(selection.head, chosen.front()->head, chosen.back()->head);
  const RacedProblem* nearest = chosen.front();
  for (const RacedProblem* problem : chosen) {
    if (problem->head != head) continue;
    const auto distance = [&](const RacedProblem* p) {
      return selection.token < 0 ? -p->token : std::abs(p->token - selection.token);
    };
    if (nearest->head != head || distance(problem) < distance(nearest)) nearest = problem;
  }
  return {nearest};
}

std::string solver_advice(const Observation& observation, const Selection& selection) {
  const RacedProblem* worst = nullptr;
  for (const RacedProblem* problem : selected_problems(observation, selection)) {
    if (!worst || problem->kappa() > worst->kappa()) worst = problem;
  }
  if (!worst) return "";
  return precision_advice(selected_arithmetic(observation, selection), worst->eigenvalues.front(),
                          worst->eigenvalues.back(), worst->token < 0 ? 0 : worst->ridge);
}

std::string precision_advice(Arithmetic arithmetic, double smallest, double largest, double ridge) {
  constexpr double near = 8;  // above 1/near of the limit a solution keeps less than three bits
  const double line = inverse_unit(arithmetic), kappa = largest / smallest;
  if (!(kappa * near >= line)) return "";
  const std::string name(name_of(arithmetic));
  std::string text = "κ " + number_text(kappa, 2) + " is " + (kappa > line ? "above" : "near") + " the limit of " +
                     name + " (" + number_text(line, 3) + "): ";
  // The least λ with (λ_max + λ)/(λ_min + λ) <= line/near.
  const double wanted = line / near;
  const double added = (largest - wanted * smallest) / (wanted - 1);
  text += ridge > 0 ? "raise the ridge from " + number_text(ridge, 2) + " to " + number_text(ridge + added, 2)
                    : "add " + number_text(added, 2) + " to the diagonal";
  if (arithmetic == Arithmetic::fp64) return text;
  return text + (arithmetic == Arithmetic::fp32 ? " or use fp64" : " or use fp32");
}

std::string solver_race_subtitle(const Observation& observation, const Selection& selection) {
  const std::vector<const RacedProblem*> problems = selected_problems(observation, selection);
  if (!observation.solvers) return why_not_yet(observation, "Solving the ridge systems: starts within seconds.");
  if (problems.empty())
    return "This model solves no ridge system. Choose \"geometric\" above for a synthetic spectrum.";
  const std::string name(name_of(selected_arithmetic(observation, selection)));
  if (observation.solvers->made) return "your spectrum · " + name;
  std::string text = layer_name(observation, observation.solvers->layer);
  text += problems.size() > 1 ? " · " + std::to_string(problems.size()) + " systems"
                              : " · head " + std::to_string(problems.front()->head) + ", token " +
                                    std::to_string(problems.front()->token);
  text += " · " + name;
  return text + age_text(observation, observation.solvers->step);
}

std::vector<Figure> solver_race_figures(const Observation& observation, const Selection& selection, CurveStore&) {
  const std::vector<const RacedProblem*> problems = selected_problems(observation, selection);
  if (problems.empty()) return {};
  return {residual_figure(observation, selection, problems), spectrum_figure(observation, problems),
          floor_figure(observation, problems), omega_figure(observation, problems)};
}

namespace {

std::string race_numbers(const Observation& o, const Selection& s) {
  double kappa = 0;
  for (const RacedProblem* problem : selected_problems(o, s)) kappa = std::max(kappa, problem->kappa());
  return kappa > 0
             ? "κ = " + number_text(kappa, 3) + ", 1/u = " + number_text(inverse_unit(selected_arithmetic(o, s)), 3)
             : "";
}

constexpr PlotRow solver_rows[] = {
    {"conditioning", Analysis::inspected | Analysis::spectra | Analysis::trace | Analysis::solvers,
     LayerTrait::ridge_systems, conditioning_subtitle, conditioning_figures},
    {"solver_race", set_of(Analysis::solvers), LayerTrait::ridge_systems, solver_race_subtitle, solver_race_figures},
    {"gate", set_of(Analysis::solvers), LayerTrait::gate, gate_subtitle, gate_figures},
    {"half_lives", set_of(Analysis::solvers), LayerTrait::gate, half_lives_subtitle, half_lives_figures},
    {"gradient_check", set_of(Analysis::solvers), LayerTrait::ridge_systems, gradient_check_subtitle,
     gradient_check_figures},
    {"kalman_filter", set_of(Analysis::solvers), LayerTrait::pairs, kalman_subtitle, kalman_figures},
};

constexpr CardNumbers solver_numbers[] = {{"conditioning", kappa_numbers},
                                          {"lambda_min", kappa_numbers},
                                          {"conditioning_shrinkage", shrinkage_numbers},
                                          {"conditioning_size", gram_size_numbers},
                                          {"solver_race", race_numbers},
                                          {"solver_spectrum", race_numbers},
                                          {"solver_floor", race_numbers}};

}  // namespace

PlotFamily solver_plots() { return {solver_rows, solver_numbers}; }

}  // namespace afterglow
