// Plots and cards of the Koopman spectrum, its modes and the power filter.
#include <cmath>
#include <complex>

#include "core/engine/observation/mode_numbers.h"
#include "core/figure/axis.h"
#include "views/analyses/forces/forces_figures.h"
#include "views/analyses/spectra/spectrum_figures.h"
#include "views/plots/families.h"
#include "views/plots/followed_number.h"

namespace afterglow {

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
