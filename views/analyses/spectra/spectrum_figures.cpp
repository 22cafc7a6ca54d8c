// Eigenvalues as dots: size is energy, colour is identity, the trail shows earlier places.
#include "views/analyses/spectra/spectrum_figures.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <utility>

#include "core/engine/observation/mode_numbers.h"
#include "core/figure/axis.h"
#include "views/analyses/inspected/inspection_figures.h"
#include "views/figures/semantic_colours.h"
#include "views/figures/sheet.h"
#include "views/plots/families.h"

namespace afterglow {
namespace {

constexpr std::size_t trail_length = 60;
constexpr const char* before_the_override = "before the override";

std::size_t trail_begin(const Observation& observation) {
  const std::size_t size = observation.spectrum_history.size();
  return size > trail_length ? size - trail_length : 0;
}

double max_modulus(const std::vector<std::complex<double>>& eigenvalues, double scale) {
  double largest = 0;
  for (const auto& lambda : eigenvalues) {
    if (std::isfinite(std::abs(lambda))) largest = std::max(largest, scale * std::abs(lambda));
  }
  return largest;
}

void add_trail_point(Trail& trail, const std::complex<double>& lambda, double scale) {
  if (!std::isfinite(std::abs(lambda))) return;
  trail.x.push_back(scale * lambda.real());
  trail.y.push_back(scale * lambda.imag());
}

/// One trail for each eigenvalue of `head`, oldest place first.
std::vector<Trail> mode_trails(const Observation& observation, const Selection& selection, const HeadSpectrum& head) {
  std::vector<Trail> trails(head.eigenvalues.size());
  for (std::size_t t = trail_begin(observation); t < observation.spectrum_history.size(); ++t) {
    const HeadSpectrum* earlier = find_head(observation.spectrum_history[t].get(), head.layer, head.head);
    if (!earlier) continue;
    for (std::size_t i = 0; i < trails.size(); ++i) {
      const auto place = std::ranges::find(earlier->identity, number_of_mode(head, i)) - earlier->identity.begin();
      if (std::cmp_less(place, earlier->identity.size()))
        add_trail_point(trails[i], earlier->eigenvalues[static_cast<std::size_t>(place)],
                        shown_scale(*earlier, selection));
    }
  }
  return trails;
}

ScatterPoint mode_point(const HeadSpectrum& head, std::size_t i, double scale, const Selection& selection) {
  const std::complex<double> lambda = scale * head.eigenvalues[i];
  const int number = number_of_mode(head, i);
  const double energy = i < head.energy.size() && head.energy[i] >= 0 ? std::min(1.0, head.energy[i]) : 0;
  return mode_dot({number}, lambda, 2.6 + 12 * std::sqrt(energy), mode_ink(number), number == selection.mode);
}

/// Grey dots at the former places of modes that an override moved or switched off.
Scatter ghosts_of(const HeadSpectrum& trained, const InspectedHead& inspected, double scale) {
  Scatter ghosts{.name = before_the_override, .marker = Marker::circle};
  for (std::size_t i = 0; i < trained.eigenvalues.size() && i < inspected.spectrum.eigenvalues.size(); ++i) {
    const std::complex<double> lambda = scale * trained.eigenvalues[i];
    const bool is_same = std::abs(trained.eigenvalues[i] - inspected.spectrum.eigenvalues[i]) < 1e-9;
    if (std::isfinite(std::abs(lambda)) && !is_same)
      ghosts.points.push_back({lambda.real(), lambda.imag(), 3, Role::faint, false, "", ""});
  }
  return ghosts;
}

/// Where a single mode or pair was moved, a word stands at its old place.
void add_edited(Figure& figure, Scatter ghosts, Scatter switched_off) {
  if (!ghosts.points.empty() && ghosts.points.size() <= 2) {
    const ScatterPoint& place = *std::ranges::max_element(ghosts.points, {}, &ScatterPoint::y);
    figure.text_labels.push_back({place.x, place.y + 0.05, "was here", Role::dim, Anchor::middle});
  }
  figure.subtitle += " · edited";
  figure.series.emplace_back(std::move(ghosts));
  if (!switched_off.points.empty()) figure.series.emplace_back(std::move(switched_off));
}

Figure head_figure(const Observation& observation, const Selection& seen, const HeadSpectrum& trained) {
  const Selection selection = selection_of_heads(observation, seen);
  const InspectedHead* inspected = inspected_head(observation, trained);
  const HeadSpectrum& head = inspected ? inspected->spectrum : trained;
  const double scale = shown_scale(head, selection);
  const std::string place = place_name(observation, head.layer, head.head);
  Figure figure = eigenvalue_plane("spectrum_layer" + std::to_string(head.layer) + "_head" + std::to_string(head.head),
                                   place, max_modulus(head.eigenvalues, scale));
  figure.subject = place;
  figure.subtitle = selection.scaled ? "eigenvalues of A = γ A_w" : "eigenvalues of A_w";
  Scatter scatter{.name = "eigenvalues", .marker = Marker::circle};
  Scatter switched_off{.name = "switched off", .marker = Marker::diamond};
  std::vector<Trail> trails = mode_trails(observation, selection, trained);
  trails.resize(head.eigenvalues.size());
  for (std::size_t i = 0; i < head.eigenvalues.size(); ++i) {
    if (!std::isfinite(scale * std::abs(head.eigenvalues[i]))) continue;
    ScatterPoint point = mode_point(head, i, scale, selection);
    if (inspected && (inspected->head_is_off || (i < inspected->is_off.size() && inspected->is_off[i]))) {
      point.ink = Role::dim;
      point.radius = 3;
      switched_off.points.push_back(std::move(point));
      continue;
    }
    trails[i].ink = point.ink;
    scatter.points.push_back(std::move(point));
    if (trails[i].x.size() > 1) scatter.trails.push_back(std::move(trails[i]));
  }
  if (inspected) add_edited(figure, ghosts_of(trained, *inspected, scale), std::move(switched_off));
  figure.series.emplace_back(std::move(scatter));
  return figure;
}

/// Earlier places of a pair; `side` -1 is its conjugate.
Trail pair_trail(const Observation& observation, int layer, std::size_t i, double side) {
  Trail trail{.ink = layer_ink(LayerTrait::koopman_modes)};
  for (std::size_t t = trail_begin(observation); t < observation.spectrum_history.size(); ++t) {
    if (!observation.spectrum_history[t]) continue;
    for (const MlpSpectrum& earlier : observation.spectrum_history[t]->mlps) {
      if (earlier.layer != layer || i >= earlier.eigenvalues.size()) continue;
      add_trail_point(trail, {earlier.eigenvalues[i].real(), side * earlier.eigenvalues[i].imag()}, 1);
    }
  }
  return trail;
}

Figure mlp_figure(const Observation& observation, const Selection& selection, const MlpSpectrum& trained) {
  const InspectedMlp* inspected = inspected_mlp(observation, trained);
  const MlpSpectrum& mlp = inspected ? inspected->spectrum : trained;
  Figure figure = eigenvalue_plane("spectrum_mlp" + std::to_string(mlp.layer), place_name(observation, mlp.layer),
                                   max_modulus(mlp.eigenvalues, 1));
  figure.subject = figure.title;
  figure.subtitle = "learned eigenvalues of the Koopman MLP";
  Scatter scatter{.name = "eigenvalues", .marker = Marker::circle};
  Scatter switched_off{.name = "switched off", .marker = Marker::diamond};
  Scatter ghosts{.name = before_the_override, .marker = Marker::circle};
  const bool is_about_it = mlp_is_selected(observation, selection);
  for (std::size_t i = 0; i < mlp.eigenvalues.size(); ++i) {
    if (!std::isfinite(std::abs(mlp.eigenvalues[i]))) continue;
    const bool is_chosen = is_about_it && selection.mode == static_cast<int>(i);
    const bool is_off = inspected && i < inspected->is_off.size() && inspected->is_off[i];
    const bool is_moved =
        i < trained.eigenvalues.size() && std::abs(trained.eigenvalues[i] - mlp.eigenvalues[i]) > 1e-9;
    for (const double side : {1.0, -1.0}) {
      const Ink ink = is_off ? Ink(Role::dim) : layer_ink(LayerTrait::koopman_modes);
      (is_off ? switched_off : scatter)
          .points.push_back(mode_dot({static_cast<int>(i), true},
                                     {mlp.eigenvalues[i].real(), side * mlp.eigenvalues[i].imag()}, 3, ink, is_chosen));
      if (is_moved)
        ghosts.points.push_back(
            {trained.eigenvalues[i].real(), side * trained.eigenvalues[i].imag(), 3, Role::faint, false, "", ""});
      Trail trail = pair_trail(observation, mlp.layer, i, side);
      if (!is_off && trail.x.size() > 1) scatter.trails.push_back(std::move(trail));
    }
  }
  if (inspected) add_edited(figure, std::move(ghosts), std::move(switched_off));
  figure.series.emplace_back(std::move(scatter));
  return figure;
}

/// A pair of a Koopman MLP rotates and damps numbers of one token, from layer input to output, so it has no half-life.
std::vector<ReadoutRow> pair_readout(const MlpSpectrum& mlp, const Selection& selection) {
  const int pair = selected_pair(mlp, selection);
  if (pair < 0) return {};
  const ModeTimes times = mode_times(mlp.eigenvalues[static_cast<std::size_t>(pair)]);
  return {{"pair " + std::to_string(pair), "", "mode"},
          {"|λ|", number_text(times.modulus, 3), "modulus"},
          {"angle", number_text(times.angle, 3) + " rad", "angle"}};
}

std::string tokens_text(double tokens) {
  if (std::isinf(tokens)) return "∞";
  return number_text(tokens, 3) + " tokens";
}

}  // namespace

Figure eigenvalue_plane(std::string id, std::string title, double reach) {
  Figure figure = sheet(std::move(id), std::move(title), "", {"Re λ"}, {"Im λ"}, LabelPlacement::none);
  figure.equal_aspect = true;
  // The circle always fits; modes outside of it (scaled or edited operators) widen the plane in round steps.
  double end = 1.12;
  while (end < reach && end < 1e30) end *= end < 2 ? 1.25 : 2;
  figure.x.range = figure.y.range = Range{-end, end};
  figure.reference_circles.push_back({0, 0, 1, Role::dim, Dash::solid});
  figure.reference_circles.push_back({0, 0, 0.5, Role::faint, Dash::dotted});
  return figure;
}

double shown_scale(const HeadSpectrum& head, const Selection& selection) {
  return selection.scaled && std::isfinite(head.scale) ? head.scale : 1.0;
}

std::string spectrum_subtitle(const Observation& observation, const Selection& selection) {
  if (mlp_is_selected(observation, selection)) {
    const MlpSpectrum& mlp = *selected_mlp(observation, selection);
    return layer_name(observation, mlp.layer) + (inspected_mlp(observation, mlp) ? " · edited" : "") +
           " · learned eigenvalues";
  }
  const HeadSpectrum* head = selected_head(observation, selection);
  if (!head) return why_no_layer(observation, LayerTrait::koopman_heads);
  std::string text = layer_name(observation, head->layer);
  if (inspected_head(observation, *head)) text += " · edited";
  text += selection.all_heads ? " · all heads" : " · head " + std::to_string(head->head);
  const std::size_t trail = observation.spectrum_history.size() - trail_begin(observation);
  if (trail > 1) {
    const std::int64_t span =
        observation.spectrum_history.back()->step - observation.spectrum_history[trail_begin(observation)]->step;
    text += " · trail " + std::to_string(span) + " steps";
  }
  if (const std::int64_t since = observation.spectra->numbered_at; since > 0)
    text += " · modes are numbered by size at step " + grouped_number(since);
  return text;
}

std::vector<Figure> spectrum_figures(const Observation& observation, const Selection& selection, CurveStore&) {
  std::vector<Figure> figures;
  const MlpSpectrum* mlp = selected_mlp(observation, selection);
  if (mlp && mlp_is_selected(observation, selection)) figures.push_back(mlp_figure(observation, selection, *mlp));
  if (const HeadSpectrum* chosen = selected_head(observation, selection)) {
    if (!selection.all_heads) figures.push_back(head_figure(observation, selection, *chosen));
    for (const HeadSpectrum& head : observation.spectra->heads) {
      if (selection.all_heads && head.layer == chosen->layer)
        figures.push_back(head_figure(observation, selection, head));
    }
  }
  if (mlp && !mlp_is_selected(observation, selection)) figures.push_back(mlp_figure(observation, selection, *mlp));
  return figures;
}

std::vector<ReadoutRow> mode_readout(const Observation& observation, const Selection& selection) {
  if (mlp_is_selected(observation, selection)) return pair_readout(*seen_mlp(observation, selection), selection);
  const HeadSpectrum* head = seen_head(observation, selection);
  const int mode = head ? selected_mode(*head, selection) : -1;
  if (mode < 0) return {};
  const auto i = static_cast<std::size_t>(mode);
  const std::complex<double> lambda = shown_scale(*head, selection) * head->eigenvalues[i];
  const ModeTimes times = mode_times(lambda);
  const auto partner =
      std::ranges::find(head->eigenvalues, std::conj(head->eigenvalues[i])) - head->eigenvalues.begin();
  const bool is_pair = partner != mode && std::cmp_less(partner, head->eigenvalues.size());
  std::string name = "mode " + std::to_string(number_of_mode(*head, i));
  if (is_pair) name += ", pair with " + std::to_string(number_of_mode(*head, static_cast<std::size_t>(partner)));
  const int power = selection.power >= 0 ? selection.power : head->power;
  std::vector<ReadoutRow> rows{{name, "", "mode"},
                               {"half-life", tokens_text(times.half_life), "half_life"},
                               {"period", times.angle > 0 ? tokens_text(times.period) : "none", "period"},
                               {"kept, |λ|", number_text(times.modulus, 3), "modulus"}};
  if (i < head->energy.size()) rows.push_back({"energy", number_text(100 * head->energy[i], 2) + " %", "energy"});
  rows.push_back({"angle", number_text(times.angle, 3) + " rad", "angle"});
  rows.push_back({"gain, K = " + std::to_string(power), number_text(mode_gain(*head, i, power), 3), "gain"});
  rows.push_back({"gain γ", number_text(head->gamma, 3), "gamma"});
  rows.push_back({"σ(A_w)", number_text(head->sigma, 3), "sigma"});
  return rows;
}

namespace {

std::string of_selected_mode(const Observation& o, const Selection& s,
                             std::string (*write)(const std::complex<double>& lambda, const ModeTimes& times)) {
  const bool is_pair = mlp_is_selected(o, s);
  const HeadSpectrum* head = is_pair ? nullptr : selected_head(o, s);
  const int mode = is_pair ? selected_pair(*selected_mlp(o, s), s) : head ? selected_mode(*head, s) : -1;
  if (mode < 0) return "";
  const std::complex<double> lambda =
      (is_pair ? selected_mlp(o, s)->eigenvalues : head->eigenvalues)[static_cast<std::size_t>(mode)];
  return write(lambda, mode_times(lambda));
}

std::string modulus_numbers(const Observation& o, const Selection& s) {
  return of_selected_mode(o, s, [](const std::complex<double>& lambda, const ModeTimes& times) {
    return "|λ| = √(" + number_text(lambda.real(), 3) + "² + " + number_text(lambda.imag(), 3) +
           "²) = " + number_text(times.modulus, 4);
  });
}

std::string half_life_numbers(const Observation& o, const Selection& s) {
  return of_selected_mode(o, s, [](const std::complex<double>&, const ModeTimes& times) {
    if (std::isinf(times.half_life)) return "|λ| = " + number_text(times.modulus, 4) + ": it does not fade";
    return "ln ½ / ln " + number_text(times.modulus, 4) + " = " + number_text(times.half_life, 4) + " tokens";
  });
}

std::string period_numbers(const Observation& o, const Selection& s) {
  return of_selected_mode(o, s, [](const std::complex<double>&, const ModeTimes& times) {
    if (std::isinf(times.period)) return std::string("real: no period");
    return "2π / " + number_text(times.angle, 4) + " = " + number_text(times.period, 4) + " tokens";
  });
}

std::string gain_numbers(const Observation& o, const Selection& s) {
  const HeadSpectrum* head = selected_head(o, s);
  const int mode = head ? selected_mode(*head, s) : -1;
  if (mode < 0) return "";
  const auto i = static_cast<std::size_t>(mode);
  const int power = s.power >= 0 ? s.power : head->power;
  return number_text(mode_times(head->scale * head->eigenvalues[i]).modulus, 4) + " to the power " +
         std::to_string(power) + " = " + number_text(mode_gain(*head, i, power), 4);
}

std::string forces_numbers(const Observation& o, const Selection& s) {
  const HeadForces* forces = selected_forces(o, s);
  if (!forces || forces->modes.empty()) return "";
  return force_text(*forces, s.mode >= 0 ? s.mode : forces->modes.front().number);
}

constexpr PlotRow spectrum_rows[] = {
    {"spectrum", set_of(Analysis::spectra), LayerTrait::koopman_heads | LayerTrait::koopman_modes, spectrum_subtitle,
     spectrum_figures, followed_mode},
    {"forces", Analysis::forces | Analysis::spectra, LayerTrait::koopman_heads, forces_subtitle, forces_figures},
    {"power_filter", set_of(Analysis::spectra), LayerTrait::koopman_heads, power_filter_subtitle, power_filter_figures},
    {"state_spectrum", set_of(Analysis::spectra), LayerTrait::state_modes, state_spectrum_subtitle,
     state_spectrum_figures},
    {"state_growth", set_of(Analysis::trace), LayerTrait::state_modes, state_growth_subtitle, state_growth_figures},
};

constexpr CardNumbers spectrum_numbers[] = {
    {"spectrum", gamma_numbers},     {"forces", forces_numbers},     {"mode", modulus_numbers},
    {"eigenvalue", modulus_numbers}, {"modulus", modulus_numbers},   {"half_life", half_life_numbers},
    {"period", period_numbers},      {"gain", gain_numbers},         {"gamma", gamma_numbers},
    {"sigma", gamma_numbers},        {"power_filter", gain_numbers}, {"power_filter_table", gain_numbers},
    {"power", gain_numbers}};

}  // namespace

PlotFamily spectrum_plots() { return {spectrum_rows, spectrum_numbers}; }

}  // namespace afterglow
