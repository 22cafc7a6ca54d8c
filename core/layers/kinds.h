// One function per layer kind; registry.cpp lists them. A new layer adds a line here and one there.
#pragma once
#include "core/layers/layer.h"

namespace afterglow {

LayerKind ska_kind();
LayerKind koopman_mlp_kind();
LayerKind mamba2_kind();
LayerKind linear_attention_kind();
LayerKind attention_kind();
LayerKind swiglu_kind();

}  // namespace afterglow
