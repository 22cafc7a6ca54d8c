// Names of files as the window names things.
#pragma once
#include <cstdlib>
#include <string>

#include "core/engine/observation/observation.h"

namespace afterglow {

/// The name of a figure's file without its ending: its id, with the layer's label in place of its index, as in
/// "spectrum_1-ska_head0" for "spectrum_layer3_head0".
inline std::string file_stem(const std::string& id, const ModelSummary& model) {
  const std::string mark = "_layer";
  const std::size_t at = id.find(mark), begin = at + mark.size();
  if (at == id.npos || begin >= id.size()) return id;
  char* end = nullptr;
  const std::size_t layer = std::strtoul(id.c_str() + begin, &end, 10);
  if (end == id.c_str() + begin || layer >= model.layers.size()) return id;
  std::string label = model.layers[layer].label;
  for (char& sign : label) sign = sign == ' ' || sign == '/' ? '-' : sign;
  return id.substr(0, at + 1) + label + end;
}

}  // namespace afterglow
