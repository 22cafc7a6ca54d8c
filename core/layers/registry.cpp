// The list of layer kinds, and making a layer by name.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/io/error.h"
#include "core/io/wording.h"
#include "core/layers/kinds.h"

namespace afterglow {

const std::vector<LayerKind>& layer_kinds() {
  static const std::vector<LayerKind> kinds{
      ska_kind(),       koopman_mlp_kind(),    mamba2_kind(),   mamba3_kind(), linear_attention_kind(),
      gka_kind(),       gated_deltanet_kind(), deltanet_kind(), gla_kind(),    kalman_kind(),
      attention_kind(), swiglu_kind(),         sessa_kind(),
  };
  return kinds;
}

const LayerKind* find_layer_kind(std::string_view name) {
  const std::vector<LayerKind>& kinds = layer_kinds();
  const auto found = std::find_if(kinds.begin(), kinds.end(), [&](const LayerKind& k) { return k.name == name; });
  return found != kinds.end() ? &*found : nullptr;
}

std::unique_ptr<Layer> make_layer(std::string_view kind, const nlohmann::json& config,
                                  const ParameterScope& parameters) {
  if (const LayerKind* found = find_layer_kind(kind)) return found->make(config, parameters);
  std::vector<std::string> names;
  for (const LayerKind& known : layer_kinds()) names.push_back(known.name);
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  throw Error(ExitCode::bad_input,
              "there is no layer kind " + in_quotes(kind) + did_you_mean(kind, names) + "; there are " + list);
}

}  // namespace afterglow
