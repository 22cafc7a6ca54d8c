// Matrices of 16-bit numbers in shared memory, in the layout of warp-group products (hopper/warpgroup.cuh), which
// warp_products.cuh multiplies on all GPUs.
#pragma once
#include <cstdint>

namespace afterglow::device::warpgroup {

constexpr int threads = 128;

/// Descriptor of an operand in shared memory.
using Operand = std::uint64_t;

/// A matrix of `rows` rows in shared memory in blocks of 64 columns, 128 bytes a row. The 128-byte swizzle permutes a
/// row's 16-byte vectors, so that neither rows nor columns of vectors have bank conflicts.
template <int rows>
struct Panel {
  static constexpr int block_bytes = rows * 128;
  static constexpr int bytes(int columns) { return (columns + 63) / 64 * block_bytes; }

  unsigned char* memory;  ///< aligned to 1024 bytes

  /// Byte offset of a number; the 8 columns of one vector are contiguous.
  static __device__ unsigned place(unsigned row, unsigned column) {
    return column / 64 * block_bytes + row * 128 + ((column % 64 * 2) ^ (row % 8 * 16));
  }
  /// Operand whose inner dimension is columns 16 k to 16 k + 15; its rows are the columns of the product.
  __device__ Operand by_column(int k) const { return operand(k / 4 * block_bytes + k % 4 * 32); }
  /// Operand whose inner dimension is rows 16 k to 16 k + 15, from column 64 block on; `transposed` in multiply.
  __device__ Operand by_row(int k, int block = 0) const { return operand(block * block_bytes + k * 16 * 128); }

 private:
  /// 128-byte swizzle; 1024 bytes from 8 rows to the next 8, a block from 64 columns to the next 64.
  __device__ Operand operand(int offset) const {
    const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(memory)) + offset;
    const std::uint32_t low = address / 16 | block_bytes / 16 << 16, high = 1024 / 16 | 1u << 30;
    return static_cast<Operand>(high) << 32 | low;
  }
};

/// Types of the operands, by their names in PTX.
struct Bf16Operands {
  static constexpr char name[] = "bf16";
};
struct HalfOperands {
  static constexpr char name[] = "f16";
};

}  // namespace afterglow::device::warpgroup
