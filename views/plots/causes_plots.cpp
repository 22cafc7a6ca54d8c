// Plots and cards of interventions: what is put in, what is switched off, what is read on the way.
#include <array>

#include "core/figure/axis.h"
#include "views/figures/probing/causes_figures.h"
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
        .about = "Which place, at which token, carries the answer: a corrupted run with one value of the clean one.",
        .analyses = set_of(Analysis::patch),
        .subtitle = patch_subtitle,
        .prepare = patch_figures,
        .needs = LayerTrait::tokens,
        .smallest = {320, 150},
        .followed = followed_patch},
    PlotKind{.id = "transplant",
             .title = "Transplant",
             .about = "The memory of one sequence put into another, whole or by part, and what that one then answers.",
             .analyses = set_of(Analysis::transplant),
             .subtitle = transplant_subtitle,
             .prepare = transplant_figures,
             .needs = LayerTrait::tokens,
             .smallest = {150, 120},
             .followed = followed_transplant},
    PlotKind{
        .id = "readout",
        .title = "What the state holds",
        .about = "Which values a ridge read-out finds in the memory after each token, with shuffled labels beside.",
        .analyses = set_of(Analysis::readout),
        .subtitle = readout_subtitle,
        .prepare = readout_figures,
        .needs = LayerTrait::tokens,
        .smallest = {240, 150},
        .followed = followed_readout},
    PlotKind{.id = "logit_lens",
             .title = "Logit lens",
             .about = "What the model would answer if it ended at each depth.",
             .analyses = set_of(Analysis::logit_lens),
             .subtitle = logit_lens_subtitle,
             .prepare = logit_lens_figures,
             .needs = LayerTrait::tokens,
             .smallest = {240, 150},
             .followed = followed_lens},
    PlotKind{.id = "ablation",
             .title = "Ablation",
             .about = "Accuracy lost when a block, head, mode or memory token is switched off.",
             .analyses = set_of(Analysis::ablation),
             .subtitle = ablation_subtitle,
             .prepare = ablation_figures,
             .needs = LayerTrait::tokens,
             .smallest = {240, 150},
             .followed = followed_ablation},
};

constexpr std::array causes_cards{
    FormulaCard{
        "patch", "Patch", "(m_patched − m_corrupted)/(m_clean − m_corrupted)",
        "Share of the clean answer that comes back when one value of the clean run stands in the corrupted one. "
        "It says that the place is enough, not that it is needed: two places may carry the same, and a value "
        "from elsewhere may drive the model where it never is. Above 1 or below 0 happens.",
        "activation patching; Meng et al. 2022, Heimersheim and Nanda 2024", patch_numbers},
    FormulaCard{"share_restored",
                "Share restored",
                "(m_patched − m_corrupted)/(m_clean − m_corrupted)",
                "m: logit of the clean answer minus that of the corrupted one, or probability or loss of the clean "
                "answer. With a dot it is exact. Without one it is Σ (x_clean − x_corrupted) ∂m/∂x, from one reverse "
                "pass (the memory of delta rules, GKA, Sessa and attention: from two runs with 1/512 of the "
                "difference): right for small differences, wrong where "
                "a softmax or a gate is saturated.",
                "attribution patching; Nanda 2023",
                patch_numbers,
                {"share restored", "place"}},
    FormulaCard{
        "patch_path",
        "Paths from part to part",
        "x_B + (y_A clean − y_A corrupted) read by B alone",
        "Part B reads the stream with what part A adds in the clean run, and only B's own answer goes on; all else "
        "stays corrupted. To the head: what A says to the answer directly. Paths over several parts are in no cell, "
        "so the shares need not add up to 1.",
        "path patching; Wang et al. 2022, Goldowsky-Dill et al. 2023",
        patch_numbers,
        {"share along the path", "from", "to"}},
    FormulaCard{
        "patch_memory", "Memory after a token", "S_t ← S_t of the clean run",
        "The whole memory of a layer, or one tensor of its state, changes places after token t; all that "
        "follows is the corrupted run's own. In the recurrent form: an SKA layer that sees the whole sequence at "
        "once in training reads here what came before each token.",
        "this program's own", patch_numbers},
    FormulaCard{
        "transplant", "Transplant", "S_t ← S_t of the clean run",
        "The corrupted run goes on with the clean run's memory, all of it or a part. A part alone may not fit the "
        "others: C counted in the keys of one sequence, G of another.",
        "this program's own", transplant_numbers},
    FormulaCard{
        "ablation",
        "Ablation",
        "accuracy − accuracy without the part",
        "A block's output, a head's answer or a memory token becomes 0, a mode's eigenvalue leaves the operator. "
        "What is lost is needed, but a part with a double loses nothing, and 0 may be a value that the model has "
        "never seen.",
        "this program's own",
        ablation_numbers,
        {"accuracy lost", "part"}},
    FormulaCard{"readout",
                "What the state holds",
                "argmax W s_t,  W = Y Sᵀ (S Sᵀ + λI)⁻¹",
                "Sequences with the probe's keys and drawn values are read token by token; a ridge regression from the "
                "memory s_t to the value behind a key is fitted on 192 of them and asked of 64 others. High: it can be "
                "read linearly, not that the model reads it. In the row below, the same with shuffled labels: chance.",
                "Alain and Bengio 2016; Hewitt and Liang 2019",
                nullptr,
                {"held-out accuracy", "value behind the key"}},
    FormulaCard{"logit_lens",
                "Logit lens",
                "softmax(W norm(x_l))",
                "The model's last norm and head on the residual stream x_l in front of each part. Early streams may be "
                "written in another basis, so a low probability does not say that the answer is not there.",
                "nostalgebraist 2020",
                nullptr,
                {"depth"}}};

}  // namespace

PlotFamily causes_plots() { return {causes_rows, causes_cards}; }

}  // namespace afterglow
