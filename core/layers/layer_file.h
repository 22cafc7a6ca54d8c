// One layer run from a file, for checking it against any other implementation: what `afterglow layer` does.
#pragma once
#include <filesystem>

#include "core/backend/backend.h"

namespace afterglow {

/// Reads a safetensors file with the metadata `layer` (a kind) and `config` (its JSON) and the tensors `param.<name>`,
/// `x` [B,T,d], optionally `mask` [B,T] of 0 and 1 and `grad_y` [B,T,d]. Runs the layer in `dtype` and writes `y`, with
/// `grad_y` also `grad.x` and `grad.<name>` (of sum(y * grad_y)), and the probes `probe.<name>`. In recurrent mode the
/// probes are taken at the steps of `probe.steps` if the file has them, else at all of up to 16 steps, else at the
/// first two, the middle and the last one; the result names them in `probe.steps`.
/// A file that cannot be used is an Error(bad_input) that names file, tensor and remedy.
void run_layer_file(const std::filesystem::path& input, const std::filesystem::path& output, Backend& backend,
                    DType dtype);

}  // namespace afterglow
