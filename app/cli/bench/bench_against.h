// An earlier result of `afterglow bench --json`, with which a new one is compared.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/cli/output.h"

namespace afterglow {

class EarlierBench {
 public:
  /// Throws Error(bad_input) for a file that is missing or no such result.
  explicit EarlierBench(const std::filesystem::path& file);
  /// Adds "before_ms" and "ratio" (new by old) to every row of `result` whose name was measured before, and
  /// "against": the file, its device and its precision; says each, what else differs, and what is new.
  void compare(nlohmann::json& result, const Output& output) const;

 private:
  std::filesystem::path file_;
  nlohmann::json earlier_;
};

}  // namespace afterglow
