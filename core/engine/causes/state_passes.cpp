// Steps a batch: the first sequence is the clean one, all others are corrupted.
#include "core/engine/causes/state_passes.h"

#include <algorithm>

#include "core/engine/causes/hook_passes.h"
#include "core/engine/training/pinned_array.h"
#include "core/layers/host_values.h"
#include "core/models/step_program.h"

namespace afterglow {
namespace {
constexpr std::size_t matrix_rank = 4;  ///< [B, heads, rows, columns]

/// The numbers of one sequence, or of one of its heads if the tensor has heads.
Tensor part_of(const Tensor& tensor, std::int64_t row, int head, std::int64_t heads) {
  const Tensor own = tensor.at(row);
  const std::int64_t parts = head >= 0 && holds_heads(tensor, heads) ? heads : 1, width = own.elements() / parts;
  return own.reshaped({parts, width}).at(std::max(head, 0) % parts).reshaped({1, width});
}
}  // namespace

bool holds_heads(const Tensor& tensor, std::int64_t heads) {
  return heads > 0 && tensor.shape.rank() >= 2 && tensor.shape[1] == heads;
}

std::vector<StateParts> state_parts(const Layer& layer, Backend& backend, DType dtype) {
  const LayerState state = layer.make_state(backend, dtype, 1);
  StateParts all{"all", {}}, convolution{"convolution", {}, false};
  std::vector<StateParts> parts;
  for (const auto& [name, tensor] : state.tensors()) {
    all.tensors.push_back(name);
    all.has_heads = all.has_heads && holds_heads(tensor, layer.heads());
    if (name.find("convolution") != std::string::npos) {
      convolution.tensors.push_back(name);
    } else if (tensor.shape.rank() == matrix_rank) {
      parts.push_back({name, {name}, holds_heads(tensor, layer.heads())});
    }
  }
  if (all.tensors.empty()) return {};
  if (all.tensors.size() == 1) return {all};
  if (!convolution.tensors.empty()) parts.push_back(std::move(convolution));
  parts.insert(parts.begin(), std::move(all));
  return parts;
}

std::vector<StateParts> state_parts(const Trainer& trainer, int layer) {
  const auto& parts = trainer.parts();
  if (layer < 0 || layer >= static_cast<int>(parts.size()) || parts[static_cast<std::size_t>(layer)].branch < 0)
    return {};
  const auto branch = static_cast<std::size_t>(parts[static_cast<std::size_t>(layer)].branch);
  return state_parts(*trainer.model().branches()[branch].layer, trainer.backend(), trainer.dtype());
}

int layer_with_memory(const Trainer& trainer, int wanted) {
  if (!state_parts(trainer, wanted).empty()) return wanted;
  for (int layer = static_cast<int>(trainer.parts().size()) - 1; layer >= 0; --layer) {
    if (!state_parts(trainer, layer).empty()) return layer;
  }
  return -1;
}

/// `from` moved by `share` towards `to`.
Tensor StatePasses::between(const Tensor& from, const Tensor& to, double share) const {
  std::vector<double> numbers = to_host(tape_->backend(), from);
  const std::vector<double> there = to_host(tape_->backend(), to);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] += share * (there[i] - numbers[i]);
  return to_device(*tape_, to.shape, dtype_, numbers);
}

void StatePasses::put(ModelState& state, const StateCell& cell, std::int64_t row) const {
  const LayerState& own = state.layers[cell.branch];
  const std::int64_t heads = model_->branches()[cell.branch].layer->heads();
  for (const std::string& name : cell.tensors) {
    const Tensor tensor = own.get(name), target = part_of(tensor, row, cell.head, heads);
    const Tensor source = gathered(*tape_, part_of(tensor, cell.is_control ? row : 0, cell.head, heads));
    tape_->backend().copy(target, cell.share == 1 ? source : between(target, source, cell.share));
  }
}

std::vector<std::vector<double>> StatePasses::run(const SequencePair& pair, std::span<const StateCell> cells,
                                                  HeldHead* seen) const {
  const std::size_t rows = cells.size() + 2;
  ModelState state = model_->make_state(tape_->backend(), dtype_, static_cast<std::int64_t>(rows));
  Backend& backend = tape_->backend();
  PinnedArray tokens(backend, {static_cast<std::int64_t>(rows), 1}, DType::i32);
  StepProgram step(*tape_, state, [&] {
    tokens.queue_upload();
    tape_->begin(false);
    model_->advance(*tape_, tokens.device(), state);
  });
  std::vector<std::vector<double>> logits;
  for (int t = 0; t <= pair.asked; ++t) {
    auto* all = tokens.host<std::int32_t>();
    std::fill_n(all, rows, pair.corrupted.tokens[static_cast<std::size_t>(t)]);
    *all = pair.clean.tokens[static_cast<std::size_t>(t)];
    if (t == pair.asked) {
      tokens.queue_upload();
      tape_->begin(false);
      logits = rows_of_logits(*tape_, model_->step(*tape_, tokens.device(), state).value, 0);
    } else {
      step.run();
      backend.synchronize();  // the next token overwrites this one
    }
    if (seen && seen->token == t) read_matrices(state, *seen);
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (cells[i].token == t) put(state, cells[i], static_cast<std::int64_t>(i) + 2);
    }
    for (LayerState& layer : state.layers) layer.forget_derived();  // also without a cell: controls are zero
  }
  return logits;
}

void StatePasses::read_matrices(const ModelState& state, HeldHead& seen) const {
  for (const auto& [name, tensor] : state.layers[seen.branch].tensors()) {
    if (tensor.shape.rank() != matrix_rank || tensor.shape[1] != model_->branches()[seen.branch].layer->heads())
      continue;
    HeldMatrix matrix{
        name, static_cast<std::size_t>(tensor.shape[2]), static_cast<std::size_t>(tensor.shape[3]), {}, {}};
    matrix.clean = to_host(tape_->backend(), tensor.at(0).at(seen.head));
    matrix.corrupted = to_host(tape_->backend(), tensor.at(1).at(seen.head));
    seen.matrices.push_back(std::move(matrix));
  }
}

}  // namespace afterglow
