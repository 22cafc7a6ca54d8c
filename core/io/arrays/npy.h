// NumPy's files: reads whole numbers from .npy and .npz, and writes arrays as .npz.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/io/atomic_file.h"
#include "core/io/host_tensor.h"

namespace afterglow {

struct WholeNumbers {
  std::vector<std::int64_t> shape, values;
};

/// The form of whole numbers in a file.
struct NumberForm {
  bool is_signed = true;
  std::size_t size = 8;  ///< bytes, at most 8
  bool is_big_endian = false;
};

/// The elements in `bytes`, row-major. Throws Error(bad_input) where their number is not that of the shape.
WholeNumbers whole_numbers(std::span<const std::byte> bytes, std::vector<std::int64_t> shape, const NumberForm& form,
                           const std::filesystem::path& path);

/// An array of whole numbers of any width, byte order and order of axes (up to two axes of Fortran's). Throws
/// Error(bad_input) that names the file and what to do for anything else.
WholeNumbers read_npy_integers(const std::filesystem::path& path);

/// Of an archive of arrays, compressed or not, those with these names; an archive's only array goes by the first name.
std::map<std::string, WholeNumbers> read_npz_integers(const std::filesystem::path& path,
                                                      const std::vector<std::string>& names);

/// All tensors as arrays under their names, which `numpy.load` reads; bfloat16, which NumPy does not have, as float32.
/// Returns the name of the written file. Throws Error(failure) for more than 4 GiB.
std::filesystem::path write_npz(const std::filesystem::path& path, std::span<const HostTensor> tensors,
                                Existing existing);

}  // namespace afterglow
