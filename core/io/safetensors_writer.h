// Writes safetensors files over or next to existing ones.
#pragma once
#include "core/io/atomic_file.h"
#include "core/io/safetensors.h"

namespace afterglow {

/// As write_safetensors (safetensors.h); `existing` decides about a file of that name. Returns the name of the new
/// file.
std::filesystem::path write_safetensors(const std::filesystem::path& path, const TensorFile& file, Existing existing);

}  // namespace afterglow
