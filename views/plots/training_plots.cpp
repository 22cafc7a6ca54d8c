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
  return chosen.empty() ? std::to_string(o.blame->without.size()) + " batches left out so far" : chosen;
}

std::string microscope_numbers(const Observation& o, const Selection&) {
  return o.microscope ? microscope_text(*o.microscope) : "";
}

std::string bisect_numbers(const Observation& o, const Selection&) { return o.bisect ? bisect_text(*o.bisect) : ""; }

std::string over_training_numbers(const Observation& o, const Selection&) {
  return o.over_training ? over_training_text(*o.over_training) : "";
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
             .about = "What trainings over two settings come to, from coarse to fine; a click opens one.",
             .analyses = set_of(Analysis::phase_map),
             .subtitle = phase_map_subtitle,
             .prepare = phase_map_figures,
             .smallest = {260, 200}},
    PlotKind{.id = "accuracy_grid",
             .title = "Accuracy grid",
             .about = "Right answers over bindings and length, for every task in the model's language.",
             .analyses = set_of(Analysis::accuracy),
             .subtitle = accuracy_grid_subtitle,
             .prepare = accuracy_grid_figures,
             .needs = LayerTrait::tokens,
             .smallest = {230, 130}},
    PlotKind{.id = "blame",
             .title = "Blame",
             .about = "What each batch of a stretch of training did: the training is repeated without it, exactly.",
             .analyses = set_of(Analysis::blame),
             .subtitle = blame_subtitle,
             .prepare = blame_figures},
    PlotKind{.id = "microscope",
             .title = "Divergence microscope",
             .about = "How fast two trainings part that differ in one bit, one token or one setting.",
             .analyses = set_of(Analysis::microscope),
             .subtitle = microscope_subtitle,
             .prepare = microscope_figures},
    PlotKind{.id = "bisect",
             .title = "Bisect",
             .about = "When a condition begins to hold, with one part of the model frozen at a time.",
             .analyses = set_of(Analysis::bisect),
             .subtitle = bisect_subtitle,
             .prepare = bisect_figures},
    PlotKind{.id = "over_training",
             .title = "Over training",
             .about = "One number of a panel followed over all kept steps, under the loss.",
             .analyses = set_of(Analysis::over_training),
             .subtitle = over_training_subtitle,
             .prepare = over_training_figures},
};

constexpr std::array training_cards{
    FormulaCard{
        "training", "Training", "L = −mean log p(target)",
        "Loss and accuracy are taken at the answers only; a forecast has its mean squared error and the variance "
        "that it explains. Curves are smoothed with bias correction, raw values stay behind.",
        "Echo, section 4", loss_numbers},
    FormulaCard{
        "training_accuracy", "Accuracy", "share of answers whose most probable token is right",
        "The thin curve is each step's batch, the thick one its average, the diamonds are sequences never trained on. "
        "Of a forecast: 1 − MSE over the mean square of the truth.",
        "Echo, section 4", accuracy_numbers},
    FormulaCard{"training_loss", "Loss", "L = −mean log p(target)",
                "Cross-entropy of the answers; of a forecast the mean squared error.", "Echo, section 4", loss_numbers},
    FormulaCard{"training_gradient_norm", "Gradient norm", "|∂L/∂θ| of each layer",
                "Before clipping; the white line is the whole model.", "Echo, appendix J", nullptr},
    FormulaCard{"training_learning_rate", "Learning rate", "warm-up, then cosine",
                "Step size of AdamW as it was used in each step.", "Echo, section 4", nullptr},
    FormulaCard{"held_out",
                "Held out",
                "share of right answers on sequences that are never trained on",
                "Measured now and then on a fixed set; where it stays behind the training curve, the model has learned "
                "its sequences by heart.",
                "Echo, section 4",
                nullptr,
                {"held out"}},
    FormulaCard{"step",
                "Training step",
                "n = 1, 2, ..",
                "One batch, one update of the weights.",
                "AdamW",
                nullptr,
                {"step"},
                "steps"},
    FormulaCard{
        "phase_map", "Phase map", "one whole training for each pair of settings",
        "The colour is what a training from the start with these two settings came to. A dot marks a run that is "
        "finished; elsewhere the colour is that of a neighbour on a coarser grid, until its own run is there. A "
        "cell without a colour has no answer. A click on a dot opens that run at its end.",
        "Afterglow, many runs", phase_map_numbers},
    FormulaCard{"accuracy_grid",
                "Accuracy grid",
                "right answers / answers asked for, on held-out sequences",
                "Each cell is a task with so many bindings to remember and so many tokens to remember them through. A "
                "model is trained with short sequences; to the right it shows what its memory does with longer ones, "
                "in the other maps what it does with tasks that it has never seen. Cells are asked a few sequences "
                "first, then all; with n sequences a share p is known to about √(p (1 − p) / n). A click on a cell "
                "probes such a sequence.",
                "Echo, section 5.1, tables 2 and 3, figure 1",
                accuracy_grid_numbers,
                {"accuracy", "bindings", "length"}},
    FormulaCard{
        "blame",
        "Blame",
        "L(θ without batch b) − L(θ), at one and the same later step",
        "The training is repeated without learning from one batch; every other batch, the learning rate and the "
        "optimiser's counter stay. A green bar: the batch helped, without it the loss is higher there (the accuracy "
        "lower); a red one: it did harm. It misleads where many batches do the same: each alone is then hardly "
        "missed. Differences of the size of the bars beside each other are the noise of one training.",
        "Afterglow, the command skip",
        blame_numbers,
        {"step whose batch is left out", "change of the loss", "change", "batch", "compared here"}},
    FormulaCard{
        "microscope",
        "Divergence microscope",
        "|w − w′| / |w| after each step",
        "Two trainings go on in lockstep from one state and differ in one thing. A straight line on the logarithmic "
        "axis grows by the same factor in each step: what is as small as a rounding error is then no longer small "
        "some hundred steps on. The same against the same must stay at 0, to the bit. ulp: units in the last place "
        "of float32, of the largest number at the place named. The weights part long before the answers do.",
        "Afterglow, the command microscope",
        microscope_numbers,
        {"distance |w − w′| / |w|", "all weights", "first beyond"}},
    FormulaCard{
        "bisect",
        "Bisect",
        "first step at which the condition holds, with part b frozen",
        "The training is repeated from its start, each time with one part that keeps its first weights; batches, rates "
        "and "
        "clipping stay. A bar as long as that of “all learn”: that part's learning is not needed for it. Longer, or "
        "never: it is. A frozen part is not a missing one: at its random weights it still passes on what it is given. "
        "One "
        "seed is one story.",
        "Afterglow, the command bisect",
        bisect_numbers,
        {"part that does not learn", "first step"}},
    FormulaCard{
        "over_training",
        "Over training",
        "the number at every kept state of the run",
        "Each state that the run keeps is looked at as the present one is, with the same probe. Recent steps are "
        "kept densely, old ones sparsely; between two points nothing is known. A number of one mode follows the "
        "mode's place in the list, not the mode.",
        "Afterglow, the command over_training",
        over_training_numbers,
        {"spectral_radius", "half_life"}}};

}  // namespace

PlotFamily training_plots() { return {training_rows, training_cards}; }

}  // namespace afterglow
