// Maps places of figures to rows and columns of their views.
#include <cmath>

#include "core/engine/observation/run_numbers.h"
#include "views/analyses/causes/causes_figures.h"
#include "views/plots/families.h"

namespace afterglow {
namespace {

struct Cell {
  int row = 0, column = 0;
};

/// Heat maps have a row and a column at each whole number.
Cell cell_at(const Point& place) {
  return {static_cast<int>(std::lround(place.y)), static_cast<int>(std::lround(place.x))};
}

template <class Items>
bool holds(const Items& items, int index) {
  return index >= 0 && index < static_cast<int>(items.size());
}

std::string path_name(const PatchView& view, const std::optional<Point>& at) {
  const Cell cell = at ? cell_at(*at) : Cell{0, 0};
  if (!holds(view.parts, cell.row) || !holds(view.parts, cell.column + 1) || cell.column < cell.row) return "";
  return "patch.path." + name_word(view.parts[static_cast<std::size_t>(cell.row)]) + "." +
         name_word(view.parts[static_cast<std::size_t>(cell.column) + 1]);
}

}  // namespace

std::string followed_patch(const Observation& observation, const Selection&, const Figure& figure,
                           const std::optional<Point>& at) {
  if (!observation.patch) return "";
  const PatchView& view = *observation.patch;
  if (figure.id == patch_path_id) return path_name(view, at);
  const PatchGroup group = patch_group(figure.id);
  Cell cell = at ? cell_at(*at) : Cell{-1, -1};
  if (at) {
    cell.row = patch_row(view, group, cell.row);
  } else {
    std::tie(cell.row, cell.column) = brightest_cell(view, group);
  }
  if (!holds(view.rows, cell.row) || !holds(view.pair.clean, cell.column)) return "";
  return "patch." + name_word(view.rows[static_cast<std::size_t>(cell.row)].label) + "." + std::to_string(cell.column);
}

std::string followed_ablation(const Observation& observation, const Selection&, const Figure&,
                              const std::optional<Point>& at) {
  const int part = at ? -cell_at(*at).row : 0;
  if (!observation.ablation || !holds(observation.ablation->parts, part)) return "";
  return "ablation." + name_word(observation.ablation->parts[static_cast<std::size_t>(part)].name) + ".lost";
}

std::string followed_readout(const Observation& observation, const Selection&, const Figure&,
                             const std::optional<Point>& at) {
  if (!observation.readout) return "";
  const ReadoutView& view = *observation.readout;
  Cell cell{0, static_cast<int>(view.tokens.size()) - 1};
  if (at) {
    cell = cell_at(*at);
  } else {
    while (cell.column > 0 && std::isnan(view.shuffled[static_cast<std::size_t>(cell.column)])) --cell.column;
  }
  if (!holds(view.tokens, cell.column) || cell.row < 0 || cell.row > static_cast<int>(view.keys.size())) return "";
  const bool is_key = holds(view.keys, cell.row);
  return "readout." + (is_key ? name_word(view.keys[static_cast<std::size_t>(cell.row)]) : "shuffled") + "." +
         std::to_string(cell.column);
}

std::string followed_lens(const Observation& observation, const Selection&, const Figure& figure,
                          const std::optional<Point>& at) {
  if (!observation.logit_lens) return "";
  const LogitLensView& view = *observation.logit_lens;
  Cell cell{static_cast<int>(view.depths.size()) - 1, view.pair.asked};
  if (at) cell = figure.id == "logit_lens_map" ? cell_at(*at) : Cell{-cell_at(*at).row, view.pair.asked};
  if (!holds(view.depths, cell.row) || !holds(view.pair.clean, cell.column)) return "";
  return "logit_lens." + name_word(view.depths[static_cast<std::size_t>(cell.row)]) + "." + std::to_string(cell.column);
}

std::string followed_transplant(const Observation& observation, const Selection&, const Figure&,
                                const std::optional<Point>&) {
  return observation.transplant && observation.transplant->layer >= 0 ? "transplant.share" : "";
}

std::string followed_mode(const Observation& observation, const Selection& selection, const Figure&,
                          const std::optional<Point>&) {
  const HeadSpectrum* head = selected_head(observation, selection);
  const int mode = head ? selected_mode(*head, selection) : -1;
  if (mode < 0 || !holds(observation.model.layers, head->layer)) return "";
  return "head." + name_word(observation.model.layers[static_cast<std::size_t>(head->layer)].label) + "." +
         std::to_string(head->head) + ".mode_number." +
         std::to_string(number_of_mode(*head, static_cast<std::size_t>(mode))) + ".modulus";
}

}  // namespace afterglow
