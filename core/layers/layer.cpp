// The state of a recurrent layer, and the defaults of all layers.
#include "core/layers/layer.h"

#include <algorithm>

#include "core/io/error.h"
#include "core/io/named.h"
#include "core/ops/ops.h"

namespace afterglow {

LayerState::~LayerState() {
  for (const auto& [name, tensor] : tensors_) backend_->release(tensor.data);
}

LayerState::LayerState(LayerState&& other) noexcept = default;  // an empty list is left, which releases nothing

LayerState& LayerState::operator=(LayerState&& other) noexcept {
  if (this == &other) return *this;
  std::destroy_at(this);
  return *std::construct_at(this, std::move(other));
}

Tensor LayerState::add(const std::string& name, const Shape& shape, DType dtype) {
  const auto bytes = static_cast<std::size_t>(std::max<std::int64_t>(1, shape.elements())) * size_of(dtype);
  const Tensor tensor(backend_->allocate(bytes), shape, dtype);
  tensors_.emplace_back(name, tensor);
  backend_->fill(tensor, 0.0);
  return tensor;
}

Tensor LayerState::grow(const std::string& name, const Shape& shape) {
  const Tensor old = get(name), longer = add(name, shape, old.dtype);
  const std::int64_t sequences = shape[0];
  const Tensor from = old.reshaped({sequences, old.elements() / sequences});
  const Tensor to = longer.reshaped({sequences, longer.elements() / sequences}).column_range(0, from.columns());
  backend_->copy(to, from);
  backend_->synchronize();
  backend_->release(old.data);
  tensors_.pop_back();
  for (auto& [known, tensor] : tensors_) {
    if (known == name) tensor = longer;
  }
  return longer;
}

Tensor LayerState::find(std::string_view name) const {
  const auto* found = find_by(tensors_, name, [](const auto& one) { return std::string_view(one.first); });
  return found ? found->second : Tensor();
}

Tensor LayerState::get(std::string_view name) const {
  if (const Tensor tensor = find(name); tensor.defined()) return tensor;
  throw Error(ExitCode::failure, "the layer's state has no tensor ", name);
}

Tensor LayerState::derived(std::int64_t count) {
  if (count == 0) return {};
  if (derived_ == nullptr) {
    derived_ = std::make_unique<LayerState>(*backend_);
    derived_->add("derived", {count}, DType::f64);
  }
  return derived_->get("derived");
}

std::size_t LayerState::bytes() const {
  std::size_t total = 0;
  for (const auto& [name, tensor] : tensors_) total += tensor.bytes();
  return total;
}

Var optional_parameter(Tape& tape, const Parameter* parameter) {
  return parameter != nullptr ? tape.parameter(*parameter) : Var();
}

Var norm_weight(Tape& tape, const Parameter& weight, bool plus_one) {
  const Var own = tape.parameter(weight);
  if (!plus_one) return own;
  return add(tape, own, filled(tape, own.shape(), own.value.dtype, 1.0));
}

LayerSetting step_floor_setting(double& floor) {
  constexpr const char* meaning = "the least time step that a token may take; 0 lets every token choose";
  return {"dt_floor", "Step floor", meaning, floor, 0, std::max(1.0, floor)};
}

void Layer::set(std::string_view key, double value) {
  const std::vector<LayerSetting> all = settings();
  if (const LayerSetting* setting = find_by(all, key, &LayerSetting::key)) setting->field.change(value);
}

Var Layer::step(Tape& tape, const Var& x, LayerState& state) {
  state.position += x.shape()[1];
  return forward(tape, x, {});
}

Var Layer::prefill(Tape& tape, const Var& x, const Tensor&, LayerState& state) { return step(tape, x, state); }

LayerState Layer::make_state(Backend& backend, DType dtype, std::int64_t batch) const {
  constexpr std::int64_t first_cache_capacity = 64;
  LayerState state(backend);
  for (const StateTensor& part : state_parts()) {
    if (part.shape.elements() == 0) continue;
    std::vector<std::int64_t> extents = part.shape.extents();
    if (part.is_cache) extents.insert(extents.begin(), first_cache_capacity);
    extents.insert(extents.begin(), batch);
    state.add(part.name, Shape(extents), dtype);
  }
  return state;
}

std::int64_t Layer::state_bytes(DType dtype, std::int64_t tokens) const {
  std::int64_t numbers = 0;
  for (const StateTensor& part : state_parts()) numbers += part.shape.elements() * (part.is_cache ? tokens : 1);
  return numbers * static_cast<std::int64_t>(size_of(dtype));
}

Var Layer::forward_as_stepped(Tape& tape, const Var& x) { return forward(tape, x, {}); }

std::vector<StateSlope> Layer::state_slopes(Tape&, const HookedVars&) const { return {}; }

}  // namespace afterglow
