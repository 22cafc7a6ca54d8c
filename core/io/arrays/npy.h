// NumPy's files: reading whole numbers from .npy, and writing arrays as .npz.
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "core/io/atomic_file.h"
#include "core/io/host_tensor.h"

namespace afterglow {

struct WholeNumbers {
  std::vector<std::int64_t> shape, values;
};

/// An array of whole numbers of any width. Throws Error(bad_input) that names the file and what to do for anything
/// else.
WholeNumbers read_npy_integers(const std::filesystem::path& path);

/// All tensors as arrays under their names, which `numpy.load` reads; bfloat16, which NumPy does not know, as float32.
/// Returns the name that the file has then. Throws Error(failure) for more than 4 GiB.
std::filesystem::path write_npz(const std::filesystem::path& path, std::span<const HostTensor> tensors,
                                Existing existing);

}  // namespace afterglow
