// Names of files as the window names things.
#pragma once
#include <algorithm>
#include <string>

#include "core/engine/observation/observation.h"

namespace afterglow {

/// The name of a figure's file without its ending: its id, with the layer's label in place of its index, as in
/// "spectrum_1-ska_head0" for "spectrum_layer3_head0".
inline std::string file_stem(const std::string& id, const ModelSummary& model) {
  for (std::size_t layer = model.layers.size(); layer-- > 0;) {
    const std::string index = "layer" + std::to_string(layer);
    std::string label = model.layers[layer].label;
    std::ranges::replace(label, ' ', '-');
    if (const std::size_t at = id.find("_" + index); at != id.npos)
      return std::string(id).replace(at + 1, index.size(), label);
  }
  return id;
}

}  // namespace afterglow
