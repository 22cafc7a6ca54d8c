// Writing safetensors files where others may be.
#pragma once
#include "core/io/atomic_file.h"
#include "core/io/safetensors.h"

namespace afterglow {

/// As write_safetensors (safetensors.h), with a say in what becomes of a file that has the name already. Returns the
/// name that the new one has.
std::filesystem::path write_safetensors(const std::filesystem::path& path, const TensorFile& file, Existing existing);

}  // namespace afterglow
