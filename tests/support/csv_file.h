// Reads a CSV file that a test has written or the program under test.
#pragma once
#include <filesystem>

#include "core/io/csv.h"

namespace afterglow {

inline CsvTable read_csv(const std::filesystem::path& path, std::size_t max_bytes = csv_limit) {
  return parse_csv(read_file(path, max_bytes), path.string());
}

}  // namespace afterglow
