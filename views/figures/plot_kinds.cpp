// The one list of plots: to add one, write its file pair and add its row here.
#include "views/figures/plot_kinds.h"

#include <algorithm>
#include <array>

#include "core/engine/observation/influence_view.h"
#include "core/engine/observation/probe_view.h"
#include "core/engine/observation/solver_view.h"
#include "core/engine/observation/theory_view.h"
#include "views/figures/conditioning_figures.h"
#include "views/figures/depth_figures.h"
#include "views/figures/forecast_figures.h"
#include "views/figures/influence_figures.h"
#include "views/figures/phase_map_figures.h"
#include "views/figures/power_filter_figures.h"
#include "views/figures/probe_figures.h"
#include "views/figures/semantic_colours.h"
#include "views/figures/solver_figures.h"
#include "views/figures/spectrum_figures.h"
#include "views/figures/state_figures.h"
#include "views/figures/stepper_figures.h"
#include "views/figures/theory_figures.h"
#include "views/figures/token_weights_figures.h"
#include "views/figures/training_figures.h"
#include "views/figures/trajectory_figures.h"

namespace afterglow {

namespace {

constexpr AnalysisSet spectra = static_cast<AnalysisSet>(Analysis::spectra),
                      trace = static_cast<AnalysisSet>(Analysis::trace),
                      solvers = static_cast<AnalysisSet>(Analysis::solvers),
                      influence = static_cast<AnalysisSet>(Analysis::influence);
// Theory is shown of the model that is being probed.
constexpr AnalysisSet probe = Analysis::probe | Analysis::spectra, theory = probe | Analysis::theory;

constexpr std::array kinds{
    PlotKind{.id = "training",
             .title = "Training",
             .about = "Accuracy, loss, gradient norms and learning rate of every run.",
             .analyses = 0,
             .subtitle = training_subtitle,
             .prepare = training_figures},
    PlotKind{.id = "spectrum",
             .title = "Koopman spectrum",
             .about = "Eigenvalues of the layer's memory in the complex plane, with trails.",
             .analyses = spectra,
             .subtitle = spectrum_subtitle,
             .prepare = spectrum_figures,
             .needs = LayerTrait::koopman_heads | LayerTrait::koopman_modes,
             .smallest = {150, 150},
             .moves_points = true},
    PlotKind{.id = "power_filter",
             .title = "Power filter",
             .about = "What raising the operator to the power K leaves of each mode.",
             .analyses = spectra,
             .subtitle = power_filter_subtitle,
             .prepare = power_filter_figures,
             .needs = LayerTrait::koopman_heads},
    PlotKind{.id = "state_spectrum",
             .title = "State spectrum",
             .about = "Eigenvalues of what a token leaves of a recurrent state, in the complex plane.",
             .analyses = spectra,
             .subtitle = state_spectrum_subtitle,
             .prepare = state_spectrum_figures,
             .needs = LayerTrait::state_modes,
             .smallest = {150, 150}},
    PlotKind{.id = "stepper",
             .title = "Stepper",
             .about = "The recurrent state token by token, and what it answers.",
             .analyses = trace,
             .subtitle = stepper_subtitle,
             .prepare = stepper_figures,
             .needs = LayerTrait::tokens,
             .smallest = {190, 150},
             .moves_tokens = true},
    PlotKind{.id = "state_growth",
             .title = "State growth",
             .about = "How large a recurrent state grows, and how many directions it fills, token by token.",
             .analyses = trace,
             .subtitle = state_growth_subtitle,
             .prepare = state_growth_figures,
             .needs = LayerTrait::state_modes,
             .smallest = {240, 150},
             .moves_tokens = true},
    PlotKind{.id = "conditioning",
             .title = "Conditioning",
             .about = "How close the Gram matrix comes to what each precision can solve.",
             .analyses = probe | trace | solvers,
             .subtitle = conditioning_subtitle,
             .prepare = conditioning_figures,
             .needs = LayerTrait::ridge_systems,
             .smallest = {280, 210}},
    PlotKind{.id = "token_weights",
             .title = "Token weights",
             .about = "Which tokens each token reads, as if every layer were attention.",
             .analyses = trace,
             .subtitle = token_weights_subtitle,
             .prepare = token_weights_figures,
             .needs = LayerTrait::tokens},
    PlotKind{.id = "solver_race",
             .title = "Solver race",
             .about = "Residuals of five solvers in four arithmetics, beside what theory promises.",
             .analyses = solvers,
             .subtitle = solver_race_subtitle,
             .prepare = solver_race_figures,
             .needs = LayerTrait::ridge_systems,
             .smallest = {240, 150}},
    PlotKind{.id = "gate",
             .title = "Gate",
             .about = "How far back each head's memory reaches, token by token.",
             .analyses = solvers,
             .subtitle = gate_subtitle,
             .prepare = gate_figures,
             .needs = LayerTrait::gate,
             .smallest = {250, 150}},
    PlotKind{.id = "gradient_check",
             .title = "Gradient check",
             .about = "Implicit and unrolled gradients of a solve against the exact one.",
             .analyses = solvers,
             .subtitle = gradient_check_subtitle,
             .prepare = gradient_check_figures,
             .needs = LayerTrait::ridge_systems,
             .smallest = {250, 150}},
    PlotKind{.id = "influence",
             .title = "Influence tail",
             .about = "How the influence of a token fades with the lag, beside theory.",
             .analyses = influence,
             .subtitle = influence_subtitle,
             .prepare = influence_figures,
             .needs = LayerTrait::tokens,
             .smallest = {330, 250}},
    PlotKind{.id = "race",
             .title = "Memory race",
             .about = "All layers on one input: tails, recall of a planted token, state and time per token.",
             .analyses = static_cast<AnalysisSet>(Analysis::race),
             .subtitle = race_subtitle,
             .prepare = race_figures,
             .needs = LayerTrait::tokens,
             .smallest = {250, 170}},
    PlotKind{.id = "routing",
             .title = "Routing",
             .about = "What a layer reads, over how many hops, and what it keeps.",
             .analyses = influence,
             .subtitle = routing_subtitle,
             .prepare = routing_figures,
             .needs = LayerTrait::tokens,
             .smallest = {230, 170}},
    PlotKind{.id = "position_code",
             .title = "Position code",
             .about = "The positions that a feedback writes by itself.",
             .analyses = influence,
             .subtitle = position_code_subtitle,
             .prepare = position_code_figures,
             .needs = LayerTrait::feedback},
    PlotKind{.id = "deep_profiles",
             .title = "Deep profiles",
             .about = "Decaying, frozen and increasing influence of 1, 2 and 3 blocks.",
             .analyses = influence,
             .subtitle = deep_profiles_subtitle,
             .prepare = deep_profiles_figures,
             .needs = LayerTrait::feedback,
             .needs_model = false},
    PlotKind{.id = "probe",
             .title = "Probe",
             .about = "What a sequence is answered, which tokens contribute, and what interventions change.",
             .analyses = probe | trace,
             .subtitle = probe_subtitle,
             .prepare = probe_figures,
             .needs = LayerTrait::tokens,
             .smallest = {240, 150}},
    PlotKind{.id = "perturbation",
             .title = "Perturbation",
             .about = "What noise in the statistics does to operator and eigenvalues, with bounds.",
             .analyses = theory,
             .subtitle = theory_subtitle,
             .prepare = perturbation_figures,
             .needs = LayerTrait::koopman_heads,
             .smallest = {260, 170}},
    PlotKind{.id = "filter_theory",
             .title = "Filter, in theory",
             .about = "Norms of the powers, what the filter costs, and when it helps.",
             .analyses = theory,
             .subtitle = theory_subtitle,
             .prepare = filter_theory_figures,
             .needs = LayerTrait::koopman_heads,
             .smallest = {240, 170}},
    PlotKind{.id = "linear_gap",
             .title = "Linear attention",
             .about = "How far linear attention is from ridge retrieval, with the bound.",
             .analyses = theory,
             .subtitle = theory_subtitle,
             .prepare = linear_gap_figures,
             .needs = LayerTrait::koopman_heads,
             .smallest = {240, 170}},
    PlotKind{.id = "query_jacobian",
             .title = "Query Jacobian",
             .about = "How the answer moves with its query, with the bounds.",
             .analyses = theory,
             .subtitle = theory_subtitle,
             .prepare = query_jacobian_figures,
             .needs = LayerTrait::koopman_heads,
             .smallest = {240, 170}},
    PlotKind{.id = "gradient_depth",
             .title = "Gradient norm by depth",
             .about = "Norms of the loss' gradient at the input of every layer, with the bounds over depth.",
             .analyses = theory,
             .subtitle = depth_subtitle,
             .prepare = depth_figures,
             .needs = LayerTrait::tokens,
             .smallest = {240, 120}},
    PlotKind{.id = "state_size",
             .title = "State size",
             .about = "Bytes of the state against a key-value cache, and where they cross.",
             .analyses = theory,
             .subtitle = theory_subtitle,
             .prepare = state_size_figures,
             .needs = LayerTrait::koopman_heads,
             .smallest = {240, 170},
             .former_id = "memory"},
    PlotKind{.id = "trajectory",
             .title = "Trajectory",
             .about = "The path of training in its first three modes; a click goes back there.",
             .analyses = trace,
             .subtitle = trajectory_subtitle,
             .prepare = trajectory_figures,
             .smallest = {250, 190}},
    PlotKind{.id = "kl_spectrum",
             .title = "K-L spectrum",
             .about = "How few modes hold the path of training, by both strategies.",
             .analyses = trace,
             .subtitle = kl_spectrum_subtitle,
             .prepare = kl_spectrum_figures,
             .smallest = {170, 150}},
    PlotKind{.id = "temporal_modes",
             .title = "Temporal modes",
             .about = "The first modes of training over its steps.",
             .analyses = trace,
             .subtitle = temporal_modes_subtitle,
             .prepare = temporal_modes_figures,
             .smallest = {250, 150}},
    PlotKind{.id = "forecast",
             .title = "Forecast",
             .about = "Input, truth and prediction of a window, channel by channel.",
             .analyses = trace,
             .subtitle = forecast_subtitle,
             .prepare = forecast_figures,
             .needs = LayerTrait::series,
             .smallest = {215, 130}},
    PlotKind{.id = "memory_tokens",
             .title = "Memory tokens",
             .about = "What the memory of training reads in a window, and who reads it.",
             .analyses = trace,
             .subtitle = memory_tokens_subtitle,
             .prepare = memory_tokens_figures,
             .needs = LayerTrait::training_memory,
             .smallest = {195, 140}},
    PlotKind{.id = "phase_map",
             .title = "Phase map",
             .about = "What trainings over two settings come to, from coarse to fine; a click opens one.",
             .analyses = static_cast<AnalysisSet>(Analysis::phase_map),
             .subtitle = phase_map_subtitle,
             .prepare = phase_map_figures,
             .smallest = {260, 200}},
};

}  // namespace

std::span<const PlotKind> plot_kinds() { return kinds; }

bool fits(const PlotKind& kind, const ModelSummary& model) {
  const LayerTrait whole = model.is_forecaster ? LayerTrait::series : LayerTrait::tokens;
  return model.layers.empty() || kind.needs == LayerTraits() || kind.needs.overlaps(whole) ||
         std::ranges::any_of(model.layers, [&](const LayerSummary& layer) { return shows(layer.kind, kind.needs); });
}

std::string why_not(const PlotKind& kind) {
  return kind.needs == LayerTraits() ? "" : "Needs " + words_for(kind.needs) + ".";
}

const PlotKind* find_plot_kind(std::string_view id) {
  for (const PlotKind& kind : kinds) {
    if (kind.id == id || (!id.empty() && kind.former_id == id)) return &kind;
  }
  return nullptr;
}

std::string_view present_id(std::string_view name) {
  const PlotKind* kind = find_plot_kind(name);
  return kind ? kind->id : name;
}

AnalysisSet analyses_for(std::string_view plot) {
  const PlotKind* kind = find_plot_kind(plot);
  return kind ? kind->analyses : all_analyses;
}

std::string provenance_of(const Observation& o) {
  std::string line = o.preset.empty() ? "afterglow" : o.preset;
  line += " · seed " + std::to_string(o.seed) + " · step " + std::to_string(o.step);
  if (!o.checksum.empty() && o.checksum_step == o.step) line += " · " + o.checksum;
  // "CPU, 2 threads": a figure is the same for any number of them.
  if (!o.device.empty()) line += " · " + o.device.substr(0, o.device.find(", "));
  return line;
}

namespace {

/// The recipe with what is shown of it, which the window goes to when the figure is opened. As text: the recipe is long
/// and figures are prepared often.
std::string carried_recipe(const std::string& recipe, const PlotKind& kind, const Figure& figure,
                           const Selection& selection) {
  if (!recipe.ends_with('}')) return recipe;
  return recipe.substr(0, recipe.size() - 1) + (recipe.size() > 2 ? "," : "") + R"("view":{"panel":")" +
         std::string(kind.id) + R"(","plot":")" + figure.id + R"(","selection":)" + selection_value(selection) + "}}";
}

/// The step at which the oldest of the analyses was made that a plot shows.
std::int64_t step_of(const PlotKind& kind, const Observation& o) {
  std::int64_t step = o.step;
  const auto made = [&](Analysis of, const auto& view) {
    if (has(kind.analyses, of) && view) step = std::min(step, view->step);
  };
  made(Analysis::spectra, o.spectra);
  made(Analysis::trace, o.trace);
  made(Analysis::solvers, o.solvers);
  made(Analysis::influence, o.influence);
  made(Analysis::race, o.race);
  made(Analysis::probe, o.probe);
  made(Analysis::theory, o.theory);
  return step;
}

/// "Koopman spectrum · layer 1 ska, head 0 · step 460": what, of what, when.
std::string heading_of(const PlotKind& kind, const Figure& figure, const Observation& observation) {
  std::string heading(kind.title);
  const auto add = [&](const std::string& part) {
    if (!part.empty() && part != kind.title) heading += " · " + part;
  };
  if (figure.title != figure.subject) add(figure.title);
  if (!kind.needs_model) return heading;
  add(figure.subject.empty() ? observation.preset : figure.subject);
  add("step " + grouped_number(step_of(kind, observation)));
  return heading;
}

}  // namespace

std::vector<Figure> prepared_figures(const PlotKind& kind, const Observation& observation, const Selection& selection,
                                     CurveStore& curves) {
  std::vector<Figure> figures = kind.prepare(observation, selection, curves);
  for (Figure& figure : figures) {
    figure.recipe = carried_recipe(observation.recipe, kind, figure, selection);
    figure.provenance = provenance_of(observation);
    figure.heading = heading_of(kind, figure, observation);
  }
  return figures;
}

}  // namespace afterglow
