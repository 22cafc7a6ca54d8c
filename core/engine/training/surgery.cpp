// Computes each layer's inputs in float64, fits head by head, and writes the rows of the key projections.
#include "core/engine/training/surgery.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <map>
#include <nlohmann/json.hpp>

#include "core/analysis/koopman/mode_decomposition.h"
#include "core/analysis/koopman/spectrum_fit.h"
#include "core/analysis/linear_algebra/spectrum.h"
#include "core/engine/observation/mode_numbers.h"
#include "core/engine/training/inspected_example.h"
#include "core/engine/training/saved/model_copy.h"
#include "core/io/error.h"
#include "core/layers/host_values.h"
#include "core/layers/layer_kind.h"

namespace afterglow {
namespace {

using Complex = std::complex<double>;
using Weights = std::vector<std::pair<const Parameter*, std::vector<double>>>;

constexpr double tolerance = 1e-4;  ///< maximal distance to the targets, in float64
constexpr std::int64_t max_weights = 100'000'000;
constexpr const char* changes_keys =
    " squares, divides or weights each key by itself, which the fit of a projection does not know";
constexpr const char* has_angles = " learns angles; set theta and s in a snapshot instead";

/// Computes the operators' inputs on one sequence, layer by layer, in float64 on the processor.
class SequenceReader {
 public:
  SequenceReader(Trainer& trainer, const nlohmann::json& model, const Example& example)
      : backend_(make_cpu_backend()),
        arena_(*backend_),
        tape_(*backend_, arena_),
        copy_(model, trainer, *backend_, DType::f64),
        example_(example) {}

  /// The heads of a part with their present weights.
  KeyOperator keys_of(const ModelPart& part) {
    copy_.take();
    const auto branch = static_cast<std::size_t>(part.branch);
    KeyOperator keys;
    tape_.begin(false);
    const auto [tokens, context] = uploaded(tape_, example_);
    Model& model = copy_.model();
    model.forward_with(tape_, model.embed(tape_, tokens), 0, [&, mask = context](std::size_t i, const Var& x) {
      if (i == branch) {
        keys.inputs = to_host(*backend_, x.value);
        keys.width = static_cast<int>(x.shape().last());
      }
      return model.branches()[i].layer->forward(tape_, x, mask);
    });
    const Layer& layer = *model.branches()[branch].layer;
    const LayerReaders& readers = readers_of(layer.kind());
    const SkaHead head = readers.head(layer, *backend_, 0);
    keys.rank = head.rank;
    keys.ridge = head.ridge;
    HeldTokens held = readers.held(layer, example_.context);
    if (!held.is_linear) throw BadInput("surgery: ", part.label, changes_keys);
    keys.is_counted = std::move(held.counted);
    keys.is_measured = std::move(held.measured);
    return keys;
  }

 private:
  std::unique_ptr<Backend> backend_;
  Arena arena_;
  Tape tape_;
  ModelCopy copy_;
  const Example& example_;
};

std::vector<ModeEdit> moves_of(const HeadIntervention& head) {
  std::vector<ModeEdit> moves;
  for (const auto& [mode, edit] : head.modes) {
    if (edit.moved_to) moves.push_back(edit);
  }
  return moves;
}

/// Names the moved modes by their index in the list of eigenvalues.
void name_by_place(HeadIntervention& head, const std::vector<Complex>& eigenvalues, const NumberedModes& numbered) {
  const std::vector<int> numbers = track_modes(numbered, eigenvalues);
  HeadIntervention placed;
  for (ModeEdit move : moves_of(head)) {
    if (move.is_number) move.mode = static_cast<int>(std::ranges::find(numbers, move.mode) - numbers.begin());
    move.is_number = false;
    placed.modes[{false, move.mode}] = move;
  }
  head = placed;
}

/// New rows of one head's key projection, and the eigenvalues that they were fitted to.
struct HeadFit {
  std::vector<double> rows;
  std::vector<Complex> target;
};

HeadFit fit_head(const KeyOperator& keys, std::span<const double> rows, const std::vector<ModeEdit>& moves,
                 const std::string& place) {
  const std::vector<Complex> now = eigenvalues(operator_of_keys(keys, rows), keys.rank);
  std::vector<Complex> target = edit_modes(now, moves).eigenvalues;
  SpectrumFit found = fit_spectrum(keys, rows, target);
  if (!(found.distance < tolerance)) {
    const std::string how = std::isfinite(found.distance) ? "come only within " + std::to_string(found.distance) + " of"
                                                          : "cannot be brought to";
    throw BadInput("surgery: the eigenvalues of ", place, " ", how,
                   " the positions they were dragged to. The keys of one sequence keep them inside the "
                   "unit circle, and a pair stays a pair; drag less far.");
  }
  return {std::move(found.projection), std::move(target)};
}

double distance_of(const KeyOperator& keys, std::span<const double> rows, const std::vector<Complex>& target) {
  const std::vector<Complex> now = eigenvalues(operator_of_keys(keys, rows), keys.rank);
  const std::vector<int> meant = nearest_of_each(target, now);
  double furthest = now.size() == target.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < meant.size(); ++i) {
    if (meant[i] >= 0) furthest = std::max(furthest, std::abs(now[static_cast<std::size_t>(meant[i])] - target[i]));
  }
  return furthest;
}

/// Fits the heads of one layer with moved eigenvalues and records the exact targets.
void operate_on_layer(ParameterStore& store, const Parameter& projection, const KeyOperator& keys,
                      const std::string& label, const std::map<int, NumberedModes>& numbered, LayerIntervention& layer,
                      double& distance) {
  std::vector<double> all = store.download(projection.value);
  const auto size = static_cast<std::size_t>(keys.rank) * static_cast<std::size_t>(keys.width);
  const auto rows_of = [&](int head) { return std::span(all).subspan(static_cast<std::size_t>(head) * size, size); };
  std::map<int, std::vector<Complex>> wanted;
  for (auto& [head, edits] : layer.heads) {
    if (moves_of(edits).empty()) continue;
    name_by_place(edits, eigenvalues(operator_of_keys(keys, rows_of(head)), keys.rank), numbered.at(head));
    const std::vector<ModeEdit> moves = moves_of(edits);
    const HeadFit fit = fit_head(keys, rows_of(head), moves, label + ", head " + std::to_string(head));
    std::ranges::copy(fit.rows, rows_of(head).begin());
    wanted[head] = fit.target;
    for (const ModeEdit& move : moves)
      edits.modes[{false, move.mode}].moved_to = fit.target[static_cast<std::size_t>(move.mode)];
  }
  store.upload(projection, all);
  all = store.download(projection.value);
  for (const auto& [head, target] : wanted) distance = std::max(distance, distance_of(keys, rows_of(head), target));
}

/// Eigenvalues that are parameters need no fit: sets gamma and omega of the moved pairs.
void write_pairs(Trainer& trainer, const ModelPart& part, LayerIntervention& layer, Weights& before) {
  ParameterStore& store = trainer.parameters();
  const Parameter &gamma = *store.find(part.scope + ".gamma"), &omega = *store.find(part.scope + ".omega");
  std::vector<double> re = store.download(gamma.value), im = store.download(omega.value);
  before.emplace_back(&gamma, re);
  before.emplace_back(&omega, im);
  const std::vector<Complex> now = readers_of(part.kind).spectrum(trainer.layer_of(part), trainer.backend(), 0);
  for (auto& [head, edits] : layer.heads) {
    const std::vector<ModeEdit> moves = moves_of(edits);
    const std::vector<Complex> target = edit_pairs(now, moves).eigenvalues;
    for (const ModeEdit& move : moves) {
      const auto i = static_cast<std::size_t>(move.mode);
      re[i] = target[i].real();
      im[i] = target[i].imag();
      edits.modes[{false, move.mode}].moved_to = target[i];
    }
  }
  store.upload(gamma, re);
  store.upload(omega, im);
}

}  // namespace

InspectionSetup parse_surgery(const nlohmann::json& value, const Trainer& trainer) {
  if (trainer.forecast() != nullptr)
    throw BadInput("surgery: a forecaster has no Koopman operator; choose a preset with an SKA layer");
  const InspectionSetup setup = parse_inspection_setup(value, intervention_targets(trainer));
  for (const auto& [part, layer] : setup.interventions.layers) {
    for (const auto& [head, edits] : layer.heads) {
      if (!moves_of(edits).empty()) return setup;
    }
  }
  throw BadInput(
      "surgery: no eigenvalue is moved; drag a dot of the Koopman spectrum first, or name "
      R"({"overrides": [{"name": "drag_mode", "value": {"number": 0, "re": 0.9}}]})");
}

SurgeryResult carry_out(Trainer& trainer, const nlohmann::json& model, const InspectionSetup& surgery,
                        const Spectra* numbered) {
  if (trainer.parameters().count() > max_weights)
    throw BadInput("surgery reads the model in float64, with at most 100 million weights; this one is larger");
  const Example example = inspected_example(surgery, trainer);
  SequenceReader reader(trainer, model, example);
  ParameterStore& store = trainer.parameters();
  Weights before;
  SurgeryResult result{surgery, 0};
  try {
    for (auto& [index, layer] : result.exact.interventions.layers) {
      const ModelPart& part = trainer.parts()[static_cast<std::size_t>(index)];
      if (std::ranges::all_of(layer.heads, [](const auto& head) { return moves_of(head.second).empty(); })) continue;
      if (shows(part.kind, LayerTrait::koopman_modes)) {
        if (!store.find(part.scope + ".gamma")) throw BadInput("surgery: ", part.label, has_angles);
        write_pairs(trainer, part, layer, before);
        continue;
      }
      const Parameter& projection = *store.find(part.scope + ".k_proj.weight");
      before.emplace_back(&projection, store.download(projection.value));
      std::map<int, NumberedModes> heads;
      for (const auto& [head, edits] : layer.heads) heads[head] = numbered_modes(numbered, index, head);
      operate_on_layer(store, projection, reader.keys_of(part), part.label, heads, layer, result.distance);
    }
  } catch (const Error&) {
    for (const auto& [projection, values] : before) store.upload(*projection, values);
    throw;
  }
  return result;
}

}  // namespace afterglow
