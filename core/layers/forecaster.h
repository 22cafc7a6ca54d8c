// Models that read a window of several channels and predict its continuation: the Transformer encoder with memory
// tokens (Spectral Memory 3.5, the official KLMemory) and DLinear, two linear maps.
#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/layers/layer_traits.h"
#include "core/layers/spectral_memory.h"

namespace afterglow {

/// Results of a forward pass of a forecaster.
struct ForecastPass {
  Var y;                 ///< [B,P,C]
  Tensor memory_tokens;  ///< [M,d]; undefined without memory
  Tensor summary;        ///< [1,d]: the summary of the batch for the history, also where the layer keeps no history
};

/// A named range of the parameters for displays; it ends where the next one begins.
struct ForecasterPart {
  std::string label, scope, kind, detail;
  int heads = 0;
  std::string first_parameter;
};

class Forecaster {
 public:
  virtual ~Forecaster() = default;
  /// x [B,L,C] -> [B,P,C]. `dropped` gives the masks of dropout; a default one switches it off.
  virtual ForecastPass forward(Tape& tape, const Var& x, const DropoutSource& dropped) = 0;
  virtual SpectralMemory* memory() { return nullptr; }
  virtual std::int64_t width() const = 0;  ///< d of the summary
  virtual double dropout_rate() const { return 0.0; }
  virtual std::vector<ForecasterPart> parts() const = 0;
};

/// {"kind": "spectral_memory" | "dlinear", ..} for windows of `length` rows and `channels` columns, `horizon` rows
/// ahead. spectral_memory: the fields of tests/golden/README.md with their published defaults; `memory_tokens` 0 leaves
/// the memory out. dlinear: `moving_average` (odd). Throws Error(bad_input) that names the field.
std::unique_ptr<Forecaster> make_forecaster(const nlohmann::json& config, std::int64_t length, std::int64_t horizon,
                                            std::int64_t channels, const ParameterScope& parameters);
/// Whether a model configuration describes a forecaster.
bool is_forecaster(const nlohmann::json& model);
/// Traits of parts of a forecaster that are not layers: a memory of training, the maps of DLinear.
LayerTraits traits_of_part(std::string_view kind);

}  // namespace afterglow
