// Steps, records, and keeps the products apart by tensor and head.
#include "core/engine/causes/memory_slopes.h"

#include <algorithm>
#include <limits>

#include "core/engine/causes/place_passes.h"
#include "core/layers/host_values.h"

namespace afterglow {

Tensor MemorySlopes::upload_tokens(const std::vector<std::int32_t>& values, const Shape& shape) const {
  const Tensor tensor = tape_->scratch(shape, DType::i32);
  tape_->backend().upload(tensor, values.data());
  return tensor;
}

namespace {
constexpr std::int64_t most_state_numbers = std::int64_t{24} << 20;  ///< of one sequence, all tokens together
}

/// The places of a memory of training have no token of their own.
bool MemorySlopes::can_be_recorded(std::int64_t tokens) const {
  std::int64_t bytes = 0;
  for (const Branch& branch : model_->branches()) bytes += branch.layer->state_bytes(dtype_, tokens);
  const bool is_small = bytes / static_cast<std::int64_t>(size_of(dtype_)) * tokens <= most_state_numbers;
  return is_small && model_->places() == 0 && std::ranges::all_of(model_->branches(), [](const Branch& branch) {
           return branch.layer->records_as_stepped();
         });
}

void MemorySlopes::read(const SequencePair& pair) {
  branches_.clear();
  if (pair.asked == 0 || !can_be_recorded(pair.asked)) return;
  branches_.resize(model_->branches().size());
  step_both(pair);
  reach_ = measured(pair, clean_logits_) - measured(pair, corrupted_logits_);
  find_slopes(pair);
}

/// Notes the difference of all states after every token.
void MemorySlopes::step_both(const SequencePair& pair) {
  ModelState state = model_->make_state(tape_->backend(), dtype_, 2);
  for (int t = 0; t <= pair.asked; ++t) {
    tape_->begin(false);
    const auto at = static_cast<std::size_t>(t);
    const Tensor tokens = upload_tokens({pair.clean.tokens[at], pair.corrupted.tokens[at]}, {2, 1});
    if (t == pair.asked) {
      const auto logits = rows_of_logits(*tape_, model_->step(*tape_, tokens, state).value, 0);
      clean_logits_ = logits[0];
      corrupted_logits_ = logits[1];
      return;
    }
    model_->advance(*tape_, tokens, state);
    for (std::size_t b = 0; b < branches_.size(); ++b) {
      const auto heads = model_->branches()[b].layer->heads();
      for (const auto& [name, tensor] : state.layers[b].tensors()) {
        const std::vector<double> both = to_host(tape_->backend(), tensor);
        HeldTensor& held = branches_[b][name];
        held.numbers = both.size() / 2;
        held.parts = holds_heads(tensor, heads) ? static_cast<std::size_t>(heads) : 1;
        for (std::size_t i = 0; i < held.numbers; ++i) held.change.push_back(both[i] - both[held.numbers + i]);
      }
    }
  }
}

void MemorySlopes::take_sums(HeldTensor& held, const std::vector<double>& slope) {
  const std::size_t width = held.numbers / held.parts;
  held.carried.assign(held.change.size() / width, 0.0);
  for (std::size_t i = 0; i < held.change.size(); ++i) held.carried[i / width] += held.change[i] * slope[i];
  held.change = {};
}

void MemorySlopes::find_slopes(const SequencePair& pair) {
  const std::vector<std::int32_t> tokens(pair.corrupted.tokens.begin(), pair.corrupted.tokens.begin() + pair.asked + 1);
  const auto length = static_cast<std::int64_t>(tokens.size());
  std::vector<NotedVars> noted(branches_.size());
  tape_->begin(true);
  tape_->set_frozen(true);
  const Var embedded = model_->embed(*tape_, upload_tokens(tokens, {1, length}));
  const Var logits = model_->forward_with(*tape_, tape_->input(embedded.value), 0, [&](std::size_t i, const Var& in) {
    return model_->branches()[i].layer->forward_as_stepped(*tape_, in, noted[i]);
  });
  std::vector<double> upstream(static_cast<std::size_t>(logits.value.elements()), 0.0);
  const std::vector<double> asked = measure_gradient(pair, corrupted_logits_);
  std::ranges::copy(asked, upstream.end() - static_cast<std::ptrdiff_t>(asked.size()));
  tape_->backward(logits, to_device(*tape_, logits.shape(), dtype_, upstream));
  for (std::size_t b = 0; b < branches_.size(); ++b) {
    HeldTensors known;
    for (StateSlope& slope : model_->branches()[b].layer->state_slopes(*tape_, noted[b])) {
      HeldTensor& held = known[slope.tensor];
      held = std::move(branches_[b].at(slope.tensor));
      take_sums(held, slope.values);
    }
    branches_[b] = std::move(known);
  }
  tape_->set_frozen(false);
}

double MemorySlopes::attributed(const StateCell& cell) const {
  if (reach_ == 0) return std::numeric_limits<double>::quiet_NaN();
  double sum = 0;
  for (const std::string& name : cell.tensors) {
    const HeldTensor& held = branches_[cell.branch].at(name);
    for (std::size_t part = 0; part < held.parts; ++part) {
      if (cell.head < 0 || held.parts == 1 || part == static_cast<std::size_t>(cell.head))
        sum += held.carried[static_cast<std::size_t>(cell.token) * held.parts + part];
    }
  }
  return sum / reach_;
}

}  // namespace afterglow
