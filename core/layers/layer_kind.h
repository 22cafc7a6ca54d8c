// The descriptor of a kind of layer: all that the rest of the program knows about it. Each is at the end of the layer's
// own file; registry.cpp lists them. No code outside of this folder compares the name of a kind.
#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/layers/captured_layer.h"
#include "core/layers/layer.h"
#include "core/layers/layer_traits.h"

namespace afterglow {

/// Sizes of a small layer: d = heads * head_width.
struct SmallSizes {
  std::int64_t width = 0, heads = 1, head_width = 0;
};

/// One row of `afterglow bench`: forward and backward on x [batch, length, d].
struct LayerBenchmark {
  const char* config;  ///< JSON, with its width
  std::int64_t batch = 1, length = 1;
  const char* variant = "";  ///< distinguishes rows of equal sizes: "prefix"
};

/// What is known about a kind without making a layer.
struct LayerKind {
  std::string name, description;
  std::string source{};      ///< the paper with its section, or the library's class with the parameters' names
  bool mixes_tokens = true;  ///< false: position-wise (an MLP)
  std::unique_ptr<Layer> (*make)(const nlohmann::json& config, const ParameterScope& parameters) = nullptr;
  /// The configuration for races and tests.
  nlohmann::json (*small_config)(const SmallSizes& sizes) = nullptr;
  bool whole_block = false;       ///< whether it has its own norm and residual
  bool reads_embedding = false;   ///< a whole block whose input in a model is [x, embedding], 2d columns
  std::string width_field = "d";  ///< the field of its configuration that a model fills with its width
  int ink = quiet_ink;            ///< its colour
  int race_place = 0;             ///< default column in the memory race, from 1; 0: only when chosen
  LayerReaders readers{};
  LayerTraits shows{};  ///< in addition to what the readers show
  /// Products of all channels over the pairs of tokens of which one attends to the other, forward and backward; 0 where
  /// the cost of a token does not grow with the sequence. For counts of operations.
  double pair_products = 0;
  std::vector<LayerBenchmark> benchmarks{};
};

/// `make` of a kind: the layer with its configuration read from JSON.
template <class Kind, class Config>
std::unique_ptr<Layer> make_read(const nlohmann::json& config, const ParameterScope& parameters) {
  return std::make_unique<Kind>(Config(config), parameters);
}

/// Every layer there is, in the order of the documentation; `shows` is complete.
const std::vector<LayerKind>& layer_kinds();
/// The kind of this name, or null.
const LayerKind* find_layer_kind(std::string_view name);
/// The readers of layers of this kind; all null for a part that is not a layer.
const LayerReaders& readers_of(std::string_view kind);
/// Whether layers of this kind mix tokens.
bool mixes_tokens(std::string_view kind);
/// The small configuration for `width` channels in heads of 16 (one head where 16 does not divide).
nlohmann::json small_layer_config(const LayerKind& kind, std::int64_t width);
/// Makes a layer of `kind` with the configuration of tests/golden/README.md ({"d":.., "H":.., ..}); an unknown kind,
/// missing field or impossible value is an Error that names the field.
std::unique_ptr<Layer> make_layer(std::string_view kind, const nlohmann::json& config,
                                  const ParameterScope& parameters);

}  // namespace afterglow
