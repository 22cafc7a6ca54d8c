// The tape: values, the operations that made them, and the backward pass. An operation (core/ops) checks shapes, asks
// the tape for its result, calls the back end and records how its gradient is found. Nothing here allocates from the
// heap once the buffers have grown: closures and nodes live in reused memory.
#pragma once
#include <array>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/autograd/parameter.h"
#include "core/backend/arena.h"

namespace afterglow {

/// A value on the tape. Copies freely; valid until the tape begins anew.
struct Var {
  int id = -1;  ///< -1: absent
  Tensor value;
  Tensor rounded = {};  ///< what projections of the value multiply, where the operation that made it left that
  bool defined() const { return id >= 0; }
  const Shape& shape() const { return value.shape; }
};

/// A named intermediate value, for panels, `layer` files and tests: "layers.1.mixer.A_w". Rows may be strided.
struct Capture {
  std::string name;
  Tensor value;
};

/// A named value of a pass, as an observer sees it.
struct Hooked {
  const std::string& name;  ///< in full, "layers.1.ska.keys"
  std::string_view last;    ///< the part after the scope, "keys"
  const Var& var;           ///< of a statistic without an id
};

/// How a pass is computed while an observer is registered. Nothing else about an observer changes what is computed.
enum class PassForm {
  usual,    ///< as without observers, to the bit
  wide,     ///< no result is stored in bfloat16 (`Tape::may_store_narrow`)
  unfused,  ///< wide; and the stream before each norm is a value of its own, for all rows, no value is left rounded for
            ///< projections, and none is computed a second time instead of being held (`Tape::compute_twice`)
};

/// The hooks for which an observer registers, and the form of the pass that it asks for.
struct Hooks {
  bool values = false;      ///< what later operations read: where the tape does not record, it may be overwritten
  bool statistics = false;  ///< what layers compute for observers only
  bool operations = false;  ///< the result of every operation, whose last name is the operation's
  std::string names = {};   ///< how their full names begin
  PassForm form = PassForm::usual;
};

/// Where a gradient goes together with numbers to be added to it that lie elsewhere (undefined: none), and where it may
/// be left in bfloat16 as well, for projections that would round it (undefined: nowhere).
struct BasedGrad {
  Grad grad;
  Tensor base, narrow = {};
};

class TapeObserver;

class Tape : Immovable {
 public:
  Tape(Backend& backend, Arena& arena);
  ~Tape();

  /// Forgets everything and rewinds the arena. Without recording, values are computed and no gradient is possible.
  void begin(bool recording);

  /// With parameters frozen they are constants: a backward pass finds gradients of inputs alone and writes into no
  /// parameter's gradient. Holds until it is changed.
  void set_frozen(bool frozen) { frozen_ = frozen; }

  Backend& backend() const { return *backend_; }
  Arena& arena() const { return *arena_; }
  bool recording() const { return recording_; }

  // Leaves.
  Var constant(const Tensor& value);  ///< no gradient
  Var input(const Tensor& value);     ///< gradient wanted
  Var parameter(const Parameter& parameter);

  // For operations.
  /// A fresh result; its gradient is wanted when any of `inputs` wants one. With a `row_stride` its rows and those of
  /// its gradient lie so many elements apart: then it is to be split into columns.
  Var result(const Shape& shape, DType dtype, std::initializer_list<Var> inputs, std::int64_t row_stride = 0);
  Tensor scratch(const Shape& shape, DType dtype) { return arena_->allocate(shape, dtype); }
  /// Gives a result memory in which its operation leaves it for projections (`RoundingCall`), where that is
  /// of use; not in an unfused pass, where an observer may overwrite the result.
  void make_room_for_rounded(Var& result, bool bounded);
  /// A result as large as x and bounded, with such memory, or in bfloat16 alone where it may be stored so.
  Var result_for_projections(const Var& x, std::initializer_list<Var> inputs, Storage stored);
  /// Notes how the gradient of `output` flows on. `backward(Tape&)` is called once, after every use of `output`, unless
  /// no gradient reached it; it may capture trivially destructible values only (tensors, vars, numbers).
  template <class Backward>
  void record(const char* operation, const Var& output, Backward backward) {
    record(operation, std::span<const Var>(&output, 1), backward);
  }
  /// The same for several outputs, made one right after the other; `backward` is called if a gradient reached any.
  template <class Backward>
  void record(const char* operation, std::span<const Var> outputs, Backward backward);
  /// Gradient that arrived at a value; inside a backward function.
  Tensor upstream(const Var& var);
  /// The same in bfloat16, where the operation that wrote it left that; else undefined.
  Tensor narrow_upstream(const Var& var) const { return slots_[var.id].narrow; }
  /// Where the gradient of a value has to go; undefined when no gradient is wanted. Each call must be followed by
  /// exactly one write.
  Grad gradient(const Var& var);
  /// The same for a gradient that is computed on the side stream (`SideStream`), as those of weights are.
  Grad side_stream_gradient(const Var& var);
  /// The same for an operation that can add what has arrived so far to what it writes, so that no copy is made first.
  BasedGrad gradient_onto(const Var& var);
  /// The same for an operation after which nothing is added to the gradient.
  BasedGrad whole_gradient_onto(const Var& var);
  bool wants_gradient(const Var& var) const { return var.defined() && slots_[var.id].wanted; }
  /// Adds `source` to the gradient of `var`; no kernel may write `source` until the backward pass has ended. The tape
  /// does not copy the first gradient of a value: later kernels read it from `source`.
  /// `narrow`: the same numbers in bfloat16, or undefined.
  void pass_gradient(const Var& var, const Tensor& source, const Tensor& narrow = {});
  /// Views of adjacent column ranges that cover the last axis of x; gradients flow into one buffer without copies.
  void split_columns(const Var& x, std::span<const std::int64_t> widths, std::span<Var> parts);
  /// The same memory under another shape.
  Var reshape(const Var& x, const Shape& shape);

  /// One value or two: the second may be absent.
  using Pair = std::array<Var, 2>;
  /// Gradient checkpointing: the backward pass computes the values between `inputs` and `outputs` a second time, so the
  /// tape holds them only then: less memory for more time. `outputs` are results made for it, one right after the
  /// other; `compute(Tape&, const Pair& inputs)` returns their values and may read only `inputs`, parameters and what
  /// outlives the recording. It captures plain values only, as for `record`.
  template <class Compute>
  void compute_twice(const Pair& inputs, const Pair& outputs, Compute compute);

  /// Fills every gradient that `output` depends on, given d loss / d output (same shape). With `recycle_from`, memory
  /// of values goes to gradients as soon as so many bytes of values are no longer needed, since their gradients have
  /// flowed on: the caller may then read nothing of this recording but gradients of parameters and results of the side
  /// stream. The tape calls `finished(first)` whenever no remaining rule writes gradients of parameters from number
  /// `first` on, at last with 0; the device may still be computing them, on the main and on the side stream.
  using Finished = std::function<void(int first)>;
  void backward(const Var& output, const Tensor& upstream, std::size_t recycle_from = 0, const Finished& finished = {});
  /// Gradient of an input or parameter after `backward`; zero-filled where none arrived.
  Tensor gradient_of(const Var& var);
  /// Zeroes the gradients of parameters that this recording did not reach; of those from `first` to `end` (-1: of all).
  void zero_untouched(ParameterStore& store, int first = 0, int end = -1);

  // Names and hooks.
  class Scope : Immovable {
   public:
    Scope(Tape& tape, std::string_view name);
    ~Scope();

   private:
    Tape* tape_;
    std::size_t length_;
  };
  const std::string& scope() const { return scope_; }
  /// Notes that the current computation runs in part on the host, as some statistics do, so that no CUDA graph could
  /// repeat it.
  void note_host_work() { has_host_work_ = true; }
  /// Since the tape began.
  bool has_host_work() const { return has_host_work_; }
  /// Shows a value to the observers (`TapeObserver`) before later operations read it. They may keep it to read its
  /// gradient after `backward`, or overwrite it where the tape does not record.
  void hook(std::string_view name, const Var& value) { show(name, value, &Hooks::values); }
  /// Shows numbers that no operation reads. Where they cost time, layers compute them only if an observer `wants` them.
  void hook(std::string_view name, const Tensor& statistic) { show(name, {-1, statistic}, &Hooks::statistics); }
  /// Whether an observer has registered for this statistic of the scope.
  bool wants(std::string_view statistic) const;
  /// The most that an observer asks for.
  PassForm form() const { return form_; }
  /// Whether the back end may store a result that was asked for as `stored` in bfloat16.
  bool may_store_narrow(Storage stored) const {
    return stored == Storage::narrow && recording_ && form_ == PassForm::usual;
  }
  /// What `Capturing` has kept since the tape began.
  const std::vector<Capture>& captures() const { return captures_; }

 private:
  struct Slot {
    Tensor value, gradient;
    Tensor narrow;  // the gradient in bfloat16, while nothing is added to it
    bool wanted = false;
    bool touched = false;         // a gradient has been written
    bool on_side_stream = false;  // the gradient is computed on the side stream
    bool borrowed = false;        // `gradient` is another value's memory: to be copied before anything is added
    std::int64_t row_stride = 0;  // of memory for the gradient; 0: rows side by side
    // For views.
    int parent = -1;  // the slot whose gradient buffer this one shares
    std::int64_t column = 0;
    int first_part = -1, last_part = -1;  // all parts of the split that this one comes from; -1: a reshaped view
    // Of a value that is being written part by part: the first part of that split; -1 when its buffer is whole.
    int open_split = -1;
  };
  struct Node {
    const char* operation;
    int first, last;  // slots of the outputs
    void (*backward)(const void* closure, Tape& tape);
    const void* closure;
    Arena::Mark end;  // of what the operation and those before it have taken
  };
  /// What the tape and its arena hold at a moment.
  struct Moment {
    Arena::Moment memory;
    std::size_t slots, nodes, closure_block, closure_offset;
  };
  Moment now() const;
  /// Takes back all memory that was handed out since then.
  void give_back(const Moment& then);
  /// The second time: gradients of the outputs flow on to the inputs.
  void compute_again(const Pair& inputs, const Pair& outputs, const std::function<Pair(const Pair& inputs)>& compute);
  /// Calls the backward function of a node that a gradient has reached.
  void flow_through(std::size_t node);
  friend class TapeObserver;
  friend class Capturing;
  std::string full_name(std::string_view last) const;
  void show(std::string_view name, const Var& value, bool Hooks::*kind) {
    if (!observers_.empty()) show_to_observers(name, value, kind);
  }
  void show_to_observers(std::string_view name, const Var& value, bool Hooks::*kind) const;
  void find_form();
  int new_slot(const Tensor& value, bool wanted);
  void make_buffer(int id);
  void close_split(int id);
  void own_gradient(int id);
  /// What was taken between two marks is spent: gradients of values before `first_spent` that lie there move away.
  void recycle(const Arena::Mark& from, const Arena::Mark& to, int first_spent);
  /// The parameter from which on none is used by the first `left` nodes, where that holds from `known` on.
  std::size_t finished_from(std::size_t known, std::size_t left) const;
  /// Gives a borrowed gradient memory of its own, not yet written, and answers where its numbers lie.
  Tensor give_back(int id);
  void* closure_memory(std::size_t bytes);

  Backend* backend_;
  Arena* arena_;
  bool recording_ = false, passing_ = false, frozen_ = false, has_host_work_ = false;
  PassForm form_ = PassForm::usual;
  std::vector<Slot> slots_;
  std::vector<Node> nodes_;
  std::vector<int> parameter_slots_;
  std::vector<std::size_t> parameter_begins_;  // how many nodes there were when it came; none of them uses it
  std::vector<std::unique_ptr<std::byte[]>> closure_blocks_;
  std::size_t closure_block_ = 0, closure_offset_ = 0;
  std::string scope_;
  std::vector<Capture> captures_;
  std::vector<const TapeObserver*> observers_;
};

/// While it lives, the tape calls `see` at the hooks for which it registers, in the order of computation.
class TapeObserver : Immovable {
 public:
  using See = std::function<void(const Hooked&)>;
  TapeObserver(Tape& tape, Hooks hooks, See see);
  ~TapeObserver();

 private:
  friend class Tape;
  Tape* tape_;
  Hooks hooks_;
  See see_;
};

/// An observer of values and statistics that keeps them in the tape's `captures` until the tape begins anew.
class Capturing : public TapeObserver {
 public:
  explicit Capturing(Tape& tape, std::string names = {}, PassForm form = PassForm::usual);
};

template <class Backward>
void Tape::record(const char* operation, std::span<const Var> outputs, Backward backward) {
  static_assert(std::is_trivially_destructible_v<Backward>, "backward functions may capture only plain values");
  bool wanted = false;
  for (const Var& output : outputs) {
    show(operation, output, &Hooks::operations);
    wanted = wanted || slots_[output.id].wanted;
  }
  if (!recording_ || passing_ || !wanted) return;
  void* memory = closure_memory(sizeof(Backward));
  new (memory) Backward(backward);
  nodes_.push_back({operation, outputs.front().id, outputs.back().id,
                    [](const void* closure, Tape& tape) { (*static_cast<const Backward*>(closure))(tape); }, memory,
                    arena_->mark()});
}

template <class Compute>
void Tape::compute_twice(const Pair& inputs, const Pair& outputs, Compute compute) {
  const Moment before = now();
  passing_ = true;
  const Pair computed = compute(*this, inputs);
  passing_ = false;
  const std::size_t count = outputs[1].defined() ? 2 : 1;
  for (std::size_t i = 0; i < count; ++i) backend_->copy(outputs[i].value, computed[i].value);
  give_back(before);
  record("compute_twice", std::span(outputs).first(count), [inputs, outputs, compute](Tape& tape) {
    tape.compute_again(inputs, outputs, [&](const Pair& again) { return compute(tape, again); });
  });
}

}  // namespace afterglow
