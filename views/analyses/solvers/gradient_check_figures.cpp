// Gradients through a solver over its iterations: the distance of each method from the exact gradient.
#include <algorithm>

#include "core/figure/axis.h"
#include "views/analyses/solvers/solver_figures.h"
#include "views/figures/semantic_colours.h"
#include "views/figures/sheet.h"

namespace afterglow {
namespace {

const std::vector<GradientLine>& gradients_of(const SolverView& view) {
  return view.made ? view.made_gradients : view.gradients;
}

Line check_line(std::string name, Ink ink, Dash dash, const std::vector<GradientCheck>& checks,
                double (*value)(const GradientCheck&)) {
  std::vector<double> x, y;
  for (const GradientCheck& check : checks) {
    x.push_back(check.iterations);
    y.push_back(std::max(value(check), floor_of_axis));
  }
  return line_through(std::move(name), std::move(x), std::move(y), ink, dash);
}

Figure gradient_figure(const Observation& observation, const Selection& selection, SolverKind solver, std::string id) {
  const Arithmetic arithmetic = selected_arithmetic(observation, selection);
  Figure figure = sheet("gradient_check_" + std::move(id), std::string(name_of(solver)),
                        "distance from the exact gradient · " + std::string(name_of(arithmetic)),
                        {.label = "iterations",
                         .range = Range{0, static_cast<double>(observation.solvers->iterations)},
                         .integer_ticks = true},
                        {.label = "relative difference", .scale = Scale::log});
  for (const GradientLine& line : gradients_of(*observation.solvers)) {
    if (line.solver != solver || line.arithmetic != arithmetic || line.checks.empty()) continue;
    const auto add = [&](std::string name, Ink ink, Dash dash, double (*value)(const GradientCheck&)) {
      figure.series.emplace_back(check_line(std::move(name), ink, dash, line.checks, value));
    };
    add("∂H implicit", 0, Dash::solid, [](const GradientCheck& c) { return c.implicit.H; });
    add("∂H unrolled", 1, Dash::dashed, [](const GradientCheck& c) { return c.unrolled.H; });
    add("∂q implicit", 2, Dash::solid, [](const GradientCheck& c) { return c.implicit.q; });
    add("∂q unrolled", 4, Dash::dashed, [](const GradientCheck& c) { return c.unrolled.q; });
    add("∂q implicit vs unrolled", Role::dim, Dash::dotted, [](const GradientCheck& c) { return c.between.q; });
  }
  return figure;
}

Line error_line(std::string name, Ink ink, Dash dash, const std::vector<double>& errors) {
  std::vector<double> x, y;
  for (std::size_t i = 0; i < errors.size(); ++i) {
    if (!(errors[i] > 0)) continue;  // the backward pass begins here
    x.push_back(static_cast<double>(i));
    y.push_back(errors[i]);
  }
  return line_through(std::move(name), std::move(x), std::move(y), ink, dash);
}

Figure reversal_figure(const Observation& observation, const Selection& selection) {
  const SolverView& view = *observation.solvers;
  const Arithmetic arithmetic = selected_arithmetic(observation, selection);
  const ChebyshevReversal& reversal = (view.made ? view.made_reversals : view.reversals)[index_of(arithmetic)];
  Figure figure =
      sheet("gradient_check_reversal", "Reversed Chebyshev",
            "reconstruction error of x_i from the last two · " + std::string(name_of(arithmetic)),
            {.label = "iterate i", .range = Range{0, static_cast<double>(view.iterations)}, .integer_ticks = true},
            {.label = "relative error", .scale = Scale::log});
  figure.series.emplace_back(error_line("weights reversed too", 3, Dash::solid, reversal.iterate_error));
  figure.series.emplace_back(error_line("weights kept", 0, Dash::solid, reversal.kept_weights));
  figure.series.emplace_back(error_line("error of ω", Role::dim, Dash::dashed, reversal.omega_error));
  figure.reference_lines = {{Orientation::horizontal, 1, "", Role::warning, Dash::dashed}};
  return figure;
}

bool has_gradients(const Observation& observation) {
  if (!observation.solvers) return false;
  const std::vector<GradientLine>& lines = gradients_of(*observation.solvers);
  return std::any_of(lines.begin(), lines.end(), [](const GradientLine& line) { return !line.checks.empty(); });
}

}  // namespace

std::string gradient_check_subtitle(const Observation& observation, const Selection& selection) {
  if (!observation.solvers) return why_not_yet(observation, "Solving the ridge systems: starts within seconds.");
  if (!has_gradients(observation)) return "This layer solves no ridge system: choose an SKA or Gated KalmaNet layer.";
  const SolverView& view = *observation.solvers;
  return (view.made ? "your spectrum" : layer_name(observation, view.layer) + " · worst conditioned system") + " · " +
         std::string(name_of(selected_arithmetic(observation, selection)));
}

std::vector<Figure> gradient_check_figures(const Observation& observation, const Selection& selection, CurveStore&) {
  if (!has_gradients(observation)) return {};
  return {gradient_figure(observation, selection, SolverKind::chebyshev, "chebyshev"),
          gradient_figure(observation, selection, SolverKind::conjugate_gradient, "conjugate_gradient"),
          reversal_figure(observation, selection)};
}

}  // namespace afterglow
