// Plots and cards of the curves of training.
#include <array>

#include "core/engine/observation/blame_view.h"
#include "core/engine/observation/phase_map_view.h"
#include "core/figure/axis.h"
#include "views/figures/studies/accuracy_figures.h"
#include "views/figures/studies/phase_map_figures.h"
#include "views/figures/training/bisect_figures.h"
#include "views/figures/training/blame_figures.h"
#include "views/figures/training/microscope_figures.h"
#include "views/figures/training/over_training_figures.h"
#include "views/figures/training/training_figures.h"
#include "views/plots/families.h"

namespace afterglow {

namespace {

std::string loss_numbers(const Observation& o, const Selection&) {
  if (o.runs.empty() || o.runs.back().loss.empty()) return "";
  return "now " + number_text(o.runs.back().loss.back(), 4) +
         (o.measures.loss_unit.empty() ? "" : " " + o.measures.loss_unit);
}

std::string accuracy_numbers(const Observation& o, const Selection&) {
  if (o.runs.empty() || o.runs.back().accuracy.empty()) return "";
  return "now " + number_text(o.runs.back().accuracy.back(), 4);
}

std::string phase_map_numbers(const Observation& o, const Selection&) {
  if (!o.phase_map) return "";
  return std::to_string(o.phase_map->sweep.results.size()) + " of " + std::to_string(size_of(o.phase_map->sweep.axes)) +
         " runs";
}

std::string accuracy_grid_numbers(const Observation& o, const Selection&) {
  if (!o.accuracy || o.accuracy->grids.empty()) return "";
  const AccuracyGrid& grid = o.accuracy->grids.front();
  return grid.cells.empty() ? "" : cell_text(grid, grid.cells.front());
}

std::string blame_numbers(const Observation& o, const Selection&) {
  if (!o.blame) return "";
  const std::string chosen = batch_text(*o.blame, o.blame->batch.step);
  return chosen.empty() ? std::to_string(o.blame->without.size()) + " batches have been left out so far" : chosen;
}

std::string microscope_numbers(const Observation& o, const Selection&) {
  return o.microscope ? microscope_text(*o.microscope) : "";
}

std::string bisect_numbers(const Observation& o, const Selection&) { return o.bisect ? bisect_text(*o.bisect) : ""; }

std::string over_training_numbers(const Observation& o, const Selection&) {
  return o.over_training ? over_training_text(*o.over_training) : "";
}

std::string rate_numbers(const Observation& o, const Selection&) {
  if (o.runs.empty() || o.runs.back().learning_rate.empty()) return "";
  return "now η = " + number_text(o.runs.back().learning_rate.back(), 3);
}

constexpr std::array training_rows{
    PlotKind{.id = "training",
             .title = "Training",
             .about = "Accuracy, loss, gradient norms and learning rate of every run.",
             .analyses = 0,
             .subtitle = training_subtitle,
             .prepare = training_figures},
    PlotKind{.id = "phase_map",
             .title = "Phase map",
             .about = "Results of trainings over two settings, computed from coarse to fine; a click opens a run.",
             .analyses = set_of(Analysis::phase_map),
             .subtitle = phase_map_subtitle,
             .prepare = phase_map_figures,
             .smallest = {260, 200}},
    PlotKind{.id = "accuracy_grid",
             .title = "Accuracy grid",
             .about = "Held-out accuracy over the number of key-value pairs and the length, for every task with the "
                      "model's vocabulary.",
             .analyses = set_of(Analysis::accuracy),
             .subtitle = accuracy_grid_subtitle,
             .prepare = accuracy_grid_figures,
             .needs = LayerTrait::tokens,
             .smallest = {230, 130}},
    PlotKind{.id = "blame",
             .title = "Batch influence",
             .about = "Effect of each of the last batches: the training is repeated exactly, without that batch.",
             .analyses = set_of(Analysis::blame),
             .subtitle = blame_subtitle,
             .prepare = blame_figures},
    PlotKind{.id = "microscope",
             .title = "Twin runs",
             .about = "How fast two trainings diverge that differ in one bit, one token or one setting.",
             .analyses = set_of(Analysis::microscope),
             .subtitle = microscope_subtitle,
             .prepare = microscope_figures},
    PlotKind{.id = "bisect",
             .title = "When did it start?",
             .about = "First step at which a condition holds, with one part of the model frozen at a time.",
             .analyses = set_of(Analysis::bisect),
             .subtitle = bisect_subtitle,
             .prepare = bisect_figures},
    PlotKind{.id = "over_training",
             .title = "Any number over training",
             .about = "One number of a panel at all kept steps, below the loss.",
             .analyses = set_of(Analysis::over_training),
             .subtitle = over_training_subtitle,
             .prepare = over_training_figures},
};

constexpr CardNumbers training_numbers[] = {{"training", loss_numbers},
                                            {"training_accuracy", accuracy_numbers},
                                            {"training_loss", loss_numbers},
                                            {"phase_map", phase_map_numbers},
                                            {"accuracy_grid", accuracy_grid_numbers},
                                            {"blame", blame_numbers},
                                            {"microscope", microscope_numbers},
                                            {"bisect", bisect_numbers},
                                            {"over_training", over_training_numbers},
                                            {"setting_learning_rate", rate_numbers},
                                            {"setting_warmup", rate_numbers},
                                            {"setting_final_rate", rate_numbers}};

}  // namespace

PlotFamily training_plots() { return {training_rows, training_numbers}; }

}  // namespace afterglow
