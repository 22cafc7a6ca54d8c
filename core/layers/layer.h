// A layer: parameters, `forward` over a whole sequence, `step` for one token with an explicit state, and named
// captures. A layer is a composition of operations, so it runs on every back end.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/autograd/tape.h"

namespace afterglow {

/// The memory that a recurrent layer carries from token to token: named tensors in the back end's memory.
class LayerState {
 public:
  explicit LayerState(Backend& backend) : backend_(&backend) {}
  ~LayerState();
  LayerState(LayerState&& other) noexcept;
  LayerState& operator=(LayerState&& other) noexcept;
  LayerState(const LayerState&) = delete;
  LayerState& operator=(const LayerState&) = delete;

  /// Adds a zeroed tensor to the state.
  Tensor add(const std::string& name, const Shape& shape, DType dtype);
  /// Replaces a tensor by a longer one with the same first elements (a KV cache that grows).
  Tensor grow(const std::string& name, const Shape& shape);
  Tensor get(std::string_view name) const;
  /// The same, undefined where the state has no such tensor.
  Tensor find(std::string_view name) const;
  const std::vector<std::pair<std::string, Tensor>>& tensors() const { return tensors_; }
  /// So many float64 numbers that follow from the tensors, kept so that a step need not compute them: zero until the
  /// layer writes them, undefined for none. A caller that changes a tensor must call `forget_derived`.
  Tensor derived(std::int64_t count);
  void forget_derived() { derived_.reset(); }
  /// Of the tensors, without what follows from them.
  std::size_t bytes() const;
  std::int64_t position = 0;  ///< tokens seen
  /// Freezes the scale that a layer divides by, also where a later token would change it (`ska`'s m, which Echo 3.2.1
  /// freezes after the prompt). It has no effect on layers without a scale.
  bool keeps_scale = false;
  /// It has a cache, which kernels read up to the newest token, so that every step has another size.
  bool has_cache = false;

 private:
  Backend* backend_;
  std::vector<std::pair<std::string, Tensor>> tensors_;
  std::unique_ptr<LayerState> derived_;
};

/// A tensor of a layer's state for one sequence; missing where an extent is 0.
struct StateTensor {
  std::string name;
  Shape shape;            ///< without the batch; of a cache for one token
  bool is_cache = false;  ///< it grows with every token: [B, capacity, ..], whose capacity doubles when it is full
};

/// A number or an enumerator that a setting changes, with its present value; all but a double are whole numbers.
struct LayerField {
  template <class Field>
  requires(std::is_arithmetic_v<Field> || std::is_enum_v<Field>) LayerField(Field& field)
      : value(static_cast<double>(field)),
        integer(!std::is_same_v<Field, double>),
        change([&field](double to) { field = static_cast<Field>(to); }) {}
  double value;
  bool integer;
  std::function<void(double)> change;
};

/// A number of a layer that may be changed while it runs, such as the power K or the ridge of `ska`.
struct LayerSetting {
  std::string key, label, meaning;
  LayerField field;
  double minimum = 0, maximum = 0;
  bool logarithmic = false;
};

/// The parameter, or an absent value where the configuration leaves it out (null).
Var optional_parameter(Tape& tape, const Parameter* parameter);

/// The weight of a norm: the parameter, or 1 + the parameter.
Var norm_weight(Tape& tape, const Parameter& weight, bool plus_one);

/// The smallest time step of Mamba's layers: a larger one makes every token fade the state.
LayerSetting step_floor_setting(double& floor);

/// Values that a layer hooked in `forward_as_stepped`, by the last part of their names: their numbers and gradients
/// show how the output depends on its memory.
using HookedVars = std::map<std::string, Var, std::less<>>;

/// Gradient with respect to a tensor of a layer's state after every token, [T, numbers of one sequence].
struct StateSlope {
  std::string tensor;  ///< its name in LayerState
  std::vector<double> values;
};

class Layer {
 public:
  virtual ~Layer() = default;
  /// A name of the list in registry.cpp, which `make_layer` gives it.
  std::string_view kind() const { return kind_; }
  void set_kind(std::string_view kind) { kind_ = kind; }
  /// 0 for a layer without heads.
  virtual std::int64_t heads() const { return 0; }
  /// Whether `forward` reads its input in one projection and nowhere else, `linear` or `linear_many` to multiples of
  /// eight columns or `linear_columns`, so that it may be `Storage::narrow`.
  virtual bool projects_once() const { return false; }
  /// Whether outputs depend on their own and earlier tokens alone.
  virtual bool is_causal() const { return true; }
  /// Whether the values of later tokens enter an output. A layer that reads earlier values only is still not causal
  /// where it divides by a scale of the whole sequence.
  virtual bool reads_later_tokens() const { return false; }
  /// x [B,T,d] -> [B,T,d]. `mask` u8 [B,T] or undefined: which positions are context (used by `ska` in masked mode).
  virtual Var forward(Tape& tape, const Var& x, const Tensor& mask) = 0;
  /// As `forward`, but in the recurrent form of `step` in every mode, with hooks at all that `state_slopes` reads. Used
  /// for attribution only, and only where `records_as_stepped`.
  virtual Var forward_as_stepped(Tape& tape, const Var& x);
  virtual bool records_as_stepped() const { return is_causal(); }
  /// After the backward pass of one sequence: the gradient with respect to the state after each token. Empty for a
  /// layer without this.
  virtual std::vector<StateSlope> state_slopes(Tape& tape, const HookedVars& hooked) const;
  /// Into how many equal parts, one per head, the columns of a hook point [B,T,columns] divide; 1 where heads share
  /// them.
  virtual std::int64_t heads_at(std::string_view /*place*/) const { return 1; }
  /// What the recurrent form carries from token to token; nothing in position-wise layers.
  virtual std::vector<StateTensor> state_parts() const { return {}; }
  /// The empty state for a batch.
  LayerState make_state(Backend& backend, DType dtype, std::int64_t batch) const;
  /// One token: x [B,1,d] -> [B,1,d], advancing the state. By default as `forward`, for position-wise layers.
  virtual Var step(Tape& tape, const Var& x, LayerState& state);
  /// The first tokens at once: x [B,T,d] -> [B,T,d] with the answers of `forward`; `state`, which must be new, is then
  /// the one after T steps. By default as `step`, for layers whose step accepts several tokens.
  virtual Var prefill(Tape& tape, const Var& x, const Tensor& mask, LayerState& state);
  /// Bytes of state that the recurrent form needs for one sequence after `tokens` tokens in `dtype`.
  std::int64_t state_bytes(DType dtype, std::int64_t tokens) const;
  /// Settings that may change during training, with present values.
  virtual std::vector<LayerSetting> settings() { return {}; }
  /// Changes a setting; callers check the value against `settings()`. It applies from the next forward pass on.
  void set(std::string_view key, double value);

 private:
  std::string_view kind_;
};

}  // namespace afterglow
