// Resolves a selection against the observation, so that no panel reads past an end.
#include "views/figures/selection.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/engine/analyses/solvers/solver_view.h"
#include "core/engine/observation/mode_numbers.h"
#include "core/io/field_table.h"
#include "core/io/named.h"

namespace afterglow {
namespace {

constexpr double most_places = 1 << 20;

struct SelectionFields : Selection {
  static constexpr const char* command = "the command's value";
  static constexpr ConfigField<SelectionFields> fields[] = {{"layer", &Selection::layer, -1, most_places},
                                                            {"head", &Selection::head, 0, most_places},
                                                            {"mode", &Selection::mode, -1, most_places},
                                                            {"token", &Selection::token, -1, most_places},
                                                            {"power", &Selection::power, -1, 64},
                                                            {"all_heads", &Selection::all_heads},
                                                            {"scaled", &Selection::scaled},
                                                            {"only_difference", &Selection::only_difference},
                                                            {"change", &Selection::change},
                                                            {"band", &Selection::band},
                                                            {"smoothing", &Selection::smoothing, 0, 0.9999},
                                                            {"window", &Selection::window, 0, most_places}};
};

}  // namespace

std::string selection_value(const Selection& selection) {
  nlohmann::json value = to_json(SelectionFields{selection});
  const nlohmann::json usual = to_json(SelectionFields());
  for (const auto& [key, otherwise] : usual.items()) {
    if (value[key] == otherwise) value.erase(key);
  }
  if (selection.arithmetic >= 0 && selection.arithmetic < static_cast<int>(all_arithmetics.size()))
    value["arithmetic"] = name_of(all_arithmetics[static_cast<std::size_t>(selection.arithmetic)]);
  if (selection.earlier != EarlierRuns::grey) value["earlier"] = name_of(selection.earlier);
  return value.dump();
}

Selection changed_selection(const Selection& selection, const nlohmann::json& value) {
  SelectionFields now{selection};
  if (value.contains("smoothing")) now.window = 0;
  now = read_fields_among({"arithmetic", "earlier"}, value, now);
  std::vector<std::string> arithmetics{"run"};  // -1, then the indices of the others
  for (const Arithmetic one : all_arithmetics) arithmetics.emplace_back(name_of(one));
  now.arithmetic = get_enum(value, "arithmetic", arithmetics, now.arithmetic + 1, now.command) - 1;
  const std::vector<std::string> earlier(earlier_runs_names.begin(), earlier_runs_names.end());
  now.earlier = get_enum(value, "earlier", earlier, now.earlier, now.command);
  return now;
}

std::string_view name_of(EarlierRuns earlier) { return earlier_runs_names[static_cast<std::size_t>(earlier)]; }

const HeadSpectrum* selected_head(const Observation& observation, const Selection& selection) {
  if (!observation.spectra) return nullptr;
  const HeadSpectrum* first = nullptr;
  const HeadSpectrum* same_layer = nullptr;
  for (const HeadSpectrum& head : observation.spectra->heads) {
    if (!first) first = &head;
    if (head.layer != selection.layer) continue;
    if (!same_layer || head.head == selection.head) same_layer = &head;
  }
  if (same_layer || !first) return same_layer;
  const HeadSpectrum* same_head = find_head(observation.spectra.get(), first->layer, selection.head);
  return same_head ? same_head : first;
}

const MlpSpectrum* selected_mlp(const Observation& observation, const Selection& selection) {
  if (!observation.spectra || observation.spectra->mlps.empty()) return nullptr;
  const MlpSpectrum* chosen = find_by(observation.spectra->mlps, selection.layer, &MlpSpectrum::layer);
  return chosen ? chosen : &observation.spectra->mlps.front();
}

bool mlp_is_selected(const Observation& observation, const Selection& selection) {
  const MlpSpectrum* mlp = selected_mlp(observation, selection);
  return mlp && (mlp->layer == selection.layer || observation.spectra->heads.empty());
}

int heads_of_layer(const Spectra& spectra, int layer) {
  return static_cast<int>(std::ranges::count(spectra.heads, layer, &HeadSpectrum::layer));
}

int number_of_mode(const HeadSpectrum& head, std::size_t i) {
  return i < head.identity.size() ? head.identity[i] : static_cast<int>(i);
}

int selected_mode(const HeadSpectrum& head, const Selection& selection) {
  int strongest = -1;
  for (std::size_t i = 0; i < head.eigenvalues.size(); ++i) {
    if (!std::isfinite(std::abs(head.eigenvalues[i]))) continue;
    if (number_of_mode(head, i) == selection.mode) return static_cast<int>(i);
    const auto energy = [&](std::size_t k) { return k < head.energy.size() ? head.energy[k] : 0.0; };
    if (strongest < 0 || energy(i) > energy(static_cast<std::size_t>(strongest))) strongest = static_cast<int>(i);
  }
  return strongest;
}

Selection selection_of_heads(const Observation& observation, const Selection& selection) {
  Selection own = selection;
  if (mlp_is_selected(observation, selection)) own.mode = -1;
  return own;
}

int selected_pair(const MlpSpectrum& mlp, const Selection& selection) {
  const auto is_finite = [&](int i) { return std::isfinite(std::abs(mlp.eigenvalues[static_cast<std::size_t>(i)])); };
  const int count = static_cast<int>(mlp.eigenvalues.size());
  if (selection.mode >= 0 && selection.mode < count && is_finite(selection.mode)) return selection.mode;
  int largest = -1;
  for (int i = 0; i < count; ++i) {
    const auto modulus = [&](int k) { return std::abs(mlp.eigenvalues[static_cast<std::size_t>(k)]); };
    if (is_finite(i) && (largest < 0 || modulus(i) > modulus(largest))) largest = i;
  }
  return largest;
}

int selected_token(const Observation& observation, const Selection& selection) {
  if (!observation.trace || observation.trace->steps.empty()) return -1;
  const int last = static_cast<int>(observation.trace->steps.size()) - 1;
  return selection.token < 0 ? last : std::min(selection.token, last);
}

int selected_trace_head(const Trace& trace, const Selection& selection) {
  if (trace.steps.empty() || trace.steps.front().heads.empty()) return -1;
  return std::clamp(selection.head, 0, static_cast<int>(trace.steps.front().heads.size()) - 1);
}

}  // namespace afterglow
