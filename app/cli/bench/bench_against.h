// An earlier result of `afterglow bench --json`, with which a new one is compared.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/cli/output.h"

namespace afterglow {

class EarlierBench {
 public:
  /// Throws Error(bad_input) where the file is missing or is not such a result.
  explicit EarlierBench(const std::filesystem::path& file);
  /// Adds "before_ms" and "ratio" (new divided by old) to every row of `result` whose name the earlier result has, and
  /// "against": the earlier file, its device and precision. Prints each row, other differences, and the new rows.
  void compare(nlohmann::json& result, const Output& output) const;

 private:
  std::filesystem::path file_;
  nlohmann::json earlier_;
};

}  // namespace afterglow
