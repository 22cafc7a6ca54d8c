// The one list of plots: to add one, write its file pair and add its line here.
#include "views/figures/plot_kinds.h"

#include <array>

#include "views/figures/conditioning_figures.h"
#include "views/figures/depth_figures.h"
#include "views/figures/forecast_figures.h"
#include "views/figures/influence_figures.h"
#include "views/figures/power_filter_figures.h"
#include "views/figures/probe_figures.h"
#include "views/figures/solver_figures.h"
#include "views/figures/spectrum_figures.h"
#include "views/figures/stepper_figures.h"
#include "views/figures/theory_figures.h"
#include "views/figures/token_weights_figures.h"
#include "views/figures/training_figures.h"
#include "views/figures/trajectory_figures.h"

namespace afterglow {

namespace {

constexpr std::array kinds{
    PlotKind{"training", "Training", "Accuracy, loss, gradient norms and learning rate of every run.",
             training_subtitle, training_figures},
    PlotKind{"spectrum", "Koopman spectrum", "Eigenvalues of the layer's memory in the complex plane, with trails.",
             spectrum_subtitle, spectrum_figures},
    PlotKind{"power_filter", "Power filter", "What raising the operator to the power K leaves of each mode.",
             power_filter_subtitle, power_filter_figures},
    PlotKind{"stepper", "Stepper", "The recurrent state token by token, and what it answers.", stepper_subtitle,
             stepper_figures},
    PlotKind{"conditioning", "Conditioning", "How close the Gram matrix comes to what each precision can solve.",
             conditioning_subtitle, conditioning_figures},
    PlotKind{"token_weights", "Token weights", "Which tokens each token reads, as if every layer were attention.",
             token_weights_subtitle, token_weights_figures},
    PlotKind{"solver_race", "Solver race",
             "Residuals of five solvers in four arithmetics, beside what theory promises.", solver_race_subtitle,
             solver_race_figures},
    PlotKind{"gate", "Gate", "How far back each head's memory reaches, token by token.", gate_subtitle, gate_figures},
    PlotKind{"gradient_check", "Gradient check", "Implicit and unrolled gradients of a solve against the exact one.",
             gradient_check_subtitle, gradient_check_figures},
    PlotKind{"influence", "Influence tail", "How the influence of a token fades with the lag, beside theory.",
             influence_subtitle, influence_figures},
    PlotKind{"race", "Memory race",
             "All layers on one input: tails, recall of a planted token, state and time per token.", race_subtitle,
             race_figures},
    PlotKind{"routing", "Routing", "What a layer reads, over how many hops, and what it keeps.", routing_subtitle,
             routing_figures},
    PlotKind{"position_code", "Position code", "The positions that a feedback writes by itself.",
             position_code_subtitle, position_code_figures},
    PlotKind{"deep_profiles", "Deep profiles", "Decaying, frozen and increasing influence of 1, 2 and 3 blocks.",
             deep_profiles_subtitle, deep_profiles_figures},
    PlotKind{"probe", "Probe", "What a sequence is answered, which tokens speak for it, and what overrides change.",
             probe_subtitle, probe_figures},
    PlotKind{"perturbation", "Perturbation",
             "What noise in the statistics does to operator and eigenvalues, with bounds.", theory_subtitle,
             perturbation_figures},
    PlotKind{"filter_theory", "Filter, in theory", "Norms of the powers, what the filter costs, and when it helps.",
             theory_subtitle, filter_theory_figures},
    PlotKind{"linear_gap", "Linear attention", "How far linear attention is from ridge retrieval, with the bound.",
             theory_subtitle, linear_gap_figures},
    PlotKind{"query_jacobian", "Query Jacobian", "How the answer moves with its query, with the bounds.",
             theory_subtitle, query_jacobian_figures},
    PlotKind{"gradient_depth", "Gradient by depth",
             "Norms of the loss' gradient in front of every layer, with the bounds over depth.", depth_subtitle,
             depth_figures},
    PlotKind{"memory", "Memory", "Bytes of the state against a key-value cache, and where they cross.", theory_subtitle,
             memory_figures},
    PlotKind{"trajectory", "Trajectory", "The path of training in its first three modes; a click goes back there.",
             trajectory_subtitle, trajectory_figures},
    PlotKind{"kl_spectrum", "K-L spectrum", "How few modes hold the path of training, by both strategies.",
             kl_spectrum_subtitle, kl_spectrum_figures},
    PlotKind{"temporal_modes", "Temporal modes", "The first modes of training over its steps.", temporal_modes_subtitle,
             temporal_modes_figures},
    PlotKind{"forecast", "Forecast", "Input, truth and prediction of a window, channel by channel.", forecast_subtitle,
             forecast_figures},
    PlotKind{"memory_tokens", "Memory tokens", "What the memory of training reads in a window, and who reads it.",
             memory_tokens_subtitle, memory_tokens_figures},
};

}  // namespace

std::span<const PlotKind> plot_kinds() { return kinds; }

const PlotKind* find_plot_kind(std::string_view id) {
  for (const PlotKind& kind : kinds) {
    if (kind.id == id) return &kind;
  }
  return nullptr;
}

std::string provenance_of(const Observation& o) {
  std::string line = o.preset.empty() ? "afterglow" : o.preset;
  line += " · seed " + std::to_string(o.seed) + " · step " + std::to_string(o.step);
  if (!o.checksum.empty() && o.checksum_step == o.step) line += " · " + o.checksum;
  if (!o.device.empty()) line += " · " + o.device;
  return line;
}

std::vector<Figure> prepared_figures(const PlotKind& kind, const Observation& observation, const Selection& selection,
                                     CurveStore& curves) {
  std::vector<Figure> figures = kind.prepare(observation, selection, curves);
  for (Figure& figure : figures) {
    figure.recipe = observation.recipe;
    figure.provenance = provenance_of(observation);
  }
  return figures;
}

}  // namespace afterglow
