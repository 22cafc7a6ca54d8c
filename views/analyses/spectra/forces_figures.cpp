// Arrows are lines of five points: along the shaft, and to both ends of the head.
#include <algorithm>
#include <cmath>

#include "core/figure/axis.h"
#include "views/analyses/spectra/spectrum_figures.h"
#include "views/figures/semantic_colours.h"
#include "views/figures/sheet.h"

namespace afterglow {
namespace {

using Complex = std::complex<double>;

constexpr double longest_arrow = 0.4;  ///< in the plane, where the unit circle has radius 1
constexpr double ring_change = 0.01;   ///< of |A_w|: the change of the operator that the rings show
constexpr double largest_ring = 0.6;   ///< a larger ring would only hide the plane
constexpr Role loss_ink = Role::accent, step_ink = Role::text, after_ink = Role::warning;

struct ArrowLook {
  const char* name;
  Ink ink;
  Dash dash;
};
constexpr ArrowLook loss_look{"where the loss pulls it", loss_ink, Dash::dashed};
constexpr ArrowLook step_look{"where AdamW moves it", step_ink, Dash::solid};

Line stroke(std::vector<double> x, std::vector<double> y, Ink ink, Dash dash, std::string name) {
  return styled(line_through(std::move(name), std::move(x), std::move(y), ink, dash), {.is_quiet = true});
}

void add_arrow(Figure& figure, const Complex& from, const Complex& by, const ArrowLook& look, const std::string& mode) {
  constexpr double visible = 0.01;
  if (!(std::abs(by) > visible)) return;
  const Complex tip = from + by, back = -std::min(0.4, 0.05 / std::abs(by)) * by;
  const Complex left = tip + back * Complex(1, 0.6), right = tip + back * Complex(1, -0.6);
  const std::string name = mode + ", " + look.name;
  figure.series.emplace_back(stroke({from.real(), tip.real()}, {from.imag(), tip.imag()}, look.ink, look.dash, name));
  figure.series.emplace_back(stroke({left.real(), tip.real(), right.real()}, {left.imag(), tip.imag(), right.imag()},
                                    look.ink, Dash::solid, name + ", head"));
}

/// The name in the legend for all arrows of a kind.
Line legend_entry(const ArrowLook& look) { return Line{.name = look.name, .ink = look.ink, .dash = look.dash}; }

void add_ring(Figure& figure, const HeadForces& forces, const ModeForce& mode) {
  const double radius = ring_change * forces.norm * mode.condition;
  if (radius < largest_ring)
    figure.reference_circles.push_back({mode.value.real(), mode.value.imag(), radius, Role::faint, Dash::solid});
}

std::vector<TableColumn> table_of(const HeadForces& forces) {
  std::vector<TableColumn> table;
  const auto add = [&](const std::string& name, auto cell) { table.push_back({name, mapped(forces.modes, cell)}); };
  const auto add_complex = [&](const std::string& name, auto of) {
    add("Re " + name, [&](const ModeForce& mode) { return of(mode).real(); });
    add("Im " + name, [&](const ModeForce& mode) { return of(mode).imag(); });
  };
  add("mode", [](const ModeForce& mode) { return static_cast<double>(mode.number); });
  add_complex("λ", [](const ModeForce& mode) { return mode.value; });
  add("condition", [](const ModeForce& mode) { return mode.condition; });
  add_complex("by the loss", [](const ModeForce& mode) { return mode.by_loss; });
  add_complex("by the optimiser", [](const ModeForce& mode) { return mode.by_optimiser; });
  add_complex("by the step", [](const ModeForce& mode) { return mode.after - mode.value; });
  add("first order holds", [](const ModeForce& mode) { return mode.step_is_small ? 1.0 : 0.0; });
  return table;
}

/// The factor 1, 2 or 5 times a power of ten that brings the longest move near `longest_arrow`.
template <class Move>
double magnification(const HeadForces& forces, Move move) {
  double longest = 0;
  for (const ModeForce& mode : forces.modes) longest = std::max(longest, std::abs(move(mode)));
  if (!(longest > 0) || !std::isfinite(longest)) return 1;
  const double wanted = longest_arrow / longest, decade = std::pow(10, std::floor(std::log10(wanted)));
  return (wanted >= 5 * decade ? 5 : wanted >= 2 * decade ? 2 : 1) * decade;
}

/// 0 if an arrow would mean nothing.
Complex shown_pull(const ModeForce& mode) { return mode.is_defective ? 0 : mode.by_loss; }
Complex shown_step(const ModeForce& mode) { return mode.step_is_small ? mode.by_optimiser : 0; }

/// The largest distance of a target of the weight edit from the nearest eigenvalue.
double distance_from_surgery(const HeadForces& forces) {
  double furthest = 0;
  for (const Complex& place : forces.operated) {
    double nearest = std::numeric_limits<double>::infinity();
    for (const ModeForce& mode : forces.modes) nearest = std::min(nearest, std::abs(mode.value - place));
    furthest = std::max(furthest, nearest);
  }
  return furthest;
}

std::string surgery_text(double distance) {
  constexpr double there = 1e-5;
  return distance < there ? "the weight edit's target is reached"
                          : number_text(distance, 2) + " from the weight edit's target";
}

Scatter operated_dots(const HeadForces& forces) {
  Scatter operated{.name = "target of the weight edit", .marker = Marker::square};
  for (const Complex& place : forces.operated)
    operated.points.push_back({place.real(), place.imag(), 5, Role::failure, false, "", "", 0.8});
  return operated;
}

std::string forces_caption(const ForcesView& view, const HeadForces& forces, double step_times, double pull_times) {
  if (view.is_left_out) return "The next batch is left out, so nothing moves.";
  std::string text = "step × " + number_text(step_times, 6) + " · pull × " + number_text(pull_times, 6);
  const auto bare = std::ranges::count_if(forces.modes, [](const ModeForce& mode) { return !mode.step_is_small; });
  if (!forces.operated.empty()) text += " · " + surgery_text(distance_from_surgery(forces));
  if (bare > 0) text += " · " + std::to_string(bare) + " too close to another for an arrow";
  return text;
}

Figure forces_figure(const Observation& observation, const Selection& selection, const HeadForces& forces) {
  const std::string place = place_name(observation, forces.layer, forces.head);
  double reach = 0;
  for (const ModeForce& mode : forces.modes) reach = std::max(reach, std::abs(mode.value));
  Figure figure = eigenvalue_plane(
      "forces_layer" + std::to_string(forces.layer) + "_head" + std::to_string(forces.head), place, reach);
  const double step_times = magnification(forces, shown_step), pull_times = magnification(forces, shown_pull);
  figure.subject = place;
  figure.subtitle = forces_caption(*observation.forces, forces, step_times, pull_times);
  figure.labels = LabelPlacement::legend;
  figure.series.emplace_back(legend_entry(loss_look));
  figure.series.emplace_back(legend_entry(step_look));
  Scatter dots{.name = "eigenvalues", .marker = Marker::circle};
  Scatter after{.name = "after the step", .marker = Marker::diamond};
  for (std::size_t i = 0; i < forces.modes.size(); ++i) {
    const ModeForce& mode = forces.modes[i];
    if (!std::isfinite(std::abs(mode.value))) continue;
    const std::string arrow = "eigenvalue " + std::to_string(i);
    add_ring(figure, forces, mode);
    add_arrow(figure, mode.value, pull_times * shown_pull(mode), loss_look, arrow);
    add_arrow(figure, mode.value, step_times * shown_step(mode), step_look, arrow);
    dots.points.push_back(mode_dot({mode.number}, mode.value, 4, mode_ink(mode.number), mode.number == selection.mode));
    const Complex end = mode.value + step_times * (mode.after - mode.value);
    if (mode.step_is_small && std::isfinite(std::abs(end)))
      after.points.push_back({end.real(), end.imag(), 2.6, after_ink, false, "", ""});
  }
  if (!forces.operated.empty()) figure.series.emplace_back(operated_dots(forces));
  figure.series.emplace_back(std::move(dots));
  figure.series.emplace_back(std::move(after));
  figure.table = table_of(forces);
  return figure;
}

std::string complex_text(const Complex& value) {
  const std::string real = number_text(value.real(), 3);
  if (value.imag() == 0) return real;
  return real + (value.imag() < 0 ? " − " : " + ") + number_text(std::abs(value.imag()), 3) + "i";
}

/// "outwards by 1.2e-4": the change of the modulus.
std::string modulus_text(const Complex& value, const Complex& by) {
  const double change = std::abs(value + by) - std::abs(value);
  return (change < 0 ? "inwards by " : "outwards by ") + number_text(std::abs(change), 2);
}

}  // namespace

const HeadForces* selected_forces(const Observation& observation, const Selection& selection) {
  if (!observation.forces || observation.forces->heads.empty()) return nullptr;
  const std::vector<HeadForces>& heads = observation.forces->heads;
  const auto is_of_layer = [&](const HeadForces& head) { return head.layer == selection.layer; };
  const auto first = std::ranges::find_if(heads, is_of_layer);
  const int layer = first == heads.end() ? heads.front().layer : first->layer;
  const HeadForces* found = nullptr;
  for (const HeadForces& head : heads) {
    if (head.layer == layer && (!found || head.head == selection.head)) found = &head;
  }
  return found;
}

std::string force_text(const HeadForces& forces, int number) {
  for (const ModeForce& mode : forces.modes) {
    if (mode.number != number) continue;
    std::string text = "mode " + std::to_string(number) + " at " + complex_text(mode.value) + ": ";
    const std::string condition = "condition " + number_text(mode.condition, 3);
    if (mode.is_defective)
      return text + "its eigenvector almost equals another one (" + condition + "), so there is no arrow";
    if (!mode.step_is_small) {
      text += "the step brings it too close to another eigenvalue for a straight arrow";
    } else {
      text += "AdamW moves it " + modulus_text(mode.value, mode.by_optimiser);
    }
    text += ", the loss alone would take it " + modulus_text(mode.value, mode.by_loss);
    if (std::isfinite(std::abs(mode.after)))
      text += "; its whole step moves it " + modulus_text(mode.value, mode.after - mode.value);
    return text + " · " + condition;
  }
  return "";
}

std::string forces_subtitle(const Observation& observation, const Selection& selection) {
  const HeadForces* forces = selected_forces(observation, selection);
  if (!forces) return why_no_layer(observation, LayerTrait::koopman_heads);
  std::string text = layer_name(observation, forces->layer);
  text += selection.all_heads ? " · all heads" : " · head " + std::to_string(forces->head);
  return text + " · the next step" + age_text(observation, observation.forces->step);
}

std::vector<Figure> forces_figures(const Observation& observation, const Selection& selection, CurveStore&) {
  const HeadForces* chosen = selected_forces(observation, selection);
  if (!chosen) return {};
  if (!selection.all_heads) return {forces_figure(observation, selection, *chosen)};
  std::vector<Figure> figures;
  for (const HeadForces& head : observation.forces->heads) {
    if (head.layer == chosen->layer) figures.push_back(forces_figure(observation, selection, head));
  }
  return figures;
}

}  // namespace afterglow
