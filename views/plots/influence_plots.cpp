// Plots and cards of influence over the lag, the memory race, routing and deep profiles.
#include <array>

#include "views/figures/influence/influence_figures.h"
#include "views/figures/studies/paper_figures.h"
#include "views/plots/families.h"

namespace afterglow {

namespace {

constexpr std::array influence_rows{
    PlotKind{.id = "influence",
             .title = "Influence tail",
             .about = "How the influence of a token fades with the lag, compared with theory.",
             .analyses = set_of(Analysis::influence),
             .subtitle = influence_subtitle,
             .prepare = influence_figures,
             .needs = LayerTrait::tokens,
             .smallest = {330, 250}},
    PlotKind{.id = "race",
             .title = "Memory race",
             .about = "Compares all layers on one input: how influence fades, recall of a planted token, state and "
                      "time per token.",
             .analyses = set_of(Analysis::race),
             .subtitle = race_subtitle,
             .prepare = race_figures,
             .needs = LayerTrait::tokens,
             .smallest = {250, 170}},
    PlotKind{.id = "routing",
             .title = "Routing",
             .about = "Which tokens a layer reads, over how many hops, and what it keeps.",
             .analyses = set_of(Analysis::influence),
             .subtitle = routing_subtitle,
             .prepare = routing_figures,
             .needs = LayerTrait::tokens,
             .smallest = {230, 170}},
    PlotKind{.id = "position_code",
             .title = "Position code",
             .about = "The position code that feedback writes without any position input.",
             .analyses = set_of(Analysis::influence),
             .subtitle = position_code_subtitle,
             .prepare = position_code_figures,
             .needs = LayerTrait::feedback},
    PlotKind{.id = "deep_profiles",
             .title = "Deep profiles",
             .about = "Influence that decays, stays or grows with the lag in stacks of 1, 2 and 3 blocks.",
             .analyses = set_of(Analysis::influence),
             .subtitle = deep_profiles_subtitle,
             .prepare = deep_profiles_figures,
             .needs = LayerTrait::feedback,
             .needs_model = false},
    PlotKind{.id = "selective_retrieval",
             .title = "Selective retrieval",
             .about = "A network with the weights of theorem 12's proof keeps one token; other stacks for comparison.",
             .analyses = set_of(Analysis::retrieval),
             .subtitle = selective_retrieval_subtitle,
             .prepare = selective_retrieval_figures,
             .needs = LayerTrait::feedback,
             .needs_model = false},
    PlotKind{
        .id = "costs",
        .title = "Cost of length",
        .about = "Time and memory of attention, Mamba-2 and SKA over the sequence length, measured on this machine.",
        .analyses = set_of(Analysis::costs),
        .subtitle = costs_subtitle,
        .prepare = costs_figures,
        .smallest = {250, 170},
        .needs_model = false},
};

}  // namespace

PlotFamily influence_plots() { return {influence_rows, {}}; }

}  // namespace afterglow
