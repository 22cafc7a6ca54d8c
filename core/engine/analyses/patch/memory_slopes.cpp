// Records the steps, and sums the products by tensor and head.
#include "core/engine/analyses/patch/memory_slopes.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/engine/causes/hook_passes.h"
#include "core/engine/training/inspected_example.h"
#include "core/engine/training/pinned_array.h"
#include "core/layers/host_values.h"
#include "core/models/step_program.h"

namespace afterglow {
namespace {

constexpr std::int64_t max_state_numbers = std::int64_t{24} << 20;  ///< of one sequence, all tokens together

}  // namespace

/// Memory tokens have no step of their own.
bool MemorySlopes::can_be_recorded(std::int64_t tokens) const {
  std::int64_t bytes = 0;
  for (const Branch& branch : model_->branches()) bytes += branch.layer->state_bytes(dtype_, tokens);
  const bool is_small = bytes / static_cast<std::int64_t>(size_of(dtype_)) * tokens <= max_state_numbers;
  return is_small && model_->places() == 0 && std::ranges::all_of(model_->branches(), [](const Branch& branch) {
           return branch.layer->records_as_stepped();
         });
}

void MemorySlopes::read(const SequencePair& pair) {
  branches_.clear();
  if (pair.asked == 0 || !can_be_recorded(pair.asked)) return;
  branches_.resize(model_->branches().size());
  find_slopes(pair);
  step_both(pair);
}

void MemorySlopes::find_slopes(const SequencePair& pair) {
  const std::vector<std::int32_t> tokens(pair.corrupted.tokens.begin(), pair.corrupted.tokens.begin() + pair.asked + 1);
  const auto length = static_cast<std::int64_t>(tokens.size());
  std::vector<HookedVars> hooked(branches_.size());
  tape_->begin(true);
  tape_->set_frozen(true);
  const Var embedded = model_->embed(*tape_, uploaded(*tape_, {1, length}, DType::i32, tokens.data()));
  const Var logits = model_->forward_with(*tape_, tape_->input(embedded.value), 0, [&](std::size_t i, const Var& in) {
    const TapeObserver observer(*tape_, {.values = true},
                                [&](const Hooked& at) { hooked[i].insert_or_assign(std::string(at.last), at.var); });
    return model_->branches()[i].layer->forward_as_stepped(*tape_, in);
  });
  std::vector<double> upstream(static_cast<std::size_t>(logits.value.elements()), 0.0);
  const std::vector<double> asked = measure_gradient(pair, rows_of_logits(*tape_, logits.value, pair.asked)[0]);
  std::ranges::copy(asked, upstream.end() - static_cast<std::ptrdiff_t>(asked.size()));
  tape_->backward(logits, to_device(*tape_, logits.shape(), dtype_, upstream));
  for (std::size_t b = 0; b < branches_.size(); ++b) {
    for (StateSlope& slope : model_->branches()[b].layer->state_slopes(*tape_, hooked[b]))
      branches_[b][slope.tensor].slope = std::move(slope.values);
  }
  tape_->set_frozen(false);
}

namespace {

void to_doubles(const PinnedArray& array, std::vector<double>& numbers) {
  const auto copy = [&](const auto* from) { std::copy_n(from, numbers.size(), numbers.begin()); };
  array.device().dtype == DType::f64 ? copy(array.host<double>()) : copy(array.host<float>());
}

}  // namespace

std::int64_t MemorySlopes::lay_out(const ModelState& state) {
  for (std::size_t b = 0; b < branches_.size(); ++b) {
    const auto heads = model_->branches()[b].layer->heads();
    for (auto& [name, held] : branches_[b])
      held.parts = holds_heads(state.layers[b].get(name), heads) ? static_cast<std::size_t>(heads) : 1;
  }
  std::int64_t numbers = 0;
  for_each_known(state, [&](const Tensor& tensor, HeldTensor&) { numbers += tensor.elements(); });
  return numbers;
}

/// Steps both sequences together and multiplies the difference of their states by the gradients. Each token is a
/// recorded graph that copies the states to the host.
void MemorySlopes::step_both(const SequencePair& pair) {
  Backend& backend = tape_->backend();
  ModelState state = model_->make_state(backend, dtype_, 2);
  const std::int64_t columns = lay_out(state);
  PinnedArray tokens(backend, {2, 1}, DType::i32), row(backend, {1, columns}, dtype_);
  std::vector<double> states(static_cast<std::size_t>(columns));
  const auto take_token = [&](int token) {
    tokens.host<std::int32_t>()[0] = pair.clean.tokens[static_cast<std::size_t>(token)];
    tokens.host<std::int32_t>()[1] = pair.corrupted.tokens[static_cast<std::size_t>(token)];
  };
  StepProgram step(*tape_, state, [&] {
    tokens.queue_upload();
    tape_->begin(false);
    model_->advance(*tape_, tokens.device(), state);
    std::int64_t column = 0;
    for_each_known(state, [&](const Tensor& tensor, HeldTensor&) {
      const std::int64_t count = tensor.elements();
      backend.copy(row.device().column_range(std::exchange(column, column + count), count),
                   tensor.reshaped({1, count}));
    });
    row.queue_download();
  });
  for (int t = 0; t < pair.asked; ++t) {
    take_token(t);
    step.run();
    backend.synchronize();
    to_doubles(row, states);
    carry(state, states, static_cast<std::size_t>(t));
  }
  take_token(pair.asked);
  tokens.queue_upload();
  tape_->begin(false);
  const auto logits = rows_of_logits(*tape_, model_->step(*tape_, tokens.device(), state).value, 0);
  reach_ = measured(pair, logits[0]) - measured(pair, logits[1]);
  for (HeldTensors& tensors : branches_) {
    for (auto& [name, held] : tensors) held.slope = {};
  }
}

/// Calls use(tensor, held) for every state tensor with gradients. Their sizes are fixed; growing caches have none.
template <class Use>
void MemorySlopes::for_each_known(const ModelState& state, const Use& use) {
  for (std::size_t b = 0; b < branches_.size(); ++b) {
    for (const auto& [name, tensor] : state.layers[b].tensors()) {
      if (const auto known = branches_[b].find(name); known != branches_[b].end()) use(tensor, known->second);
    }
  }
}

/// `states`: all these tensors after the token, concatenated, each first of the clean and then of the corrupted
/// sequence.
void MemorySlopes::carry(const ModelState& state, const std::vector<double>& states, std::size_t token) {
  const double* clean = states.data();
  for_each_known(state, [&](const Tensor& tensor, HeldTensor& held) {
    const std::size_t numbers = static_cast<std::size_t>(tensor.elements()) / 2, width = numbers / held.parts;
    const double *corrupted = clean + numbers, *slope = held.slope.data() + token * numbers;
    for (std::size_t part = 0; part < held.parts; ++part) {
      double sum = 0;
      for (std::size_t i = part * width; i < (part + 1) * width; ++i) sum += (clean[i] - corrupted[i]) * slope[i];
      held.carried.push_back(sum);
    }
    clean += 2 * numbers;
  });
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
