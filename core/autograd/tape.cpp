// The tape's book-keeping: slots for values and gradients, nodes for the backward pass.
#include "core/autograd/tape.h"

#include <algorithm>

#include "core/io/error.h"

namespace afterglow {
namespace {
constexpr std::size_t closure_block_bytes = std::size_t{1} << 16;

/// Whether projections as wide as x would round it, or its gradient, to bfloat16.
bool rounds_to_bf16(const Backend& backend, const Tensor& x) {
  return backend.precision() == Precision::bf16 && backend.plan(RoundingCall{x, true}).kept > 0;
}
}  // namespace

Tape::Tape(Backend& backend, Arena& arena) : backend_(&backend), arena_(&arena) {}
Tape::~Tape() = default;

void Tape::begin(bool recording) {
  arena_->rewind();
  recording_ = recording;
  passing_ = false;  // a first time may have been broken off
  slots_.clear();
  nodes_.clear();
  std::ranges::fill(parameter_slots_, -1);
  closure_block_ = closure_offset_ = 0;
  scope_.clear();
  captures_.clear();
  has_host_work_ = false;
}

int Tape::new_slot(const Tensor& value, bool wanted) {
  Slot slot;
  slot.value = value;
  slot.wanted = wanted;
  slots_.push_back(slot);
  return static_cast<int>(slots_.size()) - 1;
}

Var Tape::constant(const Tensor& value) { return {new_slot(value, false), value}; }
Var Tape::input(const Tensor& value) { return {new_slot(value, recording_), value}; }

Var Tape::parameter(const Parameter& parameter) {
  const auto index = static_cast<std::size_t>(parameter.index);
  if (index >= parameter_slots_.size()) {
    parameter_slots_.resize(index + 1, -1);
    parameter_begins_.resize(index + 1, 0);
  }
  if (parameter_slots_[index] < 0) {
    parameter_begins_[index] = nodes_.size();
    parameter_slots_[index] = new_slot(parameter.value, recording_ && !frozen_);
    slots_.back().gradient = parameter.gradient;
  }
  return {parameter_slots_[index], parameter.value};
}

Var Tape::result(const Shape& shape, DType dtype, std::initializer_list<Var> inputs, std::int64_t row_stride) {
  bool wanted = false;
  for (const Var& input : inputs) wanted = wanted || wants_gradient(input);
  const Tensor value = arena_->allocate(shape, dtype, row_stride);
  const int id = new_slot(value, wanted);
  slots_[id].row_stride = row_stride;
  return {id, value};
}

void* Tape::closure_memory(std::size_t bytes) {
  bytes = (bytes + alignof(std::max_align_t) - 1) / alignof(std::max_align_t) * alignof(std::max_align_t);
  if (closure_offset_ + bytes > closure_block_bytes) {
    ++closure_block_;
    closure_offset_ = 0;
  }
  if (closure_block_ >= closure_blocks_.size())
    closure_blocks_.push_back(std::make_unique<std::byte[]>(closure_block_bytes));
  void* memory = closure_blocks_[closure_block_].get() + closure_offset_;
  closure_offset_ += bytes;
  return memory;
}

// A view's gradient is a part of its parent's buffer; the first request makes that buffer.
void Tape::make_buffer(int id) {
  Slot& slot = slots_[id];
  if (slot.borrowed) own_gradient(id);
  if (slot.gradient.defined()) return;
  if (slot.parent < 0) {
    slot.gradient = arena_->allocate(slot.value.shape, slot.value.dtype, slot.row_stride);
    return;
  }
  Slot& parent = slots_[slot.parent];
  make_buffer(slot.parent);
  if (parent.open_split != slot.first_part) close_split(slot.parent);
  const bool whole = slot.first_part < 0;
  slot.gradient = whole ? parent.gradient.reshaped(slot.value.shape)
                        : parent.gradient.column_range(slot.column, slot.value.columns());
  if (!whole && !parent.touched) {
    // Only a value with memory of its own is written part by part; a view of a view starts from zeros.
    if (parent.parent < 0) {
      parent.open_split = slot.first_part;
    } else {
      gradient_of({slot.parent, parent.value});
    }
  }
  slot.touched = parent.touched && parent.open_split < 0;
  parent.touched = true;
}

void Tape::own_gradient(int id) {
  const Tensor lent = give_back(id);
  backend_->copy(slots_[id].gradient, lent);
}

Tensor Tape::give_back(int id) {
  Slot& slot = slots_[id];
  const Tensor lent = slot.gradient;
  slot.gradient = arena_->allocate(slot.value.shape, slot.value.dtype, slot.row_stride);
  slot.narrow = {};
  slot.borrowed = false;
  return lent;
}

// Parts that no gradient reached must not leave garbage in the shared buffer.
void Tape::close_split(int id) {
  const int first = slots_[id].open_split;
  if (first < 0) return;
  for (int part = first; part <= slots_[first].last_part; ++part) gradient_of({part, slots_[part].value});
  slots_[id].open_split = -1;
}

void Tape::make_room_for_rounded(Var& result, bool bounded) {
  if (!recording_ || form_ == PassForm::unfused || result.value.dtype == DType::bf16) return;
  const std::int64_t count = backend_->plan(RoundingCall{result.value, bounded}).kept;
  if (count > 0) result.rounded = scratch({count}, result.value.dtype);
}

Var Tape::result_for_projections(const Var& x, std::initializer_list<Var> inputs, Storage stored) {
  const bool is_narrow = may_store_narrow(stored) && rounds_to_bf16(*backend_, x.value);
  Var y = result(x.shape(), is_narrow ? DType::bf16 : x.value.dtype, inputs);
  make_room_for_rounded(y, true);
  return y;
}

Grad Tape::gradient(const Var& var) {
  if (!wants_gradient(var)) return {};
  make_buffer(var.id);
  close_split(var.id);
  Slot& slot = slots_[var.id];
  slot.narrow = {};
  const Grad grad{slot.gradient, slot.touched};
  slot.touched = true;
  return grad;
}

Grad Tape::side_stream_gradient(const Var& var) {
  const Grad grad = gradient(var);
  if (grad.wanted()) {
    for (int id = var.id; id >= 0; id = slots_[id].parent) slots_[id].on_side_stream = true;
  }
  return grad;
}

BasedGrad Tape::gradient_onto(const Var& var) {
  if (!wants_gradient(var) || !slots_[var.id].borrowed) return {gradient(var), {}};
  const Tensor base = give_back(var.id);
  return {{slots_[var.id].gradient, false}, base};
}

BasedGrad Tape::whole_gradient_onto(const Var& var) {
  BasedGrad onto = gradient_onto(var);
  const bool is_whole = onto.grad.wanted() && !onto.grad.accumulate && onto.grad.tensor.contiguous();
  if (is_whole && rounds_to_bf16(*backend_, var.value))
    onto.narrow = slots_[var.id].narrow = scratch(var.shape(), DType::bf16);
  return onto;
}

void Tape::pass_gradient(const Var& var, const Tensor& source, const Tensor& narrow) {
  if (!wants_gradient(var)) return;
  Slot& slot = slots_[var.id];
  if (slot.gradient.defined() || slot.parent >= 0) {
    backend_->accumulate(source, gradient(var));
    return;
  }
  slot.gradient = source;
  slot.narrow = narrow;
  slot.touched = slot.borrowed = true;
}

Tensor Tape::upstream(const Var& var) {
  if (slots_[var.id].on_side_stream) backend_->join_side_stream();
  return gradient_of(var);
}

Tensor Tape::gradient_of(const Var& var) {
  if (slots_[var.id].borrowed) return slots_[var.id].gradient;
  make_buffer(var.id);
  close_split(var.id);
  Slot& slot = slots_[var.id];
  if (!slot.touched) backend_->fill(slot.gradient, 0.0);
  slot.touched = true;
  return slot.gradient;
}

void Tape::split_columns(const Var& x, std::span<const std::int64_t> widths, std::span<Var> parts) {
  const int first = static_cast<int>(slots_.size()), last = first + static_cast<int>(widths.size()) - 1;
  std::int64_t column = 0;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const Tensor view = x.value.column_range(column, widths[i]);
    parts[i] = {new_slot(view, wants_gradient(x)), view};
    Slot& slot = slots_.back();
    slot.parent = x.id;
    slot.column = column;
    slot.first_part = first;
    slot.last_part = last;
    column += widths[i];
  }
  if (column != x.value.columns())
    throw Error(ExitCode::failure, "the parts of a split cover ", column, " columns of ", x.shape().text());
  record("split_columns", x, [id = x.id](Tape& tape) { tape.close_split(id); });
}

Var Tape::reshape(const Var& x, const Shape& shape) {
  const Tensor view = x.value.reshaped(shape);
  const int id = new_slot(view, wants_gradient(x));
  slots_[id].parent = x.id;
  return {id, view};
}

// Gradients passed on without a copy may lie in an operation's scratch memory.
void Tape::recycle(const Arena::Mark& from, const Arena::Mark& to, int first_spent) {
  backend_->join_side_stream();
  for (int id = 0; id < first_spent; ++id) {
    if (slots_[id].borrowed && arena_->lies_between(slots_[id].gradient.data, from, to)) own_gradient(id);
  }
  arena_->recycle(from, to);
}

std::size_t Tape::finished_from(std::size_t known, std::size_t left) const {
  while (known > 0 && (parameter_slots_[known - 1] < 0 || parameter_begins_[known - 1] >= left)) --known;
  return known;
}

Tape::Moment Tape::now() const {
  return {arena_->now(), slots_.size(), nodes_.size(), closure_block_, closure_offset_};
}

void Tape::give_back(const Moment& then) {
  backend_->join_side_stream();
  arena_->go_back(then.memory);
}

// Gradients of the inputs are made before the moment to which the memory goes back. Parameters have their slots from
// the first time.
void Tape::compute_again(const Pair& inputs, const Pair& outputs,
                         const std::function<Pair(const Pair& inputs)>& compute) {
  std::array<Grad, 2> grads;
  std::array<Tensor, 2> arrived;
  for (std::size_t i = 0; i < 2; ++i) {
    grads[i] = gradient(inputs[i]);
    if (outputs[i].defined() && slots_[outputs[i].id].touched) arrived[i] = upstream(outputs[i]);
  }
  const Moment before = now();
  Pair again;
  for (std::size_t i = 0; i < 2; ++i) {
    if (!inputs[i].defined()) continue;
    again[i] = {new_slot(inputs[i].value, grads[i].wanted()), inputs[i].value};
    slots_.back().gradient = grads[i].tensor;
    slots_.back().touched = grads[i].accumulate;
  }
  const Pair computed = compute(again);
  for (std::size_t i = 0; i < 2; ++i) {
    if (arrived[i].defined()) pass_gradient(computed[i], arrived[i]);
  }
  for (std::size_t node = nodes_.size(); node-- > before.nodes;) flow_through(node);
  for (std::size_t i = 0; i < 2; ++i) {
    if (grads[i].wanted()) gradient_of(again[i]);  // zeros where none arrived
  }
  give_back(before);
  slots_.resize(before.slots);
  nodes_.resize(before.nodes);
  closure_block_ = before.closure_block;
  closure_offset_ = before.closure_offset;
}

void Tape::flow_through(std::size_t node) {
  const auto first = slots_.begin() + nodes_[node].first, end = slots_.begin() + nodes_[node].last + 1;
  const Node flowing = nodes_[node];  // what it computes again is recorded after it
  if (std::any_of(first, end, [](const Slot& slot) { return slot.touched; })) flowing.backward(flowing.closure, *this);
}

void Tape::backward(const Var& output, const Tensor& upstream_gradient, std::size_t recycle_from,
                    const Finished& finished) {
  if (!recording_)
    throw Error(ExitCode::failure, "backward needs a recorded forward pass: begin the tape with recording on");
  pass_gradient(output, upstream_gradient);
  Arena::Mark spent = arena_->mark();
  std::size_t known = parameter_slots_.size();
  for (std::size_t left = nodes_.size(); left-- > 0;) {
    flow_through(left);
    if (const std::size_t from = finished ? finished_from(known, left) : known; from < known)
      finished(static_cast<int>(known = from));
    if (recycle_from == 0 || left == 0 || arena_->bytes_between(nodes_[left - 1].end, spent) < recycle_from) continue;
    recycle(nodes_[left - 1].end, spent, nodes_[left].first);
    spent = nodes_[left - 1].end;
  }
  backend_->join_side_stream();
}

void Tape::zero_untouched(ParameterStore& store, int first, int end) {
  const std::size_t last = end < 0 ? store.all().size() : static_cast<std::size_t>(end);
  for (auto index = static_cast<std::size_t>(first); index < last; ++index) {
    const int slot = index < parameter_slots_.size() ? parameter_slots_[index] : -1;
    if (slot < 0 || !slots_[slot].touched) backend_->fill(store.all()[index].gradient, 0.0);
  }
}

Tape::Scope::Scope(Tape& tape, std::string_view name) : tape_(&tape), length_(tape.scope_.size()) {
  if (length_ > 0) tape.scope_ += '.';
  tape.scope_ += name;
}
Tape::Scope::~Scope() { tape_->scope_.resize(length_); }

std::string Tape::full_name(std::string_view last) const {
  return scope_.empty() ? std::string(last) : scope_ + "." + std::string(last);
}

void Tape::show_to_observers(std::string_view name, const Var& value, bool Hooks::*kind) const {
  std::string full;
  for (const TapeObserver* observer : observers_) {
    if (!(observer->hooks_.*kind)) continue;
    if (full.empty()) full = full_name(name);
    if (full.starts_with(observer->hooks_.names)) observer->see_({full, name, value});
  }
}

bool Tape::wants(std::string_view statistic) const {
  return std::ranges::any_of(observers_, [&](const TapeObserver* observer) {
    return observer->hooks_.statistics && full_name(statistic).starts_with(observer->hooks_.names);
  });
}

void Tape::find_form() {
  form_ = PassForm::usual;
  for (const TapeObserver* observer : observers_) form_ = std::max(form_, observer->hooks_.form);
}

TapeObserver::TapeObserver(Tape& tape, Hooks hooks, See see)
    : tape_(&tape), hooks_(std::move(hooks)), see_(std::move(see)) {
  tape.observers_.push_back(this);
  tape.find_form();
}

TapeObserver::~TapeObserver() {
  std::erase(tape_->observers_, this);
  tape_->find_form();
}

Capturing::Capturing(Tape& tape, std::string names, PassForm form)
    : TapeObserver(tape, {.values = true, .statistics = true, .names = std::move(names), .form = form},
                   [&tape](const Hooked& at) {
                     tape.captures_.push_back({at.name, at.var.value});
                   }) {}

}  // namespace afterglow
