// Conversions between the bytes of a stored tensor and numbers.
#include "core/io/host_tensor.h"

#include <array>
#include <bit>
#include <cstring>

#include "core/io/error.h"
#include "core/tensor/bfloat.h"

namespace afterglow {
namespace {

static_assert(std::endian::native == std::endian::little, "stored bytes are little-endian and are used as they are");

struct TypeInfo {
  const char* name;
  std::size_t size;
};
constexpr std::array<TypeInfo, 8> type_table = {
    {{"BOOL", 1}, {"U8", 1}, {"F16", 2}, {"BF16", 2}, {"I32", 4}, {"F32", 4}, {"F64", 8}, {"I64", 8}}};

/// IEEE binary16: a float with 5 exponent bits; its subnormals are normal floats.
float from_half(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16;
  const std::uint32_t exponent = (half >> 10) & 31u;
  const std::uint32_t fraction = half & 1023u;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  const std::uint32_t wide_exponent = exponent == 31 ? 255u : exponent + 112u;
  return std::bit_cast<float>(sign | wide_exponent << 23 | fraction << 13);
}

float from_bfloat(std::uint16_t value) { return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16); }

template <class Stored, class Out, class Convert>
void convert_into(std::span<const std::byte> bytes, std::span<Out> result, Convert convert) {
  for (std::size_t i = 0; i < result.size(); ++i) {
    Stored value;  // copied, because the bytes of a file need not be aligned
    std::memcpy(&value, bytes.data() + i * sizeof(Stored), sizeof(Stored));
    result[i] = static_cast<Out>(convert(value));
  }
}

/// Calls `round` for the elements of a floating type, as floats.
template <class Out, class Round>
void convert_floating(StoredType type, std::span<const std::byte> bytes, std::span<Out> values, Round round) {
  if (type == StoredType::f32) convert_into<float>(bytes, values, round);
  if (type == StoredType::f64)
    convert_into<double>(bytes, values, [&](double v) { return round(static_cast<float>(v)); });
  if (type == StoredType::f16) convert_into<std::uint16_t>(bytes, values, [&](auto v) { return round(from_half(v)); });
  if (type == StoredType::bf16)
    convert_into<std::uint16_t>(bytes, values, [&](auto v) { return round(from_bfloat(v)); });
}

template <class Stored, class Out, class Convert>
std::vector<Out> convert_all(const HostTensor& tensor, Convert convert) {
  std::vector<Out> result(tensor.bytes.size() / sizeof(Stored));
  convert_into<Stored, Out>(tensor.bytes, result, convert);
  return result;
}

template <class Out>
std::vector<Out> to_numbers(const HostTensor& tensor) {
  constexpr auto same = [](auto value) { return value; };
  const StoredType type = tensor.type;
  if (type == StoredType::boolean)
    return convert_all<std::uint8_t, Out>(tensor, [](std::uint8_t value) { return value != 0; });
  if (type == StoredType::u8) return convert_all<std::uint8_t, Out>(tensor, same);
  if (type == StoredType::f16) return convert_all<std::uint16_t, Out>(tensor, from_half);
  if (type == StoredType::bf16) return convert_all<std::uint16_t, Out>(tensor, from_bfloat);
  if (type == StoredType::i32) return convert_all<std::int32_t, Out>(tensor, same);
  if (type == StoredType::f32) return convert_all<float, Out>(tensor, same);
  if (type == StoredType::f64) return convert_all<double, Out>(tensor, same);
  return convert_all<std::int64_t, Out>(tensor, same);
}

}  // namespace

std::size_t size_of(StoredType type) { return type_table[static_cast<std::size_t>(type)].size; }

const char* name_of(StoredType type) { return type_table[static_cast<std::size_t>(type)].name; }

std::optional<StoredType> stored_type_of(std::string_view name) {
  for (std::size_t i = 0; i < type_table.size(); ++i) {
    if (name == type_table[i].name) return static_cast<StoredType>(i);
  }
  return std::nullopt;
}

std::optional<std::uint64_t> bytes_of(StoredType type, std::span<const std::int64_t> shape) {
  std::int64_t bytes = static_cast<std::int64_t>(size_of(type));
  for (const std::int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes)) return std::nullopt;
  }
  return static_cast<std::uint64_t>(bytes);
}

std::int64_t HostTensor::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

template <class Value>
HostTensor make_tensor(std::string name, std::vector<std::int64_t> shape, std::span<const Value> values) {
  constexpr StoredType type = std::is_same_v<Value, float>          ? StoredType::f32
                              : std::is_same_v<Value, double>       ? StoredType::f64
                              : std::is_same_v<Value, std::int32_t> ? StoredType::i32
                              : std::is_same_v<Value, std::int64_t> ? StoredType::i64
                                                                    : StoredType::u8;
  if (bytes_of(type, shape) != values.size_bytes())
    throw Error(ExitCode::failure, "tensor '", name, "': ", values.size(),
                " values are not what its shape takes; give one per element");
  const auto bytes = std::as_bytes(values);
  return {std::move(name), type, std::move(shape), {bytes.begin(), bytes.end()}};
}
template HostTensor make_tensor(std::string, std::vector<std::int64_t>, std::span<const float>);
template HostTensor make_tensor(std::string, std::vector<std::int64_t>, std::span<const double>);
template HostTensor make_tensor(std::string, std::vector<std::int64_t>, std::span<const std::int32_t>);
template HostTensor make_tensor(std::string, std::vector<std::int64_t>, std::span<const std::int64_t>);
template HostTensor make_tensor(std::string, std::vector<std::int64_t>, std::span<const std::uint8_t>);

std::vector<double> to_doubles(const HostTensor& tensor) { return to_numbers<double>(tensor); }

std::vector<float> to_floats(const HostTensor& tensor) { return to_numbers<float>(tensor); }

void convert(StoredType type, std::span<const std::byte> bytes, std::span<float> values) {
  convert_floating(type, bytes, values, [](float value) { return value; });
}

void convert(StoredType type, std::span<const std::byte> bytes, std::span<std::uint16_t> values) {
  convert_floating(type, bytes, values, to_bfloat);
}

std::vector<std::int64_t> to_integers(const HostTensor& tensor) {
  if (tensor.type == StoredType::f16 || tensor.type == StoredType::bf16 || tensor.type == StoredType::f32 ||
      tensor.type == StoredType::f64) {
    throw BadInput("tensor '", tensor.name, "' holds ", name_of(tensor.type),
                   " where whole numbers (BOOL, U8, I32 or I64) are expected; store it as such");
  }
  return to_numbers<std::int64_t>(tensor);
}

}  // namespace afterglow
