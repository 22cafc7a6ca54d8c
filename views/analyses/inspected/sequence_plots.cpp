// Plots and cards of token by token views: the recurrent state, token weights, the inspected sequence.
#include "views/analyses/inspected/inspection_figures.h"
#include "views/plots/families.h"

namespace afterglow {

namespace {

std::string inspected_numbers(const Observation& o, const Selection&) { return accuracy_change(o); }

constexpr PlotRow sequence_rows[] = {
    {"stepper", set_of(Analysis::trace), LayerTrait::tokens, stepper_subtitle, stepper_figures},
    {"inside", set_of(Analysis::trace), LayerTrait::ridge_systems | LayerTrait::feedback, inside_subtitle,
     inside_figures},
    {"token_spectrum", set_of(Analysis::trace), LayerTrait::koopman_heads, token_spectrum_subtitle,
     token_spectrum_figures},
    {"token_weights", set_of(Analysis::trace), LayerTrait::tokens, token_weights_subtitle, token_weights_figures},
    {"probe", Analysis::inspected | Analysis::spectra | Analysis::trace, LayerTrait::tokens, inspected_subtitle,
     inspection_figures},
};

constexpr CardNumbers sequence_numbers[] = {{"probe", inspected_numbers}, {"probe_answer", inspected_numbers}};

}  // namespace

PlotFamily sequence_plots() { return {sequence_rows, sequence_numbers}; }

}  // namespace afterglow
