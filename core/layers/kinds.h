// One function per layer kind; registry.cpp lists them. A new layer adds a line here and one there.
#pragma once
#include "core/layers/layer.h"

namespace afterglow {

LayerKind attention_kind();
LayerKind swiglu_kind();

}  // namespace afterglow
