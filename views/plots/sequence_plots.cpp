// Plots and cards of token by token views: the recurrent state, token weights, the inspected sequence.
#include <array>

#include "views/figures/influence/token_weights_figures.h"
#include "views/figures/inspection/inspection_figures.h"
#include "views/figures/inspection/stepper_figures.h"
#include "views/plots/families.h"

namespace afterglow {

namespace {

std::string inspected_numbers(const Observation& o, const Selection&) { return accuracy_change(o); }

constexpr std::array sequence_rows{
    PlotKind{.id = "stepper",
             .title = "Stepper",
             .about = "The recurrent state token by token, and the model's answer.",
             .analyses = set_of(Analysis::trace),
             .subtitle = stepper_subtitle,
             .prepare = stepper_figures,
             .needs = LayerTrait::tokens,
             .smallest = {190, 150},
             .moves_tokens = true},
    PlotKind{.id = "inside",
             .title = "Inside one step",
             .about = "How one head processes one token, in at most eight pictures.",
             .analyses = set_of(Analysis::trace),
             .subtitle = inside_subtitle,
             .prepare = inside_figures,
             .needs = LayerTrait::ridge_systems | LayerTrait::feedback,
             .smallest = {150, 120},
             .moves_tokens = true,
             .steps_figures = true,
             .workspace = "stepper"},
    PlotKind{.id = "token_spectrum",
             .title = "Spectrum over the sequence",
             .about = "How the Koopman eigenvalues of one head form while the sequence is read, token by token.",
             .analyses = set_of(Analysis::trace),
             .subtitle = token_spectrum_subtitle,
             .prepare = token_spectrum_figures,
             .needs = LayerTrait::koopman_heads,
             .smallest = {150, 150},
             .moves_tokens = true},
    PlotKind{.id = "token_weights",
             .title = "Token weights",
             .about = "Which tokens each token reads, as if every layer were attention.",
             .analyses = set_of(Analysis::trace),
             .subtitle = token_weights_subtitle,
             .prepare = token_weights_figures,
             .needs = LayerTrait::tokens,
             .follows_inspected = true},
    PlotKind{.id = "probe",
             .title = "Inspected sequence",
             .about = "What the model answers on one sequence, which tokens contribute, and what interventions change.",
             .analyses = Analysis::inspected | Analysis::spectra | Analysis::trace,
             .subtitle = inspected_subtitle,
             .prepare = inspection_figures,
             .needs = LayerTrait::tokens,
             .smallest = {240, 150},
             .follows_inspected = true},
};

constexpr CardNumbers sequence_numbers[] = {{"probe", inspected_numbers}, {"probe_answer", inspected_numbers}};

}  // namespace

PlotFamily sequence_plots() { return {sequence_rows, sequence_numbers}; }

}  // namespace afterglow
