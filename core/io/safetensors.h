// Reader and writer of safetensors files, the format of snapshots and golden files, which Python opens as well.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/io/atomic_file.h"
#include "core/io/host_tensor.h"

namespace afterglow {

struct TensorFile {
  std::map<std::string, std::string> metadata;  ///< `__metadata__`: strings only
  std::vector<HostTensor> tensors;              ///< in the order of their bytes in the file
  std::map<std::string, std::string> unread{};  ///< tensors of types that are not read, with the types

  /// nullptr without a tensor of that name.
  const HostTensor* find(std::string_view name) const;
};

/// The tensor `name` of a file; else Error(bad_input) that names `where` (the file) and the nearest existing name.
const HostTensor& require_tensor(const TensorFile& file, std::string_view name, std::string_view where);

/// Reads and checks a whole file: sizes are compared with the file's real size before anything is allocated, so a
/// damaged file costs about its own size (at worst, when its header lists nothing but empty tensors, four times).
/// Throws Error(bad_input) naming file, tensor, field and remedy. NaN and infinite elements are data like any other.
TensorFile read_safetensors(const std::filesystem::path& path);

/// Writes atomically. The bytes depend on the content only, not on the order of `file.tensors`: they are sorted as the
/// reference implementation does, widest type first, then by name. Throws Error(failure) for duplicated or reserved
/// names, text that is not UTF-8, and bytes that do not fit a shape; errors of the disk as write_file_atomically.
std::filesystem::path write_safetensors(const std::filesystem::path& path, const TensorFile& file,
                                        Existing existing = Existing::replace);

}  // namespace afterglow
