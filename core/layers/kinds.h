// One function per layer kind; registry.cpp lists them. A new layer adds a line here and one there. So does what runs
// from a file beside the layers; file_kinds.cpp lists that.
#pragma once
#include "core/layers/file_run.h"
#include "core/layers/layer.h"

namespace afterglow {

LayerKind ska_kind();
LayerKind koopman_mlp_kind();
LayerKind mamba2_kind();
LayerKind mamba3_kind();
LayerKind linear_attention_kind();
LayerKind gka_kind();
LayerKind deltanet_kind();
LayerKind gated_deltanet_kind();
LayerKind gla_kind();
LayerKind kalman_kind();
LayerKind attention_kind();
LayerKind swiglu_kind();
LayerKind sessa_kind();

FileKind deltanet_core();
FileKind gated_deltanet_core();
FileKind gla_core();

}  // namespace afterglow
