// A safetensors file that stays where it is: its header is read and checked, its numbers are pages of the file, which
// the system brings in when they are read.
#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/io/host_tensor.h"

namespace afterglow {

/// Numbers that lie in a mapped file.
struct TensorView {
  std::string name;
  StoredType type = StoredType::f32;
  std::string other_type;  ///< a type that is not read, in the place of `type`
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

class MappedTensors {
 public:
  /// Checks the header against the file's size, as read_safetensors does. Throws Error(bad_input) naming the file.
  explicit MappedTensors(const std::filesystem::path& path);
  ~MappedTensors();
  MappedTensors(MappedTensors&& other) noexcept;
  MappedTensors& operator=(MappedTensors&& other) noexcept;

  /// In the order of their bytes; valid as long as this lives.
  const std::vector<TensorView>& tensors() const { return tensors_; }
  /// All bytes of the file.
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
  std::vector<TensorView> tensors_;
};

}  // namespace afterglow
