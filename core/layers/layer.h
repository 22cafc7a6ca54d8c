// A layer: parameters, `forward` over a whole sequence, `step` for one token with an explicit state, and named
// captures. It is written once, in operations, and runs on every back end.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
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

  /// A zeroed tensor that belongs to the state.
  Tensor add(const std::string& name, const Shape& shape, DType dtype);
  /// Replaces a tensor by a longer one with the same beginning (a KV cache that grows).
  Tensor grow(const std::string& name, const Shape& shape);
  Tensor get(std::string_view name) const;
  const std::vector<std::pair<std::string, Tensor>>& tensors() const { return tensors_; }
  std::size_t bytes() const;
  std::int64_t position = 0;  ///< tokens seen
  /// The scale that a layer divides by stays what it is, also where a later token would change it (`ska`'s m, which
  /// Echo 3.2.1 freezes after the prompt). Of layers without one nothing changes.
  bool keeps_scale = false;
  /// It holds a cache, which is read up to its newest token: no two steps are alike.
  bool has_cache = false;

 private:
  void release_all();
  Backend* backend_;
  std::vector<std::pair<std::string, Tensor>> tensors_;
};

/// A number of a layer that may be changed while it runs, such as the power K or the ridge of `ska`.
struct LayerSetting {
  std::string key, label, meaning;
  double value = 0, minimum = 0, maximum = 0;
  bool logarithmic = false, integer = false;
};

/// The least time step, by which Mamba's layers can be kept from dwelling on a token.
LayerSetting step_floor_setting(double value);

/// What a layer noted of a pass that is recorded as stepped: values whose numbers and gradients say how the answer
/// depends on its memory.
class NotedVars {
 public:
  void add(std::string_view name, const Var& var) { vars_.emplace_back(name, var); }
  bool empty() const { return vars_.empty(); }
  /// In float64 on the host, contiguous; gradients after the reverse pass.
  std::vector<double> values(Tape& tape, std::string_view name) const;
  std::vector<double> gradient(Tape& tape, std::string_view name) const;

 private:
  const Var& get(std::string_view name) const;
  std::vector<std::pair<std::string, Var>> vars_;
};

/// Gradient with respect to a tensor of a layer's state after every token, [T, numbers of one sequence].
struct StateSlope {
  std::string tensor;  ///< as LayerState names it
  std::vector<double> values;
};

class Layer {
 public:
  virtual ~Layer() = default;
  virtual std::string_view kind() const = 0;
  /// 0 for a layer that has none.
  virtual std::int64_t heads() const { return 0; }
  /// Whether `forward` reads its input in one projection and nowhere else, `linear` or `linear_many` to multiples of
  /// eight columns or `linear_columns`, so that it may be `Storage::narrow`.
  virtual bool projects_once() const { return false; }
  /// Whether outputs depend on their own and earlier tokens alone.
  virtual bool is_causal() const { return true; }
  /// Whether a later token's value enters an output. A layer may read earlier values alone and still not be causal,
  /// where it divides by a scale of the whole sequence.
  virtual bool reads_later_tokens() const { return false; }
  /// x [B,T,d] -> [B,T,d]. `mask` u8 [B,T] or undefined: which positions are context (used by `ska` in masked mode).
  virtual Var forward(Tape& tape, const Var& x, const Tensor& mask) = 0;
  /// As `forward`, but with every token answered as `step` answers it, whatever the mode; `noted` takes what
  /// `state_slopes` reads. For attribution alone. Only where `records_as_stepped`.
  virtual Var forward_as_stepped(Tape& tape, const Var& x, NotedVars& noted);
  virtual bool records_as_stepped() const { return is_causal(); }
  /// After the reverse pass of one sequence: how its answer changes with the state after each token. Empty for a layer
  /// that cannot tell.
  virtual std::vector<StateSlope> state_slopes(Tape& tape, const NotedVars& noted) const;
  /// How many equal parts the columns of a place [B,T,columns] have, one a head; 1 where all heads share them.
  virtual std::int64_t heads_at(std::string_view /*place*/) const { return 1; }
  /// The empty state for a batch. Position-wise layers have none.
  virtual LayerState make_state(Backend& backend, DType dtype, std::int64_t batch) const;
  /// One token: x [B,1,d] -> [B,1,d], advancing the state.
  virtual Var step(Tape& tape, const Var& x, LayerState& state) = 0;
  /// Bytes of state that the recurrent form needs for one sequence after `tokens` tokens in `dtype`.
  virtual std::int64_t state_bytes(DType dtype, std::int64_t tokens) const;
  /// What may be changed live, with present values.
  virtual std::vector<LayerSetting> settings() const { return {}; }
  /// Changes a setting; the value has been checked against `settings()`. Acts from the next forward pass on.
  virtual void set(std::string_view /*key*/, double /*value*/) {}
};

}  // namespace afterglow
