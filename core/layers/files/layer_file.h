// `afterglow layer`: runs one layer, or another kind with its own inputs and outputs, from a file, to compare it with
// other implementations.
#pragma once
#include <filesystem>

#include "core/backend/backend.h"

namespace afterglow {

/// Reads a safetensors file with the metadata `layer` (a kind) and `config` (its JSON), the tensors `param.<name>` and
/// the inputs. A layer has `x` [B,T,d], optionally `mask` [B,T] of 0 and 1, and the output `y`; the kinds of
/// file_kinds.cpp name their own. Runs it in `dtype` and writes the outputs; where `grad_y` is given also
/// `grad.<input>` and `grad.<name>` (of sum(y * grad_y)); and the captures `capture.<name>`. In recurrent mode of `ska`
/// the captures are taken at the steps of `capture.steps` if the file has them, else at all of up to 16 steps, else at
/// the first two, the middle and the last one; the result names them in `capture.steps`. A file that cannot be used is
/// an Error(bad_input) that names file, tensor and remedy.
void run_layer_file(const std::filesystem::path& input, const std::filesystem::path& output, Backend& backend,
                    DType dtype);

}  // namespace afterglow
