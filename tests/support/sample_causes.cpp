// One pair, of which the memory of the SKA layer carries the answer.
#include "tests/support/sample_causes.h"

#include <cmath>

#include "core/engine/analyses/forces/forces_view.h"
#include "core/engine/observation/causes_view.h"

namespace afterglow::samples {

namespace {

PairView pair_of(const Observation& o) {
  PairView pair;
  pair.clean = pair.corrupted = o.trace->tokens;
  pair.asked = static_cast<int>(pair.clean.size()) - 1;
  pair.changed = {4};
  pair.corrupted[4].label = "v4";
  pair.corrupted[4].id = 68;
  pair.clean_answer = pair.clean[4].id;
  pair.clean_label = pair.clean[4].label;
  pair.corrupted_answer = 68;
  pair.corrupted_label = "v4";
  pair.clean_probability = 0.998;
  pair.corrupted_probability = 0.997;
  pair.clean_measure = 9.1;
  pair.corrupted_measure = -8.7;
  return pair;
}

std::shared_ptr<PatchView> patch_of(const Observation& o) {
  auto view = std::make_shared<PatchView>();
  view->step = o.step;
  view->pair = pair_of(o);
  view->tokens = static_cast<int>(view->pair.clean.size());
  for (int layer = 1; layer + 1 < static_cast<int>(o.model.layers.size()); ++layer) {
    const std::string& part = o.model.layers[static_cast<std::size_t>(layer)].label;
    const std::string block = "blocks." + std::to_string((layer - 1) / 2);
    view->rows.push_back({layer, part + " residual", "stream", block + ".hook_resid_pre", PatchGroup::stream});
    view->rows.push_back({layer, part + " output", "output", block + ".hook_attn_out", PatchGroup::stream});
    if (layer % 2 == 0) continue;
    view->rows.push_back({layer, part + " keys", "keys", block + ".attn.hook_k", PatchGroup::inside});
    view->rows.push_back({layer, part + " values", "values", block + ".attn.hook_v", PatchGroup::inside});
    for (const char* memory : {"all", "C"})
      view->rows.push_back({layer, part + " " + memory, memory, block + ".attn.hook_state", PatchGroup::memory});
  }
  for (std::size_t row = 0; row < view->rows.size(); ++row) {
    for (int t = 0; t < view->tokens; ++t) {
      const double share = std::exp(-0.5 * std::abs(t - 4)) * std::cos(static_cast<double>(row));
      view->attributed.push_back(view->rows[row].group == PatchGroup::memory ? NAN : share);
      view->exact.push_back((t + static_cast<int>(row)) % 3 == 0 ? NAN : 0.9 * share);
      view->exact_cells += std::isfinite(view->exact.back()) ? 1 : 0;
    }
  }
  for (const LayerSummary& layer : o.model.layers) view->parts.push_back(layer.label);
  const std::size_t count = view->parts.size();
  for (std::size_t i = 0; i < count * count; ++i)
    view->paths.push_back(i / count < i % count ? std::sin(static_cast<double>(i)) : NAN);
  return view;
}

std::shared_ptr<AblationView> ablation_of(const Observation& o) {
  auto view = std::make_shared<AblationView>();
  view->step = o.step;
  view->examples = 64;
  view->accuracy = view->control_accuracy = 0.98;
  view->loss = 0.1;
  for (int i = 0; i < 20; ++i) {
    view->parts.push_back({"1 ska head " + std::to_string(i % 4) + " mode " + std::to_string(i), "mode", 3, i % 4, i,
                           0.2 + 0.04 * i, 3 - 0.1 * i});
  }
  for (const AblatedPart& part : view->parts) view->planned.push_back(part.name);
  view->planned.insert(view->planned.end(), {"0 mamba2", "0 swiglu", "1 ska", "1 swiglu"});
  return view;
}

std::shared_ptr<LogitLensView> lens_of(const Observation& o) {
  auto view = std::make_shared<LogitLensView>();
  view->step = o.step;
  view->pair = pair_of(o);
  view->tokens = static_cast<int>(view->pair.clean.size());
  view->depths = {"0 mamba2 in", "0 swiglu in", "1 ska in", "1 swiglu in", "out"};
  for (std::size_t d = 0; d < view->depths.size(); ++d) {
    view->hooks.push_back("blocks." + std::to_string(d / 2) + ".hook_resid_pre");
    view->best_labels.push_back(d < 3 ? "v9" : view->pair.clean_label);
    for (int t = 0; t < view->tokens; ++t) {
      view->answer.push_back(0.2 * static_cast<double>(d) * t / view->tokens);
      view->best.push_back(d < 3 ? 70 : view->pair.clean_answer);
      view->best_probability.push_back(0.05 + 0.18 * static_cast<double>(d));
    }
  }
  return view;
}

std::shared_ptr<ReadoutView> readout_of(const Observation& o) {
  auto view = std::make_shared<ReadoutView>();
  view->step = o.step;
  view->layer = 3;
  view->tokens = o.trace->tokens;
  view->keys = {"k17", "k1"};
  view->places = {2, 4};
  view->examples = 256;
  view->choices = 8;
  for (std::size_t key = 0; key < 2; ++key) {
    for (std::size_t t = 0; t < view->tokens.size(); ++t)
      view->accuracy.push_back(t + 4 > view->tokens.size() ? NAN : t < 2 + 2 * key ? 0.125 : 0.97);
  }
  view->shuffled.assign(view->tokens.size(), 0.125);
  return view;
}

std::shared_ptr<TransplantView> transplant_of(const Observation& o) {
  auto view = std::make_shared<TransplantView>();
  view->step = o.step;
  view->pair = pair_of(o);
  view->choice = {.layer = 3, .part = "C", .token = 9, .head = -1};
  view->layer = 3;
  view->token = 9;
  view->heads = 4;
  view->answers = {view->pair.clean_answer, 68, 70};
  view->labels = {view->pair.clean_label, "v4", "v6"};
  view->clean = {0.998, 0.001, 0.001};
  view->corrupted = {0.002, 0.997, 0.001};
  view->transplanted = {0.94, 0.05, 0.01};
  view->share = 0.93;
  for (const char* name : {"G", "M", "C"}) {
    StatePart part{name, 8, 8, {}, {}};
    for (int i = 0; i < 64; ++i) {
      part.clean.push_back(std::sin(0.7f * static_cast<float>(i)));
      part.corrupted.push_back(std::sin(0.7f * static_cast<float>(i) + 0.2f));
    }
    view->parts.push_back(std::move(part));
  }
  return view;
}

}  // namespace

namespace {

/// One mode of each head is defective.
std::shared_ptr<ForcesView> forces_of(const Observation& o) {
  auto view = std::make_shared<ForcesView>();
  view->step = o.step;
  view->loss = 0.4;
  view->gradient_norm = 1.7;
  view->weight_change = 0.02;
  for (const HeadSpectrum& head : o.spectra->heads) {
    HeadForces& forces = view->heads.emplace_back(HeadForces{head.layer, head.head, 2.1, 0.003});
    for (const std::complex<double>& value : head.eigenvalues) {
      const bool is_defective = forces.modes.size() == 4;
      const std::complex<double> by = 0.001 * value * std::complex<double>(1, static_cast<double>(head.head));
      const int number = head.identity[forces.modes.size()];
      forces.modes.push_back(
          {value, is_defective ? 3e8 : 1.5, number, is_defective, -by, by, !is_defective, value + 1.1 * by});
    }
  }
  return view;
}

}  // namespace

void add_causes(Observation& o) {
  if (o.spectra) o.forces = forces_of(o);
  o.patch = patch_of(o);
  o.ablation = ablation_of(o);
  o.logit_lens = lens_of(o);
  o.transplant = transplant_of(o);
  o.readout = readout_of(o);
}

}  // namespace afterglow::samples
