// The gain of each power over the modulus, the modes on it, and the energy before and after.
#include <algorithm>
#include <cmath>
#include <complex>
#include <set>

#include "core/engine/observation/mode_numbers.h"
#include "core/figure/axis.h"
#include "views/analyses/inspected/inspection_figures.h"
#include "views/analyses/spectra/spectrum_figures.h"
#include "views/figures/semantic_colours.h"
#include "views/figures/sheet.h"

namespace afterglow {
namespace {

int shown_power(const HeadSpectrum& head, const Selection& selection) {
  return std::clamp(selection.power >= 0 ? selection.power : head.power, 0, 64);
}

Line gain_line(int power, double end, bool is_chosen) {
  constexpr int samples = 120;
  std::vector<double> x;
  for (int i = 0; i <= samples; ++i) x.push_back(end * i / samples);
  std::vector<double> gains = filter_gains(x, power);
  return line_through("K = " + std::to_string(power), std::move(x), std::move(gains),
                      is_chosen ? Ink(Role::accent) : Ink(Role::faint), is_chosen ? Dash::solid : Dash::dashed,
                      is_chosen ? 2.4 : 1.3);
}

struct Mode {
  int number = 0;
  std::string name;  ///< "mode 3"; of a pair "modes 3 and 4"
  std::complex<double> eigenvalue;
  double modulus = 0, gain = 0, energy = 0;
};

/// A pair counts once, with the energy of both: its modes have the same modulus and gain. It has the number of its
/// first member, or of the chosen one.
std::vector<Mode> merged_modes(const HeadSpectrum& head, const InspectedHead* inspected, int power, int chosen) {
  std::vector<Mode> modes;
  for (std::size_t i = 0; i < head.eigenvalues.size(); ++i) {
    const double modulus = std::abs(head.scale * head.eigenvalues[i]);
    if (!std::isfinite(modulus)) continue;
    const double energy = i < head.energy.size() && std::isfinite(head.energy[i]) ? head.energy[i] : 0;
    if (inspected && (inspected->head_is_off || (i < inspected->is_off.size() && inspected->is_off[i]))) continue;
    const std::complex<double> lambda = head.eigenvalues[i];
    const int number = number_of_mode(head, i);
    const auto partner = std::ranges::find(modes, std::conj(lambda), &Mode::eigenvalue);
    if (lambda.imag() == 0 || partner == modes.end()) {
      modes.push_back({number, "mode " + std::to_string(number), lambda, modulus, mode_gain(head, i, power), energy});
    } else {
      partner->energy += energy;
      partner->name = "modes " + std::to_string(partner->number) + " and " + std::to_string(number);
      if (number == chosen) partner->number = number;
    }
  }
  return modes;
}

/// Echo's table D.1 for the modes of this operator instead of round numbers: a row for each, the slowest at the top.
HeatMap suppression_map(std::vector<Mode> modes, const std::set<int>& powers) {
  std::ranges::stable_sort(modes, std::ranges::greater{}, &Mode::modulus);
  HeatMap map{.name = "gain |λ|^K", .rows = static_cast<int>(modes.size()), .cols = static_cast<int>(powers.size())};
  std::vector<double> cells;
  for (const Mode& mode : modes) {
    map.row_labels.push_back(mode.name);
    for (const int power : powers) cells.push_back(filter_gains({&mode.modulus, 1}, power).front());
  }
  for (const int power : powers) map.col_labels.push_back(power == 1 ? "|λ|" : "|λ|^" + std::to_string(power));
  map.value.label = "gain |λ|^K";
  map.value.range = Range{0, std::clamp(std::ranges::max(cells), 1.0, 4.0)};
  map.cells = std::move(cells);
  map.shows_numbers = true;
  map.digits = 3;  // small values matter here
  return map;
}

Figure suppression_table(const std::vector<Mode>& modes, int power, const std::string& place) {
  Figure figure = sheet("power_filter_table", "Suppression", place, {"power K"}, {"mode"}, LabelPlacement::none);
  // The powers of Echo's table D.1, their base, and the displayed one.
  HeatMap map = suppression_map(modes, {1, 2, 4, power});
  figure.x.ticks = ticks_of(map.col_labels);
  figure.y.ticks = ticks_of(map.row_labels);
  figure.series.emplace_back(std::move(map));
  return figure;
}

}  // namespace

std::string power_filter_subtitle(const Observation& observation, const Selection& selection) {
  const HeadSpectrum* head = seen_head(observation, selection);
  if (!head) return why_no_layer(observation, LayerTrait::koopman_heads);
  const std::string edited = inspected_head(observation, *head) ? " · edited, grey: as trained" : "";
  return "K = " + std::to_string(shown_power(*head, selection)) + edited + " · bars: query energy before and after";
}

std::vector<Figure> power_filter_figures(const Observation& observation, const Selection& selection, CurveStore&) {
  const HeadSpectrum* trained = selected_head(observation, selection);
  if (!trained) return {};
  const InspectedHead* inspected = inspected_head(observation, *trained);
  const HeadSpectrum* head = inspected ? &inspected->spectrum : trained;
  const int power = shown_power(*head, selection), chosen = selection_of_heads(observation, selection).mode;
  const std::vector<Mode> modes = merged_modes(*head, inspected, power, chosen);
  double end = 1.0;
  for (const Mode& mode : modes) {
    while (end < mode.modulus && end < 1e30) end *= end < 2 ? 1.25 : 2;
  }
  Figure figure = sheet(
      "power_filter", "Power filter", layer_name(observation, head->layer) + " · head " + std::to_string(head->head),
      {.label = "modulus |λ| of A = γ A_w", .range = Range{0, end * 1.03}},
      {.label = "gain |λ|^K", .range = Range{0, std::clamp(filter_gains({&end, 1}, power).at(0), 1.0, 4.0) * 1.03}},
      LabelPlacement::at_curves);

  Bars bars{.name = "share of energy", .width = end * 0.016};
  Scatter scatter{.name = "modes", .marker = Marker::circle};
  for (const Mode& mode : modes) {
    bars.bars.push_back({mode.modulus, mode.energy * mode.gain * mode.gain, mode.energy, mode_ink(mode.number)});
    scatter.points.push_back(
        mode_dot({mode.number}, {mode.modulus, mode.gain}, 4, mode_ink(mode.number), mode.number == chosen));
  }
  figure.series.emplace_back(std::move(bars));
  for (const int other : std::set<int>{1, 2, 4, std::clamp(trained->power, 0, 64)}) {
    if (other != power) figure.series.emplace_back(gain_line(other, end, false));
  }
  if (inspected) {
    Scatter ghosts{.name = "as trained", .marker = Marker::circle};
    for (const Mode& mode : merged_modes(*trained, nullptr, trained->power, chosen))
      ghosts.points.push_back({mode.modulus, mode.gain, 3, Role::faint, false, "", ""});
    figure.series.emplace_back(std::move(ghosts));
  }
  figure.series.emplace_back(gain_line(power, end, true));
  figure.series.emplace_back(std::move(scatter));
  if (modes.empty()) return {figure};
  return {figure, suppression_table(modes, power, figure.subtitle)};
}

}  // namespace afterglow
