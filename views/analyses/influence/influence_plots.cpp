// Plots and cards of influence over the lag, the memory race, routing and deep profiles.
#include "views/analyses/influence/influence_figures.h"
#include "views/figures/studies/paper_figures.h"
#include "views/plots/families.h"

namespace afterglow {

namespace {

constexpr PlotRow influence_rows[] = {
    {"influence", set_of(Analysis::influence), LayerTrait::tokens, influence_subtitle, influence_figures},
    {"race", set_of(Analysis::race), LayerTrait::tokens, race_subtitle, race_figures},
    {"routing", set_of(Analysis::influence), LayerTrait::tokens, routing_subtitle, routing_figures},
    {"position_code", set_of(Analysis::influence), LayerTrait::feedback, position_code_subtitle, position_code_figures},
    {"deep_profiles", set_of(Analysis::influence), LayerTrait::feedback, deep_profiles_subtitle, deep_profiles_figures},
    {"selective_retrieval", set_of(Analysis::retrieval), LayerTrait::feedback, selective_retrieval_subtitle,
     selective_retrieval_figures},
    {"costs", set_of(Analysis::costs), {}, costs_subtitle, costs_figures},
};

}  // namespace

PlotFamily influence_plots() { return {influence_rows, {}}; }

}  // namespace afterglow
