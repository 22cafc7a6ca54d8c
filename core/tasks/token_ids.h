// Token numbers from a file: NumPy's .npy, safetensors (`input_ids`), or a text of numbers.
#pragma once
#include <cstdint>
#include <filesystem>
#include <vector>

namespace afterglow {

struct TokenIds {
  std::int64_t sequences = 0, length = 0;
  std::vector<std::int32_t> values;  ///< [sequences, length]
};

/// One sequence [T] or several [B,T]; in a text each line with numbers is a sequence. Throws Error(bad_input) that
/// names file and place for anything else, and for a number that is not in 0 .. vocab - 1.
TokenIds read_token_ids(const std::filesystem::path& path, std::int64_t vocab);

}  // namespace afterglow
