// The options of the commands about lessons.
#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "app/cli/command_line.h"

namespace afterglow {

struct CheckOptions {
  std::vector<std::string> lessons;  ///< names or files; empty: all included lessons
  bool lists_names = false;          ///< list the numbers after the last step of a lesson or of a preset
};
struct GradeOptions {
  std::string lesson, recipe;
};
struct HandoutOptions {
  std::string lesson;
  std::filesystem::path pdf, html;
};

/// Whether it is the name of a lesson of the program.
bool is_lesson(const std::string& word);

nlohmann::json check(const CheckOptions& options, const CommonOptions& common, Output& output);
nlohmann::json grade(const GradeOptions& options, const CommonOptions& common, Output& output);
nlohmann::json handout(const HandoutOptions& options, const CommonOptions& common, Output& output);

}  // namespace afterglow
