// Plots and cards of interventions: patching, memory replacement, ablation, read-outs.
#include <array>

#include "core/figure/axis.h"
#include "views/figures/inspection/causes_figures.h"
#include "views/plots/families.h"
#include "views/plots/followed_number.h"

namespace afterglow {

namespace {

std::string patch_numbers(const Observation& o, const Selection&) {
  if (!o.patch) return "";
  const PairView& pair = o.patch->pair;
  return std::string(name_of(pair.measure)) + ": clean " + number_text(pair.clean_measure, 3) + ", corrupted " +
         number_text(pair.corrupted_measure, 3) + ", control " + number_text(o.patch->control, 3);
}

std::string transplant_numbers(const Observation& o, const Selection& selection) {
  return o.transplant ? transplant_subtitle(o, selection) : "";
}

std::string ablation_numbers(const Observation& o, const Selection& selection) {
  return o.ablation ? ablation_subtitle(o, selection) : "";
}

constexpr std::array causes_rows{
    PlotKind{
        .id = "patch",
        .title = "Patch",
        .about =
            "Shows which layer carries the answer at which token: a corrupted run gets one value of the clean run.",
        .analyses = set_of(Analysis::patch),
        .subtitle = patch_subtitle,
        .prepare = patch_figures,
        .needs = LayerTrait::tokens,
        .smallest = {320, 150},
        .followed = followed_patch},
    PlotKind{.id = "transplant",
             .title = "Transplant",
             .about = "Puts the memory of one sequence into another, whole or in parts, and shows the answer.",
             .analyses = set_of(Analysis::transplant),
             .subtitle = transplant_subtitle,
             .prepare = transplant_figures,
             .needs = LayerTrait::tokens,
             .smallest = {150, 120},
             .followed = followed_transplant},
    PlotKind{.id = "readout",
             .title = "What the state holds",
             .about = "Shows which values a trained read-out finds in the memory after each token, compared with "
                      "shuffled labels.",
             .analyses = set_of(Analysis::readout),
             .subtitle = readout_subtitle,
             .prepare = readout_figures,
             .needs = LayerTrait::tokens,
             .smallest = {240, 150},
             .followed = followed_readout},
    PlotKind{.id = "logit_lens",
             .title = "Logit lens",
             .about = "Shows what the model would answer if it ended after each layer.",
             .analyses = set_of(Analysis::logit_lens),
             .subtitle = logit_lens_subtitle,
             .prepare = logit_lens_figures,
             .needs = LayerTrait::tokens,
             .smallest = {240, 150},
             .followed = followed_lens},
    PlotKind{.id = "ablation",
             .title = "Ablation",
             .about = "Shows the accuracy lost when a block, head, mode or memory token is switched off.",
             .analyses = set_of(Analysis::ablation),
             .subtitle = ablation_subtitle,
             .prepare = ablation_figures,
             .needs = LayerTrait::tokens,
             .smallest = {240, 150},
             .followed = followed_ablation},
};

constexpr CardNumbers causes_numbers[] = {{"patch", patch_numbers},           {"share_restored", patch_numbers},
                                          {"patch_path", patch_numbers},      {"patch_memory", patch_numbers},
                                          {"transplant", transplant_numbers}, {"ablation", ablation_numbers}};

}  // namespace

PlotFamily causes_plots() { return {causes_rows, causes_numbers}; }

}  // namespace afterglow
