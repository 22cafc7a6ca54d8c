// Plots and cards of interventions: patching, memory replacement, ablation, read-outs.
#include "core/figure/axis.h"
#include "views/analyses/causes/causes_figures.h"
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

constexpr PlotRow causes_rows[] = {
    {"patch", set_of(Analysis::patch), LayerTrait::tokens, patch_subtitle, patch_figures, followed_patch},
    {"transplant", set_of(Analysis::transplant), LayerTrait::tokens, transplant_subtitle, transplant_figures,
     followed_transplant},
    {"readout", set_of(Analysis::readout), LayerTrait::tokens, readout_subtitle, readout_figures, followed_readout},
    {"logit_lens", set_of(Analysis::logit_lens), LayerTrait::tokens, logit_lens_subtitle, logit_lens_figures,
     followed_lens},
    {"ablation", set_of(Analysis::ablation), LayerTrait::tokens, ablation_subtitle, ablation_figures,
     followed_ablation},
    {"mode_needs", Analysis::spectra | Analysis::ablation, LayerTrait::koopman_heads, ablation_subtitle,
     mode_needs_figures},
};

constexpr CardNumbers causes_numbers[] = {{"patch", patch_numbers},           {"share_restored", patch_numbers},
                                          {"patch_path", patch_numbers},      {"patch_memory", patch_numbers},
                                          {"transplant", transplant_numbers}, {"ablation", ablation_numbers}};

}  // namespace

PlotFamily causes_plots() { return {causes_rows, causes_numbers}; }

}  // namespace afterglow
