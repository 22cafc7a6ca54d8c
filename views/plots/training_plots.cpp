// Plots and cards of the curves of training.
#include "core/figure/axis.h"
#include "views/analyses/studies/study_figures.h"
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

std::string blame_numbers(const Observation& o, const Selection&) {
  if (!o.blame) return "";
  const std::string chosen = batch_text(*o.blame, o.blame->batch.step);
  return chosen.empty() ? std::to_string(o.blame->without.size()) + " batches have been left out so far" : chosen;
}

std::string rate_numbers(const Observation& o, const Selection&) {
  if (o.runs.empty() || o.runs.back().learning_rate.empty()) return "";
  return "now η = " + number_text(o.runs.back().learning_rate.back(), 3);
}

constexpr PlotRow training_rows[] = {
    {"training", 0, {}, training_subtitle, training_figures},
    {"phase_map", set_of(Analysis::phase_map), {}, phase_map_subtitle, phase_map_figures},
};

constexpr PlotRow study_rows[] = {
    {"blame", set_of(Analysis::blame), {}, blame_subtitle, blame_figures},
    {"microscope", set_of(Analysis::microscope), {}, microscope_subtitle, microscope_figures},
    {"bisect", set_of(Analysis::bisect), {}, bisect_subtitle, bisect_figures},
    {"over_training", set_of(Analysis::over_training), {}, over_training_subtitle, over_training_figures},
};

constexpr CardNumbers training_numbers[] = {
    {"training", loss_numbers},
    {"training_accuracy", accuracy_numbers},
    {"training_loss", loss_numbers},
    {"phase_map", phase_map_numbers},
    {"blame", blame_numbers},
    {"microscope", text_about<&Observation::microscope, microscope_text>},
    {"bisect", text_about<&Observation::bisect, bisect_text>},
    {"over_training", text_about<&Observation::over_training, over_training_text>},
    {"setting_learning_rate", rate_numbers},
    {"setting_warmup", rate_numbers},
    {"setting_final_rate", rate_numbers}};

}  // namespace

PlotFamily training_plots() { return {training_rows, training_numbers}; }
PlotFamily study_plots() { return {study_rows, {}}; }

}  // namespace afterglow
