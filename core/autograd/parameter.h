// Named weights in one flat buffer: value, gradient and both AdamW moments of every parameter lie at the same offset,
// so that the optimiser, a snapshot and a checksum each see a single array.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/backend/backend.h"

namespace afterglow {

class Random;

/// Start values of a parameter.
struct Initialiser {
  /// Shape as given to `add`.
  std::function<void(Random& random, const Shape& shape, std::span<double> values)> fill;
  /// 32-bit words of the sequence that each value takes, where it depends on nothing else: a stretch of the values may
  /// then be filled from its own place in the sequence on. 0: all values together.
  int words_each = 0;
};

struct Parameter {
  std::string name;  ///< as in PyTorch: "layers.1.ska.k_proj.weight"
  Shape shape;
  Tensor value, gradient;
  int index = 0;
  std::int64_t offset = 0;  ///< first element in the flat buffers
  bool decay = false;       ///< whether weight decay acts
  /// Whether only projections and the embedding read it, in whole vectors: by PyTorch's names a matrix called weight.
  bool is_projection = false;
  bool is_narrow = false;  ///< its value is stored as bfloat16
  Initialiser initialise;
};

class ParameterStore : Immovable {
 public:
  ParameterStore() = default;
  ~ParameterStore();

  /// Declares a parameter; before `allocate`. Weight decay applies to matrices, not to vectors and scalars. Names must
  /// be unique.
  Parameter& add(const std::string& name, const Shape& shape, Initialiser initialise);
  /// Reserves the flat buffers, all zero, and memory for rounded values: what `allocate_values` has left out, or all.
  void allocate(Backend& backend, DType dtype);
  /// Before any memory is reserved: projections for which this answers true are stored as bfloat16, for a device that
  /// `reads_narrow_weights`. Such a store cannot be trained.
  void store_narrow(const std::function<bool(const Parameter&)>& wanted);
  bool is_narrow() const;  ///< whether some are
  /// Reserves the values alone, for a model that is not trained or not yet: there are no gradients and no moments.
  void allocate_values(Backend& backend, DType dtype);
  /// Start values: a pure function of (seed, parameter name).
  void initialise(std::uint64_t seed);

  std::deque<Parameter>& all() { return parameters_; }
  const std::deque<Parameter>& all() const { return parameters_; }
  Parameter* find(const std::string& name);
  std::int64_t count() const;                   ///< number of weights, padding not counted
  std::int64_t value_bytes(DType dtype) const;  ///< of all values in `dtype`, but those that are stored narrow

  Backend& backend() const { return *backend_; }
  DType dtype() const { return values_.dtype; }
  Tensor values() const { return values_; }  ///< flat; where some are narrow, the memory of all values
  Tensor gradients() const { return gradients_; }
  Tensor first_moments() const { return first_moments_; }
  Tensor second_moments() const { return second_moments_; }
  Tensor decay_mask() const { return decay_mask_; }
  Tensor rounded() const { return rounded_; }  ///< memory for `HeldWeights`

  /// Writes host values into one parameter, rounded to its type, and reads them back.
  void upload(const Parameter& parameter, std::span<const double> values);
  std::vector<double> download(const Tensor& tensor) const;

 private:
  std::int64_t padded_count() const;
  std::deque<Parameter> parameters_;  // addresses stay valid while layers hold them
  Backend* backend_ = nullptr;
  Tensor values_, gradients_, first_moments_, second_moments_, decay_mask_, rounded_;
};

/// While it lives, its owner queues no kernel and no transfer that writes the store's weights: kernels may read them
/// early, and projections multiply them rounded all at once where the back end rounds them at all.
class HeldWeights : Immovable {
 public:
  explicit HeldWeights(const ParameterStore& store) : store_(&store) {
    store.backend().hold_weights(store.values(), store.rounded());
  }
  ~HeldWeights() { store_->backend().release_weights(); }

 private:
  const ParameterStore* store_;
};

/// Adds parameters under a common name prefix: scope("layers.0") + add("norm.weight") = "layers.0.norm.weight".
class ParameterScope {
 public:
  ParameterScope(ParameterStore& store, std::string prefix) : store_(&store), prefix_(std::move(prefix)) {}
  Parameter& add(const std::string& name, const Shape& shape, Initialiser initialise) const {
    return store_->add(prefix_.empty() ? name : prefix_ + "." + name, shape, std::move(initialise));
  }
  ParameterScope scope(const std::string& name) const {
    return {*store_, prefix_.empty() ? name : prefix_ + "." + name};
  }
  const std::string& prefix() const { return prefix_; }

 private:
  ParameterStore* store_;
  std::string prefix_;
};

// Start values.
Initialiser zeros();
Initialiser constant(double value);
/// Uniform in +-1/sqrt(fan_in), fan_in the product of all axes but the first: PyTorch's default for a linear map.
Initialiser fan_in_uniform();
Initialiser normal(double standard_deviation);
/// Rows (or columns, where there are fewer) orthonormal.
Initialiser orthogonal();
Initialiser uniform(double low, double high);
/// log of a uniform number: Mamba's A_log with A in [low, high].
Initialiser log_of_uniform(double low, double high);
/// inverse softplus of a log-uniform time step in [low, high]: Mamba's dt_bias.
Initialiser time_step_bias(double low, double high);

}  // namespace afterglow
