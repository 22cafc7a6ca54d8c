// Token numbers from a file: NumPy's arrays, safetensors, nanoGPT's .bin, JSON, or a text of numbers.
#pragma once
#include <cstdint>
#include <filesystem>
#include <vector>

namespace afterglow {

struct TokenIds {
  std::int64_t sequences = 0, length = 0;
  std::vector<std::int32_t> values;  ///< [sequences, length]; 0 where a sequence is padded
  /// The positions of a sequence that are not padding, [begin, end).
  struct Real {
    std::int64_t begin = 0, end = 0;
  };
  std::vector<Real> real;

  std::int64_t padding() const;              ///< padded positions of all sequences
  std::vector<std::int32_t> tokens() const;  ///< of all sequences, without padding
};

/// One sequence [T] or several [B,T]: .npy, .npz and .safetensors with `input_ids`, .bin with 16-bit numbers, JSON
/// (lists, or objects with `input_ids`, also one a line), or a text with one sequence per pair of brackets, or without
/// brackets per line. Positions at the ends that an `attention_mask` in the same file leaves out are padding. Throws
/// Error(bad_input) that names file and place for anything else, and for a number that is not in 0 .. vocab - 1.
TokenIds read_token_ids(const std::filesystem::path& path, std::int64_t vocab);

}  // namespace afterglow
