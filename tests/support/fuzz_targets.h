// What any bytes must not do to a reader: each target opens them as one format and checks what has to hold whatever
// they are. Run on a corpus and its mutations by tests/core/fuzz, and by libFuzzer (`./dev fuzz`).
#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace afterglow {

struct FuzzTarget {
  std::string_view name;  ///< of its folder in tests/fuzz/corpus
  /// Returns when the bytes were read and hold what they must, throws Error(bad_input) when they are refused. Anything
  /// else is a defect.
  void (*open)(const std::string& bytes);
};

std::span<const FuzzTarget> fuzz_targets();
/// Throws std::out_of_range that lists the names.
const FuzzTarget& find_fuzz_target(std::string_view name);

/// Whether the bytes were read (true) or refused with a sentence (false); throws std::logic_error where a property does
/// not hold, and whatever else the reader threw.
bool opens(const FuzzTarget& target, const std::string& bytes);

}  // namespace afterglow
