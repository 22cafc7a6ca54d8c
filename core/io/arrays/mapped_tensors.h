// A memory-mapped safetensors file: the header is read and checked, the system loads pages of numbers when they are
// read.
#pragma once
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/io/host_tensor.h"

namespace afterglow {

/// A tensor in a mapped file.
struct TensorView {
  std::string name;
  StoredType type = StoredType::f32;
  std::string other_type;  ///< a type that is not read, in the place of `type`
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

/// Lets the system take the pages of a mapped file that lie within `bytes` out of this program's memory; they come back
/// when they are read again.
void give_back_pages(std::span<const std::byte> bytes);

class MappedTensors {
 public:
  /// Checks the header against the file's size, as read_safetensors does. Throws Error(bad_input) naming the file.
  explicit MappedTensors(const std::filesystem::path& path);

  /// In the order of their bytes; valid for the lifetime of this object.
  const std::vector<TensorView>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// All bytes of the file.
  std::span<const std::byte> bytes() const { return {file_.get(), file_.get_deleter().size}; }

 private:
  struct Unmap {
    std::size_t size = 0;
    void operator()(const std::byte* begin) const;
  };
  using Mapping = std::unique_ptr<const std::byte[], Unmap>;
  static Mapping mapped(const std::filesystem::path& path);
  Mapping file_;
  std::vector<TensorView> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace afterglow
