// Tensors as in files: a name, a type, a shape and row-major little-endian bytes in host memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace afterglow {

/// The element types that are read and written, in the order in which a safetensors file sorts them (last one first).
enum class StoredType : std::uint8_t { boolean, u8, f16, bf16, i32, f32, f64, i64 };

/// Bytes of one element.
std::size_t size_of(StoredType type);
/// The name in a safetensors header: "BOOL", "U8", "F16", "BF16", "I32", "F32", "F64", "I64".
const char* name_of(StoredType type);
std::optional<StoredType> stored_type_of(std::string_view name);

/// The bytes of a tensor of this shape; nullopt if an extent is negative or the size does not fit into 63 bits.
std::optional<std::uint64_t> bytes_of(StoredType type, std::span<const std::int64_t> shape);

/// An empty shape is a scalar with one element.
struct HostTensor {
  std::string name;
  StoredType type = StoredType::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;  ///< `elements() * size_of(type)` of them

  std::int64_t elements() const;
};

/// A tensor from floats, doubles, 32-bit, 64-bit or unsigned 8-bit integers; their number must be the product of the
/// shape, else Error(failure).
template <class Value>
HostTensor make_tensor(std::string name, std::vector<std::int64_t> shape, std::span<const Value> values);

/// The elements of any stored type as numbers: exact except for I64 above 2^53; booleans become 0 and 1.
std::vector<double> to_doubles(const HostTensor& tensor);
/// The same, rounded to the nearest float where the stored type is more precise.
std::vector<float> to_floats(const HostTensor& tensor);
/// Writes the elements of a floating type as floats, or as bfloat16 by `to_bfloat`, into `values`, which has room for
/// them all.
void convert(StoredType type, std::span<const std::byte> bytes, std::span<float> values);
void convert(StoredType type, std::span<const std::byte> bytes, std::span<std::uint16_t> values);
/// The elements of a tensor of whole numbers; Error(bad_input) for a floating type.
std::vector<std::int64_t> to_integers(const HostTensor& tensor);

}  // namespace afterglow
